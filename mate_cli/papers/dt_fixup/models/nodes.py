"""From the states of word pieces to the vectors of nodes: words by their mean, names in a schema by an LSTM.

Source: Xu et al. 2021 (DT-Fixup), appendix C.2; the released code, which adds the mean of the LSTM's outputs to
its last one. Of its backward half, the last output has seen the last piece only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mate_cli.errors import ConfigError
from mate_cli.papers.dt_fixup.schema.arrays import NODE_KINDS
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class NodePieces:
    """The word pieces of the nodes of a batch; those of a node lie side by side.

    Args:
        tokens: places of the M pieces that are of a node among all tokens, B * T, Int64 [M].
        nodes: their nodes' places among all, B * K, Int64 [M].
        counts: pieces of every node, Int64 [B * K].
    """

    tokens: Tensor
    nodes: Tensor
    counts: Tensor

    @classmethod
    def of(cls, batch: TableBatch, most: int) -> NodePieces:
        """Return those of a batch, whose row ids number the nodes of an example from 1 to at most `most`."""
        examples = len(batch.row_ids)
        tokens = ((batch.row_ids > 0) & (batch.attention_mask == 1)).flatten().nonzero().squeeze(1)
        example = tokens // batch.row_ids.shape[1]
        nodes = example * most + batch.row_ids.flatten()[tokens] - 1
        return cls(tokens, nodes, torch.bincount(nodes, minlength=examples * most))

    @property
    def starts(self) -> Tensor:
        """The place of every node's first piece among the M, Int64 [B * K]; the last one where there is no node."""
        pieces = torch.arange(len(self.nodes), device=self.nodes.device)
        last = torch.full_like(self.counts, max(0, len(self.nodes) - 1))
        return last.scatter_reduce(0, self.nodes, pieces, "amin")

    def first_tokens(self) -> Tensor:
        """Return the token of every node's first piece, Int64 [B * K]; any token where there is no node."""
        return self.tokens[self.starts]

    def means(self, states: Tensor) -> Tensor:
        """Return the mean of the states [B * T, D] of every node's pieces, [B * K, D]; zero where there is no node."""
        sums = states.new_zeros(len(self.counts), states.shape[-1])
        sums = sums.index_add(0, self.nodes, states.index_select(0, self.tokens))
        return sums / self.counts.clamp(min=1)[:, None]

    def sequences(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pieces of some nodes.

        Args:
            chosen: places of the nodes among all, Int64 [I].

        Returns:
            The places of their pieces among all tokens, Int64 [I, L], the last one again and again where there are no
            more, and how many there are, Int64 [I].
        """
        counts = self.counts[chosen]
        first = self.starts[chosen]
        steps = torch.arange(int(counts.max()), device=counts.device)
        return self.tokens[first[:, None] + torch.minimum(steps, counts[:, None] - 1)], counts


class NameEncoder(nn.Module):
    """The last output of a bidirectional LSTM plus the mean of all of them, half of the width from each direction."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width // 2, batch_first=True, bidirectional=True)

    def forward(self, states: Tensor, counts: Tensor) -> Tensor:
        """Map states of the pieces of names [I, L, D], the first `counts` [I] of them real, to names [I, width]."""
        packed = pack_padded_sequence(states, counts.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        last = (counts - 1)[:, None, None].expand(-1, 1, outputs.shape[-1])
        total: Tensor = outputs.gather(1, last).squeeze(1) + outputs.sum(1) / counts[:, None]
        return total


def node_kinds(batch: TableBatch) -> Tensor:
    """Return what the nodes of a batch are, Int64 [B, K], 0 where there is none.

    Raises:
        ConfigError: it has no nodes.
    """
    if NODE_KINDS not in batch.more:
        raise ConfigError("these encodings have no nodes", where="encoding", remedy="Use encoding=schema")
    return batch.more[NODE_KINDS]


def node_batch(batch: TableBatch) -> TableBatch:
    """Return a batch whose tokens are the nodes of another one, each with what its first word piece has.

    Raises:
        ConfigError: the other one has no nodes.
    """
    kinds = node_kinds(batch)
    pieces = NodePieces.of(batch, kinds.shape[1])
    length = batch.input_ids.shape[1]
    nodes = batch.keep((pieces.first_tokens() % length).view_as(kinds))
    return replace(nodes, attention_mask=(kinds > 0).long(), places=None)
