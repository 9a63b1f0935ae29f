"""Metrics of free-form answers: corpus BLEU and ROUGE, of the libraries sacrebleu and rouge-score.

Source: Yale-LILY/FeTaQA, `end2end/train.py`: sacreBLEU, and F1 of ROUGE without stemming.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import zip_longest
from typing import Any

from mate_cli.errors import MissingDependencyError
from mate_cli.metrics.specs import MetricSpec, MetricTable, Score
from mate_cli.metrics.subsets import average_by_part
from mate_cli.metrics.system_answers import AnswerMetric, texts_of
from mate_cli.tables.example import TableExample

TEXTS = MetricTable("Free-form answers", layout="subsets")
BLEU = MetricSpec("bleu", "BLEU", 1, order=22, importance=4, table=TEXTS, hub_name="sacrebleu")
ROUGE = tuple(
    MetricSpec(f"rouge{kind}", f"ROUGE-{kind}", 1, order=23 + index, table=TEXTS, hub_name="rouge")
    for index, kind in enumerate("12L")
)


class FreeTexts(AnswerMetric[TableExample]):
    """BLEU of all answers together, and the mean ROUGE F1 with the best of the references."""

    def score(self, examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute ROUGE by subset, and BLEU of all questions. A single question has no BLEU of a corpus."""
        references = {name: example.answer.texts for name, example in examples.items() if example.answer}
        texts, scores = texts_of(self.answers, references), dict[str, float]()
        pairs = {name: rouge_scores(text, references[name]) for name, text in texts.items()}
        if len(references) > 1:
            bleu = corpus_bleu([texts.get(name, "") for name in references], list(references.values()))
            scores[BLEU.name] = Score(bleu, len(references))
        for spec in ROUGE:
            scores |= average_by_part({n: pair[spec.name] for n, pair in pairs.items()}, examples, spec.name)
        return scores


def corpus_bleu(predictions: Sequence[str], references: Iterable[Sequence[str]]) -> float:
    """Compute sacreBLEU of texts with one or more references each, from 0 to 1.

    Raises:
        MissingDependencyError: sacrebleu is not installed.
    """
    streams = [list(stream) for stream in zip_longest(*references)]
    return float(_library("sacrebleu", "sacrebleu").corpus_bleu(list(predictions), streams).score) / 100


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
