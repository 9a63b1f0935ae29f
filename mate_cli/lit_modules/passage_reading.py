"""Read the answer to a question in one passage: SQuAD and its kin, before a reader sees any table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from mate_cli.lit_modules.span_reading import SpanPrediction, SpanReading
from mate_cli.metrics.specs import Metric
from mate_cli.metrics.subsets import group_by_subset
from mate_cli.metrics.system_answers import exact_match_of_any, score_reading
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.layers.encoder import Dropout
from mate_cli.tables.example import TableExample


class PassageReading(SpanReading):
    """The reader of PointR on passages that are tables of one cell, scored as SQuAD's authors do.

    Args:
        no_answer: learn to say that nothing answers a question; such questions are left out of training without it,
            and are wrong in evaluation.

    Source: Devlin et al. 2019, "BERT", sections 4.2 and 4.3; the span's score is that of `SpanReading`.
    """

    spec = replace(SpanReading.spec, monitor="dev/f1")

    def __init__(
        self,
        context: TaskContext,
        max_span_length: Annotated[int, Field(gt=0)] = 30,
        no_answer: bool = False,
        dropout: Dropout = 0.1,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, max_span_length, None, dropout, no_answer, metrics=metrics)

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the questions with an answer, and with `no_answer` those that are known to have none."""
        return [example for example in examples if example.answer and (example.answer.texts or self.no_answer)]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return all questions."""
        return list(examples)

    def answers(self, predictions: Sequence[SpanPrediction], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the text of each span; empty where no answer is likelier than any."""
        spans = [prediction for prediction in predictions if prediction.probability >= prediction.no_answer]
        return dict.fromkeys((p.example_id for p in predictions), "") | super().answers(spans, examples)

    def is_correct(self, prediction: SpanPrediction, example: TableExample) -> bool:
        """Tell whether the span is one of the references, by the official exact match."""
        answer = self.answers([prediction], {example.example_id: example})[example.example_id]
        return example.answer is not None and exact_match_of_any(answer, example.answer.texts)

    def score(self, predictions: Sequence[SpanPrediction], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return the official exact match and F1: of all questions, of each subset, with an answer and without."""
        known = {name: example for name, example in examples.items() if example.answer}
        references = {name: example.answer.texts for name, example in known.items() if example.answer}
        groups = group_by_subset(known)
        answers = self.answers([prediction for prediction in predictions if prediction.example_id in known], known)
        return score_reading(answers, references, groups if len(groups) > 1 else {})
