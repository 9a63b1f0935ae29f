"""Heads that compute logits of cells and of classes from the hidden states of a network.

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
"""Logit of an entry that cannot be selected. It is finite, but its probability is 0 in float32."""


class CellLogits(NamedTuple):
    """Logits of the body cells of every example, in row-major order, with padding.

    The shape of every tensor is [B, K], where K is the maximum number of cells of an example, padded after the last
    cell.

    Args:
        logits: mean logit of the tokens of each cell, `NO_LOGIT` on padding.
        mask: False on padding, Bool.
        rows: row ids, from 1, and 0 on padding.
        columns: column ids, from 1, and 0 on padding.
        candidates: True for cells that contain the answer, Bool. All False if the labels are unknown.
    """

    logits: Tensor
    mask: Tensor
    rows: Tensor
    columns: Tensor
    candidates: Tensor


class CellSelectionHead(nn.Module):
    """Computes the logit of each body cell: a linear layer on hidden states, averaged over the cell's tokens."""

    choices: ClassVar[Mapping[str, str]] = {"tokens": "score"}
    """The layer that scores tokens, which may be shared with a token selector (`TokenScores.tie_layer`)."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.score = nn.Linear(hidden_size, 1)

    def forward(self, output: EncoderOutput) -> CellLogits:
        """Compute the logits of K cells from the hidden states [B, T, D] of an encoder output.

        K is the maximum number of cells per example, at least 1.
        """
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
    """Return the cell index of every token, Int64 [B, T], and the number K of cells.

    Tokens outside the body have index K.
    """
    is_body = batch.in_body
    names = batch.row_ids * (batch.column_ids.max() + 1) + batch.column_ids
    names = names.masked_fill(~is_body, int(names.max()) + 1)
    sorted_names, order = names.sort(dim=1, stable=True)
    steps = torch.zeros_like(sorted_names)
    steps[:, 1:] = sorted_names[:, 1:] != sorted_names[:, :-1]
    cells = torch.empty_like(names).scatter(1, order, steps.cumsum(1))
    count = max(int(cells.masked_fill(~is_body, -1).max()) + 1, 1)
    return cells.masked_fill(~is_body, count), count


def chosen_above_zero(cells: CellLogits, batch: TableBatch) -> Tensor:
    """Convert cell logits to token logits [B, T] that are above zero only in the best cell.

    The logit of a token is the logit of its cell minus the mean of the two highest cell logits. Tokens outside the body
    get `NO_LOGIT`.
    """
    top_two = pad(cells.logits.float(), (0, 1), value=NO_LOGIT).topk(2).values
    width = int(batch.column_ids.max()) + 1
    names = (cells.rows * width + cells.columns).masked_fill(~cells.mask, 0)
    token_names = (batch.row_ids * width + batch.column_ids).masked_fill(~batch.in_body, 0)
    logit_by_name = top_two.new_full((len(names), max(int(names.max()), int(token_names.max())) + 1), NO_LOGIT)
    logit_by_name.scatter_(1, names, cells.logits.float() - top_two.mean(1, keepdim=True))
    logit_by_name[:, 0] = NO_LOGIT
    return logit_by_name.gather(1, token_names)


class Score(nn.Linear):
    """Linear layer for scores, with zero biases and truncated normal weights, or zero weights if `zero`.

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
    """A dense layer that computes the logits of classes [B, C] from the pooled state [B, D].

    Args:
        hidden_size: width D of the pooled state.
        classes: number C of classes.
        lexical: embedding of the lexical features of cells, see `pool_features`. None: no lexical features.

    Source: google-research/tapas, `tapas_classifier_model.compute_classification_logits` (one layer; the DoT paper
        describes a hidden layer).
    """

    transformers_names: ClassVar[Mapping[str, str]] = {"weight": "classifier.weight", "bias": "classifier.bias"}
    """Names of the parameters in checkpoints of transformers."""

    def __init__(self, hidden_size: int, classes: int = 2, lexical: FeatureEmbeddings | None = None) -> None:
        super().__init__(hidden_size, classes)
        self.lexical = lexical


def pool_features(output: EncoderOutput, head: nn.Module) -> Tensor:
    """Add pooled lexical features to the pooled hidden state of each example, [B, D].

    Lexical features are embedded and pooled by the maximum over all tokens. Without this sum, attention learns to
    transfer the features to the pooled state only after thousands of examples.

    Args:
        output: output of the encoder for B examples.
        head: `ClassHead`, possibly wrapped by PEFT. With a plain linear layer, lexical features are ignored.
    """
    lexical = getattr(getattr(head, "base_layer", head), "lexical", None)
    pooled, batch = output.pooled, output.batch
    if lexical is None or batch.cell_features is None:
        return pooled
    cells = lexical.embed(batch.cell_features)
    maximum: Tensor = cells.masked_fill(batch.attention_mask.unsqueeze(-1) == 0, float("-inf")).amax(1)
    return pooled + maximum
