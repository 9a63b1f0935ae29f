"""Significance tests between configurations: over their common questions, and over runs."""

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
"""Minimum number of common questions for a meaningful bootstrap."""
LEVEL = 0.05
SAME = 1e-9
"""Tolerance below which scores count as equal.

The order of summation affects the last digits of a score.
"""
METHOD = "paired bootstrap over questions (Koehn 2004; two-sided p as in Berg-Kirkpatrick et al. 2012)"
RUNS_METHOD = (
    "p of runs: t-test between trainings on these questions (Welch's, Colas et al. 2019; of pairs where by joins)"
)


@dataclass(frozen=True)
class Bootstrap:
    """The bootstrap estimate of the mean difference between two systems.

    Args:
        difference: observed mean difference.
        low: lower end of the 95 % interval.
        high: upper end of the 95 % interval.
        p: two-sided p-value: probability of a difference at least as large if the systems are equally good.
    """

    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Difference(Bootstrap):
    """The test of one configuration against the reference configuration on common questions.

    Scores and differences are fractions.

    Args:
        label: label of the configuration.
        split: split of the questions: the split of the metric, or another split if both have answers only there.
        score: mean score of the configuration.
        runs_p: two-sided p-value over runs, None if it cannot be computed, see `welch_p` and `paired_p`.
        questions: number of common questions.
        runs: number of runs of the configuration.
    """

    label: str
    split: str
    score: float
    runs_p: float | None
    questions: int
    runs: int

    @property
    def is_significant(self) -> bool:
        """True if the p-value over questions is below 0.05."""
        return self.p < LEVEL


@dataclass(frozen=True)
class Significance:
    """The tests of every configuration against a reference configuration.

    Args:
        metric: full name of the metric.
        against: label of the reference configuration.
        differences: test of each other configuration with enough common questions, in the order of the comparison.
        notes: remarks on the method and on skipped configurations.
    """

    metric: str
    against: str
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def compare_with(groups: Sequence[Configuration], metric: str | None, against: str) -> Significance:
    """Test every configuration against a reference configuration.

    Args:
        groups: all configurations.
        metric: metric to compare, see `scored_runs`. If two configurations have no common questions of its split, the
            same score on dev or test is compared instead, if both have it.
        against: label of the reference configuration, or words that only its label contains.

    Raises:
        ConfigError: no configuration, or more than one, matches `against`.
    """
    references = find_groups(groups, against, metric)
    label = references[0].label if len(references) == 1 else against
    if metric is None:
        return Significance("", label, (), ("no run has a metric to compare yet",))
    tests: list[Difference] = []
    lines: list[str] = []
    compared_count = 0
    for reference in references:
        name = MetricName.parse(metric)
        metrics = dict.fromkeys([metric, *(f"{split}{metric.removeprefix(name.split)}" for split in SPLITS)])
        reference_scores = {m: scores for m in metrics if (scores := question_scores(reference, m))}
        if reference_scores:
            compared_groups = [group for group in groups if len(references) == 1 or group.dataset == reference.dataset]
            compared_groups.remove(reference)
            candidates = [
                [compare_pair(group, reference, reference_scores[m], m) for m in reference_scores]
                for group in compared_groups
            ]
            pairs = [next(filter(None, possible), None) for possible in candidates]
            tests, compared_count = tests + [pair for pair in pairs if pair], compared_count + len(pairs)
        else:
            hint = f"mate evaluate run=<folder> split={name.split} writes them for a run of an older version"
            lines.append(f"{reference.label} has no {name.score} for single questions of {name.split}: {hint}")
    return Significance(metric, label, tuple(tests), (*lines, *notes(tests, compared_count)))


def notes(tests: Sequence[Difference], others: int) -> list[str]:
    """Describe how the differences were tested, and how many configurations were skipped.

    Args:
        tests: tests of configurations with enough common questions.
        others: number of configurations other than the reference.
    """
    averaged = "scores are means over runs; p covers questions only"
    lines = [f"{METHOD}, {RESAMPLES:,} samples; {averaged}"] if tests else []
    if any(test.runs_p is not None for test in tests):
        lines.append(RUNS_METHOD)
    if len(tests) > 1:
        threshold = f"{LEVEL / len(tests):.2g} is the corrected threshold"
        lines.append(f"p is not corrected for {len(tests)} comparisons: {threshold}")
    if others > len(tests):
        skipped_text = plural(others - len(tests), "configuration")
        lines.append(f"{skipped_text} without at least {MIN_QUESTIONS} of the same questions left out")
    return lines


