"""The patterns of the baselines: against the reference systems' masks, and against what they are said to be."""

import numpy as np
import pytest
import torch
from batches import batch_from, batches, one_table, pad
from golden import others, tapas
from hypothesis import given

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.patterns import (
    AttentionPattern,
    CandidateBlocks,
    Full,
    PreviousSegment,
    RowColumnHeads,
    SameRowOrColumn,
    SatLayer,
    Window,
)
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import LayerSpec

MASKS = np.load(tapas("g1_masks.npz"))
LOWER, UPPER = SatLayer(4, columns=False), SatLayer(4, columns=True)
BASELINES = pytest.mark.parametrize("pattern", [SameRowOrColumn(4), LOWER, UPPER], ids=["same", "lower", "upper"])
ALL = pytest.mark.parametrize(
    "pattern", [SameRowOrColumn(4), LOWER, UPPER, Window(4, 2), CandidateBlocks(4), PreviousSegment(4)], ids=str
)


def golden_batch(name):
    return batch_from(*(MASKS[f"{name}/{key}"] for key in ("row_ids", "column_ids", "segment_ids", "input_mask")))


@pytest.mark.parametrize("name", "ABC")
def test_same_row_or_column_is_the_reference_mode(name):
    mask = SameRowOrColumn(4).mask(golden_batch(name))
    assert mask.shape[1] == 1
    assert np.array_equal(mask[:, 0], MASKS[f"{name}/same_colum_or_row"] == 1)


@given(batch=batches())
def test_same_row_or_column_is_either_kind_of_head(batch):
    heads = RowColumnHeads(2).mask(batch)
    assert torch.equal(SameRowOrColumn(2).mask(batch), heads.any(1, keepdim=True))


@pytest.fixture
def sat_case():
    """The original code's masks with its ids as ours: -1 is the statement, -2 padding, row 0 the header."""
    arrays = np.load(others("sat_masks.npz"))
    rows, columns = arrays["row_ids"][None], arrays["col_ids"][None]
    real, in_table = rows > -2, rows >= 0
    return batch_from(rows * in_table, (columns + 1) * in_table, in_table, real), arrays, real


@pytest.mark.parametrize(("pattern", "name"), [(LOWER, "low"), (UPPER, "upper")])
def test_sat_is_the_original_but_for_padding(sat_case, pattern, name):
    """The original's statement sees padding, which its encoder then hides; ours never does."""
    batch, arrays, real = sat_case
    assert np.array_equal(pattern.mask(batch)[0, 0], (arrays[name] == 1) & real)


@ALL
@given(batch=batches())
def test_padding_is_never_seen_and_every_token_sees_itself(pattern, batch):
    mask, real = pattern.mask(batch)[:, 0], batch.attention_mask == 1
    assert not (mask & ~real[:, None, :]).any()
    assert mask.diagonal(dim1=1, dim2=2)[real].all()
    assert isinstance(pattern, Window) or mask.any(-1)[real.any(1)].all(), "also padding sees something"


@BASELINES
def test_a_table_of_one_row_is_seen_whole(pattern):
    batch = pad([one_table(np.random.default_rng(0), 3, 0, 4, 3), one_table(np.random.default_rng(1), 2, 0, 2, 3)], 2)
    assert torch.equal(pattern.mask(batch).expand(-1, 4, -1, -1), Full(4).mask(batch).expand(-1, 4, -1, -1))


def test_who_sees_which_header():
    """Question, two headers, and the two cells of row 1."""
    batch = batch_from([[0, 0, 0, 1, 1]], [[0, 1, 2, 1, 2]], [[0, 1, 1, 1, 1]], [[1] * 5])

    def seen(pattern):
        return [mask.nonzero().flatten().tolist() for mask in pattern.mask(batch)[0, 0]]

    assert seen(SameRowOrColumn(2)) == [[0, 1, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 3, 4], [0, 2, 3, 4]]
    assert seen(LOWER) == [[0, 1, 2, 3, 4], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert seen(UPPER) == [[0, 1, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]


def test_a_window_reaches_as_far_as_its_radius():
    batch = batch_from(*[[[0] * 5]] * 3, [[1, 1, 1, 1, 0]])
    seen = [mask.nonzero().flatten().tolist() for mask in Window(2, 1).mask(batch)[0, 0]]
    assert seen == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3], [3]]
    assert torch.equal(Window(2, 4).mask(batch), Full(2).mask(batch))
    assert Window(2, 4) != Window(2, 3)


class Thirds(AttentionPattern):
    """Three masks; the heads of each as they are given."""

    def group_masks(self, batch):
        return Full(1).group_masks(batch).expand(-1, 3, -1, -1)


@pytest.mark.parametrize("heads", [(1, 1, 0), (2, -1, 1), ()])
def test_a_group_without_heads_is_refused_by_name(heads):
    with pytest.raises(ConfigError, match=r"Thirds has a group without heads: .*\. Leave the group out"):
        Thirds(*heads)


@pytest.mark.parametrize("backend", [Eager(), Sdpa()])
def test_masks_that_are_not_as_many_as_groups_are_refused(backend):
    batch = batch_from(*[[[0] * 5]] * 3, [[1] * 5])
    network = TableEncoder(EncoderSize(16, 1, 2, 32, 40), [LayerSpec(Thirds(1, 1), backend)], vocab_size=9)
    with pytest.raises(ConfigError, match="Thirds has 2 groups of heads and 3 masks"):
        network(batch)
