import json
import shutil
from dataclasses import asdict

import pytest
import releases
from golden import shared
from releases import everything

from mate_cli.data.datasets.hybridqa.reader import HybridQA
from mate_cli.errors import DataError
from mate_cli.metrics.hits_at_k import hits_at_k


@pytest.fixture
def root(tmp_path):
    return releases.write_release(tmp_path / "hybridqa")


def test_reads_questions_tables_passages_and_answers(root):
    dataset = HybridQA(root)
    assert dataset.splits == ("train", "dev", "test")
    first, second = dataset.examples("train")
    assert (first.example_id, first.question, first.table.title) == ("t1", "who won in 1975 ?", "Winners")
    assert (first.answer.texts, first.answer.source, first.answer.coordinates) == (("Ann Lee",), "table", ((0, 1),))
    assert (second.answer.source, second.answer.coordinates) == ("passage", ((0, 1),))
    assert first.table.rows[1][1].links == ("/wiki/Bob_Stone",)
    assert set(first.table.passages) == {"/wiki/Ann_Lee", "/wiki/Bob_Stone"}, "linked ones only, none of the header"
    assert first.table is second.table
    (missing,) = dataset.examples("dev")
    assert (missing.answer.source, missing.answer.coordinates) == ("missing", ())
    assert dataset.examples("test")[0].answer is None


def test_reads_the_tags_of_questions_where_there_are_any(root):
    file = root / "released_data" / "test.json"
    (entry,) = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps([{**entry, "question_postag": "WRB JJ VBZ"}]), encoding="utf-8")
    dataset = HybridQA(root)
    assert [example.question_tags for example in dataset.examples("test")] == ["WRB JJ VBZ"]
    assert [example.question_tags for example in dataset.examples_from_file(file)] == ["WRB JJ VBZ"]
    assert {example.question_tags for example in dataset.examples("train")} == {""}


def test_extra_train_is_appended_to_train_only(root, tmp_path):
    releases.write_questions(root, "more", [("m1", "who won in 1980 ?", "Winners_0", "Bob Stone", [])])
    for extra in ("more", "more.json", "released_data/more.json", str(root / "released_data" / "more.json")):
        dataset = HybridQA(root, extra_train=[extra])
        dataset.check_extra()
        assert [e.example_id for e in dataset.examples("train")] == ["t1", "t2", "m1"]
        assert dataset.splits == ("train", "dev", "test")
        assert len(dataset.examples("dev")) == 1
    releases.pack(root, "released_data", ".zip")
    assert [e.example_id for e in HybridQA(root, extra_train=["more"]).examples("train")] == ["t1", "t2", "m1"]
    for absent in ("absent", "../elsewhere/absent.json.xz", "elsewhere/more.json"):
        with pytest.raises(DataError, match=r"(absent|more).*question file not found"):
            HybridQA(root, extra_train=[absent]).examples("train")
        with pytest.raises(DataError, match=r"(absent|more).*question file not found"):
            HybridQA(root, extra_train=[absent]).check_extra()
    (tmp_path / "empty").mkdir()
    for fetched_later in ("not fetched yet", "empty"):
        HybridQA(tmp_path / fetched_later, extra_train=["absent"], download="auto").check_extra()


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2"])
def test_extra_train_may_lie_elsewhere_packed_or_not(root, tmp_path, suffix, monkeypatch):
    asked = ("m1", "who won in 1980 ?", "Winners_0", "Bob Stone", [["Bob Stone", [1, 1], None, "table"]])
    elsewhere = tmp_path / "other" / "released_data"
    elsewhere.mkdir(parents=True)
    releases.write_questions(elsewhere.parent, "train", [asked])
    for file in elsewhere.glob("*.json"):
        releases.compress(file, suffix)
    monkeypatch.chdir(tmp_path)
    for extra in (elsewhere / f"train.json{suffix}", f"other/released_data/train.json{suffix}"):
        HybridQA(root, extra_train=[str(extra)]).check_extra()
        last = HybridQA(root, extra_train=[str(extra)]).examples("train")[-1]
        assert (last.example_id, last.answer.source) == ("m1", "table"), "not the file of this name below the root"
    if suffix:
        whole = elsewhere / f"train.json{suffix}"
        whole.write_bytes(whole.read_bytes()[:-9])
        with pytest.raises(DataError, match="cannot be read completely"):
            HybridQA(root, extra_train=[str(whole)]).examples("train")


