"""Input embeddings: the sum of word, position and token type embeddings.

Source: google-research/tapas, `table_bert.get_token_type_features` and `modeling.embedding_postprocessor`.
"""

from collections.abc import Collection, Hashable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.encoder import LAYER_NORM_EPSILON, FastDropout, are_plain
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch
from mate_cli.tokenization.serializers.lexical import FEATURES


class TableEmbeddings(nn.Module):
    """Computes input states: LayerNorm of the sum of word, position, token type and lexical embeddings.

    Parameters are named as in TAPAS.

    Args:
        size: size of the encoder.
        vocab_size: number of tokens in the vocabulary.
        dropout: dropout probability of the embeddings.
        token_types: names of the token types that are embedded. Other token types have no table.
        lexical_features: also embed the lexical overlap of the cell, row and column of each token with the question.
        epsilon: epsilon of the LayerNorm.
    """

    def __init__(
        self,
        size: EncoderSize,
        vocab_size: int,
        dropout: float,
        *,
        token_types: Collection[str] = tuple(TOKEN_TYPES),
        lexical_features: bool = False,
        epsilon: float = LAYER_NORM_EPSILON,
    ) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, size.hidden_size)
        self.position_embeddings = nn.Embedding(size.max_positions, size.hidden_size)
        self.types = {f"token_type_embeddings_{i}": name for i, name in enumerate(TOKEN_TYPES) if name in token_types}
        for table, name in self.types.items():
            self.add_module(table, nn.Embedding(TOKEN_TYPES[name], size.hidden_size))
        self.lexical = FeatureEmbeddings(size.hidden_size, dropout) if lexical_features else None
        self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=epsilon)
        self.dropout = FastDropout(dropout)
        # Not a buffer: a network that is built on the meta device gets weights, but no buffers, afterwards.
        self.constants: dict[Hashable, Tensor] = {}

    def forward(self, batch: TableBatch) -> Tensor:
        """Compute the embeddings of the P tokens of a batch that are not padding, [P, D].

        A position beyond its embedding table gets the last embedding, and a token type beyond its table gets zeros.
        """
        names = ("input_ids", "position_ids", *self.types.values())
        packing = batch.packing
        ids = packing.pack(torch.stack([getattr(batch, name) for name in names], dim=-1))
        words, other_ids = ids[:, 0], ids[:, 1:]
        embedded = self.word_embeddings(words) if batch.word_states is None else packing.pack(batch.word_states)
        states = embedded + self._embed_others(other_ids)
        if self.lexical is not None:
            states = states + self.lexical(batch)
        return self.dropout(self.LayerNorm(states))

    def _embed_others(self, ids: Tensor) -> Tensor:
        """Sum the position and token type embeddings of P tokens, [P, D], in a single lookup.

        Args:
            ids: position and token types of each token, [P, 1 + types].
        """
        modules: list[Any] = [self.position_embeddings, *map(self.get_submodule, self.types)]
        if not are_plain(nn.Embedding, *modules):
            return _embed_by_calls(modules, ids)
        positions = self.position_embeddings.weight
        tables, zero = [positions], self._keep_constant(((0,) * positions.shape[1],), positions)
        for module in modules[1:]:
            tables += [module.weight, zero]
        # A row of zeros follows each table, because the one-hot product of google-research/tapas is 0 for other ids.
        last_ids = [len(positions) - 1, *(len(table) for table in tables[1::2])]
        table_starts = [0, *accumulate(rows + 1 for rows in last_ids)]
        limits, offsets = self._keep_constant((tuple(last_ids), tuple(table_starts[:-1])), ids)
        return nn.functional.embedding_bag(torch.minimum(ids, limits) + offsets, torch.cat(tables), mode="sum")

    def _keep_constant(self, numbers: tuple[tuple[int, ...], ...], like: Tensor) -> Tensor:
        """Return a constant tensor with the dtype and device of `like`, from a cache.

        Without the cache, a copy to the GPU in each step would stall the GPU.
        """
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
            return torch.tensor(numbers, dtype=like.dtype, device=like.device)
        key = numbers, like.dtype, like.device
        if key not in self.constants:
            self.constants[key] = torch.tensor(numbers, dtype=like.dtype, device=like.device)
        return self.constants[key]


def _embed_by_calls(modules: Sequence[Any], ids: Tensor) -> Tensor:
    """Sum position and token type embeddings by calling each module, as wrapped or offloaded modules require."""
    states: Tensor = modules[0](ids[:, 0].clamp(max=len(modules[0].weight) - 1))
    for module, column in zip(modules[1:], ids[:, 1:].unbind(1), strict=True):
        last_id = len(module.weight) - 1
        states = states + module(column.clamp(max=last_id)) * (column <= last_id).unsqueeze(-1)
    return states


class FeatureEmbeddings(nn.Module):
    """Embeds the lexical features of each token's cell (overlap with the question) by a two-layer network."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Linear(len(FEATURES), width),
            nn.LayerNorm(width, eps=LAYER_NORM_EPSILON),
            nn.GELU(),
            FastDropout(dropout),
            nn.Linear(width, width),
        )

    def forward(self, batch: TableBatch) -> Tensor:
        """Embed the lexical features of the P tokens of a batch that are not padding, [P, D].

        Raises:
            ConfigError: the batch has no lexical features.
        """
        if batch.cell_features is None:
            hint = "Set encoding=lexical or encoding.lexical_features, or load it with mate_cli.Mate"
            raise ConfigError("these encodings have no lexical features of cells", remedy=hint)
        return self.embed(batch.packing.pack(batch.cell_features))

    def embed(self, features: Tensor) -> Tensor:
        """Map features [..., F] of any dtype to embeddings [..., D] in the dtype of the weights."""
        states: Tensor = self.features(features.to(next(self.parameters()).dtype))
        return states
