"""Words, positions and the seven token types of a table, summed.

Source: google-research/tapas, `table_bert.get_token_type_features` and `modeling.embedding_postprocessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mate_cli.attention.packing import Packing
from mate_cli.models.sizes import EncoderSize
from mate_cli.tokenization.layout import TOKEN_TYPES

if TYPE_CHECKING:
    from mate_cli.tokenization.layout import TableBatch

LAYER_NORM_EPSILON = 1e-12


class TableEmbeddings(nn.Module):
    """Embeds a batch: the sum of nine tables, normalised; parameters are named as in TAPAS.

    Args:
        size: width D and number of positions.
        vocab_size: word pieces.
        dropout: the probability of dropping a number of the result.
    """

    def __init__(self, size: EncoderSize, vocab_size: int, dropout: float) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, size.hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(size.max_positions, size.hidden_size)
        for i, types in enumerate(TOKEN_TYPES.values()):
            self.add_module(f"token_type_embeddings_{i}", nn.Embedding(types, size.hidden_size))
        self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: TableBatch, packing: Packing) -> Tensor:
        """States of real tokens [P, D]; positions beyond the table are its last, types beyond theirs add nothing."""
        names = ("input_ids", "position_ids", *TOKEN_TYPES)
        ids = packing.pack(torch.stack([getattr(batch, name) for name in names], dim=-1))
        words, positions, *types = ids.unbind(-1)
        positions = positions.clamp(max=self.position_embeddings.num_embeddings - 1)
        states = self.word_embeddings(words) + self.position_embeddings(positions)
        for i, values in enumerate(types):
            states = states + _lookup(self.get_submodule(f"token_type_embeddings_{i}"), values)
        return self.dropout(self.LayerNorm(states))


def _lookup(table: nn.Module, ids: Tensor) -> Tensor:
    """Rows of the table; ids that it does not have give zeros, as the reference's one-hot product does."""
    assert isinstance(table, nn.Embedding)
    known = (ids < table.num_embeddings).unsqueeze(-1)
    return table(ids.clamp(max=table.num_embeddings - 1)) * known
