"""Positions that restart in every cell, for tables longer than the position embeddings."""

from __future__ import annotations

from dataclasses import replace

import torch

from mate_cli.tokenization.layout import TableBatch


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


def renumber_positions(batch: TableBatch, kept: torch.Tensor, max_positions: int) -> TableBatch:
    """Return the batch with some of its tokens, and positions as if the others had never been there.

    They restart at the first kept token of each cell where those of the whole batch restart, and count from 0 else.

    Args:
        batch: of T tokens.
        kept: which are, Int64 [B, K], in ascending order.
        max_positions: larger positions become `max_positions - 1`.
    """
    short = batch.keep(kept)
    whole = torch.arange(batch.input_ids.shape[1], device=kept.device)
    if bool((batch.position_ids == whole).all()):
        places = whole[: kept.shape[1]].expand_as(kept)
    else:
        places = cell_position_ids(short.row_ids, short.column_ids, max_positions)
    return replace(short, position_ids=places)
