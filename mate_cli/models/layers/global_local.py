"""ETC's attention: tokens see a window of tokens and all slots, slots see everything, one softmax over both.

Source: Ainslie et al., "ETC: Encoding Long and Structured Inputs in Transformers", EMNLP 2020, section 3;
google-research, `etcmodel`. Which slots there are: MATE paper, section 5.1.
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
"""Slots for rows, and as many for columns; MATE paper, section 5.1."""

RELATIVE_DEVIATION = 0.5
"""Standard deviation of the relative vectors before training; google-research, `etcmodel`."""


@dataclass(frozen=True)
class GlobalLocalOptions:
    """Options of global-local attention: radius, and the distances that are told apart.

    Args:
        radius: tokens to the left and to the right in the window of a token.
        max_distance: distances beyond this count as this one.
    """

    radius: int
    max_distance: int

    @property
    def not_linked(self) -> int:
        """The relation of a token and a slot that is not its own; the next number is that of its own."""
        return 2 * self.max_distance + 1

    @property
    def relations(self) -> int:
        """Number of relations: a distance to either side, not linked, linked."""
        return self.not_linked + 2


@dataclass(frozen=True)
class Links:
    """The real tokens and slots of a batch, and those that belong together.

    Args:
        real: Bool [B, T], False on padding.
        used: Bool [B, G], False on slots that an example does not need.
        linked: Bool [B, T, G], True where the slot is that of the token's row or column.
        slots: the place of every slot among all slots, Int64 [G].
    """

    real: Tensor
    used: Tensor
    linked: Tensor
    slots: Tensor


def find_links(plan: AttentionPlan) -> Links:
    """Return which slots the batch of a plan needs, and whose they are.

    Row r, the header being row 0, has slot r; column c has slot 127 + c. Rows and columns beyond the slots have none,
    nor has the question. Slots that no example of the batch needs are left out.
    """
    batch = plan.batch
    real = batch.attention_mask == 1
    in_table = real & (batch.segment_ids != 0)
    every = torch.arange(2 * SLOTS_OF_A_KIND, device=real.device)
    rows, columns = every[:SLOTS_OF_A_KIND], every[SLOTS_OF_A_KIND:] - SLOTS_OF_A_KIND + 1
    of_rows = batch.row_ids[:, :, None] == rows
    of_columns = batch.column_ids[:, :, None] == columns
    linked = torch.cat([of_rows, of_columns], dim=-1) & in_table[:, :, None]
    used = linked.any(1)
    needed = used.any(0)
    needed[0] = True  # a batch without any table still has a memory
    slots = needed.nonzero().squeeze(1)
    return Links(real, used[:, slots], linked[:, :, slots], slots)


def relative_ids(offsets: Tensor, max_distance: int) -> Tensor:
    """Return the relation of a key this far to the right of the query.

    0, 1 ... D to the right, D + 1 ... 2 D to the left.
    """
    distance = offsets.abs().clamp(max=max_distance)
    return torch.where(offsets < 0, distance + max_distance, distance)


class RelativeScores(nn.Module):
    """Scores of relations between queries and keys: a vector and a bias for each relation and head."""

    def __init__(self, size: EncoderSize, relations: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(relations, size.num_heads, size.head_size))
        self.bias = nn.Parameter(torch.zeros(relations, size.num_heads))
        nn.init.trunc_normal_(self.vectors, std=RELATIVE_DEVIATION, a=-2 * RELATIVE_DEVIATION, b=2 * RELATIVE_DEVIATION)

    def forward(self, query: Tensor, ids: Tensor) -> Tensor:
        """Score queries [B, N, Q, H] by the relation of each key, broadcast to [B, N, Q, K]: [B, N, Q, K]."""
        scores = query @ self.vectors.permute(1, 2, 0) + self.bias.T[:, None]
        return scores.gather(-1, ids.expand(*scores.shape[:-1], -1))


class GlobalLocal(nn.Module, Attention):
    """The attention of one layer in which tokens and slots share projections, each side with its own relations."""

    among_tokens, takes_key_bias = False, False

    def __init__(self, size: EncoderSize, options: GlobalLocalOptions) -> None:
        super().__init__()
        self.options = options
        self.of_tokens = RelativeScores(size, options.relations)
        self.of_slots = RelativeScores(size, options.relations)

    def work(self, plan: AttentionPlan) -> Work:
        """Return the window, and every slot with all tokens, both ways, and with all slots."""
        examples, slots = len(plan.batch.input_ids), len(plan.derive("links", find_links).slots)
        with_slots = slots * (2 * int(plan.batch.attention_mask.sum()) + slots * examples)
        pairs = needed_pairs(plan.pattern, plan.batch) + plan.pattern.num_heads * with_slots
        return Work(pairs, memory=slots * examples)

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P + B * G, 3, N, H] to [P + B * G, N, H], the P tokens first, then the slots of every example."""
        links = plan.derive("links", find_links)
        count = sum(plan.packing.lengths)
        slots = qkv[count:].view(*links.used.shape, *qkv.shape[1:]).permute(2, 0, 3, 1, 4).unbind()
        tokens_out, slots_out = self.attend(plan.heads(qkv[:count]), slots, links, dropout)
        return torch.cat([plan.pack_heads(tokens_out), slots_out.transpose(1, 2).flatten(0, 1)])

    def attend(
        self, tokens: tuple[Tensor, ...], slots: tuple[Tensor, ...], links: Links, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Attend: query, key and value of tokens, each [B, N, T, H], of slots, each [B, N, G, H], to values of both."""
        return self._attend_tokens(tokens, slots, links, dropout), self._attend_slots(tokens, slots, links, dropout)

    def _attend_slots(
        self, tokens: tuple[Tensor, ...], slots: tuple[Tensor, ...], links: Links, dropout: float
    ) -> Tensor:
        """Let slots see slots and tokens: [B, N, G, H]."""
        query, key, value = (torch.cat(pair, dim=2) for pair in zip(slots, tokens, strict=True))
        query = query[:, :, : slots[0].shape[2]]
        between = relative_ids(links.slots - links.slots[:, None], self.options.max_distance)
        to_tokens = self.options.not_linked + links.linked.transpose(1, 2).long()
        ids = torch.cat([between.expand(len(to_tokens), -1, -1), to_tokens], dim=-1)[:, None]
        mask = torch.cat([links.used, links.real], dim=1)[:, None, None]
        scores = query @ key.transpose(-1, -2) + self.of_slots(query, ids)
        return drop(_weights(scores, mask, query.shape[-1]), dropout) @ value

    def _attend_tokens(
        self, tokens: tuple[Tensor, ...], slots: tuple[Tensor, ...], links: Links, dropout: float
    ) -> Tensor:
        """Let tokens see their window and the slots: [B, N, T, H]; the queries of a block share one run of keys."""
        length, blocks = tokens[0].shape[2], Blocks.of(tokens[0].shape[2], self.options.radius)
        end = (0, -length % blocks.size)
        query, key, value = (pad(x, (0, 0, *end)) for x in tokens)
        near = self._near_scores(query, key, blocks)
        relations = self.options.not_linked + pad(links.linked, (0, 0, *end)).long()
        far = query @ slots[1].transpose(-1, -2) + self.of_tokens(query, relations[:, None])
        real = blocks.keys(pad(links.real, end)[:, None, :, None]).transpose(-1, -2)
        mask = real & (blocks.offsets(real.device).abs() <= self.options.radius)
        used = links.used[:, None, None, None].expand(*mask.shape[:-1], -1)
        scores = torch.cat([near, blocks.cut(far)], dim=-1)
        weights = drop(_weights(scores, torch.cat([mask, used], dim=-1), query.shape[-1]), dropout)
        keys = near.shape[-1]
        local = weights[..., :keys] @ blocks.keys(value)
        return (local.flatten(2, 3) + weights[..., keys:].flatten(2, 3) @ slots[2])[:, :, :length]

    def _near_scores(self, query: Tensor, key: Tensor, blocks: Blocks) -> Tensor:
        """Score queries and the keys of their blocks, [B, N, blocks, block, keys]."""
        ids = relative_ids(blocks.offsets(query.device), self.options.max_distance)
        relative = self.of_tokens(query, ids.repeat(query.shape[2] // blocks.size, 1))
        return blocks.cut(query) @ blocks.keys(key).transpose(-1, -2) + blocks.cut(relative)


class Blocks(NamedTuple):
    """Tokens in blocks; the keys of a block are its own tokens and some on either side."""

    size: int
    margin: int

    @classmethod
    def of(cls, tokens: int, radius: int) -> Blocks:
        """Return one block where that costs less than several with their margins."""
        return cls(tokens, 0) if tokens <= 3 * radius + 1 else cls(radius + 1, radius)

    def offsets(self, device: torch.device) -> Tensor:
        """Return how far to the right of each query of a block each of its keys is, [block, keys]."""
        query = torch.arange(self.size, device=device)
        return torch.arange(self.size + 2 * self.margin, device=device) - self.margin - query[:, None]

    def cut(self, x: Tensor) -> Tensor:
        """Map [B, N, T', ...] to [B, N, blocks, block, ...]."""
        return x.view(*x.shape[:2], -1, self.size, x.shape[-1])

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys of every block: [B, N, T', H] to [B, N, blocks, keys, H]."""
        padded = pad(x, (0, 0, self.margin, self.margin))
        return padded.unfold(2, self.size + 2 * self.margin, self.size).transpose(-1, -2)


def _weights(scores: Tensor, mask: Tensor, size: int) -> Tensor:
    """Return one softmax over all keys that are seen; a query that sees none sees all alike."""
    return (scores / size**0.5).masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
