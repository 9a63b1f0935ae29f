"""Report section of robustness: how much perturbations of the questions change the scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mate_cli.data.perturbation import FOLDER, PERTURBATIONS
from mate_cli.metrics.specs import SPLITS, MetricName
from mate_cli.reports.compare.questions import read_predictions
from mate_cli.reports.compare.report import Report, main_metric
from mate_cli.reports.compare.significance import LEVEL, Bootstrap, allows_bootstrap, holm, paired_bootstrap
from mate_cli.reports.view import Column, Mark, ReportSection, Row, View, ViewCell

COLUMNS = tuple(map(Column, ("Score", "Perturbed", "Change", "95 % interval", "Questions", "Tables", "Seeds")))
NOTE = (
    "change of the score on the same questions, mean over runs and seeds; the interval is of a paired bootstrap over "
    "tables; marks are of p < 0.05 after Holm's correction for the rows, and intervals are not corrected; questions "
    "whose answer a perturbation may change are excluded"
)


def robustness_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return changes of scores by perturbations of the questions.

    The result is None if no run was evaluated with `perturb=`.

    Args:
        report: comparison of runs.
        wide: not used.
    """
    folders = {group.label: [run.folder for run in group.counted] for group in report.groups}
    views = perturbation_views(folders, report.metric, report.names)
    return ReportSection("robustness", "Robustness", "Robustness", views, (NOTE,)) if views else None


def perturbation_views(
    folders: Mapping[str, Sequence[Path]], metric: str | None, names: Mapping[str, MetricName] | None = None
) -> tuple[View, ...]:
    """Build a table for each split and perturbation, with a row per configuration.

    Args:
        folders: run folders of each configuration, by label.
        metric: full name of the metric. If questions have no score of it, the main metric of their scores is used.
        names: parsed metric by its full name, None to parse the names.
    """
    views = []
    for split in SPLITS:
        for name, perturbation in PERTURBATIONS.items():
            rows = [(label, changes_of(paths, name, split, metric)) for label, paths in folders.items()]
            scored_rows = [(label, scores) for label, scores in rows if scores]
            for score in dict.fromkeys(scores[0] for _, scores in scored_rows):
                metric_name = (names or {}).get(score) or MetricName.parse(score)
                changes = {label: scores[1:] for label, scores in scored_rows if scores[0] == score}
                estimates = {label: estimate_change(values) for label, (values, _) in changes.items()}
                corrected = iter(holm([estimate.p for estimate in estimates.values() if estimate]))
                tests = {key: estimate and replace(estimate, p=next(corrected)) for key, estimate in estimates.items()}
                lines = [change_row(label, metric_name, *changes[label], tests[label]) for label in changes]
                title = f"{perturbation.summary.capitalize()}: {metric_name.title}"
                views.append(View(title, COLUMNS, tuple(lines), detail=f"perturb={name}"))
    return tuple(views)


def changes_of(paths: Sequence[Path], name: str, split: str, metric: str | None) -> tuple[str, np.ndarray, int] | None:
    """Read the scores of a configuration's questions before and after a perturbation.

    Args:
        paths: run folders of a configuration.
        name: name of the perturbation.
        split: split of the questions.
        metric: full name of the preferred metric.

    Returns:
        The metric, an array [questions, 3] of the score before, the score after and the index of the table, and the
        number of seeds. None if no run has both scores.
    """
    pairs, tables, seeds, score = defaultdict[str, list[tuple[float, float]]](list), dict[str, str](), set[str](), ""
    for path in paths:
        originals = {key.question_id: row for key, row in read_predictions(path / f"predictions/{split}.json").items()}
        for file in sorted((path / FOLDER / name).glob(f"*/predictions/{split}.json")):
            seeds.add(file.parts[-3])
            for question, prediction in read_predictions(file).items():
                key, new_scores = question.question_id, prediction.scores
                score = score or choose_score(new_scores, metric)
                if key in originals and score in new_scores and score in originals[key].scores:
                    pairs[key].append((originals[key].scores[score], new_scores[score]))
                    tables[key] = question.table_id or key
    if not pairs:
        return None
    owners = np.unique([tables[key] for key in pairs], return_inverse=True)[1]
    means = [np.mean(values, axis=0) for values in pairs.values()]
    return f"{split}/{score}", np.column_stack([means, owners]), len(seeds)


def choose_score(scores: Mapping[str, float], metric: str | None) -> str:
    """Choose which score of a question to compare: that of `metric`, else the main score.

    Args:
        scores: scores of a question, by name.
        metric: full name of the metric, or None.
    """
    if metric and (score := MetricName.parse(metric).score) in scores:
        return score
    return (main_metric([[MetricName.parse(f"dev/{name}") for name in scores]]) or "").removeprefix("dev/")


def estimate_change(scores: np.ndarray) -> Bootstrap | None:
    """Estimate the mean score change and its confidence interval by bootstrap over tables.

    Return None for too few questions or tables.

    Args:
        scores: scores as returned by `changes_of`.
    """
    original_scores, perturbed_scores, owners = scores.T
    if not allows_bootstrap(owners):
        return None
    return paired_bootstrap(perturbed_scores - original_scores, owners.astype(int))


def change_row(label: str, metric: MetricName, scores: np.ndarray, seeds: int, test: Bootstrap | None) -> Row:
    """Build the table row with a configuration's score change due to a perturbation.

    Args:
        label: label of the configuration.
        metric: metric of the scores.
        scores: scores as returned by `changes_of`.
        seeds: number of seeds of the perturbation.
        test: bootstrap of the change, with the corrected p-value. None if it could not be computed.
    """
    spec = metric.spec
    original_scores, perturbed_scores, owners = scores.T
    difference = float((perturbed_scores - original_scores).mean())
    interval = ViewCell()
    mark: Mark = ""
    if test:
        text = f"{spec.difference_text(test.low)} to {spec.difference_text(test.high)}"
        interval = ViewCell(text, spec.scale * difference, ends=(spec.scale * test.low, spec.scale * test.high))
        mark = ("better" if spec.is_better(difference, 0) else "worse") if test.p < LEVEL else ""
    change_cell = ViewCell(spec.difference_text(difference), spec.scale * difference, mark=mark)
    means = [float(values.mean()) for values in (original_scores, perturbed_scores)]
    values = [ViewCell(spec.text(mean), spec.scale * mean) for mean in means]
    counts = [ViewCell(f"{count:,}", count) for count in (len(scores), len(np.unique(owners)), seeds)]
    return Row(label, (*values, change_cell, interval, *counts))
