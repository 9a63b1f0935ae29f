"""Significance tests between configurations: over the questions that both answered, and over their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mate_cli.errors import ConfigError
from mate_cli.metrics.specs import SPLITS, MetricName
from mate_cli.reports.compare.configuration import Configuration, settings
from mate_cli.reports.compare.questions import ScoredQuestion, question_scores, scored_runs
from mate_cli.reports.format import plural
from mate_cli.reports.runs.load import LoadedRun
from mate_cli.runs.identity import differing_keys

RESAMPLES = 10_000
CHUNK = 500
FEW_VALUES = 100
SEED = 20_040_725
MIN_QUESTIONS = 20
"""Below so many questions a bootstrap says nothing."""
LEVEL = 0.05
SAME = 1e-9
"""Scores as far apart are the same, but for the order of sums."""
METHOD = "paired bootstrap over questions (Koehn 2004; two-sided p as in Berg-Kirkpatrick et al. 2012)"
RUNS_METHOD = (
    "p of runs: t-test between trainings on these questions (Welch's, Colas et al. 2019; of pairs where by joins)"
)


@dataclass(frozen=True)
class Bootstrap:
    """The bootstrap estimate of a mean difference.

    Args:
        difference: the observed one.
        low: lower end of its 95 % interval.
        high: upper end.
        p: how often chance alone makes a difference at least as large, in either direction.
    """

    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Difference(Bootstrap):
    """A configuration against the one of reference, as fractions, on the questions that both have.

    Args:
        label: of the configuration.
        split: the split of the questions: that of the metric, or the other one if only that has answers of both.
        score: its mean.
        runs_p: two-sided, of the runs; None where they cannot say, see `welch_p` and `paired_p`.
        questions: how many both have.
        runs: how many are behind its scores.
    """

    label: str
    split: str
    score: float
    runs_p: float | None
    questions: int
    runs: int

    @property
    def is_significant(self) -> bool:
        """True if p is below 0.05."""
        return self.p < LEVEL


@dataclass(frozen=True)
class Significance:
    """Every configuration against one of them.

    Args:
        metric: full name of the metric.
        against: label of the configuration of reference.
        differences: the others, in the order of the comparison, as far as they were asked the same questions.
        notes: what a reader must know.
    """

    metric: str
    against: str
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def compare_with(groups: Sequence[Configuration], metric: str | None, against: str) -> Significance:
    """Compare every configuration with one of them.

    Args:
        groups: the configurations.
        metric: what is compared, see `scored_runs`. Two configurations that do not share its split are compared by
            the same score on dev or test if they share that.
        against: label of the configuration of reference, or words of it that no other label has.

    Raises:
        ConfigError: no configuration, or more than one, is called so.
    """
    references = find_groups(groups, against, metric)
    label = references[0].label if len(references) == 1 else against
    if metric is None:
        return Significance("", label, (), ("no run has a metric to compare yet",))
    tests: list[Difference] = []
    lines: list[str] = []
    others = 0
    for reference in references:
        name = MetricName.parse(metric)
        metrics = dict.fromkeys([metric, *(f"{split}{metric.removeprefix(name.split)}" for split in SPLITS)])
        known = {m: scores for m in metrics if (scores := question_scores(reference, m))}
        if known:
            near = [group for group in groups if len(references) == 1 or group.dataset == reference.dataset]
            near.remove(reference)
            every = [[compare_pair(group, reference, known[m], m) for m in known] for group in near]
            pairs = [next(filter(None, possible), None) for possible in every]
            tests, others = tests + [pair for pair in pairs if pair], others + len(pairs)
        else:
            remedy = f"mate evaluate run=<folder> split={name.split} writes them for a run of an older version"
            lines.append(f"{reference.label} has no {name.score} for single questions of {name.split}: {remedy}")
    return Significance(metric, label, tuple(tests), (*lines, *notes(tests, others)))


def notes(tests: Sequence[Difference], others: int) -> list[str]:
    """Say how the differences were judged, and how many could not be."""
    averaged = "scores are means over runs; p covers questions only"
    lines = [f"{METHOD}, {RESAMPLES:,} samples; {averaged}"] if tests else []
    if any(test.runs_p is not None for test in tests):
        lines.append(RUNS_METHOD)
    if len(tests) > 1:
        threshold = f"{LEVEL / len(tests):.2g} is the corrected threshold"
        lines.append(f"p is not corrected for {len(tests)} comparisons: {threshold}")
    if others > len(tests):
        left = plural(others - len(tests), "configuration")
        lines.append(f"{left} without at least {MIN_QUESTIONS} of the same questions left out")
    return lines


def find_groups(
    groups: Sequence[Configuration], asked: str, metric: str | None = None, key: str = "against"
) -> list[Configuration]:
    """Find the configuration with a label, or the only one whose label has all the words asked for.

    Where a chain and its stages have them, those are meant that have the metric, and then the chain. Where several
    datasets have one such configuration each, all of these are.

    Raises:
        ConfigError: naming the choices.
    """
    wanted = sorted(label_words(asked))
    matches = [g for g in groups if wanted and all(word in g.label.casefold() for word in wanted)]
    matches = [group for group in matches if metric in group.metric_names] or matches
    matches = [group for group in matches if sorted(label_words(group.label)) == wanted] or matches
    if len(matches) > 1:
        matches = [group for group in matches if not any(run.parent for run in group.runs)] or matches
    if matches and len({group.dataset for group in matches}) == len(matches):
        return matches
    problem = f"{len(matches)} configurations match {asked}" if matches else f"unknown configuration {asked}"
    labels = " | ".join(group.label for group in matches or groups)
    raise ConfigError(problem, where=key, remedy=f"Choose one of: {labels}")


def label_words(label: str) -> list[str]:
    """Return the words of a label without the dots between them."""
    return [word for word in label.casefold().split() if word != "·"]


def compare_pair(
    group: Configuration, reference: Configuration, others: Mapping[ScoredQuestion, float], metric: str
) -> Difference | None:
    """Compare a configuration with the one of reference and its scores; None below `MIN_QUESTIONS` common questions."""
    scores = question_scores(group, metric)
    common = [question for question in scores if question in others]
    if len(common) < MIN_QUESTIONS:
        return None
    values = np.array([scores[question] for question in common])
    estimate = paired_bootstrap(values - np.array([others[question] for question in common]))
    runs = [mean_scores(side, metric, common) for side in (group, reference)]
    are_repeats = group.differ_by_seed and reference.differ_by_seed
    p = welch_p(*(list(means.values()) for means in runs)) if are_repeats else paired_p(match_differences(*runs))
    score = float(values.mean())
    return Difference(
        **vars(estimate),
        label=group.label,
        split=MetricName.parse(metric).split,
        score=score,
        runs_p=p,
        questions=len(common),
        runs=len(runs[0]),
    )


def mean_scores(group: Configuration, metric: str, questions: Sequence[ScoredQuestion]) -> dict[LoadedRun, float]:
    """Return the mean score of each run that counts over some questions."""
    every = scored_runs(group, metric)
    return {run: float(np.mean([scored[question][1] for question in questions])) for run, scored in every.items()}


def match_differences(scores: Mapping[LoadedRun, float], others: Mapping[LoadedRun, float]) -> list[float]:
    """Return the differences between runs with the same seed and the same of what varies among either's runs.

    None at all where some run has no such other, or two.
    """
    varying = [key for side in (scores, others) for key in differing_keys([settings(run) for run in side])]
    sides: list[dict[tuple[str | None, ...], float]] = [
        {(run.text("seed"), *map(settings(run).get, varying)): score for run, score in side.items()}
        for side in (scores, others)
    ]
    if sides[0].keys() != sides[1].keys() or len(scores) + len(others) > 2 * len(sides[0]):
        return []
    return [score - sides[1][key] for key, score in sides[0].items()]


def welch_p(scores: Sequence[float], others: Sequence[float]) -> float | None:
    """Return how often other seeds alone make means at least as different, in either direction, by Welch's t-test.

    Source: Colas, Sigaud and Oudeyer 2019, "A hitchhiker's guide to statistical comparisons of reinforcement learning
        algorithms" (Welch's t-test for few seeds of unlike spread).

    Args:
        scores: of one configuration, one per seed.
        others: of another.

    Returns:
        None below two seeds on a side, and where the seeds of neither side differ.
    """
    if min(len(scores), len(others)) < 2 or max(np.ptp(scores), np.ptp(others)) < SAME:
        return None
    from scipy import stats  # half a second

    sides = [(np.mean(side), np.std(side, ddof=1), len(side)) for side in (scores, others)]
    return float(stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False).pvalue)


def paired_p(differences: Sequence[float]) -> float | None:
    """Return how often other trainings alone make a mean difference at least as large, by the paired t-test.

    Args:
        differences: between two trainings each, of one number of examples and one seed, say.

    Returns:
        None below two pairs, and where all differ alike.
    """
    if len(differences) < 2 or np.ptp(differences) < SAME:
        return None
    from scipy import stats

    return float(stats.ttest_1samp(differences, 0).pvalue)


def paired_bootstrap(
    differences: Sequence[float] | np.ndarray, resamples: int = RESAMPLES, seed: int = SEED
) -> Bootstrap:
    """Resample the questions with replacement, both systems together.

    The interval is the percentile one. For p the samples are shifted to a mean difference of nothing, and those at
    least as far from it as the observed difference are counted, the observed one among them. What other seeds would
    change is not part of it: seeds are averaged before.

    Source: Koehn 2004, "Statistical significance tests for machine translation evaluation" (pairs);
        Berg-Kirkpatrick, Burkett and Klein 2012, "An empirical investigation of statistical significance in NLP"
        (the shift, here in both directions); Davison and Hinkley 1997, "Bootstrap methods and their application",
        chapter 4 (1 added to both counts).

    Args:
        differences: [n] per question, one system's score less the other's.
        resamples: how many samples are drawn.
        seed: of the draws, so that the same runs give the same table.
    """
    scores = np.asarray(differences, dtype=float)
    observed = float(scores.mean())
    means = resample_means(scores, resamples, np.random.default_rng(seed))
    # A sum in another order may differ in its last digits, and a tie is as extreme as the observed difference.
    extreme = np.abs(means - observed) >= abs(observed) - 1e-9
    low, high = np.quantile(means, (LEVEL / 2, 1 - LEVEL / 2))
    return Bootstrap(observed, float(low), float(high), float((extreme.sum() + 1) / (resamples + 1)))


def resample_means(scores: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw samples as large as the scores, with replacement, and return the mean of each, [resamples]."""
    values, counts = np.unique(scores, return_counts=True)
    total, parts = len(scores), [min(CHUNK, resamples - start) for start in range(0, resamples, CHUNK)]
    if len(values) <= FEW_VALUES:  # drawing questions is drawing how often each value occurs, which is quicker
        means = [rng.multinomial(total, counts / total, size=part) @ values / total for part in parts]
    else:
        means = [scores[rng.integers(total, size=(part, total), dtype=np.int32)].mean(axis=1) for part in parts]
    return np.concatenate(means)
