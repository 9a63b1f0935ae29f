"""Scores of cells and of classes from the states of a network.

Source: MATE paper, section 4.1; google-research/tapas, `tapas_classifier_model_utils` (token logits, cell means).
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mate_cli.models.base.table_encoder import EncoderOutput, initialise
from mate_cli.models.layers.embeddings import FeatureEmbeddings
from mate_cli.tokenization.layout import TableBatch

NO_LOGIT = -10000.0
"""The score of what cannot be chosen: a probability of zero, and still finite."""


class CellLogits(NamedTuple):
    """Scores of the body cells of every example, row by row; all are [B, K].

    Args:
        logits: the mean score of each cell's tokens, `NO_LOGIT` where there is no cell.
        mask: Bool, True where there is a cell.
        rows: row ids, from 1; 0 where there is no cell.
        columns: column ids, from 1; 0 where there is no cell.
        candidates: Bool, True for cells that hold the answer; all False when labels are not known.
    """

    logits: Tensor
    mask: Tensor
    rows: Tensor
    columns: Tensor
    candidates: Tensor


class CellSelectionHead(nn.Module):
    """One score per token, averaged over each body cell; the header row has none."""

    choices: ClassVar[Mapping[str, str]] = {"tokens": "score"}
    """Names of its scores of all tokens, by which it could choose among them."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.score = nn.Linear(hidden_size, 1)

    def forward(self, output: EncoderOutput) -> CellLogits:
        """Map states [B, T, D] to the scores of K cells, as many as the example with most has (at least 1)."""
        states, batch = output.states, output.batch
        cells, count = _index_cells(batch)
        token_logits = self.score(states).squeeze(-1).float()

        def per_cell(values: Tensor, reduce: str) -> Tensor:
            slots = values.new_zeros(len(values), count + 1)
            return slots.scatter_reduce(1, cells, values, reduce)[:, :count]

        tokens = per_cell(torch.ones_like(token_logits), "sum")
        mask = tokens > 0
        logits = per_cell(token_logits, "sum") / tokens.clamp(min=1)
        labels = torch.zeros_like(cells) if batch.label_ids is None else batch.label_ids
        return CellLogits(
            logits=logits.masked_fill(~mask, NO_LOGIT),
            mask=mask,
            rows=per_cell(batch.row_ids, "amax"),
            columns=per_cell(batch.column_ids, "amax"),
            candidates=per_cell(labels, "amax") > 0,
        )


def _index_cells(batch: TableBatch) -> tuple[Tensor, int]:
    """Return which cell of its example every token is in, Int64 [B, T], and K.

    Tokens outside the body are in cell K.
    """
    is_body = batch.in_body
    names = batch.row_ids * (batch.column_ids.max() + 1) + batch.column_ids
    names = names.masked_fill(~is_body, int(names.max()) + 1)
    ordered, order = names.sort(dim=1, stable=True)
    steps = torch.zeros_like(ordered)
    steps[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    cells = torch.empty_like(names).scatter(1, order, steps.cumsum(1))
    count = max(int(cells.masked_fill(~is_body, -1).max()) + 1, 1)
    return cells.masked_fill(~is_body, count), count


def chosen_above_zero(cells: CellLogits, batch: TableBatch) -> Tensor:
    """Return the score of each token's cell [B, T], less the mean of the two best ones; `NO_LOGIT` outside the body."""
    two = pad(cells.logits.float(), (0, 1), value=NO_LOGIT).topk(2).values
    width = int(batch.column_ids.max()) + 1
    names = (cells.rows * width + cells.columns).masked_fill(~cells.mask, 0)
    of_tokens = (batch.row_ids * width + batch.column_ids).masked_fill(~batch.in_body, 0)
    known = two.new_full((len(names), max(int(names.max()), int(of_tokens.max())) + 1), NO_LOGIT)
    known.scatter_(1, names, cells.logits.float() - two.mean(1, keepdim=True))
    known[:, 0] = NO_LOGIT
    return known.gather(1, of_tokens)


class Score(nn.Linear):
    """A dense layer whose weights are drawn from a truncated normal, or start at zero; biases are zero.

    Source: google-research/tapas, `tapas_classifier_model_utils.classification_initializer`.
    """

    def __init__(self, inputs: int, outputs: int, *, zero: bool = False) -> None:
        super().__init__(inputs, outputs)
        if zero:
            nn.init.zeros_(self.weight)
            nn.init.zeros_(self.bias)
        else:
            initialise(self)


class ClassHead(Score):
    """Compute the logits of classes [B, C] from the pooled state [B, D].

    Args:
        hidden_size: D.
        classes: C.
        lexical: embeds the lexical features of cells, see `pool_features`.

    Source: google-research/tapas, `tapas_classifier_model.compute_classification_logits` (one layer; the DoT paper
        speaks of a hidden one).
    """

    transformers_names: ClassVar[Mapping[str, str]] = {"weight": "classifier.weight", "bias": "classifier.bias"}
    """Our parameters, and what they are called there."""

    def __init__(self, hidden_size: int, classes: int = 2, lexical: FeatureEmbeddings | None = None) -> None:
        super().__init__(hidden_size, classes)
        self.lexical = lexical


def pool_features(output: EncoderOutput, head: nn.Module) -> Tensor:
    """Return the pooled state [B, D], to which the maximum of embedded lexical features over all tokens is added.

    Attention learns to bring features there only after thousands of examples.

    Args:
        output: of the encoder, for B examples.
        head: a `ClassHead`, also one that PEFT has wrapped. A plain linear layer reads no lexical features.
    """
    lexical = getattr(getattr(head, "base_layer", head), "lexical", None)
    pooled, batch = output.pooled, output.batch
    if lexical is None or batch.cell_features is None:
        return pooled
    cells = lexical.embed(batch.cell_features)
    maximum: Tensor = cells.masked_fill(batch.attention_mask.unsqueeze(-1) == 0, float("-inf")).amax(1)
    return pooled + maximum
