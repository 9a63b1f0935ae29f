"""Benchmarks look for garbage before they measure: let them find what is theirs, not walk through all other tests."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools" / "benchmarks"
sys.path.append(str(TOOLS))


@pytest.fixture(scope="module", autouse=True)
def _only_own_garbage():
    gc.collect()
    gc.freeze()


@pytest.fixture
def measured_by(tmp_path):
    """Runs a script of tools/benchmarks: what it shows, the figures of its record, and their folder."""

    def measure(name, *words):
        command = [sys.executable, TOOLS / f"{name}.py", *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        (folder,) = (tmp_path / "outputs" / "benchmark" / name).iterdir()
        return done.stdout, json.loads((folder / "record.json").read_text())["metrics"], folder

    return measure
