"""State of a run in progress, whose record is correct however the run ends.

The module also prints the tables of a run. It adds facts to the record about skipped and truncated examples, and about
failures to learn.
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
from mate_cli.errors import Interrupted, MateError
from mate_cli.files.io_errors import find_known_error
from mate_cli.lit_modules.base import COMPUTED, TableTask
from mate_cli.metrics.specs import MetricName, subset_rank
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.run_spec import RunSpec
from mate_cli.runs import ranks
from mate_cli.runs.lock import release_lock
from mate_cli.runs.metrics_file import Row, seconds_so_far
from mate_cli.runs.record import NOT_LEARNT, STOPPED, Clock, ReadOnlyFolder, RunFolder, RunRecord, utc_timestamp
from mate_cli.tables.example import TableExample
from mate_cli.terminal.console import Console, Transcript
from mate_cli.terminal.streams import copy_streams
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS, describe_cuts


@dataclass
class Run:
    """The folder, record, console and loggers of a run that is in progress or finished.

    Args:
        folder: run folder.
        record: summary of the run, written at every change of status.
        clock: wall time in seconds, including the time before the run was resumed.
        console: console that prints to the terminal and to `transcript`.
        transcript: copy of the terminal output.
        loggers: Lightning loggers on rank 0, opened with the first metrics.
        close_loggers: function that closes the loggers with the summary, the number of steps and an exit code.
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
        """Create the `Run` of an open run folder and its record.

        The clock includes the time before the run was resumed.
        """
        clock = Clock(seconds_so_far(folder, record))
        transcript = Transcript()
        return cls(folder, record, clock, Console(copy=transcript.write), transcript)


def broadcast_folder(make: Callable[[], RunFolder]) -> RunFolder:
    """Create or open a run folder on rank 0, and return the folder on all ranks.

    On other ranks, the returned folder is read-only.

    Args:
        make: function that creates or opens the folder. It is called on rank 0.

    Raises:
        RunError: a rank cannot access the folder.
    """
    folder = ranks.broadcast_from_rank_zero(make)
    return folder if ranks.is_rank_zero() else ReadOnlyFolder(folder.path)


