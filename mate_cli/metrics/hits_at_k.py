"""Hits at k: how often one of the k best cells is a cell that holds the answer.

Source: Eisenschlos et al. 2021 (MATE), section 7; google-research/tapas counts every question with an answer.
"""

from collections.abc import Collection, Mapping, Sequence

from mate_cli.errors import DataError
from mate_cli.metrics.specs import MetricSpec, MetricTable
from mate_cli.metrics.subsets import average_by_group, group_by_source, group_by_subset
from mate_cli.tables.example import TableExample

KS = (1, 3, 5)
SELECTION = MetricTable("Cell selection", layout="subsets")
HITS = tuple(
    MetricSpec(f"hits@{k}", f"Hits@{k}", 1, order=k, importance=3 if k == 1 else 1, table=SELECTION) for k in KS
)

Coordinates = tuple[int, int]
"""(row, column) of a body cell, both from 0."""


def hits_at_k(
    rankings: Mapping[str, Sequence[Coordinates]],
    candidates: Mapping[str, Collection[Coordinates]],
    groups: Mapping[str, Collection[str]] | None = None,
    *,
    ks: Sequence[int] = KS,
) -> dict[str, float]:
    """Return the fraction of questions with a candidate cell among the k best ranked cells.

    Args:
        rankings: cells by question id, the best one first; may be shorter than k. A question without one is missed.
        candidates: the cells that hold the answer, by question id. These are the questions that count: one
            without any candidate counts as missed, so the figure has the same denominator for every model.
        groups: ids of these questions by group name; a group without questions gets no score.
        ks: how many of the best cells are looked at.

    Returns:
        hits@<k> and hits@<k>/<group>.

    Raises:
        DataError: there are no questions.
    """
    if not candidates:
        raise DataError("no question has an answer to rank cells for", remedy="Choose a split with answers")
    first = {
        key: next((place for place, cell in enumerate(rankings.get(key, ())) if cell in cells), float("inf"))
        for key, cells in candidates.items()
    }
    hits = (average_by_group(f"hits@{k}", {key: at < k for key, at in first.items()}, candidates, groups) for k in ks)
    return {name: value for scores in hits for name, value in scores.items()}


def score_rankings(
    rankings: Mapping[str, Sequence[tuple[int, int]]], examples: Mapping[str, TableExample]
) -> dict[str, float]:
    """Return hits@1, 3 and 5 of all questions with an answer; one without a ranking of ours counts as missed."""
    candidates = {name: example.answer.coordinates for name, example in examples.items() if example.answer}
    groups = group_by_source(examples) | group_by_subset({name: examples[name] for name in candidates})
    return hits_at_k(rankings, candidates, groups)
