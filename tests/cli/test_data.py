import json
import os
import time

import pytest
from table_releases import WRITERS

from mate_cli.cli.app import main
from mate_cli.cli.commands.data import convert_arguments
from mate_cli.data.datasets.catalogue import all_datasets, find_dataset
from mate_cli.data.input_sizes import InputSizes


def test_the_action_is_a_word_of_its_own():
    assert convert_arguments(["check", "data=sample"]) == ["action=check", "data=sample"]
    assert convert_arguments(["download", "data.root=check"]) == ["action=download", "data.root=check"]
    assert convert_arguments([]) == ["action=list"]


def test_check_prints_counts_and_sizes_and_writes_json(tmp_path, capsys):
    report = tmp_path / "inner" / "report.json"
    assert main(["data", "check", "data=sample", f"report={report}"]) == 0
    printed = capsys.readouterr().out
    for text in ("No problems.", "1,200", "150", "words in a passage", "median"):
        assert text in printed
    written = json.loads(report.read_text())
    assert written["problems"] == []
    assert written["counts"]["dev"]["questions"] == 150
    assert written["percentiles"]["rows"]["100"] == 7


def test_check_counts_word_pieces_and_says_what_fits(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mate_cli.data.input_sizes.MAX_EXAMPLES", 40)
    assert main(["data", "check", "data=sample", "tokenizer=sample", f"report={tmp_path / 'report.json'}"]) == 0
    assert "at most 512 word pieces with 5 sentences" in capsys.readouterr().out
    written = json.loads((tmp_path / "report.json").read_text())
    whole, some = (written["percentiles"][f"word pieces with {what}"] for what in ("passages", "5 sentences"))
    assert all(some[level] < whole[level] for level in ("50", "100"))
    shares = written["shares"]["dev"]
    fits = [shares[f"at most {length} word pieces with 5 sentences"] for length in ("512", "1,024", "2,048")]
    assert 0 < fits[0] <= fits[1] <= fits[2] == 1
    assert "more than one cell may hold the answer" in shares
    counted = InputSizes([12_000, 5], [600, 400], [1, 2]).shares()
    assert (list(counted.values()), len(counted)) == ([0.5, 0.5, 1.0, 1.0, 0.5], 5)


@pytest.fixture
def broken(tmp_path):
    (tmp_path / "released_data").mkdir()
    questions = [
        {"question_id": f"q{i}", "question": "who ?", "table_id": f"T_{i}", "answer-text": "x"} for i in range(30)
    ]
    (tmp_path / "released_data" / "dev.json").write_text(json.dumps(questions))
    for folder in ("tables_tok", "request_tok"):
        (tmp_path / folder).mkdir()
    return tmp_path


def test_problems_end_with_exit_code_2_the_first_twenty_being_listed(broken, capsys):
    report = broken / "report.json"
    assert main(["data", "check", f"data.root={broken}", f"report={report}"]) == 2
    captured = capsys.readouterr()
    assert "Problems: 30, the first 20:" in captured.out
    assert captured.out.count(".json is not there") == 20
    assert "30 problems" in captured.err
    assert len(json.loads(report.read_text())["problems"]) == 30


def test_what_papers_say_of_datasets_adds_up_and_is_beside_what_is_at_hand(broken, capsys):
    tables = {
        (info.name, paper["source"]): paper["counts"]
        for info in all_datasets()
        for paper in info.papers
        if "counts" in paper
    }
    assert {name for name, _ in tables} == {"hybridqa", "sqa", "wtq", "tabfact", "wikisql", "spider", "reclor"}
    (hybrid,) = (counts for (name, _), counts in tables.items() if name == "hybridqa")
    for counts in hybrid.values():
        assert counts["questions"] == counts["table"] + counts["passage"] + counts["missing"]
    for name, number in hybrid["all"].items():
        assert number == sum(hybrid[split][name] for split in ("train", "dev", "test"))
    for (dataset, source), counts in tables.items():
        published = find_dataset(dataset).published["questions"]
        assert abs(counts["all"]["questions"] / published - 1) < (0.3 if dataset == "spider" else 0.01), source
    main(["data", "check", f"data.root={broken}"])
    printed = capsys.readouterr().out
    assert all(f"{number:,}" in printed for counts in hybrid.values() for number in counts.values())


@pytest.mark.parametrize("name", WRITERS)
def test_every_dataset_about_tables_alone_says_what_to_type_where_nothing_is(name, tmp_path, capsys):
    assert main(["data", "check", f"data={name}", f"data.root={tmp_path / 'none'}"]) == 2
    error = capsys.readouterr().err
    assert f"mate data download data={name} data.root=" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("name", WRITERS)
def test_every_release_is_fetched_from_public_addresses(name, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("mate_cli.data.download.fetch_all", lambda files, root: asked.extend(files))
    assert main(["data", "download", f"data={name}", f"data.root={tmp_path}"]) == 0
    assert all(file.url.startswith("https://") for file in asked)
    assert len({file.destination for file in asked}) == len(asked) > 0


def test_unused_encodings_are_pruned(tmp_path, capsys):
    for letter, age in (("a", 3), ("b", 1)):
        file, parts = tmp_path / f"{letter * 32}.arrow", tmp_path / "corpora" / f"{letter * 24}.parts"
        parts.mkdir(parents=True)
        (parts / "000-000000.parquet").write_bytes(bytes(500_000))
        (parts / ".000-000001.parquet.0123456789ab.draft").mkdir()  # of a killed process
        file.write_bytes(bytes(1_500_000))
        for path in (file, parts):
            os.utime(path, (time.time() - age * 86_400,) * 2)
    assert main(["data", "prune", "days=2", f"paths.cache={tmp_path}"]) == 0
    assert capsys.readouterr().out == "2 files of encodings and unfinished corpora removed, 2.0 MB\n"
    assert [file.name for file in (tmp_path / "corpora").iterdir()] == [f"{'b' * 24}.parts"]
    assert [file.name for file in tmp_path.glob("*.arrow")] == [f"{'b' * 32}.arrow"]
