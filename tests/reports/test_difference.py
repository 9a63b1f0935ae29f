"""Two runs side by side: what differs between them, in the terminal and on the page of a comparison."""

from __future__ import annotations

import pytest

from mate_cli.reports.runs.load import open_runs
from mate_cli.reports.sections.runs import difference_section
from tests.reports.answered import write_predictions, write_rows
from tests.reports.runs import VERSIONS, build_run

ASKED = [("q1", "Rome", "Rome"), ("q2", "Oslo", "Rome"), ("q3", "Rome", "Oslo"), ("q4", "Oslo", "Riga")]


def row(name, text, **entries):
    made = {"question_id": name, "question": f"{name}?", "answer": ["Rome"], "source": "table", "pred": text}
    return made | {"scores": {"em": float(text == "Rome")}} | entries


@pytest.fixture
def folders(tmp_path):
    first = build_run(tmp_path / "x" / "1", metrics={"dev/accuracy": 0.5, "test/em": 0.4, "dev/loss": 1.0})
    second = build_run(
        tmp_path / "x" / "2",
        model="tapas",
        seed=2,
        metrics={"dev/accuracy": 0.25, "test/em": 0.45},
        config={"optimizer": {"lr": 1e-3, "weight_decay": 0.01}, "model": {"_target_": "mate_cli.models.tapas.Tapas"}},
        versions=VERSIONS | {"torch": "2.14.0"},
        data={"train": 1000, "dev": 3466},
    )
    write_rows(first, [row(name, text) for name, text, _ in ASKED])
    write_rows(second, [row(name, text) for name, _, text in ASKED])
    return first, second


def tables(folders, **options):
    runs = open_runs(folders).runs
    section = difference_section((runs[0], runs[1]), **options)
    return section, {
        view.title: {one.label: [cell.text for cell in one.cells] for one in view.rows} for view in section.views
    }


def test_each_kind_of_difference_has_a_table(folders):
    section, found = tables(folders)
    assert section.notes == ("A: 1, B: 2",)
    assert found["Scores"]["Dev Accuracy"] == ["50.0", "25.0", "-25.0"]
    assert found["Scores"]["Dev Loss"] == ["1", "–", "–"]  # noqa: RUF001
    assert found["Scores on test"] == {"Test EM": ["40.0", "45.0", "+5.0"]}
    assert found["Settings"]["optimizer.lr"] == ["5e-05", "0.001"]
    assert found["Settings"]["model"] == ["mate", "tapas"]
    assert "model._target_" not in found["Settings"], "the name of the model says it"
    assert "optimizer.weight_decay" not in found["Settings"]
    assert found["Seed, hardware and folders"] == {"seed": ["1", "2"]}
    assert found["Versions"] == {"torch": ["2.13.0", "2.14.0"]}
    assert found["Data"]["train"] == ["62,613", "1,000", "-61,613"]
    assert "dev" not in found["Data"], "the same in both"
    assert found["Data"]["test"][1] == "–"  # noqa: RUF001


def test_questions_whose_answer_changed_are_counted_those_won_and_lost_first(folders):
    section, found = tables(folders)
    assert list(found["Answers that changed"]) == ["q2?", "q3?", "q4?"]
    assert found["Answers that changed"]["q2?"] == ["Rome", "✗ Oslo", "✓ Rome"]
    assert found["Answers that changed"]["q4?"] == ["Rome", "✗ Oslo", "✗ Riga"]
    assert section.views[-1].notes == ("3 of 4 answers on dev changed: 1 better, 1 worse",)
    section, found = tables(folders, most=1)
    assert list(found["Answers that changed"]) == ["q2?"]
    assert section.views[-1].notes[1] == "the first 1 are shown"


def test_runs_that_are_alike_have_scores_alone_and_it_is_said(tmp_path):
    folders = [build_run(tmp_path / name, metrics={"dev/em": 0.5}) for name in ("a", "b")]
    section, found = tables(folders)
    assert list(found) == ["Scores"]
    assert section.notes[1] == "the same in both: settings, seed, hardware and folders, versions, data"


def test_damaged_predictions_and_odd_records_are_no_end(tmp_path):
    build_run(tmp_path / "a", metrics={"dev/em": float("nan")}, data={"train": "many"}, versions=["x"])
    build_run(tmp_path / "b", status="failed", config={"deep": {"list": [1, None]}})
    for name, text in (("a", "{"), ("b", "[1, {}, []]")):
        write_predictions(tmp_path / name, text)
    _, found = tables([tmp_path / "a", tmp_path / "b"])
    assert found["Scores"]["Dev EM"][1] == "–"  # noqa: RUF001
    assert found["Settings"]["deep.list"] == ["–", "[1,null]"]  # noqa: RUF001