def test_what_repeats_other_questions_is_left_out_and_counted(root):
    train, dev = releases.QUESTIONS["train"][0], releases.QUESTIONS["dev"][0]
    repeated = [("m0", train[1].upper(), *train[2:]), ("m1", dev[1], *dev[2:])]
    new = ("m2", "how old was the first of them ?", "Winners_0", "Bob Stone", [])
    releases.write_questions(root, "more", [*repeated, new, ("m3", *new[1:])])
    dataset = HybridQA(root, extra_train=["more"])
    assert [e.example_id for e in dataset.examples("train")] == ["t1", "t2", "m2"]
    counts = {"equal to another of training": 2, "equal to one of evaluation": 1}
    assert dataset.repeated == counts
    assert dataset.facts == {
        "left out, train": "2 equal to another of training, 1 equal to one of evaluation; 1 of extra_train are left"
    }
    checked = dataset.check()
    assert checked.problems == ()
    assert {name: checked.counts["train"][f"left out: {name}"] for name in counts} == counts
    assert HybridQA(root).facts == {}


def test_splits_that_are_not_there_are_not_checked_and_said_so(root):
    releases.write_questions(root, "more", [("m2", "how old was the first of them ?", "Winners_0", "Bob Stone", [])])
    for split in ("dev", "test"):
        (root / "released_data" / f"{split}.json").unlink(missing_ok=True)
    dataset = HybridQA(root, extra_train=["more"])
    note = f"not checked for questions of dev, test: not on disk in {root}"
    assert dataset.facts == {"extra_train": note}
    assert f"extra_train: {note}" in map(str, dataset.check().notes)
    assert HybridQA(root).facts == {}


def test_the_check_names_questions_of_the_release_that_repeat_evaluation(root):
    dev = releases.QUESTIONS["dev"][0]
    releases.write_questions(root, "train", [("t9", *dev[1:])])
    assert any(
        "1 questions are equal or near-equal to one of evaluation" in note.what for note in HybridQA(root).check().notes
    )
    assert [e.example_id for e in HybridQA(root).examples("train")] == ["t9"]


def test_the_reference_file_decides_the_source(root):
    reference = {"reference": {"t1": "Ann Lee", "t2": "Oslo"}, "table": ["t2"], "passage": []}
    (root / "released_data" / "train_reference.json").write_text(json.dumps(reference))
    assert [e.answer.source for e in HybridQA(root).examples("train")] == ["missing", "table"]


def test_questions_of_any_file_need_no_answers(root, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([{"question_id": "q", "question": "who ?", "table_id": "Winners_0"}]))
    (example,) = HybridQA(root).examples_from_file(path)
    assert (example.example_id, example.answer, example.table.title) == ("q", None, "Winners")
    with pytest.raises(DataError, match="question file not found"):
        HybridQA(root).examples_from_file(tmp_path / "absent.json")


def test_an_empty_root_says_what_is_wanted_and_how_to_get_it(tmp_path):
    with pytest.raises(DataError) as caught:
        HybridQA(tmp_path / "nowhere").examples("train")
    for word in (
        *("nowhere", "released_data", "tables_tok", "request_tok", "mate data download data=hybridqa data.root="),
    ):
        assert word in str(caught.value)


def _remove(path):
    path.unlink()


