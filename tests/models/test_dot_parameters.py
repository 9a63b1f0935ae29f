"""Tables 6, 7 and 8 of the DoT paper: sizes, and parameters counted as it counts them, beside those that there are."""

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.models.base.sizes import SIZES
from mate_cli.models.dot import Dot
from mate_cli.models.tapas import Tapas

VOCABULARY, LENGTHS = 30522, (256, 512, 1024)
TABLE_6 = {
    "large": (24, 1024, 16, 4096),
    "medium": (8, 512, 8, 2048),
    "small": (4, 512, 8, 2048),
    "mini": (4, 256, 4, 1024),
}
TABLE_8 = {
    "mini": (11.1, 12.0, 13.8),
    "small": (26.4, 28.2, 31.9),
    "medium": (36.3, 39.7, 46.6),
    "large": (253.2, 272.6, 311.4),
}
"""Millions, of TAPAS with 256, 512 and 1,024 tokens."""
TABLE_8_DOT = {"mini": (264.3, 265.3, 267.1), "small": (279.6, 281.5, 285.1), "medium": (289.6, 293.0, 299.8)}
"""Of DoT, by its pruning transformer; the large task transformer reads 256 tokens."""


def printed_count(size: str, tokens: int) -> int:
    """The formula of appendix B.3."""
    shape = SIZES[size]
    width, layers, inner = shape.hidden_size, shape.num_layers, shape.intermediate_size
    embeddings = VOCABULARY * width + tokens
    return (
        embeddings
        + (2 + 3 * layers) * tokens * width
        + (256 * 4 + 17 + 9 * layers) * width
        + (1 + 2 * layers * width) * inner
    )


def network(size: str) -> Tapas:
    with torch.device("meta"):
        return Tapas(size, attention=Sdpa(), vocab_size=VOCABULARY)


def table_7_count(size: str, tokens: int) -> int:
    """Our tensors, each with the shape that table 7 prints for it: projections as long as the input, not as wide."""
    width = SIZES[size].hidden_size
    total = 0
    for name, tensor in network(size).state_dict().items():
        if name.endswith(
            ("query.weight", "key.weight", "value.weight", "pooler.dense.weight", "position_embeddings.weight")
        ):
            total += tokens * width
        elif name == "embeddings.LayerNorm.bias":
            total += tokens
        else:
            total += tensor.numel()
    return total


@pytest.mark.parametrize("size", TABLE_6)
def test_sizes_are_those_of_table_6(size):
    shape = SIZES[size]
    assert (shape.num_layers, shape.hidden_size, shape.num_heads, shape.intermediate_size) == TABLE_6[size]


@pytest.mark.parametrize("size", TABLE_8)
def test_the_formula_gives_the_counts_of_table_8(size):
    counts = [printed_count(size, tokens) for tokens in LENGTHS]
    assert tuple(count // 100_000 / 10 for count in counts) == TABLE_8[size], "the paper cuts after one digit"


@pytest.mark.parametrize("pruner", TABLE_8_DOT)
def test_dot_has_those_of_both_transformers(pruner):
    counts = [printed_count(pruner, tokens) + printed_count("large", 256) for tokens in LENGTHS]
    assert [count / 1e6 for count in counts] == pytest.approx(TABLE_8_DOT[pruner], abs=0.1)


@pytest.mark.parametrize("size", TABLE_8)
@pytest.mark.parametrize("tokens", LENGTHS)
def test_table_7_names_all_of_our_tensors(size, tokens):
    shape = SIZES[size]
    # The formula leaves out what follows the heads, [H, H] in every layer, and has the inner bias of one layer only.
    missing = shape.num_layers * shape.hidden_size**2 + (shape.num_layers - 1) * shape.intermediate_size
    assert table_7_count(size, tokens) == printed_count(size, tokens) + missing


def test_our_counts_are_the_documented_ones():
    text = (Path(__file__).parents[2] / "docs" / "results" / "dot.md").read_text(encoding="utf-8")
    with torch.device("meta"):
        for size in TABLE_8:
            (row,) = re.findall(rf"^\| {size} \| ([\d. |]+) \|$", text, re.MULTILINE)
            counts = [count_of(network(size))]
            if size != "large":
                pruner = partial(Tapas, size)
                counts.append(count_of(Dot("large", attention=Sdpa(), vocab_size=VOCABULARY, pruner=pruner)))
            assert row.strip(" |").split(" | ") == [f"{count / 1e6:.1f}" for count in counts]


def count_of(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
