from __future__ import annotations

import json
from itertools import pairwise

import pytest

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.page import write_page
from mate_cli.reports.plots.style import COLORS
from tests.reports.answered import answer_questions
from tests.reports.browser import CHROMIUM, Browser
from tests.reports.runs import build_demo, build_run
from tests.reports.study import build_study

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome on PATH")
LINES = "document.querySelectorAll('#curve-charts .line').length"
SHAPES = "[...document.querySelectorAll('#curve-charts .line')].map((line) => line.getAttribute('d')).join()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    one = Browser(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = build_study(tmp_path_factory.mktemp("outputs"), questions=60)
    return write_page(build_report([root], against="tapas"), root / "compare.html")


@pytest.fixture
def page(browser, study):
    browser.open(study)
    browser.evaluate("sessionStorage.clear()")
    browser.open(study)
    return browser


@pytest.fixture(autouse=True)
def quiet(request):
    """Whatever a test did, the page logged nothing and asked nothing of a network."""
    yield
    if "browser" in request.fixturenames:
        browser = request.getfixturevalue("browser")
        assert browser.console == []
        assert [url for url in browser.requests if not url.startswith("file://")] == []


@pytest.mark.long
def test_a_heading_sorts_by_mouse_and_by_key(page):
    names, heading = "#results table tbody th", "#results table tr.sort th:nth-child(2)"
    assert page.texts(names)[:5] == ["mate", "tapas", "sat", "linformer", "etc"]
    page.click(heading)
    page.click(heading)
    assert page.evaluate(f"document.querySelector('{heading}').ariaSort") == "ascending"
    assert page.texts(names)[:5] == ["etc", "linformer", "sat", "tapas", "mate"]
    page.evaluate(f"document.querySelector('{heading}').focus()")
    page.key("Enter")
    assert page.texts(names)[:5] == ["mate", "tapas", "sat", "linformer", "etc"]


@pytest.mark.long
def test_the_legend_hides_shows_and_isolates(page):
    every = page.evaluate(LINES)
    page.click("#curve-legend .item:nth-child(2) button")
    assert page.evaluate(LINES) == every * 4 // 5
    assert page.evaluate("document.querySelector('#curve-legend [data-group=\"1\"]').ariaPressed") == "false"
    page.key("Enter")
    assert page.evaluate(LINES) == every
    page.click("#curve-legend .item:nth-child(3) .only")
    assert page.evaluate(LINES) == every // 5
    page.click("#curve-legend .all")
    assert page.evaluate(LINES) == every


@pytest.mark.long
def test_every_control_changes_the_drawing(page):
    seen = [page.evaluate(SHAPES)]
    for name, value in (("curve-kind", "runs"), ("curve-smoothing", "0.8"), ("curve-x", "seconds")):
        page.choose(name, value)
        seen.append(page.evaluate(SHAPES))
    page.click("#curve-log")
    seen.append(page.evaluate(SHAPES))
    assert len(set(seen)) == len(seen)
    assert page.evaluate("document.querySelectorAll('#curve-charts .raw').length") == page.evaluate(LINES)
    assert any("wall time" in text for text in page.texts("#curve-charts .axis"))
    page.evaluate("document.querySelector('.runs-menu').open = true")
    before = page.evaluate(LINES)
    page.click("#curve-runs button")
    assert page.evaluate(LINES) == before - 4


@pytest.mark.long
def test_metrics_are_chosen_and_published_figures_are_lines(page):
    assert page.evaluate("document.querySelectorAll('#curve-charts figure').length") == 4
    assert "PointR + MATE" in " ".join(page.texts("#curve-charts text.reference"))
    page.click("#curve-lines")
    assert page.texts("#curve-charts text.reference") == []
    for number in (0, 1, 2):
        page.click(f"#curve-metrics button:nth-child({number + 1})")
    assert page.evaluate("document.querySelectorAll('#curve-charts figure').length") == 1


@pytest.mark.long
def test_numbers_appear_under_the_pointer_and_by_arrow_keys(page):
    page.click("#curve-charts svg")
    (tip, *_) = page.texts("#curve-charts .tip")
    assert tip.startswith("step ")
    assert "linformer" in tip
    page.evaluate("document.querySelector('#curve-charts svg').focus()")
    page.key("ArrowRight")
    assert page.texts("#curve-charts .tip")[0] != tip


STRUCK = """
[...document.querySelectorAll('#cost-chart .name')].filter((name) => {
  const { x, y, width, height } = name.getBBox();
  return [...document.querySelectorAll('#cost-chart .whiskers line')].some(({ x1, x2, y1, y2 }) =>
    [x1, x2, y1, y2].map((one) => one.baseVal.value).every((value, n) => (n === 0 ? value < x + width - 2 :
      n === 1 ? value > x + 2 : n === 2 ? value < y + height - 4 : value > y + 4)));
}).map((name) => name.textContent)
"""
"""The names that a whisker crosses."""


