"""Transformer-XH: hops reach as far as paths do, along the edges and nowhere else; the released numbers."""

import numpy as np
import pytest
import torch
from golden import others
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.lit_modules.candidate_choice import first_tokens
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.candidates import Candidates
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.layers.encoder import EncoderLayer, record_layers
from mate_cli.papers.transformer_xh.models.transformer_xh import DotHop, GatHop, Nodes, TransformerXh
from mate_cli.papers.transformer_xh.relations import RELATIONS
from mate_cli.papers.transformer_xh.tasks import EvidenceReading
from mate_cli.tokenization.layout import TableEncoding

SIZE = EncoderSize(32, 4, 4, 64)
WORDS = 60
BOTH = pytest.mark.parametrize("hop", ["gat", "dot"])


def graph(relations, name="q", length=4, seed=0):
    """An encoding of random texts that relate so; text k is `length` + k % 3 tokens long."""
    relations = np.array(relations, np.uint8)
    lengths = [length + place % 3 for place in range(len(relations))]
    random = np.random.default_rng(seed)
    tokens = np.zeros((9, sum(lengths)), np.int64)
    tokens[0] = random.integers(5, WORDS, sum(lengths))
    tokens[1] = np.concatenate([np.arange(n) >= n // 2 for n in lengths])
    tokens[2], tokens[3] = 1, np.repeat(np.arange(len(lengths)) + 1, lengths)
    return TableEncoding(*tokens, example_id=name, more={RELATIONS: relations})


def batch_of(*encodings):
    return collate(encodings, reset_positions=True, max_positions=SIZE.max_positions)


def make(hop="gat", seed=0, **options):
    torch.manual_seed(seed)
    return TransformerXh(SIZE, attention=Sdpa(), vocab_size=WORDS, hop=hop, **options).eval()


def plain_like(model):
    """Plain candidates with the same weights."""
    plain = Candidates(SIZE, attention=Sdpa(), vocab_size=WORDS).eval()
    missing, _ = plain.load_state_dict(model.state_dict(), strict=False)
    assert not missing
    return plain


def hubs(output):
    """States of the first tokens [B, K, D] of a batch whose examples have equally many nodes."""
    example, token = first_tokens(output.batch)
    return output.states[example, token].view(len(output.states), -1, output.states.shape[-1])


@st.composite
def graphs(draw, most=6):
    count = draw(st.integers(1, most))
    edges = draw(st.lists(st.booleans(), min_size=count**2, max_size=count**2))
    relations = np.array(edges, np.uint8).reshape(count, count)
    np.fill_diagonal(relations, 0)
    return relations


def test_graph_attention_is_that_of_the_released_code():
    found = np.load(others("xh_graph_attention.npz"))
    golden = {name: torch.tensor(found[name]) for name in found}
    hop = GatHop(EncoderSize(24, 1, 4, 8))
    names = {"projection": "fc.weight", "residual": "res_fc.weight", "source": "attn_l", "destination": "attn_r"}
    hop.load_state_dict({ours: golden[f"w.{theirs}"] for ours, theirs in names.items()})
    combine = nn.Linear(48, 24)
    combine.load_state_dict({name: golden[f"w.combine.{name}"] for name in ("weight", "bias")})
    relations = torch.zeros(1, 5, 5, dtype=torch.long)
    relations[0, golden["edges"][:, 1], golden["edges"][:, 0]] = 1
    assert (relations.sum(-1) == 0).sum() == 2  # a node without incoming edges, and one without any
    alone = torch.eye(5, dtype=torch.bool) & (relations == 0).all(-1, keepdim=True)
    nodes = Nodes(torch.arange(5), torch.arange(5), (relations > 0) | alone)
    with torch.no_grad():
        told = hop(golden["h"], nodes)
        torch.testing.assert_close(told, golden["graph_out"], atol=1e-5, rtol=1e-5)
        mixed = combine(torch.cat([told, golden["h"]], -1))
    torch.testing.assert_close(mixed, golden["hub_new"], atol=1e-5, rtol=1e-5)


def test_dot_products_are_the_attention_of_torch():
    torch.manual_seed(0)
    hop, plain = DotHop(SIZE), nn.MultiheadAttention(32, 4)
    layers = (hop.query, hop.key, hop.value)
    projections = {
        f"in_proj_{name}": torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias")
    }
    plain.load_state_dict({**projections, "out_proj.weight": hop.output.weight, "out_proj.bias": hop.output.bias})
    states, visible = torch.randn(3, 32), torch.tensor([[0, 1, 1], [1, 0, 1], [0, 1, 0]]) > 0
    expected, _ = plain(states, states, states, attn_mask=~visible)
    torch.testing.assert_close(hop(states, Nodes(torch.arange(3), torch.arange(3), visible[None])), expected)


@BOTH
@given(relations=graphs(), layers=st.integers(0, 3))
def test_a_hub_knows_exactly_the_texts_from_which_a_path_leads(hop, relations, layers):
    """Of at most so many steps as layers hop, in the direction of the edges."""
    model, batch = make(hop, hop_layers=layers), batch_of(graph(relations))
    words = model.embeddings.word_embeddings
    embedded = words(batch.input_ids).detach().requires_grad_()
    words.forward = lambda ids: embedded.view(-1, 32)[: ids.shape[0]]
    own = hubs(model(batch))[0]
    reach = np.linalg.matrix_power(np.eye(len(relations), dtype=int) + (relations > 0), layers) > 0
    for node, reached in enumerate(reach.tolist()):
        (gradient,) = torch.autograd.grad(own[node].pow(3).sum(), embedded, retain_graph=True)
        known = gradient[0].any(-1)
        assert [bool(known[batch.row_ids[0] == other + 1].any()) for other in range(len(relations))] == reached


@BOTH
def test_without_hops_it_is_plain_candidates_forward_and_backward(hop):
    batch = batch_of(graph(np.ones((3, 3))), graph(np.ones((2, 2)), "b"))
    for layers in (0, 2):
        model = make(hop, hop_layers=layers)
        for layer in model.hopping_layers:
            layer.combine.weight.data.zero_()
            layer.initialize_hop()
        plain = plain_like(model)
        expected, got = plain(batch), model(batch)
        torch.testing.assert_close(got.states, expected.states)
        for output in (expected, got):
            output.states.pow(3).sum().backward()
        ours = dict(model.named_parameters())
        for name, parameter in plain.named_parameters():
            if parameter.grad is not None:
                torch.testing.assert_close(ours[name].grad, parameter.grad)


@BOTH
def test_other_tokens_learn_of_a_hop_in_the_next_layer_only(hop):
    model, batch = make(hop, hop_layers=1), batch_of(graph(np.ones((4, 4)) - np.eye(4)))
    expected, got = plain_like(model)(batch).states, model(batch).states
    example, token = first_tokens(batch)
    behind = torch.ones(batch.row_ids.shape, dtype=torch.bool)
    behind[example, token] = False
    torch.testing.assert_close(got[behind], expected[behind])
    assert not torch.isclose(got[~behind], expected[~behind]).all(-1).any()
    deeper, above = make(hop, hop_layers=2), plain_like(make(hop, hop_layers=2))
    assert not torch.isclose(deeper(batch).states[behind], above(batch).states[behind]).all(-1).any()


@BOTH
def test_graphs_in_a_batch_are_read_as_each_alone(hop):
    """Also with padding: the graphs have different numbers of nodes and tokens."""
    model = make(hop)
    encodings = [graph([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "a"), graph([[0, 1], [1, 0]], "b", 6), graph([[0]], "c", 9)]
    together = model(batch_of(*encodings)).states
    for row, one in enumerate(encodings):
        torch.testing.assert_close(together[row, : len(one)], model(batch_of(one)).states[0], atol=1e-5, rtol=1e-5)


@BOTH
@given(relations=graphs())
def test_weights_sum_to_one_over_what_a_node_sees(hop, relations):
    model = make(hop, hop_layers=2)
    first, second = model.edge_weights(batch_of(graph(relations)))
    alone = np.eye(len(relations), dtype=bool) & ~relations.any(-1, keepdims=True)
    seen = torch.tensor((relations > 0) | alone)
    for weights in (first, second):
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, len(relations)))
        assert not weights[:, :, ~seen].any()
        assert (weights[:, :, seen] > 0).all()


@BOTH
@pytest.mark.parametrize(("form", "count"), [("parallel", 4), ("after", 3)])
def test_hubs_hop_on_what_a_layer_was_given_or_has_made(hop, form, count):
    model, seen = make(hop, hop_form=form), []
    with record_layers(lambda *call: seen.append(call)), torch.no_grad():
        model(batch_of(graph([[0, 1, 1], [1, 0, 0], [0, 0, 0]])))
    assert len(model.hopping_layers) == count, "all of them, or three as released"
    for layer, before, states, plan, _ in seen[-count:]:
        with torch.no_grad():
            own, nodes = EncoderLayer.forward(layer, before, plan, None), plan.derive("nodes", None)
            found = layer.hop((before if form == "parallel" else own)[nodes.hubs], nodes)
            mixed = torch.cat([found, own[nodes.hubs]], -1) @ layer.combine.weight.T + layer.combine.bias
        torch.testing.assert_close(states[nodes.hubs], mixed)
        others = torch.ones(len(states), dtype=torch.bool).index_fill(0, nodes.hubs, False)
        torch.testing.assert_close(states[others], own[others])


def test_more_hops_than_layers_are_refused():
    assert len(make().hopping_layers) == 3
    with pytest.raises(ConfigError, match="hops after layers 5 do not fit 4 layers"):
        make(hop_layers=5)


def released(model, head, prefix=""):
    """The weights of a network and its head as the authors of Transformer-XH would save them."""
    first = len(model.layers) - len(model.hopping_layers)
    hops = {"projection": "fc.weight", "residual": "res_fc.weight", "source": "attn_l", "destination": "attn_r"}
    saved = {}
    for name, tensor in model.state_dict().items():
        *before, leaf = name.replace("token_type_embeddings_0", "token_type_embeddings").split(".")
        if "hop" in before:
            name = f"encoder.graph_layers.{int(before[2]) - first}.{hops[leaf]}"
        elif "combine" in before:
            name = f"encoder.linear_layer{int(before[2]) - first + 1}.{leaf}"
        else:
            name = ".".join([*before, leaf])
        saved[f"{prefix}node_encoder.{name}"] = tensor
    for ours, theirs in head.transformers_names.items():
        saved[prefix + theirs] = head.state_dict()[ours]
    return {name: tensor.half() for name, tensor in saved.items()}


@pytest.mark.parametrize(("name", "prefix"), [("model_finetuned_epoch_0.pt", ""), ("pytorch_model.bin", "module.")])
@pytest.mark.parametrize("hops", [1, 3])
def test_released_weights_fill_hops_and_heads(tmp_path, name, prefix, hops):
    task = EvidenceReading(TaskContext(make(seed=1, hop_layers=hops)))
    torch.save(released(task.encoder, task.head, prefix), tmp_path / name)
    other = EvidenceReading(TaskContext(make(seed=2, hop_layers=hops)))
    for place in (tmp_path, tmp_path / name):
        report = InitialWeights("path", str(place)).load(other.encoder, other)
        assert not report.unused
        assert set(report.new) <= {f"embeddings.token_type_embeddings_{i}.weight" for i in range(1, 7)}
    for (ours, expected), found in zip(task.state_dict().items(), other.state_dict().values(), strict=True):
        if not ours.startswith(("head.kind", "head.sentence")):
            assert torch.allclose(found, expected, atol=1e-3), ours


def test_an_archive_of_weights_is_to_be_unpacked(tmp_path):
    (tmp_path / "released.zip").write_bytes(b"PK")
    with pytest.raises(CheckpointError, match=r"this is an archive. Unpack it, and name its folder: .*/released\."):
        InitialWeights("bert", str(tmp_path / "released.zip")).load(make())
