"""Segments in a line: what each one reads, and the memory against two plain passes."""

import numpy as np
import pytest
import torch
from batches import batch_from

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.patterns import PreviousSegment
from mate_cli.data.loading.collate import collate
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.papers.transformer_xh.models.transformer_xl import TransformerXl
from mate_cli.tokenization.layout import TableEncoding

SIZE = EncoderSize(32, 3, 4, 64)
LENGTHS = (4, 3, 5, 2)
BOTH = pytest.mark.parametrize("memory", [True, False])


def make(memory, seed=0):
    torch.manual_seed(seed)
    return TransformerXl(SIZE, attention=Sdpa(), vocab_size=60, memory=memory).eval()


def line(lengths=LENGTHS):
    tokens = np.zeros((9, sum(lengths)), np.int64)
    tokens[0] = np.random.default_rng(0).integers(5, 60, sum(lengths))
    tokens[2], tokens[3] = 1, np.repeat(np.arange(len(lengths)) + 1, lengths)
    return TableEncoding(*tokens, example_id="q")


def batch_of(*encodings):
    return collate(encodings, reset_positions=True, max_positions=64)


def test_who_sees_whom():
    batch = batch_from([[1, 1, 2, 3, 0]], np.ones((1, 5)), np.ones((1, 5)), [[1, 1, 1, 1, 0]])
    assert PreviousSegment(4).mask(batch)[0, 0].int().tolist() == [
        [1, 1, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [1, 1, 1, 1, 0],
    ]


@BOTH
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_each_layer_reaches_one_segment_further_back(memory, layers):
    torch.manual_seed(0)
    size = EncoderSize(32, layers, 4, 64)
    model, batch = TransformerXl(size, attention=Sdpa(), vocab_size=60, memory=memory).eval(), batch_of(line())
    own = batch.row_ids == 4
    for segment in range(1, 5):
        words = torch.where(batch.row_ids == segment, 59 - batch.input_ids + 5, batch.input_ids)
        changed = model(batch.__class__(**{**batch.tensors(), "input_ids": words}))
        moved = not torch.equal(changed.states[own], model(batch).states[own])
        assert moved == (4 - segment <= layers)


def test_no_gradient_flows_into_the_memory():
    for memory in (True, False):
        model, batch = make(memory), batch_of(line())
        words = model.embeddings.word_embeddings
        embedded = words(batch.input_ids).detach().requires_grad_()
        words.forward = lambda ids, embedded=embedded: embedded[0]
        model(batch).states[batch.row_ids == 4].pow(3).sum().backward()
        known = embedded.grad[0].any(-1)
        segments = {int(row) for row in batch.row_ids[0][known]}
        assert segments == ({4} if memory else {1, 2, 3, 4})


def two_passes(model, batch):
    """States of each segment, read one after the other: keys and values are of the kept states and the own ones."""
    embedded = model.embeddings(batch)
    rows, kept, found = batch.row_ids[0], [None] * SIZE.num_layers, []
    for segment in range(1, int(rows.max()) + 1):
        states = embedded[rows == segment]
        for place, layer in enumerate(model.encoder.layer):
            before = [] if kept[place] is None else [kept[place]]
            kept[place] = states.detach()
            attention = layer.attention["self"]
            projections = (attention.query, attention.key, attention.value)
            read = torch.cat([*before, states])
            query, key, value = (
                project(x).view(len(x), 4, 8).transpose(0, 1)
                for x, project in zip((states, read, read), projections, strict=True)
            )
            context = torch.nn.functional.scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1)
            states = layer.attention["output"](context, states)
            states = layer.output(layer.activation(layer.intermediate["dense"](states)), states)
        found.append(states)
    return torch.cat(found)


def test_the_memory_is_that_of_two_plain_passes_forward_and_backward():
    model, batch = make(True), batch_of(line())
    gradients = []
    for states in (model(batch).states[0], two_passes(model, batch)):
        model.zero_grad()
        states.pow(3).sum().backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    torch.testing.assert_close(model(batch).states[0], two_passes(model, batch), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-4, rtol=1e-4)
