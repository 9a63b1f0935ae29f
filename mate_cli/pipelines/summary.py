"""What a run prints: its parts at the start, its figures at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from mate_cli.metrics.parts import length_parts
from mate_cli.runs.callbacks.progress import in_percent
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.tokenization.cuts import describe_cuts

if TYPE_CHECKING:
    from mate_cli.data.batching import Schedule
    from mate_cli.data.table_data_module import TrainingSet
    from mate_cli.pipelines.assembly import Parts
    from mate_cli.pipelines.training import Run

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
    "denotation_accuracy": "denotation accuracy",
    "official_accuracy": "official accuracy",
    "sequence_accuracy": "whole sequence",
}
"""Headings of scores, in their order; others follow under their own names."""
GROUPS = {"": "total", "table": "in-table", "passage": "in-passage"}
"""Parts of the questions, likewise."""


def print_start(run: Run, parts: Parts, schedule: Schedule, training: TrainingSet, done: int) -> None:
    """Print the parameter table, where the weights come from, the schedule, what was cut and the run's folder."""
    console = run.console
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
    if len(training.cuts):
        console.print(f"to fit {parts.serializer.max_tokens:,} tokens: {describe_cuts(training.cuts)}")
    for name in ("unusable, train", "not encoded, train"):
        if name in run.record.facts:
            console.print(f"{name}: {run.record.facts[name]}")
    for name, reason in list(training.failures.items())[:3]:
        console.print(f"[yellow]not encoded:[/] {name}: {reason}")
    if done:
        console.print(f"resuming after step {done:,}")
    console.print(f"run folder: {run.folder.path}", soft_wrap=True)


def print_results(console: Console, folder: RunFolder, record: RunRecord) -> None:
    """Print the metrics by split, in percent, with the baselines below, and where everything lies."""
    console.print(results_table(record.metrics, f"{record.experiment}: {record.model}, seed {record.seed}"))
    for name, fact in record.facts.items():
        console.print(f"{name}: {fact}")
    console.print(f"run folder: {folder.path}", soft_wrap=True)


def results_table(metrics: Mapping[str, float], title: str) -> Table:
    """A table like the MATE paper's: a row per split and kind of question, a column per metric, in percent."""
    known = [(split, score, part) for split, score, part in map(_parts, metrics) if not (part and _is_baseline(split))]
    scores = _in_order(METRICS, (score for _, score, _ in known))
    groups = _in_order(GROUPS, (part for _, _, part in known), last=length_parts())
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("split")
    table.add_column("questions")
    for score in scores:
        table.add_column(METRICS.get(score, score.replace("_", " ")), justify="right")
    for split in sorted({split for split, _, _ in known}, key=_order):
        rows = [group for group in groups if any(name[0] == split and name[2] == group for name in known)]
        for group in rows:
            values = [(score, metrics.get("/".join(filter(None, [split, score, group])))) for score in scores]
            cells = ["-" if value is None else in_percent(score, value) for score, value in values]
            first = split.removeprefix("baseline/") if group == rows[0] else ""
            style = "dim" if _is_baseline(split) else None
            label = GROUPS.get(group, group.replace("_", " "))
            table.add_row(first, label, *cells, style=style, end_section=group == rows[-1])
    return table


def _parts(name: str) -> tuple[str, str, str]:
    """Split, score and part: baseline/tfidf/dev/hits@1/table is of baseline/tfidf/dev, hits@1 of those in the table."""
    words = name.split("/")
    place = 3 if words[0] == "baseline" else 1
    split, score, part = words[:place], words[place : place + 1], words[place + 1 :]
    return "/".join(split), "/".join(score), "/".join(part)


def _in_order(order: Iterable[str], names: Iterable[str], last: Sequence[str] = ()) -> list[str]:
    """The names without repetition: those of an order in that order, then the others, and some at the end."""
    found = dict.fromkeys(names)
    others = [name for name in found if name not in order and name not in last]
    return [*(name for name in order if name in found), *others, *(name for name in last if name in found)]


def _is_baseline(split: str) -> bool:
    return split.startswith("baseline/")


def _order(split: str) -> tuple[bool, str]:
    return _is_baseline(split), split
