"""One's own code is part of what a run is: a run of other code is another run, and is not used without a word."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.config.resolve import resolve
from mate_cli.runs.identity import hash_modules

ADDED = Path(__file__).parents[1] / "added"
WORDS = ["experiment=added", "debug=fast", "logger=none", "hardware.threads=1"]
FIRST, SECOND = "outputs/train/added/first", "outputs/train/added/second"


def change(file: str, old: str, new: str) -> None:
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new))


@pytest.fixture(scope="module", autouse=True)
def own(tmp_path_factory):
    """A run of an attention pattern of one's own, and another one after its window was removed."""
    folder = shutil.copytree(ADDED, tmp_path_factory.mktemp("code") / "own", ignore=shutil.ignore_patterns("__*__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        patch.setenv("COLUMNS", "150")
        assert main(["train", *WORDS, "name=first"]) == 0
        change("added_parts.py", "((away <= reach) | always)", "(always | True)")
        assert main(["train", *WORDS, "name=second", "resume=missing"]) == 0
        yield folder


def test_a_run_of_other_code_is_not_the_same_run(own, capsys):
    assert Path(SECOND, "record.json").is_file()
    assert main(["train", *WORDS, "resume=missing"]) == 0
    assert f"{SECOND} is already finished" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", ["evaluate", "predict", "train"])
def test_what_uses_a_run_says_which_file_has_changed(own, command, recwarn):
    words = {
        "evaluate": ["split=dev", "trust=added_parts", f"run={FIRST}"],
        "predict": ["input=questions.json", "trust=added_parts", f"run={FIRST}"],
        "train": [*WORDS, f"resume={FIRST}"],
    }
    Path("questions.json").write_text("[]")
    main([command, *words[command]])
    told = {str(warning.message) for warning in recwarn if "changed" in str(warning.message)}
    assert told == {f"added_parts.py has changed since {FIRST} started, which was trained with the old version"}


def test_old_and_new_code_have_rows_of_their_own_and_a_diff_names_the_file(own, tmp_path, capsys):
    report = tmp_path / "report.json"
    assert main(["compare", "outputs", "html=null", f"json={report}"]) == 0
    labels = [row["label"] for row in json.loads(report.read_text())["configurations"]]
    assert len(labels) == len(set(labels)) == 2
    assert all("code=" in label for label in labels)
    capsys.readouterr()
    assert main(["diff", FIRST, SECOND, "html=null"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "code of added_parts.py" in line]


def test_files_of_conf_count_and_their_comments_do_not(own):
    def code(*words: str) -> dict[str, str]:
        return resolve([*WORDS, *words]).code

    before = code()
    change("conf/model/nearby.yaml", "reach: 1", "reach: 1  # rows")
    assert code() == before
    change("conf/model/nearby.yaml", "reach: 1", "reach: 2")
    assert {file for file, mark in code().items() if before[file] != mark} == {"conf/model/nearby.yaml"}
    assert "conf/model/nearby.yaml" not in code("model=tapas")
    change("conf/model/nearby.yaml", "reach: 2", "reach: 1")


def test_each_file_of_a_list_counts(own):
    Path("conf/callbacks").mkdir()
    Path("conf/callbacks/rates.yaml").write_text("rates: {_target_: pytorch_lightning.callbacks.LearningRateMonitor}\n")
    assert "conf/callbacks/rates.yaml" in resolve([*WORDS, "callbacks=[early_stopping, rates]"]).code
    assert "conf/callbacks/rates.yaml" not in resolve([*WORDS, "callbacks=[early_stopping]"]).code


def test_modules_are_followed_within_their_folder_and_not_into_what_is_installed(tmp_path, monkeypatch):
    files = {
        "lab_parts/__init__.py": "",
        "lab_parts/patterns.py": "from . import windows\nimport torch\nimport lab_masks\n",
        "lab_parts/windows.py": "def f():\n    from lab_parts.deep.masks import g\n",
        "lab_parts/deep/masks.py": "from ..windows import f\nimport mate_cli.errors\n",
        "lab_parts/unused.py": "",
        "lab_masks.py": "raise RuntimeError('imported')\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    reached = hash_modules(["lab_parts.patterns.Near", "torch.optim.SGD", "mate_cli.models.mate.MateEncoder"])
    assert reached.keys() == files.keys() - {"lab_parts/unused.py"}
