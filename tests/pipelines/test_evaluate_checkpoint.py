"""A released checkpoint is scored without a run, and stands beside runs in a comparison."""

import json

import pytest
from released_tapas import release
from table_releases import write_sqa, write_tabfact, write_wtq

from mate_cli.cli.app import main

WTQ = "tapas_wtq_wikisql_sqa_inter_masklm_tiny_reset"
SQA = "tapas_sqa_inter_masklm_base_reset"
TABFACT = "tapas_tabfact_inter_masklm_large"


def evaluate(tmp_path, *words):
    return main(["evaluate", *words, f"paths.outputs={tmp_path / 'out'}", f"paths.cache={tmp_path / 'cache'}"])


def records(tmp_path):
    return [json.loads(path.read_text()) for path in sorted(tmp_path.glob("out/evaluate/*/*/record.json"))]


def test_both_forms_of_a_checkpoint_score_alike_and_are_compared(tmp_path, capsys):
    theirs = tmp_path / "theirs"
    released, data = release(tmp_path, WTQ, theirs), write_wtq(tmp_path / "wtq")
    words = ["data=wtq", f"data.root={data}", "split=dev,train"]
    assert evaluate(tmp_path, f"checkpoint={released},{theirs}", *words) == 0
    found, expected = sorted(records(tmp_path), key=lambda record: record["experiment"] == "theirs")
    assert found["metrics"] == expected["metrics"]
    assert {"dev/denotation_accuracy", "train/denotation_accuracy"} <= found["metrics"].keys()
    assert (found["status"], found["command"], found["dataset"], found["task"]) == (
        *("finished", "evaluate", "wtq", "table_qa"),
    )
    assert found["init"] == str(released)
    (folder,) = tmp_path.glob(f"out/evaluate/{WTQ}/*")
    rows = json.loads((folder / "predictions" / "dev.json").read_text())
    assert [row["question_id"] for row in rows] == ["nt-9"]
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "out"), "html=null"]) == 0
    shown = capsys.readouterr().out
    assert "Denotation accuracy" in shown
    assert "2 runs: 2 finished" in shown


def test_conversations_and_statements_are_scored_too(tmp_path, capsys):
    sqa, tabfact = release(tmp_path, SQA), release(tmp_path, TABFACT)
    roots = write_sqa(tmp_path / "sqa"), write_tabfact(tmp_path / "tabfact")
    assert evaluate(tmp_path, f"checkpoint={sqa}", "data=sqa", f"data.root={roots[0]}", "split=train") == 0
    assert evaluate(tmp_path, f"checkpoint={tabfact}", "data=tabfact", f"data.root={roots[1]}", "split=dev") == 0
    of_sqa, of_tabfact = sorted(records(tmp_path), key=lambda record: record["dataset"])
    assert {"train/denotation_accuracy", "train/denotation_accuracy/gold_previous"} <= of_sqa["metrics"].keys()
    assert "dev/accuracy" in of_tabfact["metrics"]
    assert of_tabfact["facts"] == {"statements": "lemmatized (tokenized_data)"}
    assert "statements: lemmatized" in capsys.readouterr().out


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    return release(tmp_path_factory.mktemp("released"), WTQ)


REFUSED = {
    "nothing": ([], "run: needs a value. Write run=FOLDER, or checkpoint=NAME data=NAME"),
    "both": (["run=x", "checkpoint=CHECKPOINT"], "run: cannot be combined with checkpoint"),
    "no data": (["checkpoint=CHECKPOINT"], "data: needs a value with checkpoint. Choose it, such as data=wtq"),
    "a run with data": (["run=x", "data=wtq"], "data: a run already has a dataset"),
    "an analysis": (["checkpoint=CHECKPOINT", "data=wtq", "analysis=attention_flow"], "analysis: is for runs"),
    "no checkpoint": (["checkpoint=nowhere", "data=wtq", "data.root=WTQ", "split=dev"], "'nowhere' is not a folder"),
    "no split": (["checkpoint=CHECKPOINT", "data=wtq", "data.root=WTQ", "split=test"], "has no split 'test'"),
    "no such data": (["checkpoint=CHECKPOINT", "data=wtqq"], "wtqq"),
    "statements": (
        ["checkpoint=CHECKPOINT", "data=tabfact", "data.root=TABFACT", "split=dev"],
        "tabfact dev: has statements to judge, ",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_scored_is_refused_and_leaves_nothing(name, answering, tmp_path, capsys):
    words, message = REFUSED[name]
    roots = {"WTQ": write_wtq(tmp_path / "wtq"), "TABFACT": write_tabfact(tmp_path / "tabfact")}
    known = {"CHECKPOINT": answering, **roots}
    typed = [f"{key}={known.get(value, value)}" for key, _, value in (word.partition("=") for word in words)]
    assert evaluate(tmp_path, *typed) == 2
    assert message in capsys.readouterr().err
    assert not records(tmp_path)
