import runpy
from pathlib import Path

import pytest

from mate_cli.data.archive import list_archive, read_paths
from mate_cli.data.datasets.hybridqa.reader import SAMPLE_ROOT, Sample

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
