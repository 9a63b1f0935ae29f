"""From encodings to a padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mate_cli.tokenization.layout import ARRAYS, TableBatch, TableEncoding
from mate_cli.tokenization.serializers.positions import cell_position_ids


def collate(encodings: Sequence[TableEncoding], *, reset_positions: bool, max_positions: int) -> TableBatch:
    """Pad encodings at the end to the longest of them.

    Args:
        encodings: B examples of any length.
        reset_positions: restart positions in every cell, as networks do that read more than 512 tokens.
        max_positions: rows of the position table; reset positions are clipped to it.

    Returns:
        A batch [B, T]; padding is 0 in every field.
    """
    length = max(len(encoding) for encoding in encodings)
    padded = {name: np.zeros((len(encodings), length), np.int64) for name in ARRAYS}
    mask = np.zeros((len(encodings), length), np.int64)
    for row, encoding in enumerate(encodings):
        mask[row, : len(encoding)] = 1
        for name in ARRAYS:
            padded[name][row, : len(encoding)] = getattr(encoding, name)
    fields: dict[str, Any] = {name: torch.from_numpy(values) for name, values in padded.items()}
    if reset_positions:
        positions = cell_position_ids(fields["row_ids"], fields["column_ids"], max_positions)
    else:
        positions = torch.arange(length).expand(len(encodings), length)
    return TableBatch(
        **fields,
        position_ids=positions,
        attention_mask=torch.from_numpy(mask),
        example_ids=tuple(encoding.example_id for encoding in encodings),
        cell_features=_pad(
            [e.cell_features[e.cells] for e in encodings if e.cell_features is not None], length, fill=0.0
        ),
        numeric_values=_pad([e.numeric_values for e in encodings if e.numeric_values is not None], length, fill=np.nan),
        answer_numbers=torch.tensor([encoding.answer_number for encoding in encodings], dtype=torch.float32),
        aggregation_ids=torch.tensor([encoding.aggregation_id for encoding in encodings], dtype=torch.int64),
        class_ids=torch.tensor([encoding.class_id for encoding in encodings], dtype=torch.int64),
        relations=_pad_nodes([e.relations for e in encodings if e.relations is not None], fill=0, square=True),
        node_cells=_pad_nodes([e.node_cells for e in encodings if e.node_cells is not None], fill=-1),
        node_kinds=_pad_nodes([e.node_kinds for e in encodings if e.node_kinds is not None], fill=0),
        node_tables=_pad_nodes([e.node_tables for e in encodings if e.node_tables is not None], fill=-1),
        actions=_pad_actions([e.actions for e in encodings]),
        sentence_ids=_pad([e.sentence_ids for e in encodings if e.sentence_ids is not None], length, fill=0),
    )


def _pad(values: Sequence[np.ndarray], length: int, *, fill: float) -> torch.Tensor | None:
    """What is known of the tokens of all examples [T, ...], or of none, to [B, length, ...] or None."""
    if not values:
        return None
    padded = np.full((len(values), length, *values[0].shape[1:]), fill, np.float32 if isinstance(fill, float) else int)
    for row, own in enumerate(values):
        padded[row, : len(own)] = own
    return torch.from_numpy(padded)


def _pad_nodes(values: Sequence[np.ndarray], *, fill: int, square: bool = False) -> torch.Tensor | None:
    """What is known of the nodes of all examples [K, ...], of pairs of them [K, K], or of none."""
    if not values:
        return None
    most = max(map(len, values))
    padded = np.full((len(values), most, *((most,) if square else values[0].shape[1:])), fill, np.int64)
    for row, own in enumerate(values):
        padded[row][tuple(map(slice, own.shape))] = own
    return torch.from_numpy(padded)


def _pad_actions(values: Sequence[np.ndarray | None]) -> torch.Tensor | None:
    """The actions of all examples [A, 5]; of those without any, none; None where no example has any."""
    some = next((own for own in values if own is not None), None)
    if some is None:
        return None
    return _pad_nodes([some[:0] if own is None else own for own in values], fill=-1)
