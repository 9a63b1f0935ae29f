"""Losses of selecting candidates, several of which may be correct, and spans.

Losses of candidates take logits [B, K], a mask of entries that are not padding [B, K], and a mask of correct candidates
[B, K]. They return the loss of each example [B]. The loss is 0 if an example has no correct candidate
(`binary_cross_entropy`: no entries).

Source of the loss of cells and aggregations (`TableAnswerLoss`), where aggregation 0 is none: google-research/tapas,
`tapas_classifier_model`: `_get_classification_outputs`, `_single_column_cell_selection_loss`,
`_calculate_aggregate_mask`, `_calculate_aggregation_loss`, `_calculate_expected_result` and
`_calculate_regression_loss`. See also the TAPAS paper, section 4 and appendix D.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, huber_loss

from mate_cli.models.heads.cell_grid import CellGrid
from mate_cli.models.heads.table_answer import AnswerLogits
from mate_cli.tokenization.layout import TableBatch


def marginal_likelihood(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Compute the cross entropy towards the predicted distribution over the correct candidates, [B].

    The soft label is q(z) = p(z) / sum of p over the correct candidates. No gradient flows through q, so the gradient
    equals the gradient of -log sum_{z in candidates} p(z).

    Args:
        logits: logits of entries, [B, K].
        mask: True for entries that are not padding, Bool [B, K].
        candidates: True for correct entries, Bool [B, K].

    Source: MATE paper, section 4.1.
    """
    log_probabilities = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    candidate_logits = logits.detach().masked_fill(~(candidates & mask), -torch.inf)
    has_candidate = (candidates & mask).any(-1)
    soft_labels = torch.where(has_candidate[:, None], candidate_logits, torch.zeros_like(candidate_logits)).softmax(-1)
    return _expected(log_probabilities, soft_labels * (candidates & mask))


