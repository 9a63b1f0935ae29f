"""An unpacked TensorFlow release of DoT answers, with the options that only its name says."""

import re

import pytest
import torch
from bundles import write
from finished_runs import here
from released_tapas import SIZE, release, tensorflow_name
from test_tensorflow_checkpoint import TABLE

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.cli.app import main
from mate_cli.errors import CheckpointError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.checkpoints.tensor_bundle import read_bundle
from mate_cli.models.dot import Dot
from mate_cli.models.tapas import Tapas
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.tables.example import TableExample

WTQ = "tapas_wtq_wikisql_sqa_inter_masklm_tiny_reset"
DOTS = {
    "wikisql_hem_1024_dot_tiny_256_large": (WTQ, "tokens", "hem", 0.107515),
    "wtq_cc_1024_column_dot_tiny_256_large": (WTQ, "columns", "cell_concatenation", 0.0352513),
    "tabfact_hem_1024_dot_tiny_256_large": ("tapas_tabfact_inter_masklm_large", "tokens", "hem", None),
}


def dot_release(root, name):
    """Weights at random: those of a TAPAS, and of a pruning transformer with its scores, by the authors' names."""
    base, select, _, _ = DOTS[name]
    folder = release(root, base)
    values = {key: value.numpy() for key, value in read_bundle(folder / "model.ckpt", lambda key: True).items()}
    torch.manual_seed(5)
    pruner = Tapas("tiny", attention=Sdpa(), vocab_size=2281)
    for key, value in pruner.state_dict().items():
        drawn = torch.randn_like(value) * 0.3
        theirs = tensorflow_name(f"tapas.{key}")
        values[f"pruning/{theirs}"] = (drawn.T if theirs.endswith("/kernel") else drawn).numpy().copy()
    prefix = {"tokens": "", "columns": "column_"}[select]
    values |= {
        f"pruning/{prefix}output_weights": torch.randn(128).numpy(),
        f"pruning/{prefix}output_bias": torch.zeros(()).numpy(),
    }
    for path in folder.glob("model.ckpt.*"):
        path.unlink()
    write(folder, values)
    return folder.rename(root / name), values


def as_torch(values, name):
    value = torch.tensor(values[name])
    return value.T if name.endswith("/kernel") else value


@pytest.mark.parametrize("name", DOTS)
def test_a_release_is_read_whole(tmp_path, name):
    folder, values = dot_release(tmp_path, name)
    parts, config = open_checkpoint(str(folder), here(tmp_path / "cache"))
    encoder, (_, select, truncation, temperature) = parts.task.encoder, DOTS[name]
    assert isinstance(encoder, Dot)
    assert (encoder.keep, encoder.scores.tokens is None) == (256, select == "columns")
    assert encoder.size == EncoderSize(**{SIZES.get(key, key): value for key, value in SIZE.items()}, max_positions=80)
    assert encoder.pruner.size.hidden_size == 128
    read = {key: config.encoding[key] for key in ("max_tokens", "truncation", "reset_positions")}
    assert read == {"max_tokens": 1024, "truncation": truncation, "reset_positions": True}
    assert config.task.get("temperature") == temperature
    unused = {"pooler.dense.weight", "pooler.dense.bias"}
    if not config.task.get("select_one_column"):
        unused |= {"column_output_weights", "column_output_bias"}
    assert set(parts.report.unused) <= unused
    assert not parts.report.new
    state = parts.task.encoder.state_dict()
    for theirs, ours in (("bert/encoder", "encoder"), ("pruning/bert/encoder", "pruner.encoder")):
        kernel = f"{theirs}/layer_1/attention/self/query/kernel"
        assert torch.equal(state[f"{ours}.layer.1.attention.self.query.weight"], as_torch(values, kernel))


SIZES = {"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DOTS)
def test_a_release_answers(tmp_path, name, capsys):
    folder, _ = dot_release(tmp_path, name)
    parts, config = open_checkpoint(str(folder), here(tmp_path / "cache"))
    question = TableExample("q", "which colour has the most?", TABLE, None)
    (found,) = predict(parts.task, parts.data.build_eval_loader([question], "questions"), config)
    assert found
    table = tmp_path / "sales.csv"
    table.write_text("region,sales\nnorth,3\nsouth,5\n")
    assert main(["predict", f"checkpoint={folder}", f"table={table}", "question=which region?"]) == 0
    assert "which region?" in capsys.readouterr().out


def test_another_name_is_refused_with_what_it_should_say(tmp_path):
    folder, _ = dot_release(tmp_path, "tabfact_hem_1024_dot_tiny_256_large")
    mine = folder.rename(tmp_path / "mine")
    with pytest.raises(CheckpointError, match=re.escape("such as tabfact_hem_1024_dot_")):
        open_checkpoint(str(mine), here(tmp_path / "cache"))
