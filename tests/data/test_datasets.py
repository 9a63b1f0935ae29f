"""A dataset is one folder: whoever lists datasets finds it there, and nowhere else is anything to edit."""

import json
import pickle
import sys
from dataclasses import replace

import pytest
import yaml
from table_releases import write

from mate_cli.benchmark.cases import real_questions
from mate_cli.cli.app import main
from mate_cli.cli.config_dir import config_dir
from mate_cli.data import datasets, download
from mate_cli.data.corpora.corpus_sources import Sources
from mate_cli.data.corpora.table_corpus import TableCorpus
from mate_cli.data.datasets.catalogue import all_datasets, dataset_names, evaluation_splits, find_dataset, read_info
from mate_cli.errors import DataError
from mate_cli.pipelines.export.model_card import UNKNOWN, ExportedModel, front_matter
from mate_cli.runs.record import RunRecord

INFO = {
    "title": "Capitals of the world",
    "reader": "Capitals",
    "homepage": "https://example.org/capitals",
    "licence": "cc0-1.0",
    "terms": "no rights reserved",
    "hub_name": "example/capitals",
    "splits": ["train", "dev", "test"],
    "evaluation": ["test"],
    "published": {"questions": 12_345},
    "files": [{"url": "https://example.org/train.csv", "destination": "train.csv", "checksum": "sha256:00"}],
}
READER = '''
from dataclasses import dataclass

from mate_cli.data.datasets.file_formats import parse_csv_table
from mate_cli.data.datasets.release import Release
from mate_cli.tables.example import Answer, TableExample


@dataclass(eq=False, kw_only=True)
class Capitals(Release):
    """One question on one table per split."""

    as_written = {"shout": True}

    shout: bool = False

    @property
    def split_files(self):
        return {split: f"{split}.csv" for split in ("train", "dev", "test")}

    def read(self, split, problems):
        content = self.need(f"{split}.csv")
        table = parse_csv_table(split, content.upper() if self.shout else content, problems, self.notes)
        return [TableExample(f"{split}-0", "which capital?", table, Answer(("Bern",), ((0, 1),)))]
'''
TABLES = {
    "train": "country,capital\nSwitzerland,Bern\nItaly,Rome\nFrance,Paris\n",
    "dev": "country,capital\nNorway,Oslo\nSweden,Stockholm\nFinland,Helsinki\n",
    "test": "country,capital\nSpain,Madrid\nPortugal,Lisbon\nGreece,Athens\n",
}
RELEASED = [info.name for info in all_datasets() if info.files]


@pytest.fixture
def capitals(tmp_path, monkeypatch):
    """A folder of one more dataset, and the folder that has its files."""
    package = tmp_path / "package"
    write(package / "capitals" / "__init__.py", "")
    write(package / "capitals" / "reader.py", READER)
    write(package / "capitals" / "release.json", json.dumps(INFO))
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(package)])
    yield write_tables(tmp_path / "data")
    for name in [name for name in sys.modules if name.startswith(f"{datasets.__name__}.capitals")]:
        del sys.modules[name]


def write_tables(root):
    for split, table in TABLES.items():
        write(root / "capitals" / f"{split}.csv", table)
    return root


def test_its_reader_is_found_and_knows_its_release(capitals):
    assert "capitals" in dataset_names()
    dataset = find_dataset("capitals").open(capitals / "capitals")
    assert (dataset.name, dataset.splits, dataset.published) == ("capitals", tuple(TABLES), {"questions": 12_345})


def test_corpora_read_it_as_its_folder_says(capitals):
    tables = [table for read in Sources(capitals).readers("capitals") for table in read()]
    assert [one.source for one in tables] == ["capitals"] * 3
    assert tables[0].table.rows[0][1].text == "BERN", "cells are as the authors wrote them"


def test_its_evaluation_splits_are_kept_out_of_every_corpus(capitals, tmp_path):
    own = write(tmp_path / "own" / "spain.csv", TABLES["test"]).parent
    corpus = TableCorpus(capitals, tmp_path / "cache", sources=["capitals", str(own)])
    assert "capitals/test" in corpus.excluded
    kept = {one.table.rows[0][1].text.lower() for one in corpus.tables()}
    assert kept == {"bern", "oslo"}
    everything = TableCorpus(capitals, tmp_path / "cache", sources=["capitals", str(own)], exclude=[])
    assert "madrid" in {one.table.rows[0][1].text.lower() for one in everything.tables()}
    assert corpus.fingerprint != everything.fingerprint


