"""First weights of a network of two encoders: of one checkpoint, of two, and of the reference's own layout."""

from functools import partial

import numpy as np
import pytest
import torch
from bundles import write
from golden import tapas
from safetensors.torch import save_file
from test_dot import COLUMNS, GENERAL, GOLDEN, KEEP, PRUNER, ROWS, TASK, golden, golden_batch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.dot import Dot, TokenScores
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.tapas import Tapas

SIZE, SMALL = EncoderSize(16, 2, 2, 32, 24), EncoderSize(8, 1, 2, 16, 24)


def network(seed=0, pruner=SMALL, **options):
    torch.manual_seed(seed)
    return Dot(SIZE, pruner=partial(Tapas, pruner), attention=Sdpa(), vocab_size=30, **options)


def encoder(size, seed):
    torch.manual_seed(seed)
    return Tapas(size, attention=Sdpa(), vocab_size=30)


def saved(folder, state):
    folder.mkdir()
    save_file({name: value.contiguous() for name, value in state.items()}, folder / "model.safetensors")
    return folder


def with_heads(size, seed):
    """A TAPAS after table questions, as transformers names it."""
    state = {f"tapas.{name}": value for name, value in encoder(size, seed).state_dict().items()}
    drawn = torch.Generator().manual_seed(seed)
    shapes = {"output_weights": [size.hidden_size], "output_bias": [], "column_output_weights": [size.hidden_size]}
    return state | {name: torch.randn(shape, generator=drawn) for name, shape in shapes.items()}


def assert_same(module, expected):
    for name, value in module.state_dict().items():
        if not name.startswith(("pruner.", "scores.", "pooler.")):
            assert torch.equal(value, expected.state_dict()[name]), name


@pytest.mark.parametrize("prefix", ["", "encoder."])
def test_both_encoders_come_back_from_one_checkpoint(tmp_path, prefix):
    model = network()
    folder = saved(tmp_path / "run", {prefix + name: value for name, value in model.state_dict().items()})
    again = network(seed=1)
    report = InitialWeights("path", str(folder)).load(again)
    assert not report.new
    assert not report.unused
    assert set(report.loaded) == set(model.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))


def test_a_network_of_one_encoder_takes_the_task_transformer(tmp_path):
    model, alone = network(), encoder(SIZE, 5)
    report = InitialWeights("path", str(saved(tmp_path / "run", model.state_dict()))).load(alone)
    assert_same(alone, model)
    assert {name.split(".")[0] for name in report.unused} == {"pruner", "scores"}


def test_each_encoder_has_first_weights_of_its_own(tmp_path):
    large, small = saved(tmp_path / "large", with_heads(SIZE, 1)), saved(tmp_path / "small", with_heads(SMALL, 2))
    model = network()
    task = TableQA(TaskContext(model), select_one_column=False)
    init = InitialWeights("path", str(large), inner={"pruner": InitialWeights("path", str(small))})
    report = init.load(model, task)
    assert_same(model, encoder(SIZE, 1))
    assert_same(model.pruner, encoder(SMALL, 2))
    assert torch.equal(model.scores.tokens.weight[0], with_heads(SMALL, 2)["output_weights"])
    assert torch.equal(task.head.cells.weight[0], with_heads(SIZE, 1)["output_weights"])
    assert report.new == ()
    assert "pruner.encoder.layer.0.output.dense.weight" in report.loaded


def test_the_scores_never_begin_as_the_heads_of_the_task_transformer(tmp_path):
    folder = saved(tmp_path / "both", with_heads(SIZE, 1))
    model = network(pruner=SIZE)
    before = model.scores.tokens.weight.clone()
    InitialWeights("path", str(folder)).load(model, TableQA(TaskContext(model), select_one_column=False))
    assert_same(model, encoder(SIZE, 1))
    assert_same(model.pruner, encoder(SIZE, 1))
    assert torch.equal(model.scores.tokens.weight, before)


def test_what_does_not_fit_the_pruner_is_said(tmp_path):
    folder = saved(tmp_path / "large", with_heads(SIZE, 1))
    with pytest.raises(CheckpointError, match="8 wide"):
        InitialWeights("path", str(folder)).load(network())
    with pytest.raises(ConfigError, match=r"init\.inner\.pruner"):
        InitialWeights("path", str(folder), inner={"pruner": {"kind": "random"}}).load(network())


@pytest.mark.parametrize("select", ["tokens", "columns"])
def test_the_layout_of_the_reference_is_read(tmp_path, select):
    """The variables of a DoT of google-research/tapas, by the names that its code gives them."""
    values = {name: GOLDEN[name] for name in GOLDEN.files if name.startswith("weights/")}
    values = {name.removeprefix("weights/"): value for name, value in values.items()}
    weights = np.load(tapas("g3_encoder_weights.npz"))
    values |= {n: weights[n] for n in weights.files if "relative_bias" not in n and "proj_seq" not in n}
    prefix = write(tmp_path, {name: np.ascontiguousarray(value) for name, value in values.items()})
    model = Dot(TASK, pruner=partial(Tapas, PRUNER), keep=KEEP, select=select, **GENERAL)
    model.scores = TokenScores(PRUNER.hidden_size, select, max_rows=ROWS, max_columns=COLUMNS)
    report = InitialWeights("path", str(prefix)).load(model)
    assert not report.new
    other = {"tokens": "columns", "columns": "tokens"}[select]
    unused = {f"scores.{other}.weight", f"scores.{other}.bias", "pooler.dense.weight", "pooler.dense.bias"}
    assert set(report.unused) == unused
    with torch.no_grad():
        found = model.eval()(golden_batch())
    real = found.batch.attention_mask == 1
    expected = golden(f"tapas_{select.upper()}_TOP_K/task_layer1")
    torch.testing.assert_close(found.states[real], expected[real], atol=2e-5, rtol=1e-4)
