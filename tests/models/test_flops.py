"""Counted pairs are those of the definition."""

from functools import partial

import numpy as np
import pytest
import torch
from batches import batches, one_table, pad
from hypothesis import given

from mate_cli.attention.backends.auto import Auto
from mate_cli.attention.backends.bucketed import Bucketed
from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full, RowColumnHeads, SameRowOrColumn, SatLayer, all_pairs, needed_pairs
from mate_cli.attention.segment_tasks import segment_tasks
from mate_cli.benchmark.cases import draw_table, together
from mate_cli.models.base.costs import attention_flops, dense_flops, encoder_flops, work_flops
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.dot import Dot
from mate_cli.models.layers.global_local import find_links
from mate_cli.models.linformer import MixedAttention, Mixer
from mate_cli.models.mate import MateEncoder
from mate_cli.models.sat import Sat
from mate_cli.models.table_etc import TableEtc
from mate_cli.models.tapas import Tapas

PATTERNS = [RowColumnHeads(4), RowColumnHeads(3), RowColumnHeads(4, 1.0), Full(4), SameRowOrColumn(4)]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: f"{type(pattern).__name__}{pattern.head_groups}")
@given(batch=batches())
def test_needed_pairs_are_the_true_entries_of_real_queries(pattern, batch):
    real = (batch.attention_mask == 1)[:, None, :, None]
    expected = (pattern.mask(batch).expand(-1, pattern.num_heads, -1, -1) & real).sum()
    assert needed_pairs(pattern, batch) == expected


@given(batch=batches())
def test_the_tasks_of_segments_hold_the_needed_pairs(batch):
    pattern = RowColumnHeads(4)
    assert segment_tasks(AttentionPlan(pattern, batch)).pairs == needed_pairs(pattern, batch)


def computed_pairs(backend, pattern, batch):
    return backend.count_operations(AttentionPlan(pattern, batch)).pairs


def test_pairs_that_backends_compute():
    pattern, batch = RowColumnHeads(12), together([draw_table("square", 242, 0)] * 2)
    assert computed_pairs(Eager(), pattern, batch) == computed_pairs(Sdpa(), pattern, batch) == 12 * 2 * 242**2
    assert computed_pairs(Segments(), pattern, batch) == needed_pairs(pattern, batch) < all_pairs(pattern, batch)
    first = 116 * 242  # 242 tokens are the first section and three buckets: nothing is padded
    assert computed_pairs(Bucketed(116, 42), pattern, batch) == 12 * 2 * (first + 126 * (116 + 3 * 42))
    assert computed_pairs(MixedAttention(Mixer(500, 8, shared=True)), Full(12), batch) == 12 * 2 * 242 * 8


def test_operations_follow_the_convention():
    assert attention_flops(10, 64, backward=False) == 4 * 64 * 10
    assert attention_flops(10, 64, backward=True) == 14 * 64 * 10
    size = EncoderSize(hidden_size=8, num_layers=3, num_heads=2, intermediate_size=32)
    weights = 4 * 8 * 8 + 2 * 8 * 32
    assert dense_flops(size, 5, backward=False) == 2 * 5 * 3 * weights
    assert dense_flops(size, 5, backward=True) == 3 * dense_flops(size, 5, backward=False)


def test_mixing_counts_for_linformer():
    batch = pad([one_table(np.random.default_rng(0), 3, 2, 2, 3)])
    mixed, tokens = MixedAttention(Mixer(64, 8, shared=True)), batch.input_ids.numel()
    pair, work = 4 * 16, mixed.count_operations(AttentionPlan(Full(2), batch))
    assert work_flops(work, 16, backward=False) == 2 * tokens * 8 * 2 * pair
    assert work_flops(work, 16, backward=True) == 2 * tokens * 8 * (3.5 + 3) * pair


SIZE = EncoderSize(32, 2, 4, 64)


def flops_of(model, batch):
    torch.manual_seed(0)
    return encoder_flops(model, batch, backward=False)


def test_a_network_costs_its_dense_layers_and_the_attention_of_every_layer():
    batch = pad([one_table(np.random.default_rng(0), 4, 3, 3, 2)], 2)
    tokens = int(batch.attention_mask.sum())
    dense = dense_flops(SIZE, tokens, backward=False)
    own = MateEncoder(SIZE, attention=Segments())
    assert flops_of(own, batch) == dense + 2 * attention_flops(
        needed_pairs(own.specs[0].pattern, batch), 8, backward=False
    )
    every = attention_flops(4 * tokens**2, 8, backward=False)
    assert flops_of(Tapas(SIZE, attention=Auto()), batch) == dense + 2 * every
    long = pad([one_table(np.random.default_rng(0), 4, 40, 8, 2)])
    assert flops_of(MateEncoder(SIZE, attention=Auto()), long) < flops_of(Tapas(SIZE, attention=Auto()), long)


def test_a_network_with_two_patterns_counts_each():
    batch = pad([one_table(np.random.default_rng(0), 4, 3, 3, 2)])
    patterns = (SatLayer(4, columns=False), SatLayer(4, columns=True))
    seen = sum(attention_flops(all_pairs(pattern, batch), 8, backward=False) for pattern in patterns)
    dense = dense_flops(SIZE, batch.input_ids.numel(), backward=False)
    assert flops_of(Sat(SIZE, variant="original", attention=Sdpa()), batch) == dense + seen


def test_two_encoders_count_what_each_of_them_reads():
    batch = pad([one_table(np.random.default_rng(0), 4, 40, 8, 2), one_table(np.random.default_rng(0), 4, 2, 2, 2)])
    small = EncoderSize(16, 1, 2, 32)
    model = Dot(SIZE, attention=Sdpa(), pruner=partial(Tapas, small), keep=30)
    short = batch.keep(torch.arange(30).expand(2, -1))
    alone = flops_of(Tapas(SIZE, attention=Sdpa()), short)
    assert int(short.attention_mask.sum()) < 60
    assert flops_of(model, batch) == flops_of(Tapas(small, attention=Sdpa()), batch) + alone
    first = Dot(SIZE, attention=Sdpa(), pruner=partial(Tapas, small), keep=30, first=True)
    assert flops_of(first, batch) == alone


def test_slots_of_a_memory_are_counted_as_tokens():
    batch = pad([one_table(np.random.default_rng(0), 4, 3, 3, 2)])
    model = TableEtc(SIZE, radius=2)
    slots = len(find_links(AttentionPlan(model.window, batch)).slots)
    tokens = int(batch.attention_mask.sum())
    pairs = needed_pairs(model.window, batch) + 4 * slots * (2 * tokens + slots)
    dense = dense_flops(SIZE, tokens + slots, backward=False)
    assert slots > 0
    assert flops_of(model, batch) == dense + 2 * attention_flops(pairs, 8, backward=False)
