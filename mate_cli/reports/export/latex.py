"""A comparison as LaTeX tables in the style of booktabs, ready to be put into a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mate_cli.reports.all_sections import report_sections
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import CENTERS, SPREADS
from mate_cli.reports.view import Kind, Mark, Row, View, ViewCell, sentences

SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "·": r"$\cdot$",
        "±": r"$\pm$",
        "‡": r"$\ddagger$",
        "<": "$<$",
        ">": "$>$",
        "[": "{[}",
        "]": "{]}",
        "–": "--",  # noqa: RUF001
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    }
)
PAPER_NAMES = {"mate": "MATE", "tapas": "TAPAS", "sat": "SAT", "linformer": "Linformer", "dot": "DoT"}
"""Names of networks as papers print them, by the words that begin the names of rows."""
COMMANDS: dict[Mark, str] = {
    "best": r"\textbf{%s}",
    "close": r"\underline{%s}",
    "better": "%s$^{*}$",
    "worse": "%s$^{*}$",
    "": "%s",
}
MARK_NOTES: dict[Mark, str] = {
    "best": "Bold: best.",
    "close": "Underlined: within the spread of the best, or no further than chance among so many questions explains.",
    "better": "$^{*}$: $p < 0.05$.",
    "worse": "$^{*}$: $p < 0.05$.",
}
WIDE = 7
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""Begins what is made smaller where it is wider than the column."""


def report_latex(report: Report, names: Mapping[str, str] | None = None) -> str:
    """Write the tables of every section, all splits beside each other; what must be known as comments.

    Args:
        report: the comparison.
        names: of rows in LaTeX, by the labels of configurations.
    """
    notes = [f"% {sentences([note])}" for note in report.notes]
    parts = ["\n".join([r"% Needs \usepackage{booktabs,graphicx}.", *notes])]
    for section in report_sections(report, wide=True):
        parts += [view_latex(view, report, names or {}) for view in section.tables]
        parts.append("\n".join(f"% {sentences([note])}" for note in section.visible_notes))
    return "\n\n".join(filter(None, parts)) + "\n"


def view_latex(view: View, report: Report, names: Mapping[str, str]) -> str:
    """Write one table; columns of words are left out, and other rows than configurations stand apart."""
    places = [place for place, column in enumerate(view.columns) if column.is_number]
    body = [*headings(view, places), r"\midrule"]
    before: Kind = ""
    for row in view.rows:
        body += [r"\midrule"] * (row.kind not in (before, "bound"))
        if row.kind == "published" != before:
            body.append(rf"\multicolumn{{{len(places) + 1}}}{{l}}{{\textit{{Published}}}} \\")
        body.append(row_latex(row, places, names))
        before = row.kind
    caption = [", ".join(filter(None, [escape(view.heading), view.unit])) + "."]
    if view.columns[-1].title == "n" and any(cell.spread for row in view.rows if not row.kind for cell in row.cells):
        statistic = report.options.statistic
        caption.append(rf"{CENTERS[statistic].capitalize()} $\pm$ {SPREADS[statistic]} over $n$ runs.")
    caption += dict.fromkeys(note for mark, note in MARK_NOTES.items() if mark in view.marks)
    caption += [escape(sentences([note])) for note in view.notes]
    return environment("l" + "r" * len(places), body, " ".join(caption), view.title)


def headings(view: View, places: Sequence[int]) -> list[str]:
    """Write the heading lines: the groups with a rule below each, then what is left to say."""
    lines = []
    for level in range(view.levels):
        spans = view.spans(level)
        heads = (
            rf"\multicolumn{{{span}}}{{c}}{{{escape(name)}}}" if name else " & " * (span - 1) for name, span in spans
        )
        lines += [" & ".join(["", *heads]).rstrip() + r" \\", rules(spans)]
    heads = (escape(view.columns[place].heading.replace("\n", ", ")) for place in places)
    shown = ("$n$" if head == "n" else head for head in heads)
    return [*lines, " & ".join([escape("Model" if view.head == "Configuration" else view.head), *shown]) + r" \\"]


def rules(spans: Sequence[tuple[str, int]]) -> str:
    """Write a thin rule below each group of columns that has a name."""
    ends = [1 + sum(span for _, span in spans[: place + 1]) for place in range(len(spans))]
    told = [(end, span) for end, (name, span) in zip(ends, spans, strict=True) if name]
    return " ".join(rf"\cmidrule(lr){{{end - span + 1}-{end}}}" for end, span in told)


def row_latex(row: Row, places: Sequence[int], names: Mapping[str, str]) -> str:
    """Write one row."""
    first, space, rest = row.label.partition(" ")
    name = first if row.kind else PAPER_NAMES.get(first, first)
    head = names.get(row.label) or escape(f"{name}{space}{rest}")
    return " & ".join([head, *(cell_latex(row.cells[place]) for place in places)]) + r" \\"


def cell_latex(cell: ViewCell) -> str:
    r"""Write `\textbf{62.8}{\scriptsize$\pm$0.4}`."""
    spread = rf"{{\scriptsize$\pm${cell.spread}}}" if cell.spread else ""
    text = escape(cell.text)
    return COMMANDS[cell.mark] % (text.replace("-", "$-$") if cell.has_minus else text) + spread


def environment(columns: str, body: Sequence[str], caption: str, name: str) -> str:
    """Wrap the lines of a table; a wide one spans both columns of a page, and none is wider."""
    kind = "table*" if len(columns) > WIDE + 1 else "table"
    label = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "\n".join(
        [
            rf"\begin{{{kind}}}[t]",
            r"\centering",
            r"\small",
            FITTED,
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{'-'.join(label)}}}",
            rf"\end{{{kind}}}",
        ]
    )


def escape(text: str) -> str:
    """Return a text that LaTeX prints as it is."""
    return text.translate(SPECIAL)
