"""Losses of selecting cells or other candidates, of which any may be the right one, and of selecting spans.

Those of candidates take scores [B, K], a mask [B, K] that is True where an entry is real, and [B, K] True where one is
right or holds the answer. They return the loss of each example [B]; 0 where nothing is right, of `binary`
where nothing is real.

That of cells and what is done with them (`TableAnswerLoss`), aggregation 0 being none: google-research/tapas,
`tapas_classifier_model`: `_get_classification_outputs`, `_single_column_cell_selection_loss`,
`_calculate_aggregate_mask`, `_calculate_aggregation_loss`, `_calculate_expected_result` and
`_calculate_regression_loss`; TAPAS paper, section 4 and appendix D.
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
    """Return the cross entropy towards the model's own belief among the candidates, through which no gradient flows.

    The soft label is q(z) = p(z) / sum of p over the candidates, so the gradient equals that of
    -log sum_{z in candidates} p(z).

    Source: MATE paper, section 4.1.
    """
    log_probabilities = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    among = logits.detach().masked_fill(~(candidates & mask), -torch.inf)
    known = (candidates & mask).any(-1)
    soft_labels = torch.where(known[:, None], among, torch.zeros_like(among)).softmax(-1)
    return _expected(log_probabilities, soft_labels * (candidates & mask))


def hard_em(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy towards the candidate that the model likes best (hard expectation-maximisation)."""
    log_probabilities = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    best = logits.detach().masked_fill(~(candidates & mask), -torch.inf).argmax(-1)
    labels = torch.nn.functional.one_hot(best, logits.shape[-1]).to(logits.dtype)
    return _expected(log_probabilities, labels * (candidates & mask))


def binary(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return the binary cross entropy, the mean over the real entries of each example.

    Source: microsoft/Transformer-XH, `utils.py`, over the nodes of a graph.
    """
    losses = binary_cross_entropy_with_logits(logits, candidates.to(logits.dtype), reduction="none")
    return (losses * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def soft_cross_entropy(logits: torch.Tensor, mask: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy towards the uniform distribution of right candidates, with the reference's small terms.

    Source: wenhuchen/HybridQA, `train_stage12.py` (1e-6 in the labels, 1e-8 in the logarithm).
    """
    probabilities = logits.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)
    right = (candidates & mask).to(logits.dtype)
    labels = right / (right.sum(-1, keepdim=True) + 1e-6)
    return -(labels * (probabilities + 1e-8).log()).sum(-1)


