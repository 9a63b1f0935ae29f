from __future__ import annotations

import itertools
import json
import re
from dataclasses import astuple

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from mate_cli.errors import ConfigError
from mate_cli.reports.compare.configuration import Options
from mate_cli.reports.compare.grouping import group_runs
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.compare.significance import (
    compare_with,
    crossed_p,
    effective_size,
    find_groups,
    holm,
    paired_bootstrap,
)
from mate_cli.reports.compare.statistics import wilson_interval
from mate_cli.reports.export.data_files import report_json, report_markdown
from mate_cli.reports.export.latex import report_latex
from mate_cli.reports.format import NOTHING
from mate_cli.reports.page import render_page
from mate_cli.reports.runs.load import load_runs
from mate_cli.reports.sections.results import result_view
from mate_cli.reports.sections.significance import p_text
from mate_cli.reports.terminal import print_report
from tests.reports.answered import answer_questions, question_row, write_rows
from tests.reports.runs import build_run

METRIC = "dev/hits@1"


def test_p_and_interval_of_signs_are_the_binomial_ones():
    """With differences of +1 and -1 alone, the mean of a sample is a binomial count."""
    wins, total = 70, 120
    found = paired_bootstrap([1.0] * wins + [-1.0] * (total - wins), resamples=200_000)
    counts = np.arange(total + 1)
    chances = stats.binom.pmf(counts, total, wins / total)
    away = np.abs(counts - wins) >= abs(wins - total / 2)
    assert found.difference == pytest.approx(2 * wins / total - 1)
    assert found.p == pytest.approx(chances[away].sum(), abs=6e-3)
    bounds = stats.binom.ppf([0.025, 0.975], total, wins / total)
    assert [found.low, found.high] == pytest.approx(list(2 * bounds / total - 1), abs=2 / total)


