"""HotpotQA and MuSiQue: what is read, and what is damaged, by name."""

import json
import zipfile

import pytest

from mate_cli.cli.app import main
from mate_cli.errors import DataError
from mate_cli.papers.transformer_xh.datasets.document_readers import HotpotQA, MuSiQue
from mate_cli.papers.transformer_xh.metrics.supporting import supporting_overlap

QUESTION = {
    "_id": "q0",
    "question": "where was the author of Alva born?",
    "answer": "Oslo",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Ann Lee", 1], ["Alva (novel)", 0], ["Ann Lee", 9]],
    "context": [
        ["Ann Lee", ["Ann Lee writes.", " She was born in Oslo."]],
        ["Rivers", ["The Alva is cold."]],
        ["Alva (novel)", ["Alva is a novel by Ann Lee."]],
    ],
}
GRAPH = {
    "qid": "q0",
    "question": "where was the author of Alva born?",
    "node": [
        {"full_name": "Ann_Lee", "context": ["born", "in", "os", "##lo"], "is_ans": 1, "spans": [[2, 3]]},
        {"name": "Alva", "context": ["a", "novel"], "is_ans": 0, "spans": []},
        {"name": "Else", "context": ["no", "##thing"], "is_ans": 2, "spans": []},
    ],
    "edge": [
        {"start": 1, "end": 0, "sent": "by Ann Lee"},
        {"start": 1, "end": 0, "sent": "again"},
        {"start": 1, "end": 0, "sent": "again"},
    ],
}
MUSIQUE = {
    "id": "3hop1__1_2_3",
    "question": "who?",
    "answer": "Ann Lee",
    "answer_aliases": ["A. Lee"],
    "paragraphs": [
        {"idx": 0, "title": "Alva", "paragraph_text": "By Ann Lee.", "is_supporting": True},
        {"idx": 1, "title": "Oslo", "paragraph_text": "A town.", "is_supporting": False},
    ],
}


def write(root, entries, name="train.json"):
    lines = name.endswith("l")
    text = "\n".join(map(json.dumps, entries)) if lines else json.dumps(entries)
    (root / name).write_text(text, encoding="utf-8")


def hotpotqa(root, **options):
    return HotpotQA(root, **{"train_file": "train.json", **options})


def test_the_official_files_are_looked_for(tmp_path):
    for kind, names in ((HotpotQA, ("hotpot_train_v1.1.json", "hotpot_dev_distractor_v1.json")), (MuSiQue, ())):
        with pytest.raises(DataError) as refused:
            kind(tmp_path).examples("train")
        assert all(name in str(refused.value) for name in names)
        assert f"mate data download data={kind.__name__.lower()} " in refused.value.remedy
    write(tmp_path, [QUESTION], "hotpot_train_v1.1.json")
    assert HotpotQA(tmp_path).splits == ("train",)
    with pytest.raises(DataError, match="Choose split=train"):
        HotpotQA(tmp_path, test_file=None).examples("test")
    with pytest.raises(DataError) as refused:
        HotpotQA(tmp_path, train_file="few.json", dev_file="few.json", test_file=None).examples("train")
    assert str(refused.value).count("few.json") == 1
    with pytest.raises(DataError, match="no file was given"):
        HotpotQA(tmp_path, train_file=None, dev_file=None, test_file=None)


def test_a_question_with_its_documents(tmp_path):
    write(tmp_path, [QUESTION, {**QUESTION, "_id": "q1", "answer": None}])
    known, asked = hotpotqa(tmp_path).examples("train")
    assert known.answer.texts == ("Oslo",)
    assert known.answer.coordinates == ((0, 0), (2, 0))
    assert known.supporting == ((0, 1), (2, 0), (0, 9))  # the paragraph has no tenth sentence: it is missed
    assert known.subsets == ("bridge", "hard")
    assert [row[0].text for row in known.table.rows] == ["Ann Lee", "Rivers", "Alva (novel)"]
    (link,) = known.table.rows[0][0].links
    assert known.table.passages[link] == "Ann Lee writes. She was born in Oslo."
    assert known.sentences[0] == ("Ann Lee writes.", "She was born in Oslo.")
    assert asked.answer is None


@pytest.mark.parametrize("file", ["hotpot_dev_fullwiki_v1.json", "validation.json"])
def test_supporting_facts_that_a_search_did_not_find_are_missed(tmp_path, file):
    """As by hotpot_evaluate_v1.py: a question of whose facts none was found is not right without any."""
    found = {**QUESTION, "context": QUESTION["context"][:2]}
    write(tmp_path, [found, {**found, "_id": "q1", "context": QUESTION["context"][1:2]}], file)
    some, none = hotpotqa(tmp_path, train_file=file, setting="fullwiki").examples("train")
    assert (some.answer.coordinates, none.answer.coordinates) == (((0, 0),), ())
    assert (some.answer.source, none.answer.source) == ("passage", "missing")
    assert supporting_overlap([(0, 1)], some.supporting) == (0, 1 / 2, 1, 1 / 3)
    assert supporting_overlap([], none.supporting).em == 0
    with pytest.raises(DataError, match=r"q1: no supporting fact .*data\.setting=fullwiki"):
        hotpotqa(tmp_path, train_file=file).examples("train")


