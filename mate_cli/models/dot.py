"""DoT: a small transformer chooses tokens, and a large one answers from them.

Source: Krichene et al., "DoT: An Efficient Double Transformer for NLP tasks with tables", Findings of ACL 2021;
google-research/tapas, `utils/table_pruning.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mate_cli.attention.base import AttentionBackend, Planner
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import Reader, TableEncoder
from mate_cli.models.heads.token_scores import ColumnScore, TokenScores, best_tokens, outside_counts
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.models.mate import RowHeadRatio
from mate_cli.tokenization.layout import TableBatch, gather_tokens, renumber_positions

MIN_SCORE = -1e4
"""The lowest bias on a key, which 16 bits can hold; the reference's for a probability of zero."""


class Dot(TableEncoder):
    """A pruning transformer scores the tokens of a table; a task transformer reads the K best of them.

    The layers of this network are the task transformer's. In each of its heads the logarithm of a token's score is
    added to the attention that the token gets, and so the loss teaches what matters.

    Args:
        pruner: builds the pruning transformer; options that it does not set are those of the task transformer.
        keep: K, tokens that the task transformer reads, the question's among them.
        select: keep the best tokens, or the tokens of the best columns.
        column_score: what the score of a column is a mean of, see `TokenScores`.
        learn: what teaches the pruning transformer: "joint" the loss of the task transformer alone, through the scores
            (J in the paper); "pruning" a loss of its own alone, the scores only choosing tokens (P); "both" both (PJ).
        first: keep the first K tokens, without any pruning transformer: what one that learns must exceed.
        row_head_ratio: the share of row heads in the task transformer, as in MATE; None for full attention.
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
            shared = {name: value for name, value in options.items() if name not in keywords}
            self.pruner = pruner(attention=attention, pooler=learn != "joint", **shared)
            self.scores = TokenScores(self.pruner.size.hidden_size, select, column_score)
            self.max_tokens = self.pruner.max_tokens

    @property
    def encoders(self) -> Mapping[str, TableEncoder]:
        """The task transformer, and the pruning transformer where there is one."""
        return {"": self} if self.pruner is None else {"": self, "pruner.": self.pruner}

    @property
    def auxiliary_encoder(self) -> TableEncoder | None:
        """The pruning transformer, where it has a loss of its own."""
        return None if self.learn == "joint" else self.pruner

    def share_token_scorer(self, head: nn.Module) -> None:
        """Let a head of the pruning transformer score by what chooses tokens, as the reference does.

        Where it scores something else and no gradient comes through attention, nothing teaches the scores.
        """
        lent = self.scores.share_layer(head)
        self.scores.requires_grad_(lent or self.learn != "pruning")

    @property
    def planner(self) -> Planner:
        """Prepares batches for the pruning transformer; what the other one reads is not known before."""
        return Planner(()) if self.pruner is None else self.pruner.planner

    def layer_inputs(self, batch: TableBatch) -> Sequence[tuple[Reader, TableBatch]]:
        """Return all tokens for the pruning transformer; of those that the other one reads only the number is known."""
        places = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)[: self.keep]
        layer_input = self, batch.keep(places.expand(len(batch.input_ids), -1))
        return [layer_input] if self.pruner is None else [*self.pruner.layer_inputs(batch), layer_input]

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Encode the tokens of a batch that are kept, in the order in which they stand; no more than K."""
        early = None if self.pruner is None else self.pruner(batch)
        scores = self.token_scores(batch, early)
        places = best_tokens(scores.detach(), self.keep)
        short = renumber_positions(batch, places, self.size.max_positions)
        plans = self.plans(short)
        bias = None
        if early is not None and self.learn != "pruning":
            bias = plans.packing.pack(gather_tokens(scores, places).clamp(min=MIN_SCORE))
        states = plans.packing.unpack(self.encoder(self.embeddings(short, plans.packing), plans, bias))
        learnt = None if early is None else scores.detach()
        return EncoderOutput(states, self.pooler(states), short, early, learnt)

    def token_scores(self, batch: TableBatch, early: EncoderOutput | None) -> Tensor:
        """Give the logarithm of the probability that a token matters [B, T], from what the pruning transformer says."""
        if early is None:
            return outside_counts(torch.zeros_like(batch.input_ids, dtype=torch.float32), batch)
        scores: Tensor = self.scores(early)
        return scores
