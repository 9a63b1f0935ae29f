"""Exact match and token F1 against several references, as SQuAD scores them; questions may have no answer at all.

Source: rajpurkar/SQuAD-explorer, evaluate-v2.0.py, which on questions with answers agrees with version 1.1 and with
mrqa/MRQA-Shared-Task-2019, mrqa_official_eval.py. They differ on references of articles and punctuation alone: those
count as no answer in 2.0, and here.
"""

from collections.abc import Collection, Mapping, Sequence

from mate_cli.errors import DataError
from mate_cli.metrics.exact_match import EM, F1, exact_match, f1, normalize_answer
from mate_cli.metrics.specs.spec import SubsetSpec
from mate_cli.metrics.subsets import average_by_group

ANSWERED = SubsetSpec("has_answer", "Has answer", "by answerability", order=24, many=False)
UNANSWERED = SubsetSpec("no_answer", "No answer", "by answerability", order=25, many=False)


def exact_match_of_any(prediction: str, references: Sequence[str]) -> bool:
    """Tell whether a prediction is one of the references once normalised; without any, whether it is empty."""
    return any(exact_match(prediction, reference) for reference in _drop_empty(references))


def best_f1(prediction: str, references: Sequence[str]) -> float:
    """Return the best F1 with any of the references, 0 to 1; without any, 1 of an empty prediction."""
    return max(f1(prediction, reference) for reference in _drop_empty(references))


def score_reading(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    groups: Mapping[str, Collection[str]] | None = None,
) -> dict[str, float]:
    """Average exact match and F1 over all questions and over each group of them, as fractions.

    Args:
        predictions: answer text by question, empty where the reader says that there is none; a question that is
            missing counts as wrong.
        references: all answers that count as right, by question; none where nothing answers it. These are the
            questions that count.
        groups: names of questions by the group's name.

    Returns:
        em, f1, em/<group> and f1/<group>; where some questions have answers and others none, both are groups.

    Raises:
        DataError: there are no questions.
    """
    if not references:
        raise DataError("no questions to score", remedy="Choose a split with answers")
    answered = [name for name, texts in references.items() if _drop_empty(texts) != ("",)]
    kinds = {ANSWERED.name: answered, UNANSWERED.name: [name for name in references if name not in set(answered)]}
    parts = {**(groups or {}), **(kinds if all(kinds.values()) else {})}
    given = {name: (predictions[name], known) for name, known in references.items() if name in predictions}
    exact = {name: exact_match_of_any(*pair) for name, pair in given.items()}
    overlap = {name: best_f1(*pair) for name, pair in given.items()}
    return average_by_group(EM.name, exact, references, parts) | average_by_group(F1.name, overlap, references, parts)


def _drop_empty(references: Sequence[str]) -> tuple[str, ...]:
    """Return the references that have a word; the empty answer where none has."""
    return tuple(text for text in references if normalize_answer(text)) or ("",)