def find_groups(
    groups: Sequence[Configuration], asked: str, metric: str | None = None, key: str = "against"
) -> list[Configuration]:
    """Find the configuration with a label, or the only one whose label has all given words.

    If a pipeline and its stages match, configurations with the metric are preferred, and then the pipeline. If one
    configuration of each of several datasets matches, all of them are returned.

    Args:
        groups: configurations to search.
        asked: label, or words of a label.
        metric: preferred metric.
        key: name of the option, for the error message.

    Raises:
        ConfigError: no configuration, or more than one of a dataset, matches.
    """
    requested_words = sorted(label_words(asked))
    matches = [g for g in groups if requested_words and all(word in g.label.casefold() for word in requested_words)]
    matches = [group for group in matches if metric in group.metric_names] or matches
    matches = [group for group in matches if sorted(label_words(group.label)) == requested_words] or matches
    if len(matches) > 1:
        matches = [group for group in matches if not any(run.parent for run in group.runs)] or matches
    if matches and len({group.dataset for group in matches}) == len(matches):
        return matches
    problem = f"{len(matches)} configurations match {asked}" if matches else f"unknown configuration {asked}"
    labels = " | ".join(group.label for group in matches or groups)
    raise ConfigError(problem, where=key, remedy=f"Choose one of: {labels}")


def label_words(label: str) -> list[str]:
    """Split a label into lower-case words, without the dots that separate its components."""
    return [word for word in label.casefold().split() if word != "·"]


def compare_pair(
    group: Configuration, reference: Configuration, others: Mapping[ScoredQuestion, float], metric: str
) -> Difference | None:
    """Test a configuration against the reference on their common questions.

    Args:
        group: configuration to compare.
        reference: reference configuration.
        others: scores of the reference per question.
        metric: full name of the metric.

    Returns:
        The test, None for fewer than `MIN_QUESTIONS` common questions.
    """
    scores = question_scores(group, metric)
    common_questions = [question for question in scores if question in others]
    if len(common_questions) < MIN_QUESTIONS:
        return None
    values = np.array([scores[question] for question in common_questions])
    estimate = paired_bootstrap(values - np.array([others[question] for question in common_questions]))
    runs = [mean_scores(member, metric, common_questions) for member in (group, reference)]
    are_repeats = group.differ_by_seed and reference.differ_by_seed
    p = welch_p(*(list(means.values()) for means in runs)) if are_repeats else paired_p(match_differences(*runs))
    score = float(values.mean())
    return Difference(
        **vars(estimate),
        label=group.label,
        split=MetricName.parse(metric).split,
        score=score,
        runs_p=p,
        questions=len(common_questions),
        runs=len(runs[0]),
    )


def mean_scores(group: Configuration, metric: str, questions: Sequence[ScoredQuestion]) -> dict[LoadedRun, float]:
    """Compute the mean score of each counted run over some questions.

    Args:
        group: configuration of the runs.
        metric: full name of the metric.
        questions: questions to average over.
    """
    run_scores = scored_runs(group, metric)
    return {run: float(np.mean([scores[question][1] for question in questions])) for run, scores in run_scores.items()}


def match_differences(scores: Mapping[LoadedRun, float], others: Mapping[LoadedRun, float]) -> list[float]:
    """Compute the score differences between matching runs of two configurations.

    Two runs match if their seeds, and all settings that vary within either configuration, are equal. The result is
    empty if any run has no match or several.

    Args:
        scores: score of each run of one configuration.
        others: score of each run of the second configuration.
    """
    varying = [key for runs in (scores, others) for key in differing_keys([settings(run) for run in runs])]
    sides: list[dict[tuple[str | None, ...], float]] = [
        {(run.text("seed"), *map(settings(run).get, varying)): score for run, score in runs.items()}
        for runs in (scores, others)
    ]
    if sides[0].keys() != sides[1].keys() or len(scores) + len(others) > 2 * len(sides[0]):
        return []
    return [score - sides[1][key] for key, score in sides[0].items()]


