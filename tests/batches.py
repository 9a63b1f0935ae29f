"""Random batches of token ids, and all attention backends.

The batches have any table shape, with or without global tokens and with padding at any position.
"""

from pathlib import Path

import hydra
import numpy as np
import torch
from golden import ROOT
from hypothesis import strategies as st
from omegaconf import OmegaConf

from mate_cli.attention.base import AttentionPlan
from mate_cli.errors import ConfigError
from mate_cli.tokenization.layout import TableBatch

BACKENDS = sorted(Path(ROOT, "conf", "attention").glob("*.yaml"))
"""Configuration files of all attention backends. A new file is tested automatically."""
IDS = (
    *("input_ids", "segment_ids", "column_ids", "row_ids", "previous_labels", "column_ranks", "inverse_column_ranks"),
    *("numeric_relations", "attention_mask"),
)
"""Inputs of a TAPAS-like network for each token, except its position."""


def exact_backends(pattern):
    """Return the exact backends that support a pattern on this machine, by name."""
    found = {path.stem: hydra.utils.instantiate(OmegaConf.load(path)) for path in BACKENDS}
    return {name: backend for name, backend in found.items() if backend.exact and not refuses(backend, pattern)}


def refuses(backend, pattern, dropout=0.0):
    try:
        backend.supports(pattern, dropout)
    except ConfigError:
        return True
    return False


def batch_from(rows, columns, segments, mask, **more) -> TableBatch:
    """Build a batch of [B, T] ids. All other fields are zero."""
    given = {"row_ids": rows, "column_ids": columns, "segment_ids": segments, "attention_mask": mask, **more}
    given = {name: torch.as_tensor(np.asarray(value), dtype=torch.int64) for name, value in given.items()}
    zero = torch.zeros_like(given["row_ids"])
    return TableBatch(**dict.fromkeys([*IDS, "position_ids"], zero) | given)


def one_table(random: np.random.Generator, question: int, rows: int, columns: int, cell: int) -> np.ndarray:
    """Sample segment, row and column ids of a question and a table, [3, tokens].

    Args:
        random: random generator.
        question: number of question tokens.
        rows: number of rows below the header.
        columns: number of columns.
        cell: maximum number of tokens per cell. The minimum is 0.
    """
    tokens = [(0, 0, 0)] * question
    for row in range(rows + 1):
        for column in range(1, columns + 1):
            tokens += [(1, row, column)] * int(random.integers(0, cell + 1))
    return np.array(tokens or [(1, 1, 1)]).T


def pad(tables: list[np.ndarray], extra: int = 0, scatter: np.random.Generator | None = None) -> TableBatch:
    """Pad tables to one length.

    Args:
        tables: ids of each table, [3, tokens].
        extra: number of padding tokens of the longest table.
        scatter: generator that permutes real tokens and padding. None: padding at the end.
    """
    length = max(table.shape[1] for table in tables) + extra
    ids, mask = np.zeros((3, len(tables), length), int), np.zeros((len(tables), length), int)
    for i, table in enumerate(tables):
        where = scatter.permutation(length)[: table.shape[1]] if scatter else np.arange(table.shape[1])
        ids[:, i, where], mask[i, where] = table, 1
    return batch_from(ids[1], ids[2], ids[0], mask)


@st.composite
def batches(draw) -> TableBatch:
    """Sample batches of different table shapes.

    They include tables without global tokens, with one row or column, with empty and long cells, and shuffled tokens.
    """
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = st.tuples(st.integers(0, 9), st.integers(0, 6), st.integers(1, 5), st.sampled_from([1, 2, 4, 30]))
    tables = [one_table(random, *draw(shape)) for _ in range(draw(st.integers(1, 3)))]
    return pad(tables, draw(st.integers(0, 5)), random if draw(st.booleans()) else None)


def projections(batch: TableBatch, heads: int = 4, size: int = 8, dtype=torch.float32, seed: int = 0):
    """Sample query, key and value [B, N, T, H] that require gradients."""
    generator = torch.Generator().manual_seed(seed)
    count, tokens = batch.input_ids.shape
    shape = (3, count, heads, tokens, size)
    return [x.requires_grad_() for x in torch.randn(shape, generator=generator, dtype=dtype).unbind()]


def attend_padded(backend, inputs, plan, key_bias=None, **options):
    """Return the outputs [B, N, T, H] of a backend for padded inputs, with zeros at padding.

    The Triton backend runs on the GPU if there is one. The outputs are on the device of the inputs.

    Args:
        backend: attention backend.
        inputs: query, key and value, [B, N, T, H] each.
        plan: attention plan of the batch.
        key_bias: bias of the keys, [B, T], or None.
        **options: further arguments of the backend.
    """
    home = inputs[0].device
    if type(backend).__name__ == "Triton" and torch.cuda.is_available():
        plan = AttentionPlan(plan.pattern, plan.batch.to("cuda"))
        inputs = [x.to("cuda") for x in inputs]
        key_bias = None if key_bias is None else key_bias.to("cuda")
    qkv = plan.packing.pack(torch.stack(list(inputs)).permute(1, 3, 0, 2, 4))
    bias = None if key_bias is None else plan.packing.pack(key_bias)
    output = plan.packing.unpack(backend.forward(qkv, plan, bias, **options)).transpose(1, 2)
    return output.to(home)
