"""Exact match and token F1 of answer texts, as HybridQA scores them.

Source: wenhuchen/HybridQA, evaluate_script.py (with the normalization of SQuAD).
"""

import re
import string
from collections import Counter
from collections.abc import Collection, Mapping

from mate_cli.errors import DataError
from mate_cli.metrics.specs import MetricSpec, MetricTable
from mate_cli.metrics.subsets import average_by_group, group_by_source
from mate_cli.tables.example import TableExample

ANSWERS = MetricTable("Question answering", layout="splits")
READING = MetricTable("Reading in the right cell", layout="splits")
EM = MetricSpec("em", "EM", 1, order=10, importance=4, table=ANSWERS, hub_name="exact_match")
F1 = MetricSpec("f1", "F1", 1, order=11, importance=2, table=ANSWERS, hub_name="f1")
GOLD_EM = MetricSpec("gold_em", "Gold EM", 1, order=20, table=READING, hub_name="exact_match")
GOLD_F1 = MetricSpec("gold_f1", "Gold F1", 1, order=21, table=READING, hub_name="f1")
"""F1 of a reader whose input is a gold cell, which contains the answer."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Normalize a text for comparison: lower case, no punctuation, articles or extra spaces.

    In this order: lower case, remove ASCII punctuation, replace articles by spaces, collapse white space.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, reference: str) -> bool:
    """Return whether a predicted text equals the reference after `normalize_answer`."""
    return normalize_answer(prediction) == normalize_answer(reference)


def f1(prediction: str, reference: str) -> float:
    """Compute the F1 score (0 to 1) of the normalized words of two texts.

    If a text has no words after normalization, the result is 1 if both have none, else 0.
    """
    predicted_tokens, reference_tokens = normalize_answer(prediction).split(), normalize_answer(reference).split()
    if not predicted_tokens or not reference_tokens:
        return float(predicted_tokens == reference_tokens)
    num_common = sum((Counter(predicted_tokens) & Counter(reference_tokens)).values())
    if num_common == 0:
        return 0.0
    precision, recall = num_common / len(predicted_tokens), num_common / len(reference_tokens)
    return 2 * precision * recall / (precision + recall)


def score_predictions(
    predictions: Mapping[str, str], references: Mapping[str, str], groups: Mapping[str, Collection[str]] | None = None
) -> dict[str, float]:
    """Compute mean exact match and F1 (0 to 1) over all questions and over each group.

    Args:
        predictions: answer text by question id. A missing question is wrong.
        references: gold answer by question id. These questions are scored.
        groups: question ids by group name, for instance {"table": [...], "passage": [...]}. A group without questions
            has no score. Questions without a group are included in the total.

    Returns:
        em, f1, em/<group> and f1/<group>.

    Raises:
        DataError: `references` is empty.
    """
    if not references:
        raise DataError("no reference answers to score against", remedy="Choose a split with answers")
    exact = {key: exact_match(predictions.get(key, ""), gold) for key, gold in references.items()}
    overlap = {key: f1(predictions.get(key, ""), gold) for key, gold in references.items()}
    return average_by_group(EM.name, exact, references, groups) | average_by_group(F1.name, overlap, references, groups)


def score_answers(answers: Mapping[str, str], examples: Mapping[str, TableExample]) -> dict[str, float]:
    """Compute exact match and F1 of answer texts over all questions and by answer source.

    The source of an answer is table or passage.

    Args:
        answers: predicted text by question id. A missing answer is wrong.
        examples: questions by id.
    """
    references = {name: " ".join(example.answer.texts) for name, example in examples.items() if example.answer}
    return score_predictions(answers, references, group_by_source(examples))