def welch_p(scores: Sequence[float], others: Sequence[float]) -> float | None:
    """Compute the p-value of Welch's t-test between the seeds of two configurations.

    The p-value is the probability that other seeds make the means differ at least this much, if the configurations are
    equally good.

    Source: Colas, Sigaud and Oudeyer 2019, "A hitchhiker's guide to statistical comparisons of reinforcement learning
    algorithms" (Welch's t-test for few seeds of unequal variance).

    Args:
        scores: scores of one configuration, one per seed.
        others: scores of the second configuration, one per seed.

    Returns:
        The two-sided p-value. None if a configuration has fewer than two seeds, or the scores of both configurations
            are constant.
    """
    if min(len(scores), len(others)) < 2 or max(np.ptp(scores), np.ptp(others)) < SAME:
        return None
    from scipy import stats  # Importing scipy takes 0.5 s.

    sides = [(np.mean(sample), np.std(sample, ddof=1), len(sample)) for sample in (scores, others)]
    return float(stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False).pvalue)


def paired_p(differences: Sequence[float]) -> float | None:
    """Compute the p-value of the paired t-test over runs.

    The p-value is the probability that other runs make the mean differ from 0 at least this much, if the configurations
    are equally good.

    Args:
        differences: score differences between two runs each, for example with the same number of examples and seed.

    Returns:
        The two-sided p-value. None for fewer than two pairs, or if all differences are equal.
    """
    if len(differences) < 2 or np.ptp(differences) < SAME:
        return None
    from scipy import stats

    return float(stats.ttest_1samp(differences, 0).pvalue)


def paired_bootstrap(
    differences: Sequence[float] | np.ndarray, resamples: int = RESAMPLES, seed: int = SEED
) -> Bootstrap:
    """Bootstrap the mean difference, by resampling the questions for both systems together.

    The interval is the percentile interval. The samples are shifted to a mean difference of 0 to compute p. The p-value
    is the fraction of sampled means at least as far from 0 as the observed difference. The observed difference is
    included as one more sample. Variation between seeds is not included, because scores are averaged over seeds first.

    Source: Koehn 2004, "Statistical significance tests for machine translation evaluation" (pairs); Berg-Kirkpatrick,
    Burkett and Klein 2012, "An empirical investigation of statistical significance in NLP" (the shift, here in both
    directions); Davison and Hinkley 1997, "Bootstrap methods and their application", chapter 4 (1 added to both
    counts).

    Args:
        differences: [n] score of one system minus score of the other, per question.
        resamples: number of bootstrap samples.
        seed: seed of the sampling, so that the same runs give the same table.
    """
    scores = np.asarray(differences, dtype=float)
    observed = float(scores.mean())
    means = resample_means(scores, resamples, np.random.default_rng(seed))
    # The last digits depend on the order of summation, and a tie is as extreme as the observed difference.
    extreme = np.abs(means - observed) >= abs(observed) - 1e-9
    low, high = np.quantile(means, (LEVEL / 2, 1 - LEVEL / 2))
    return Bootstrap(observed, float(low), float(high), float((extreme.sum() + 1) / (resamples + 1)))


def resample_means(scores: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Compute the means [resamples] of bootstrap samples, each as large as the data.

    Args:
        scores: [n] values to sample with replacement.
        resamples: number of samples.
        rng: random generator.
    """
    values, counts = np.unique(scores, return_counts=True)
    total, parts = len(scores), [min(CHUNK, resamples - start) for start in range(0, resamples, CHUNK)]
    # Sampling how often each distinct value occurs is equivalent to sampling questions, and faster.
    if len(values) <= FEW_VALUES:
        means = [rng.multinomial(total, counts / total, size=part) @ values / total for part in parts]
    else:
        means = [scores[rng.integers(total, size=(part, total), dtype=np.int32)].mean(axis=1) for part in parts]
    return np.concatenate(means)