def test_benchmarks_take_its_tables(capitals):
    (example,) = real_questions("capitals", capitals / "capitals")
    assert example.table.rows[0][1].text == "Oslo"


def exported(dataset):
    record = RunRecord("train", "e", [], dataset, "mate", "auto", "minilm", "table_qa", seed=1)
    return ExportedModel(
        record, {"encoding": {"max_tokens": 512}}, {"kind": "minilm", "checkpoint": None}, "TapasModel", None
    )


def test_model_cards_tell_its_terms(capitals):
    model = exported("capitals")
    assert front_matter(model)["license"] == "cc0-1.0"
    assert front_matter(replace(model, licence="other"))["license_name"] == "terms-of-capitals"
    assert front_matter(model)["datasets"] == ["example/capitals"]
    assert model.dataset.terms == INFO["terms"]
    assert exported("my_own").dataset is UNKNOWN


def test_the_command_lists_checks_and_fetches_it(capitals, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    assert main(["data", "list", f"paths.data={tmp_path / 'nothing'}"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "Capitals of the world" in line)
    for text in ("capitals", "12,345", "cc0-1.0", "public"):
        assert text in row

    target = {"_target_": find_dataset("capitals").target, "root": "${paths.data}/capitals", "download": "auto"}
    write(tmp_path / "conf" / "data" / "capitals.yaml", yaml.safe_dump(target))
    asked = []

    def fetch_all(files, root):
        asked.extend(files)
        write_tables(root.parent)

    monkeypatch.setattr(download, "fetch_all", fetch_all)
    words = ["data=capitals", f"paths.data={tmp_path / 'new'}", "--config-dir", str(tmp_path / "conf")]
    assert main(["data", "download", *words]) == 0
    assert [(file.url, file.checksum) for file in asked] == [("https://example.org/train.csv", "sha256:00")]
    assert main(["data", "check", *words]) == 0
    assert "12,345" in capsys.readouterr().out


def test_what_has_no_release_names_those_that_have(capitals, capsys):
    assert main(["data", "download", "data=corpus"]) == 2
    assert "Datasets with one: capitals, fetaqa, hotpotqa, hybridqa" in capsys.readouterr().err


def test_the_evaluation_splits_of_the_package_are_those_of_its_public_releases_of_tables():
    of_tables = {"hybridqa", "wtq", "tabfact", "sqa", "wikisql"}
    of_passages = {"squad", "mrqa"}
    later = {"tatqa": ["dev", "test"], "fetaqa": ["dev", "test"], "ottqa": ["dev"]}
    later |= {"totto": ["dev"], "tablebench": ["test"]}
    later["infotabs"] = ["dev", "alpha1", "alpha2", "alpha3"]
    names = {*of_tables, "hotpotqa", "musique"}
    splits = {name: later.get(name, ["dev", "test"]) for name in {*names, *later}}
    assert set(evaluation_splits()) == {f"{name}/{split}" for name, parts in splits.items() for split in parts}
    assert set(RELEASED) == {*of_tables, *later, *of_passages, "spider", "hotpotqa", "musique", "logiqa"} - {
        "tablebench"
    }


@pytest.mark.parametrize("info", all_datasets(), ids=lambda info: info.name)
def test_every_folder_has_its_configuration_and_its_reader(info):
    settings = yaml.safe_load((config_dir() / "data" / f"{info.name}.yaml").read_text())
    assert (settings["_target_"], settings["name"]) == (info.target, info.name)
    dataset = info.open("nowhere")
    assert pickle.loads(pickle.dumps(dataset)).name == dataset.name == info.name
    assert set(getattr(dataset, "split_files", info.splits)) == set(info.splits)


@pytest.mark.parametrize("name", RELEASED)
def test_every_release_is_pinned(name):
    files = find_dataset(name).remote_files
    assert len({file.destination for file in files}) == len(files)
    for file in files:
        assert file.url.startswith("https://") or (file.checksum or "").startswith("sha256:")
        assert not {"master", "main"} & set(file.url.split("/"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"license": "mit"}, "license"),
        ({"evaluation": ["tests"]}, "evaluation splits tests are not all among the splits train, dev, test"),
        ({"evaluation": None}, "evaluation"),
        (None, "does not describe a dataset"),
    ],
)
def test_a_release_that_is_told_wrongly_is_refused(tmp_path, change, message):
    told = {key: value for key, value in {**INFO, **(change or {})}.items() if value is not None}
    write(tmp_path / "capitals" / "release.json", json.dumps(told) if change else "{")
    with pytest.raises(DataError, match=message):
        read_info(tmp_path / "capitals")
