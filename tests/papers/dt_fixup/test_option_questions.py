"""Questions with options in ReClor's layout: what is read, what is refused, what is counted."""

import json

import pytest

from mate_cli.cli.app import main
from mate_cli.data.baselines import majority_label
from mate_cli.errors import DataError
from mate_cli.papers.dt_fixup.datasets.option_questions import LogiQa, ReClor


def entry(name="a", **changed):
    plain = {"context": "All cats sleep.", "question": "Which follows?", "answers": ["Tom", "No cat", "Dogs", "Rain"]}
    return {**plain, "label": 1, "id_string": name, **changed}


@pytest.fixture
def root(tmp_path):
    def write(file, *entries):
        (tmp_path / file).write_text(json.dumps(entries))
        return tmp_path

    write("train.json", entry("t1"), entry("t2", label=3), entry("t3", label=3))
    write("val.json", entry("v1"))
    write("test.json", {key: value for key, value in entry("x1").items() if key != "label"})
    return write


def test_questions_are_read_with_their_options(root, tmp_path):
    data = LogiQa(tmp_path)
    first, *rest = data.examples("train")
    assert first.options == ("Tom", "No cat", "Dogs", "Rain")
    assert (first.answer.label, first.answer.texts) == (1, ("No cat",))
    assert first.table.rows[0][0].text == "All cats sleep."
    assert [example.answer.label for example in rest] == [3, 3]
    assert majority_label(data.examples("train")) == 3
    assert ReClor(tmp_path).examples("test")[0].answer is None


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"label": 4}, "not an index into 4 answers"),
        ({"label": True}, "not an index into"),
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


SECOND = {
    "id": 7,
    "answer": 1,
    "text": "All cats are animals. Tom is a cat.",
    "question": "What follows?",
    "options": ["a dog", "an animal", "old", "red"],
    "type": {},
}
FIRST = """
b
All cats are animals.\u2028 Tom is a cat.
What follows?
A.a dog
B. an animal
c.old
D red

d
It rains.
What follows?
A.
B.wet
C.a dry day
A.B. Lee
"""


def write_second(root, *entries):
    for name in ("train", "dev", "test"):
        (root / f"{name}.txt").write_text("".join(f"{json.dumps(one)}\n" for one in entries or (SECOND, SECOND)))
    return root


def write_first(root, text=FIRST):
    for name in ("Train", "Eval", "Test"):
        (root / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    return root


def test_logiqa_2_is_read_as_its_authors_ship_it(tmp_path):
    data = LogiQa(write_second(tmp_path))
    assert data.splits == ("train", "dev", "test")
    first, second = data.examples("dev")
    assert (first.example_id, second.example_id) == ("dev-1", "dev-2"), "ids of the release are not unique"
    assert first.options == ("a dog", "an animal", "old", "red")
    assert (first.question, first.answer.label) == ("What follows?", 1)
    assert data.check().problems == ()
    assert data.published == {"questions": 15_708}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "the end"])
def test_logiqa_1_is_read_as_its_authors_ship_it(tmp_path, end, last):
    text = (FIRST if last else FIRST.removesuffix("\n")).replace("\n", end)
    data = LogiQa(write_first(tmp_path, text))
    first, second = data.examples("dev")
    assert first.options == ("a dog", "an animal", "old", "D red")
    assert first.table.rows[0][0].text == "All cats are animals.\u2028 Tom is a cat."
    assert second.options == ("A.", "wet", "a dry day", "A.B. Lee")
    assert [example.answer.label for example in (first, second)] == [1, 3]
    assert [example.example_id for example in (first, second)] == ["Eval-1", "Eval-9"]
    assert data.check().problems == ()
    assert data.published == {"questions": 8_678}


def test_the_version_says_which_files_are_read_where_several_are_there(root, tmp_path, capsys):
    write_first(write_second(tmp_path))
    for version, name in ((None, "v1"), ("2.0", "dev-1"), ("1.0", "Eval-1"), ("reclor", "v1")):
        assert LogiQa(tmp_path, version=version).examples("dev")[0].example_id == name
    report = tmp_path / "report"
    assert main(["data", "check", "data=logiqa", f"data.root={tmp_path}", "data.version=2.0", f"report={report}"]) == 0
    assert json.loads(report.read_text())["published"] == {"questions": 15_708}
    assert main(["data", "check", "data=logiqa", f"data.root={tmp_path}", "data.version=3"]) == 2
    assert "data.version" in capsys.readouterr().err


LINES = FIRST.split("\n")
DAMAGED_FIRST = {
    "a line too many": ([*LINES[:5], "more", *LINES[5:]], "Eval.txt: line 9: should be blank"),
    "a line too few": ([*LINES[:5], *LINES[6:]], "Eval.txt: line 9: should be blank"),
    "another letter": ([*LINES[:9], "e", *LINES[10:]], "line 10: should be the letter of the right option, not 'e'"),
    "no letter": ([*LINES[:9], "", *LINES[10:]], "line 10: should be the letter of the right option, not ''"),
    "cut short": (LINES[:13], "line 13: the question ends too early"),
    "no text": ([*LINES[:2], " ", *LINES[3:]], "Eval-1: the context or the question is missing, empty"),
}


@pytest.mark.parametrize("name", DAMAGED_FIRST)
def test_damage_of_logiqa_1_is_one_line(name, tmp_path):
    lines, message = DAMAGED_FIRST[name]
    write_first(tmp_path)
    (tmp_path / "Eval.txt").write_text("\n".join(lines))
    (problem,) = LogiQa(tmp_path).check().problems
    assert message in str(problem)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1,', "dev.txt: line 2: is not readable JSON (column 10: Expecting property name"),
        (json.dumps({**SECOND, "answer": 4}), "dev.txt: dev-2: the label is not an index into 4 answers"),
        (json.dumps({**SECOND, "options": None}), "dev-2: needs two answers"),
    ],
)
def test_damage_of_logiqa_2_is_one_line(tmp_path, line, message):
    write_second(tmp_path)
    (tmp_path / "dev.txt").write_text(f"{json.dumps(SECOND)}\n{line}\n{json.dumps(SECOND)}\n")
    (problem,) = LogiQa(tmp_path).check().problems
    assert message in str(problem)
