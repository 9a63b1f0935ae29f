"""Hits at k: one of the k best cells contains the answer.

Source: Eisenschlos et al. 2021 (MATE), section 7. As in google-research/tapas, every question with an answer is scored.
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
"""Coordinates (row, column) of a body cell, both from 0."""


def hits_at_k(
    rankings: Mapping[str, Sequence[Coordinates]],
    candidates: Mapping[str, Collection[Coordinates]],
    groups: Mapping[str, Collection[str]] | None = None,
    *,
    ks: Sequence[int] = KS,
) -> dict[str, float]:
    """Compute the fraction of questions with a candidate cell among the k best ranked cells.

    Args:
        rankings: cells by question id, best first. A ranking may have fewer than k cells. A missing ranking is a miss.
        candidates: cells that contain the answer, by question id. These questions are scored. A question without
            candidates is a miss, so the denominator is the same for every model.
        groups: question ids by group name. A group without questions has no score.
        ks: values of k.

    Returns:
        hits@<k> and hits@<k>/<group>.

    Raises:
        DataError: `candidates` is empty.
    """
    if not candidates:
        raise DataError("no question has an answer to rank cells for", remedy="Choose a split with answers")
    first_ranks = {
        key: next((rank for rank, cell in enumerate(rankings.get(key, ())) if cell in cells), float("inf"))
        for key, cells in candidates.items()
    }
    scores: dict[str, float] = {}
    for k in ks:
        hits = {key: first_rank < k for key, first_rank in first_ranks.items()}
        scores |= average_by_group(f"hits@{k}", hits, candidates, groups)
    return scores


def score_rankings(
    rankings: Mapping[str, Sequence[tuple[int, int]]], examples: Mapping[str, TableExample]
) -> dict[str, float]:
    """Compute hits@1, hits@3 and hits@5 over all questions with an answer, and over subsets.

    Args:
        rankings: (row, column) of cells by question id, best first. A missing ranking is a miss.
        examples: questions by id.
    """
    candidates = {name: example.answer.coordinates for name, example in examples.items() if example.answer}
    groups = group_by_source(examples) | group_by_subset({name: examples[name] for name in candidates})
    return hits_at_k(rankings, candidates, groups)
