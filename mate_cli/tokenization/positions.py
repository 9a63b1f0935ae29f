"""Positions that restart in every cell, for tables longer than the position embeddings."""

from __future__ import annotations

import torch


def cell_position_ids(row_ids: torch.Tensor, column_ids: torch.Tensor, max_positions: int) -> torch.Tensor:
    """Count the tokens of each cell from 0; the question, [CLS] and padding are one cell.

    Args:
        row_ids: [B, T].
        column_ids: [B, T].
        max_positions: larger positions become `max_positions - 1`.

    Returns:
        The distance of each token from the first token of its cell, [B, T].

    Source: google-research/tapas, `models/bert/modeling.py` (`reset_position_index_per_cell`).
    """
    cells = row_ids * (column_ids.max() + 1) + column_ids if column_ids.numel() else row_ids
    places = torch.arange(row_ids.shape[1], device=row_ids.device).expand_as(row_ids)
    first = places.new_full((row_ids.shape[0], int(cells.max()) + 1 if cells.numel() else 1), row_ids.shape[1])
    first.scatter_reduce_(1, cells, places, "amin")
    return (places - first.gather(1, cells)).clamp(max=max_positions - 1)
