"""A comparison as LaTeX tables in the style of booktabs, ready to be put into a paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.costs import recorded_costs
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.statistics import CENTERS, SPREADS, Summary
from mate_cli.reports.compare.tables import Mark, ResultRow, ResultTable, result_tables
from mate_cli.reports.format import NOTHING, center_text, spread_text

SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "·": r"$\cdot$",
        "±": r"$\pm$",
        "<": "$<$",
        ">": "$>$",
        "–": "--",  # noqa: RUF001
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    }
)
COMMANDS: dict[Mark, str] = {"best": r"\textbf{%s}", "close": r"\underline{%s}", "": "%s"}
WIDE = 7


def report_latex(report: Report) -> str:
    """Writes a table per dataset and family of metrics, all splits beside each other, and one of costs."""
    tables = result_tables(report.groups, report.metric, published=bool(report.published), wide=True)
    head = [
        r"% Needs \usepackage{booktabs}.",
        *(f"% {note[0].upper()}{note[1:]}." for note in report.notes),
    ]
    return (
        "\n".join(head) + "\n\n" + "\n\n".join([*(result_text(table, report) for table in tables), cost_text(report)])
    )


def result_text(table: ResultTable, report: Report) -> str:
    """Writes one table of results."""
    marked = [
        row_text(row, table, [table.mark(index, cell) for index, cell in enumerate(row.cells)]) for row in table.rows
    ]
    body = [*headings(table.columns), r"\midrule", *marked]
    plain: list[Mark] = [""] * len(table.columns)
    if table.baselines:
        body += [r"\midrule", *(row_text(row, table, plain) for row in table.baselines)]
    if table.published:
        title = rf"\multicolumn{{{len(table.columns) + 2}}}{{l}}{{\textit{{Published}}}} \\"
        body += [r"\midrule", title, *(row_text(row, table, plain) for row in table.published)]
    caption = [", ".join(filter(None, [escaped(table.title), table.unit])) + "."]
    if any((row.repeats or 0) > 1 for row in table.rows):
        caption.append(rf"{CENTERS[report.statistic].capitalize()} $\pm$ {SPREADS[report.statistic]} over $n$ runs.")
    caption += ["Bold: best."] * ("best" in table.marks)
    caption += ["Underlined: no further from the best than its own spread."] * ("close" in table.marks)
    return environment("l" + "r" * (len(table.columns) + 1), body, " ".join(caption), table.title)


def headings(columns: Sequence[MetricName]) -> list[str]:
    """Writes the heading lines: the splits, the parts of the questions if there are any, the scores."""
    lines = []
    levels: list[Callable[[MetricName], str]] = [lambda column: column.split.capitalize()]
    if any(column.part for column in columns):
        levels.append(lambda column: f"{column.split}/{column.part_title}")
    for level in levels:
        spans = [(name.rpartition("/")[2], len(list(same))) for name, same in groupby(columns, key=level)]
        heads = (rf"\multicolumn{{{span}}}{{c}}{{{escaped(name)}}}" for name, span in spans)
        lines += [" & " + " & ".join(heads) + r" & \\", rules([span for _, span in spans])]
    scores = " & ".join(escaped(column.short) for column in columns)
    return [*lines, rf"Model & {scores} & $n$ \\"]


def rules(spans: Sequence[int]) -> str:
    """Writes a thin rule below each group of columns."""
    ends = [1 + sum(spans[: index + 1]) for index in range(len(spans))]
    return " ".join(rf"\cmidrule(lr){{{end - span + 1}-{end}}}" for end, span in zip(ends, spans, strict=True))


def row_text(row: ResultRow, table: ResultTable, marks: Sequence[Mark]) -> str:
    """Writes one row."""
    columns = zip(row.cells, table.columns, marks, strict=True)
    cells = [cell_text(cell, metric, mark) for cell, metric, mark in columns]
    return " & ".join([escaped(row.short or row.label), *cells, str(row.repeats or "")]) + r" \\"


def cell_text(cell: Summary | None, metric: MetricName, mark: Mark) -> str:
    r"""Writes `\textbf{62.8}{\scriptsize$\pm$0.4}`."""
    if cell is None:
        return escaped(NOTHING)
    spread = spread_text(cell, metric)
    return COMMANDS[mark] % center_text(cell, metric) + (rf"{{\scriptsize$\pm${spread}}}" if spread else "")


def cost_text(report: Report) -> str:
    """Writes what each configuration cost."""
    costs = recorded_costs(report.groups)
    body = [
        " & ".join(["Model", *(escaped(cost.name) for cost in costs)]) + r" \\",
        r"\midrule",
        *(
            " & ".join([escaped(group.label), *(escaped(cost.text(group)) for cost in costs)]) + r" \\"
            for group in report.groups
        ),
    ]
    return environment("l" + "r" * len(costs), body, "Cost.", "cost") + "\n"


def environment(columns: str, body: Sequence[str], caption: str, name: str) -> str:
    """Wraps the lines of a table; a wide one spans both columns of a page."""
    kind = "table*" if len(columns) > WIDE + 1 else "table"
    label = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "\n".join(
        [
            rf"\begin{{{kind}}}[t]",
            r"\centering",
            r"\small",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{'-'.join(label)}}}",
            rf"\end{{{kind}}}",
        ]
    )


def escaped(text: str) -> str:
    """Returns a text that LaTeX prints as it is."""
    return text.translate(SPECIAL)
