"""Facts of a training for its record: which examples are learnt from, whole or cut, and what was not learnt."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mate_cli.data.loading.table_data_module import TrainingSet
from mate_cli.metrics.specs.names import MetricName
from mate_cli.runs.metric_rows import Row
from mate_cli.runs.record import NOT_LEARNT, RunRecord
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS, describe_cuts

IN_WORDS = {
    "no answer": "without an answer",
    "no text": "without an answer",
    "missing": "whose answer is neither in their table nor in its passages",
    "not found": "whose answer is neither a cell of their table nor a number",
    "in several cells": "whose answer is in several cells (ambiguous)",
    "ambiguous": "with two answers in the same cell",
}
"""Reasons of datasets why a question teaches nothing, in words for people."""


def record_truncation(record: RunRecord, split: str, encodings: TrainingSet) -> None:
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
            record.facts[f"cut, {split}"] = describe_cuts(encodings.cuts)


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
        record.facts["not trained on"] = f"of {len(examples):,} training questions, {counts_text(reasons)}"


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
