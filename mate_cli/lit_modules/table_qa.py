"""Table question answering by selected cells: SQA, WikiTableQuestions, WikiSQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from mate_cli.data.baselines import most_frequent_column, tfidf_cell
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
from mate_cli.models.layers.encoder import Dropout, FastDropout
from mate_cli.tables.denotation import answer_texts
from mate_cli.tables.example import AGGREGATIONS, Answer, Coordinates, TableExample
from mate_cli.tokenization.layout import SUMMARY_ROW, TableBatch

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
SELECTED = "answers in cells"
"""Key in `loss_counts` of answers that are selected, in addition to `COMPUTED`."""


@dataclass(frozen=True)
class TableAnswer:
    """The predicted cells of one question and their aggregation.

    Args:
        example_id: id of the example.
        cells: (row, column) of body cells, both from 0, column by column.
        probabilities: probability of each cell, the mean over its tokens.
        aggregation: aggregation of the cells, one of `AGGREGATIONS`.
        aggregation_probability: probability of the aggregation, 1 if the task has no aggregations.
        column_probability: probability of the selected column, 1 if cells are selected in any column.
        null_score: logit of no column minus the logit of the selected column. None if a column must be selected.
        null_probability: probability of no column.
        is_null: whether the prediction is that the table does not contain the answer.
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
        """Confidence in the answer: the product of mean cell, column and aggregation probabilities.

        The confidence is 0 without cells, and `null_probability` for a null answer.
        """
        if self.is_null:
            return self.null_probability
        cells = sum(self.probabilities) / len(self.probabilities) if self.probabilities else 0.0
        return cells * self.column_probability * self.aggregation_probability


