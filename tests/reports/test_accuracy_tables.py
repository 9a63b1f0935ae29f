"""How questions about tables and statements are compared: whole answers, conversations, parts of the questions."""

from __future__ import annotations

import pytest

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import build_report, main_metric
from mate_cli.reports.export.latex import report_latex
from mate_cli.reports.page import render_page
from mate_cli.reports.sections.results import result_view
from mate_cli.reports.terminal import stacked_heading
from tests.reports.runs import build_run

ACCURACY = "denotation_accuracy"
PARTS = {"q1": 0.1, "q2": 0.0, "q3": -0.1, "gold_previous": 0.05, "over_1024_words": -0.3, "129-256_words": 0.02}


def conversation_metrics(level):
    scores = {}
    for split in ("dev", "test"):
        scores |= {f"{split}/{ACCURACY}": level, f"{split}/sequence_accuracy": level / 2}
        scores |= {f"{split}/{ACCURACY}/{part}": level + gain for part, gain in PARTS.items()}
    return scores | {f"baseline/frequent_column/test/{ACCURACY}": 0.1}


@pytest.fixture
def report(tmp_path):
    for model, level in (("mate", 0.6), ("tapas", 0.5)):
        build_run(tmp_path / model, model=model, dataset="sqa", task="table_qa", metrics=conversation_metrics(level))
    return build_report([tmp_path])


def test_each_kind_of_parts_has_a_table(report):
    assert report.metric == f"dev/{ACCURACY}"
    titles = [table.title for table in report.tables]
    assert titles == [
        *("Accuracy on sqa", "Accuracy on sqa · with right answers before", "Accuracy on sqa · test"),
        "Accuracy on sqa · test, by place in the conversation",
        *("Accuracy on sqa · test, with right answers before", "Accuracy on sqa · test, by words of the input"),
    ]
    heads = [[stacked_heading(column) for column in result_view(table).columns[:-1]] for table in report.tables]
    dev, test = ([f"{split}\n{score}" for score in ("Denotation accuracy", "SEQ")] for split in ("Dev", "Test"))
    assert heads == [dev, dev[:1], test, ["\nQ1", "\nQ2", "\nQ3"], test[:1], ["\n129-256 words", "\nover 1024 words"]]


def test_papers_and_baselines_stand_below(report):
    before, whole = report.tables[1:3]
    assert [row.label for row in whole.baselines] == ["frequent column baseline"]
    assert [row.label for row in whole.published] == [
        *("MATE + CS", "MATE", "TAPAS + CS (MATE paper)", "TAPAS (MATE paper)", "TAPAS large, intermediate"),
        "TAPAS large",
    ]
    assert "TAPAS tiny, intermediate" in [row.label for row in before.published]
    assert any("test split:" in note and "Herzig et al. (2020)" in note for note in report.notes)


def test_without_a_test_split_dev_has_the_parts(tmp_path):
    metrics = {name: value for name, value in conversation_metrics(0.5).items() if not name.startswith("test/")}
    build_run(tmp_path / "a", dataset="sqa", task="table_qa", metrics=metrics)
    titles = [table.title for table in build_report([tmp_path]).tables]
    assert "Accuracy on sqa · dev, by words of the input" in titles


def test_statements_by_subset(tmp_path):
    subsets = {f"test/accuracy/{part}": 0.5 for part in ("small", "complex", "simple")}
    build_run(tmp_path / "a", dataset="tabfact", task="entailment", metrics={"test/accuracy": 0.6, **subsets})
    whole, parts = build_report([tmp_path]).tables
    assert [column.full for column in whole.columns] == ["test/accuracy"]
    heads = [stacked_heading(column).strip() for column in result_view(parts).columns[:-1]]
    assert heads == ["Simple", "Complex", "Small"]
    assert [row.label for row in parts.published] == ["TAPAS large, intermediate"]


def test_the_page_and_the_paper_tables_show_every_part(report, tmp_path):
    page, latex = render_page(report, tmp_path), report_latex(report)
    for expected in ("by place in the conversation", "by words of the input", "with right answers before"):
        assert expected in page
        assert expected in latex
    assert "over 1024 words" in latex
    assert result_view(report.tables[1]).spans(0) == [("Dev", 1), ("", 1)]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("dev/sequence_accuracy", "Dev SEQ"),
        ("test/denotation_accuracy/1-128_words", "Test Denotation accuracy, 1-128 words"),
        ("dev/em/table", "Dev EM, In-Table"),
    ],
)
def test_titles(name, title):
    assert MetricName.parse(name).title == title


def test_denotation_accuracy_sums_up_a_run():
    names = ["test/sequence_accuracy", "test/official_accuracy", f"test/{ACCURACY}", f"test/{ACCURACY}/q1", "dev/loss"]
    assert main_metric([map(MetricName.parse, names)]) == f"test/{ACCURACY}"


def test_parts_by_length_are_in_order():
    parts = ["over_1024_words", "513-1024_words", "1-128_words", "q2", "129-256_words"]
    ranked = sorted((MetricName.parse(f"test/accuracy/{part}") for part in parts), key=MetricName.rank)
    assert [metric.part for metric in ranked] == ["q2", "1-128_words", "129-256_words", "513-1024_words", parts[0]]
