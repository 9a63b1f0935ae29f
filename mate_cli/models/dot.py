"""DoT: a small transformer selects tokens, which a large transformer reads.

Source: Krichene et al., "DoT: An Efficient Double Transformer for NLP tasks with tables", Findings of ACL 2021,
section 2; google-research/tapas, `utils/table_pruning.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mate_cli.attention.base import AttentionBackend, Planner
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder
from mate_cli.models.heads.cell_grid import CellGrid
from mate_cli.models.heads.scores import Score
from mate_cli.models.layers.encoder import EncoderLayer, FastDropout, LayerSpec
from mate_cli.models.mate import RowHeadRatio
from mate_cli.tokenization.layout import TableBatch, gather_tokens, renumber_positions

Selection = Literal["tokens", "columns"]
ColumnScore = Literal["cells", "tokens"]
"""How the score of a column is averaged, see `TokenScores`."""
DROPOUT = 0.1
"""Dropout probability of hidden states before scoring, as in the heads of google-research/tapas."""


class TokenScores(nn.Module):
    """Layer that scores tokens for pruning: the log probability that a token is relevant.

    Tokens outside the table always have probability 1.

    Args:
        hidden_size: width D of the hidden states.
        select: score each token separately ("tokens"), or give all tokens of a column the same score ("columns").
        column_score: "cells", as in google-research/tapas: the log-sigmoid of the mean logit of the cells of a column.
            The logit of a cell is the mean over its tokens. "tokens", as in the paper: the mean score of tokens.
        max_rows: number R of rows distinguished in column scores, including the header. Later rows are treated as the
            last row.
        max_columns: number C of columns distinguished in column scores, including that of the question. Later columns
            share the score of the last column.
    """

    transformers_names: ClassVar[Mapping[str, str]] = {
        "tokens.weight": "output_weights",
        "tokens.bias": "output_bias",
        "columns.weight": "column_output_weights",
        "columns.bias": "column_output_bias",
    }
    run_names: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "tokens.weight": ("head.score.weight", "head.cells.weight"),
        "tokens.bias": ("head.score.bias", "head.cells.bias"),
        "columns.weight": ("head.columns.weight",),
        "columns.bias": ("head.columns.bias",),
    }

    def __init__(
        self,
        hidden_size: int,
        select: Selection,
        column_score: ColumnScore = "cells",
        *,
        max_rows: int = 64,
        max_columns: int = 32,
    ) -> None:
        super().__init__()
        self.column_score = column_score
        self.shape = max_rows, max_columns
        self.tokens = Score(hidden_size, 1) if select == "tokens" else None
        self.columns = Score(hidden_size, 1) if select == "columns" else None
        self.dropout = FastDropout(DROPOUT)

    def forward(self, output: EncoderOutput) -> Tensor:
        """Compute the log probability of relevance of each token, float32 [B, T].

        Header tokens are scored like body tokens.
        """
        batch, states = output.batch, self.dropout(output.states)
        if self.tokens is None:
            return mask_non_table_scores(self._column_scores(states, batch), batch)
        return mask_non_table_scores(logsigmoid(self.tokens(states).squeeze(-1).float()), batch)

    def tie_layer(self, head: nn.Module) -> bool:
        """Make a head use the scoring layer of this module instead of its separate layer.

        Args:
            head: head whose attribute `choices` maps "tokens" and "columns" to the names of its scoring layers.

        Returns:
            Whether a layer was replaced. False if the head has no layer for the same scores.
        """
        for unit, name in getattr(head, "choices", {}).items():
            layer = getattr(self, unit)
            if layer is not None and getattr(head, name) is not None:
                delattr(head, name)
                setattr(head, name, SharedLayer(layer))
                return True
        return False

    def _column_scores(self, states: Tensor, batch: TableBatch) -> Tensor:
        """Compute the score of each token's column, header included, [B, T]."""
        assert self.columns is not None
        grid, logits = CellGrid.of(batch, *self.shape), self.columns(states).squeeze(-1).float()
        if self.column_score == "cells":
            means = logsigmoid(grid.column_means(logits))
        else:
            means = grid.column_token_means(logsigmoid(logits))
        return means.gather(1, batch.column_ids.clamp(max=grid.columns - 1))


