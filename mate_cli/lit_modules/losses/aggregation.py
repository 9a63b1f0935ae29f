"""Losses of choosing what is done with the selected cells; aggregation 0 is none.

Source: google-research/tapas, `tapas_classifier_model._calculate_aggregate_mask` and `_calculate_aggregation_loss`.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


@torch.no_grad()
def must_aggregate(logits: Tensor, answers: Tensor, has_cells: Tensor, preference: float) -> Tensor:
    """Which examples learn to compute their answer, Bool [B]; the others learn to select it.

    A number that is in no cell must be computed. One that also is in a cell is computed only where the network itself
    gives more than `preference` to all aggregations together.

    Args:
        logits: scores of aggregations [B, A].
        answers: the answers as numbers [B], NaN where they are none.
        has_cells: whether cells that hold the answer are known [B].
        preference: see above.
    """
    computes = logits.softmax(-1)[:, 1:].sum(-1) > preference
    return ~answers.isnan() & (computes | ~has_cells)


def weak_aggregation_loss(logits: Tensor, computed: Tensor) -> Tensor:
    """Negative log likelihood of any aggregation where the answer is computed, of none where it is selected: [B]."""
    log_probabilities = logits.log_softmax(-1)
    return -torch.where(computed, log_probabilities[:, 1:].logsumexp(-1), log_probabilities[:, 0])


def aggregation_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """Negative log likelihood of the right aggregation, 0 where it is not known (-1): [B]."""
    return cross_entropy(logits, ids, ignore_index=-1, reduction="none")
