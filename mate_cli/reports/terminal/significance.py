"""The table of configurations against one of them, in the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from mate_cli.metrics.specs.names import MetricName
from mate_cli.metrics.specs.spec import MetricSpec
from mate_cli.reports.compare.significance import Difference, Significance
from mate_cli.reports.format import NOTHING
from mate_cli.reports.terminal.details import MOST_ROWS, frame
from mate_cli.terminal.console import Console

HEADINGS = ("Score", "Difference", "95 % interval", "p", "Questions", "Seeds")
BETTER, WORSE = "green", "red"


def print_significance(significance: Significance, console: Console) -> None:
    """Prints the table and what must be known to read it."""
    if significance.differences:
        console.print()
        console.print(significance_view(significance, plain=not console.is_terminal))
    notes = [f"{note[0].upper()}{note[1:]}." for note in significance.notes]
    if significance.differences and not console.is_terminal:
        notes.append("A star (*) marks p < 0.05.")
    console.print()
    console.print(Text(" ".join(notes), style="dim"))


def significance_view(significance: Significance, *, plain: bool) -> Table:
    """Draws the table; differences with p < 0.05 are coloured, or starred without a terminal."""
    metric = MetricName.parse(significance.metric)
    view = frame(f"Against {significance.against}: {metric.title}")
    view.add_column("Configuration", overflow="fold", min_width=13)
    for name in HEADINGS:
        view.add_column(name, justify="right", no_wrap=True)
    for one in significance.differences[:MOST_ROWS]:
        score, difference, *rest = difference_texts(one, metric.spec)
        style = (BETTER if metric.spec.is_better(one.difference, 0) else WORSE) if one.is_significant else ""
        star = "*" if plain and one.is_significant else ""
        view.add_row(Text(one.label), score, Text(star + difference, style=style), *rest)
    if len(significance.differences) > MOST_ROWS:
        view.caption = f"{len(significance.differences) - MOST_ROWS} more on the page"
    return view


def difference_texts(one: Difference, spec: MetricSpec) -> list[str]:
    """Writes score, difference, interval, p, questions and seeds; the same in the terminal and on the page."""
    return [
        spec.text(one.score),
        spec.difference_text(one.difference),
        f"{spec.difference_text(one.low)} to {spec.difference_text(one.high)}",
        p_text(one.p),
        str(one.questions),
        str(one.seeds),
    ]


def p_text(p: float | None) -> str:
    """Writes a probability: <0.001, 0.034, 0.51."""
    if p is None:
        return NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
