"""Losses of selecting cells: within one column, or freely.

Source: google-research/tapas, `tapas_classifier_model._single_column_cell_selection_loss` and
`_get_classification_outputs`.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from mate_cli.models.heads.cell_grid import CellGrid

LabelWeighting = Literal["released", "intended"]


def one_column_loss(tokens: Tensor, columns: Tensor, label_ids: Tensor, grid: CellGrid) -> Tensor:
    """Negative log likelihood of the right column, plus the mean of that of each of its cells, the header's among them.

    The right column has most labelled tokens, the first of them on ties; without labels it is column 0, which has no
    cells to get right.

    Args:
        tokens: scores [B, T].
        columns: scores [B, C].
        label_ids: 1 on tokens of the answer [B, T].
        grid: which cell each token is in.

    Returns:
        The loss of each example [B].
    """
    labelled = grid.sums(label_ids.float())
    column = labelled.sum(1).argmax(-1)
    here = grid.in_column(column) & grid.exists
    of_cells = binary_cross_entropy_with_logits(grid.means(tokens), (labelled > 0).float(), reduction="none")
    of_cells = (of_cells * here).sum((1, 2)) / here.sum((1, 2)).clamp(min=1)
    return cross_entropy(columns, column, reduction="none") + of_cells * (column > 0)


def free_selection_loss(
    tokens: Tensor,
    label_ids: Tensor,
    real: Tensor,
    *,
    positive_weight: float = 10.0,
    weighting: LabelWeighting = "released",
) -> Tensor:
    """The mean negative log likelihood of all tokens, those of the question and the header among them.

    Args:
        tokens: scores [B, T].
        label_ids: 1 on tokens of the answer [B, T].
        real: False on padding [B, T].
        positive_weight: of tokens with label 1, others weigh 1.
        weighting: "intended" weighs so; "released" gives every token the weight of label 1, as the released code
            does: its `label_ids == 0` compares a TensorFlow 1 tensor by identity, and is False.

    Returns:
        The loss of each example [B].
    """
    likelihoods = binary_cross_entropy_with_logits(tokens, label_ids.float(), reduction="none")
    positive = torch.ones_like(real) if weighting == "released" else label_ids > 0
    weights = torch.where(positive, positive_weight, 1.0) * real
    return (likelihoods * weights).sum(-1) / real.sum(-1).clamp(min=1)
