"""A run in progress: its folder, its record and where its numbers go, kept true however the work ends; and its words.

Its words about itself are tables that it prints, and facts for its record: which examples are learnt from, whole or
cut, and what was not learnt.
"""

from __future__ import annotations

import re
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from rich.table import Table
from rich.text import Text
from torch import nn

from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.table_data_module import TrainingSet
from mate_cli.errors import Interrupted, MateError, known_cause
from mate_cli.files.io_errors import find_machine_error
from mate_cli.lit_modules.base import COMPUTED, TableTask
from mate_cli.metrics.specs import MetricName, subset_rank
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.run_spec import RunSpec
from mate_cli.runs import ranks
from mate_cli.runs.lock import release_lock
from mate_cli.runs.metrics_file import Row, seconds_so_far
from mate_cli.runs.record import NOT_LEARNT, STOPPED, Clock, ReadOnlyFolder, RunFolder, RunRecord, now
from mate_cli.tables.example import TableExample
from mate_cli.terminal.console import Console, Transcript
from mate_cli.terminal.streams import copy_streams
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS, describe_cuts


@dataclass
class Run:
    """A run in progress, or a finished one.

    Args:
        record: its summary, written at every change of status.
        clock: seconds of wall time, earlier parts included.
        transcript: what the user has seen.
        loggers: of Lightning, where its numbers go; opened once there are some, in the first process.
        close_loggers: ends them with the summary, the steps and an exit code.
    """

    folder: RunFolder
    record: RunRecord
    clock: Clock
    console: Console
    transcript: Transcript
    loggers: list[Any] = field(default_factory=list)
    close_loggers: Callable[[list[Any], Mapping[str, float], int, int], object] | None = None

    @classmethod
    def of(cls, folder: RunFolder, record: RunRecord) -> Run:
        """Open the run in a folder, with the time that it has taken so far."""
        clock = Clock(seconds_so_far(folder, record))
        transcript = Transcript()
        return cls(folder, record, clock, Console(copy=transcript.write), transcript)


def broadcast_folder(make: Callable[[], RunFolder]) -> RunFolder:
    """Make or open a folder in the first process; the others have it to read.

    Raises:
        RunError: one of them does not see it.
    """
    folder = ranks.broadcast_from_rank_zero(make)
    return folder if ranks.is_rank_zero() else ReadOnlyFolder(folder.path)


@contextmanager
def record_outcome(run: Run) -> Iterator[None]:
    """Keep the record true however the work ends, close loggers, free the run; a refusal undoes what was written."""
    record, refused, before = run.record, False, run.folder.metrics_sizes()

    try:
        with copy_streams(run.transcript.write):
            yield
        record.status = "finished"
    except (Interrupted, KeyboardInterrupt) as error:
        record.status, record.reason = "interrupted", STOPPED
        raise KeyboardInterrupt from error
    except BaseException as error:
        told = (
            known_cause(error) or find_machine_error(error) or error
        )  # Hydra wraps what a class refuses that it builds
        record.status, record.reason = "failed", f"{type(told).__name__}: {told}"[:500]
        refused = isinstance(told, MateError) and run.folder.metrics_sizes() == before
        raise
    finally:
        record.finished, record.wall_seconds = now(), round(run.clock(), 1)
        record.peak_memory_mb = max(record.peak_memory_mb, peak_memory_mb())
        try:
            if refused:
                run.folder.undo()
            else:
                run.folder.write_record(record)
        finally:
            run.transcript.write(": ".join(filter(None, [record.status, record.reason])) + "\n")
            if run.close_loggers:
                code = 0 if record.status == "finished" else 1
                run.close_loggers(run.loggers, record.summary(), record.total_steps, code)
            release_lock(run.folder.path)


