"""Answer, supporting-sentence and joint metrics of HotpotQA, equal to the official script.

Source: Yang et al. 2018, "HotpotQA"; hotpotqa/hotpot, `hotpot_evaluate_v1.py`. Answer aliases and answers scored by
words only, both used by MuSiQue: StonyBrookNLP/musique, `metrics/answer.py`.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from mate_cli.metrics.exact_match import normalize_answer
from mate_cli.metrics.specs import MetricSpec, MetricTable, SubsetSpec
from mate_cli.metrics.subsets import average_by_group, group_by_subset
from mate_cli.metrics.system_answers import AnswerMetric, texts_of
from mate_cli.tables.example import SystemAnswer, TableExample

EVIDENCE = MetricTable("Answers and their evidence", layout="splits")
SP_EM = MetricSpec("sp_em", "Sup EM", 1, order=12, table=EVIDENCE)
SP_F1 = MetricSpec("sp_f1", "Sup F1", 1, order=13, table=EVIDENCE)
JOINT_EM = MetricSpec("joint_em", "Joint EM", 1, order=14, table=EVIDENCE)
JOINT_F1 = MetricSpec("joint_f1", "Joint F1", 1, order=15, importance=3, table=EVIDENCE)
NODE_ACCURACY = MetricSpec("node_accuracy", "Node accuracy", 1, order=16, table=EVIDENCE)
"""Share of questions whose best node contains the answer."""
_SUBSETS = ("bridge", "comparison", "2hop", "3hop", "4hop")
BY_HOPS = tuple(SubsetSpec(name, name.capitalize(), "by kind", 60 + index) for index, name in enumerate(_SUBSETS))
"""Question types of HotpotQA and hop counts of MuSiQue.

