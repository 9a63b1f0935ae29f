"""A comparison of runs as LaTeX tables in the style of booktabs, for papers."""

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
"""Names of networks as papers print them, by the first word of a row label."""
COMMANDS: dict[Mark, str] = {
    "best": r"\textbf{%s}",
    "close": r"\underline{%s}",
    "better": "%s$^{*}$",
    "worse": "%s$^{*}$",
    "": "%s",
}
MARK_NOTES: dict[Mark, str] = {
    "best": "Bold: best.",
    "close": "Underlined: not clearly worse than the best, within the spread or sampling noise.",
    "better": "$^{*}$: $p < 0.05$.",
    "worse": "$^{*}$: $p < 0.05$.",
}
WIDE = 7
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""LaTeX command that opens a box, which is scaled down if it is wider than the column."""


def report_latex(report: Report, names: Mapping[str, str] | None = None) -> str:
    """Convert the tables of a comparison to LaTeX, with all splits as columns of one table.

    Notes become LaTeX comments.

    Args:
        report: comparison to write.
        names: LaTeX names of rows, by the labels of configurations.
    """
    notes = [f"% {sentences([note])}" for note in report.notes]
    parts = ["\n".join([r"% Needs \usepackage{booktabs,graphicx}.", *notes])]
    for section in report_sections(report, wide=True):
        parts += [view_latex(view, report, names or {}) for view in section.tables]
        parts.append("\n".join(f"% {sentences([note])}" for note in section.visible_notes))
    return "\n\n".join(filter(None, parts)) + "\n"


def view_latex(view: View, report: Report, names: Mapping[str, str]) -> str:
    """Convert the numeric columns of a report table to LaTeX.

    Rules separate configurations, baselines and published results.

    Args:
        view: table to write.
        report: comparison of the table.
        names: LaTeX names of rows, by the labels of configurations.
    """
    indices = [index for index, column in enumerate(view.columns) if column.is_number]
    body = [*headings(view, indices), r"\midrule"]
    previous_kind: Kind = ""
    for row in view.rows:
        body += [r"\midrule"] * (row.kind not in (previous_kind, "bound"))
        if row.kind == "published" != previous_kind:
            body.append(rf"\multicolumn{{{len(indices) + 1}}}{{l}}{{\textit{{Published}}}} \\")
        body.append(row_latex(row, indices, names))
        previous_kind = row.kind
    caption = [", ".join(filter(None, [escape(view.heading), view.unit])) + "."]
    if view.columns[-1].title == "n" and any(cell.spread for row in view.rows if not row.kind for cell in row.cells):
        statistic = report.options.statistic
        caption.append(rf"{CENTERS[statistic].capitalize()} $\pm$ {SPREADS[statistic]} over $n$ runs.")
    caption += dict.fromkeys(note for mark, note in MARK_NOTES.items() if mark in view.marks)
    caption += [escape(sentences([note])) for note in view.notes]
    return environment("l" + "r" * len(indices), body, " ".join(caption), view.title)


def headings(view: View, places: Sequence[int]) -> list[str]:
    """Return the LaTeX heading lines of a table: column groups with rules, then column titles.

    Args:
        view: table to convert.
        places: indices of the numeric columns.
    """
    lines = []
    for level in range(view.levels):
        spans = view.spans(level)
        heads = (
            rf"\multicolumn{{{span}}}{{c}}{{{escape(name)}}}" if name else " & " * (span - 1) for name, span in spans
        )
        lines += [" & ".join(["", *heads]).rstrip() + r" \\", rules(spans)]
    heads = (escape(view.columns[index].heading.replace("\n", ", ")) for index in places)
    column_heads = ("$n$" if head == "n" else head for head in heads)
    return [
        *lines,
        " & ".join([escape("Model" if view.head == "Configuration" else view.head), *column_heads]) + r" \\",
    ]


def rules(spans: Sequence[tuple[str, int]]) -> str:
    """Return the LaTeX rules (partial horizontal lines) below column groups that have a name.

    Args:
        spans: (name, number of columns) of each group.
    """
    end_columns = [1 + sum(span for _, span in spans[: index + 1]) for index in range(len(spans))]
    named_spans = [(end, span) for end, (name, span) in zip(end_columns, spans, strict=True) if name]
    return " ".join(rf"\cmidrule(lr){{{end - span + 1}-{end}}}" for end, span in named_spans)


def row_latex(row: Row, places: Sequence[int], names: Mapping[str, str]) -> str:
    """Convert the numeric cells of a table row to LaTeX.

    Args:
        row: row to convert.
        places: indices of the numeric columns.
        names: LaTeX names of rows by label. Other rows use the paper's name of the network.
    """
    first, space, suffix = row.label.partition(" ")
    name = first if row.kind else PAPER_NAMES.get(first, first)
    head = names.get(row.label) or escape(f"{name}{space}{suffix}")
    return " & ".join([head, *(cell_latex(row.cells[index]) for index in places)]) + r" \\"


def cell_latex(cell: ViewCell) -> str:
    r"""Convert a table cell to LaTeX, such as `\textbf{62.8}{\scriptsize$\pm$0.4}`."""
    spread = rf"{{\scriptsize$\pm${cell.spread}}}" if cell.spread else ""
    text = escape(cell.text)
    return COMMANDS[cell.mark] % (text.replace("-", "$-$") if cell.has_minus else text) + spread


def environment(columns: str, body: Sequence[str], caption: str, name: str) -> str:
    """Wrap the lines of a LaTeX table in a float. A wide table spans both page columns.

    Args:
        columns: column specification of `tabular`.
        body: lines of the table.
        caption: caption in LaTeX.
        name: text from which the label is derived.
    """
    float_name = "table*" if len(columns) > WIDE + 1 else "table"
    label = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "\n".join(
        [
            rf"\begin{{{float_name}}}[t]",
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
            rf"\end{{{float_name}}}",
        ]
    )


def escape(text: str) -> str:
    """Escape the special characters of LaTeX in a text."""
    return text.translate(SPECIAL)
