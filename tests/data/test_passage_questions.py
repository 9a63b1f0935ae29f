"""Reading data: what is read of each layout, where answers stand, windows, what is held out, left out, or damaged."""

import json
import lzma

import pytest
from table_releases import write

from mate_cli.data.datasets.passage_questions import PassageQuestion, Span, build_examples
from mate_cli.data.datasets.passage_readers import MRQA, SQuAD
from mate_cli.errors import DataError

PASSAGE = "Ann was born in Oslo. Oslo is cold, and Ann left Oslo in 1901."


def question(name, text="where was Ann born?", answers=((16, "Oslo"),), **more):
    return {"id": name, "question": text, "answers": [{"answer_start": s, "text": t} for s, t in answers], **more}


def squad(*questions, context=PASSAGE, title="Ann_Lee"):
    return {"data": [{"title": title, "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def written(root, file, content):
    write(root / file, content if isinstance(content, str) else json.dumps(content))
    return root


def shown(example):
    """The text that is read, and what the answer's place says there."""
    text = example.table.rows[0][0].text
    span = example.answer and example.answer.span
    return text, span and text[slice(*span)]


def test_squad_with_its_references_and_without_an_answer(tmp_path):
    written(tmp_path, "train-v1.1.json", squad(question("a", answers=[(22, "Oslo is"), (16, "Oslo"), (16, "Oslo")])))
    written(
        tmp_path, "dev-v2.0.json", squad(question("b", answers=[], is_impossible=True), question("c"), context=PASSAGE)
    )
    (example,) = SQuAD(tmp_path).examples("train")
    assert shown(example) == (f"Ann Lee : {PASSAGE}", "Oslo")
    assert (example.answer.texts, example.answer.span[0]) == (("Oslo is", "Oslo"), 26), "what most say is learnt"
    nothing, something = SQuAD(tmp_path, version="2.0").examples("dev")
    assert (nothing.answer.texts, nothing.answer.span) == ((), None)
    assert nothing.table is something.table, "one passage is one table"


def test_ids_of_squad_may_be_numbers(tmp_path):
    written(tmp_path, "train-v1.1.json", squad(question(262), question("b", "where is it cold?")))
    assert sorted(example.example_id for example in SQuAD(tmp_path).examples("train")) == ["262", "b"]


def test_files_are_read_that_are_there_and_what_they_repeat_is_left_out(tmp_path):
    written(tmp_path, "train-v1.1.json", squad(question("a"), question("b", "Where was Ann born")))
    seen = squad(question("e", answers=[(4, "saw")]), context="Ann  SAW Rome", title="")
    written(tmp_path, "dev-v1.1.json", squad(question("d", answers=[(8, "Rome")]), context="Ann saw Rome."))
    (tmp_path / "extra_train.json.xz").write_bytes(lzma.compress(json.dumps(seen).encode()))
    dataset = SQuAD(tmp_path)
    with pytest.raises(DataError, match="not at character 4"):
        dataset.examples("train")
    fitting = squad(question("e", answers=[(5, "SAW")]), context="Ann  SAW Rome", title="")
    (tmp_path / "extra_train.json.xz").write_bytes(lzma.compress(json.dumps(fitting).encode()))
    dataset = SQuAD(tmp_path)
    assert [example.example_id for example in dataset.examples("train")] == ["a"]
    assert dataset.facts == {"left out, train": "1 equal to another, 1 on a passage of evaluation"}
    report = dataset.check()
    assert not report.problems
    assert report.counts["train"]["left out: on a passage of evaluation"] == 1


def test_a_window_holds_the_answer_wherever_it_stands():
    words = [f"w{place}" for place in range(40)]
    text, places = " ".join(words), []
    for place in range(40):
        asked = PassageQuestion(f"q{place}", "?", text, [Span(words[place], text.index(f"{words[place]}"))])
        (example,) = build_examples([asked], window=10)
        read, found = shown(example)
        assert (len(read.split()), found) == (10, words[place])
        places.append(read.split().index(found))
    assert len(set(places[10:30])) > 5, "the place in the window tells nothing"
    (whole,) = build_examples([PassageQuestion("q", "?", text, None)], window=40)
    assert (shown(whole), whole.answer) == ((text, None), None)


def test_mrqa_reads_and_fetches_its_subsets_alone(tmp_path, monkeypatch):
    passage = {"context": PASSAGE, "qas": [{"qid": "x", "question": "where?", "answers": ["oslo", "Norway"]}]}
    passage["qas"][0]["detected_answers"] = [{"text": "oslo", "char_spans": [[16, 19], [22, 25]]}]
    written(tmp_path, "train/NewsQA.jsonl", "\n".join(map(json.dumps, [{"header": {"dataset": "NewsQA"}}, passage])))
    dataset = MRQA(tmp_path, subsets=["NewsQA"])
    (example,) = dataset.examples("train")
    assert shown(example) == (PASSAGE, "Oslo")
    assert example.answer.texts == ("oslo", "Norway")
    fetched = []
    monkeypatch.setattr("mate_cli.data.download.fetch_all", lambda files, root: fetched.extend(files))
    dataset.fetch()
    assert [file.destination for file in fetched] == ["train/NewsQA.jsonl.gz", "dev/NewsQA.jsonl.gz"]


def test_files_beside_those_that_are_read_are_named(tmp_path):
    written(tmp_path, "train-v1.1.json", squad(question("a")))
    written(tmp_path, "train.json", squad(question("b")))
    written(tmp_path, "downloads.json", {})
    dataset = SQuAD(tmp_path)
    assert dataset.facts == {"not read": "train.json"}
    assert [note.what for note in dataset.check().notes] == ["not read: train.json; name it with data.train_files"]
    mine = SQuAD(tmp_path, train_files=[str(tmp_path / "train.json")])
    assert [example.example_id for example in mine.examples("train")] == ["b"]
    assert mine.facts == {}
