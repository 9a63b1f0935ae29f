"""Answers with the sentences that support them, and both jointly, as the official script of HotpotQA scores them.

Source: Yang et al. 2018, "HotpotQA"; hotpotqa/hotpot, `hotpot_evaluate_v1.py`. Aliases of answers, and answers that are
scored by their words alone, both of which MuSiQue has: StonyBrookNLP/musique, `metrics/answer.py`.
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
"""The best text is one that leads to the answer."""
_SUBSETS = ("bridge", "comparison", "2hop", "3hop", "4hop")
BY_HOPS = tuple(SubsetSpec(name, name.capitalize(), "by kind", 60 + place) for place, name in enumerate(_SUBSETS))
"""Kinds of HotpotQA's questions, and hops of MuSiQue's; HotpotQA's levels are called as those of `exact_set_match`."""

SPECIAL = ("yes", "no", "noanswer")
"""Answers that overlap with no other one."""


class Overlap(NamedTuple):
    """The overlap of two answers, or two sets of sentences; all from 0 to 1."""

    em: float
    f1: float
    precision: float
    recall: float


NOTHING = Overlap(0.0, 0.0, 0.0, 0.0)


def answer_overlap(prediction: str, reference: str, *, by_words: bool = False) -> Overlap:
    """Return the F1 of normalised words; "yes", "no" and "noanswer" are right or wrong as a whole.

    Args:
        prediction: the answer.
        reference: the right one.
        by_words: no answer is special, and two texts without words overlap wholly, as by the script of MuSiQue.
    """
    ours, theirs = normalize_answer(prediction), normalize_answer(reference)
    em = float(ours == theirs)
    if by_words and not ours and not theirs:
        return Overlap(1.0, 1.0, 1.0, 1.0)
    if not by_words and ours != theirs and (ours in SPECIAL or theirs in SPECIAL):
        return NOTHING
    same = sum((Counter(ours.split()) & Counter(theirs.split())).values())
    if not same:
        return NOTHING._replace(em=em)
    return _overlap(em, same / len(ours.split()), same / len(theirs.split()))


def supporting_overlap(prediction: Collection[tuple[int, int]], reference: Collection[tuple[int, int]]) -> Overlap:
    """Compare sets of sentences; without any prediction the precision is 0, without any reference the recall."""
    ours, theirs = set(prediction), set(reference)
    same = len(ours & theirs)
    precision = same / len(ours) if ours else 0.0
    return _overlap(float(ours == theirs), precision, same / len(theirs) if theirs else 0.0)


def joint_overlap(answer: Overlap, supporting: Overlap) -> Overlap:
    """Return the products of precisions and of recalls, and the F1 of these."""
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
    """Return the means over all references, and over each group of them.

    Args:
        answers: text by question; one without an answer counts as wrong.
        supporting: sentences by question, likewise.
        references: the right answers by question, of which the nearest counts; these are the questions that count.
        gold: the right sentences by question; where it is empty only answers are scored.
        groups: question ids by group name.
        by_words: questions whose answers are scored by their words alone, see `answer_overlap`.

    Returns:
        em, f1; where sentences are known sp_em, sp_f1, joint_em and joint_f1; each also as <name>/<group>.
    """
    overlaps = {"": {key: _best(answers.get(key), texts, key in by_words) for key, texts in references.items()}}
    if any(gold.values()):
        overlaps["sp_"] = {
            key: supporting_overlap(supporting[key], gold.get(key, ())) if key in supporting else NOTHING
            for key in references
        }
        overlaps["joint_"] = {key: joint_overlap(overlaps[""][key], shown) for key, shown in overlaps["sp_"].items()}
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
    """Score answers to questions about documents, see `score_supported_answers`; without sentences these alone."""
    references = {name: example.answer.texts for name, example in examples.items() if example.answer}
    gold = {} if supporting is None else {name: example.supporting for name, example in examples.items()}
    by_words = {name for name, example in examples.items() if example.answers_by_words}
    return score_supported_answers(answers, supporting or {}, references, gold, groups, by_words)


class SupportedAnswers(AnswerMetric[TableExample]):
    """Exact match and F1 of answers; where any names its sentences, of these too."""

    def __init__(self, answers: Mapping[str, SystemAnswer]) -> None:
        super().__init__(answers)
        self._has_sentences = any(answer.supporting for answer in answers.values())

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return them of all questions, and of each subset."""
        answered = {name: example for name, example in examples.items() if name in self.answers}
        supporting = (
            {name: self._sentences(example) for name, example in answered.items()} if self._has_sentences else None
        )
        return score_documents(texts_of(self.answers, examples), supporting, examples, group_by_subset(examples))

    def _sentences(self, example: TableExample) -> set[tuple[int, int]]:
        rows = {row[0].text: place for place, row in reversed([*enumerate(example.table.rows)])}
        named = self.answers[example.example_id].supporting
        return {(rows.get(title, -1) if isinstance(title, str) else title, place) for title, place in named}


def _best(answer: str | None, texts: Sequence[str], by_words: bool) -> Overlap:
    if answer is None:
        return NOTHING
    return max(
        (answer_overlap(answer, text, by_words=by_words) for text in texts),
        key=lambda overlap: (overlap.f1, overlap.em),
    )


def _overlap(em: float, precision: float, recall: float) -> Overlap:
    total = precision + recall
    return Overlap(em, 2 * precision * recall / total if total > 0 else 0.0, precision, recall)