def peak_memory_mb() -> float:
    """Return the most memory that this process has held: of the GPU where it has used one, else its own."""
    if on_gpu := torch.cuda.max_memory_allocated():
        return round(on_gpu / 2**20, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def reused_runs_table(spec: RunSpec) -> Table:
    """Build a table of overrides and the stages that they hold for."""
    table = Table(title="What was typed, and which stage took it", title_justify="left", title_style="bold", box=None)
    table.add_column("typed", header_style="bold", overflow="fold")
    for stage in spec.stages:
        table.add_column(stage.name.replace("_", " "), header_style="bold", justify="center")
    for word, names in spec.taken.items():
        table.add_row(Text(word), *("✓" if stage.name in names else "-" for stage in spec.stages))
    return table


def print_start(run: Run, parts: Parts, schedule: Schedule, training: TrainingSet, done: int) -> None:
    """Print the parameter table, where the weights come from, the schedule, what was cut and the run's folder."""
    console = run.console
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("module", "left"), ("parameters", "right"), ("trainable", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for name, module in [*parts.task.encoder.named_children(), ("head", parts.task.head)]:
        table.add_row(str(name), *(f"{count:,}" for count in count_parameters(module)))
    table.add_row("all", *(f"{count:,}" for count in count_parameters(parts.task)), style="bold")
    console.print(table)
    console.print(parts.report.summary() if parts.report.loaded else "weights: random")
    for note in parts.report.notes:
        console.print(Text("note:", style="yellow") + Text(f" {note}", style="default"))
    console.print(
        f"{len(training):,} training examples, {training.lengths.mean():.0f} tokens on average; "
        f"{schedule.total_steps:,} steps of {schedule.batch_size} = {schedule.accumulate} x {schedule.micro_batch}"
        + (f" x {schedule.ranks} processes" if schedule.ranks > 1 else "")
    )
    if len(training.cuts):
        tokens = f"{parts.serializer.max_tokens:,} tokens"
        unit = getattr(parts.data.dataset, "unit", "tables")
        whole = f"all {len(training.cuts):,} {unit} fit into {tokens}, none is cut"
        console.print(f"to fit {tokens}: {describe_cuts(training.cuts, unit)}" if training.cuts.any() else whole)
    for name in ("left out, train", "not trained on", "not encoded, train"):
        if name in run.record.facts:
            console.print(f"{name}: {run.record.facts[name]}")
    for name, reason in list(training.failures.items())[:3]:
        console.print(Text("not encoded:", style="yellow") + Text(f" {name}: {reason}", style="default"))
    if done:
        console.print(f"resuming after step {done:,}")
    console.print(f"run folder: {run.folder.path}", soft_wrap=True)


def print_results(console: Console, folder: RunFolder, record: RunRecord, title: str = "") -> None:
    """Print the metrics by split, with the baselines below, what must be known of them, and where everything lies."""
    title = title or f"{record.experiment}: {record.model}, seed {record.seed}"
    console.print(results_table(record.metrics, title, record.counts))
    for name, fact in record.facts.items():
        console.print(f"{name}: {fact}", soft_wrap=True)
    console.print(f"run folder: {folder.path}", soft_wrap=True)


def results_table(metrics: Mapping[str, float], title: str, counts: Mapping[str, int] | None = None) -> Table:
    """Build a table like the MATE paper's: a row per split and subset of the questions, a column per metric.

    Args:
        metrics: fractions by name.
        title: above the table.
        counts: the number of questions behind each metric that is known, shown next to the subset.
    """
    counts = counts or {}
    known = [name for name in map(MetricName.parse, metrics) if not (name.baseline and name.part)]
    specs = sorted({name.spec for name in known}, key=lambda spec: (spec.order, spec.name))
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    # Never folded: baselines of several splits differ at the end of this column.
    table.add_column("split", no_wrap=True, min_width=max(map(len, map(_owner, known)), default=0))
    table.add_column("questions")
    for spec in specs:
        table.add_column(spec.title, justify="right")
    for owner, names in groupby(sorted(known, key=_place), key=_owner):
        rows = [list(same) for _, same in groupby(names, key=lambda name: name.part)]
        for place, same in enumerate(rows):
            texts = {name.spec: name.spec.text(metrics[name.full]) for name in same}
            cells = [texts.get(spec, "-") for spec in specs]
            style = "dim" if same[0].baseline else None
            sizes = sorted({counts[name.full] for name in same if name.full in counts})
            part = same[0].part_title + (
                f" ({'-'.join(f'{size:,}' for size in sizes[:1] + sizes[1:][-1:])})" if sizes else ""
            )
            table.add_row("" if place else owner, part, *cells, style=style, end_section=place == len(rows) - 1)
    return table


def _owner(name: MetricName) -> str:
    """Return the split, and the baseline before it: `dev` or `tfidf/dev`."""
    return "/".join(filter(None, [name.baseline, name.split]))


def _place(name: MetricName) -> tuple[bool, str, bool, int, str]:
    """Return the sort key: baselines below, splits in order, all questions before their subsets."""
    return bool(name.baseline), _owner(name), bool(name.part), subset_rank(name.part), name.part


def count_parameters(module: nn.Module) -> tuple[int, int]:
    """Count all parameters of a module, and those that are trained."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in module.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, trained in sizes if trained)


IN_WORDS = {
    "no answer": "without an answer",
    "no text": "without an answer",
    "missing": "whose answer is neither in their table nor in its passages",
    "not found": "whose answer is neither a cell of their table nor a number",
    "in several cells": "whose answer is in several cells (ambiguous)",
    "ambiguous": "with two answers in the same cell",
}
"""Reasons of datasets why a question teaches nothing, in words for people."""


def record_truncation(record: RunRecord, split: str, encodings: TrainingSet, unit: str = "tables") -> None:
    """Add to a record how many examples of a split were not encoded, or not whole, and say it in words.

    Its `data` gets `<split>/not_encoded`, and of the tables that were counted, for each of `TRUNCATION_COUNTS`, the
    number of examples from which something is missing. Its `facts` get a sentence where something is.
    """
    reasons = Counter(map(plain_reason, encodings.failures.values()))
    record.data[f"{split}/not_encoded"] = reasons.total()
    if reasons:
        record.facts[f"not encoded, {split}"] = counts_text(reasons)
    if len(encodings.cuts):
        counts = (encodings.cuts > 0).sum(0).tolist()
        record.data |= {f"{split}/{name}": count for name, count in zip(TRUNCATION_COUNTS, counts, strict=True)}
        if any(counts):
            record.facts[f"cut, {split}"] = describe_cuts(encodings.cuts, unit)


def describe_unscored(split: str, examples: Collection[TableExample]) -> dict[str, str]:
    """Return facts for a record: how many questions of a split are not scored, and how many are unanswerable."""
    scored = [example.answer for example in examples if example.answer is not None]
    unknown, null = len(examples) - len(scored), sum(answer.is_null for answer in scored)
    facts = {
        f"not scored, {split}": f"{unknown:,} of {len(examples):,} questions, whose answers are not known",
        f"unanswerable, {split}": f"{null:,} of {len(scored):,} scored questions",
    }
    return {name: fact for (name, fact), count in zip(facts.items(), (unknown, null), strict=True) if count}


def record_digest(record: RunRecord, split: str, encodings: object) -> None:
    """Add to a record what the examples of a split are; warn where they are not those that it began with."""
    digest = getattr(encodings, "digest", "")
    if digest and record.digests.setdefault(split, digest) != digest:
        warnings.warn(f"the questions or tables of {split} are not those that this run began with", stacklevel=2)


def record_skipped(record: RunRecord, examples: Sequence[TableExample], skip_reason: Callable[[Any], str]) -> None:
    """Add to a record how many training questions teach nothing, and why: what the task lacks of each."""
    reasons = Counter(IN_WORDS.get(reason, reason) for reason in map(skip_reason, examples) if reason)
    record.data["train/unusable"] = reasons.total()
    if reasons:
        record.facts["not trained on"] = f"of {len(examples):,} training questions read, {counts_text(reasons)}"


def plain_reason(reason: str) -> str:
    """Return a reason without its figures, so that equal ones are counted together."""
    return re.sub(r"^\d+ ", "", reason.partition(":")[0])


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts in words, the largest first."""
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def record_learning(record: RunRecord, rows: Sequence[Row], loss_counts: Mapping[str, Sequence[int]]) -> None:
    """Add to a record its best validation, and to its facts what was not learnt, where there is something.

    Args:
        record: of a run whose training has ended.
        rows: of its metrics.jsonl.
        loss_counts: see `TableTask`.
    """
    spec, best = MetricName.parse(record.monitor).spec, None
    for row in rows:
        score = row.get(record.monitor)
        if score is not None and spec.is_better(score, best):
            best, record.best = score, {record.monitor: score, "step": row["step"]}
    if faults := list(_faults(record.monitor, rows, loss_counts)):
        record.facts[NOT_LEARNT] = "; ".join(faults)


def _faults(monitor: str, rows: Sequence[Row], loss_counts: Mapping[str, Sequence[int]]) -> Iterator[str]:
    losses, scores = ([row[name] for row in rows if name in row] for name in ("train/loss", monitor))
    if losses and all(loss == 0 for loss in losses):
        yield "train/loss is 0 in every step"
    for kind, (examples, with_loss) in loss_counts.items():
        if examples and not with_loss:
            yield f"{kind} never have a loss: all are above task.answer_loss_cutoff, use task.answer_loss_cutoff=null"
    if scores and all(score == 0 for score in scores) and MetricName.parse(monitor).spec.direction > 0:
        yield f"{monitor} is 0 in every validation"


TRAINED = "training examples of this kind"


def record_never_selected(
    record: RunRecord,
    task: TableTask[Any, Any],
    training: Sequence[TableExample],
    predictions: Sequence[Any],
    examples: Mapping[str, TableExample],
) -> None:
    """Add to the facts of a record the aggregations that were trained on but never selected, or never right, on dev.

    Args:
        record: of the run.
        task: with the best weights.
        training: the examples of the training split.
        predictions: for the dev split.
        examples: of the dev split, by id.
    """
    selections = [task.selection(prediction) for prediction in predictions]
    selected = {selection.aggregation for selection in selections if selection is not None}
    answers = [example.answer for example in training if example.answer is not None]
    counts = Counter(answer.aggregation for answer in answers if answer.aggregation not in (None, "none"))
    faults = [
        f"no {kind} was ever selected; {TRAINED}: {count}" for kind, count in counts.items() if kind not in selected
    ]
    pairs = [(examples[prediction.example_id], prediction) for prediction in predictions if examples]
    for kind in counts.keys() & selected:
        asked = [pair for pair in pairs if pair[0].answer and pair[0].answer.aggregation == kind]
        if asked and not any(task.is_correct(prediction, example) for example, prediction in asked):
            faults.append(f"no {kind} was ever right on {len(asked)} dev questions; {TRAINED}: {counts[kind]}")
    computed = [answer for answer in answers if answer.aggregation is None and not answer.coordinates]
    numbers = sum(answer.number is not None for answer in computed)
    if COMPUTED in task.loss_counts and numbers and selected <= {"none"}:
        faults.append(f"no number was ever computed; {TRAINED}: {numbers}")
    if selected and faults:
        record.facts[NOT_LEARNT] = "; ".join([*filter(None, [record.facts.get(NOT_LEARNT)]), *faults])
