"""Attention of ETC between tokens and slots.

Tokens attend to a window and all slots, and slots to all tokens and slots. Each query has a single softmax over its
tokens and slots.

Source: Ainslie et al., "ETC: Encoding Long and Structured Inputs in Transformers", EMNLP 2020, section 3;
google-research, `etcmodel`. Definition of the slots: MATE paper, section 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import pad

from mate_cli.attention.base import Attention, AttentionPlan, Work
from mate_cli.attention.patterns import needed_pairs
from mate_cli.models.base.sizes import EncoderSize

SLOTS_OF_A_KIND = 128
"""Number of slots for rows, and number of slots for columns. MATE paper, section 5.1."""

RELATIVE_DEVIATION = 0.5
"""Standard deviation of the initial relative vectors. google-research, `etcmodel`."""


@dataclass(frozen=True)
class GlobalLocalOptions:
    """Options of ETC's global-local attention between tokens and memory slots.

    Args:
        radius: number of tokens to the left and to the right in the window of a token.
        max_distance: maximum distinguished distance D. Larger distances are clamped.
    """

    radius: int
    max_distance: int

    @property
    def not_linked(self) -> int:
        """Relation id of a token and the slot of a row or column that does not contain the token.

        The id of a token and the slot of its own row or column is greater by 1.
        """
        return 2 * self.max_distance + 1

    @property
    def relations(self) -> int:
        """The number of relation ids: distances to both sides, unlinked pairs, and linked pairs."""
        return self.not_linked + 2


@dataclass(frozen=True)
class Links:
    """Masks that link each token to the memory slots of its row and of its column.

    Further masks mark real tokens and needed slots.

    Args:
        real: False on padding, Bool [B, T].
        used: False on slots that an example does not need, Bool [B, G].
        linked: True if the slot represents the row or column of the token, Bool [B, T, G].
        slots: index of every slot among all 2 * `SLOTS_OF_A_KIND` slots, Int64 [G].
    """

    real: Tensor
    used: Tensor
    linked: Tensor
    slots: Tensor


def find_links(plan: AttentionPlan) -> Links:
    """Link each table token to the memory slots of its row and its column.

    Row r has slot r (the header is row 0), and column c has slot 127 + c. The question, and rows and columns beyond the
    number of slots, have no slot. Slots that no example of the batch needs are omitted.
    """
    batch = plan.batch
    is_real = batch.attention_mask == 1
    in_table = is_real & (batch.segment_ids != 0)
    slot_ids = torch.arange(2 * SLOTS_OF_A_KIND, device=is_real.device)
    rows, columns = slot_ids[:SLOTS_OF_A_KIND], slot_ids[SLOTS_OF_A_KIND:] - SLOTS_OF_A_KIND + 1
    of_rows = batch.row_ids[:, :, None] == rows
    of_columns = batch.column_ids[:, :, None] == columns
    is_linked = torch.cat([of_rows, of_columns], dim=-1) & in_table[:, :, None]
    is_used = is_linked.any(1)
    is_needed = is_used.any(0)
    # A batch without a table still has one slot.
    is_needed[0] = True
    slots = is_needed.nonzero().squeeze(1)
    return Links(is_real, is_used[:, slots], is_linked[:, :, slots], slots)


def relative_ids(offsets: Tensor, max_distance: int) -> Tensor:
    """Convert the relative positions of keys (key minus query) to relation ids.

    The ids are 0, 1, ..., D to the right and D + 1, ..., 2 D to the left, with D = `max_distance`.

    Args:
        offsets: position of the key minus position of the query.
        max_distance: maximum distinguished distance D. Larger distances are clamped.
    """
    distance = offsets.abs().clamp(max=max_distance)
    return torch.where(offsets < 0, distance + max_distance, distance)


class RelativeScores(nn.Module):
    """Learned attention logits that depend on the relation between query and key token.

    Each relation has one vector and one bias per attention head.
    """

    def __init__(self, size: EncoderSize, relations: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(relations, size.num_heads, size.head_size))
        self.bias = nn.Parameter(torch.zeros(relations, size.num_heads))
        nn.init.trunc_normal_(self.vectors, std=RELATIVE_DEVIATION, a=-2 * RELATIVE_DEVIATION, b=2 * RELATIVE_DEVIATION)

    def forward(self, query: Tensor, ids: Tensor) -> Tensor:
        """Compute the relative logits of all pairs of queries and keys, [B, N, Q, K].

        Args:
            query: queries, [B, N, Q, H].
            ids: relation id of each pair, broadcast to [B, N, Q, K].
        """
        scores = query @ self.vectors.permute(1, 2, 0) + self.bias.T[:, None]
        return scores.gather(-1, ids.expand(*scores.shape[:-1], -1))


class GlobalLocal(nn.Module, Attention):
    """Global-local attention of one layer: tokens attend to a window and slots, slots to all tokens and slots.

    Tokens and slots share projections, but have separate relative logits.
    """

    among_tokens, takes_key_bias = False, False

    def __init__(self, size: EncoderSize, options: GlobalLocalOptions) -> None:
        super().__init__()
        self.options = options
        self.of_tokens = RelativeScores(size, options.relations)
        self.of_slots = RelativeScores(size, options.relations)

    def count_operations(self, plan: AttentionPlan) -> Work:
        """Count the query-key pairs within windows of tokens and with memory slots."""
        examples, slots = len(plan.batch.input_ids), len(plan.derive("links", find_links).slots)
        with_slots = slots * (2 * int(plan.batch.attention_mask.sum()) + slots * examples)
        pairs = needed_pairs(plan.pattern, plan.batch) + plan.pattern.num_heads * with_slots
        return Work(pairs, memory=slots * examples)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend between P tokens and G slots per example: [P + B * G, 3, N, H] to [P + B * G, N, H].

        Arguments: see `Attention.forward`. The P tokens come first, then the G slots of every example.
        """
        links = plan.derive("links", find_links)
        count = sum(plan.packing.lengths)
        slots = qkv[count:].view(*links.used.shape, *qkv.shape[1:]).permute(2, 0, 3, 1, 4).unbind()
        tokens_out, slots_out = self.attend(plan.heads(qkv[:count]), slots, links, dropout)
        return torch.cat([plan.pack_heads(tokens_out), slots_out.transpose(1, 2).flatten(0, 1)])

    def attend(
        self, tokens: tuple[Tensor, ...], slots: tuple[Tensor, ...], links: Links, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Compute attention between tokens and slots, and return the outputs of both.

        Args:
            tokens: query, key and value of tokens, each [B, N, T, H].
            slots: query, key and value of slots, each [B, N, G, H].
            links: links between tokens and slots.
            dropout: dropout probability of attention weights.

        Returns:
            Attended values of tokens [B, N, T, H] and of slots [B, N, G, H].
        """
        return self._attend_tokens(tokens, slots, links, dropout), self._attend_slots(tokens, slots, links, dropout)

    def _attend_slots(
        self, tokens: tuple[Tensor, ...], slots: tuple[Tensor, ...], links: Links, dropout: float
    ) -> Tensor:
        """Compute the attention of memory slots to all slots and tokens, [B, N, G, H]."""
        query, key, value = (torch.cat(pair, dim=2) for pair in zip(slots, tokens, strict=True))
        query = query[:, :, : slots[0].shape[2]]
        slot_relations = relative_ids(links.slots - links.slots[:, None], self.options.max_distance)
        to_tokens = self.options.not_linked + links.linked.transpose(1, 2).long()
        ids = torch.cat([slot_relations.expand(len(to_tokens), -1, -1), to_tokens], dim=-1)[:, None]
        mask = torch.cat([links.used, links.real], dim=1)[:, None, None]
        scores = query @ key.transpose(-1, -2) + self.of_slots(query, ids)
        return drop(_weights(scores, mask, query.shape[-1]), dropout) @ value

    def _attend_tokens(
        self, tokens: tuple[Tensor, ...], slots: tuple[Tensor, ...], links: Links, dropout: float
    ) -> Tensor:
        """Compute the attention of tokens to near tokens and the memory slots, [B, N, T, H].

        Queries are processed in blocks. All queries of a block attend to the same range of keys.
        """
        length, blocks = tokens[0].shape[2], Blocks.of(tokens[0].shape[2], self.options.radius)
        end = (0, -length % blocks.size)
        query, key, value = (pad(x, (0, 0, *end)) for x in tokens)
        near_logits = self._near_scores(query, key, blocks)
        relations = self.options.not_linked + pad(links.linked, (0, 0, *end)).long()
        slot_logits = query @ slots[1].transpose(-1, -2) + self.of_tokens(query, relations[:, None])
        is_real_key = blocks.keys(pad(links.real, end)[:, None, :, None]).transpose(-1, -2)
        mask = is_real_key & (blocks.offsets(is_real_key.device).abs() <= self.options.radius)
        is_used_slot = links.used[:, None, None, None].expand(*mask.shape[:-1], -1)
        scores = torch.cat([near_logits, blocks.cut(slot_logits)], dim=-1)
        weights = drop(_weights(scores, torch.cat([mask, is_used_slot], dim=-1), query.shape[-1]), dropout)
        keys = near_logits.shape[-1]
        local = weights[..., :keys] @ blocks.keys(value)
        return (local.flatten(2, 3) + weights[..., keys:].flatten(2, 3) @ slots[2])[:, :, :length]

    def _near_scores(self, query: Tensor, key: Tensor, blocks: Blocks) -> Tensor:
        """Compute the attention logits of queries and the keys of their block, [B, N, blocks, block, keys]."""
        ids = relative_ids(blocks.offsets(query.device), self.options.max_distance)
        relative = self.of_tokens(query, ids.repeat(query.shape[2] // blocks.size, 1))
        return blocks.cut(query) @ blocks.keys(key).transpose(-1, -2) + blocks.cut(relative)


class Blocks(NamedTuple):
    """A split of tokens into blocks of `size` queries, for windowed attention.

    The keys of a block are its tokens and `margin` tokens on each side.
    """

    size: int
    margin: int

    @classmethod
    def of(cls, tokens: int, radius: int) -> Blocks:
        """Choose the block size for a window of `radius` tokens on each side.

        A single block is used if it costs less than several blocks with margins.

        Args:
            tokens: number of tokens.
            radius: number of tokens on each side of a query that the query attends to.
        """
        return cls(tokens, 0) if tokens <= 3 * radius + 1 else cls(radius + 1, radius)

    def offsets(self, device: torch.device) -> Tensor:
        """Return the distance from each query to each key of a block, in tokens, [block, keys].

        It is the key position minus the query position.
        """
        query = torch.arange(self.size, device=device)
        return torch.arange(self.size + 2 * self.margin, device=device) - self.margin - query[:, None]

    def cut(self, x: Tensor) -> Tensor:
        """Split tokens into blocks: [B, N, T', ...] to [B, N, blocks, block, ...]."""
        return x.view(*x.shape[:2], -1, self.size, x.shape[-1])

    def keys(self, x: Tensor) -> Tensor:
        """Gather the keys of every block of queries, with margins on both sides.

        [B, N, T', H] becomes [B, N, blocks, keys, H].
        """
        padded = pad(x, (0, 0, self.margin, self.margin))
        return padded.unfold(2, self.size + 2 * self.margin, self.size).transpose(-1, -2)


def _weights(scores: Tensor, mask: Tensor, size: int) -> Tensor:
    """Compute attention weights: the softmax of scaled logits over unmasked keys.

    A query without unmasked keys gets equal weights for all keys.

    Args:
        scores: attention logits before scaling, [..., keys].
        mask: True for keys that a query attends to, Bool [..., keys].
        size: size H of an attention head.
    """
    return (scores / size**0.5).masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
