"""Metrics of networks that leave out tokens before they answer.

Source: Krichene et al., "DoT: An Efficient Double Transformer for NLP tasks with tables", Findings of ACL 2021, figure
3, for the margin.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from mate_cli.metrics.specs import MetricSpec, MetricTable, Score

PRUNING = MetricTable("Pruning", layout="subsets")
KEPT = MetricSpec("kept", "Answers kept", 1, order=110, table=PRUNING)
"""The share of questions of whose answer some is kept, among those whose answer is in the encoded input."""
KEPT_TOKENS = MetricSpec("kept_tokens", "Tokens read", 0, ".0f", order=111, importance=0, table=PRUNING)
SCORE_MARGIN = MetricSpec("score_margin", "Score margin", 1, ".3f", order=112, importance=0, table=PRUNING)
PRUNING_SCORES = (KEPT.name, KEPT_TOKENS.name, SCORE_MARGIN.name)


@dataclass(frozen=True)
class Pruning:
    """The part of one example's input that is kept.

    Args:
        kept_tokens: how many tokens.
        answer_kept: whether some of the answer's are among them; None where none of them was in the input.
        score_margin: the mean score (log P) of the answer's tokens, those that are gone among them, less that of the
            tokens of the table that are left; None where there are none, or no scores.
    """

    example_id: str
    kept_tokens: int
    answer_kept: bool | None = None
    score_margin: float | None = None


def pruning_scores(prunings: Iterable[Pruning]) -> dict[str, float]:
    """Return the means of kept, kept_tokens and score_margin over examples that have them; nothing without examples."""
    prunings = list(prunings)
    values = {
        KEPT.name: [float(pruning.answer_kept) for pruning in prunings if pruning.answer_kept is not None],
        KEPT_TOKENS.name: [float(pruning.kept_tokens) for pruning in prunings],
        SCORE_MARGIN.name: [pruning.score_margin for pruning in prunings if pruning.score_margin is not None],
    }
    return {name: Score(fmean(known), len(known)) for name, known in values.items() if known}
