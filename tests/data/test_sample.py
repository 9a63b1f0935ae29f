import json
import runpy
from pathlib import Path

import pytest

from mate_cli.data.archive import list_archive, read_paths
from mate_cli.data.datasets.hybridqa.reader import SAMPLE_ROOT, Sample
from mate_cli.metrics.exact_match import normalize_answer
from mate_cli.tables.text import normalize_for_match

TOOLS = Path(__file__).parents[2] / "tools"
FOLDERS = ("released_data", "tables_tok", "request_tok")


@pytest.fixture(scope="module")
def splits():
    dataset = Sample()
    return {split: dataset.examples(split) for split in dataset.splits}


@pytest.fixture
def tool(monkeypatch):
    """What the tool that makes the sample defines, by name."""
    monkeypatch.syspath_prepend(TOOLS)
    return runpy.run_path(str(TOOLS / "make_sample.py"))


def test_the_generator_makes_what_is_shipped(tool):
    made = tool["make_files"]()
    shipped = {"vocab.txt": (SAMPLE_ROOT / "vocab.txt").read_bytes()}
    for folder in FOLDERS:
        archive = SAMPLE_ROOT / f"{folder}.tar.xz"
        shipped |= read_paths(archive, list_archive(archive))
    assert made == shipped


def test_it_is_small():
    assert sum(path.stat().st_size for path in SAMPLE_ROOT.iterdir()) < 300_000


def test_nothing_is_wrong_with_it():
    report = Sample().check()
    assert report.problems == ()
    assert {split: counts["questions"] for split, counts in report.counts.items()} == {
        "train": 1200,
        "dev": 150,
        "test": 150,
    }


def test_splits_share_no_table(splits):
    tables = [{e.table.table_id for e in examples} for examples in splits.values()]
    assert [len(ids) for ids in tables] == [60, 10, 10]
    assert len(set.union(*tables)) == 80
    assert len({e.example_id for examples in splits.values() for e in examples}) == 1500


def test_each_answer_is_in_one_cell_of_the_right_kind(splits):
    for example in (e for examples in splits.values() for e in examples):
        answer, table = example.answer, example.table
        if answer.source == "missing":
            assert answer.coordinates == ()
            continue
        ((row, column),) = answer.coordinates
        cell = table.rows[row][column]
        assert (normalize_answer(cell.text) == normalize_answer(answer.texts[0])) == (answer.source == "table")
        if answer.source == "passage":
            (link,) = cell.links
            assert f" {answer.texts[0]} ".lower() in f" {table.passages[link]} ".lower()
            assert 1 <= len(answer.texts[0].split()) <= 4


def test_questions_do_not_hold_their_answer(splits):
    for example in (e for examples in splits.values() for e in examples):
        assert f" {example.answer.texts[0]} ".lower() not in f" {example.question} ".lower()


def test_the_vocabulary_is_a_bert_vocabulary_that_knows_every_character(tool):
    tokens = (SAMPLE_ROOT / "vocab.txt").read_text().splitlines()
    assert tokens[:6] == ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(tokens) == len(set(tokens))
    text = json.dumps([content.decode() for content in tool["make_files"]().values()])
    known = set(tokens)
    for character in set(normalize_for_match(text)) - {" "}:
        assert character in known, character
        assert not character.isalnum() or f"##{character}" in known
