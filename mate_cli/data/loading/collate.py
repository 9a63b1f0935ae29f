"""From encodings to a padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mate_cli.tokenization.layout import SHARED_ARRAYS, Array, TableBatch, TableEncoding, cell_position_ids


def collate(encodings: Sequence[TableEncoding], *, reset_positions: bool, max_positions: int) -> TableBatch:
    """Pad encodings at the end to the longest of them.

    Args:
        encodings: B examples of any length.
        reset_positions: restart positions in every cell, as networks do that read more than 512 tokens.
        max_positions: rows of the position table; reset positions are clipped to it.

    Returns:
        A batch [B, T]; padding is what each array declares.
    """
    length = max(len(encoding) for encoding in encodings)
    fields: dict[str, Any] = {
        name: _padded(one, [getattr(encoding, name) for encoding in encodings], encodings, length)
        for name, one in SHARED_ARRAYS.items()
    }
    own = dict.fromkeys(one for encoding in encodings for one in encoding.more)
    more = {one: _padded(one, [encoding.more.get(one) for encoding in encodings], encodings, length) for one in own}
    mask = np.zeros((len(encodings), length), np.int64)
    for row, encoding in enumerate(encodings):
        mask[row, : len(encoding)] = 1
    if reset_positions:
        positions = cell_position_ids(fields["row_ids"], fields["column_ids"], max_positions)
    else:
        positions = torch.arange(length).expand(len(encodings), length)
    return TableBatch(
        **fields,
        position_ids=positions,
        attention_mask=torch.from_numpy(mask),
        example_ids=tuple(encoding.example_id for encoding in encodings),
        more={one: values for one, values in more.items() if values is not None},
    )


def _padded(one: Array, found: Sequence[Any], encodings: Sequence[TableEncoding], length: int) -> torch.Tensor | None:
    """Return an array of all examples, with `fill` where one lacks it; None where all do, but for numbers."""
    dtype = np.float32 if one.is_float else np.int64
    if not one.axes:
        return torch.from_numpy(np.array([one.fill if value is None else value for value in found], dtype))
    if found[0] is None and all(own is None for own in found):
        return None
    if one.axes[0] == "S":  # what is known of cells is handed to their tokens
        found = [own if own is None else own[encoding.cells] for own, encoding in zip(found, encodings, strict=True)]
    flat = one.axes == ("T",)
    size = [length] if flat else [*map(max, zip(*(own.shape for own in found if own is not None), strict=True))]
    padded = np.full((len(found), *size), one.fill, dtype) if one.fill else np.zeros((len(found), *size), dtype)
    for row, own in enumerate(found):
        if flat and own is not None:
            padded[row, : len(own)] = own
        elif own is not None:
            padded[row][tuple(map(slice, own.shape))] = own
    return torch.from_numpy(padded)
