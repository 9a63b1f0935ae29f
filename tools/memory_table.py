"""Makes the table of micro-batches in docs/memory_and_time.md, by count: python tools/memory_table.py."""

from __future__ import annotations

import torch

from mate_cli.attention.backends.auto import Auto
from mate_cli.models.base.costs import TrainingMemory
from mate_cli.models.base.sizes import encoder_size
from mate_cli.models.mate import MateEncoder

SIZES, LENGTHS, CARDS = ("minilm", "base", "large"), (512, 2048, 4096), (16, 24, 40, 80)
GIGABYTE, MOST = 10**9, 64


def memory_of(size: str, tokens: int) -> TrainingMemory:
    """Return the memory of training MATE of a size in 16 bits, with `triton`."""
    with torch.device("meta"):
        network = MateEncoder(size, attention=Auto())
    parameters = sum(parameter.numel() for parameter in network.parameters())
    shape = encoder_size(size)
    return TrainingMemory((shape,) * shape.num_layers, parameters, tokens)


def table() -> list[str]:
    """Return the rows, as Markdown."""
    heads = [f"{card} GB" for card in CARDS]
    rows = [["size", "tokens", "16 examples need", *heads], ["---"] * (3 + len(CARDS))]
    for size in SIZES:
        for tokens in LENGTHS:
            memory = memory_of(size, tokens)
            fits = [_fitting(memory, card * GIGABYTE) for card in CARDS]
            rows.append([f"`{size}`", f"{tokens:,}", f"{memory.total(16) / GIGABYTE:.1f} GB", *fits])
    return [f"| {' | '.join(row)} |" for row in rows]


def _fitting(memory: TrainingMemory, card: int) -> str:
    """Return the largest power of two that fits, without checkpointing / with it."""
    pair = (one.most_examples(card) for one in (memory, memory.with_checkpointing()))
    return " / ".join(str(min(MOST, 1 << count.bit_length() - 1)) if count else "-" for count in pair)


if __name__ == "__main__":
    print("\n".join(table()))