@pytest.mark.parametrize("count", [80, 400])
def test_the_interval_is_that_of_scipy(count):
    """In scipy's bootstrap of a ratio, a table is a pair: the sum of its differences, and the number of them."""
    rng = np.random.default_rng(6)
    tables = np.unique(rng.integers(count, size=400) if count < 400 else np.arange(400), return_inverse=True)[1]
    differences = rng.normal(0.1, 1, count)[tables] + rng.normal(0, 0.5, 400)
    found = paired_bootstrap(differences, tables)
    theirs = stats.bootstrap(
        (np.bincount(tables, differences), np.bincount(tables)),
        lambda sums, counts, axis: sums.sum(axis=axis) / counts.sum(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(7),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert [found.low, found.high] == pytest.approx([theirs.low, theirs.high], abs=0.03 * width)
    independent = paired_bootstrap(differences)
    assert (width > 1.5 * (independent.high - independent.low)) == (count < 400)


def draw_scores(rng, tables, runs, *, run_effect, truth=0.0):
    """Scores [2 systems, runs, questions] with effects of the table, of the run and of both, and the tables."""
    owners = np.repeat(np.arange(tables), rng.integers(1, 9, tables))
    scores = rng.normal(0, 1, len(owners)) + rng.normal(0, 1, tables)[owners]
    scores = scores + rng.normal(0, 1, (2, 1, tables))[..., owners] + rng.normal(0, 1, (2, runs, len(owners)))
    scores = scores + rng.normal(0, run_effect, (2, runs, 1))
    return scores + np.array([truth, 0.0])[:, None, None], owners


@pytest.mark.parametrize(
    ("tables", "repeats", "low"),
    [(30, 150, 0.88), *(pytest.param(count, 2000, 0.93, marks=pytest.mark.long) for count in (12, 60))],
)
def test_intervals_cover_the_truth_as_often_as_promised(tables, repeats, low):
    """Questions of one table have a common effect. Intervals of independent questions would be too narrow."""
    rng, covered, naive = np.random.default_rng(9), [], []
    for repeat in range(repeats):
        scores, owners = draw_scores(rng, tables, 1, run_effect=0, truth=0.1)
        differences = scores[0, 0] - scores[1, 0]
        found = paired_bootstrap(differences, owners, resamples=1000)
        covered.append(found.low <= 0.1 <= found.high)
        if repeat < 100:
            found = paired_bootstrap(differences, resamples=300)
            naive.append(found.low <= 0.1 <= found.high)
    assert low <= np.mean(covered) <= 1.9 - low
    assert np.mean(naive) < low - 0.05


@pytest.mark.parametrize(("run_effect", "runs"), [(0.0, 5), (0.1, 5), (1.0, 3)])
def test_equal_configurations_are_rejected_over_seeds_and_tables_as_often_as_promised(run_effect, runs):
    rng, p_values = np.random.default_rng(11), []
    for _ in range(1000):
        scores, owners = draw_scores(rng, 40, runs, run_effect=run_effect)
        p_values.append(crossed_p([scores[0], -scores[1]], owners))
    assert 0.025 <= np.mean(np.array(p_values) < 0.05) <= 0.075


def test_equal_scores_differ_by_nothing():
    assert astuple(paired_bootstrap([0.0] * 30)) == (0.0, 0.0, 0.0, 1.0, 30)


def test_the_same_questions_give_the_same_table_in_any_order():
    rng = np.random.default_rng(10)
    differences = rng.normal(0, 1, 60)
    assert astuple(paired_bootstrap(differences)) == pytest.approx(astuple(paired_bootstrap(differences[::-1])))
    mirrored = paired_bootstrap(-differences)
    assert mirrored.difference == pytest.approx(-paired_bootstrap(differences).difference)


def test_the_difference_is_of_means_over_seeds_on_common_questions(tmp_path):
    hits = {"mate_1": [1.0] * 30, "mate_2": [1.0] * 15 + [0.0] * 15, "tapas_1": [0.0] * 40}
    (one,) = compare_with(build(tmp_path, hits), METRIC, "tapas").differences
    assert (one.label, one.questions, one.runs) == ("mate", 30, 2)
    assert one.score == one.difference == pytest.approx(0.75)
    assert one.low < 0.75 < one.high
    assert one.is_significant


def test_a_system_without_dev_answers_is_compared_on_test(tmp_path):
    for model, splits in (("mate", ("dev", "test")), ("gpt", ("test",)), ("sat", ("dev",))):
        for split in splits:
            folder = tmp_path / model
            answer_questions(folder if folder.is_dir() else build_run(folder, model=model), split=split)
    groups = group_runs(load_runs([tmp_path]).runs)
    found = {against: compare_with(groups, METRIC, against).differences for against in ("gpt", "mate")}
    assert [(one.label, one.split) for one in found["gpt"]] == [("mate", "test")]
    assert sorted((one.label, one.split) for one in found["mate"]) == [("gpt", "test"), ("sat", "dev")]


def test_runs_that_differ_on_all_questions_alike_have_the_p_of_welch():
    """Without effects of questions, only runs vary. Then the test is Welch's, whose p scipy computes."""
    sides = [np.repeat(means, 40).reshape(-1, 40) for means in ([1.0, 0.8, 0.7], [0.4, 0.3, 0.0, 0.1])]
    tables = np.arange(40) // 4
    expected = stats.ttest_ind(sides[0][:, 0], sides[1][:, 0], equal_var=False).pvalue
    assert crossed_p([sides[0], -sides[1]], tables) == pytest.approx(expected)
    pairs = np.repeat([0.02, 0.05, -0.01, 0.03], 40).reshape(4, 40)
    assert crossed_p([pairs], tables) == pytest.approx(stats.ttest_1samp(pairs[:, 0], 0).pvalue)


def test_runs_that_differ_in_nothing_but_their_last_digits_have_no_p():
    rng = np.random.default_rng(3)
    assert crossed_p([rng.random((2, 30)), rng.random((1, 30))], np.arange(30)) is None
    same = np.array([[0.3] * 30, [0.1 + 0.2] * 30])
    assert crossed_p([same, -2 * same], np.arange(30)) is None


@pytest.mark.parametrize("count", [1, 2, 5])
def test_holm_is_the_closed_test_of_bonferroni(count):
    """A hypothesis is rejected if Bonferroni rejects every set of hypotheses that contains it (Marcus et al. 1976)."""
    values = np.random.default_rng(count).random(count) ** 3
    sets = [chosen for size in range(1, count + 1) for chosen in itertools.combinations(range(count), size)]
    closed = [max(min(1, len(s) * min(values[[*s]])) for s in sets if index in s) for index in range(count)]
    assert holm(values) == pytest.approx(closed)


@pytest.mark.parametrize(
    ("mate", "tapas", "matched"),
    [
        ([(1, 1), (2, 1), (1, 2)], [(1, 2), (1, 1), (2, 1)], True),
        ([(1, 1), (2, 2)], [(2, 2), (1, 1)], True),
        ([(1, 1), (1, 2)], [(1, 1), (2, 1)], False),
        ([(1, 1), (2, 1), (2, 1)], [(1, 1), (2, 1)], False),
        ([(1, 1), (1, 1)], [(1, 1), (1, 1)], False),
    ],
)
def test_runs_that_are_joined_are_paired_by_seed_and_settings(tmp_path, mate, tapas, matched):
    hits = {
        "mate": {(1, 1): 20, (2, 1): 25, (1, 2): 18, (2, 2): 12},
        "tapas": {(1, 1): 19, (2, 1): 21, (1, 2): 18, (2, 2): 9},
    }
    for model, runs in (("mate", mate), ("tapas", tapas)):
        for number, (size, seed) in enumerate(runs):
            config = {"data": {"size": size}}
            run = build_run(tmp_path / f"{model}{number}", model=model, seed=seed, config=config, metrics={METRIC: 0.5})
            right = hits[model][size, seed]
            write_rows(run, [question_row(row, hits=float(row < right)) for row in range(30)])
    groups = group_runs(load_runs([tmp_path]).runs, Options(by=["model"]))
    (one,) = compare_with(groups, METRIC, "tapas").differences
    assert one.runs == len(mate)
    assert (one.joint_p is not None) == matched


def build(root, hits):
    for name, values in hits.items():
        model, _, seed = name.partition("_")
        run = build_run(root / name, model=model, seed=int(seed), steps=1, metrics={})
        write_rows(run, [question_row(number, hits=hit) for number, hit in enumerate(values)])
    return group_runs(load_runs([root]).runs)


@pytest.mark.parametrize("tables", [8, 50])
def test_intervals_of_scores_cover_the_truth_as_often_as_promised(tables):
    """Tables of 1 to 8 questions with a share of correct answers of their own; by question, 79 % are covered."""
    rng, covered = np.random.default_rng(1), 0
    for _ in range(2000):
        owners = np.repeat(np.arange(tables), rng.integers(1, 9, tables))
        scores = (rng.random(len(owners)) < rng.beta(7 / 6, 7 / 6, tables)[owners]).astype(float)
        low, high = wilson_interval(scores.mean(), effective_size(scores, owners))
        covered += low <= 0.5 <= high
    assert 0.93 < covered / 2000 < 0.97


@pytest.mark.parametrize(("hits", "size"), [([1, 1, 1, 0, 0, 0], 20), ([1] * 6, 60), ([0, 1, 1] * 2, 60)])
def test_the_interval_of_a_score_is_that_of_its_effective_questions(tmp_path, hits, size):
    """60 questions about 20 tables count as 20 if each table is wholly right or wholly wrong (a few less, by t)."""
    rows = [question_row(number, hits=float(hit)) for number, hit in enumerate(hits * 10)]
    write_rows(build_run(tmp_path / "a", data={"dev": 60}, metrics={}), rows)
    (note,) = result_view(build_report([tmp_path], published=False).tables[0]).notes
    low, high = map(float, re.search(r": ([\d.]+) to ([\d.]+) for .* on 60 .* 20 tables", note).groups())
    expected = wilson_interval(np.mean(hits), size)
    assert [low / 100, high / 100] == pytest.approx(expected, abs=0.02 if size < 60 else 0.001)


def test_what_cannot_be_compared_is_said(tmp_path):
    answer_questions(build_run(tmp_path / "mate"))
    answer_questions(build_run(tmp_path / "tapas", model="tapas"))
    build_run(tmp_path / "sat", model="sat")
    answer_questions(build_run(tmp_path / "etc", model="etc"), count=19)
    groups = group_runs(load_runs([tmp_path]).runs)
    found = compare_with(groups, METRIC, "mate")
    assert [one.label for one in found.differences] == ["tapas"]
    assert "2 configurations without at least 20 of the same questions about 5 tables left out" in found.notes
    lonely = compare_with(groups, METRIC, "sat")
    assert lonely.differences == ()
    assert "sat has no hits@1 for single questions of dev: mate evaluate" in lonely.notes[0]


def test_questions_of_another_data_set_are_not_the_same(tmp_path):
    answer_questions(build_run(tmp_path / "mate"))
    rows = [question_row(number, hits=1.0) | {"question": f"Who was number {number}?"} for number in range(40)]
    write_rows(build_run(tmp_path / "tapas", model="tapas"), rows)
    assert compare_with(group_runs(load_runs([tmp_path]).runs), METRIC, "mate").differences == ()


def test_a_metric_that_no_question_has(tmp_path):
    answer_questions(build_run(tmp_path / "mate"))
    found = compare_with(group_runs(load_runs([tmp_path]).runs), "test/loss", "mate")
    assert found.differences == ()
    nothing = compare_with(group_runs(load_runs([tmp_path]).runs), None, "mate")
    assert nothing.notes == ("no run has a metric to compare yet",)


@pytest.mark.parametrize(
    ("asked", "label"),
    [
        ("mate", "mate"),
        ("MATE LR=1e-05", "mate · lr=1e-05"),
        ("tapas", "tapas"),
        ("tap", "tapas"),
        ("lr=1e-05 mate", "mate · lr=1e-05"),
    ],
)
def test_a_part_of_a_label_is_enough(tmp_path, asked, label):
    assert find_groups(three(tmp_path), asked)[0].label == label


def test_where_two_datasets_have_a_name_each_is_compared_within_its_own(tmp_path):
    for dataset in ("wtq", "sqa"):
        for model in ("mate", "tapas"):
            answer_questions(build_run(tmp_path / dataset / model, model=model, dataset=dataset), count=30)
    groups = group_runs(load_runs([tmp_path]).runs)
    found = compare_with(groups, METRIC, "tap")
    assert (found.against, {one.label for one in found.differences}) == ("tap", {"mate", "mate · wtq"})
    assert {one.questions for one in found.differences} == {30}
    with pytest.raises(ConfigError, match=r"against: 2 .* mate · wtq \| tapas · wtq"):
        compare_with(groups, METRIC, "wtq")


def test_of_several_the_one_with_the_metric_is_meant(tmp_path):
    tasks = {"pointr": "test/em", "cell_selection": "test/hits@1"}
    folders = {key: build_run(tmp_path / task, task=task, metrics={key: 0.5}) for task, key in tasks.items()}
    groups = group_runs(load_runs([tmp_path]).runs)
    assert len(groups) == 2
    for metric, folder in folders.items():
        assert find_groups(groups, "mate", metric)[0].runs[0].folder == folder


def test_a_chain_goes_before_its_stage_where_both_have_the_metric(tmp_path):
    chain = build_run(tmp_path / "chain", task="pointr", metrics={"dev/hits@1": 0.5})
    build_run(chain / "cell_selection", metrics={"dev/hits@1": 0.5})
    groups = group_runs(load_runs([tmp_path]).runs)
    assert len(groups) == 2
    assert find_groups(groups, "mate", "dev/hits@1")[0].runs[0].folder == chain


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("mat", r"against: 2 .*: mate \| mate · lr=1e-05"),
        ("bert", r"against: .*bert.*: mate \| "),
        ("", r"against: .*: mate \| "),
    ],
)
def test_the_choices_are_named(tmp_path, asked, message):
    with pytest.raises(ConfigError, match=message):
        find_groups(three(tmp_path), asked)


