"""No subprocess imports from the folder in which it starts, on any supported Python."""

import os
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHADOW = (
    "import os, sys\nos.makedirs('executed', exist_ok=True)\nopen(f'executed/{__name__}', 'w')\nraise ImportError\n"
)
PROGRAM = """
import functools, multiprocessing, operator, os, subprocess, sys
from mate_cli.files import safe_path

if __name__ == "__main__":
    os.chdir({folder!r})
    safe_path.HAS_SAFE_PATH = {has_safe_path}
    safe_path.protect_subprocesses()
    {start}
    print([*result])
"""
KINDS = {
    "encoding worker": """
    from mate_cli.data.loading import parallel
    parallel.TRIAL_SECONDS, parallel.MIN_SECONDS = 0, 0
    result = parallel.map_on_cores(functools.partial(operator.add, 1), range(3), 2)
    """,
    "spawned worker": """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.map(functools.partial(operator.add, 1), range(3))
    """,
    "joblib worker": """
    from joblib import Parallel, delayed
    result = Parallel(n_jobs=2)(delayed(operator.add)(1, item) for item in range(3))
    """,
    "loader worker": """
    from torch.utils.data import DataLoader
    result = [int(item) for item in DataLoader([1, 2, 3], num_workers=2)]
    """,
    "python -m": """
    result = [1, 2, 3] if not subprocess.call([sys.executable, "-m", "json.tool", "--help"]) else []
    """,
    "rank": """
    from mate_cli.cli.app import PROGRAM
    from types import SimpleNamespace
    from mate_cli.runs.launch import launch_processes
    result = [1, 2, 3] if not launch_processes([*PROGRAM, "--version"], SimpleNamespace(devices=2)) else []
    """,
}
FAST = ("encoding worker", "python -m")
NEEDS_SAFE_PATH = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 ignores PYTHONSAFEPATH")


find_packages = cache(packages_distributions)


@pytest.fixture
def shadowed(tmp_path):
    """A folder with a module for each name that could be imported, which tells when it is executed."""
    folder = tmp_path / "shadowed"
    folder.mkdir()
    for name in filter(str.isidentifier, {*sys.stdlib_module_names, *find_packages(), "mate_cli"}):
        (folder / f"{name}.py").write_text(SHADOW)
    return folder


@pytest.mark.parametrize(
    "has_safe_path", [pytest.param(True, marks=NEEDS_SAFE_PATH, id="from 3.11 on"), pytest.param(False, id="3.10")]
)
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[] if kind in FAST else pytest.mark.long) for kind in KINDS])
def test_subprocesses_import_nothing_from_the_working_folder(tmp_path, shadowed, kind, has_safe_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.format(folder=str(shadowed), has_safe_path=has_safe_path, start=KINDS[kind]))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}"}  # its empty entry is the working folder
    environment.pop("PYTHONSAFEPATH", None)
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not (shadowed / "executed").exists(), [*(shadowed / "executed").iterdir()]
    assert done.stdout.splitlines()[-1:] == ["[1, 2, 3]"], done.stderr
