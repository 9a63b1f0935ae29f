"""Where sparse networks are the dense one, what the order of rows means to them, and how many parameters they have."""

import numpy as np
import pytest
import torch
from batches import batch_from
from largest_tensor import LargestTensor

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.linformer import Linformer
from mate_cli.models.mate import MateEncoder
from mate_cli.models.sat import Sat
from mate_cli.models.table_etc import TableEtc
from mate_cli.models.tapas import Tapas
from mate_cli.tokenization.layout import SUMMARY_ROW

SIZE = EncoderSize(16, 4, 4, 32, 40)
SPARSE = {
    "mate": (MateEncoder, {}),
    "only rows": (MateEncoder, {"row_head_ratio": 1.0}),
    "only columns": (MateEncoder, {"row_head_ratio": 0.0}),
    "sat": (Sat, {}),
    "original sat": (Sat, {"variant": "original"}),
}


def make(network, seed=0, **options):
    torch.manual_seed(seed)
    return network(SIZE, attention=Sdpa(), vocab_size=99, **options).eval()


def table(rows, columns, question=3, tokens=2, padding=0):
    """A question and lines of cells, the header being the first, with random words and positions within cells."""
    cells = [(0, 0, 0, place) for place in range(question)]
    lines = [(1, row, column) for row in range(rows) for column in range(1, columns + 1)]
    cells += [(*cell, place) for cell in lines for place in range(tokens)] + [(0, 0, 0, 0)] * padding
    segments, row_ids, column_ids, places = (np.array([[cell[i] for cell in cells]]) for i in range(4))
    words = np.random.default_rng(0).integers(1, 99, segments.shape)
    mask = np.arange(len(cells))[None] < len(cells) - padding
    return batch_from(row_ids, column_ids, segments, mask, input_ids=words, position_ids=places)


def dense(model):
    """The dense network of the same weights; what the sparse one does not embed is zero."""
    network = make(Tapas, seed=1)
    for i in range(7):
        network.embeddings.get_submodule(f"token_type_embeddings_{i}").weight.data.zero_()
    assert not network.load_state_dict(model.state_dict(), strict=False).unexpected_keys
    return network


def same_as_dense(name, batch):
    network, options = SPARSE[name]
    model = make(network, **options)
    return torch.allclose(model(batch).states, dense(model)(batch).states, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", SPARSE)
def test_a_question_alone_and_a_single_cell_are_seen_whole(name):
    assert same_as_dense(name, table(0, 0, question=5, padding=2))
    assert same_as_dense(name, table(1, 1, padding=2))
    assert not same_as_dense(name, table(3, 3))


@torch.no_grad()
@pytest.mark.parametrize("name", ["only rows", "sat", "original sat"])
def test_a_single_line_is_seen_whole_by_row(name):
    assert same_as_dense(name, table(1, 4, padding=2))
    assert not same_as_dense("only columns", table(1, 4))


@torch.no_grad()
@pytest.mark.parametrize("name", ["only columns", "sat"])
def test_a_single_column_is_seen_whole_by_column(name):
    assert same_as_dense(name, table(4, 1, padding=2))
    assert not same_as_dense("only rows", table(4, 1))


@torch.no_grad()
@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("lines", [4, SUMMARY_ROW + 1])
def test_to_the_text_alone_the_order_of_rows_and_columns_means_nothing(axis, lines):
    """Positions restart in every cell, so the words move and nothing else: states move with them."""
    model, batch = make(Sat, variant="original"), table(4, 3)
    batch.row_ids[batch.row_ids == 3] = lines - 1
    ids, keep = (batch.row_ids, batch.column_ids)[axis == "columns"], batch.segment_ids[0] == 1
    keep &= ids[0] > (axis == "rows")  # the header row stays where it is
    first, last = ids[0][keep].min(), ids[0][keep].max()
    order = torch.arange(len(keep))
    order[ids[0] == first], order[ids[0] == last] = order[ids[0] == last].clone(), order[ids[0] == first].clone()
    moved = batch_from(
        *(batch.row_ids, batch.column_ids, batch.segment_ids, batch.attention_mask),
        input_ids=batch.input_ids[:, order],
        position_ids=batch.position_ids,
    )
    assert not torch.equal(moved.input_ids, batch.input_ids)
    torch.testing.assert_close(model(moved).states, model(batch).states[:, order], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(make(Sat)(moved).states, make(Sat)(batch).states[:, order], atol=1e-3)


def largest(network, rows, backend, **options):
    torch.manual_seed(0)
    model = network(EncoderSize(16, 1, 4, 32, 40), attention=backend, vocab_size=99, **options)
    batch = table(rows, 2, tokens=4)
    with LargestTensor() as mode:
        model(model.planner(batch)).states.square().mean().backward()
    return mode.numel


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_row_heads_need_memory_for_the_number_of_rows_and_not_for_its_square(dropout):
    """512, 1024 and 2048 tokens in rows of eight."""
    rows = (64, 128, 256)
    options = {"row_head_ratio": 1.0, "attention_dropout": dropout}
    peaks = [largest(MateEncoder, count, Segments(), **options) for count in rows]
    dense = [largest(Tapas, count, Eager(), attention_dropout=dropout) for count in rows[:2]]
    assert peaks[1] <= 2.1 * peaks[0]
    assert peaks[2] <= 2.1 * peaks[1]
    assert dense[1] > 3.9 * dense[0]


BERT = {"base": 109_482_240, "large": 335_141_888}
"""Of bert-base-uncased and bert-large-uncased, with pooler."""


def count(network, size, **options):
    with torch.device("meta"):
        model = network(size, attention=Sdpa(), **options)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("size", "width", "layers"), [("base", 768, 12), ("large", 1024, 24)])
def test_the_number_of_parameters_at_full_size(size, width, layers):
    """BERT's, and what each network says that it adds; every other pattern adds none."""
    tapas = BERT[size] + (3 + 4 * 256 + 2 + 10 - 2) * width
    assert count(Tapas, size) == count(MateEncoder, size) == count(Sat, size) == tapas
    assert count(Sat, size, variant="original") == BERT[size] + width  # a third segment
    mixers = {"headwise": 2 * layers, "key_value": layers, "layerwise": 1}
    for sharing, matrices in mixers.items():
        assert count(Linformer, size, length=2048, sharing=sharing) == tapas + matrices * 256 * 2048
    relations = (2 * 12 + 1) + 2  # distances to either side and none, not linked, linked
    heads = width // 64
    of_layer = 2 * relations * (width + heads) + (width * width + width) + 2 * width
    assert count(TableEtc, size) == tapas + layers * of_layer + 2 * width + 2 * width
