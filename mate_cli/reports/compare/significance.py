"""Significance tests between configurations: over tables, and over tables and runs together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
MIN_QUESTIONS, MIN_TABLES = 20, 5
"""Minimum numbers of common questions, and of their tables, for a meaningful bootstrap."""
LEVEL = 0.05
SAME = 1e-9
"""Tolerance below which scores count as equal.

The order of summation affects the last digits of a score.
"""
METHOD = "paired bootstrap over tables, because questions about one table are not independent (Field and Welsh 2007)"
JOINT_METHOD = "p with seeds: t-test of tables and runs as crossed random effects (Satterthwaite's degrees of freedom)"


@dataclass(frozen=True)
class Bootstrap:
    """A bootstrap estimate of the mean score difference between two systems.

    Args:
        difference: observed mean difference.
        low: lower end of the 95 % interval.
        high: upper end of the 95 % interval.
        p: two-sided p-value: probability of a difference at least as large if the systems are equally good.
        tables: number of tables of the questions.
    """

    difference: float
    low: float
    high: float
    p: float
    tables: int


@dataclass(frozen=True)
class Difference(Bootstrap):
    """Significance test of the score difference between a configuration and the reference.

    Scores and differences are fractions.

    Args:
        label: label of the configuration.
        split: split of the questions: the split of the metric, or another split if both have answers only there.
        score: mean score of the configuration.
        joint_p: two-sided p-value over tables and runs together, None if it cannot be computed, see `crossed_p`.
        questions: number of common questions.
        runs: number of runs of the configuration.
        holm_p: `p` after Holm's correction for all tests of the comparison.
        joint_holm_p: `joint_p` after Holm's correction for all tests that have one.
    """

    label: str
    split: str
    score: float
    joint_p: float | None
    questions: int
    runs: int
    holm_p: float
    joint_holm_p: float | None

    @property
    def is_significant(self) -> bool:
        """True if the corrected p-value over tables is below 0.05."""
        return self.holm_p < LEVEL


@dataclass(frozen=True)
class Significance:
    """Significance tests of score differences between a reference and other configurations.

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
    """Test the score difference between every configuration and a reference configuration.

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
    return Significance(metric, label, tuple(correct_p(tests)), (*lines, *notes(tests, compared_count)))


def notes(tests: Sequence[Difference], others: int) -> list[str]:
    """Return notes that explain the significance tests and list untestable configurations.

    Args:
        tests: tests of configurations with enough common questions.
        others: number of configurations other than the reference.
    """
    averaged = "scores are means over runs; p covers tables only"
    lines = [f"{METHOD}, {RESAMPLES:,} samples; {averaged}"] if tests else []
    if any(test.tables == test.questions for test in tests):
        lines.append("questions are independent samples if each has its own table, or no table is recorded")
    if any(test.joint_p is not None for test in tests):
        lines.append(JOINT_METHOD)
    if len(tests) > 1:
        lines.append(f"every p is corrected for {len(tests)} comparisons (Holm 1979); intervals are not")
    if others > len(tests):
        skipped_text = plural(others - len(tests), "configuration")
        required = f"{MIN_QUESTIONS} of the same questions about {MIN_TABLES} tables"
        lines.append(f"{skipped_text} without at least {required} left out")
    return lines


def correct_p(tests: Sequence[Difference]) -> list[Difference]:
    """Return the tests with p-values that are corrected for the number of tests (Holm)."""
    joint = holm([test.joint_p for test in tests if test.joint_p is not None])
    return [
        replace(test, holm_p=p, joint_holm_p=None if test.joint_p is None else joint.pop(0))
        for test, p in zip(tests, holm([test.p for test in tests]), strict=True)
    ]


def holm(values: Sequence[float]) -> list[float]:
    """Correct p-values for the number of tests by Holm's method.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    p = np.asarray(values, dtype=float)
    order = np.argsort(p)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return corrected.tolist()


