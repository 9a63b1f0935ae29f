"""The loss of answering a question by cells and what is done with them.

Source: google-research/tapas, `tapas_classifier_model._get_classification_outputs`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mate_cli.lit_modules.losses.aggregation import aggregation_loss, must_aggregate, weak_aggregation_loss
from mate_cli.lit_modules.losses.scalar_answer import (
    AverageApproximation,
    answer_loss,
    expected_result,
    shared_among_tokens,
)
from mate_cli.lit_modules.losses.selection import LabelWeighting, free_selection_loss, one_column_loss
from mate_cli.models.heads.table_answer import AnswerLogits
from mate_cli.tokenization.layout import TableBatch

Supervision = Literal["none", "supervised", "weak"]


@dataclass(frozen=True)
class TableAnswerLoss:
    """What is learnt from an example, depending on what is known of its answer; the options are those of `TableQA`."""

    aggregation: Supervision = "none"
    cell_selection_preference: float = 0.5
    huber_delta: float = 1.0
    answer_loss_cutoff: float | None = None
    normalise_answer_loss: bool = False
    average_approximation: AverageApproximation = "ratio"
    aggregation_temperature: float = 1.0
    aggregation_importance: float = 1.0
    answer_importance: float = 1.0
    positive_weight: float = 10.0
    label_weighting: LabelWeighting = "released"

    def __call__(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """The loss of each example [B]."""
        selection = self.selection(logits, batch)
        if logits.aggregation is None:
            return selection
        if self.aggregation == "supervised":
            known = aggregation_loss(logits.aggregation, _given(batch.aggregation_ids))
            return selection + self.aggregation_importance * known
        computed = self.computed(logits, batch)
        chosen = self.aggregation_importance * weak_aggregation_loss(logits.aggregation, computed)
        return selection * ~computed + self.within_cutoff(chosen, self.answer(logits, batch, computed))

    def selection(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """The loss of selecting cells, whether or not the answer is selected: [B]."""
        labels = _given(batch.label_ids)
        if logits.columns is not None:
            return one_column_loss(logits.tokens, logits.columns, labels, logits.grid)
        return free_selection_loss(
            logits.tokens,
            labels,
            batch.attention_mask == 1,
            positive_weight=self.positive_weight,
            weighting=self.label_weighting,
        )

    def computed(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """Which examples learn to compute their answer, Bool [B]."""
        has_cells = _given(batch.label_ids).sum(-1) > 0
        answers = _given(batch.answer_numbers)
        return must_aggregate(_given(logits.aggregation), answers, has_cells, self.cell_selection_preference)

    def result(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """The number that is expected of each example [B]."""
        chosen = logits.probabilities() * batch.in_body
        shares = shared_among_tokens(chosen, batch.row_ids, batch.column_ids)
        aggregations = (_given(logits.aggregation)[:, 1:] / self.aggregation_temperature).softmax(-1)
        return expected_result(shares, _given(batch.numeric_values), aggregations, self.average_approximation)

    def answer(self, logits: AnswerLogits, batch: TableBatch, computed: Tensor) -> Tensor:
        """The loss of computed numbers, unweighted: [B]."""
        return answer_loss(
            self.result(logits, batch),
            _given(batch.answer_numbers),
            computed,
            delta=self.huber_delta,
            normalise=self.normalise_answer_loss,
        )

    def within_cutoff(self, chosen: Tensor, answer: Tensor) -> Tensor:
        """The losses of aggregations and of computed numbers together [B]; 0 where the latter exceeds the cutoff."""
        total = chosen + self.answer_importance * answer
        if self.answer_loss_cutoff is None:
            return total
        return torch.where(answer > self.answer_loss_cutoff, 0.0, total)


def _given(values: Tensor | None) -> Tensor:
    """What a batch or a head has where aggregations are learnt."""
    assert values is not None
    return values
