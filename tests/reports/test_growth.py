from dataclasses import replace

import pytest
from runs import build_run

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.page.page import render_page
from mate_cli.reports.plots.figures import write_figures
from mate_cli.reports.plots.growth import growth_figure
from mate_cli.reports.sections.growth import growth_frame

SIZES = (1350, 3000, 12000)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for model in ("mate", "tapas"):
        for size in SIZES if model == "mate" else SIZES[:2]:
            for seed in (1, 2):
                level = size / 20_000 + seed / 100
                config = {"trainer": {"limit_train": None if size == SIZES[-1] else size}}
                build_run(
                    root / f"{model}-{size}-{seed}",
                    model=model,
                    seed=seed,
                    metrics={"test/hits@1": level},
                    config=config,
                    data={"train": size},
                )
    return build_report([root])


def test_configurations_that_differ_by_their_number_of_examples_are_a_line(report):
    frame = growth_frame(report)
    ((label, points),) = frame.lines.items()
    assert "mate" in label, "tapas has two numbers of examples only"
    assert [point.examples for point in points] == list(SIZES)
    assert points[0].mean == pytest.approx(1350 / 20_000 + 0.015)
    assert points[0].error == pytest.approx(0.01 / 2**0.5)
    assert [value for _, value in frame.levels] == pytest.approx([0.801, 0.801])
    assert frame.levels[0][0] == "PointR + MATE, published, dev", "the paper prints no figure of test"


def test_a_single_seed_has_no_error_bar(report):
    frame = growth_frame(report)
    ((label, (first, *others)),) = frame.lines.items()
    lines = {label: [replace(first, error=None), *others]}
    (drawn,) = growth_figure(replace(frame, lines=lines)).axes[0].containers
    (bars,) = drawn.lines[2]
    assert [ends.size > 0 for ends in bars.get_segments()] == [False, *[True] * len(others)]


def test_it_is_on_the_page_and_among_the_figures(report, tmp_path):
    assert "training questions" in render_page(report, tmp_path)
    assert "growth_test_hits_at_1.svg" in {file.name for file in write_figures(report, tmp_path)}


def test_without_several_numbers_of_examples_there_is_none(tmp_path):
    build_run(tmp_path / "one", metrics={"test/hits@1": 0.5})
    assert growth_frame(build_report([tmp_path])) is None
