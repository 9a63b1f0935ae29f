"""The loss of a number that is computed from cells, through the expected result of all aggregations.

Source: google-research/tapas, `tapas_classifier_model._calculate_expected_result` and `_calculate_regression_loss`;
TAPAS paper, section 4 and appendix D.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

AverageApproximation = Literal["ratio", "first_order", "second_order"]

SMALL = 1e-10
"""Added to what is divided by."""


def expected_result(
    probabilities: Tensor, values: Tensor, aggregations: Tensor, approximation: AverageApproximation = "ratio"
) -> Tensor:
    """The sum, average and count of cells that are selected by chance, weighed by what is done with them.

    Args:
        probabilities: that each token's cell is selected, shared among the cell's tokens; 0 outside the body [B, T].
        values: the number of each token's cell [B, T]; anything that is not finite counts as 0.
        aggregations: probabilities of sum, average and count [B, 3].
        approximation: of the expected average: the ratio of expectations, or a Taylor series about the expected count.

    Returns:
        One number per example [B].
    """
    values = torch.where(values.isfinite(), values, 0.0)
    count, total = probabilities.sum(-1), (probabilities * values).sum(-1)
    if approximation == "ratio":
        average = total / (count + SMALL)
    else:
        average = (values * probabilities * _inverse_count(probabilities, approximation)).sum(-1)
    return (torch.stack([total, average, count], dim=-1) * aggregations).sum(-1)


def _inverse_count(probabilities: Tensor, approximation: AverageApproximation) -> Tensor:
    """The expected inverse of how many are selected, given that this one is: [B, T]."""
    others = probabilities.sum(-1, keepdim=True) - probabilities + 1
    if approximation == "first_order":
        return 1 / others
    variances = probabilities * (1 - probabilities)
    variance = variances.sum(-1, keepdim=True) - variances
    return (variance / others.square() + 1) / others


def answer_loss(
    expected: Tensor, answers: Tensor, computed: Tensor, *, delta: float = 1.0, normalise: bool = False
) -> Tensor:
    """Huber's loss of the expected result.

    Args:
        expected: results [B].
        answers: right results [B]; NaN where there is none.
        computed: Bool [B]; the loss is 0 where it is False.
        delta: errors beyond it count linearly.
        normalise: divide both by the larger of them first.

    Returns:
        The loss of each example [B].
    """
    answers = torch.where(answers.isnan(), 0.0, answers)
    if normalise:
        scale = torch.maximum(expected.abs(), answers.abs()).detach() + SMALL
        expected, answers = expected / scale, answers / scale
    return huber_loss(expected * computed, answers * computed, delta=delta, reduction="none")


def shared_among_tokens(probabilities: Tensor, row_ids: Tensor, column_ids: Tensor) -> Tensor:
    """Divide what each token of a cell has by their number, all [B, T]; the tokens of a cell follow each other."""
    begins = torch.ones_like(row_ids)
    begins[:, 1:] = (row_ids[:, 1:] != row_ids[:, :-1]) | (column_ids[:, 1:] != column_ids[:, :-1])
    cells = begins.cumsum(1) - 1
    sizes = torch.zeros_like(cells).scatter_add(1, cells, torch.ones_like(cells))
    return probabilities / sizes.gather(1, cells)
