"""Sum up the rows of a training: its best validation, and what was not learnt."""

from collections.abc import Iterator, Mapping, Sequence

from mate_cli.metrics.specs.names import MetricName
from mate_cli.runs.record import NOT_LEARNT, RunRecord
from mate_cli.runs.tracking import Row


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
