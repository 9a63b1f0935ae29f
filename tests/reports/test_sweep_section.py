"""A sweep's settings on the page: what was varied, how much it tells, and the runs to filter, pick and group."""

import re

import pytest

from mate_cli.metrics.specs import MetricName
from mate_cli.metrics.subsets import IN_PASSAGE
from mate_cli.reports.compare.questions import ModelAnswer, ScoredQuestion
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.page import render_page, write_page
from mate_cli.reports.sections.cost_and_sweep import (
    distinct_texts,
    explained_variance,
    panels,
    score_runs,
    value_shares,
)
from mate_cli.reports.sections.questions import is_link
from tests.reports.browser import CHROMIUM, Browser
from tests.reports.runs import build_run

METRIC = "dev/em"


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two rates, which decide, and two depths, which do not; a warm-up that changes with the rate."""
    root = tmp_path_factory.mktemp("outputs")
    for rate, score in ((1e-4, 0.6), (1e-3, 0.3)):
        for depth in (2, 4):
            for seed in (1, 2):
                config = {"optimizer": {"lr": rate, "factor": rate * 10}, "extra": {"depth": depth}}
                metrics = {METRIC: score + seed / 100}
                build_run(root / f"{rate}-{depth}-{seed}", seed=seed, config=config, metrics=metrics, steps=4)
    return root


def test_what_was_varied_is_told_apart_by_how_much_it_explains(swept):
    report = build_report([swept])
    metric = MetricName.parse(METRIC)
    runs = [run for group in report.groups for run in score_runs(group, metric)]
    rate, depth = panels(runs)
    assert rate.keys == ("optimizer.lr", "optimizer.factor")
    assert depth.keys == ("extra.depth",)
    assert rate.importance > 0.95
    assert depth.importance == pytest.approx(0, abs=1e-9)
    assert sorted(run.score for run in runs)[0] == pytest.approx(31.0)
    assert explained_variance([0] * len(runs), runs) == 0
    equal = [run._replace(score=62.8) for run in runs[:6]]
    assert explained_variance([0, 0, 0, 1, 1, 1], equal) == 0, "means of equal scores differ in the last digit"
    assert panels(runs[:3]) == []
    page = render_page(report, swept).partition('<section id="sweep">')[2].partition("</section>")[0]
    parallel = page.partition('class="parallel"')[2].partition("</svg>")[0]
    assert [name.partition("<")[0] for name in parallel.split('class="name">')[1:]] == [
        "optimizer.lr = optimizer.factor",
        "extra.depth",
        "EM",
    ]
    runs_drawn = re.findall(
        r'<polyline points="([^"]+)" style="[^"]+ (\d+\.\d+)%, [^"]+"><title>[^<]+: ([\d.]+)', parallel
    )
    assert len(runs_drawn) == 8
    best, worst = max(runs_drawn, key=lambda run: float(run[2])), min(runs_drawn, key=lambda run: float(run[2]))
    assert (float(best[1]), float(worst[1])) == (100, 15)
    top, bottom = (float(points.rpartition(",")[2]) for points, *_ in (best, worst))
    assert top < bottom
    assert "explained 0%" in page


def places(values):
    return dict(sorted(value_shares(values).items(), key=lambda item: item[1]))


def test_values_stand_where_they_belong():
    near, far = places(["1", "2", "3"]), places(["0.001", "0.1", "0.01"])
    assert list(far) == ["0.001", "0.01", "0.1"]
    assert list(near.values()) == list(map(pytest.approx, far.values())) == [0, pytest.approx(0.5), 1]
    assert list(places(["b", "a"])) == ["a", "b"]
    assert list(places(["12000", "null", "1350", "inf", "3000"])) == ["1350", "3000", "12000", "inf", "null"]


def test_no_two_ticks_look_alike():
    assert distinct_texts(["a", "b"]) == ["a", "b"]
    assert distinct_texts(["a long value, cut", "b"]) == ["a long valu…", "b"]
    assert distinct_texts(["data/of/mine/one", "data/of/mine/two"]) == ["…of/mine/one", "…of/mine/two"]


def test_a_linking_cell_is_said_to_be_one():
    question = ScoredQuestion("q", "who?", answers=("Karin Rossi",), source=IN_PASSAGE.name)
    assert is_link(ModelAnswer("mate", (("Castle College", 1),), 1.0), question)
    assert not is_link(ModelAnswer("mate", (("karin  rossi", 1),), 1.0), question)
    assert not is_link(ModelAnswer("mate", (("Castle College", 1),), 0.0), question)


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome on PATH")
def test_runs_are_filtered_grouped_and_picked(swept, tmp_path):
    browser = Browser(tmp_path)
    browser.open(write_page(build_report([swept]), swept / "compare.html"))
    shown = "document.querySelectorAll('table.runs tbody tr:not([hidden])').length"
    assert browser.evaluate(shown) == 8
    browser.choose("run-filter", "optimizer.lr=0.001 depth=2")
    assert browser.evaluate(shown) == 2
    assert browser.evaluate("document.getElementById('run-count').textContent") == "2 of 8 runs"
    browser.choose("run-filter", "")
    browser.choose("run-group", "optimizer.lr")
    assert browser.texts("#run-groups tbody td") == ["4", "61.5", "0.6", "62.0", "4", "31.5", "0.6", "32.0"]
    browser.evaluate("document.querySelector('.pick').click()")
    browser.choose("run-picked", True, "checked")
    assert browser.evaluate(shown) == 1
    first = "document.querySelector('.files a').getAttribute('href')"
    assert browser.evaluate(first).endswith("/config.yaml")
    browser.close()