def _expected(log_probabilities: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    # A masked entry has log probability -inf and label 0: their product would be NaN, in the backward pass too.
    finite = log_probabilities.masked_fill(labels == 0, 0.0)
    return -(labels * finite).sum(-1)


def correct_spans(label_ids: torch.Tensor, max_length: int) -> torch.Tensor:
    """Mark the spans that start where a run of labelled tokens starts and end where one ends.

    Args:
        label_ids: 1 on the tokens of the answer [B, T].
        max_length: L, the most tokens of a span.

    Returns:
        Bool [B, T, L], axis L being the length minus one; a run of more than L tokens has no correct span.
    """
    labels = torch.nn.functional.pad(label_ids.bool(), (1, 1))
    starts = labels[:, 1:-1] & ~labels[:, :-2]
    ends = labels[:, 1:-1] & ~labels[:, 2:]
    ends_after = torch.nn.functional.pad(ends, (0, max_length - 1)).unfold(1, max_length, 1)
    return starts[..., None] & ends_after


def span_loss(logits: torch.Tensor, label_ids: torch.Tensor) -> torch.Tensor:
    """Return the negative log likelihood of the correct spans among all spans.

    Args:
        logits: scores of every span [B, T, L]; forbidden spans are very negative.
        label_ids: 1 on the tokens of the answer [B, T].

    Returns:
        The loss of each example [B]; 0 where it has no correct span.

    Source: google-research/tapas, `utils/span_prediction_utils.py`, mode "span".
    """
    log_probabilities = logits.flatten(1).log_softmax(-1)
    correct = correct_spans(label_ids, logits.shape[-1]).flatten(1)
    return -log_probabilities.masked_fill(~correct, 0.0).sum(-1)


Supervision = Literal["none", "supervised", "weak"]
AverageApproximation = Literal["ratio", "first_order", "second_order"]
LabelWeighting = Literal["released", "intended"]

SMALL = 1e-10
"""Added to what is divided by."""


@dataclass(frozen=True)
class TableAnswerLoss:
    """The loss of an example, depending on what is known of its answer; the options are those of `TableQA`."""

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
        """Return the loss of each example [B]."""
        selection = self.selection(logits, batch)
        if logits.aggregation is None:
            return selection
        if self.aggregation == "supervised":
            ids = _require(batch.aggregation_ids)
            known = cross_entropy(logits.aggregation, ids, ignore_index=-1, reduction="none")
            return selection + self.aggregation_importance * known
        computed = self.must_compute(logits, batch)
        chosen = self.aggregation_importance * weak_aggregation_loss(logits.aggregation, computed)
        return selection * ~computed + self.within_cutoff(chosen, self.answer(logits, batch, computed))

    def selection(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """Return the loss of selecting cells, whether or not the answer is selected: [B]."""
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
        """Return which examples learn to compute their answer, Bool [B]."""
        has_cells = _require(batch.label_ids).sum(-1) > 0
        answers = _require(batch.answer_numbers)
        return must_aggregate(_require(logits.aggregation), answers, has_cells, self.cell_selection_preference)

    def result(self, logits: AnswerLogits, batch: TableBatch) -> Tensor:
        """Return the number that is expected of each example [B]."""
        chosen = logits.probabilities() * batch.in_body
        shares = share_among_tokens(chosen, batch.row_ids, batch.column_ids)
        aggregations = (_require(logits.aggregation)[:, 1:] / self.aggregation_temperature).softmax(-1)
        return expected_result(shares, _require(batch.numeric_values), aggregations, self.average_approximation)

    def answer(self, logits: AnswerLogits, batch: TableBatch, computed: Tensor) -> Tensor:
        """Return the loss of computed numbers, unweighted: [B]."""
        return answer_loss(
            self.result(logits, batch),
            _require(batch.answer_numbers),
            computed,
            delta=self.huber_delta,
            normalise=self.normalise_answer_loss,
        )

    def within_cutoff(self, chosen: Tensor, answer: Tensor) -> Tensor:
        """Return the losses of aggregations and of computed numbers together [B].

        0 where the latter exceeds the cutoff.
        """
        total = chosen + self.answer_importance * answer
        if self.answer_loss_cutoff is None:
            return total
        return torch.where(answer > self.answer_loss_cutoff, 0.0, total)


def one_column_loss(tokens: Tensor, columns: Tensor, label_ids: Tensor, grid: CellGrid) -> Tensor:
    """Return the negative log likelihood of the right column, plus the mean of that of its cells, header included.

    The right column has most labelled tokens, the first of them on ties; without labels it is column 0, which has no
    cells to get right.

    Args:
        tokens: scores [B, T].
        columns: scores [B, C].
        label_ids: 1 on tokens of the answer [B, T].
        grid: which cell each token is in.

    Returns:
        The loss of each example [B].
    """
    labelled = grid.sums(label_ids.float())
    column = labelled.sum(1).argmax(-1)
    here = grid.in_column(column) & grid.exists
    of_cells = binary_cross_entropy_with_logits(grid.means(tokens), (labelled > 0).float(), reduction="none")
    of_cells = (of_cells * here).sum((1, 2)) / here.sum((1, 2)).clamp(min=1)
    return cross_entropy(columns, column, reduction="none") + of_cells * (column > 0)


def free_selection_loss(
    tokens: Tensor,
    label_ids: Tensor,
    real: Tensor,
    *,
    positive_weight: float = 10.0,
    weighting: LabelWeighting = "released",
) -> Tensor:
    """Return the mean negative log likelihood of all tokens, those of the question and the header among them.

    Args:
        tokens: scores [B, T].
        label_ids: 1 on tokens of the answer [B, T].
        real: False on padding [B, T].
        positive_weight: of tokens with label 1, others weigh 1.
        weighting: "intended" weighs so; "released" gives every token the weight of label 1, as the released code
            does: its `label_ids == 0` compares a TensorFlow 1 tensor by identity, and is False.

    Returns:
        The loss of each example [B].
    """
    likelihoods = binary_cross_entropy_with_logits(tokens, label_ids.float(), reduction="none")
    positive = torch.ones_like(real) if weighting == "released" else label_ids > 0
    weights = torch.where(positive, positive_weight, 1.0) * real
    return (likelihoods * weights).sum(-1) / real.sum(-1).clamp(min=1)


@torch.no_grad()
def must_aggregate(logits: Tensor, answers: Tensor, has_cells: Tensor, preference: float) -> Tensor:
    """Return which examples learn to compute their answer, Bool [B]; the others learn to select it.

    A number that is in no cell must be computed. One that also is in a cell is computed only where the network itself
    gives more than `preference` to all aggregations together.

    Args:
        logits: scores of aggregations [B, A].
        answers: the answers as numbers [B], NaN where they are none.
        has_cells: whether cells that hold the answer are known [B].
        preference: see above.
    """
    computes = logits.softmax(-1)[:, 1:].sum(-1) > preference
    return ~answers.isnan() & (computes | ~has_cells)


def weak_aggregation_loss(logits: Tensor, computed: Tensor) -> Tensor:
    """Return the negative log likelihood of any aggregation where the answer is computed, else of none: [B]."""
    log_probabilities = logits.log_softmax(-1)
    return -torch.where(computed, log_probabilities[:, 1:].logsumexp(-1), log_probabilities[:, 0])


def expected_result(
    probabilities: Tensor, values: Tensor, aggregations: Tensor, approximation: AverageApproximation = "ratio"
) -> Tensor:
    """Return the sum, average and count of cells that are selected by chance, weighed by what is done with them.

    Args:
        probabilities: that each token's cell is selected, shared among the cell's tokens; 0 outside the body [B, T].
        values: the number of each token's cell [B, T]; anything that is not finite counts as 0.
        aggregations: probabilities of sum, average and count [B, 3].
        approximation: of the expected average: the ratio of expectations, or a Taylor series about the expected count.

    Returns:
        One number per example [B].
    """
    values = torch.where(values.isfinite(), values, 0.0)
    count, total = probabilities.sum(-1), (probabilities * values).sum(-1)
    if approximation == "ratio":
        average = total / (count + SMALL)
    else:
        average = (values * probabilities * _inverse_count(probabilities, approximation)).sum(-1)
    return (torch.stack([total, average, count], dim=-1) * aggregations).sum(-1)


def _inverse_count(probabilities: Tensor, approximation: AverageApproximation) -> Tensor:
    """Return the expected inverse of how many are selected, given that this one is: [B, T]."""
    others = probabilities.sum(-1, keepdim=True) - probabilities + 1
    if approximation == "first_order":
        return 1 / others
    variances = probabilities * (1 - probabilities)
    variance = variances.sum(-1, keepdim=True) - variances
    return (variance / others.square() + 1) / others


def answer_loss(
    expected: Tensor, answers: Tensor, computed: Tensor, *, delta: float = 1.0, normalise: bool = False
) -> Tensor:
    """Return Huber's loss of the expected result.

    Args:
        expected: results [B].
        answers: right results [B]; NaN where there is none.
        computed: Bool [B]; the loss is 0 where it is False.
        delta: errors beyond it count linearly.
        normalise: divide both by the larger of them first.

    Returns:
        The loss of each example [B].
    """
    answers = torch.where(answers.isnan(), 0.0, answers)
    if normalise:
        scale = torch.maximum(expected.abs(), answers.abs()).detach() + SMALL
        expected, answers = expected / scale, answers / scale
    return huber_loss(expected * computed, answers * computed, delta=delta, reduction="none")


def share_among_tokens(probabilities: Tensor, row_ids: Tensor, column_ids: Tensor) -> Tensor:
    """Divide what each token of a cell has by their number, all [B, T]; the tokens of a cell follow each other."""
    begins = torch.ones_like(row_ids)
    begins[:, 1:] = (row_ids[:, 1:] != row_ids[:, :-1]) | (column_ids[:, 1:] != column_ids[:, :-1])
    cells = begins.cumsum(1) - 1
    sizes = torch.zeros_like(cells).scatter_add(1, cells, torch.ones_like(cells))
    return probabilities / sizes.gather(1, cells)


def _require(values: Tensor | None) -> Tensor:
    """Return what a batch or a head has where aggregations are learnt."""
    assert values is not None
    return values
