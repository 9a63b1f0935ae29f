"""predictions/<split>.json: what comparisons read question by question."""

import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from configurations import run_config
from finished_runs import SMALL

from mate_cli.data.loading.table_data_module import EmptyDataset
from mate_cli.errors import RunError
from mate_cli.lit_modules.cell_selection import CellRanking
from mate_cli.pipelines.assembly import assemble
from mate_cli.pipelines.evaluation.evaluation import evaluate, judge, save_predictions
from mate_cli.pipelines.systems.base import TrainedStage
from mate_cli.runs import ranks
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

TABLE = Table("t", (Cell("a"), Cell("b")), ((Cell("ohio"), Cell("1")), (Cell("utah"), Cell("2"))))


def test_every_question_has_a_row_and_its_scores(tmp_path):
    known = TableExample("q1", "where?", TABLE, Answer(("utah",), ((1, 0),), "table"))
    missed = TableExample("q2", "who?", TABLE, Answer(("ann",), (), "passage"))
    secret = TableExample("q3", "when?", TABLE)
    scores = {"q1": {"em": 1.0, "em/table": 1.0}, "q2": {"em": 0.0}}
    details = {"q1": {"cells": [[1, 0, 0.75]]}}
    examples, answers = (known, missed, secret), {"q1": "utah", "q3": "1"}
    save_predictions(RunFolder(tmp_path), "dev", examples, answers, lambda example: scores[example.example_id], details)
    about = {"table_id": "t", "table_cells": 4}
    first = {"question": "where?", "answer": ["utah"], "source": "table", "answer_cells": [[1, 0]]}
    first |= {"scores": {"em": 1.0}}
    second = {"question": "who?", "answer": ["ann"], "source": "passage", "scores": {"em": 0.0}}
    assert json.loads((tmp_path / "predictions" / "dev.json").read_text()) == [
        {"question_id": "q1", "pred": "utah", **about, **first, "cells": [[1, 0, 0.75]]},
        {"question_id": "q2", "pred": "", **about, **second},
        {"question_id": "q3", "pred": "1", **about, "question": "when?"},
    ]


def test_a_table_of_predictions_tells_a_right_cell_from_a_right_answer():
    """The answer of a selector is the text of a cell; that it links to the passage with the answer makes it right."""
    table = Table("t", (Cell("town"), Cell("state")), ((Cell("Ogden", ("/wiki/Ogden",)), Cell("utah")),))
    examples = [TableExample("q1", "how many people?", table, Answer(("82,825",), ((0, 0),), "passage"))]
    selector = assemble(run_config([*SMALL, "task=cell_selection"]), EmptyDataset()).task
    columns, (row,) = judge(selector, examples, [CellRanking("q1", ((0, 0), (0, 1)), (0.9, 0.1))]).table(5)
    told = dict(zip(columns, row, strict=True))
    assert told["id"] == "q1"
    assert (told["prediction"], told["prediction_cells"], told["answer_cells"]) == ("Ogden", [(0, 0)], [(0, 0)])
    assert told["right cell"] is True
    assert "right" not in columns


def beside_another(monkeypatch):
    """Let there be another process; return what it has of facts, and what the first of both does."""
    facts, events = {}, []
    monkeypatch.setattr(ranks, "world_size", lambda: 2)
    monkeypatch.setattr(ranks, "wait_for_all", lambda: None)
    monkeypatch.setattr(ranks, "broadcast_from_rank_zero", lambda make: (events.append("the first process"), make())[1])
    gather = lambda shares, share: shares.__setitem__(slice(None), [share, share | facts])  # noqa: E731
    monkeypatch.setattr(ranks.dist, "all_gather_object", gather)
    return facts, events


def test_a_stage_refuses_questions_that_another_process_does_not_have(monkeypatch):
    """Processes take turns at the questions: of other ones the answers would be of two sets."""
    config = run_config([*SMALL, "task=cell_selection"])
    stage = TrainedStage("cell_selection", assemble(config, EmptyDataset()), config)
    examples, (theirs, _) = [TableExample("q1", "where?", TABLE)], beside_another(monkeypatch)
    assert [ranking.example_id for ranking in stage.predict(examples, "dev")] == ["q1"]
    theirs["dev"] = "0123456789ab"
    with pytest.raises(RunError, match=r"rank 1 has dev: 0123456789ab, but rank 0 has "):
        stage.predict(examples, "dev")


def test_the_first_process_reads_a_split_before_the_others(monkeypatch):
    """It may have to be fetched, and two would fetch it into one file."""
    _, events = beside_another(monkeypatch)
    loader = Mock(side_effect=StopIteration)  # nothing is predicted here
    data = SimpleNamespace(examples=lambda split: events.append(f"{split} is read"), loader=loader)
    with pytest.raises(StopIteration):
        evaluate(SimpleNamespace(data=data), None, "test")
    assert events == ["the first process", "test is read", "test is read"]
