"""ETC's attention: against formulas computed elsewhere, against the dense computation, and in its limit cases."""

import numpy as np
import pytest
import torch
from golden import others
from torch import nn

from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.global_local import GlobalLocal, GlobalLocalOptions, Links, relative_ids

SIZE = EncoderSize(16, 1, 4, 32)


class Attention(GlobalLocal):
    """With projections, which an encoder layer has elsewhere."""

    def __init__(self, *args):
        super().__init__(*args)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, tokens, slots, links):
        inputs = (
            [dense(x).unflatten(-1, (4, 4)).transpose(1, 2) for dense in (self.query, self.key, self.value)]
            for x in (tokens, slots)
        )
        return [x.transpose(1, 2).flatten(2) for x in self.attend(*inputs, links)]


def attention(radius, max_distance=3, seed=0):
    torch.manual_seed(seed)
    module = Attention(SIZE, GlobalLocalOptions(radius, max_distance))
    for side in (module.of_tokens, module.of_slots):
        nn.init.normal_(side.bias)
    return module


def links_of(tokens, slots, examples=2, seed=0):
    random = torch.Generator().manual_seed(seed)
    real = torch.arange(tokens) < torch.tensor([[tokens], [max(tokens - 3, 1)]])[:examples]
    used = torch.rand(examples, slots, generator=random) < 0.8
    linked = (torch.rand(examples, tokens, slots, generator=random) < 0.3) & real[:, :, None] & used[:, None]
    return Links(real, used, linked, torch.arange(slots))


def states_of(tokens, slots, examples=2, seed=1):
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(examples, n, 16, generator=random, requires_grad=True) for n in (tokens, slots)]


def dense(module, tokens, slots, links):
    """The same by one mask and one table of relations over tokens and slots together."""
    count, options = tokens.shape[1], module.options
    index = torch.arange(count)
    offsets, between = index - index[:, None], links.slots - links.slots[:, None]
    far = options.not_linked + links.linked.long()
    ids = {
        "tokens": torch.cat([relative_ids(offsets, options.max_distance).expand(len(tokens), -1, -1), far], 2),
        "slots": torch.cat(
            [far.transpose(1, 2), relative_ids(between, options.max_distance).expand(len(tokens), -1, -1)], 2
        ),
    }
    known = torch.cat([links.real, links.used], 1)[:, None]
    seen = {
        "tokens": known & torch.cat([offsets.abs() <= options.radius, torch.ones(count, slots.shape[1])], 1).bool(),
        "slots": known.expand(-1, slots.shape[1], -1),
    }
    states = torch.cat([tokens, slots], 1)
    query, key, value = (f(states).unflatten(-1, (4, 4)) for f in (module.query, module.key, module.value))
    found = []
    for name, side, part in (
        ("tokens", module.of_tokens, query[:, :count]),
        ("slots", module.of_slots, query[:, count:]),
    ):
        vectors, bias = side.vectors[ids[name]], side.bias[ids[name]]
        scores = torch.einsum("bqnh,bknh->bnqk", part, key) + torch.einsum("bqnh,bqknh->bnqk", part, vectors)
        scores = (scores + bias.permute(0, 3, 1, 2)) / 2
        weights = scores.masked_fill(~seen[name][:, None], torch.finfo(torch.float32).min).softmax(-1)
        found.append(torch.einsum("bnqk,bknh->bqnh", weights, value).flatten(2))
    return found


def test_relations_by_distance():
    assert relative_ids(torch.arange(-5, 6), 3).tolist() == [6, 6, 6, 5, 4, 0, 1, 2, 3, 3, 3]


def test_the_formulas():
    golden = {name: torch.from_numpy(array) for name, array in np.load(others("tableetc_derived.npz")).items()}
    module = attention(int(golden["radius"]), int(golden["max_distance"]))
    with torch.no_grad():
        for name in ("query", "key", "value"):
            getattr(module, name).weight.copy_(golden[f"w.{name[0]}"])
            getattr(module, name).bias.copy_(golden[f"b.{name[0]}"])
        for side, name in ((module.of_tokens, "long"), (module.of_slots, "global")):
            side.vectors.copy_(golden[f"rel_emb_{name}"][:9])
            side.bias.copy_(golden[f"rel_bias_{name}"][:9])
        real, linked = golden["long_mask"] == 1, golden["l2g_rel"] == module.options.not_linked + 1
        links = Links(real, torch.ones(2, 6, dtype=torch.bool), linked, torch.arange(6))
        assert torch.equal(golden["g2g_rel"][0], relative_ids(links.slots - links.slots[:, None], 3))
        tokens, slots = module(golden["long"], golden["glob"], links)
        tokens = tokens @ golden["w.o_long"].T + golden["b.o_long"]
        slots = slots @ golden["w.o_global"].T + golden["b.o_global"]
    torch.testing.assert_close(tokens[real], golden["long_out"][real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(slots, golden["global_out"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("tokens", "slots", "radius"), [(12, 6, 3), (13, 5, 1), (7, 3, 0), (9, 2, 20), (1, 1, 4), (30, 4, 7)]
)
def test_blocks_equal_the_dense_computation(tokens, slots, radius):
    module, links, states = attention(radius), links_of(tokens, slots), states_of(tokens, slots)
    got, expected = module(*states, links), dense(module, *states, links)
    parameters = [*states, *module.parameters()]
    gradients = []
    for out in (got, expected):
        real = (out[0] * links.real[..., None]).square().sum() + out[1].square().sum()
        gradients.append(torch.autograd.grad(real, parameters))
    torch.testing.assert_close(got[0][links.real], expected[0][links.real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got[1], expected[1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
