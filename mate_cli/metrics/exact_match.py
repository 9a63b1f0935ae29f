"""Exact match and token F1 of answer texts, as HybridQA scores them.

Source: wenhuchen/HybridQA, evaluate_script.py (the normalisation is SQuAD's).
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
"""F1 of a reader that is given a cell with the answer."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Lower the case, delete ASCII punctuation, blank out a, an and the, collapse white space; in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, reference: str) -> bool:
    """Tell whether both texts are equal once normalised."""
    return normalize_answer(prediction) == normalize_answer(reference)


def f1(prediction: str, reference: str) -> float:
    """Return the harmonic mean of precision and recall over normalised tokens, 0 to 1.

    Where either text has no token left, it is 1 if both have none, else 0.
    """
    predicted, wanted = normalize_answer(prediction).split(), normalize_answer(reference).split()
    if not predicted or not wanted:
        return float(predicted == wanted)
    same = sum((Counter(predicted) & Counter(wanted)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def score_predictions(
    predictions: Mapping[str, str],
    references: Mapping[str, str],
    groups: Mapping[str, Collection[str]] | None = None,
) -> dict[str, float]:
    """Average exact match and F1 over all references and over each group of them, as fractions.

    Args:
        predictions: answer text by question id; a question that is missing counts as wrong.
        references: the true answer by question id; these are the questions that count.
        groups: ids of these questions by group name, for instance {"table": [...], "passage": [...]}; a group without
            questions gets no score. A question may be in no group and still counts in the total.

    Returns:
        em, f1, em/<group> and f1/<group>.

    Raises:
        DataError: nothing is to score.
    """
    if not references:
        raise DataError("no reference answers to score against", remedy="Choose a split with answers")
    exact = {key: exact_match(predictions.get(key, ""), gold) for key, gold in references.items()}
    overlap = {key: f1(predictions.get(key, ""), gold) for key, gold in references.items()}
    return average_by_group(EM.name, exact, references, groups) | average_by_group(F1.name, overlap, references, groups)


def score_answers(answers: Mapping[str, str], examples: Mapping[str, TableExample]) -> dict[str, float]:
    """Return exact match and F1 of answers; a question without an answer of ours counts as wrong."""
    references = {name: " ".join(example.answer.texts) for name, example in examples.items() if example.answer}
    return score_predictions(answers, references, group_by_source(examples))
