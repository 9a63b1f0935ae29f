"""Accuracy in conversations: of whole ones, and by the place of a question in its own.

Source: Herzig et al. 2020 (TAPAS), table 5, prints them for SQA as SEQ and Q1 to Q3, beside ALL, which is the
accuracy of all questions.
"""

from collections import defaultdict
from collections.abc import Mapping

from mate_cli.metrics.accuracy import ACCURACIES, accuracy
from mate_cli.metrics.specs import MetricSpec, SubsetSpec
from mate_cli.tables.example import TableExample

PLACES = 3
"""So many places are scored by themselves; later questions count in the other scores."""
SEQUENCE_ACCURACY = MetricSpec("sequence_accuracy", "SEQ", 1, order=70, table=ACCURACIES)
BY_PLACE = tuple(
    SubsetSpec(f"q{place}", f"Q{place}", "by place in the conversation", 20 + place) for place in range(1, PLACES + 1)
)
GOLD_PREVIOUS = SubsetSpec("gold_previous", "Right answers before", "with right answers before", order=30, many=False)
"""All questions once more, each with the true answers to those before it."""


def sequence_accuracy(right: Mapping[str, bool], examples: Mapping[str, TableExample]) -> dict[str, float]:
    """Return the share of conversations in which every question is right; one that `right` lacks is wrong.

    A conversation without its first questions is left out. Single questions are no conversations: where no
    conversation has a second question, there is no score.
    """
    conversations: dict[str, dict[int, str]] = defaultdict(dict)
    for name, example in examples.items():
        if example.conversation:
            conversations[example.conversation][len(example.history)] = name
    whole = {key: turns for key, turns in conversations.items() if set(turns) == set(range(len(turns)))}
    if all(len(turns) == 1 for turns in whole.values()):
        return {}
    passed = {key for key, turns in whole.items() if all(right.get(name) for name in turns.values())}
    return accuracy("sequence_accuracy", passed, whole)


def place_accuracy(
    right: Mapping[str, bool], examples: Mapping[str, TableExample], name: str = "denotation_accuracy"
) -> dict[str, float]:
    """Return the share of first, second and third questions with an answer that are right.

    <name>/q1, <name>/q2, <name>/q3.
    """
    groups: dict[str, list[str]] = {f"q{place}": [] for place in range(1, PLACES + 1)}
    for key, example in examples.items():
        if example.conversation and example.answer and len(example.history) < PLACES:
            groups[f"q{len(example.history) + 1}"].append(key)
    counted = [key for keys in groups.values() for key in keys]
    scores = accuracy(name, [key for key in counted if right.get(key)], counted, groups)
    return {part: value for part, value in scores.items() if part != name}
