"""A callback of the user's own that fails loses no work."""

from __future__ import annotations

import json

import pytest

from mate_cli.cli.app import main

OWN = """
import os
import pytorch_lightning as pl

class Fails(pl.Callback):
    def on_validation_end(self, trainer, module):
        if "FAILS" in os.environ:
            raise RuntimeError("my own fault")
"""
WORDS = ["train", "experiment=quickstart_cells", "debug=fast", "logger=none", "name=a"]


def test_what_is_learnt_before_a_callback_fails_is_saved(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_callback.py").write_text(OWN)
    words = [*WORDS, "+callbacks.mine._target_=own_callback.Fails"]
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(RuntimeError, match="my own fault"):
        main(words)
    run = tmp_path / "outputs" / "train" / "quickstart_cells" / "a"
    assert {file.name for file in (run / "checkpoints").iterdir()} == {"last.ckpt", "best.safetensors"}
    monkeypatch.delenv("FAILS")
    assert main([*words, f"resume={run}"]) == 0
    record = json.loads((run / "record.json").read_text())
    assert (record["status"], record["resumed"]) == ("finished", 1)
    assert "dev/hits@1" in record["metrics"]
    capsys.readouterr()


@pytest.mark.long
def test_finished_selectors_are_given_to_a_finished_reader(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["train", "experiment=quickstart", "debug=fast", "logger=none"]
    assert main([*words, "name=first"]) == 0
    first = tmp_path / "outputs" / "train" / "quickstart" / "first"
    finished = [f"stages.{stage}.run={first / stage}" for stage in ("cell_selection", "span_reading")]
    assert main([*words[:2], "logger=none", *finished, "name=second"]) == 0
    metrics = [
        json.loads((first.with_name(name) / "record.json").read_text())["metrics"] for name in ("first", "second")
    ]
    assert metrics[0] == metrics[1]
    assert main([*words[:2], "model=sat", *finished]) == 2
    assert "Leave it out" in capsys.readouterr().err
