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


def network(size: str) -> Tapas:
    with torch.device("meta"):
        return Tapas(size, attention=Sdpa(), vocab_size=VOCABULARY)


@pytest.mark.parametrize("size", TABLE_6)
def test_sizes_are_those_of_table_6(size):
    shape = SIZES[size]
    assert (shape.num_layers, shape.hidden_size, shape.num_heads, shape.intermediate_size) == TABLE_6[size]


def test_our_counts_are_the_documented_ones():
    text = (Path(__file__).parents[2] / "docs" / "results" / "dot.md").read_text(encoding="utf-8")
    with torch.device("meta"):
        for size in TABLE_6:
            (row,) = re.findall(rf"^\| {size} \| ([\d. |]+) \|$", text, re.MULTILINE)
            counts = [count_of(network(size))]
            if size != "large":
                pruner = partial(Tapas, size)
                counts.append(count_of(Dot("large", attention=Sdpa(), vocab_size=VOCABULARY, pruner=pruner)))
            assert row.strip(" |").split(" | ") == [f"{count / 1e6:.1f}" for count in counts]


def count_of(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
