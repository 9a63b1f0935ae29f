"""predictions/<split>.json: what comparisons read question by question."""

import json

from mate_cli.pipelines.evaluation.evaluation import save_predictions
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
