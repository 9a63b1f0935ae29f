"""Reading comprehension on single passages, such as SQuAD.

The task pre-trains a reader of tables.
"""

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
    """Reading comprehension: select the answer span in a passage, represented as a table with one cell.

    The head is the span reader of PointR. Predictions are scored by the official SQuAD metrics.

    Args:
        max_span_length: maximum number of tokens of an answer.
        no_answer: whether to learn that a question is unanswerable. False: unanswerable questions are excluded from
            training and are wrong in evaluation.
        dropout: dropout probability of the hidden states before the head.

    Source: Devlin et al. 2019, "BERT", sections 4.2 and 4.3, with the span scores of `SpanReading`.
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
        """Return the questions with an answer and, with `no_answer`, the unanswerable questions."""
        return [example for example in examples if example.answer and (example.answer.texts or self.no_answer)]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return all questions, answerable or not."""
        return list(examples)

    def answers(self, predictions: Sequence[SpanPrediction], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the text of each predicted span, by example id.

        The text is empty if "no answer" is more probable than the best span.
        """
        spans = [prediction for prediction in predictions if prediction.probability >= prediction.no_answer]
        return dict.fromkeys((p.example_id for p in predictions), "") | super().answers(spans, examples)

    def is_correct(self, prediction: SpanPrediction, example: TableExample) -> bool:
        """Return whether the predicted text equals a reference answer by the official exact match."""
        answer = self.answers([prediction], {example.example_id: example})[example.example_id]
        return example.answer is not None and exact_match_of_any(answer, example.answer.texts)

    def score(self, predictions: Sequence[SpanPrediction], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the official SQuAD exact match and F1 of all questions, of subsets and by answerability."""
        answerable = {name: example for name, example in examples.items() if example.answer}
        references = {name: example.answer.texts for name, example in answerable.items() if example.answer}
        groups = group_by_subset(answerable)
        answered = [prediction for prediction in predictions if prediction.example_id in answerable]
        return score_reading(self.answers(answered, answerable), references, groups if len(groups) > 1 else {})
