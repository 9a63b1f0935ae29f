"""Accuracy of whole conversations, and accuracy of the first, second and third question of a conversation.

Source: Herzig et al. 2020 (TAPAS), table 5, which reports these metrics for SQA as SEQ and Q1 to Q3, next to ALL, the
accuracy of all questions.
"""

from collections import defaultdict
from collections.abc import Mapping

from mate_cli.metrics.accuracy import ACCURACIES, accuracy
from mate_cli.metrics.specs import MetricSpec, SubsetSpec
from mate_cli.tables.example import TableExample

POSITIONS = 3
"""Number of positions that are scored separately. Later questions are included in the other metrics."""
SEQUENCE_ACCURACY = MetricSpec("sequence_accuracy", "SEQ", 1, order=70, table=ACCURACIES)
BY_PLACE = tuple(
    SubsetSpec(f"q{position}", f"Q{position}", "by place in the conversation", 20 + position)
    for position in range(1, POSITIONS + 1)
)
GOLD_PREVIOUS = SubsetSpec("gold_previous", "Right answers before", "with right answers before", order=30, many=False)
"""All questions, answered with the gold instead of the predicted answers to the previous questions as input."""


def sequence_accuracy(hits: Mapping[str, bool], examples: Mapping[str, TableExample]) -> dict[str, float]:
    """Compute the fraction of conversations in which every question is correct.

    Args:
        hits: whether each question is correct, by id. A missing question is wrong.
        examples: examples of the split, by id. A conversation of which a question before the last is missing is
            excluded.

    Returns:
        sequence_accuracy, or no score if no conversation has a second question.
    """
    conversations: dict[str, dict[int, str]] = defaultdict(dict)
    for name, example in examples.items():
        if example.conversation:
            conversations[example.conversation][len(example.history)] = name
    complete_conversations = {
        key: turns for key, turns in conversations.items() if set(turns) == set(range(len(turns)))
    }
    if all(len(turns) == 1 for turns in complete_conversations.values()):
        return {}
    correct = {key for key, turns in complete_conversations.items() if all(hits.get(name) for name in turns.values())}
    return accuracy("sequence_accuracy", correct, complete_conversations)


def place_accuracy(
    correct: Mapping[str, bool], examples: Mapping[str, TableExample], name: str = "denotation_accuracy"
) -> dict[str, float]:
    """Compute the accuracy of questions by position in their conversation: 1, 2 or 3.

    Args:
        correct: whether each question is correct, by id. A missing question is wrong.
        examples: examples of the split, by id.
        name: name of the metric.

    Returns:
        <name>/q1, <name>/q2 and <name>/q3.
    """
    groups: dict[str, list[str]] = {f"q{position}": [] for position in range(1, POSITIONS + 1)}
    for key, example in examples.items():
        if example.conversation and example.answer and len(example.history) < POSITIONS:
            groups[f"q{len(example.history) + 1}"].append(key)
    scored_ids = [key for keys in groups.values() for key in keys]
    scores = accuracy(name, [key for key in scored_ids if correct.get(key)], scored_ids, groups)
    return {part: value for part, value in scores.items() if part != name}