def find_groups(
    groups: Sequence[Configuration], asked: str, metric: str | None = None, key: str = "against"
) -> list[Configuration]:
    """Find the configuration that the user names by its label or by words of its label.

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
    matches = [group for group in matches if metric in group.names] or matches
    matches = [group for group in matches if sorted(label_words(group.label)) == requested_words] or matches
    if len(matches) > 1:
        matches = [group for group in matches if not any(run.parent for run in group.runs)] or matches
    if matches and len({group.dataset for group in matches}) == len(matches):
        return matches
    problem = f"{len(matches)} configurations match {asked}" if matches else f"unknown configuration {asked}"
    labels = " | ".join(group.label for group in matches or groups)
    raise ConfigError(problem, where=key, remedy=f"Choose one of: {labels}")


def label_words(label: str) -> list[str]:
    """Split the label of a configuration into lower-case words, without separating dots."""
    return [word for word in label.casefold().split() if word != "·"]


def compare_pair(
    group: Configuration, reference: Configuration, others: Mapping[ScoredQuestion, float], metric: str
) -> Difference | None:
    """Test whether a configuration and the reference differ in score on common questions.

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
    tables = index_tables(common_questions)
    if not allows_bootstrap(tables):
        return None
    values = np.array([scores[question] for question in common_questions])
    estimate = paired_bootstrap(values - np.array([others[question] for question in common_questions]), tables)
    sides = [run_scores(member, metric, common_questions) for member in (group, reference)]
    if group.differ_by_seed and reference.differ_by_seed:
        samples = [np.array([*sides[0].values()]), -np.array([*sides[1].values()])]
    else:
        samples = [np.array(match_differences(*sides))]
    p = crossed_p(samples, tables)
    return Difference(
        **vars(estimate),
        label=group.label,
        split=MetricName.parse(metric).split,
        score=float(values.mean()),
        joint_p=p,
        questions=len(common_questions),
        runs=len(sides[0]),
        holm_p=estimate.p,
        joint_holm_p=p,
    )


def index_tables(questions: Iterable[ScoredQuestion]) -> np.ndarray:
    """Map the table of each question to an integer index, for computations by table.

    A question of an old prediction file without table ids is a table of its own.
    """
    names = [question.table_id or f"question {question.question_id}" for question in questions]
    return np.unique(names, return_inverse=True)[1]


def allows_bootstrap(tables: np.ndarray) -> bool:
    """Return whether there are enough questions and tables for a meaningful bootstrap.

    Args:
        tables: [questions] index of each question's table, from 0.
    """
    return len(tables) >= MIN_QUESTIONS and len(np.unique(tables)) >= MIN_TABLES


def effective_size(scores: Sequence[float], tables: np.ndarray) -> float:
    """Compute the effective number of questions, because questions share tables.

    The mean score of this number of independent questions would be equally uncertain.

    It is the number of questions divided by the design effect: the variance of the mean if whole tables are sampled,
    relative to the variance if questions are sampled. A design effect below 1 counts as 1.

    Source: Korn and Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data" (also the factor for few tables).

    Args:
        scores: [questions] score of each question.
        tables: [questions] index of each question's table, from 0, of two tables or more.
    """
    from scipy.special import stdtrit  # Importing scipy.stats takes 0.5 s more.

    deviations, count = np.array(scores) - np.mean(scores), int(tables.max()) + 1
    if np.ptp(deviations) < SAME:
        return len(deviations)
    effect = (np.bincount(tables, deviations) ** 2).sum() / (deviations**2).sum() * count / (count - 1)
    widening = stdtrit(count - 1, 1 - LEVEL / 2) / stdtrit(len(deviations) - 1, 1 - LEVEL / 2)
    return len(deviations) / max(1.0, effect * widening**2)


def run_scores(group: Configuration, metric: str, questions: Sequence[ScoredQuestion]) -> dict[LoadedRun, np.ndarray]:
    """Return {run: scores [questions]} of a configuration for the given questions.

    Args:
        group: configuration of the runs.
        metric: full name of the metric.
        questions: questions, in the order of the scores.
    """
    runs = scored_runs(group, metric)
    return {run: np.array([scores[question][1] for question in questions]) for run, scores in runs.items()}


def match_differences(
    scores: Mapping[LoadedRun, np.ndarray], others: Mapping[LoadedRun, np.ndarray]
) -> list[np.ndarray]:
    """Pair the runs of two configurations by seed, and return their score differences.

    Each pair has an array of differences per question.

    Two runs match if their seeds, and all settings that vary within either configuration, are equal. The result is
    empty if any run has no match or several.

    Args:
        scores: scores [questions] of each run of one configuration.
        others: scores [questions] of each run of the second configuration.
    """
    varying = [key for runs in (scores, others) for key in differing_keys([settings(run) for run in runs])]
    sides: list[dict[tuple[str | None, ...], np.ndarray]] = [
        {(run.text("seed"), *map(settings(run).get, varying)): score for run, score in runs.items()}
        for runs in (scores, others)
    ]
    if sides[0].keys() != sides[1].keys() or len(scores) + len(others) > 2 * len(sides[0]):
        return []
    return [score - sides[1][key] for key, score in sides[0].items()]


