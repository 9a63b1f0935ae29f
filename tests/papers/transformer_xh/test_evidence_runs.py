"""A run over texts that hop: its graph is drawn with its weights, it answers about own tables, it resumes."""

import json
import shutil

import numpy as np
import pytest

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


@pytest.mark.long
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
