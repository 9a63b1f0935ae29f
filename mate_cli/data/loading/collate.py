"""Collates encodings into a padded batch with its packing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mate_cli.tokenization.layout import SHARED_ARRAYS, Array, TableBatch, TableEncoding, make_position_ids
from mate_cli.tokenization.packing import BatchPlan, find_packing


def collate(encodings: Sequence[TableEncoding], *, reset_positions: bool, max_positions: int) -> TableBatch:
    """Stack encodings into a batch, padded at the end to the longest encoding.

    Args:
        encodings: B encodings of any length.
        reset_positions: whether positions restart in every cell, as for networks that read more than 512 tokens.
        max_positions: number of position embeddings. Positions that restart are clipped to it.

    Returns:
        A batch [B, T]. Padding has the value `Array.fill`.
    """
    lengths = np.array([len(encoding.input_ids) for encoding in encodings])
    length = int(lengths.max())
    fields: dict[str, Any] = {
        name: _padded(array, [getattr(encoding, name) for encoding in encodings], encodings, length)
        for name, array in SHARED_ARRAYS.items()
    }
    more = {
        array: _padded(array, [encoding.more.get(array) for encoding in encodings], encodings, length)
        for array in dict.fromkeys(array for encoding in encodings for array in encoding.more)
    }
    positions = make_position_ids(fields["row_ids"], fields["column_ids"], max_positions, restart=reset_positions)
    mask = torch.from_numpy((np.arange(length) < lengths[:, None]).astype(np.int64))
    return TableBatch(
        **fields,
        position_ids=positions,
        attention_mask=mask,
        example_ids=tuple(encoding.example_id for encoding in encodings),
        more={array: values for array, values in more.items() if values is not None},
        plan=BatchPlan(find_packing(mask), {}),
    )


def _padded(array: Array, rows: Sequence[Any], encodings: Sequence[TableEncoding], length: int) -> torch.Tensor | None:
    """Stack an array of all encodings in a batch, padded to a common size.

    An encoding without the array gets `array.fill`. If all encodings lack it, the result is None, except for scalars.
    """
    dtype = np.float32 if array.is_float else np.int64
    if not array.axes:
        return torch.from_numpy(np.array([array.fill if value is None else value for value in rows], dtype))
    if rows[0] is None and all(values is None for values in rows):
        return None
    # Copy the features of each cell to its tokens.
    if array.axes[0] == "S":
        pairs = zip(rows, encodings, strict=True)
        rows = [values if values is None else values[encoding.cells] for values, encoding in pairs]
    if array.axes == ("T",):
        size = [length]
    else:
        size = [*map(max, zip(*(values.shape for values in rows if values is not None), strict=True))]
    padded = np.full((len(rows), *size), array.fill, dtype) if array.fill else np.zeros((len(rows), *size), dtype)
    for row, values in zip(padded, rows, strict=True):
        if values is not None:
            row[tuple(map(slice, values.shape))] = values
    return torch.from_numpy(padded)