def three(root):
    build_run(root / "1")
    build_run(root / "2", config={"optimizer": {"lr": 1e-5, "weight_decay": 0.01}})
    build_run(root / "3", model="tapas")
    return group_runs(load_runs([root]).runs)


@pytest.fixture
def tested(tmp_path):
    """Against mate: sat is no worse beyond chance, tapas is."""
    build(tmp_path, {"mate_1": [1.0] * 30, "tapas_1": [0.0] * 30, "sat_1": [1.0] * 29 + [0.0]})
    return build_report([tmp_path], against="mate", published=False)


def test_the_table_in_the_terminal(tested, capsys):
    print_report(tested, Console(width=100))
    lines = capsys.readouterr().out.partition("Difference from mate: Dev Hits@1")[2].partition("Cost")[0].splitlines()
    assert [line.split() for line in lines if line.startswith(("tapas", "sat"))] == [
        ["sat", "96.7", "-3.3", "-11.4", "to", "+0.7", "0.61", NOTHING, "30", "10", "1"],
        ["tapas", "0.0", "*-100.0", "-100.0", "to", "-100.0", "<0.001", NOTHING, "30", "10", "1"],
    ]
    text = " ".join(" ".join(lines).split())
    assert "Every p is corrected for 2 comparisons" in text
    assert "A star (*) marks p < 0.05." in text


