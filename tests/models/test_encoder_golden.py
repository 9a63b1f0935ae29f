"""Whole encoders against google-research/tapas: outputs and gradients."""

import json

import numpy as np
import pytest
import torch
from batches import exact_backends
from golden import tapas

from mate_cli.attention.backends.bucketed import Bucketed
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.patterns import RowColumnHeads
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.mate import MateEncoder
from mate_cli.models.tapas import Tapas
from mate_cli.tokenization.layout import TableBatch

CONFIG = json.loads(tapas("g3_config.json").read_text())["config"]
WEIGHTS = np.load(tapas("g3_encoder_weights.npz"))
OUTPUTS = np.load(tapas("g3_encoder_outputs.npz"))
SIZE = EncoderSize(32, 2, 4, 48, 40)
EXACT = exact_backends(RowColumnHeads(4))
RENAMED = {
    "input_ids": "input_ids",
    "segment_ids": "segment_ids",
    "column_ids": "column_ids",
    "row_ids": "row_ids",
    "previous_labels": "prev_label_ids",
    "column_ranks": "column_ranks",
    "inverse_column_ranks": "inv_column_ranks",
    "numeric_relations": "numeric_relations",
    "attention_mask": "input_mask",
}


def feature(name):
    return torch.from_numpy(OUTPUTS[f"features/{name}"]).long()


def batch(*, reset: bool) -> TableBatch:
    fields = {ours: feature(theirs) for ours, theirs in RENAMED.items()}
    cells = fields["row_ids"] * 256 + fields["column_ids"]
    index = torch.arange(cells.shape[1]).expand_as(cells)
    first = (cells[:, :, None] == cells[:, None, :]).int().argmax(-1)
    return TableBatch(**fields, position_ids=index - first if reset else index)


def torch_name(name):
    """A TensorFlow variable name as a parameter of ours."""
    parts = name.removeprefix("bert/").replace("layer_", "layer.").split("/")
    leaf = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}.get(parts[-1])
    return ".".join([*parts[:-1], leaf] if leaf else [*parts, "weight"])


def network(cls, attention, **options):
    options = {"vocab_size": CONFIG["vocab_size"], "activation": "gelu_new", "attention_dropout": 0.0, **options}
    model = cls(SIZE, attention=attention, **options)
    state = {
        torch_name(name): torch.from_numpy(WEIGHTS[name].T if name.endswith("kernel") else WEIGHTS[name])
        for name in WEIGHTS.files
        if "relative_bias" not in name and "proj_seq" not in name
    }
    model.load_state_dict(state)
    return model.eval()


def beside(variant, model, reset):
    """States of real tokens and pooled states: the model's, and those of the reference."""
    given = batch(reset=reset)
    with torch.no_grad():
        output = model(given)
    real = given.attention_mask == 1
    states, pooled = (torch.from_numpy(OUTPUTS[f"{variant}/{name}"]) for name in ("layer1", "pooled"))
    return [output.states[real], output.pooled], [states[real], pooled]


def assert_same(found, expected):
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("attention", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("variant", ["full", "full_reset", "headwise", "headwise_reset", "headwise_r25"])
def test_exact_variants(variant, attention):
    if variant.startswith("full"):
        model = network(Tapas, attention)
    else:
        model = network(MateEncoder, attention, row_head_ratio=0.25 if variant.endswith("r25") else 0.5)
    assert_same(*beside(variant, model, variant.endswith("reset")))


@pytest.mark.parametrize("variant", ["efficient_b4_h8", "efficient_b4_h8_reset", "efficient_b8_h16"])
def test_efficient_variants(variant):
    bucket, first = (8, 16) if "b8" in variant else (4, 8)
    assert_same(*beside(variant, network(MateEncoder, Bucketed(first, bucket, pad=False)), variant.endswith("reset")))


@pytest.mark.parametrize("attention", EXACT.values(), ids=EXACT)
def test_weights_on_tokens(attention):
    """The reference's fractional masks are biases on keys: the logarithm of the weight."""
    model, given = network(Tapas, attention), batch(reset=False)
    weights = torch.from_numpy(OUTPUTS["features/token_weights"])
    bias = weights.log().clamp(min=-10000.0)
    with torch.no_grad():
        plans = model.plans(given)
        states = model.encoder(model.embeddings(given), plans, given.packing.pack(bias))
    real = given.attention_mask == 1
    expected = torch.from_numpy(OUTPUTS["full_token_weights/layer1"])
    torch.testing.assert_close(states, expected[real], atol=2e-5, rtol=1e-4)


def test_embeddings():
    with torch.no_grad():
        model, given = network(Tapas, Sdpa()), batch(reset=True)
        states = model.embeddings(given)
    expected = torch.from_numpy(OUTPUTS["full_reset/embedding"])
    torch.testing.assert_close(states, expected[given.attention_mask == 1], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(
    ("variant", "attention"),
    [*(("headwise", backend) for backend in EXACT.values()), ("efficient_b4_h8", Bucketed(8, 4, pad=False))],
    ids=[*EXACT, "bucketed"],
)
def test_gradients(variant, attention, checkpointing):
    model, given = network(MateEncoder, attention, gradient_checkpointing=checkpointing), batch(reset=False)
    probe = torch.from_numpy(OUTPUTS["grad_probe"])
    loss = (model(given).states * probe * given.attention_mask.unsqueeze(-1)).sum()
    loss.backward()
    expected = {name.split("/grad/")[1]: OUTPUTS[name] for name in OUTPUTS.files if name.startswith(f"{variant}/grad/")}
    assert len(expected) == 2
    np.testing.assert_allclose(loss.item(), OUTPUTS[f"{variant}/grad_loss"], rtol=1e-3)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.data = parameter.grad
    gradients = model.state_dict()  # named as in a checkpoint
    for name, gradient in expected.items():
        ours = gradients[torch_name(name)].numpy()
        ours = ours.T if name.endswith("kernel") else ours[: len(gradient)]
        np.testing.assert_allclose(ours, gradient, rtol=1e-3, atol=2e-5)
