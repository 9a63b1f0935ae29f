"""Accuracy: the share of questions for which the right thing was chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def accuracy(
    name: str, right: Collection[str], questions: Collection[str], groups: Mapping[str, Collection[str]] | None = None
) -> dict[str, float]:
    """The share of questions that are right, of all and of each group.

    Args:
        name: what the metric is called.
        right: ids of the questions for which the choice was right.
        questions: ids of all questions that count.
        groups: question ids by group name; only those among `questions` count, and a group without any has no score.

    Returns:
        <name> and <name>/<group>.
    """
    kept = {"": list(questions)} | {
        f"/{key}": [one for one in ids if one in questions] for key, ids in (groups or {}).items()
    }
    chosen = set(right)
    return {f"{name}{key}": sum(one in chosen for one in ids) / len(ids) for key, ids in kept.items() if ids}