HotpotQA's levels share the names of `exact_set_match`.
"""

SPECIAL = ("yes", "no", "noanswer")
"""Answers that have no partial overlap with any other answer."""


class Overlap(NamedTuple):
    """Exact match, F1, precision and recall of two answers or two sets of sentences, each from 0 to 1."""

    em: float
    f1: float
    precision: float
    recall: float


NO_OVERLAP = Overlap(0.0, 0.0, 0.0, 0.0)


def answer_overlap(prediction: str, reference: str, *, by_words: bool = False) -> Overlap:
    """Compute exact match, precision, recall and F1 of the normalized words of two answers.

    The answers "yes", "no" and "noanswer" get no partial credit.

    Args:
        prediction: the predicted answer.
        reference: the gold answer.
        by_words: if true, no answer is special, and two texts without words overlap completely, as in the script of
            MuSiQue.
    """
    predicted_text, gold_text = normalize_answer(prediction), normalize_answer(reference)
    em = float(predicted_text == gold_text)
    if by_words and not predicted_text and not gold_text:
        return Overlap(1.0, 1.0, 1.0, 1.0)
    if not by_words and predicted_text != gold_text and (predicted_text in SPECIAL or gold_text in SPECIAL):
        return NO_OVERLAP
    shared_words = sum((Counter(predicted_text.split()) & Counter(gold_text.split())).values())
    if not shared_words:
        return NO_OVERLAP._replace(em=em)
    return _overlap(em, shared_words / len(predicted_text.split()), shared_words / len(gold_text.split()))


def supporting_overlap(prediction: Collection[tuple[int, int]], reference: Collection[tuple[int, int]]) -> Overlap:
    """Compute exact match, precision, recall and F1 of predicted supporting sentences.

    The precision is 0 without predicted sentences, and the recall is 0 without gold sentences.

    Args:
        prediction: (row, sentence) of the predicted sentences, both from 0.
        reference: (row, sentence) of the gold sentences.
    """
    predicted, gold = set(prediction), set(reference)
    shared_count = len(predicted & gold)
    precision = shared_count / len(predicted) if predicted else 0.0
    return _overlap(float(predicted == gold), precision, shared_count / len(gold) if gold else 0.0)


def joint_overlap(answer: Overlap, supporting: Overlap) -> Overlap:
    """Compute the joint metrics of HotpotQA: the products of both precisions and of both recalls, and their F1."""
    em = answer.em * supporting.em
    return _overlap(em, answer.precision * supporting.precision, answer.recall * supporting.recall)


def score_supported_answers(
    answers: Mapping[str, str],
    supporting: Mapping[str, Collection[tuple[int, int]]],
    references: Mapping[str, Sequence[str]],
    gold: Mapping[str, Collection[tuple[int, int]]],
    groups: Mapping[str, Collection[str]] | None = None,
    by_words: Collection[str] = (),
) -> dict[str, float]:
    """Average the metrics of answers and supporting sentences, over all questions and over each group of questions.

    Args:
        answers: predicted text by question id. A question without an answer is scored as wrong.
        supporting: predicted sentences by question id. A question without an entry is scored as wrong.
        references: gold answers by question id, of which the most similar is used. Its keys are the scored questions.
        gold: gold sentences by question id. If all are empty, only answers are scored.
        groups: question ids by group name.
        by_words: ids of questions scored by words only, see `answer_overlap`.

    Returns:
        em and f1, and with gold sentences also sp_em, sp_f1, joint_em and joint_f1. Each name also has <name>/<group>.
    """
    overlaps = {"": {key: _best_overlap(answers.get(key), texts, key in by_words) for key, texts in references.items()}}
    if any(gold.values()):
        overlaps["sp_"] = {
            key: supporting_overlap(supporting[key], gold.get(key, ())) if key in supporting else NO_OVERLAP
            for key in references
        }
        overlaps["joint_"] = {
            key: joint_overlap(overlaps[""][key], support) for key, support in overlaps["sp_"].items()
        }
    scores: dict[str, float] = {}
    for kind, of_questions in overlaps.items():
        for part in ("em", "f1"):
            values = {key: getattr(overlap, part) for key, overlap in of_questions.items()}
            scores |= average_by_group(f"{kind}{part}", values, references, groups)
    return scores


def score_documents(
    answers: Mapping[str, str],
    supporting: Mapping[str, Collection[tuple[int, int]]] | None,
    examples: Mapping[str, TableExample],
    groups: Mapping[str, Collection[str]],
) -> dict[str, float]:
    """Compute the metrics of answers and supporting sentences for questions about documents.

    Args:
        answers: predicted text by question id.
        supporting: predicted sentences by question id. None: only answers are scored.
        examples: scored questions by id; questions without an answer are skipped.
        groups: question ids by group name.
    """
    references = {name: example.answer.texts for name, example in examples.items() if example.answer}
    gold = {} if supporting is None else {name: example.supporting for name, example in examples.items()}
    by_words = {name for name, example in examples.items() if example.answers_by_words}
    return score_supported_answers(answers, supporting or {}, references, gold, groups, by_words)


class SupportedAnswers(AnswerMetric[TableExample]):
    """Exact match and F1 of answers, and of supporting sentences if any answer has them."""

    def __init__(self, answers: Mapping[str, SystemAnswer]) -> None:
        super().__init__(answers)
        self._has_sentences = any(answer.supporting for answer in answers.values())

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the metrics of answers and supporting sentences, for all questions and each subset."""
        answered_examples = {name: example for name, example in examples.items() if name in self.answers}
        sentences = {name: self._sentences(example) for name, example in answered_examples.items()}
        supporting = sentences if self._has_sentences else None
        return score_documents(texts_of(self.answers, examples), supporting, examples, group_by_subset(examples))

    def _sentences(self, example: TableExample) -> set[tuple[int, int]]:
        rows = {row[0].text: index for index, row in reversed([*enumerate(example.table.rows)])}
        references = self.answers[example.example_id].supporting
        return {(rows.get(title, -1) if isinstance(title, str) else title, index) for title, index in references}


def _best_overlap(answer: str | None, texts: Sequence[str], by_words: bool) -> Overlap:
    if answer is None:
        return NO_OVERLAP
    overlaps = [answer_overlap(answer, text, by_words=by_words) for text in texts]
    return max(overlaps, key=lambda overlap: (overlap.f1, overlap.em))


def _overlap(em: float, precision: float, recall: float) -> Overlap:
    total = precision + recall
    return Overlap(em, 2 * precision * recall / total if total > 0 else 0.0, precision, recall)
