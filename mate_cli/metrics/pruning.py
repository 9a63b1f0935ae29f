"""Metrics of networks that remove tokens before they predict an answer.

Source: Krichene et al., "DoT: An Efficient Double Transformer for NLP tasks with tables", Findings of ACL 2021, figure
3, for the margin.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from mate_cli.metrics.specs import MetricSpec, MetricTable, Score

PRUNING = MetricTable("Pruning", layout="subsets")
ANSWERS_KEPT = MetricSpec("kept", "Answers kept", 1, order=110, table=PRUNING)
"""Fraction of questions that keep at least one answer token, among questions whose input has answer tokens."""
KEPT_TOKENS = MetricSpec("kept_tokens", "Tokens read", 0, ".0f", order=111, importance=0, table=PRUNING)
SCORE_MARGIN = MetricSpec("score_margin", "Score margin", 1, ".3f", order=112, importance=0, table=PRUNING)
PRUNING_SCORES = (ANSWERS_KEPT.name, KEPT_TOKENS.name, SCORE_MARGIN.name)


@dataclass(frozen=True)
class Pruning:
    """Effect of token pruning on one example, such as the number of remaining tokens.

    Args:
        example_id: id of the example.
        kept_tokens: number of tokens that remain.
        answer_kept: whether at least one answer token remains. None if the input has no answer tokens.
        score_margin: mean score (log probability) of all answer tokens, minus that of the remaining table tokens. None
            if there are no such tokens or no scores.
    """

    example_id: str
    kept_tokens: int
    answer_kept: bool | None = None
    score_margin: float | None = None


def pruning_scores(prunings: Iterable[Pruning]) -> dict[str, float]:
    """Average the pruning statistics of examples to metrics, such as `kept_tokens`.

    Metrics are `answer_kept`, `kept_tokens` and `score_margin`. Examples without a value are skipped.

    Metrics without values are omitted.
    """
    prunings = list(prunings)
    values = {
        ANSWERS_KEPT.name: [float(pruning.answer_kept) for pruning in prunings if pruning.answer_kept is not None],
        KEPT_TOKENS.name: [float(pruning.kept_tokens) for pruning in prunings],
        SCORE_MARGIN.name: [pruning.score_margin for pruning in prunings if pruning.score_margin is not None],
    }
    return {name: Score(fmean(present), len(present)) for name, present in values.items() if present}