@pytest.mark.long
def test_a_score_is_drawn_against_each_cost(page):
    titles = set()
    page.evaluate("costData.groups.flatMap(({ costs }) => Object.values(costs)).forEach((cost) => (cost[1] = cost[0]))")
    inside = "one.x1.baseVal.value >= 0 && one.x2.baseVal.value <= one.ownerSVGElement.viewBox.baseVal.width"
    for number in range(5):
        page.choose("cost-cost", str(number))
        whiskers = page.evaluate(f"[...document.querySelectorAll('#cost-chart .whiskers line')].map((one) => {inside})")
        assert whiskers
        assert all(whiskers)
        assert page.evaluate(STRUCK) == []
        titles |= set(page.texts("#cost-chart figcaption"))
        assert page.evaluate("document.querySelectorAll('#cost-chart svg > .shape').length") == 5
    assert len(titles) == 5
    assert {"mate", "tapas", "etc"} <= set(page.texts("#cost-chart .name"))


@pytest.mark.long
def test_questions_are_searched_and_bars_chosen(page):
    shown = "document.querySelectorAll('#question-list > li:not([hidden])').length"
    assert page.evaluate(shown) == 6
    page.click("#question-more")
    assert page.evaluate(shown) > 6
    page.choose("question-filter", "season of 1902")
    assert page.evaluate(shown) <= 1
    page.choose("question-filter", "")
    every = page.evaluate(shown)
    page.choose("question-right", "mate")
    page.choose("question-wrong", "etc")
    cards = "[...document.querySelectorAll('#question-list > li:not([hidden])')].map((one) => one.dataset.{})"
    assert 0 < page.evaluate(shown) < every
    assert all("mate" in json.loads(one) for one in page.evaluate(cards.format("right")))
    assert all("etc" in json.loads(one) for one in page.evaluate(cards.format("wrong")))
    page.choose("bar-metric", "dev/em")
    visible = "[...document.querySelectorAll('[data-metric]:not([hidden])')].map((one) => one.dataset.metric)"
    assert page.evaluate(visible) == ["dev/em"]


