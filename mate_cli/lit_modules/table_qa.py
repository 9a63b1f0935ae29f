"""Answer questions by cells of the table and what is done with them: SQA, WikiTableQuestions, WikiSQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from mate_cli.data.baselines import Guess, most_frequent_column, tfidf_cell
from mate_cli.lit_modules.base import COMPUTED, Selection, TableAnswerSpec, TableTask, TaskSpec, Training
from mate_cli.lit_modules.losses import AverageApproximation, LabelWeighting, Supervision, TableAnswerLoss
from mate_cli.metrics.denotation_accuracy import denotation_is_right, right_denotations, structure_accuracy
from mate_cli.metrics.sequence_accuracy import place_accuracy, sequence_accuracy
from mate_cli.metrics.specs import Metric
from mate_cli.metrics.subsets import average_by_part
from mate_cli.metrics.wtq_official import official_accuracy
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.models.heads.scores import NO_LOGIT
from mate_cli.models.heads.table_answer import AnswerLogits, HeadOptions, TableAnswerHead
from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.models.layers.encoder import Dropout
from mate_cli.tables.denotation import answer_texts
from mate_cli.tables.example import AGGREGATIONS, Answer, Coordinates, TableExample
from mate_cli.tokenization.layout import SUMMARY_ROW, TableBatch

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
SELECTED = "answers in cells"
"""Kind of answers under weak supervision, alongside `COMPUTED`."""


@dataclass(frozen=True)
class TableAnswer:
    """The cells chosen for one question, and what is done with them.

    Args:
        cells: (row, column) of body cells, both from 0, column by column.
        probabilities: the mean over the tokens of each of them.
        aggregation: one of `AGGREGATIONS`.
        aggregation_probability: of it, among all four; 1 where none are learnt.
        column_probability: of the chosen column, among all; 1 where cells are chosen freely.
        null_score: the score of no column less that of the chosen one; None if the network must choose a column.
        null_probability: of no column.
        is_null: the network says that nothing in the table answers the question.
    """

    example_id: str
    cells: Coordinates
    probabilities: tuple[float, ...]
    aggregation: str = "none"
    aggregation_probability: float = 1.0
    column_probability: float = 1.0
    null_score: float | None = None
    null_probability: float = 0.0
    is_null: bool = False

    @property
    def confidence(self) -> float:
        """In the answer as a whole: the mean of its cells, in this column, with this aggregation; 0 without cells."""
        if self.is_null:
            return self.null_probability
        cells = sum(self.probabilities) / len(self.probabilities) if self.probabilities else 0.0
        return cells * self.column_probability * self.aggregation_probability


class TableQA(TableTask[TableExample, TableAnswer]):
    """Cells whose tokens are likely on average, in one column or anywhere, and an aggregation of them.

    Args:
        aggregation: "none" is chosen; "supervised": examples name theirs; "weak": it is learnt from the answer.
        temperature: token scores are divided by it.
        select_one_column: choose one column, and cells only there.
        allow_empty_column_selection: let it choose no column.
        average_logits_per_cell: give each token the mean score of its cell.
        zero_cell_head: begin with the same score for all tokens and columns.
        threshold: a cell is chosen when the mean probability of its tokens is greater.
        cell_selection_preference: an answer that is a number and in a cell is computed where aggregations have more
            than this probability (weak).
        huber_delta: errors of computed numbers beyond it count linearly (weak).
        answer_loss_cutoff: ignore computed numbers with a greater loss; None for no limit (weak).
        normalise_answer_loss: divide computed numbers by their size first (weak).
        average_approximation: of the expected average (weak).
        aggregation_temperature: divides the scores of aggregations in the expected result (weak).
        aggregation_importance: weight of the aggregation loss.
        answer_importance: weight of the loss of computed numbers (weak).
        positive_weight: of tokens of the answer where cells are chosen freely.
        label_weighting: "released" gives this weight to all tokens, as the code behind the published checkpoints
            does; "intended" to those of the answer only.
        max_rows: rows told apart, the header among them; later ones share one score (one column only).
        max_columns: columns told apart, the question's among them; later ones count as one.
        dropout: on the states before the head.

    Source: google-research/tapas, `models/tapas_classifier_model.py`; TAPAS paper, section 4.
    """

    spec = TaskSpec(
        "dev/denotation_accuracy",
        label="cells",
        encoding="table",
        table_answers=TableAnswerSpec(),
        transformers_class="TapasForQuestionAnswering",
        auto_class="TableQuestionAnswering",
    )

    def __init__(
        self,
        context: TaskContext,
        aggregation: Supervision = "none",
        temperature: Positive = 1.0,
        select_one_column: bool = True,
        allow_empty_column_selection: bool = False,
        average_logits_per_cell: bool = False,
        zero_cell_head: bool = False,
        threshold: Share = 0.5,
        cell_selection_preference: Share = 0.5,
        huber_delta: Positive = 1.0,
        answer_loss_cutoff: Positive | None = None,
        normalise_answer_loss: bool = False,
        average_approximation: AverageApproximation = "ratio",
        aggregation_temperature: Positive = 1.0,
        aggregation_importance: Positive = 1.0,
        answer_importance: Positive = 1.0,
        positive_weight: Positive = 10.0,
        label_weighting: LabelWeighting = "released",
        max_rows: Annotated[int, Field(gt=1)] = 64,
        max_columns: Annotated[int, Field(gt=1)] = 32,
        dropout: Dropout = 0.1,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, metrics=metrics)
        self.train_poolers(aggregation != "none")
        self.options = HeadOptions(
            temperature=temperature,
            select_one_column=select_one_column,
            allow_empty_column_selection=allow_empty_column_selection,
            average_logits_per_cell=average_logits_per_cell,
            zero_cell_head=zero_cell_head,
            aggregations=0 if aggregation == "none" else len(AGGREGATIONS),
            max_rows=max_rows,
            max_columns=max_columns,
        )
        self.criterion = TableAnswerLoss(
            aggregation=aggregation,
            cell_selection_preference=cell_selection_preference,
            huber_delta=huber_delta,
            answer_loss_cutoff=answer_loss_cutoff,
            normalise_answer_loss=normalise_answer_loss,
            average_approximation=average_approximation,
            aggregation_temperature=aggregation_temperature,
            aggregation_importance=aggregation_importance,
            answer_importance=answer_importance,
            positive_weight=positive_weight,
            label_weighting=label_weighting,
        )
        if aggregation == "weak":
            self.loss_counts = {kind: torch.zeros(2, dtype=torch.long, device="cpu") for kind in (SELECTED, COMPUTED)}
        self.add_heads(lambda model: TableAnswerHead(model.size.hidden_size, self.options))
        self.dropout = FastDropout(dropout)
        self.threshold = threshold

    @property
    def table_limits(self) -> tuple[int | None, int | None]:
        """With one column to choose, as many as have scores of their own; the header and the question take one each."""
        options = self.options
        return (options.max_rows - 1, options.max_columns - 1) if options.select_one_column else (None, None)

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the examples whose answer says what is to be learnt."""
        return [example for example in examples if example.answer and self._teaches(example.answer)]

    def _teaches(self, answer: Answer) -> bool:
        """Tell whether there are cells to select, a number to compute (weak), or nothing where that is allowed."""
        weak, computed = self.criterion.aggregation == "weak", answer.aggregation not in (None, "none")
        if self.criterion.aggregation == "supervised" and answer.aggregation is None:
            return False
        if answer.coordinates or (weak and answer.number is not None):
            return True
        return self.options.allow_empty_column_selection and (computed or not answer.texts)

    def skip_reason(self, example: TableExample) -> str:
        """Return what is not known of an example, or that nothing answers it if only answers are learned."""
        is_null = example.answer is not None and example.answer.is_null
        if is_null and not self.options.allow_empty_column_selection:
            return "that nothing in the table answers, learned by task.allow_empty_column_selection=true"
        return super().skip_reason(example)

    def fit_threshold(self, predictions: Sequence[TableAnswer], examples: Mapping[str, TableExample]) -> None:
        """Set the null score from which questions are unanswerable to the value with the best accuracy.

        The threshold stays as it is without unanswerable questions.

        Args:
            predictions: of the dev split.
            examples: of the dev split, by id.

        Source: Rajpurkar et al. 2018, "Know What You Don't Know", `find_best_thresh` of their evaluation script.
        """
        gains = []
        for prediction in predictions:
            example = examples[prediction.example_id]
            if example.answer and prediction.null_score is not None:
                is_right = [denotation_is_right(choice, example) for choice in (prediction, _without_cells(prediction))]
                gains.append((prediction.null_score, is_right[0] - is_right[1]))
        if not gains or not any(example.answer and example.answer.is_null for example in examples.values()):
            return
        scores, changes = map(np.array, zip(*sorted(gains), strict=True))
        # Entry k: the questions with the k lowest null scores are answered.
        rights = np.append(0, changes.cumsum())
        bounds = np.concatenate([scores[:1] - 2, scores, scores[-1:] + 2])
        best = ((bounds[:-1] + bounds[1:]) / 2)[rights == rights.max()]
        self.null_threshold.fill_(float(best[np.abs(best).argmin()]))

    @property
    def null_threshold(self) -> Tensor:
        """The null score above which a question is unanswerable, a scalar in the head."""
        return cast(TableAnswerHead, self.head).null_threshold

    def decide(self, prediction: TableAnswer) -> TableAnswer:
        """Return the prediction, without cells if its null score exceeds the fitted threshold."""
        if prediction.null_score is None or prediction.null_score <= float(self.null_threshold):
            return prediction
        return _without_cells(prediction)

    def output_loss(self, output: EncoderOutput, head: TableAnswerHead, encoder: TableEncoder) -> Tensor:
        """Average the losses of all examples, a scalar."""
        logits = head(output.with_states(self.dropout(output.states)))
        losses: Tensor = self.criterion(logits, output.batch)
        if self.criterion.aggregation == "weak":
            computed = self.criterion.must_compute(logits, output.batch)
            self.count_losses(losses, {SELECTED: ~computed, COMPUTED: computed})
        return self.average_terms(losses.sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[TableAnswer]:
        """Return the cells and the aggregation of each example."""
        logits: AnswerLogits = self.head(output)
        answered = logits.without_null()
        cells = likely_cells(answered.probabilities(), output.batch, self.threshold)
        columns, aggregations = (_best(scores, len(cells)) for scores in (answered.columns, logits.aggregation))
        nulls: list[tuple[float | None, float]] = [(None, 0.0)] * len(cells)
        if logits.columns is not None and self.options.allow_empty_column_selection:
            shares = logits.columns.softmax(-1)[:, 0].tolist()
            nulls = list(zip(logits.null_scores().tolist(), shares, strict=True))
        return [
            TableAnswer(name, *chosen, AGGREGATIONS[aggregation], share, column_share * (1 - null[1]), *null)
            for name, chosen, (aggregation, share), (_, column_share), null in zip(
                output.batch.example_ids, cells, aggregations, columns, nulls, strict=True
            )
        ]

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, Tensor]:
        """Score tokens [B, length], above zero in cells of the answer, and aggregations [B, A] where there are any."""
        logits: AnswerLogits = self.head(output)
        scores = {"logits": output.spread_out(logits.final().float(), length, NO_LOGIT)}
        return scores if logits.aggregation is None else scores | {"logits_aggregation": logits.aggregation.float()}

    @property
    def auto_config(self) -> dict[str, Any]:
        """The names of the aggregations."""
        if not self.options.aggregations:
            return {"aggregation_labels": None}
        return {
            "num_aggregation_labels": len(AGGREGATIONS),
            "aggregation_labels": {place: name.upper() for place, name in enumerate(AGGREGATIONS)},
            "no_aggregation_label_index": AGGREGATIONS.index("none"),
        }

    def score(self, predictions: Sequence[TableAnswer], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return the denotation accuracy of all questions with an answer, of subsets, and of conversations."""
        chosen = {prediction.example_id: self.decide(prediction) for prediction in predictions}
        right = right_denotations(chosen, examples)
        scores = average_by_part(right, examples, "denotation_accuracy")
        scores |= sequence_accuracy(right, examples) | place_accuracy(right, examples)
        scores |= official_accuracy(chosen, examples)
        if self.criterion.aggregation == "supervised":
            scores |= structure_accuracy(chosen, examples)
        return scores

    def answers(self, predictions: Sequence[TableAnswer], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the text of the cells, or the computed number, by example."""
        return {
            p.example_id: ", ".join(answer_texts(p.aggregation, p.cells, examples[p.example_id].table))
            for p in map(self.decide, predictions)
        }

    def is_correct(self, prediction: TableAnswer, example: TableExample) -> bool:
        """Tell whether the denotation is the true one."""
        return denotation_is_right(self.decide(prediction), example)

    def selection(self, prediction: TableAnswer) -> Selection | None:
        """Return all chosen cells; none may be."""
        chosen = self.decide(prediction)
        return Selection(chosen.cells, chosen.probabilities, chosen.confidence, chosen.aggregation, chosen.is_null)

    def baselines(self, examples: Mapping[str, TableExample], training: Training[TableExample]) -> dict[str, float]:
        """Score the column that most often is the answer, and the cell nearest to the question by TF-IDF."""
        guesses = {"frequent_column": most_frequent_column(training(), examples), "tfidf": tfidf_cell(examples)}
        return {
            f"{baseline}/{name}": value
            for baseline, cells in guesses.items()
            for name, value in self.score([_guessed(*item) for item in cells.items()], examples).items()
        }


def _without_cells(prediction: TableAnswer) -> TableAnswer:
    """Choose no cells, which is no answer unless cells are counted."""
    return replace(prediction, cells=(), probabilities=(), is_null=prediction.aggregation != "count")


def _guessed(name: str, guess: Guess) -> TableAnswer:
    return TableAnswer(name, guess.cells, (1.0,) * len(guess.cells), guess.aggregation)


def likely_cells(
    probabilities: Tensor, batch: TableBatch, threshold: float
) -> list[tuple[Coordinates, tuple[float, ...]]]:
    """Give the body cells whose tokens' probabilities [B, T] have a mean above a threshold, by column, and these means.

    Source: google-research/tapas, `experiments/prediction_utils.py`.
    """
    names = batch.column_ids * SUMMARY_ROW + batch.row_ids
    examples = zip(*(x.detach().cpu().numpy() for x in (probabilities, names, batch.in_body)), strict=True)
    return [_likely(shares[in_body], cells[in_body], threshold) for shares, cells, in_body in examples]


def _likely(shares: np.ndarray, names: np.ndarray, threshold: float) -> tuple[Coordinates, tuple[float, ...]]:
    unique_names, cells, sizes = np.unique(names, return_inverse=True, return_counts=True)
    means = np.bincount(cells, shares, len(unique_names)) / sizes
    chosen = means > threshold
    places = ((int(name % SUMMARY_ROW) - 1, int(name // SUMMARY_ROW) - 1) for name in unique_names[chosen])
    return tuple(places), tuple(means[chosen].tolist())


def _best(logits: Tensor | None, count: int) -> list[tuple[int, float]]:
    """Return the place with the best score [B, A] and its probability.

    The first one for sure where there are no scores.
    """
    if logits is None:
        return [(0, 1.0)] * count
    shares, places = logits.softmax(-1).max(-1)
    return list(zip(places.tolist(), shares.tolist(), strict=True))
