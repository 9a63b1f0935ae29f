"""Unanswerable questions are scored and questions with unknown answers are not, wherever a number is printed."""

import json
import re

import pytest
from finished_runs import finished_run

from mate_cli.cli.app import main
from mate_cli.metrics.specs import Score
from mate_cli.pipelines.export.model_card import ExportedModel, model_card
from mate_cli.pipelines.run import describe_unscored
from mate_cli.runs.record import RunRecord
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Table
from tests.reports.answered import question_row, write_rows
from tests.reports.runs import build_run

ANSWERS = [
    question_row(1, hits=0.0),
    question_row(2, hits=1.0) | {"answer": [], "pred": ""},
    question_row(3, hits=0.0) | {"answer": [], "scores": {}},
]
TABLE = [["region", "sales"], ["north", 1204], ["south", 870]]
QUESTIONS = [{"id": str(n), "question": f"who sold {n}?", "table": TABLE} for n in range(6)]
QUESTIONS = [row | {"answer": "north"} if n < 3 else row for n, row in enumerate(QUESTIONS)]
QUESTIONS[3]["answer"] = None


@pytest.mark.parametrize(
    ("words", "scored"),
    [
        (["compare", "a", "sections=wrong"], "1 of 2 questions are answered incorrectly; 1 whose answers"),
        (["diff", "a", "b"], "1 of 2 answers on dev changed: 0 better, 1 worse; 1 whose answers are not known"),
    ],
    ids=["wrong", "diff"],
)
def test_reports_leave_out_unknown_answers_and_keep_unanswerable_questions(
    tmp_path, monkeypatch, capsys, words, scored
):
    monkeypatch.chdir(tmp_path)
    write_rows(build_run(tmp_path / "a", metrics={"dev/hits@1": 0.5}), ANSWERS)
    changed = [ANSWERS[0], ANSWERS[1] | {"pred": "x", "scores": {"hits@1": 0.0}}, ANSWERS[2] | {"pred": "x"}]
    write_rows(build_run(tmp_path / "b", metrics={"dev/hits@1": 0.0}), changed)
    assert main([*words, "html=null"]) == 0
    assert scored in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("system", ["run", "answers"])
def test_evaluations_count_the_unanswerable_and_name_the_rest(tmp_path, capsys, system):
    (tmp_path / "dev.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in QUESTIONS))
    (tmp_path / "answers.json").write_text(json.dumps({"0": "north", "3": [], "4": "south"}))
    data = ["data=files", f"data.root={tmp_path}", "data.dev=dev.jsonl"]
    words = [f"answers={tmp_path}/answers.json", *data]
    if system == "run":
        words = [f"run={finished_run(tmp_path / 'run', ['task=table_qa', *data])}"]
    assert main(["evaluate", *words, "split=dev", f"paths.outputs={tmp_path}/out", f"paths.cache={tmp_path}/c"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"dev\W+Total \(4\)", out)
    assert "not scored, dev: 2 of 6 questions, whose answers are not known" in out
    assert "unanswerable, dev: 1 of 4 scored questions" in out
    if system == "answers":
        assert "2 of 4 questions not answered and scored as wrong" in out
        (record,) = tmp_path.glob("out/evaluate/*/*/record.json")
        assert json.loads(record.read_text())["metrics"]["dev/denotation_accuracy"] == 0.5


def test_a_model_card_counts_the_scored_questions():
    names = {"experiment": "e", "dataset": "sample", "model": "mate", "attention": "auto", "init": "random"}
    record = RunRecord("train", overrides=[], task="table_qa", seed=1, **names)
    answers = [Answer(("north",)), Answer(()), None]
    examples = [TableExample(str(n), "?", Table("t", (), ()), answer) for n, answer in enumerate(answers)]
    record.add_scores("dev/", {"denotation_accuracy": Score(0.5, 2)})
    record.facts = describe_unscored("dev", examples)
    settings = {"encoding": {"max_tokens": 64, "_target_": "x"}, "init": {}, "task": {}, "model": {}}
    text = model_card(ExportedModel(record, settings, {"kind": "random"}, "Mate", None), "folder")
    assert "dev (2 questions)" in text
    assert "Not scored, dev: 1 of 3 questions" in text
    assert "Unanswerable, dev: 1 of 2 scored questions" in text
