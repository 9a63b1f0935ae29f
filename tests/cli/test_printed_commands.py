"""Commands on screen and in files work as they are pasted, from a folder whose name has spaces and quotes in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from configurations import composed
from finished_runs import SMALL, finished_run, here

from mate_cli.cli.app import main
from mate_cli.cli.commands import evaluate, predict
from mate_cli.cli.config.continued import expand_continued
from mate_cli.cli.config_dir import config_dir
from mate_cli.cli.sweeps.jobs import follow_job
from mate_cli.data.datasets.wtq.reader import WikiTableQuestions
from mate_cli.errors import DataError
from mate_cli.pipelines.export.export import export_run
from mate_cli.quoting import quote_text
from mate_cli.runs.record import RunFolder

NAME = """it's "my" folder, 100% (a) $HOME"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    folder = tmp_path / NAME
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def pasted(text: str) -> list[str]:
    """Words that a program would receive from a shell."""
    done = subprocess.run(["sh", "-c", f"printf '%s\\n' {text}"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def refusal(capsys, *words: str) -> str:
    assert main([*words]) == 2
    return capsys.readouterr().err.strip()


def empty_runs(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "config.yaml").write_text(yaml.safe_dump({}))


def test_a_run_that_is_meant(place, capsys):
    empty_runs(place / "runs", "first")
    line = refusal(capsys, "predict", f"run={place / 'runs'}", "table=t.csv", "question=q")
    typed = pasted(re.search(r"Did you mean (.*)\?$", line)[1])
    run = str(place / "runs" / "first")
    assert composed(config_dir(), "predict", predict.convert_arguments(typed)).run == run
    assert composed(config_dir(), "evaluate", evaluate.convert_arguments(typed)).run in (run, [run])


def test_a_folder_that_is_typed_alone(place, capsys):
    empty_runs(place / "runs", "first")
    typed = pasted(re.search(r"Type (.*)\.$", refusal(capsys, "export", str(place / "runs")))[1])
    assert composed(config_dir(), "export", [*typed, "to=x"]).run == str(place / "runs" / "first")
    again = pasted(re.search(r"Did you mean (.*)\?$", refusal(capsys, "run", str(place / "runs")))[1])
    assert again == ["mate", "run", str(place / "runs" / "first")]


def test_a_run_to_continue(place, capsys):
    empty_runs(place / "out" / "train" / "quickstart_cells", "mine")
    (place / "out" / "train" / "quickstart_cells" / "mine" / "record.json").write_text("{}")
    outputs = f"paths.outputs={quote_text(str(place / 'out'))}"
    line = refusal(capsys, "train", "experiment=quickstart_cells", "debug=fast", "name=mine", "logger=none", outputs)
    typed = pasted(re.search(r"continue that run: (.*)\.$", line)[1])
    resumed = composed(config_dir(), "train", ["experiment=quickstart_cells", *typed]).resume
    assert resumed == str(place / "out" / "train" / "quickstart_cells" / "mine")


def test_data_to_fetch(place):
    with pytest.raises(DataError) as refused:
        WikiTableQuestions(place / "wtq").splits  # noqa: B018 - says what is missing
    typed = pasted(re.search(r"type: (.*)\.$", str(refused.value))[1])
    assert typed[:3] == ["mate", "data", "download"]
    assert composed(config_dir(), "data", ["action=download", *typed[3:]]).data["root"] == str(place / "wtq")


def test_the_line_of_a_job(place, capsys):
    words = ["experiment=quickstart_cells", "tags=[a, b]", "init.checkpoint='it\\'s here'"]
    follow_job(RunFolder(finished_run(place / "run", [])), [sys.executable, "-c", ""], words, lambda process: None)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("job: "))
    assert pasted(line.removeprefix("job: ")) == ["mate", "train", *words]


def test_the_card_of_a_model(place):
    run = finished_run(place / "run", ["model=tapas"])
    folder = export_run(str(run), str(place / NAME), here(place / "cache"))
    card = (folder / "README.md").read_text()
    shell, python = (re.search(rf"```{kind}\n(.*?)```", card, re.DOTALL)[1] for kind in ("bash", "python"))
    made: dict[str, object] = {}
    exec(python, made)
    assert made["outputs"]
    lines = [pasted(line) for line in shell.splitlines()]
    assert [command for _, command, *_ in lines] == ["predict", "train"]
    for _, command, *words in lines:
        config = composed(config_dir(), command, expand_continued(words))
        assert Path(config.checkpoint if command == "predict" else config.init["checkpoint"]).name == NAME
    made_by = re.search(r"## How it was made\n\n```bash\n(.*)\n```", card)[1]
    assert pasted(made_by) == ["mate", "train", *SMALL[:-1], "model=tapas"]  # the last is of the machine
