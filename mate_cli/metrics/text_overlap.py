"""Metrics of free-form answers: corpus BLEU and ROUGE, of the libraries sacrebleu and rouge-score.

Source: Yale-LILY/FeTaQA, `end2end/train.py`: sacreBLEU, and F1 of ROUGE without stemming. google-research/language,
`totto/totto_eval.sh`: BLEU of texts in lower case, with <null> for a missing third reference, and PARENT of
`totto/totto_parent_eval.py`, both without the Moses detokenizer. TableBench/TableBench, `eval_tablebench_script.py` and
`metrics/custom_em_metric.py`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib import import_module
from itertools import chain, zip_longest
from typing import Any, ClassVar

from mate_cli.errors import MissingDependencyError
from mate_cli.metrics.exact_match import normalize_answer
from mate_cli.metrics.specs import MetricSpec, MetricTable, Score, SubsetSpec
from mate_cli.metrics.subsets import average_by_part, group_by_subset
from mate_cli.metrics.system_answers import AnswerMetric, texts_of
from mate_cli.tables.example import DescribedExample, TableExample

TEXTS = MetricTable("Free-form answers", layout="subsets")
BLEU = MetricSpec("bleu", "BLEU", 1, order=22, importance=4, table=TEXTS, hub_name="sacrebleu")
ROUGE = tuple(
    MetricSpec(f"rouge{kind}", f"ROUGE-{kind}", 1, order=23 + index, table=TEXTS, hub_name="rouge")
    for index, kind in enumerate("12L")
)

PARENT = MetricSpec("parent", "PARENT", 1, order=26, table=TEXTS)
MIXED = MetricSpec("mixed_score", "Score", 1, order=27, importance=3, table=TEXTS)
SMALLEST = 1e-5
"""Value of a precision or recall of 0 in PARENT."""
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
    """Metrics of generated texts: corpus BLEU, and mean ROUGE F1 with the best reference.

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


class Descriptions(FreeTexts):
    """Metrics of ToTTo: BLEU of lower-case texts, PARENT, and ROUGE F1 with best references."""

    lowercase = True

    def score(self, examples: Mapping[str, Any]) -> dict[str, float]:
        """Compute BLEU, ROUGE and PARENT over all questions. PARENT is also averaged by subset.

        BLEU and ROUGE are those of `FreeTexts`.
        """
        texts = texts_of(self.answers, examples)
        scores = {name: parent_score(texts.get(name, ""), example) for name, example in examples.items()}
        return super().score(examples) | average_by_part(scores, examples, PARENT.name)


class BenchAnswers(AnswerMetric[TableExample]):
    """Metric of TableBench, whose definition depends on the type of the question.

    The metric is exact match, exact match up to 10 %, or ROUGE-L.

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
    """Return whether a prediction equals a reference, with a tolerance for whole numbers.

    Both texts are normalized.

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
    """Compute ROUGE-1, ROUGE-2 and ROUGE-L (F1, unstemmed) with the best reference.

    Raises:
        MissingDependencyError: rouge-score is not installed.
    """
    scores = [_scorer().score(reference.strip(), prediction.strip()) for reference in references]
    return {spec.name: max(float(score[spec.name].fmeasure) for score in scores) for spec in ROUGE}


def parent_score(prediction: str, example: DescribedExample) -> float:
    """Compute PARENT of a description: F1 of n-grams with the best reference and the table.

    Precision counts n-grams of the reference, and other n-grams by the share of their words in the table. Recall is
    the geometric mean of the recall of the reference's n-grams and of the highlighted cells, weighted by the share of
    the highlighted cells that the reference does not mention.

    Source: Dhingra et al. 2019, "Handling divergent reference texts when evaluating table-to-text generation".

    Args:
        prediction: predicted text.
        example: example with its references, table and highlighted cells.
    """
    table, titles = example.table, (example.table.title, example.table.section_title)
    texts = [cell.text for cell in (*table.header, *chain(*table.rows))]
    # The script of the authors writes the cells of a table between bars.
    words, entries = (
        [split_words(text.replace("|", "-")) for text in part if text.strip()]
        for part in ((*texts, *titles, table.section_text), (*example.highlighted, *titles))
    )
    vocabulary = {*chain(*words)}
    references = [*(example.answer.texts if example.answer else ()), "<null>", "<null>"][:3]
    predicted, scores = split_words(prediction), list[float]()
    for reference in map(split_words, references):
        precisions, recalls = zip(*(_overlap(predicted, reference, vocabulary, n) for n in range(1, 5)), strict=True)
        precision, recall = (math.prod(values) ** 0.25 if min(values) else 0.0 for values in (precisions, recalls))
        coverage, reference_coverage = (
            sum(lcs(e, text) / len(e) for e in entries) / len(entries) for text in (predicted, reference)
        )
        recall = max(recall, SMALLEST) ** reference_coverage * max(coverage, SMALLEST) ** (1 - reference_coverage)
        scores.append(2 * precision * recall / (precision + recall + 1e-8))
    return max(scores)


def split_words(text: str) -> list[str]:
    """Split a text into lower-case words by the tokenizer 13a of sacrebleu."""
    return _tokenizer()(text.strip().lower()).split()


def _overlap(
    prediction: Sequence[str], reference: Sequence[str], words: Collection[str], n: int
) -> tuple[float, float]:
    """Compute precision and recall of n-grams as defined by PARENT.

    PARENT also credits n-grams from the table. For n greater than 1, a value of 0 becomes `SMALLEST`.
    """
    counts, gold = (Counter(zip(*(text[i:] for i in range(n)), strict=False)) for text in (prediction, reference))
    weights = {ngram: sum(word in words for word in ngram) / n for ngram in (*counts, *gold)}
    common = {ngram: min(1, gold[ngram] / count) for ngram, count in counts.items()}
    hits = sum(count * (common[ngram] + (1 - common[ngram]) * weights[ngram]) for ngram, count in counts.items())
    expected = sum(count * weights[ngram] for ngram, count in gold.items())
    matches = sum(min(count, counts[ngram]) * weights[ngram] for ngram, count in gold.items())
    precision, recall = hits / counts.total() if counts else 0.0, matches / expected if expected else 1.0
    return (precision, recall) if n == 1 else (precision or SMALLEST, recall or SMALLEST)


def lcs(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence (LCS) of two lists of words."""
    lengths = [0] * (len(second) + 1)
    for word in first:
        previous = lengths
        lengths = [0]
        for index, other_word in enumerate(second):
            match = previous[index] + 1 if word == other_word else max(previous[index + 1], lengths[index])
            lengths.append(match)
    return lengths[-1]


@cache
def _tokenizer() -> Any:  # noqa: ANN401 - the library has no types
    return _library("sacrebleu.tokenizers.tokenizer_13a", "sacrebleu").Tokenizer13a()


@cache
def _scorer() -> Any:  # noqa: ANN401 - the library has no types
    return _library("rouge_score.rouge_scorer", "rouge-score").RougeScorer([spec.name for spec in ROUGE])


def _library(module: str, package: str) -> Any:  # noqa: ANN401 - the libraries have no types
    try:
        return import_module(module)
    except ImportError as error:
        hint = f"Install it: pip install {package}"
        raise MissingDependencyError(f"scoring texts needs the package {package}", remedy=hint) from error