def hard_em(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Compute the cross entropy towards the most probable of the correct candidates (hard EM), [B].

    Args:
        logits: logits of entries, [B, K].
        mask: True for entries that are not padding, Bool [B, K].
        candidates: True for correct entries, Bool [B, K].
    """
    log_probabilities = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    best_candidate = logits.detach().masked_fill(~(candidates & mask), -torch.inf).argmax(-1)
    labels = torch.nn.functional.one_hot(best_candidate, logits.shape[-1]).to(logits.dtype)
    return _expected(log_probabilities, labels * (candidates & mask))


def binary_cross_entropy(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Compute the binary cross entropy, averaged over the entries of each example without padding, [B].

    Args:
        logits: logits of entries, [B, K].
        mask: True for entries that are not padding, Bool [B, K].
        candidates: True for correct entries, Bool [B, K].

    Source: microsoft/Transformer-XH, `utils.py`, over the nodes of a graph.
    """
    losses = binary_cross_entropy_with_logits(logits, candidates.to(logits.dtype), reduction="none")
    return (losses * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def soft_cross_entropy(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Compute the cross entropy towards the uniform distribution over the correct candidates, [B].

    Args:
        logits: logits of entries, [B, K].
        mask: True for entries that are not padding, Bool [B, K].
        candidates: True for correct entries, Bool [B, K].

    Source: wenhuchen/HybridQA, `train_stage12.py` (with its constants 1e-6 in the labels and 1e-8 in the logarithm).
    """
    probabilities = logits.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)
    is_correct = (candidates & mask).to(logits.dtype)
    labels = is_correct / (is_correct.sum(-1, keepdim=True) + 1e-6)
    return -(labels * (probabilities + 1e-8).log()).sum(-1)


def _expected(log_probabilities: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    # A masked entry has log probability -inf and label 0. Their product would be NaN, also in the backward pass.
    finite = log_probabilities.masked_fill(labels == 0, 0.0)
    return -(labels * finite).sum(-1)


def correct_spans(label_ids: torch.Tensor, max_length: int) -> torch.Tensor:
    """Find the spans that cover exactly one sequence of consecutive labeled tokens.

    Args:
        label_ids: 1 on the tokens of the answer [B, T].
        max_length: maximum number L of tokens of a span.

    Returns:
        The mask of correct spans, Bool [B, T, L], by first token and by length minus one. A sequence of more than L
        labeled tokens has no correct span.
    """
    labels = torch.nn.functional.pad(label_ids.bool(), (1, 1))
    is_start = labels[:, 1:-1] & ~labels[:, :-2]
    is_end = labels[:, 1:-1] & ~labels[:, 2:]
    is_end_after = torch.nn.functional.pad(is_end, (0, max_length - 1)).unfold(1, max_length, 1)
    return is_start[..., None] & is_end_after


def span_loss(logits: torch.Tensor, label_ids: torch.Tensor) -> torch.Tensor:
    """Compute the negative log likelihood of the correct spans, by the softmax over all spans.

    Args:
        logits: logits of every span, [B, T, L], large negative for forbidden spans.
        label_ids: 1 on the tokens of the answer, [B, T].

    Returns:
        The loss of each example [B], 0 if it has no correct span.

    Source: google-research/tapas, `utils/span_prediction_utils.py`, mode "span".
    """
    log_probabilities = logits.flatten(1).log_softmax(-1)
    correct = correct_spans(label_ids, logits.shape[-1]).flatten(1)
    return -log_probabilities.masked_fill(~correct, 0.0).sum(-1)


Supervision = Literal["none", "supervised", "weak"]
AverageApproximation = Literal["ratio", "first_order", "second_order"]
LabelWeighting = Literal["released", "intended"]

EPSILON = 1e-10
"""Constant added to denominators."""


@dataclass(frozen=True)
class TableAnswerLoss:
    """The loss of table question answering: terms of cell selection, aggregation and computed number.

    The terms depend on the supervision of the aggregation. The options are documented in `TableQA`.
    """

    aggregation: Supervision
    cell_selection_preference: float
    huber_delta: float
    answer_loss_cutoff: float | None
    normalise_answer_loss: bool
    average_approximation: AverageApproximation
    aggregation_temperature: float
    aggregation_importance: float
    answer_importance: float
    positive_weight: float
    label_weighting: LabelWeighting

    def __call__(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """Compute the loss of each example, [B], from the logits of the head and the labels of the batch."""
        selection = self.selection(logits, batch)
        if logits.aggregation is None:
            return selection
        if self.aggregation == "supervised":
            ids = _require(batch.aggregation_ids)
            aggregation_loss = cross_entropy(logits.aggregation, ids, ignore_index=-1, reduction="none")
            return selection + self.aggregation_importance * aggregation_loss
        is_computed = self.must_compute(logits, batch)
        weighted_loss = self.aggregation_importance * weak_aggregation_loss(logits.aggregation, is_computed)
        return selection * ~is_computed + self.within_cutoff(weighted_loss, self.answer(logits, batch, is_computed))

    def selection(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """Compute the loss of selecting the labeled cells, per example, [B].

        Examples whose answer is a computed number are included.
        """
        labels = _require(batch.label_ids)
        if logits.columns is not None:
            return one_column_loss(logits.tokens, logits.columns, labels, logits.grid)
        return free_selection_loss(
            logits.tokens,
            labels,
            batch.attention_mask == 1,
            positive_weight=self.positive_weight,
            weighting=self.label_weighting,
        )

    def must_compute(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """Return the mask of examples that are trained to aggregate cells instead of selecting cells, Bool [B]."""
        has_cells = _require(batch.label_ids).sum(-1) > 0
        answers = _require(batch.answer_numbers)
        return must_aggregate(_require(logits.aggregation), answers, has_cells, self.cell_selection_preference)

    def result(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """Compute the expected result of aggregating the predicted cells of each example, [B]."""
        body_probabilities = logits.probabilities() * batch.in_body
        shares = share_among_tokens(body_probabilities, batch.row_ids, batch.column_ids)
        aggregations = (_require(logits.aggregation)[:, 1:] / self.aggregation_temperature).softmax(-1)
        return expected_result(shares, _require(batch.numeric_values), aggregations, self.average_approximation)

    def answer(self, logits: AnswerLogits, batch: TableBatch, computed: Tensor) -> Tensor:
        """Compute the Huber loss between expected results and correct numbers, [B], without a weight.

        Args:
            logits: logits of the head.
            batch: batch of the logits.
            computed: mask of examples that are trained to compute their answer, Bool [B].
        """
        return answer_loss(
            self.result(logits, batch),
            _require(batch.answer_numbers),
            computed,
            delta=self.huber_delta,
            normalise=self.normalise_answer_loss,
        )

    def within_cutoff(self, chosen: Tensor, answer: Tensor) -> Tensor:
        """Add the weighted computed-number loss to the aggregation loss, per example, [B].

        The sum is 0 if the loss of the computed number exceeds `answer_loss_cutoff`.

        Args:
            chosen: weighted loss of the aggregation, [B].
            answer: loss of the computed number, [B].
        """
        total = chosen + self.answer_importance * answer
        if self.answer_loss_cutoff is None:
            return total
        return torch.where(answer > self.answer_loss_cutoff, 0.0, total)


def one_column_loss(tokens: Tensor, columns: Tensor, label_ids: Tensor, grid: CellGrid) -> Tensor:
    """Compute the negative log likelihood of the correct column and of the labels of its cells.

    The term of cells is the mean over the cells of the column, header included. The correct column is the column with
    the most labeled tokens, the first of several. Without labels, column 0 (no column) is correct and the term of cells
    is 0.

    Args:
        tokens: logits of tokens, [B, T].
        columns: logits of columns, [B, C].
        label_ids: 1 on tokens of the answer, [B, T].
        grid: cell of each token.

    Returns:
        The loss of each example [B].
    """
    labelled = grid.sums(label_ids.float())
    column = labelled.sum(1).argmax(-1)
    in_column = grid.in_column(column) & grid.exists
    cell_loss = binary_cross_entropy_with_logits(grid.means(tokens), (labelled > 0).float(), reduction="none")
    cell_loss = (cell_loss * in_column).sum((1, 2)) / in_column.sum((1, 2)).clamp(min=1)
    return cross_entropy(columns, column, reduction="none") + cell_loss * (column > 0)


def free_selection_loss(
    tokens: Tensor,
    label_ids: Tensor,
    real: Tensor,
    *,
    positive_weight: float = 10.0,
    weighting: LabelWeighting = "released",
) -> Tensor:
    """Compute the mean binary cross entropy of all tokens, for cells selected in any column.

    Tokens of the question and the header are included.

    Args:
        tokens: logits of tokens, [B, T].
        label_ids: 1 on tokens of the answer, [B, T].
        real: False on padding, [B, T].
        positive_weight: weight of tokens with label 1. Other tokens have weight 1.
        weighting: "intended" applies `positive_weight` to label 1 only. "released" applies it to every token, as
            google-research/tapas does: its `label_ids == 0` compares a TensorFlow 1 tensor by identity, and is False.

    Returns:
        The loss of each example [B].
    """
    likelihoods = binary_cross_entropy_with_logits(tokens, label_ids.float(), reduction="none")
    positive = torch.ones_like(real) if weighting == "released" else label_ids > 0
    weights = torch.where(positive, positive_weight, 1.0) * real
    return (likelihoods * weights).sum(-1) / real.sum(-1).clamp(min=1)


@torch.no_grad()
def must_aggregate(logits: Tensor, answers: Tensor, has_cells: Tensor, preference: float) -> Tensor:
    """Return which examples are trained to compute a number instead of selecting cells, [B].

    Other examples select cells. A number that no cell contains must be computed. A number that a cell contains is
    computed only if the network predicts a total probability of more than `preference` for all aggregations.

    Args:
        logits: logits of aggregations, [B, A].
        answers: answers as numbers, [B], NaN if an answer is not a number.
        has_cells: whether cells that contain the answer are known, Bool [B].
        preference: minimum total probability of aggregations.
    """
    computes = logits.softmax(-1)[:, 1:].sum(-1) > preference
    return ~answers.isnan() & (computes | ~has_cells)


def weak_aggregation_loss(logits: Tensor, computed: Tensor) -> Tensor:
    """Compute the negative log likelihood of any aggregation, or of no aggregation, per example, [B].

    Args:
        logits: logits of aggregations, [B, A]. Aggregation 0 is no aggregation.
        computed: True if the answer must be computed by any aggregation, Bool [B].
    """
    log_probabilities = logits.log_softmax(-1)
    return -torch.where(computed, log_probabilities[:, 1:].logsumexp(-1), log_probabilities[:, 0])


def expected_result(
    probabilities: Tensor, values: Tensor, aggregations: Tensor, approximation: AverageApproximation = "ratio"
) -> Tensor:
    """Compute the expected result of aggregating cells that are selected independently at random.

    The result is the mean of the expected sum, average and count, weighted by the aggregation probabilities.

    Args:
        probabilities: probability that the cell of each token is selected, divided among the tokens of the cell, 0
            outside the body, [B, T].
        values: number in the cell of each token, [B, T]. Values that are not finite are treated as 0.
        aggregations: probabilities of sum, average and count, [B, 3].
        approximation: approximation of the expected average: the ratio of expectations, or a Taylor series around the
            expected count.

    Returns:
        The expected result of each example, [B].
    """
    values = torch.where(values.isfinite(), values, 0.0)
    count, total = probabilities.sum(-1), (probabilities * values).sum(-1)
    if approximation == "ratio":
        average = total / (count + EPSILON)
    else:
        average = (values * probabilities * _inverse_count(probabilities, approximation)).sum(-1)
    return (torch.stack([total, average, count], dim=-1) * aggregations).sum(-1)


def _inverse_count(probabilities: Tensor, approximation: AverageApproximation) -> Tensor:
    """Compute the expected inverse of the number of selected cells, given that a token's cell is selected, [B, T]."""
    expected_count = probabilities.sum(-1, keepdim=True) - probabilities + 1
    if approximation == "first_order":
        return 1 / expected_count
    variances = probabilities * (1 - probabilities)
    variance = variances.sum(-1, keepdim=True) - variances
    return (variance / expected_count.square() + 1) / expected_count


def answer_loss(
    expected: Tensor, answers: Tensor, computed: Tensor, *, delta: float = 1.0, normalise: bool = False
) -> Tensor:
    """Compute the Huber loss between expected results and correct answers.

    Args:
        expected: expected results, [B].
        answers: correct results, [B], NaN if the answer is no number.
        computed: mask of examples with a loss, Bool [B]. The loss of other examples is 0.
        delta: error above which the loss is linear.
        normalise: divide results and answers by the larger of their absolute values first.

    Returns:
        The loss of each example [B].
    """
    answers = torch.where(answers.isnan(), 0.0, answers)
    if normalise:
        scale = torch.maximum(expected.abs(), answers.abs()).detach() + EPSILON
        expected, answers = expected / scale, answers / scale
    return huber_loss(expected * computed, answers * computed, delta=delta, reduction="none")


def share_among_tokens(probabilities: Tensor, row_ids: Tensor, column_ids: Tensor) -> Tensor:
    """Divide the value of each token by the number of tokens of its cell.

    Args:
        probabilities: values of tokens, [B, T].
        row_ids: row ids of tokens, [B, T]. The tokens of a cell must be adjacent.
        column_ids: column ids of tokens, [B, T].

    Returns:
        The divided values, [B, T].
    """
    is_cell_start = torch.ones_like(row_ids)
    is_cell_start[:, 1:] = (row_ids[:, 1:] != row_ids[:, :-1]) | (column_ids[:, 1:] != column_ids[:, :-1])
    cells = is_cell_start.cumsum(1) - 1
    sizes = torch.zeros_like(cells).scatter_add(1, cells, torch.ones_like(cells))
    return probabilities / sizes.gather(1, cells)


def _require(values: Tensor | None) -> Tensor:
    assert values is not None
    return values
