"""Benchmarks look for garbage before they measure: let them find what is theirs, not walk through all other tests."""

import gc
import json
import runpy
import sys

import pytest
from golden import ROOT

TOOLS = ROOT / "tools" / "benchmarks"
sys.path.append(str(TOOLS))


@pytest.fixture(scope="module", autouse=True)
def _only_own_garbage():
    gc.collect()
    gc.freeze()


@pytest.fixture
def measured_by(tmp_path, monkeypatch, capsys):
    """Runs a script of tools/benchmarks: what it shows, the figures of its record, and their folder."""

    def measure(name, *words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        runpy.run_path(str(TOOLS / f"{name}.py"), run_name="__main__")
        (folder,) = (tmp_path / "outputs" / "benchmark" / name).iterdir()
        return capsys.readouterr().out, json.loads((folder / "record.json").read_text())["metrics"], folder

    return measure