def test_the_page_the_paper_and_the_notes_have_the_same_tests(tested, tmp_path):
    page = render_page(tested, tmp_path).partition('<section id="significance">')[2].partition("</section>")[0]
    rows = page.partition("<tbody>")[2].split("</tr>")[:2]
    assert [[text for text in re.findall(r">([^<>]+)<", row) if text.strip()] for row in rows] == [
        ["sat", "96.7", "\u22123.3", "\u221211.4 to +0.7", "0.61", " not clear", NOTHING, "30", "10", "1"],
        ["tapas", "0.0", "\u2212100.0", "\u2212100.0 to \u2212100.0", "&lt;0.001", " worse", NOTHING, "30", "10", "1"],
    ]
    assert page.count('class="interval"') == 2
    latex = report_latex(tested)
    assert r"SAT & 96.7 & $-$3.3 & $-$11.4 to +0.7 & 0.61 & -- & 30 & 10 & 1 \\" in latex
    assert r"TAPAS & 0.0 & $-$100.0$^{*}$ & $-$100.0 to $-$100.0 & $<$0.001 & -- & 30 & 10 & 1 \\" in latex
    assert r"$^{*}$: $p < 0.05$." in latex
    markdown = report_markdown(tested)
    assert "| sat | 96.7 | -3.3 | -11.4 to +0.7 | 0.61 | \u2013 | 30 | 10 | 1 |" in markdown
    assert "| tapas | 0.0 | **-100.0** | -100.0 to -100.0 | \\<0.001 | \u2013 | 30 | 10 | 1 |" in markdown
    assert "Bold: p < 0.05." in markdown


def test_the_table_in_json(tmp_path):
    build(tmp_path, {"mate_1": [1.0] * 30, "tapas_1": [0.0] * 30})
    content = json.loads(report_json(build_report([tmp_path], against="mate")))["significance"]
    assert (content["metric"], content["against"]) == (METRIC, "mate")
    names = {"label": "tapas", "split": "dev", "tables": 10, "questions": 30, "runs": 1}
    scores = {"score": 0.0, "difference": -1.0, "low": -1.0, "high": -1.0, "joint_p": None, "joint_holm_p": None}
    assert content["differences"][0] | {"p": 0, "holm_p": 0} == {**names, **scores, "p": 0, "holm_p": 0}


@pytest.mark.parametrize(("p", "text"), [(0.0001, "<0.001"), (0.0004999, "<0.001"), (0.0341, "0.034"), (0.514, "0.51")])
def test_probabilities_are_short(p, text):
    assert p_text(p) == text
