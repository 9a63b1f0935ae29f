"""Stage 1 of PointR: select the cell that contains or links to the answer."""

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
from mate_cli.lit_modules.losses import binary_cross_entropy, hard_em, marginal_likelihood
from mate_cli.metrics.hits_at_k import score_rankings
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.models.heads.scores import NO_LOGIT, CellLogits, CellSelectionHead, chosen_above_zero
from mate_cli.models.layers.encoder import Dropout, FastDropout
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch

LOSSES = {"marginal_likelihood": marginal_likelihood, "hard_em": hard_em, "binary": binary_cross_entropy}


@dataclass(frozen=True)
class CellRanking:
    """The most probable cells of one example, in descending order.

    Args:
        example_id: id of the example.
        cells: (row, column) of body cells, both from 0.
        probabilities: probabilities of these cells, from the softmax over all cells of the table.
    """

    example_id: str
    cells: tuple[tuple[int, int], ...]
    probabilities: tuple[float, ...]


class CellSelection(TableTask[TableExample, CellRanking]):
    """Cell selection: mean token logit per cell, softmax over the cells of the table.

    The default loss is the marginal likelihood of the candidate cells.

    Args:
        loss: `marginal_likelihood` (soft labels without gradient), `hard_em`, or `binary` (a separate loss per cell).
        drop_ambiguous: train only on examples with exactly one candidate cell.
        dropout: dropout probability of the hidden states before the head.
        keep: number of top-ranked cells that a prediction contains.

    Source: MATE paper, section 4.1.
    """

    spec = TaskSpec(
        "dev/hits@1",
        label="cells",
        encoding="table",
        table_answers=TableAnswerSpec(),
        auto_class="TableQuestionAnswering",
    )
    # The answer may be in a passage that the cell links to.
    correct_title = "right cell"

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
        """Return the examples with a candidate cell, or exactly one candidate if `drop_ambiguous` is set."""
        usable = super().training_examples(examples)
        if not self.drop_ambiguous:
            return usable
        return [example for example in usable if example.answer and len(example.answer.coordinates) == 1]

    def build_head(self, encoder: TableEncoder) -> torch.nn.Module:
        """Build the head that computes the logits of cells from the hidden states of an encoder."""
        return CellSelectionHead(encoder.size.hidden_size)

    def cell_logits(self, output: EncoderOutput, head: torch.nn.Module, encoder: TableEncoder) -> CellLogits:
        """Compute the logits of all body cells from an encoder output, with dropout in training.

        Args:
            output: output of the encoder.
            head: head of the task, or the second head for the auxiliary encoder of the network.
            encoder: encoder that computed `output`.
        """
        cells: CellLogits = head(output.with_states(self.dropout(output.states)))
        return cells

    def output_loss(self, output: EncoderOutput, head: torch.nn.Module, encoder: TableEncoder) -> torch.Tensor:
        """Compute the cell selection loss, averaged over examples, a scalar.

        Args:
            output: output of the encoder.
            head: head of the task, or the second head for the auxiliary encoder of the network.
            encoder: encoder that computed `output`.
        """
        cells = self.cell_logits(output, head, encoder)
        losses = self.criterion(cells.logits.float(), cells.mask, cells.candidates)
        return self.average_terms(losses.sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[CellRanking]:
        """Return the `keep` most probable cells of each example, in descending order."""
        cells = self.cell_logits(output, self.head, self.encoder)
        probabilities = cells.logits.float().masked_fill(~cells.mask, -torch.inf).softmax(-1)
        values, order = probabilities.sort(dim=-1, descending=True, stable=True)
        rows, columns = cells.rows.gather(1, order), cells.columns.gather(1, order)
        rankings = []
        for index, name in enumerate(output.batch.example_ids):
            count = int(cells.mask[index].sum())
            ranked_cells = zip(*(part[index, :count].tolist() for part in (rows, columns, values)), strict=True)
            # A cell that is split into segments has the probability of its best segment.
            best_shares: dict[tuple[int, int], float] = {}
            for row, column, share in ranked_cells:
                best_shares.setdefault((row - 1, column - 1), share)
            best_cells, shares = tuple(best_shares)[: self.keep], tuple(best_shares.values())[: self.keep]
            rankings.append(CellRanking(name, best_cells, shares))
        return rankings

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, torch.Tensor]:
        """Compute token logits [B, length] that are above zero only in the best cell.

        The logits are shifted by a constant, which does not change a softmax over cells.
        """
        logits = chosen_above_zero(self.cell_logits(output, self.head, self.encoder), output.batch)
        return {"logits": output.spread_out(logits, length, NO_LOGIT)}

    @property
    def auto_config(self) -> dict[str, Any]:
        """Options for config.json, which state that this task has no aggregations."""
        return {"aggregation_labels": None}

    def score(self, predictions: Sequence[CellRanking], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute hits@1, 3 and 5, also for answers in the table and answers in passages separately.

        Questions without an answer are ignored.
        """
        return score_rankings({ranking.example_id: ranking.cells for ranking in predictions}, examples)

    def answers(self, predictions: Sequence[CellRanking], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the text of the most probable cell of each example, by example id."""
        best_cells = {ranking.example_id: ranking.cells[0] for ranking in predictions if ranking.cells}
        return {name: examples[name].table.rows[row][column].text for name, (row, column) in best_cells.items()}

    def is_correct(self, prediction: CellRanking, example: TableExample) -> bool:
        """Return whether the most probable cell is one of the cells that contain the answer."""
        return bool(example.answer and prediction.cells and prediction.cells[0] in example.answer.coordinates)

    def details(self, prediction: CellRanking) -> dict[str, Any]:
        """Return the ranked cells with probabilities, as fields for prediction files."""
        return {"cells": with_probabilities(prediction.cells, prediction.probabilities)}

    def selection(self, prediction: CellRanking) -> Selection | None:
        """Return the most probable cell, or None if the table has no cells."""
        if not prediction.cells:
            return None
        return Selection(prediction.cells[:1], prediction.probabilities[:1], prediction.probabilities[0])

    def baselines(self, examples: Mapping[str, TableExample], training: Training[TableExample]) -> dict[str, float]:
        """Compute hits@k of a baseline that ranks cells by TF-IDF similarity to the question."""
        rankings = {name: tfidf_cell_ranking(example.table, example.question) for name, example in examples.items()}
        return {f"tfidf/{name}": value for name, value in score_rankings(rankings, examples).items()}
