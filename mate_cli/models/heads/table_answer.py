"""Head that computes logits of tokens, columns and aggregations.

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
    """Options of the head of table question answering, which `TableQA` documents.

    `aggregations` is the number A of aggregations, 0 if the task has no aggregations.
    """

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
    """Logits of the table QA head for a batch: token, column and aggregation logits.

    Args:
        tokens: logits of tokens before a column is selected, [B, T].
        grid: cell of each token.
        columns: logits of columns, [B, C]. Column 0 stands for no column. None if cells are selected in any column.
        aggregation: logits of aggregations, [B, A]. None if the task has no aggregations.
    """

    tokens: Tensor
    grid: CellGrid
    columns: Tensor | None = None
    aggregation: Tensor | None = None

    def final(self) -> Tensor:
        """Return the logits [B, T] that select cells: token logits, or cell logits of one column.

        If columns are scored, each token has the mean logit of its cell, lowered by 10000 outside the best column.
        """
        if self.columns is None:
            return self.tokens
        is_best_column = self.grid.in_column(self.columns.argmax(-1)) & self.grid.exists
        is_best_column[..., 0] = False
        return self.grid.spread(self.grid.means(self.tokens) + NO_LOGIT * ~is_best_column)

    def null_scores(self) -> Tensor:
        """Return the null score of each example, [B]: logit of no column minus logit of the best column."""
        assert self.columns is not None
        return self.columns[:, 0] - self.columns[:, 1:].amax(-1)

    def without_null(self) -> "AnswerLogits":
        """Return a copy in which "no column" (column 0) cannot be the predicted column."""
        if self.columns is None:
            return self
        is_null = torch.arange(self.columns.shape[-1], device=self.columns.device) == 0
        return replace(self, columns=self.columns + NO_LOGIT * is_null)

    def probabilities(self) -> Tensor:
        """Compute the probability that each token belongs to the answer, [B, T], 0 on padding."""
        return self.final().sigmoid() * self.grid.real


def _add_null_threshold(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: object) -> None:
    """Add a null threshold of 0, as in google-research/tapas, to a state dict that lacks the threshold."""
    state.setdefault(f"{prefix}null_threshold", torch.zeros(()))


class TableAnswerHead(nn.Module):
    """Computes logits of tokens, columns and aggregations for table question answering, as in TAPAS.

    With `allow_empty_column_selection`, a question is unanswerable if its null score exceeds `null_threshold`.
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
    """Names of the parameters in checkpoints of transformers."""

    choices: ClassVar[Mapping[str, str]] = {"tokens": "cells", "columns": "columns"}
    """Layers that score tokens and columns, which may be shared with a selector (`TokenScores.tie_layer`)."""

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
        """Compute logits of tokens, columns and aggregations, in float32, from the output of a network."""
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
        """Average token logits [B, T, 1] over the cells of each column, header included: [B, C]."""
        logits = grid.column_means(scores.squeeze(-1).float())
        forbidden = ~grid.exists.any(1)
        forbidden[:, 0] = not self.options.allow_empty_column_selection
        return logits + NO_LOGIT * forbidden
