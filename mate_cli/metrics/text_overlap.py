"""Metrics of free-form answers: corpus BLEU and ROUGE, of the libraries sacrebleu and rouge-score.

Source: Yale-LILY/FeTaQA, `end2end/train.py`: sacreBLEU, and F1 of ROUGE without stemming. google-research/language,
`totto/totto_eval.sh`: BLEU of texts in lower case, with <null> for a missing third reference. PARENT, the second metric
of this script, is not computed. TableBench/TableBench, `eval_tablebench_script.py` and `metrics/custom_em_metric.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib import import_module
from itertools import zip_longest
from typing import Any, ClassVar

from mate_cli.errors import MissingDependencyError
from mate_cli.metrics.exact_match import normalize_answer
from mate_cli.metrics.specs import MetricSpec, MetricTable, Score, SubsetSpec
from mate_cli.metrics.subsets import average_by_part, group_by_subset
from mate_cli.metrics.system_answers import AnswerMetric, texts_of
from mate_cli.tables.example import TableExample

TEXTS = MetricTable("Free-form answers", layout="subsets")
BLEU = MetricSpec("bleu", "BLEU", 1, order=22, importance=4, table=TEXTS, hub_name="sacrebleu")
ROUGE = tuple(
    MetricSpec(f"rouge{kind}", f"ROUGE-{kind}", 1, order=23 + index, table=TEXTS, hub_name="rouge")
    for index, kind in enumerate("12L")
)

MIXED = MetricSpec("mixed_score", "Score", 1, order=26, importance=3, table=TEXTS)
APPROXIMATE = {"CorrelationAnalysis", "TrendForecasting", "StatisticalAnalysis"}
"""Subtypes of TableBench whose numbers may differ by 10 %."""
SUBSETS = tuple(
    SubsetSpec(name, title, "by type of the question", 70 + index)
    for index, (name, title) in enumerate(
        {
            "FactChecking": "Fact checking",
            "NumericalReasoning": "Numerical reasoning",
            "DataAnalysis": "Data analysis",
            "overlap": "Headers of train",
            "nonoverlap": "New headers",
        }.items()
    )
)
"""Types of TableBench, and the subsets of ToTTo by whether its train split has a table with the same headers."""


class FreeTexts(AnswerMetric[TableExample]):
    """BLEU of all answers together, and the mean ROUGE F1 with the best of the references.

    Attributes:
        lowercase: whether BLEU ignores upper and lower case.
    """

    lowercase: ClassVar[bool] = False

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute BLEU and ROUGE over all questions and by subset, and ROUGE also by input length.

        A single question has no corpus BLEU.
        """
        references = {name: example.answer.texts for name, example in examples.items() if example.answer}
        texts = texts_of(self.answers, references)
        pairs = {name: rouge_scores(text, references[name]) for name, text in texts.items()}
        scores: dict[str, float] = {}
        for part, names in {"": [*references], **group_by_subset(examples)}.items() if len(examples) > 1 else ():
            lines = [texts.get(name, "") for name in names], [references[name] for name in names]
            bleu = corpus_bleu(*lines, lowercase=self.lowercase)
            scores["/".join(filter(None, (BLEU.name, part)))] = Score(bleu, len(names))
        for spec in ROUGE:
            scores |= average_by_part({n: pair[spec.name] for n, pair in pairs.items()}, examples, spec.name)
        return scores


class LowerCaseTexts(FreeTexts):
    """BLEU of lower-case texts, and mean ROUGE F1 with the best reference, as for ToTTo."""

    lowercase = True


class BenchAnswers(AnswerMetric[TableExample]):
    """The score of TableBench: exact match, exact match up to 10 %, or ROUGE-L, depending on the type of the question.

    The exact match compares normalized texts, and whole numbers by value. The script of the authors rounds the means of
    the types to two digits before it averages them.
    """

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the score over all questions, and by type and subtype of the question."""
        questions = {name: example for name, example in examples.items() if name in self.answers}
        return average_by_part({n: self._score(e) for n, e in questions.items()}, examples, MIXED.name)

    def _score(self, example: TableExample) -> float:
        assert example.answer
        texts = super().text(example), example.answer.texts[0]
        prediction, reference = map(normalize_answer, texts)
        if "DataAnalysis" not in example.subsets or "ImpactAnalysis" in example.subsets:
            return float(is_equal(prediction, reference))
        if {*example.subsets} & APPROXIMATE:
            return float(is_equal(prediction, reference, tolerance=0.1))
        return rouge_scores(prediction, [reference])["rougeL"]


def is_equal(prediction: str, reference: str, tolerance: float = 0.0) -> bool:
    """Return whether two normalized texts are equal, or are whole numbers within a relative tolerance.

    Args:
        prediction: predicted text.
        reference: gold text.
        tolerance: largest relative difference.
    """
    if re.fullmatch(r"\d+", reference):
        with suppress(InvalidOperation):
            gold, difference = Decimal(reference), abs(Decimal(reference) - Decimal(prediction))
            return difference <= Decimal(tolerance) * gold
    return prediction == reference


def corpus_bleu(predictions: Sequence[str], references: Iterable[Sequence[str]], *, lowercase: bool = False) -> float:
    """Compute sacreBLEU of texts with one or more references each, from 0 to 1.

    Args:
        predictions: predicted texts.
        references: references of each text.
        lowercase: whether to ignore upper and lower case, and to replace missing references by <null>, as for ToTTo.

    Raises:
        MissingDependencyError: sacrebleu is not installed.
    """
    streams = [list(stream) for stream in zip_longest(*references, fillvalue="<null>" if lowercase else None)]
    bleu = _library("sacrebleu", "sacrebleu").corpus_bleu(list(predictions), streams, lowercase=lowercase)
    return float(bleu.score) / 100


def rouge_scores(prediction: str, references: Sequence[str]) -> dict[str, float]:
    """Compute the F1 scores rouge1, rouge2 and rougeL with the best reference, without stemming.

    Raises:
        MissingDependencyError: rouge-score is not installed.
    """
    scores = [_scorer().score(reference.strip(), prediction.strip()) for reference in references]
    return {spec.name: max(float(score[spec.name].fmeasure) for score in scores) for spec in ROUGE}


@cache
def _scorer() -> Any:  # noqa: ANN401 - the library has no types
    return _library("rouge_score.rouge_scorer", "rouge-score").RougeScorer([spec.name for spec in ROUGE])


def _library(module: str, package: str) -> Any:  # noqa: ANN401 - the libraries have no types
    try:
        return import_module(module)
    except ImportError as error:
        hint = f"Install it: pip install {package}"
        raise MissingDependencyError(f"scoring texts needs the package {package}", remedy=hint) from error