@contextmanager
def record_outcome(run: Run) -> Iterator[None]:
    """Record how a run ends, then close its loggers and release its lock.

    The recorded status is finished, failed or interrupted. If the context raises `MateError` before metrics are
    written, the writes to the run folder are reverted.
    """
    record, is_rejected, sizes = run.record, False, run.folder.metrics_sizes()

    try:
        with copy_streams(run.transcript.write):
            yield
        record.status = "finished"
    except (Interrupted, KeyboardInterrupt) as error:
        record.status, record.reason = "interrupted", STOPPED
        raise KeyboardInterrupt from error
    except BaseException as error:
        cause = find_known_error(error) or error
        record.status, record.reason = "failed", f"{type(cause).__name__}: {cause}"[:500]
        is_rejected = isinstance(cause, MateError) and run.folder.metrics_sizes() == sizes
        raise
    finally:
        record.finished, record.wall_seconds = utc_timestamp(), round(run.clock(), 1)
        record.peak_memory_mb = max(record.peak_memory_mb, peak_memory_mb())
        try:
            if is_rejected:
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
    """Return the peak memory of this process in MiB: on the GPU if it used one, else in RAM."""
    if on_gpu := torch.cuda.max_memory_allocated():
        return round(on_gpu / 2**20, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def reused_runs_table(spec: RunSpec) -> Table:
    """Build a table of command-line overrides that marks which stages use each override."""
    table = Table(title="Overrides, and the stages that use them", title_justify="left", title_style="bold", box=None)
    table.add_column("typed", header_style="bold", overflow="fold")
    for stage in spec.stages:
        table.add_column(stage.name.replace("_", " "), header_style="bold", justify="center")
    for override, names in spec.override_stages.items():
        table.add_row(Text(override), *("✓" if stage.name in names else "-" for stage in spec.stages))
    return table


def print_start(run: Run, parts: Parts, schedule: Schedule, training: TrainingSet, done: int) -> None:
    """Print the parameters, initial weights, schedule and folder of a run before training.

    Args:
        run: run to train.
        parts: parts of the run.
        schedule: training schedule.
        training: encoded training split.
        done: number of optimizer steps before the run was resumed. 0 for a new run.
    """
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
        message = f"all {len(training.cuts):,} examples fit into {tokens}, none is cut"
        console.print(f"to fit {tokens}: {describe_cuts(training.cuts, unit)}" if training.cuts.any() else message)
    for name in ("left out, train", "not trained on", "not encoded, train"):
        if name in run.record.facts:
            console.print(f"{name}: {run.record.facts[name]}")
    for name, reason in list(training.failures.items())[:3]:
        console.print(Text("not encoded:", style="yellow") + Text(f" {name}: {reason}", style="default"))
    if done:
        console.print(f"resuming after step {done:,}")
    console.print(f"run folder: {run.folder.path}", soft_wrap=True)


def print_results(console: Console, folder: RunFolder, record: RunRecord, title: str = "") -> None:
    """Print the results of a run: metrics by split, baselines, notes and the run folder.

    Args:
        console: console to print to.
        folder: run folder.
        record: record with metrics and facts.
        title: title of the table. Default: experiment, model and seed.
    """
    title = title or f"{record.experiment}: {record.model}, seed {record.seed}"
    console.print(results_table(record.metrics, title, record.counts))
    for name, fact in record.facts.items():
        console.print(f"{name}: {fact}", soft_wrap=True)
    console.print(f"run folder: {folder.path}", soft_wrap=True)


def results_table(metrics: Mapping[str, float], title: str, counts: Mapping[str, int] | None = None) -> Table:
    """Build a table with a row per split and question subset, and a column per metric.

    The layout follows the tables of the MATE paper.

    Args:
        metrics: fractions by name.
        title: title of the table.
        counts: number of questions of each metric, shown next to the subset if known.
    """
    counts = counts or {}
    parsed = [name for name in map(MetricName.parse, metrics) if not (name.baseline and name.part)]
    specs = sorted({name.spec for name in parsed}, key=lambda spec: (spec.order, spec.name))
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    # Never folded: baselines of several splits differ at the end of this column.
    table.add_column("split", no_wrap=True, min_width=max(map(len, map(_split_and_baseline, parsed)), default=0))
    table.add_column("questions", overflow="fold")  # Long names of subsets may differ at the end.
    for spec in specs:
        table.add_column(spec.title, justify="right")
    for owner, names in groupby(sorted(parsed, key=_place), key=_split_and_baseline):
        rows = [list(group) for _, group in groupby(names, key=lambda name: name.part)]
        for index, group in enumerate(rows):
            texts = {name.spec: name.spec.text(metrics[name.full]) for name in group}
            cells = [texts.get(spec, "-") for spec in specs]
            style = "dim" if group[0].baseline else None
            sizes = sorted({counts[name.full] for name in group if name.full in counts})
            size_text = "-".join(f"{size:,}" for size in sizes[:1] + sizes[1:][-1:])
            part = group[0].part_title + (f" ({size_text})" if sizes else "")
            table.add_row("" if index else owner, part, *cells, style=style, end_section=index == len(rows) - 1)
    return table


def _split_and_baseline(name: MetricName) -> str:
    """Format the baseline (if any) and the split of a metric, as in `tfidf/dev` or `dev`."""
    return "/".join(filter(None, [name.baseline, name.split]))


def _place(name: MetricName) -> tuple[bool, str, bool, int, str]:
    """Return the sort key of a metric name, for the table of results.

    Metrics of baselines come last. Within each split, metrics of question subsets follow metrics of all questions.
    """
    return bool(name.baseline), _split_and_baseline(name), bool(name.part), subset_rank(name.part), name.part


def count_parameters(module: nn.Module) -> tuple[int, int]:
    """Return the number of all parameters and the number of trainable parameters of a module."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in module.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, is_trainable in sizes if is_trainable)


SKIP_REASON_TEXT = {
    "no answer": "without an answer",
    "no text": "without an answer",
    "missing": "whose answer is neither in their table nor in its passages",
    "not found": "whose answer is neither a cell of their table nor a number",
    "in several cells": "whose answer is in several cells (ambiguous)",
    "ambiguous": "with two answers in the same cell",
}
"""User-facing text of each reason of a dataset for which a question has no usable label."""


def record_truncation(record: RunRecord, split: str, encodings: TrainingSet, unit: str = "tables") -> None:
    """Record how many examples of a split could not be encoded or were truncated.

    `record.data` gets `<split>/not_encoded`. If truncation was counted, it also gets the number of truncated examples
    for each of `TRUNCATION_COUNTS`. `record.facts` gets a sentence about examples that were not encoded and
    a sentence about truncated examples, if there are any.

    Args:
        record: record to change.
        split: name of the split.
        encodings: encoded split.
        unit: name of the encoded units in the sentence.
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
    """Describe how many questions of a split are unscored and how many are unanswerable.

    Unscored questions have no gold answer. Zero counts are omitted.

    Returns:
        A note by title, such as "not scored, dev".
    """
    answers = [example.answer for example in examples if example.answer is not None]
    unknown, null = len(examples) - len(answers), sum(answer.is_null for answer in answers)
    notes = {
        f"not scored, {split}": f"{unknown:,} of {len(examples):,} questions, whose answers are not known",
        f"unanswerable, {split}": f"{null:,} of {len(answers):,} scored questions",
    }
    return {name: fact for (name, fact), count in zip(notes.items(), (unknown, null), strict=True) if count}


def record_digest(record: RunRecord, split: str, encodings: object) -> None:
    """Record the hash of a split's data, or warn if a different hash is already recorded.

    Args:
        record: record to change.
        split: name of the split.
        encodings: encoded split, whose attribute `digest` is a hash of its examples. Without it nothing is recorded.
    """
    digest = getattr(encodings, "digest", "")
    if digest and record.digests.setdefault(split, digest) != digest:
        warnings.warn(f"the questions or tables of {split} differ from those with which this run started", stacklevel=2)


def record_skipped(record: RunRecord, examples: Sequence[TableExample], skip_reason: Callable[[Any], str]) -> None:
    """Record how many training questions have no usable label, by reason.

    These questions are not used.

    Args:
        record: record to change.
        examples: training examples.
        skip_reason: function that returns why the task cannot train on an example, or "" if it can.
    """
    reasons = Counter(SKIP_REASON_TEXT.get(reason, reason) for reason in map(skip_reason, examples) if reason)
    record.data["train/unusable"] = reasons.total()
    if reasons:
        record.facts["not trained on"] = f"of {len(examples):,} training questions read, {counts_text(reasons)}"


def plain_reason(reason: str) -> str:
    """Remove numbers and details from a failure reason, to count failures of the same type."""
    return re.sub(r"^\d+ ", "", reason.partition(":")[0])


def counts_text(counts: Mapping[str, int]) -> str:
    """Format counts as text, largest count first, such as "12 no answer, 3 ambiguous"."""
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def record_learning(record: RunRecord, rows: Sequence[Row], loss_counts: Mapping[str, Sequence[int]]) -> None:
    """Record the best validation score, and warnings that the network did not learn.

    For example, a loss of zero causes a warning.

    Args:
        record: record of a run whose training has ended.
        rows: rows of its metrics.jsonl.
        loss_counts: see `TableTask`.
    """
    spec, best_score = MetricName.parse(record.monitor).spec, None
    for row in rows:
        score = row.get(record.monitor)
        if score is not None and spec.is_better(score, best_score):
            best_score, record.best = score, {record.monitor: score, "step": row["step"]}
    if faults := list(_training_warnings(record.monitor, rows, loss_counts)):
        record.facts[NOT_LEARNT] = "; ".join(faults)


def _training_warnings(monitor: str, rows: Sequence[Row], loss_counts: Mapping[str, Sequence[int]]) -> Iterator[str]:
    losses, scores = ([row[name] for row in rows if name in row] for name in ("train/loss", monitor))
    if losses and all(loss == 0 for loss in losses):
        yield "train/loss is 0 in every step"
    for kind, (examples, with_loss) in loss_counts.items():
        if examples and not with_loss:
            yield f"{kind} never have a loss: all are above task.answer_loss_cutoff, use task.answer_loss_cutoff=null"
    if scores and all(score == 0 for score in scores) and MetricName.parse(monitor).spec.direction > 0:
        yield f"{monitor} is 0 in every validation"


TRAINED = "training examples of this kind"
"""Label of the counts in facts of `record_never_selected`."""


def record_never_selected(
    record: RunRecord,
    task: TableTask[Any, Any],
    training: Sequence[TableExample],
    predictions: Sequence[Any],
    examples: Mapping[str, TableExample],
) -> None:
    """Record which trained aggregations, such as "sum", were never selected on dev.

    Aggregations that were never correct are recorded too. A fact is also added if the task is trained on computed
    numbers but never computes a number on dev.

    Args:
        record: record to change.
        task: task with the best checkpoint.
        training: examples of the training split.
        predictions: predictions for the dev split.
        examples: examples of the dev split, by id.
    """
    selections = [task.selection(prediction) for prediction in predictions]
    outputs = {selection.aggregation for selection in selections if selection is not None}
    answers = [example.answer for example in training if example.answer is not None]
    counts = Counter(answer.aggregation for answer in answers if answer.aggregation not in (None, "none"))
    faults = [
        f"no {kind} was ever selected; {TRAINED}: {count}" for kind, count in counts.items() if kind not in outputs
    ]
    pairs = [(examples[prediction.example_id], prediction) for prediction in predictions if examples]
    for kind in counts.keys() & outputs:
        group = [pair for pair in pairs if pair[0].answer and pair[0].answer.aggregation == kind]
        if group and not any(task.is_correct(prediction, example) for example, prediction in group):
            faults.append(f"no {kind} was ever right on {len(group)} dev questions; {TRAINED}: {counts[kind]}")
    weak_answers = [answer for answer in answers if answer.aggregation is None and not answer.coordinates]
    numbers = sum(answer.number is not None for answer in weak_answers)
    if COMPUTED in task.loss_counts and numbers and outputs <= {"none"}:
        faults.append(f"no number was ever computed; {TRAINED}: {numbers}")
    if outputs and faults:
        record.facts[NOT_LEARNT] = "; ".join([*filter(None, [record.facts.get(NOT_LEARNT)]), *faults])
