"""Questions with options in ReClor's layout: what is read, what is refused, what is counted."""

import json

import pytest

from mate_cli.cli.app import main
from mate_cli.data.datasets.logiqa.reader import LogiQa
from mate_cli.data.datasets.reclor.reader import ReClor
from mate_cli.data.guesses import majority_label
from mate_cli.errors import DataError
from mate_cli.tables.example import ChoiceExample


def entry(name="a", **changed):
    plain = {"context": "All cats sleep.", "question": "Which follows?", "answers": ["Tom", "No cat", "Dogs", "Rain"]}
    return {**plain, "label": 1, "id_string": name, **changed}


@pytest.fixture
def root(tmp_path):
    def write(file, *entries):
        (tmp_path / file).write_text(json.dumps(entries))
        return tmp_path

    write("train.json", entry("t1"), entry("t2", label=3), entry("t3", label=3))
    write("more.json", entry("m1"))
    write("val.json", entry("v1"))
    write("test.json", {key: value for key, value in entry("x1").items() if key != "label"})
    return write


def test_questions_are_read_with_their_options(root, tmp_path):
    data = LogiQa(tmp_path)
    first, *rest = data.examples("train")
    assert isinstance(first, ChoiceExample)
    assert first.options == ("Tom", "No cat", "Dogs", "Rain")
    assert (first.answer.label, first.answer.texts) == (1, ("No cat",))
    assert first.table.rows[0][0].text == "All cats sleep."
    assert [example.answer.label for example in rest] == [3, 3]
    assert majority_label(data.examples("train")) == 3
    assert ReClor(tmp_path).examples("test")[0].answer is None
    more = LogiQa(tmp_path, more_training=("more.json",))
    assert [example.example_id for example in more.examples("train")] == ["t1", "t2", "t3", "m1"]
    assert len(more.examples("dev")) == 1


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"label": 4}, "no place among 4 answers"),
        ({"label": True}, "no place among"),
        ({"answers": ["one"]}, "two answers"),
        ({"answers": ["one", " "]}, "an answer is empty"),
        ({"context": ""}, "the context or the question"),
        ({"id_string": ""}, "no id_string"),
    ],
)
def test_damage_is_named(root, tmp_path, wrong, what):
    root("val.json", entry("good"), entry(**{"name": "bad", **wrong}))
    with pytest.raises(DataError, match=what):
        LogiQa(tmp_path).examples("dev")
    with pytest.warns(UserWarning, match="1 problems"):
        assert [one.example_id for one in LogiQa(tmp_path, damaged="skip").examples("dev")] == ["good"]


def test_the_check_counts_options(root, tmp_path, capsys):
    assert main(["data", "check", "data=reclor", f"data.root={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert "words in an option" in said
    assert "option" in said
