"""Words, positions and the token types of a table, summed.

Source: google-research/tapas, `table_bert.get_token_type_features` and `modeling.embedding_postprocessor`.
"""

from collections.abc import Collection, Hashable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from mate_cli.attention.base import Packing
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch
from mate_cli.tokenization.serializers.lexical import FEATURES

LAYER_NORM_EPSILON = 1e-12
DROPOUT_STEPS = 1 << 16
"""A probability of dropout is rounded to one of these."""


class FastDropout(nn.Dropout):
    """`nn.Dropout`, of which a CPU draws 16 bits for a number in place of two words of 32."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop numbers in training, and scale the others so that the mean stays."""
        if not (self.training and self.p and input.device.type == "cpu") or torch.compiler.is_compiling():
            return super().forward(input)
        dropped = min(round(self.p * DROPOUT_STEPS), DROPOUT_STEPS - 1)
        words = torch.empty((input.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
        numbers = words.view(torch.int16)[: input.numel()].view(input.shape)
        mask = torch.empty(input.shape, dtype=input.dtype)
        torch.ge(numbers, dropped - DROPOUT_STEPS // 2, out=mask)
        return input * mask.mul_(DROPOUT_STEPS / (DROPOUT_STEPS - dropped))


class TableEmbeddings(nn.Module):
    """Embeds a batch: the sum of up to nine tables, normalised; parameters are named as in TAPAS.

    Args:
        token_types: those that are embedded; the others have no table.
        lexical_features: also embed how well the words of each token's cell, row and column fit the question.
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

    def forward(self, batch: TableBatch, packing: Packing) -> Tensor:
        """Embed real tokens [P, D]; positions beyond the table are its last, types beyond theirs add nothing."""
        names = ("input_ids", "position_ids", *self.types.values())
        ids = packing.pack(torch.stack([getattr(batch, name) for name in names], dim=-1))
        words, others = ids[:, 0], ids[:, 1:]
        embedded = self.word_embeddings(words) if batch.word_states is None else packing.pack(batch.word_states)
        states = embedded + self._embed_others(others)
        if self.lexical is not None:
            states = states + self.lexical(batch, packing)
        return self.dropout(self.LayerNorm(states))

    def _embed_others(self, ids: Tensor) -> Tensor:
        """Sum the embeddings of a position and of token types, [P, 1 + types], by one lookup in all tables: [P, D]."""
        modules: list[Any] = [self.position_embeddings, *map(self.get_submodule, self.types)]
        if not all(is_plain(module, nn.Embedding) for module in modules):
            return _embed_by_calls(modules, ids)
        positions = self.position_embeddings.weight
        tables, zero = [positions], self._keep_constant(((0,) * positions.shape[1],), positions)
        for module in modules[1:]:
            tables += [module.weight, zero]
        # Each type has a row of zeros after its table, as the reference's one-hot product gives for other ids.
        last = [len(positions) - 1, *(len(table) for table in tables[1::2])]
        ends = [0, *accumulate(rows + 1 for rows in last)]
        limits, offsets = self._keep_constant((tuple(last), tuple(ends[:-1])), ids)
        return nn.functional.embedding_bag(torch.minimum(ids, limits) + offsets, torch.cat(tables), mode="sum")

    def _keep_constant(self, numbers: tuple[tuple[int, ...], ...], like: Tensor) -> Tensor:
        """Return numbers of the type and device of a tensor and keep them: a copy in each step makes a GPU wait."""
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
            return torch.tensor(numbers, dtype=like.dtype, device=like.device)
        key = numbers, like.dtype, like.device
        if key not in self.constants:
            self.constants[key] = torch.tensor(numbers, dtype=like.dtype, device=like.device)
        return self.constants[key]


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Return whether a call of the module computes nothing but the function of its type from its weights."""
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return type(module) is kind and not hooks and "forward" not in vars(module)


def _embed_by_calls(modules: Sequence[Any], ids: Tensor) -> Tensor:
    """Sum the embeddings of a position and of token types by calls, as wrapped and offloaded modules need them."""
    states: Tensor = modules[0](ids[:, 0].clamp(max=len(modules[0].weight) - 1))
    for module, column in zip(modules[1:], ids[:, 1:].unbind(1), strict=True):
        last = len(module.weight) - 1
        states = states + module(column.clamp(max=last)) * (column <= last).unsqueeze(-1)
    return states


class FeatureEmbeddings(nn.Module):
    """Embeds the lexical features of each token's cell by a network with one hidden layer."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Linear(len(FEATURES), width),
            nn.LayerNorm(width, eps=LAYER_NORM_EPSILON),
            nn.GELU(),
            FastDropout(dropout),
            nn.Linear(width, width),
        )

    def forward(self, batch: TableBatch, packing: Packing) -> Tensor:
        """Embed the real tokens, [P, D].

        Raises:
            ConfigError: the tokens have no features.
        """
        if batch.cell_features is None:
            raise ConfigError(
                "these encodings have no lexical features of cells",
                remedy="Set encoding=lexical or encoding.lexical_features, or load it with mate_cli.Mate",
            )
        return self.embed(packing.pack(batch.cell_features))

    def embed(self, features: Tensor) -> Tensor:
        """Map features [..., F] of any type to states [..., D] of the type of the weights."""
        states: Tensor = self.features(features.to(next(self.parameters()).dtype))
        return states