@pytest.mark.long
def test_choices_outlive_a_page_that_loads_itself_again(page, study):
    page.click("#curve-legend .item:nth-child(1) button")
    page.click("#curve-log")
    page.choose("curve-x", "epochs")
    drawing = page.evaluate(SHAPES)
    page.open(study)
    assert page.evaluate(SHAPES) == drawing


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_scrolls_down_only(page, study, dark):
    page.open(study, width=390, height=844, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    cut = (
        "[...document.querySelectorAll('h1,h2,h3,p,button,select,label')].filter((one) => !one.closest('.scroll')"
        " && one.getBoundingClientRect().right > 391).map((one) => one.textContent)"
    )
    assert page.evaluate(cut) == []


@pytest.mark.long
def test_no_table_is_cut_on_a_desktop_and_no_name_widens_a_phone(browser, tmp_path):
    cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    for number in range(12):
        config = {"model": {"a_setting_with_a_long_name": f"a_value_that_is_no_shorter_{number}"}}
        run = build_run(tmp_path / f"{number}", model="row_column_transformer", config=config)
        answer_questions(run, 0.5, seed=number)
    page = write_page(build_report([tmp_path], against="shorter_2"), tmp_path / "compare.html")
    browser.open(page)
    assert browser.evaluate(cut) == 0
    browser.open(page, width=390)
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    assert browser.evaluate("document.querySelector('#results tbody td').getBoundingClientRect().left") < 260


@pytest.mark.long
def test_tables_of_one_row_stand_beside_each_other(browser, tmp_path):
    build_run(tmp_path / "run", metrics={"dev/em": 0.5, "dev/loss": 1.0, "test/em": 0.4, "test/loss": 1.1})
    browser.open(write_page(build_report([tmp_path], published=False), tmp_path / "compare.html"))
    tops = "[...document.querySelectorAll('#results .short')].map((one) => one.getBoundingClientRect().top)"
    first, second, *_ = browser.evaluate(tops)
    assert first == second
    headings = "[...document.querySelectorAll('#results .short caption span')]"
    browser.evaluate(f"{headings}.forEach((one) => {{ one.textContent = 'by the place of the answer, '.repeat(4); }})")
    assert (
        browser.evaluate(
            f"{headings}.some((one) => one.closest('.short').scrollWidth > one.closest('.short').clientWidth)"
        )
        is False
    )


@pytest.mark.long
def test_headings_are_in_order_and_controls_have_names(page):
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    unnamed = (
        "[...document.querySelectorAll('select,input,button')]"
        ".filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length)).length"
    )
    assert page.evaluate(unnamed) == 0


@pytest.mark.long
def test_paper_shows_what_was_folded_and_no_controls(page, study):
    page.open(study, dark=True)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.send("Emulation.setEmulatedMedia", media="print", features=dark)
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--c0')") == COLORS[0]
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details:not(.runs-menu)')].every((one) => one.open)")
    assert page.evaluate("getComputedStyle(document.querySelector('.controls')).display") == "none"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.evaluate("document.querySelector('#settings details').open")
    page.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.long
def test_without_scripts_a_picture_and_all_tables_remain(browser, study):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(study, wait=False)
    browser.send("DOM.enable")
    document = browser.send("DOM.getDocument", depth=0)["root"]["nodeId"]
    for selector, there in (("noscript svg", True), (".bars .fill", True), ("#curve-charts svg", False)):
        found = browser.send("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        assert bool(found) is there, selector
    browser.send("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.long
def test_runs_without_costs_or_predictions_make_a_page_too(browser, tmp_path):
    root = build_demo(tmp_path)
    browser.open(write_page(build_report([root]), root / "compare.html"))
    assert browser.evaluate(LINES) > 0


@pytest.mark.long
def test_datasets_are_drawn_apart(browser, tmp_path):
    for name in ("hybridqa", "sqa"):
        build_run(tmp_path / name, dataset=name, task="pointr", metrics={"test/em": 0.5})
    browser.open(write_page(build_report([tmp_path]), tmp_path / "compare.html"))
    assert len(browser.texts("#curve-legend .item:not([hidden])")) == 1
    first = browser.evaluate(SHAPES)
    browser.choose("curve-block", "1")
    assert browser.evaluate(SHAPES) != first
    assert len(browser.texts("#curve-legend .item:not([hidden])")) == 1
    assert browser.texts(".bars caption") == ["Test EM (%) on hybridqa", "Test EM (%) on sqa"]


@pytest.mark.long
def test_of_another_dataset_its_own_metrics_are_offered(browser, tmp_path):
    for name, task in (("hybridqa", "cell_selection"), ("sqa", "pointr")):
        build_run(tmp_path / name, dataset=name, task=task)
    browser.open(write_page(build_report([tmp_path]), tmp_path / "compare.html"))
    offered = []
    for dataset in ("0", "1"):
        browser.choose("curve-block", dataset)
        offered.append(set(browser.texts("#curve-metrics button:not([hidden])")))
        assert browser.evaluate(LINES) > 0
        assert "nothing" not in " ".join(browser.texts("#curve-charts")).lower()
    assert offered[0] ^ offered[1] >= {"Dev Hits@1", "Dev EM"}


@pytest.mark.long
def test_fifty_runs_are_light_and_open_within_a_second(browser, tmp_path):
    root = build_study(tmp_path, models=10, seeds=5, points=200, questions=12)
    page = write_page(build_report([root]), root / "compare.html")
    assert page.stat().st_size < 2_000_000
    browser.send("Performance.enable", timeDomain="threadTicks")  # a busy machine does not count, only work does
    browser.open(page)
    spent = {one["name"]: one["value"] for one in browser.send("Performance.getMetrics")["metrics"]}
    assert 0 < spent["TaskDuration"] < 1
    assert browser.evaluate("document.querySelectorAll('#runs tbody tr').length") == 50
    browser.send("Performance.disable")


@pytest.mark.long
def test_the_arithmetic_of_lines(page):
    assert page.evaluate("between([0, 10, 20], [0, 1, 3], 15)") == 2
    assert page.evaluate("Number.isNaN(between([0, 10], [0, 1], 11))")
    assert page.evaluate("smooth([4, 4, 4], 0.9)") == pytest.approx([4, 4, 4])
    assert page.evaluate("smooth([0, 1], 0.5)") == pytest.approx([0, 2 / 3])
    mean = page.evaluate("meanOf([{xs: [0, 2], raw: [1, 3]}, {xs: [0, 1], raw: [3, 3]}])[0]")
    assert (mean["raw"], mean["low"], mean["high"]) == ([2, 3], [1, 3], [3, 3])


@pytest.mark.long
def test_ticks_are_round(page):
    assert page.evaluate("roundTicks(0, 9780, 4)") == [0, 2500, 5000, 7500]
    assert page.evaluate("roundTicks(1, 2, 5, 1)") == [1, 2], "no step between two steps"
    assert page.evaluate("roundTicks(0, 10, 4, 1)") == [0, 5, 10]
    assert page.evaluate("logTicks(0.4, 3)") == pytest.approx([0.5, 1, 2])
    assert page.evaluate("timeTicks(0, 16000, 5)") == [0, 3600, 7200, 10800, 14400]
    assert page.evaluate("[950, 22700, 3.1e11, 0.42].map((one) => count(one))") == ["950", "22.7K", "310G", "0.42"]
    assert page.evaluate("tickTexts([0.7421, 0.7424, 0.7427], count)") == ["0.7421", "0.7424", "0.7427"]
    assert page.evaluate("tickTexts([14401, 14402], duration)") == ["4 h", "4.001 h"]