class TableQA(TableTask[TableExample, TableAnswer]):
    """Table question answering: select cells, and aggregate the cells by sum, average or count.

    Cells are selected in one column or in any column.

    Args:
        aggregation: supervision of the aggregation: "none" (no aggregations), "supervised" (labeled in the examples),
            or "weak" (learned from the answer).
        temperature: temperature that divides token logits.
        select_one_column: select one column, and cells in this column only.
        allow_empty_column_selection: allow the selection of no column.
        average_logits_per_cell: give each token the mean logit of its cell.
        zero_cell_head: initialize the weights of the token and column logits to zero.
        threshold: minimum mean probability of the tokens of a selected cell (exclusive).
        cell_selection_preference: total probability of aggregations above which a number that a cell contains is
            computed instead of selected (weak).
        huber_delta: error of computed numbers above which the loss is linear (weak).
        answer_loss_cutoff: loss of a computed number above which the example is ignored. None: no limit (weak).
        normalise_answer_loss: divide computed and correct numbers by the larger of the two first (weak).
        average_approximation: approximation of the expected average (weak).
        aggregation_temperature: temperature of the aggregation logits in the expected result (weak).
        aggregation_importance: weight of the aggregation loss.
        answer_importance: weight of the loss of computed numbers (weak).
        positive_weight: weight of answer tokens if cells are selected in any column.
        label_weighting: "released" applies `positive_weight` to all tokens, as the code of the published checkpoints
            does. "intended" applies it to answer tokens only.
        max_rows: number of distinguished rows, including the header. Later rows share one logit (one column only).
        max_columns: number of distinguished columns, including that of the question. Later columns are treated as one.
        dropout: dropout probability of the hidden states before the head.

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
        """Maximum numbers of body rows and columns, or (None, None) without `select_one_column`."""
        options = self.options
        return (options.max_rows - 1, options.max_columns - 1) if options.select_one_column else (None, None)

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the examples that have the labels which `aggregation` needs for training."""
        return [example for example in examples if example.answer and self._teaches(example.answer)]

    def _teaches(self, answer: Answer) -> bool:
        """Return whether an answer has the labels that the task needs for training.

        An answer needs cells to select or a number to compute (weak), or is empty if the task allows this.
        """
        is_weak, is_aggregated = self.criterion.aggregation == "weak", answer.aggregation not in (None, "none")
        if self.criterion.aggregation == "supervised" and answer.aggregation is None:
            return False
        if answer.coordinates or (is_weak and answer.number is not None):
            return True
        return self.options.allow_empty_column_selection and (is_aggregated or not answer.texts)

    def skip_reason(self, example: TableExample) -> str:
        """Return why the task cannot train on an example, such as an unanswerable question, or ""."""
        is_null = example.answer is not None and example.answer.is_null
        if is_null and not self.options.allow_empty_column_selection:
            return "that nothing in the table answers, learned by task.allow_empty_column_selection=true"
        return super().skip_reason(example)

    def fit_threshold(self, predictions: Sequence[TableAnswer], examples: Mapping[str, TableExample]) -> None:
        """Fit the null score above which a question is predicted to be unanswerable.

        The threshold with the best accuracy is selected. The threshold is not changed if the split has no unanswerable
        questions.

        Args:
            predictions: predictions of the dev split.
            examples: examples of the dev split, by id.

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
        num_correct = np.append(0, changes.cumsum())
        bounds = np.concatenate([scores[:1] - 2, scores, scores[-1:] + 2])
        best_thresholds = ((bounds[:-1] + bounds[1:]) / 2)[num_correct == num_correct.max()]
        self.null_threshold.fill_(float(best_thresholds[np.abs(best_thresholds).argmin()]))

    @property
    def null_threshold(self) -> Tensor:
        """Threshold of the null score, above which a question is predicted to be unanswerable.

        It is a scalar buffer of the head.
        """
        return cast(TableAnswerHead, self.head).null_threshold

    def decide(self, prediction: TableAnswer) -> TableAnswer:
        """Return the prediction, or a copy without cells if its null score exceeds `null_threshold`."""
        if prediction.null_score is None or prediction.null_score <= float(self.null_threshold):
            return prediction
        return _without_cells(prediction)

    def output_loss(self, output: EncoderOutput, head: TableAnswerHead, encoder: TableEncoder) -> Tensor:
        """Compute the table question answering loss, averaged over examples, a scalar.

        Args:
            output: output of the encoder.
            head: head of the task, or the second head for the auxiliary encoder of the network.
            encoder: encoder that computed `output`.
        """
        logits = head(output.with_states(self.dropout(output.states)))
        losses: Tensor = self.criterion(logits, output.batch)
        if self.criterion.aggregation == "weak":
            is_computed = self.criterion.must_compute(logits, output.batch)
            self.count_losses(losses, {SELECTED: ~is_computed, COMPUTED: is_computed})
        return self.average_terms(losses.sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[TableAnswer]:
        """Return the selected cells and the most probable aggregation of each example."""
        logits: AnswerLogits = self.head(output)
        answer_logits = logits.without_null()
        cells = likely_cells(answer_logits.probabilities(), output.batch, self.threshold)
        columns, aggregations = (_argmax(scores, len(cells)) for scores in (answer_logits.columns, logits.aggregation))
        nulls: list[tuple[float | None, float]] = [(None, 0.0)] * len(cells)
        if logits.columns is not None and self.options.allow_empty_column_selection:
            shares = logits.columns.softmax(-1)[:, 0].tolist()
            nulls = list(zip(logits.null_scores().tolist(), shares, strict=True))
        return [
            TableAnswer(name, *selected_cells, AGGREGATIONS[aggregation], share, column_share * (1 - null[1]), *null)
            for name, selected_cells, (aggregation, share), (_, column_share), null in zip(
                output.batch.example_ids, cells, aggregations, columns, nulls, strict=True
            )
        ]

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, Tensor]:
        """Compute token logits [B, length] and, if the task has aggregations, aggregation logits [B, A].

        Token logits are above zero in answer cells.
        """
        logits: AnswerLogits = self.head(output)
        scores = {"logits": output.spread_out(logits.final().float(), length, NO_LOGIT)}
        return scores if logits.aggregation is None else scores | {"logits_aggregation": logits.aggregation.float()}

    @property
    def auto_config(self) -> dict[str, Any]:
        """Aggregation options for config.json: their number and names, and the index of "none"."""
        if not self.options.aggregations:
            return {"aggregation_labels": None}
        return {
            "num_aggregation_labels": len(AGGREGATIONS),
            "aggregation_labels": {index: name.upper() for index, name in enumerate(AGGREGATIONS)},
            "no_aggregation_label_index": AGGREGATIONS.index("none"),
        }

    def score(self, predictions: Sequence[TableAnswer], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the denotation accuracy of all questions, of subsets and of whole conversations."""
        decided = {prediction.example_id: self.decide(prediction) for prediction in predictions}
        is_correct = right_denotations(decided, examples)
        scores = average_by_part(is_correct, examples, "denotation_accuracy")
        scores |= sequence_accuracy(is_correct, examples) | place_accuracy(is_correct, examples)
        scores |= official_accuracy(decided, examples)
        if self.criterion.aggregation == "supervised":
            scores |= structure_accuracy(decided, examples)
        return scores

    def answers(self, predictions: Sequence[TableAnswer], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the texts of the selected cells, or the computed number as text, by example id."""
        return {
            p.example_id: ", ".join(answer_texts(p.aggregation, p.cells, examples[p.example_id].table))
            for p in map(self.decide, predictions)
        }

    def is_correct(self, prediction: TableAnswer, example: TableExample) -> bool:
        """Return whether the predicted cells or number equal the gold answer."""
        return denotation_is_right(self.decide(prediction), example)

    def selection(self, prediction: TableAnswer) -> Selection | None:
        """Return the selected cells and the aggregation. A null answer has no cells."""
        decided = self.decide(prediction)
        return Selection(decided.cells, decided.probabilities, decided.confidence, decided.aggregation, decided.is_null)

    def baselines(self, examples: Mapping[str, TableExample], training: Training[TableExample]) -> dict[str, float]:
        """Score two baselines: the column that most often has the answer, and the best cell by TF-IDF."""
        guesses = {"frequent_column": most_frequent_column(training(), examples), "tfidf": tfidf_cell(examples)}
        scores: dict[str, float] = {}
        for baseline, cells in guesses.items():
            answers = [TableAnswer(name, g.cells, (1.0,) * len(g.cells), g.aggregation) for name, g in cells.items()]
            scores |= {f"{baseline}/{name}": value for name, value in self.score(answers, examples).items()}
        return scores


def _without_cells(prediction: TableAnswer) -> TableAnswer:
    """Return a copy of a prediction from which all selected cells are removed.

    The copy is a null answer unless the aggregation is count.
    """
    return replace(prediction, cells=(), probabilities=(), is_null=prediction.aggregation != "count")


def likely_cells(
    probabilities: Tensor, batch: TableBatch, threshold: float
) -> list[tuple[Coordinates, tuple[float, ...]]]:
    """Return the body cells of each example whose mean token probability is above a threshold.

    Args:
        probabilities: probabilities of tokens, [B, T].
        batch: batch of the tokens.
        threshold: minimum mean probability (exclusive).

    Returns:
        The cells, column by column, and their mean probabilities, for each example.

    Source: google-research/tapas, `experiments/prediction_utils.py`.
    """
    names = batch.column_ids * SUMMARY_ROW + batch.row_ids
    examples = zip(*(x.detach().cpu().numpy() for x in (probabilities, names, batch.in_body)), strict=True)
    return [_select_cells(shares[in_body], cells[in_body], threshold) for shares, cells, in_body in examples]


def _select_cells(shares: np.ndarray, names: np.ndarray, threshold: float) -> tuple[Coordinates, tuple[float, ...]]:
    unique_names, cells, sizes = np.unique(names, return_inverse=True, return_counts=True)
    means = np.bincount(cells, shares, len(unique_names)) / sizes
    is_selected = means > threshold
    coordinates = ((int(name % SUMMARY_ROW) - 1, int(name // SUMMARY_ROW) - 1) for name in unique_names[is_selected])
    return tuple(coordinates), tuple(means[is_selected].tolist())


def _argmax(logits: Tensor | None, count: int) -> list[tuple[int, float]]:
    """Return the index with the highest logit [B, A] and its probability, for each example.

    Without logits, return index 0 with probability 1 for `count` examples.
    """
    if logits is None:
        return [(0, 1.0)] * count
    shares, indices = logits.softmax(-1).max(-1)
    return list(zip(indices.tolist(), shares.tolist(), strict=True))
