"""Runs that are killed at any moment, on full disks and in folders that cannot be written."""

import json
import os
import random
import subprocess
import time

import pytest
from forked_commands import finish
from test_resume import assert_equal_runs, start, timeless, whole

from mate_cli.runs.folders import FOLDER as INDEX

__all__ = ["whole"]
pytestmark = pytest.mark.long


def left_behind(folder):
    """What has no business in a folder of finished runs."""
    empty = [path for path in folder.rglob("*") if path.is_dir() and not any(path.iterdir())]
    return [*(path for path in folder.rglob(".*") if path.name != INDEX), *empty]


@pytest.mark.parametrize("seed", range(int(os.environ.get("MATE_KILLS", "20"))))
def test_a_run_that_is_killed_at_any_moment_ends_as_one_that_is_not(whole, tmp_path, seed):
    chance, folder = random.Random(seed), tmp_path / "outputs"
    resume: list[str] = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        process = start(folder, *resume)
        time.sleep(chance.uniform(0.5, 9.0))
        process.send_signal(9)
        process.wait(60)
        found = [*folder.glob("train/quickstart_cells/*/config.yaml")]
        resume = ["resume=last"] if found else []
    for empty in folder.glob("train/quickstart_cells/*"):
        if not (empty / "config.yaml").exists():  # killed at once, too young to be nobody's
            for file in empty.iterdir():
                file.unlink()
            empty.rmdir()
    finish(start(folder, *resume))
    assert_equal_runs(folder, whole)
    assert not left_behind(folder)


def test_of_many_that_resume_at_once_one_does(whole, tmp_path):
    folder = tmp_path / "outputs"
    process = start(folder)
    while not list(folder.glob("train/quickstart_cells/*/checkpoints/last.ckpt")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(9)
    process.wait(60)
    several = [start(folder, "resume=last") for _ in range(4)]
    said = [process.communicate(timeout=300)[1] for process in several]
    assert sorted(process.returncode for process in several) == [0, 2, 2, 2], said
    assert sum("another process is training this run" in text for text in said) == 3
    assert timeless(folder) == timeless(whole)


@pytest.fixture
def disk(tmp_path):
    """Mounts small file systems, and takes them away again."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = []

    def mount(options):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True)
        if done.returncode:
            pytest.skip("no file system can be mounted here")
        mounted.append(place)
        return place

    yield mount
    for one in mounted:
        subprocess.run(["umount", str(one)], check=True)


@pytest.mark.parametrize("kilobytes", [8, 64, 256, 1024, 4096, 16_384])
def test_a_full_disk_is_said_in_one_line(disk, kilobytes):
    folder = disk(f"size={kilobytes}k")
    output, errors = start(folder / "outputs").communicate(timeout=300)
    assert "Traceback" not in output + errors
    for file in folder.rglob("record.json"):
        assert json.loads(file.read_text())["status"] in ("failed", "finished", "running")
    assert not [path for path in folder.rglob(".*") if path.name not in (".lock", INDEX)]