def test_the_setting_chooses_the_file_of_dev(tmp_path, capsys):
    for setting in ("distractor", "fullwiki"):
        write(tmp_path, [{**QUESTION, "_id": setting}], f"hotpot_dev_{setting}_v1.json")
        words = ["data=hotpotqa", f"data.root={tmp_path}", f"data.setting={setting}", "data.train_file=null"]
        report = tmp_path / f"{setting}.report"
        assert main(["data", "check", *words, f"report={report}"]) == 0
        assert json.loads(report.read_text())["counts"]["dev"]["questions"] == 1
    (tmp_path / "hotpot_dev_fullwiki_v1.json").unlink()
    assert main(["data", "check", *words]) == 2
    assert "searched for hotpot_dev_fullwiki_v1.json" in capsys.readouterr().err


def test_the_archive_of_musique_is_read_in_place(tmp_path):
    with zipfile.ZipFile(tmp_path / "musique_v1.0.zip", "w") as archive:
        archive.writestr("data/musique_ans_v1.0_dev.jsonl", json.dumps(MUSIQUE) + "\n")
        archive.writestr("__MACOSX/data/._musique_ans_v1.0_dev.jsonl", "x")
    (example,) = MuSiQue(tmp_path).examples("dev")
    assert example.answer.texts == ("Ann Lee", "A. Lee")
    assert example.answers_by_words
    with zipfile.ZipFile(tmp_path / "musique_v1.0.zip") as archive:
        archive.extractall(tmp_path)
    (tmp_path / "musique_v1.0.zip").unlink()
    assert MuSiQue(tmp_path).examples("dev") == [example]


def test_a_graph_takes_its_answer_from_the_official_file(tmp_path):
    write(tmp_path, [QUESTION], "official.json")
    write(tmp_path, [GRAPH], "train.jsonl")
    (alone,) = hotpotqa(tmp_path, train_file="train.jsonl").examples("train")
    (example,) = hotpotqa(tmp_path, train_file="train.jsonl", answer_files=["official.json"]).examples("train")
    assert alone.answer.texts == ("oslo",)
    assert example.answer.texts == ("Oslo", "oslo")
    assert example.answer.coordinates == ((0, 0),)
    assert example.unjudged == (2,)
    assert [tuple(link) for link in example.links] == [(1, 0, "by Ann Lee"), (1, 0, "again")]
    assert example.table.rows[0][0].text == "Ann Lee"
    assert example.sentences[2] == ("nothing",)


DAMAGE = {
    "question": "",
    "context": [["Ann Lee", "no list"]],
    "supporting_facts": [["Ann Lee"]],
    "answer": 7,
    "_id": None,
}


@pytest.mark.parametrize("key", DAMAGE)
def test_damaged_questions_are_named(tmp_path, key):
    write(tmp_path, [QUESTION, {**QUESTION, "_id": "bad", key: DAMAGE[key]}])
    report = hotpotqa(tmp_path).check()
    (problem,) = report.problems
    assert problem.file == "train.json"
    assert problem.key == ("bad" if key != "_id" else "entry 1")
    with pytest.raises(DataError, match=problem.key):
        hotpotqa(tmp_path).examples("train")
    with pytest.warns(UserWarning, match="1 problems"):
        assert len(hotpotqa(tmp_path, damaged="skip").examples("train")) == 1


def test_damaged_graphs_and_lines_are_named(tmp_path):
    astray = {**GRAPH, "qid": "astray", "edge": [{"start": 0, "end": 7}]}
    lines = [json.dumps(GRAPH), json.dumps(astray), '{"qid": "cut', json.dumps({**GRAPH, "qid": "x", "node": [1]})]
    lines += [json.dumps({**GRAPH, "qid": "edge", "edge": 7})]
    lines += [json.dumps({**GRAPH, "qid": "spans", "node": [{**GRAPH["node"][0], "spans": {"a": 1}}]})]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    problems = hotpotqa(tmp_path, train_file="train.jsonl").check().problems
    assert [problem.key for problem in problems] == ["line 3", "astray", "x", "edge", "spans"]


def test_musique(tmp_path):
    bad = {**MUSIQUE, "id": "2hop__9", "paragraphs": MUSIQUE["paragraphs"][1:]}
    unsaid = {**MUSIQUE, "id": "2hop__8", "answerable": None}
    write(tmp_path, [MUSIQUE, {**MUSIQUE, "id": "4hop__1", "answer": None}, bad, unsaid], "train.jsonl")
    dataset = MuSiQue(tmp_path, train_file="train.jsonl", damaged="skip")
    with pytest.warns(UserWarning, match="2 problems"):
        known, asked = dataset.examples("train")
    assert known.answer.texts == ("Ann Lee", "A. Lee")
    assert (known.answer.coordinates, known.supporting, known.subsets) == (((0, 0),), ((0, 0),), ("3hop",))
    assert asked.answer is None
    assert [problem.key for problem in dataset.check().problems] == ["2hop__9", "2hop__8", "4hop__1"]


def test_of_musique_full_what_nothing_answers_is_left_out(tmp_path):
    """Twins share an id and the answer; only the flag says that the paragraphs of one do not lead to it."""
    twin = {**MUSIQUE, "answerable": False, "paragraphs": MUSIQUE["paragraphs"][1:]}
    write(tmp_path, [{**MUSIQUE, "answerable": True}, twin, {**MUSIQUE, "id": "2hop__2", "answerable": False}])
    dataset = MuSiQue(tmp_path, train_file="train.json")
    with pytest.warns(UserWarning, match="2 of 3 questions left out"):
        (known,) = dataset.examples("train")
    assert known.answer.texts == ("Ann Lee", "A. Lee")
    assert not dataset.check().problems