def crossed_p(samples: Sequence[np.ndarray], tables: np.ndarray) -> float | None:
    """Compute the p-value of a score difference with tables and runs as crossed random effects.

    Tables and runs are crossed random effects: all runs answer the same questions. The variance of the mean difference
    is the variance between tables plus the variance between runs, minus the variance of their interaction, which both
    contain. Questions of one table may correlate.

    Source: Cameron, Gelbach and Miller 2011, "Robust inference with multiway clustering" (the sum of variances);
    Satterthwaite 1946, "An approximate distribution of estimates of variance components" (degrees of freedom).

    Args:
        samples: scores [runs, questions] of one system, and the negated scores of the other system. If runs are
            paired, only the score differences of the pairs.
        tables: [questions] index of each question's table, from 0.

    Returns:
        The two-sided p-value. None if a sample has fewer than two runs, or all runs have equal means.
    """
    if min(map(len, samples)) < 2 or max(np.ptp(sample.mean(axis=1)) for sample in samples) < SAME:
        return None
    from scipy import stats  # Importing scipy takes 0.5 s.

    count = tables.max() + 1
    # [runs, tables]: the share of each table in the deviation of the mean. Each row has the sum 0.
    shares = [
        np.array([np.bincount(tables, row - row.mean(), count) for row in sample]) / len(tables) for sample in samples
    ]
    runs = [sample.mean(axis=1).var(ddof=1) / len(sample) for sample in samples]
    between = (sum(share.mean(axis=0) for share in shares) ** 2).sum() * count / (count - 1)
    interaction = sum(share.var(axis=0, ddof=1).sum() / len(share) for share in shares) * count / (count - 1)
    variance = max(between + sum(runs) - interaction, between, sum(runs))
    parts = [(between, count - 1), *((part, len(sample) - 1) for part, sample in zip(runs, samples, strict=True))]
    freedom = sum(part for part, _ in parts) ** 2 / sum(part**2 / degrees for part, degrees in parts)
    difference = sum(sample.mean() for sample in samples)
    return float(2 * stats.t.sf(abs(difference) / np.sqrt(variance), freedom))


def paired_bootstrap(
    differences: Sequence[float] | np.ndarray,
    tables: Sequence[int] | np.ndarray | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Bootstrap:
    """Estimate the mean score difference of two systems by resampling tables (bootstrap).

    A resampled table contributes all its questions.

    The interval is the percentile interval. With few tables, deviations from the observed difference are widened by the
    factor by which an interval of Student's t is wider than one of the normal distribution. The samples are shifted to
    a mean difference of 0 to compute p. The p-value is the fraction of sampled means at least as far from 0 as the
    observed difference. The observed difference is included as one more sample. Variation between seeds is not
    included, because scores are averaged over seeds first.

    Source: Koehn 2004, "Statistical significance tests for machine translation evaluation" (pairs); Field and Welsh
    2007, "Bootstrapping clustered data" (tables); Hesterberg 2015, "What teachers should know about the bootstrap"
    (few tables); Berg-Kirkpatrick, Burkett and Klein 2012, "An empirical investigation of statistical significance in
    NLP" (the shift, here in both directions); Davison and Hinkley 1997, "Bootstrap methods and their application",
    chapter 4 (1 added to both counts).

    Args:
        differences: [n] score of one system minus score of the other, per question.
        tables: [n] index of each question's table, from 0. None: a table per question.
        resamples: number of bootstrap samples.
        seed: seed of the sampling, so that the same runs give the same table.
    """
    from scipy import stats

    scores = np.asarray(differences, dtype=float)
    groups = np.arange(len(scores)) if tables is None else np.asarray(tables)
    observed, count = float(scores.mean()), int(groups.max()) + 1
    # Deviations have the mean 0, so the sampled mean of a ratio needs no second centering.
    sums = np.stack([np.bincount(groups, scores - observed), np.bincount(groups)], axis=1)
    widening = stats.t.ppf(1 - LEVEL / 2, count - 1) / stats.norm.ppf(1 - LEVEL / 2) * np.sqrt(count / (count - 1))
    deviations = widening * resample_means(sums, resamples, np.random.default_rng(seed))
    # The last digits depend on the order of summation, and a tie is as extreme as the observed difference.
    extreme = np.abs(deviations) >= abs(observed) - 1e-9
    low, high = observed + np.quantile(deviations, (LEVEL / 2, 1 - LEVEL / 2))
    return Bootstrap(observed, float(low), float(high), float((extreme.sum() + 1) / (resamples + 1)), count)


def resample_means(sums: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Sample tables with replacement, and compute the mean score of each bootstrap sample.

    The result has the shape [resamples]. Each mean is over the questions of the sampled tables.

    Args:
        sums: [tables, 2] sum of the values of each table, and number of its questions.
        resamples: number of samples.
        rng: random generator.
    """
    # Rounding makes sums of the same values in another order equal.
    values, counts = np.unique(sums.round(12), axis=0, return_counts=True)
    total, parts = len(sums), [min(CHUNK, resamples - start) for start in range(0, resamples, CHUNK)]
    # Sampling how often each distinct value occurs is equivalent to sampling tables, and faster.
    if len(values) <= FEW_VALUES:
        samples = [rng.multinomial(total, counts / total, size=part) @ values for part in parts]
    else:
        samples = [sums[rng.integers(total, size=(part, total), dtype=np.int32)].sum(axis=1) for part in parts]
    totals, questions = np.concatenate(samples).T
    return totals / questions