class SharedLayer:
    """A callable reference to a layer of another module, which is not registered as a submodule here."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def __call__(self, states: Tensor) -> Tensor:
        """Apply the shared layer to hidden states [..., D]."""
        scores: Tensor = self.layer(states)
        return scores


def mask_non_table_scores(scores: Tensor, batch: TableBatch) -> Tensor:
    """Set the scores [B, T] of tokens outside the table to 0 (log of probability 1), and of padding to -inf."""
    outside = scores.masked_fill(batch.column_ids <= 0, 0.0)
    return outside.masked_fill(batch.attention_mask == 0, -torch.inf)


def topk_token_indices(scores: Tensor, count: int) -> Tensor:
    """Return the indices of the tokens with the highest scores in each example.

    Args:
        scores: scores of tokens, [B, T].
        count: number of tokens to select.

    Returns:
        Ascending indices, Int64 [B, min(count, T)]. Of tokens with equal scores, earlier tokens are preferred.
    """
    return scores.argsort(dim=1, descending=True, stable=True)[:, :count].sort(dim=1).values


MIN_SCORE = -1e4
"""Minimum bias of a key, representable in 16 bits. google-research/tapas uses it for a probability of 0."""


class Dot(TableEncoder):
    """A small pruning transformer that selects K tokens, and a large task transformer that encodes them.

    The layers of this network are those of the task transformer. Unless `learn` is "pruning", all heads of the task
    transformer add the score of a token, a log probability, to the attention logits of the token as a key. The task
    loss thereby trains the pruning transformer.

    Args:
        pruner: function that builds the pruning transformer. Options that it does not set equal those of the task
            transformer.
        keep: number K of tokens that the task transformer reads, including the question.
        select: keep the best tokens ("tokens"), or the tokens of the best columns ("columns").
        column_score: how the score of a column is averaged, see `TokenScores`.
        learn: loss that trains the pruning transformer: "joint" (J in the paper), the loss of the task transformer,
            through the scores; "pruning" (P), a separate loss, while the scores only select tokens; "both" (PJ).
        first: keep the first K tokens, without a pruning transformer. This is the baseline for learned pruning.
        row_head_ratio: fraction of row heads in the task transformer, as in MATE. None: full attention.
    """

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        pruner: Callable[..., TableEncoder],
        keep: Annotated[int, Field(gt=0)] = 256,
        select: Literal["tokens", "columns"] = "tokens",
        column_score: ColumnScore = "cells",
        learn: Literal["joint", "pruning", "both"] = "joint",
        first: bool = False,
        row_head_ratio: RowHeadRatio | None = None,
        **options: Any,
    ) -> None:
        shape = encoder_size(size)
        heads = shape.num_heads
        pattern = Full(heads) if row_head_ratio is None else RowColumnHeads(heads, row_head_ratio)
        super().__init__(size, [LayerSpec(pattern, attention)] * shape.num_layers, **options)
        self.keep = keep
        self.learn = learn
        self.pruner: TableEncoder | None = None
        if not first:
            keywords = getattr(pruner, "keywords", {})
            inherited_options = {name: value for name, value in options.items() if name not in keywords}
            self.pruner = pruner(attention=attention, pooler=learn != "joint", **inherited_options)
            self.scores = TokenScores(self.pruner.size.hidden_size, select, column_score)
            self.max_tokens = self.pruner.max_tokens

    @property
    def encoders(self) -> Mapping[str, TableEncoder]:
        """The task transformer and the pruning transformer, keyed by parameter prefix."""
        return {"": self} if self.pruner is None else {"": self, "pruner.": self.pruner}

    @property
    def auxiliary_encoder(self) -> TableEncoder | None:
        """The pruning transformer if it has a separate loss, else None."""
        return None if self.learn == "joint" else self.pruner

    def tie_token_scorer(self, head: nn.Module) -> None:
        """Share the token scorer with the head of the pruning transformer, as in google-research/tapas.

        The scorer is frozen if no loss trains it: the head has no scores of the same type, and no gradient reaches the
        scorer through attention.

        Args:
            head: second head of the task, on the pruning transformer.
        """
        is_shared = self.scores.tie_layer(head)
        self.scores.requires_grad_(is_shared or self.learn != "pruning")

    @property
    def planner(self) -> Planner:
        """The planner of the pruning transformer only, because the task transformer's input depends on pruning."""
        return Planner(()) if self.pruner is None else self.pruner.planner

    def layer_inputs(self, batch: TableBatch) -> Sequence[tuple[Sequence[EncoderLayer], TableBatch]]:
        """Return the layers of both transformers with their tokens (all, then K), to count operations.

        The K tokens are the first tokens, because the selected tokens are known only after pruning.
        """
        indices = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)[: self.keep]
        layer_input = self.layers, batch.keep(indices.expand(len(batch.input_ids), -1))
        return [layer_input] if self.pruner is None else [*self.pruner.layer_inputs(batch), layer_input]

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Select at most K tokens of each example, and encode the selected tokens in their original order."""
        early = None if self.pruner is None else self.pruner(batch)
        scores = self.token_scores(batch, early)
        indices = topk_token_indices(scores.detach(), self.keep)
        kept_batch = self.packed(renumber_positions(batch, indices, self.size.max_positions))
        plans = self.plans(kept_batch)
        bias = None
        if early is not None and self.learn != "pruning":
            bias = kept_batch.packing.pack(gather_tokens(scores, indices).clamp(min=MIN_SCORE))
        states = kept_batch.packing.unpack(self.encoder(self.embeddings(kept_batch), plans, bias))
        token_scores = None if early is None else scores.detach()
        return EncoderOutput(states, self.pooler(states), kept_batch, early, token_scores)

    def token_scores(self, batch: TableBatch, early: EncoderOutput | None) -> Tensor:
        """Compute the log probability that each token is relevant, [B, T].

        Args:
            batch: input of the network.
            early: output of the pruning transformer. None: every token has log probability 0.
        """
        if early is None:
            return mask_non_table_scores(torch.zeros_like(batch.input_ids, dtype=torch.float32), batch)
        scores: Tensor = self.scores(early)
        return scores
