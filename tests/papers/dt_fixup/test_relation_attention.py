"""Relation-aware attention against both reference systems, and against its definition."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from golden import others
from torch import Tensor

from mate_cli.attention.base import AttentionPlan, plan_layers
from mate_cli.attention.patterns import Full
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.papers.dt_fixup.models.extra import Extra, ExtraLayers
from mate_cli.papers.dt_fixup.models.relation_attention import RelationAttention
from mate_cli.papers.dt_fixup.schema.relations import NODE_RELATIONS
from mate_cli.tokenization.layout import ARRAYS, TableBatch

RELATIONS = 33
SIZE = EncoderSize(16, 2, 4, 64)
DT_FIXUP = {
    "query": "attention.toqueries",
    "key": "attention.tokeys",
    "value": "attention.tovalues",
    "out": "attention.unifyheads",
    "inner": "ff.0",
    "outer": "ff.2",
    "norms": "norm{}",
}
RAT_SQL = {
    "query": "self_attn.linears.0",
    "key": "self_attn.linears.1",
    "value": "self_attn.linears.2",
    "out": "self_attn.linears.3",
    "inner": "feed_forward.w_1",
    "outer": "feed_forward.w_2",
    "norms": "sublayer.{}.norm",
}


def nodes(relations: Tensor, lengths: list[int]) -> TableBatch:
    """A batch of nodes that are related so."""
    count = relations.shape[1]
    ids = torch.zeros(len(lengths), count, dtype=torch.int64)
    mask = (torch.arange(count) < torch.tensor(lengths)[:, None]).long()
    arrays = dict.fromkeys(ARRAYS, ids)
    return TableBatch(**arrays, position_ids=ids, attention_mask=mask, more={NODE_RELATIONS: relations})


def layers(norm: str, *, bias: bool) -> ExtraLayers:
    extra = Extra(2, 16, 4, 64, "standard", norm, 0.0, 0.0, 0.0, "relu", bias)  # type: ignore[arg-type]
    spec = lambda size: LayerSpec(Full(size.num_heads), RelationAttention(size, RELATIONS))  # noqa: E731
    return ExtraLayers(extra, 16, spec).eval()


def load(own: ExtraLayers, values: dict[str, Tensor], names: dict[str, str], first_norm: int) -> None:
    state = {}
    for layer in range(2):
        theirs, ours = f"w.layers.{layer}.", f"encoder.layer.{layer}."
        places = {
            "query": "attention.self.query",
            "key": "attention.self.key",
            "value": "attention.self.value",
            "out": "attention.output.dense",
            "inner": "intermediate.dense",
            "outer": "output.dense",
        }
        for name, place in places.items():
            for leaf in ("weight", "bias"):
                if f"{theirs}{names[name]}.{leaf}" in values:
                    state[f"{ours}{place}.{leaf}"] = values[f"{theirs}{names[name]}.{leaf}"]
        for kind in ("key", "value"):
            table = values[f"{theirs}relation_{kind[0]}_emb.weight"]
            state[f"{ours}attention.self.backend.relation_{kind}"] = table
        if own.extra.norm != "none":
            for place, norm in enumerate(("attention.output", "output"), first_norm):
                for leaf in ("weight", "bias"):
                    state[f"{ours}{norm}.LayerNorm.{leaf}"] = values[f"{theirs}{names['norms'].format(place)}.{leaf}"]
    if own.extra.norm != "none":
        state |= {f"LayerNorm.{leaf}": values[f"w.norm.{leaf}"] for leaf in ("weight", "bias")}
    own.load_state_dict(state)


@pytest.mark.parametrize(
    ("file", "norm", "names", "first", "expected"),
    [
        ("rat_dtfixup.npz", "none", DT_FIXUP, 1, "out_no_layernorm"),
        ("rat_dtfixup.npz", "post", DT_FIXUP, 1, "out_post_layernorm"),
        ("rat_ratsql.npz", "pre", RAT_SQL, 0, "out"),
    ],
)
def test_layers_equal_the_reference(file: str, norm: str, names: dict[str, str], first: int, expected: str) -> None:
    values = {name: torch.from_numpy(value) for name, value in np.load(others(file)).items()}
    own = layers(norm, bias=names is RAT_SQL)
    load(own, values, names, first)
    lengths = values["lengths"].tolist()
    batch = nodes(values["relation"], lengths)
    with torch.no_grad():
        states = batch.packing.unpack(own(batch.packing.pack(values["x"]), plan_layers([Full(4)], batch)))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(states[row, :length], values[expected][row, :length], atol=1e-5, rtol=1e-5)


def attend(backend: RelationAttention, qkv: Tensor, relations: Tensor, lengths: list[int]) -> Tensor:
    return backend(qkv, AttentionPlan(Full(4), nodes(relations, lengths)))


def drawn(lengths: list[int], dtype: torch.dtype = torch.float64) -> tuple[RelationAttention, Tensor, Tensor]:
    torch.manual_seed(0)
    most = max(lengths)
    relations = torch.randint(0, RELATIONS, (len(lengths), most, most))
    return RelationAttention(SIZE, RELATIONS).to(dtype), torch.randn(sum(lengths), 3, 4, 4).to(dtype), relations


def definition(backend: RelationAttention, qkv: Tensor, relations: Tensor) -> Tensor:
    """Of one example without padding, by the vectors of every pair."""
    query, key, value = qkv.permute(1, 2, 0, 3)
    keys = key[:, None] + backend.relation_key[relations]
    values = value[:, None] + backend.relation_value[relations]
    weights = ((query[:, :, None] * keys).sum(-1) / 2.0).softmax(-1)
    return (weights[..., None] * values).sum(2).transpose(0, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_its_definition_forward_and_backward(dtype: torch.dtype) -> None:
    backend, qkv, relations = drawn([37], dtype)
    upstream = torch.randn(37, 4, 4).to(dtype)
    weights = [*backend.parameters(), qkv.requires_grad_()]
    found, expected = attend(backend, qkv, relations, [37]), definition(backend, qkv, relations[0])
    torch.testing.assert_close(found, expected)
    for own, direct in zip(*(torch.autograd.grad(out, weights, upstream) for out in (found, expected)), strict=True):
        torch.testing.assert_close(own, direct, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbours_and_padding_change_nothing(dtype: torch.dtype) -> None:
    backend, qkv, relations = drawn([6, 9], dtype)
    alone = attend(backend, qkv[:6], relations[:1, :6, :6], [6])
    torch.testing.assert_close(attend(backend, qkv, relations, [6, 9])[:6], alone)


def test_dropout_drops_weights() -> None:
    backend, qkv, relations = drawn([37], torch.float32)
    plan = AttentionPlan(Full(4), nodes(relations, [37]))
    assert not torch.allclose(backend(qkv, plan, dropout=0.5), backend(qkv, plan))


def test_a_batch_without_relations_is_refused() -> None:
    from mate_cli.errors import ConfigError

    backend, qkv, relations = drawn([3])
    plan = AttentionPlan(Full(4), replace(nodes(relations, [3]), more={}))
    with pytest.raises(ConfigError, match="have no relations"):
        backend(qkv, plan)
