"""How far a run has come that is still at work: its steps, its loss, its latest score on held-out questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mate_cli.metrics.specs.names import MetricName
from mate_cli.reports.compare.main_metric import main_metric
from mate_cli.reports.compare.report import Report, age
from mate_cli.reports.compare.statistics import is_finite
from mate_cli.reports.runs.load import LoadedRun, clean, is_number
from mate_cli.reports.runs.load_curves import FINAL, logged_rows
from mate_cli.runs.liveness import is_dead

VALIDATED = "dev/"


@dataclass(frozen=True)
class Progress:
    """A run at work.

    Args:
        run: the run.
        label: of its configuration.
        step: the last optimizer step that it logged, 0 before the first.
        total: how many it is to take, None when its record does not say.
        seconds: wall time at that step, 0 when unknown.
        age: seconds since it was started, None when unknown.
        loss: the last one logged, None before the first.
        metric: the validation score that is followed, None before the first.
        history: its values, oldest first.
    """

    run: LoadedRun
    label: str
    step: int
    total: int | None
    seconds: float
    age: float | None
    loss: float | None
    metric: MetricName | None
    history: tuple[float, ...]

    @property
    def seconds_left(self) -> float | None:
        """Until the last step at the pace so far, None when nobody can say."""
        if not self.total or not self.step or not self.seconds:
            return None
        return max(self.total - self.step, 0) * self.seconds / self.step


def is_at_work(run: LoadedRun) -> bool:
    """Says whether a run is running and its process lives."""
    return run.status == "running" and not is_dead(run.folder, run.record)


def runs_at_work(report: Report) -> list[Progress]:
    """Lists the runs that are at work; of a chain, the stage instead of the whole."""
    working = [run for run in report.runs if is_at_work(run)]
    wholes = {id(run.parent) for run in working if run.parent}
    labels = {id(run): group.label for group in report.groups for run in group.runs}
    return [read_progress(run, labels.get(id(run), run.name), report) for run in working if id(run) not in wholes]


def read_progress(run: LoadedRun, label: str, report: Report) -> Progress:
    """Reads what a run has logged so far."""
    last: dict[str, float] = {}
    scores: dict[str, list[float]] = {}
    for row in logged_rows(run.folder / "metrics.jsonl"):
        for name, value in row.items():
            if is_number(value) and is_finite(value) and not name.startswith(FINAL):
                last[clean(name)] = float(value)
                if name.startswith(VALIDATED):
                    scores.setdefault(clean(name), []).append(float(value))
    metric = followed(scores, report.metric)
    total = run.number("total_steps")
    return Progress(
        run=run,
        label=label,
        step=int(last.get("step", 0)),
        total=int(total) if total and is_finite(total) else None,
        seconds=last.get("time", 0.0),
        age=age(run, report.created),
        loss=last.get("train/loss"),
        metric=MetricName.parse(metric) if metric else None,
        history=tuple(scores[metric]) if metric else (),
    )


def followed(scores: Mapping[str, object], ranking: str | None) -> str | None:
    """Picks the validation metric to show: the one that ranks, else the one that sums the run up best."""
    own = f"{VALIDATED}{MetricName.parse(ranking).score}" if ranking else ""
    return own if own in scores else main_metric([scores])
