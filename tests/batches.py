"""Random batches of token ids: any table shape, globals anywhere or nowhere, padding anywhere; and all backends."""

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
"""Every backend there is; a new file here is tested by all that follows."""
IDS = (
    "input_ids",
    "segment_ids",
    "column_ids",
    "row_ids",
    "previous_labels",
    "column_ranks",
    "inverse_column_ranks",
    "numeric_relations",
    "attention_mask",
)
"""What of each token a network of TAPAS's kind reads, but for its position."""


def exact_backends(pattern):
    """The backends, by name, that compute this pattern here and do not approximate it."""
    found = {path.stem: hydra.utils.instantiate(OmegaConf.load(path)) for path in BACKENDS}
    return {name: backend for name, backend in found.items() if backend.exact and not refuses(backend, pattern)}


def refuses(backend, pattern, dropout=0.0):
    try:
        backend.supports(pattern, dropout)
    except ConfigError:
        return True
    return False


def batch_from(rows, columns, segments, mask, **more) -> TableBatch:
    """A batch of these [B, T] ids; everything else is zero."""
    given = {"row_ids": rows, "column_ids": columns, "segment_ids": segments, "attention_mask": mask, **more}
    given = {name: torch.as_tensor(np.asarray(value), dtype=torch.int64) for name, value in given.items()}
    zero = torch.zeros_like(given["row_ids"])
    return TableBatch(**dict.fromkeys([*IDS, "position_ids"], zero) | given)


def one_table(random: np.random.Generator, question: int, rows: int, columns: int, cell: int) -> np.ndarray:
    """Int [3, tokens]: segments, rows and columns of a question, a header and cells of 0 to `cell` tokens."""
    tokens = [(0, 0, 0)] * question
    for row in range(rows + 1):
        for column in range(1, columns + 1):
            tokens += [(1, row, column)] * int(random.integers(0, cell + 1))
    return np.array(tokens or [(1, 1, 1)]).T


def pad(tables: list[np.ndarray], extra: int = 0, scatter: np.random.Generator | None = None) -> TableBatch:
    """Pad tables to one length; with `scatter`, real tokens lie anywhere among the padding, in any order."""
    length = max(table.shape[1] for table in tables) + extra
    ids, mask = np.zeros((3, len(tables), length), int), np.zeros((len(tables), length), int)
    for i, table in enumerate(tables):
        where = scatter.permutation(length)[: table.shape[1]] if scatter else np.arange(table.shape[1])
        ids[:, i, where], mask[i, where] = table, 1
    return batch_from(ids[1], ids[2], ids[0], mask)


@st.composite
def batches(draw) -> TableBatch:
    """Batches that mix table shapes: no globals, one row, one column, empty and long cells, shuffled tokens."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = st.tuples(st.integers(0, 9), st.integers(0, 6), st.integers(1, 5), st.sampled_from([1, 2, 4, 30]))
    tables = [one_table(random, *draw(shape)) for _ in range(draw(st.integers(1, 3)))]
    return pad(tables, draw(st.integers(0, 5)), random if draw(st.booleans()) else None)


def projections(batch: TableBatch, heads: int = 4, size: int = 8, dtype=torch.float32, seed: int = 0):
    """Random query, key and value [B, N, T, H] that ask for gradients."""
    generator = torch.Generator().manual_seed(seed)
    count, tokens = batch.input_ids.shape
    shape = (3, count, heads, tokens, size)
    return [x.requires_grad_() for x in torch.randn(shape, generator=generator, dtype=dtype).unbind()]


def attend_padded(backend, inputs, plan, key_bias=None, **options):
    """Outputs [B, N, T, H] of a backend, with zeros at padding, from padded query, key and value; bias [B, T].

    Backends for GPUs compute there, and hand the result back.
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
