"""Stage 1 of PointR: select the cell that answers the question, or that links to the passage that does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from mate_cli.data.baselines import tfidf_cell_ranking
from mate_cli.lit_modules.base import (
    Selection,
    TableAnswerSpec,
    TableTask,
    TaskSpec,
    Training,
    with_probabilities,
)
from mate_cli.lit_modules.losses import binary, hard_em, marginal_likelihood
from mate_cli.metrics.hits_at_k import score_rankings
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.models.heads.scores import NO_LOGIT, CellLogits, CellSelectionHead, chosen_above_zero
from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.models.layers.encoder import Dropout
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch

LOSSES = {"marginal_likelihood": marginal_likelihood, "hard_em": hard_em, "binary": binary}


@dataclass(frozen=True)
class CellRanking:
    """The best cells of one example, best first.

    Args:
        cells: (row, column) of body cells, both from 0.
        probabilities: the softmax over all cells of the table, in the same order.
    """

    example_id: str
    cells: tuple[tuple[int, int], ...]
    probabilities: tuple[float, ...]


class CellSelection(TableTask[TableExample, CellRanking]):
    """Mean token logit per cell, softmax over the table, marginal likelihood over the candidate cells.

    Args:
        loss: `marginal_likelihood` (soft labels without gradient), `hard_em`, or `binary`, of each cell by itself.
        drop_ambiguous: learn only from examples with exactly one candidate cell.
        dropout: on the states before the head.
        keep: cells kept of each ranking.

    Source: MATE paper, section 4.1.
    """

    spec = TaskSpec(
        "dev/hits@1",
        label="cells",
        encoding="table",
        table_answers=TableAnswerSpec(),
        auto_class="TableQuestionAnswering",
    )
    right_name = "right cell"  # the answer may be in a passage behind it

    def __init__(
        self,
        context: TaskContext,
        loss: Literal["marginal_likelihood", "hard_em", "binary"] = "marginal_likelihood",
        drop_ambiguous: bool = False,
        dropout: Dropout = 0.1,
        keep: Annotated[int, Field(ge=5)] = 10,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, metrics=metrics)
        self.dropout = FastDropout(dropout)
        self.add_heads(self.build_head)
        self.criterion, self.drop_ambiguous, self.keep = LOSSES[loss], drop_ambiguous, keep

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the examples with a candidate cell, or with exactly one when ambiguous ones are dropped."""
        known = super().training_examples(examples)
        if not self.drop_ambiguous:
            return known
        return [example for example in known if example.answer and len(example.answer.coordinates) == 1]

    def build_head(self, encoder: TableEncoder) -> torch.nn.Module:
        """Return what scores the cells of an encoder's output."""
        return CellSelectionHead(encoder.size.hidden_size)

    def cell_logits(self, output: EncoderOutput, head: torch.nn.Module, encoder: TableEncoder) -> CellLogits:
        """Return the scores of cells, with dropout in training."""
        cells: CellLogits = head(output.with_states(self.dropout(output.states)))
        return cells

    def output_loss(self, output: EncoderOutput, head: torch.nn.Module, encoder: TableEncoder) -> torch.Tensor:
        """Average the losses of all examples, a scalar."""
        cells = self.cell_logits(output, head, encoder)
        losses = self.criterion(cells.logits.float(), cells.mask, cells.candidates)
        return self.average_terms(losses.sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[CellRanking]:
        """Rank the cells of each example."""
        cells = self.cell_logits(output, self.head, self.encoder)
        probabilities = cells.logits.float().masked_fill(~cells.mask, -torch.inf).softmax(-1)
        values, order = probabilities.sort(dim=-1, descending=True, stable=True)
        rows, columns = cells.rows.gather(1, order), cells.columns.gather(1, order)
        rankings = []
        for index, name in enumerate(output.batch.example_ids):
            count = int(cells.mask[index].sum())
            ranked = zip(*(part[index, :count].tolist() for part in (rows, columns, values)), strict=True)
            best: dict[tuple[int, int], float] = {}  # of a cell that is read in segments the best one
            for row, column, share in ranked:
                best.setdefault((row - 1, column - 1), share)
            rankings.append(CellRanking(name, tuple(best)[: self.keep], tuple(best.values())[: self.keep]))
        return rankings

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, torch.Tensor]:
        """Score the tokens of each cell [B, length], so shifted that those of the best cell alone are above zero.

        A softmax over cells is not changed by that.
        """
        logits = chosen_above_zero(self.cell_logits(output, self.head, self.encoder), output.batch)
        return {"logits": output.spread_out(logits, length, NO_LOGIT)}

    @property
    def auto_config(self) -> dict[str, Any]:
        """The statement that there are no aggregations."""
        return {"aggregation_labels": None}

    def score(self, predictions: Sequence[CellRanking], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return hits@1, 3 and 5: of all questions with an answer, and of those in the table and in a passage."""
        return score_rankings({ranking.example_id: ranking.cells for ranking in predictions}, examples)

    def answers(self, predictions: Sequence[CellRanking], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the text of each best cell, by example."""
        best = {ranking.example_id: ranking.cells[0] for ranking in predictions if ranking.cells}
        return {name: examples[name].table.rows[row][column].text for name, (row, column) in best.items()}

    def is_correct(self, prediction: CellRanking, example: TableExample) -> bool:
        """Tell whether the best cell is a candidate."""
        return bool(example.answer and prediction.cells and prediction.cells[0] in example.answer.coordinates)

    def details(self, prediction: CellRanking) -> dict[str, Any]:
        """Return all cells of the ranking."""
        return {"cells": with_probabilities(prediction.cells, prediction.probabilities)}

    def selection(self, prediction: CellRanking) -> Selection | None:
        """Return the best cell."""
        if not prediction.cells:
            return None
        return Selection(prediction.cells[:1], prediction.probabilities[:1], prediction.probabilities[0])

    def baselines(self, examples: Mapping[str, TableExample], training: Training[TableExample]) -> dict[str, float]:
        """Return hits of ranking the cells by TF-IDF, nothing learned."""
        rankings = {name: tfidf_cell_ranking(example.table, example.question) for name, example in examples.items()}
        return {f"tfidf/{name}": value for name, value in score_rankings(rankings, examples).items()}
