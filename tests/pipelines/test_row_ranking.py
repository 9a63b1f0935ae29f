"""Rows ranked by a finished run: as its own predictions have them, for any question."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from configurations import run_config
from finished_runs import SMALL, finished_run, here
from hydra.utils import instantiate

from mate_cli.data.loading.in_memory import EncodedExamples
from mate_cli.data.loading.table_data_module import EmptyDataset
from mate_cli.errors import RunError
from mate_cli.pipelines.assembly import CellRanker, assemble, build_serializer, load_best
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.export.export import export_run
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.runs.configuration import load_config
from mate_cli.runs.record import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("ranker"), ["task=cell_selection", "task.keep=5"])


@pytest.fixture(scope="module")
def examples():
    return instantiate(run_config(SMALL).data).examples("dev")[:6]


def config_of(run, *others):
    return run_config([*SMALL, "task=cell_selection", "encoding.best_rows=2", f"encoding.ranked_by={run}", *others])


def test_the_row_of_the_best_cell_comes_first(run, examples, tmp_path):
    config = load_config(run)
    own = load_best(config, RunFolder(run), EmptyDataset())
    rankings = predict(own.task, own.data.loader_encoded(EncodedExamples(examples, own.serializer)), config)
    ranked = CellRanker(str(run), config)(examples)
    assert len(rankings) == len(examples)
    for ranking in rankings:
        kept = dict.fromkeys(row for row, _ in ranking.cells)
        assert ranked[ranking.example_id][: len(kept)] == tuple(kept)
    assert {len(ranked[one.example_id]) for one in examples} == {len(one.table.rows) for one in examples}, "all rows"


def test_a_network_reads_the_best_rows_alone(run, examples):
    serializer = build_serializer(config_of(run))
    for example, encoding in zip(examples, serializer.encode(examples), strict=True):
        best = serializer.ranker([example])[example.example_id][:2]
        assert set(encoding.row_ids.tolist()) == {0, *(row + 1 for row in best)}


def test_rankers_of_equal_weights_that_read_otherwise_are_told_apart(run, tmp_path):
    moved = Path(shutil.copytree(run, tmp_path / "moved"))
    own = CellRanker(str(run), load_config(run)).digest
    assert CellRanker(str(moved), load_config(moved)).digest == own
    text = (moved / "config.yaml").read_text()
    for key, other in {"row_head_ratio": 0.0, "sentences": 3}.items():
        (moved / "config.yaml").write_text(re.sub(rf"\b{key}: .*", f"{key}: {other}", text))
        assert CellRanker(str(moved), load_config(moved)).digest != own


def test_what_is_drawn_after_does_not_depend_on_the_ranker(run, examples):
    drawn = []
    for asked in ([], examples):
        parts = assemble(config_of(run, "seed=7"), EmptyDataset())  # loading the ranker begins with its own seed
        parts.serializer.encode(asked)
        drawn.append(torch.rand(4))
    assert torch.equal(*drawn)


def test_what_cannot_rank_rows_is_refused(run, tmp_path):
    with pytest.raises(RunError, match=r"encoding.ranked_by: this is not a run folder"):
        build_serializer(config_of(tmp_path))
    other = finished_run(tmp_path / "other", ["task=entailment"])
    with pytest.raises(RunError, match=r"encoding.ranked_by: this run does not rank cells.*task=cell_selection"):
        build_serializer(config_of(other))
    unfinished = finished_run(tmp_path / "unfinished", ["task=cell_selection"])
    (unfinished / "checkpoints" / "best.safetensors").unlink()
    with pytest.raises(RunError, match=r"encoding.ranked_by: this run has no weights"):
        build_serializer(config_of(unfinished))


def test_an_exported_network_reads_all_rows(run, examples, tmp_path):
    cut = finished_run(tmp_path / "cut", ["task=cell_selection", "encoding.best_rows=2", f"encoding.ranked_by={run}"])
    exported = export_run(str(cut), str(tmp_path / "exported"), here(tmp_path))
    (example,) = examples[:1]
    parts, _ = open_checkpoint(str(exported), here(tmp_path))
    (encoding,) = parts.serializer.encode([example])
    assert len(set(encoding.row_ids.tolist())) == 1 + len(example.table.rows) > 3
    assert str(run) not in "".join(path.read_text() for path in exported.glob("*.yaml"))
