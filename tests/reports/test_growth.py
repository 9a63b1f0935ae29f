import pytest
from runs import build_run

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.page.page import render_page
from mate_cli.reports.sections.growth import report_section

SIZES = (1350, 3000, 12000)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for model in ("mate", "tapas"):
        for size in SIZES if model == "mate" else SIZES[:2]:
            for seed in (1, 2):
                level = size / 20_000 + seed / 100
                config = {"trainer": {"limit_train": None if size == SIZES[-1] else size}}
                data = {"train": size, "test": 1000}
                metrics = {"test/hits@1": level}
                folder = root / f"{model}-{size}-{seed}"
                build_run(folder, model=model, seed=seed, metrics=metrics, config=config, data=data)
    return build_report([root])


def test_configurations_that_differ_by_their_number_of_examples_are_a_row(report):
    (view,) = report_section(report, wide=False).views
    assert [column.title for column in view.columns] == ["1,350", "3,000", "12,000"]
    assert [row.label for row in view.rows] == ["mate"], "tapas has two numbers of examples only"
    assert [(cell.text, cell.spread) for cell in view.rows[0].cells] == [
        ("8.2", "0.7"),
        ("16.5", "0.7"),
        ("61.5", "0.7"),
    ]


def test_it_is_on_the_page(report, tmp_path):
    assert "by number of training questions" in render_page(report, tmp_path)


def test_without_several_numbers_of_examples_there_is_none(tmp_path):
    build_run(tmp_path / "one", metrics={"test/hits@1": 0.5})
    assert report_section(build_report([tmp_path]), wide=False) is None
