"""Scores of tokens, columns and aggregations, from which an answer is put together.

Source: google-research/tapas, `models/tapas_classifier_model_utils.py` and `models/tapas_classifier_model.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.heads.cell_grid import CellGrid
from mate_cli.models.heads.scores import NO_LOGIT, Score


@dataclass(frozen=True)
class HeadOptions:
    """Options of the head of table questions, see `TableQA`; without `aggregations` it is 0."""

    temperature: float
    select_one_column: bool
    allow_empty_column_selection: bool
    average_logits_per_cell: bool
    zero_cell_head: bool
    aggregations: int
    max_rows: int
    max_columns: int


@dataclass(frozen=True)
class AnswerLogits:
    """Scores of a batch.

    Args:
        tokens: [B, T], before one column is chosen.
        grid: which cell each token is in.
        columns: [B, C], column 0 meaning none; None where cells are chosen freely.
        aggregation: [B, A]; None where there is none to choose.
    """

    tokens: Tensor
    grid: CellGrid
    columns: Tensor | None = None
    aggregation: Tensor | None = None

    def final(self) -> Tensor:
        """Return scores of the tokens [B, T]; with columns, those of cells, far below zero outside the best column."""
        if self.columns is None:
            return self.tokens
        best = self.grid.in_column(self.columns.argmax(-1)) & self.grid.exists
        best[..., 0] = False
        return self.grid.spread(self.grid.means(self.tokens) + NO_LOGIT * ~best)

    def null_scores(self) -> Tensor:
        """Return the score of choosing no column less that of the best column [B]."""
        assert self.columns is not None
        return self.columns[:, 0] - self.columns[:, 1:].amax(-1)

    def without_null(self) -> "AnswerLogits":
        """Return the scores if some column must be chosen."""
        if self.columns is None:
            return self
        is_null = torch.arange(self.columns.shape[-1], device=self.columns.device) == 0
        return replace(self, columns=self.columns + NO_LOGIT * is_null)

    def probabilities(self) -> Tensor:
        """Return the probability that each token belongs to the answer, [B, T]; 0 on padding."""
        return self.final().sigmoid() * self.grid.real


def _add_null_threshold(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: object) -> None:
    """Give weights that were released or trained without a fitted threshold that of the TAPAS code, 0."""
    state.setdefault(f"{prefix}null_threshold", torch.zeros(()))


class TableAnswerHead(nn.Module):
    """Scores every token, every column and every aggregation.

    With `allow_empty_column_selection`, nothing answers a question if its null score exceeds `null_threshold`.
    """

    null_threshold: Tensor

    transformers_names: ClassVar[Mapping[str, str]] = {
        "cells.weight": "output_weights",
        "cells.bias": "output_bias",
        "columns.weight": "column_output_weights",
        "columns.bias": "column_output_bias",
        "aggregation.weight": "aggregation_classifier.weight",
        "aggregation.bias": "aggregation_classifier.bias",
    }
    """Our parameters, and what they are called there."""

    choices: ClassVar[Mapping[str, str]] = {"tokens": "cells", "columns": "columns"}
    """Names of its scores of all tokens and columns, by which it could choose among them."""

    def __init__(self, hidden_size: int, options: HeadOptions) -> None:
        super().__init__()
        self.options = options
        self.cells = Score(hidden_size, 1, zero=options.zero_cell_head)
        self.columns = Score(hidden_size, 1, zero=options.zero_cell_head) if options.select_one_column else None
        self.aggregation = Score(hidden_size, options.aggregations) if options.aggregations else None
        if options.select_one_column and options.allow_empty_column_selection:
            self.register_buffer("null_threshold", torch.zeros(()))
            self.register_load_state_dict_pre_hook(_add_null_threshold)  # type: ignore[no-untyped-call]

    def forward(self, output: EncoderOutput) -> AnswerLogits:
        """Return what a network makes of a batch, to scores in 32 bits."""
        options = self.options
        grid = CellGrid.of(output.batch, options.max_rows, options.max_columns)
        tokens = self.cells(output.states).squeeze(-1).float() / options.temperature
        if options.average_logits_per_cell:
            tokens = grid.spread(grid.means(tokens))
        return AnswerLogits(
            tokens,
            grid,
            None if self.columns is None else self._column_logits(self.columns(output.states), grid),
            None if self.aggregation is None else self.aggregation(output.pooled).float(),
        )

    def _column_logits(self, scores: Tensor, grid: CellGrid) -> Tensor:
        """Return the mean over the cells of each column, the header's among them: scores [B, T, 1] to [B, C]."""
        logits = grid.column_means(scores.squeeze(-1).float())
        forbidden = ~grid.exists.any(1)
        forbidden[:, 0] = not self.options.allow_empty_column_selection
        return logits + NO_LOGIT * forbidden