DAMAGE = {
    "missing table": ("tables_tok/Winners_0.json", _remove, "is not there"),
    "missing passages": ("request_tok/Winners_0.json", _remove, "is not there, but the table is"),
    "a link without passage": (
        "request_tok/Winners_0.json",
        lambda path: releases.edit(path, lambda passages: passages.pop("/wiki/Ann_Lee")),
        "/wiki/Ann_Lee: is linked from the table but has no passage",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_and_nothing_is_dropped_in_silence(root, name):
    file, damage, message = DAMAGE[name]
    damage(root / file)
    with pytest.raises(DataError) as caught:
        HybridQA(root).examples("train")
    problem = str(caught.value)
    assert message in problem
    assert file.rsplit("/", 1)[1] in problem, "the file is named"
    assert f"mate data check data=hybridqa data.root={root}" in problem, "the command that shows all is named"
    report = HybridQA(root).check()
    assert any(message in str(problem) for problem in report.problems)


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.xz", ".zip"])
@pytest.mark.parametrize("share", [0.4, 0.9])
def test_an_archive_that_is_cut_short_is_named(root, suffix, share):
    archive = releases.pack(root, "tables_tok", suffix)
    content = archive.read_bytes()
    archive.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=f"tables_tok{suffix}|tables_tok/"):
        everything(HybridQA(root))
    assert any("cannot be read completely" in problem.what for problem in HybridQA(root).check().problems)


def test_the_check_counts_and_measures(root):
    report = HybridQA(root).check()
    assert report.counts["train"] == {
        "questions": 2,
        "tables": 1,
        "table": 1,
        "passage": 1,
        "missing": 0,
        "not given": 0,
    }
    assert report.counts["test"]["not given"] == 1
    assert report.percentiles["rows"] == {50: 1, 90: 2, 99: 2, 100: 2, "mean": 1.5}
    assert report.percentiles["links"][100] == 2
    assert report.problems == ()
    (overlap,) = report.notes
    assert (overlap.file, overlap.what) == ("released_data/test.json", "1 table is in dev too")
    assert asdict(report)["counts"]["dev"]["missing"] == 1


def test_the_check_names_ids_that_occur_in_two_splits_or_files(root):
    releases.write_questions(root, "test", [releases.QUESTIONS["train"][0]])
    key, _, *rest = releases.QUESTIONS["train"][1]
    releases.write_questions(root, "more", [(key, "what else is there ?", *rest)])
    found = [str(problem) for problem in HybridQA(root, extra_train=["more"]).check().problems]
    assert "released_data/test.json: t1: 1 question id is in train too" in found
    assert "more.json: t2: the question id occurs twice" in found


def test_the_check_compares_the_reference_file(root):
    reference = {"reference": {"t1": "Someone", "gone": "x"}, "table": [], "passage": []}
    (root / "released_data" / "train_reference.json").write_text(json.dumps(reference))
    found = [str(problem) for problem in HybridQA(root).check().problems]
    assert "train_reference.json: t1: the answer is 'Someone', but 'Ann Lee' in train.json" in found
    assert "train_reference.json: gone: the question is not in train.json" in found


@pytest.fixture(scope="module")
def whole():
    return HybridQA(shared("data", "hybridqa"), extra_train=["released_data/extra_train_ottqa.json"])


@pytest.mark.long
def test_counts_of_the_shared_data(whole):
    examples = everything(whole)
    assert {split: len(found) for split, found in examples.items()} == {"train": 3011, "dev": 296, "test": 306}
    assert whole.repeated == {"near-equal to another of training": 16}
    sources = {
        source: sum(e.answer.source == source for e in examples["train"][:1350]) for source in ("table", "passage")
    }
    assert sources == {"table": 521, "passage": 809}
    assert sum(not e.answer.coordinates for e in examples["dev"]) == 3


@pytest.mark.long
def test_tfidf_gives_the_measured_baseline(whole):
    from mate_cli.data.baselines import tfidf_cell_ranking

    for split, expected in {"dev": [9.5, 25.0, 35.1], "test": [15.7, 30.7, 40.2]}.items():
        examples = whole.examples(split)
        rankings = {e.example_id: tfidf_cell_ranking(e.table, e.question) for e in examples}
        scores = hits_at_k(rankings, {e.example_id: e.answer.coordinates for e in examples})
        assert [round(100 * scores[f"hits@{k}"], 1) for k in (1, 3, 5)] == expected


def test_both_repositories_are_read_from_their_archives(root, tmp_path):
    unpacked, there = everything(HybridQA(root)), tmp_path / "archives"
    for name, folders in {"HybridQA": ["released_data"], "WikiTables-WithLinks": ["tables_tok", "request_tok"]}.items():
        for folder in folders:
            shutil.copytree(root / folder, tmp_path / f"{name}-master" / folder)
        shutil.make_archive(str(there / f"{name}-master"), "zip", tmp_path, f"{name}-master")
    assert everything(HybridQA(there)) == unpacked
    assert HybridQA(there).check().problems == ()
