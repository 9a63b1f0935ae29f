"""What a run prints: its parts at the start, its figures at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from mate_cli.runs.record import RunFolder, RunRecord

if TYPE_CHECKING:
    from mate_cli.data.batching import Schedule
    from mate_cli.data.cache import EncodedSplit
    from mate_cli.pipelines.assembly import Parts

METRICS = {
    "hits@1": "Hits@1",
    "hits@3": "Hits@3",
    "hits@5": "Hits@5",
    "em": "EM",
    "f1": "F1",
    "gold_em": "EM, right cell",
    "gold_f1": "F1, right cell",
    "row_accuracy": "right row",
    "hop_accuracy": "right hop",
}
GROUPS = {"": "total", "table": "in-table", "passage": "in-passage"}


def print_start(
    console: Console, folder: RunFolder, parts: Parts, schedule: Schedule, training: EncodedSplit, done: int
) -> None:
    """Print the parameter table, where the weights come from, the schedule and the run's folder."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("module", "left"), ("parameters", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for name, module in [*parts.task.encoder.named_children(), ("head", parts.task.head)]:
        table.add_row(str(name), f"{sum(p.numel() for p in module.parameters()):,}")
    table.add_row("[bold]all[/]", f"[bold]{sum(p.numel() for p in parts.task.parameters()):,}[/]")
    console.print(table)
    console.print(parts.report.summary() if parts.report.loaded else "weights: random")
    console.print(
        f"{len(training):,} training examples, {training.lengths.mean():.0f} tokens on average; "
        f"{schedule.total_steps:,} steps of {schedule.batch_size} = {schedule.accumulate} x {schedule.micro_batch}"
        + (f" x {schedule.ranks} processes" if schedule.ranks > 1 else "")
    )
    for name, reason in list(training.failures.items())[:3]:
        console.print(f"[yellow]not encoded:[/] {name}: {reason}")
    if done:
        console.print(f"resuming after step {done:,}")
    console.print(f"run folder: {folder.path}", soft_wrap=True)


def print_results(console: Console, folder: RunFolder, record: RunRecord) -> None:
    """Print the metrics by split, in percent, with the baselines below, and where everything lies."""
    console.print(results_table(record.metrics, f"{record.experiment}: {record.model}, seed {record.seed}"))
    for name, fact in record.facts.items():
        console.print(f"{name}: {fact}")
    console.print(f"run folder: {folder.path}", soft_wrap=True)


def results_table(metrics: Mapping[str, float], title: str) -> Table:
    """A table like the MATE paper's: a row per split and kind of question, a column per metric, in percent."""
    kinds = [kind for kind in METRICS if any(f"/{kind}" in name for name in metrics)]
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("split")
    table.add_column("questions")
    for kind in kinds:
        table.add_column(METRICS[kind], justify="right")
    for split in sorted({split for name in metrics for split, _, _ in [_parts(name)]}, key=_order):
        for group, label in GROUPS.items():
            values = [metrics.get("/".join(filter(None, [split, kind, group]))) for kind in kinds]
            cells = ["-" if value is None else f"{100 * value:.1f}" for value in values]
            first = split.removeprefix("baseline/") if not group else ""
            if any(value is not None for value in values):
                style = "dim" if split.startswith("baseline/") else None
                table.add_row(first, label, *cells, style=style, end_section=group == "passage")
    return table


def _parts(name: str) -> tuple[str, str, str]:
    """Split, metric and group of a metric's name, such as baseline/tfidf/dev, hits@1 and table."""
    for kind in METRICS:
        if f"/{kind}" in name:
            split, _, group = name.partition(f"/{kind}")
            return split, kind, group.lstrip("/")
    return name, "", ""


def _order(split: str) -> tuple[bool, str]:
    return split.startswith("baseline/"), split
