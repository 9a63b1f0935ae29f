"""A run over texts that hop: its graph is drawn with its weights, it answers about own tables, it resumes."""

import json
import shutil
import signal
import time
from pathlib import Path

import forked_commands
import numpy as np
import pytest
from safetensors.torch import load_file

from mate_cli.cli.app import main
from mate_cli.files.renamed import FORMER_MODULES

WORDS = [
    *("experiment=hybridqa_xh", "data=sample", "init=random", "init.tokenizer=sample", "model.size=tiny"),
    *("encoding.max_nodes=12", "encoding.node_tokens=48", "logger=none", "hardware.threads=1"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("xh")
    assert main(["train", *WORDS, "debug=fast", f"paths.outputs={folder}"]) == 0
    (path,) = folder.glob("train/hybridqa_xh/*")
    return path


@pytest.mark.long
def test_its_graph_is_drawn_with_its_weights(run, tmp_path, capsys, monkeypatch):
    from mate_cli.papers.transformer_xh import inspect_graph

    drawn, draw = [], inspect_graph.edges_figure
    monkeypatch.setattr(inspect_graph, "edges_figure", lambda *given: drawn.append(given) or draw(*given))
    assert main(["inspect", f"run={run}", "example=3", f"paths.outputs={tmp_path}"]) == 0
    (path,) = tmp_path.glob("inspect/*_graph.png")
    printed = capsys.readouterr().out
    assert "question" in printed
    assert " row" in printed
    assert path.stat().st_size > 10_000
    ((_, kinds, weights, title),) = drawn
    assert list(weights) == ["after layer 1", "after layer 2"]
    seen = kinds != ""
    for shares in weights.values():
        np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
        assert not shares[~seen & ~np.eye(len(seen), dtype=bool)].any()
    assert title.startswith("dev-0003")


def test_without_a_run_the_edges_are_drawn(tmp_path, capsys):
    words = ["experiment=hybridqa_xh", "data=sample", "init.tokenizer=sample", f"paths.outputs={tmp_path}"]
    assert main(["inspect", *words]) == 0
    assert "graph: " in capsys.readouterr().out
    assert len(list(tmp_path.glob("inspect/*_graph.png"))) == 1


def test_a_run_from_before_its_classes_moved_evaluates(run, tmp_path):
    old = shutil.copytree(run, tmp_path / "old")
    text = (old / "config.yaml").read_text()
    for former, today in FORMER_MODULES.items():
        text = text.replace(f"mate_cli.papers.{today}.EvidenceRanking", f"mate_cli.papers.{former}.EvidenceRanking")
    assert "mate_cli.papers.transformer_xh.tasks" not in text
    (old / "config.yaml").write_text(text)
    assert main(["evaluate", f"run={old}", "split=dev", "hardware.threads=1", f"paths.cache={tmp_path}"]) == 0
    scores = json.loads((old / "evaluation" / "dev.json").read_text())
    trained = json.loads((run / "record.json").read_text())["metrics"]
    assert scores["dev/hits@1"] == trained["dev/hits@1"]


def test_it_answers_about_own_tables(run, tmp_path, capsys):
    (tmp_path / "sales.csv").write_text("region,sold\nnorth,3\nsouth,12\n")
    words = [f"run={run}", f"table={tmp_path / 'sales.csv'}", "question=which region sold most?", "hardware.threads=1"]
    assert main(["predict", *words]) == 0
    assert "which region sold most?" in capsys.readouterr().out


@pytest.mark.long
def test_killed_and_resumed_it_ends_with_the_same_weights(tmp_path):
    """The encodings, which are kept on disk, come back with their relations."""
    more = ["trainer.limit_train=16", "trainer.limit_dev=4", "trainer.batch_size=4", "trainer.max_epochs=2"]
    more += ["trainer.checkpoint_every=2", "trainer.log_every=1", "hardware.micro_batch=2"]

    def start(name, *extra):
        return forked_commands.start("train", *WORDS, *more, f"paths.outputs={tmp_path / name}", *extra)

    def weights(name):
        (path,) = tmp_path.glob(f"{name}/train/hybridqa_xh/*/checkpoints/best.safetensors")
        return load_file(path)

    whole = start("whole")
    assert whole.wait(300) == 0
    process = start("cut")
    for _ in range(6000):
        found = [path.read_text() for path in Path(tmp_path).glob("cut/train/hybridqa_xh/*/metrics.jsonl")]
        if any('"step": 3' in text for text in found):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert start("cut", "resume=last").wait(300) == 0
    expected, got = weights("whole"), weights("cut")
    assert all((got[name] == tensor).all() for name, tensor in expected.items())
