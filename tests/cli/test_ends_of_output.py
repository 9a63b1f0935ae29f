"""Output that nobody reads, or that has no room: what a command makes is whole all the same."""

import json
import os
import subprocess
import sys

import pytest

from mate_cli.cli.app import main
from mate_cli.terminal.streams import BrokenPipeSafeStream
from tests.reports.runs import build_demo

MATE = f"{sys.executable} -m mate_cli"
CELLS = ["train", "experiment=quickstart_cells", "hardware.threads=1"]
LONG = "n" * 300


def test_a_stream_outlives_its_reader():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        stream = BrokenPipeSafeStream(file)
        for _ in range(3):
            stream.write("x" * 100_000)
            stream.flush()


MORE = [pytest.param(ending, marks=pytest.mark.long) for ending in (">&- 2>&-", "<&- >&- 2>&-", "2>&1 | true")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", [">&-", "| head -c 1", *MORE])
def test_files_are_written_whoever_reads_the_output(tmp_path, ending):
    runs = build_demo(tmp_path / "runs")
    typed = f"{MATE} compare {runs} html=null csv={tmp_path}/t.csv json={tmp_path}/t.json"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{typed} {ending}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "t.csv").read_text().startswith("run,")
    assert json.loads((tmp_path / "t.json").read_text())["runs"]


@pytest.mark.long
def test_a_training_outlives_the_reader_of_its_output(tmp_path):
    words = ["debug=fast", "logger=none", f"paths.outputs={tmp_path}"]
    typed = " ".join([MATE, *CELLS, *words, "| head -1"])
    done = subprocess.run(["bash", "-o", "pipefail", "-c", typed], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (record,) = tmp_path.glob("train/*/*/record.json")
    assert json.loads(record.read_text())["status"] == "finished"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 19])
def test_terminals_of_any_width(tmp_path, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["compare", str(build_demo(tmp_path)), "html=null"]) == 0
    assert "Ranked" in capsys.readouterr().out


REFUSED = {
    f"name={LONG}": "is not a valid folder name",
    "logger.wandb.project='a/b'": "must be a name of at most 128 characters without /",
    f"logger.wandb.project={LONG}": "must be a name of at most 128 characters",
    "logger.wandb.entity='a:b'": "must be a name of at most 128 characters without /",
    f"logger.wandb.group={LONG}": "must be a text of at most 128 characters",
}


@pytest.mark.parametrize("word", REFUSED)
def test_names_that_nothing_can_have_are_one_line_before_any_work(tmp_path, capsys, word):
    assert main([*CELLS, word, f"paths.outputs={tmp_path / 'outputs'}"]) == 2
    error = capsys.readouterr().err
    assert (error.count("\n"), REFUSED[word] in error) == (1, True), error
    assert not list(tmp_path.iterdir())


def test_a_mode_that_wandb_does_not_have(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "bogus")
    assert main([*CELLS, f"paths.outputs={tmp_path / 'outputs'}"]) == 2
    assert main(["compare", str(build_demo(tmp_path / "runs")), "wandb=true", "html=null"]) == 2
    error = capsys.readouterr().err
    assert error.count("error: WANDB_MODE=bogus: is not a W&B mode. Use online, offline, disabled,") == 2
    assert not (tmp_path / "outputs").exists()


@pytest.mark.long
def test_wandb_that_is_disabled_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert main([*CELLS, "debug=fast", f"paths.outputs={tmp_path}"]) == 0
    (run,) = tmp_path.glob("train/*/*")
    assert not (run / "wandb").exists()
