"""The patterns and backends against the numbers of google-research/tapas."""

import json

import numpy as np
import pytest
import torch
from batches import attend_padded, batch_from, exact_backends
from golden import tapas

from mate_cli.attention.backends.bucketed import Bucketed
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.errors import ConfigError

MASKS = np.load(tapas("g1_masks.npz"))
LAYER = np.load(tapas("g2_bucketed_attention.npz"))
EXACT = exact_backends(RowColumnHeads(2))
CASES = json.loads(tapas("g2_settings.json").read_text())["cases"]


def golden_batch(arrays, name):
    return batch_from(*(arrays[f"{name}/{key}"] for key in ("row_ids", "column_ids", "segment_ids", "input_mask")))


@pytest.mark.parametrize("name", "ABC")
def test_full(name):
    assert np.array_equal(Full(1).mask(golden_batch(MASKS, name))[:, 0], MASKS[f"{name}/full"] == 1)


@pytest.mark.parametrize("name", "ABC")
def test_row_and_column_heads(name):
    batch = golden_batch(MASKS, name)
    assert np.array_equal(RowColumnHeads(2).mask(batch), MASKS[f"{name}/headwise_b0_hNone"] == 1)
    five = RowColumnHeads(5, 0.6).mask(batch)
    assert np.array_equal(five, MASKS[f"{name}/headwise_r3_c2_b0"] == 1)


def test_the_number_of_row_heads_is_rounded_down():
    assert RowColumnHeads(5, 0.5).head_groups == (2, 3)
    assert RowColumnHeads(12, 0.0).head_groups == (12,)
    with pytest.raises(ConfigError, match="group without heads"):
        RowColumnHeads(4, 1.5)


def layer(case):
    """Pattern, plan and projections [B, N, T, H] of a case."""
    settings = CASES[case]
    rows, columns = settings["num_row_heads"], settings["num_column_heads"]
    name = f"in{settings['input']}"
    plan = AttentionPlan(RowColumnHeads(rows + columns, rows / (rows + columns)), golden_batch(LAYER, name))
    inputs = []
    for kind in ("query", "key", "value"):
        flat = LAYER[f"{name}/x"] @ LAYER[f"w_{kind}"] + LAYER[f"b_{kind}"]
        heads = torch.from_numpy(flat).unflatten(-1, (rows + columns, settings["size_per_head"]))
        inputs.append(heads.transpose(1, 2))
    return plan, inputs


def difference(output, expected, plan):
    real = (plan.batch.attention_mask == 1).numpy()
    return np.abs(output.transpose(1, 2).numpy() - expected)[real].max()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_backends_equal_the_reference_with_masks(name, case):
    (plan, inputs), backend = layer(case), EXACT[name]
    output = attend_padded(backend, inputs, plan)
    assert difference(output, LAYER[f"{case}/context_mask_unbucketed"], plan) < 2e-5


def paper_backend(case, **options):
    settings = CASES[case]
    bucket = settings["bucket_size"]
    first = bucket if settings["header_size"] is None else settings["header_size"]
    return Bucketed(first, bucket, **options)


@pytest.mark.parametrize("case", CASES)
def test_bucketed_equals_the_reference_with_its_edges(case):
    plan, inputs = layer(case)
    output = attend_padded(paper_backend(case, pad=False), inputs, plan)
    assert difference(output, LAYER[f"{case}/context_sap1"], plan) < 2e-5


@pytest.mark.parametrize("case", ["case02", "case03", "case06", "case23"])
def test_padding_to_three_buckets_removes_the_duplicates(case):
    plan, inputs = layer(case)
    output = attend_padded(paper_backend(case), inputs, plan)
    assert difference(output, LAYER[f"{case}/context_sap1"], plan) > 1e-2


@pytest.mark.parametrize("case", ["case04", "case10", "case14", "case18"])
def test_bucketed_is_an_approximation(case):
    plan, inputs = layer(case)
    output = attend_padded(paper_backend(case), inputs, plan)
    assert difference(output, LAYER[f"{case}/context_mask_unbucketed"], plan) > 1


def test_lengths_that_do_not_fit():
    with pytest.raises(ConfigError, match="Use 494 or 536 tokens"):
        Bucketed(pad=False).padding(512)
    assert Bucketed(pad=False).padding(2048) == 0
    assert Bucketed().padding(512) == 24
    assert Bucketed().padding(60) == 116 + 3 * 42 - 60


def test_bucketed_refuses_the_full_pattern():
    with pytest.raises(ConfigError, match="attention=sdpa"):
        Bucketed().supports(Full(4))
