"""The flex backend without a GPU: its tiles against the definition, and all around the kernel forward and backward."""

import numpy as np
import pytest
import torch
from batches import attend_padded, batches, one_table, pad, projections
from hypothesis import given
from torch.nn.attention.flex_attention import flex_attention

from mate_cli.attention.backends import flex
from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.flex import Flex
from mate_cli.attention.base import AttentionPlan, Planner
from mate_cli.attention.patterns import Full, RowColumnHeads, SameRowOrColumn
from mate_cli.errors import ConfigError

PATTERNS = [RowColumnHeads(4), RowColumnHeads(3, 0.34), RowColumnHeads(2, 0.0), Full(2)]


@pytest.fixture(scope="module", autouse=True)
def small_tiles():
    """Tiles of four, so that small tables have many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flex, "TILE", 4)
        yield


def tile_kinds(mask):
    """Which tiles need the mask and which do not: two Bool [V, 1, tiles, tiles] of the lists in the block mask."""
    found = []
    pairs = ((mask.kv_num_blocks, mask.kv_indices), (mask.full_kv_num_blocks, mask.full_kv_indices))
    for count, indices in pairs:
        listed = torch.arange(indices.shape[-1], device=indices.device) < count[..., None]
        found.append(torch.zeros_like(listed).scatter(-1, indices.long(), listed))
    return found


def definition(mask, views, length):
    """The mask function on every pair, Bool [V, 1, L, L]."""
    place = torch.arange(max(views, length), device=mask.kv_indices.device)
    view, query, key = place[:views, None, None], place[:length, None], place[:length]
    return mask.mask_mod(view, 0, query, key)[:, None]


def attend_by_tiles(query, key, value, score_mod, block_mask):
    """What the compiled kernel does: skip tiles that are not listed, mask those that are partial."""
    views, length = query.shape[0], query.shape[2]
    partial, full = (kind.repeat_interleave(4, -1).repeat_interleave(4, -2) for kind in tile_kinds(block_mask))
    assert not (partial & full).any()
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if score_mod is not None:
        place = torch.arange(max(views, length), device=scores.device)
        at = place[:views, None, None, None], 0, place[:length, None], place[:length]
        scores = score_mod(scores, *at)
    seen = full | (partial & definition(block_mask, views, length))
    return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value


def gradients(backend, pattern, batch, inputs, bias):
    output = attend_padded(backend, inputs, AttentionPlan(pattern, batch), bias)
    probe = torch.linspace(-1, 1, output.numel()).view(output.shape)
    return [output, *torch.autograd.grad((output * probe).sum(), [*inputs, bias])]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{type(p).__name__}{p.head_groups}")
@given(batch=batches())
def test_equals_the_definition(pattern, batch):
    inputs = projections(batch, pattern.num_heads)
    bias = torch.linspace(-2, 0, batch.input_ids.numel()).view(batch.input_ids.shape).requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flex, "compiled_flex_attention", lambda: attend_by_tiles)
        got = gradients(Flex(), pattern, batch, inputs, bias)
    for a, b in zip(got, gradients(Eager(), pattern, batch, inputs, bias), strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{type(p).__name__}{p.head_groups}")
@given(batch=batches())
def test_no_tile_is_read_or_masked_for_nothing(pattern, batch):
    plan = AttentionPlan(pattern, batch)
    views = flex._views(plan).segment
    if not views.numel():
        return
    mask = flex._block_mask(plan)
    partial, full = tile_kinds(mask)
    blocks = definition(mask, *views.shape).unflatten(-1, (-1, 4)).unflatten(-3, (-1, 4))
    assert torch.equal(full, blocks.all(-1).all(-2))
    assert torch.equal(partial, blocks.any(-1).any(-2) & ~full)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_the_real_kernel_takes_it(monkeypatch):
    monkeypatch.setattr(flex, "TILE", 128)
    monkeypatch.setattr(flex, "compiled_flex_attention", lambda: flex_attention)
    random = np.random.default_rng(0)
    batch = pad([one_table(random, 5, 4, 3, 30), one_table(random, 0, 2, 2, 4)], 3, random)
    inputs = [x.detach() for x in projections(batch, 4, 16)]
    plan = AttentionPlan(RowColumnHeads(4, 0.25), Planner(((RowColumnHeads(4, 0.25), Flex()),))(batch))
    bias = torch.linspace(-2, 0, batch.input_ids.numel()).view(batch.input_ids.shape)
    for given_bias in (None, bias):
        got = attend_padded(Flex(), inputs, plan, given_bias)
        torch.testing.assert_close(got, attend_padded(Eager(), inputs, plan, given_bias), atol=1e-5, rtol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert attend_padded(Flex(), inputs, plan).dtype == torch.bfloat16


def test_a_batch_of_padding_alone():
    batch = pad([one_table(np.random.default_rng(0), 2, 1, 1, 1)])
    empty = batch.__class__(**{**batch.tensors(), "attention_mask": torch.zeros_like(batch.attention_mask)})
    assert not attend_padded(Flex(), projections(empty, 2), AttentionPlan(RowColumnHeads(2), empty)).any()


def test_refusals_name_the_remedy(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="attention=segments"):
        Flex().supports(Full(2))
    with pytest.raises(ConfigError, match="attention_dropout=0"):
        Flex().supports(Full(2), dropout=0.1)
    with pytest.raises(ConfigError, match="attention=sdpa"):
        Flex().supports(SameRowOrColumn(2))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    Flex().supports(RowColumnHeads(2))
