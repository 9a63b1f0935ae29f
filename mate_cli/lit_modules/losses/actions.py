"""The loss of derivations: of every action, where columns share some of their probability.

Source: Xu et al. 2021 (DT-Fixup), appendix C.5, and the released code.
"""

from torch import Tensor

from mate_cli.models.heads.sql_head import ScoredSteps


def derivation_loss(scored: ScoredSteps, smoothing: float) -> Tensor:
    """The negative logarithm of the probability of each derivation, [B].

    Args:
        scored: steps with the scores of all actions.
        smoothing: the share of a column's target that all columns of the schema share.
    """
    steps, scores, columns = scored
    rules, chosen = _of(scores.rules, steps.rules), _of(scores.columns, steps.columns)
    count = columns.sum(1, keepdim=True)
    shared = scores.columns.masked_fill(~columns[:, None], 0.0).sum(-1) / count
    smoothed = (1 - smoothing) * chosen + smoothing * shared
    found: Tensor = rules * (steps.rules >= 0) + smoothed * (steps.columns >= 0)
    return -found.sum(1)


def _of(scores: Tensor, actions: Tensor) -> Tensor:
    """The scores [B, A, S] of actions [B, A]; of those that are -1, of any one that is there."""
    return scores.gather(-1, actions.clamp(min=0).unsqueeze(-1)).squeeze(-1)
