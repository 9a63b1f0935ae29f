"""A score is compared by the number of its own questions, and a user's subsets keep their names."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mate_cli.data.datasets.labelled.rows import USER_SUBSET
from mate_cli.metrics.exact_match import score_answers
from mate_cli.metrics.specs import MetricName, Score, subset_of
from mate_cli.metrics.subsets import average_by_group
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.compare.significance import paired_bootstrap
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.compare.tables import ResultRow, ResultTable
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from tests.reports.runs import build_run

COUNT = "dev/denotation_accuracy/subset/count"
WHOLE = "dev/denotation_accuracy"


def two_runs(folder, first, second, **record):
    for model, part in (("mate", first), ("sat", second)):
        build_run(folder / model, model=model, metrics={WHOLE: 15 / 21, COUNT: part}, data={"dev": 21}, **record)
    return build_report([folder], published=False)


def marks(report, metric=COUNT):
    return [
        table.mark([column.full for column in table.columns].index(metric), row.cells[-1])
        for table in report.tables
        for row in table.rows
        if metric in [column.full for column in table.columns]
    ]


def test_a_subset_is_judged_by_the_number_of_its_own_questions(tmp_path):
    """One of four against none of four is no difference; of twenty-one questions it would be."""
    assert marks(two_runs(tmp_path / "few", 0.25, 0.0, counts={WHOLE: 21, COUNT: 4})) == ["", ""]
    assert marks(two_runs(tmp_path / "many", 0.25, 0.0, counts={WHOLE: 210, COUNT: 40})) == ["best", ""]


@pytest.mark.parametrize("record", [{}, {"questions": {"dev": "21:ab", "dev/count": "4"}}, {"counts": {WHOLE: 21}}])
def test_a_subset_of_unknown_size_has_no_mark_and_no_interval(tmp_path, record):
    report = two_runs(tmp_path, 0.25, 0.0, **record)
    assert marks(report) == ["", ""]
    assert {group.summary(COUNT).interval for group in report.groups} == {None}
    assert {group.summary(WHOLE).questions for group in report.groups} == {21}, "older records have it by split"


def test_the_size_is_shown_next_to_each_subset(tmp_path):
    report = two_runs(tmp_path, 0.25, 0.0, counts={WHOLE: 21, COUNT: 4})
    titles = [table.part_title(place) for table in report.tables for place, c in enumerate(table.columns) if c.part]
    assert titles == ["count (4)"]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), st.data())
def test_stars_match_an_independent_test_of_two_proportions(one, two, data):
    """A star needs p < 0.1 by a z-test of two proportions (scipy); p < 0.005 by Fisher's exact test needs a star."""
    right = [data.draw(st.integers(0, size)) for size in (one, two)]
    cells = [summarize([r / size], questions=size) for r, size in zip(right, (one, two), strict=True)]
    rows = tuple(ResultRow(str(place), 1, (cell,)) for place, cell in enumerate(cells))
    table = ResultTable("", "", "", (MetricName.parse(COUNT),), rows)
    starred = any(table.mark(0, cell) for cell in cells)
    wrong = [one - right[0], two - right[1]]
    if starred:
        pooled = sum(right) / (one + two)
        deviation = (pooled * (1 - pooled) * (1 / one + 1 / two)) ** 0.5
        assert 2 * stats.norm.sf(abs(right[0] / one - right[1] / two) / deviation) < 0.1
    if stats.fisher_exact([right, wrong]).pvalue < 0.005:
        assert starred


@settings(max_examples=40, deadline=None)
@given(st.integers(20, 300), st.floats(0.05, 0.95), st.floats(0, 0.5), st.integers(0, 999))
def test_paired_differences_match_an_independent_paired_test(size, level, flips, seed):
    """The bootstrap over questions agrees with scipy's paired t-test, except for p from 0.01 to 0.1."""
    rng = np.random.default_rng(seed)
    first = rng.random(size) < level
    second = np.where(rng.random(size) < flips, rng.random(size) < 0.5, first)
    differences = first.astype(float) - second
    is_significant = paired_bootstrap(differences, resamples=2_000).p < 0.05
    if np.count_nonzero(differences) >= 10 and np.ptp(differences) > 0:
        p = stats.ttest_1samp(differences, 0).pvalue
        assert not (is_significant and p > 0.1)
        assert is_significant or p > 0.01


def table_example(name, source, subsets=()):
    table = Table("t", (Cell("h"),), ((Cell("x"),),))
    return TableExample(name, "ask", table, Answer(("x",), source=source), subsets=subsets)


def test_metrics_count_their_own_questions():
    sources = ["table"] * 3 + ["passage"] * 2
    examples = {str(place): table_example(str(place), source) for place, source in enumerate(sources)}
    scores = score_answers({"0": "x", "3": "x"}, examples)
    assert {name: (round(float(score), 3), score.questions) for name, score in scores.items() if "em" in name} == {
        "em": (0.4, 5),
        "em/table": (0.333, 3),
        "em/passage": (0.5, 2),
    }


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda score: pickle.loads(pickle.dumps(score))])
def test_a_copied_score_keeps_its_number_and_arithmetic_drops_it(clone):
    score = clone(average_by_group("em", {"a": 1.0}, ["a", "b"])["em"])
    assert (type(score), score, score.questions) == (Score, 0.5, 2)
    assert type(score * 1) is float
    assert json.dumps(score) == "0.5"


@pytest.mark.parametrize("name", ["comparison", "table", "no_answer", "easy", "hard", "my own/part"])
def test_a_user_defined_subset_never_takes_the_place_of_a_papers(name):
    spec = subset_of(f"{USER_SUBSET}{name}")
    other = subset_of(f"{USER_SUBSET}other")
    assert (spec.title, spec.kind, spec.order) == (name, other.kind, other.order)


def test_all_user_defined_subsets_stand_in_one_table(tmp_path):
    names = ["comparison", "easy", "no_answer", "table"]
    parts = {f"{split}/denotation_accuracy/subset/{name}": 0.5 for name in names for split in ("dev", "test")}
    build_run(tmp_path / "a", metrics={WHOLE: 0.5, "test/denotation_accuracy": 0.5, **parts})
    tables = build_report([tmp_path], published=False).tables
    found = [[column.part_title for column in table.columns] for table in tables if table.columns[0].part]
    assert found == [names, names], "one of dev and one of test"
