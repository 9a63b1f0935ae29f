"""What `mate` does, called from Python: train a run, and ask its network."""

import json

import pandas
import pytest
import torch
from tiny_exports import FRAME, QUESTIONS

import mate_cli
from mate_cli.errors import ConfigError, DataError, RunError


@pytest.fixture(scope="module")
def mate(exports):
    return mate_cli.Mate.from_pretrained(exports("cells"))


def test_an_answer_is_that_of_the_command(exports, mate, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "table.csv"
    pandas.DataFrame(FRAME).to_csv(path, index=False)
    words = [f"checkpoint={exports('cells')}", f"table={path}", "output=answers.json", "paths.cache=cache"]
    from mate_cli.cli.app import main

    assert main(["predict", *words, *(f"question={text}" for text in QUESTIONS)]) == 0
    wanted = [one["answer"] for one in json.loads((tmp_path / "answers.json").read_text())["answers"]]
    frame = pandas.DataFrame(FRAME)
    for table in (path, str(path), frame, mate_cli.Table.from_pandas(frame)):
        answers = mate.predict(table, QUESTIONS)
        assert [one.answer for one in answers] == wanted
        alone = mate.predict(table, QUESTIONS[0])
        assert (alone.answer, alone.cells) == (answers[0].answer, answers[0].cells)
        assert alone.confidence == pytest.approx(answers[0].confidence)


def test_a_long_table_is_cut_to_rows_that_fit_the_question(mate):
    frame = pandas.DataFrame({"Name": [f"n{row}" for row in range(2000)], "Sold": range(2000)})
    answer = mate.predict(frame, "how much did n1234 sell?")
    assert 1235 in answer.row_numbers
    assert len(answer.row_numbers) < 200
    assert answer.cut[0].endswith("share words or numbers with the question (n1234), and the first others.")


def test_what_cannot_be_answered_is_said(mate, exports, tmp_path):
    with pytest.raises(ConfigError, match="question: is blank"):
        mate.predict(pandas.DataFrame(FRAME), " ")
    with pytest.raises(DataError, match="cannot be read: no such file"):
        mate.predict(tmp_path / "none.csv", "who?")
    with pytest.raises(RunError, match="MaskedLM does not answer with table cells"):
        mate_cli.Mate.from_pretrained(exports("pieces")).predict(pandas.DataFrame(FRAME), "who?")


def test_the_network_stays_as_it_was(exports):
    mate = mate_cli.Mate.from_pretrained(exports("cells"), dtype="bfloat16").train()
    assert mate.predict(pandas.DataFrame(FRAME), QUESTIONS[0]).confidence > 0
    assert mate.training
    assert mate.dtype == torch.bfloat16


def test_training_gives_the_record_back(tmp_path):
    words = ["experiment=quickstart_cells", "debug=fast", "logger=none", f"paths.outputs={tmp_path}", "name=a"]
    record = mate_cli.train([*words, f"paths.cache={tmp_path}"])
    assert (record.status, record.experiment, record.folder) == (
        "finished",
        "quickstart_cells",
        tmp_path / "train/quickstart_cells/a",
    )
    assert record.metrics["dev/hits@1"] >= 0
    assert isinstance(mate_cli.Mate.from_pretrained(record.folder), torch.nn.Module)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["experiment=quickstart_cells", "optimizer.lr=fast"], "optimizer.lr"),
        (["experiment=quickstart_cels"], "Did you mean|quickstart_cells"),
        ("experiment=quickstart_cells", "experiment=quickstart_cells: mate_cli.train takes a list of overrides"),
        (["-m", "experiment=quickstart_cells"], "-m: mate_cli.train takes overrides only. Call it once for each run"),
    ],
)
def test_what_cannot_be_trained_is_raised(words, problem, tmp_path):
    with pytest.raises(ConfigError, match=problem):
        mate_cli.train(words if isinstance(words, str) else [*words, f"paths.outputs={tmp_path}/o"])
    assert not list(tmp_path.iterdir())
