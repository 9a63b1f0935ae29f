"""Observed attention flow: to which kinds of tokens the cells of a table attend, beside uniform attention.

Source: Eisenschlos et al. 2021 (MATE), section 7, table 7.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from mate_cli.analysis.base import Analysis, pick_evenly
from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.base import AttentionPlan
from mate_cli.errors import ConfigError, RunError
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import SelfAttention
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.machine import device_of
from mate_cli.runs.configuration import RunConfig
from mate_cli.tokenization.layout import TableBatch

TARGETS = (
    "[CLS]",
    "question",
    "header, other column",
    "header, own column",
    "table, neither",
    "table, same row",
    "table, same column",
    "table, same cell",
)
"""The kinds of keys, as a token of a body cell sees them. "question" is all else before the table."""
HEADER, BODY = TARGETS.index("header, other column"), TARGETS.index("table, neither")
PADDING = len(TARGETS)
EAGER = Eager()


@dataclass(frozen=True)
class AttentionFlow(Analysis):
    """The mean over body tokens, then heads, layers and examples; every example counts the same.

    Args:
        examples: how many of the split, at even distances; None for all.
    """

    name: ClassVar[str] = "attention_flow"
    examples: Annotated[int, Field(gt=0)] | None = 200

    def find(self, parts: Parts, config: RunConfig, split: str) -> dict[str, Any]:
        """Return the shares of every head of every network in it, as fractions: `attention` [layers][heads][targets].

        Raises:
            ConfigError: a network attends to something else than tokens.
            RunError: no input has cells of a table.
        """
        encoder, data = parts.task.encoder, parts.data
        for network in encoder.encoders.values():
            refuse_slots(network)
        device = device_of(config.hardware)
        parts.task.to(device).eval()
        chosen = pick_evenly(data.examples(split), self.examples)
        loader = data.loader_of(chosen, f"{split}, {self.name}")
        flows = observe(encoder, (batch.to(device) for batch in loader), parts.serializer.tokenizer.cls_id)
        if not all(flow.examples for flow in flows.values()):
            raise RunError(
                f"the split {split} has no input with table cells", remedy="Analyse a network that reads tables"
            )
        networks = [{"name": name.rstrip("."), **flow.content()} for name, flow in flows.items()]
        return {"examples": max(flow.examples for flow in flows.values()), "targets": TARGETS, "networks": networks}


class Flow:
    """The attention observed in one encoder so far: while it reads a batch, it computes what the layers attend to.

    Args:
        encoder: observed.
        cls_id: the id of [CLS].
    """

    def __init__(self, encoder: TableEncoder, cls_id: int) -> None:
        self.encoder, self.cls_id, self.examples = encoder, cls_id, 0
        layers: Iterable[Any] = encoder.encoder.layer
        self.layers: list[SelfAttention] = [layer.attention["self"] for layer in layers]
        self.attention = torch.zeros(())  # the sum over examples of the share of each target [layers, N, targets]
        self.uniform = torch.zeros(())  # likewise of what uniform attention would give [targets]
        self.seen: list[Tensor] = []
        self.batch: TableBatch | None = None

    def look(self, attention: SelfAttention, inputs: tuple[Tensor, AttentionPlan, Tensor | None]) -> None:
        """See a layer attend, before it does."""
        states, plan, key_bias = inputs
        if self.batch is not plan.batch:
            self.batch, self.kinds = plan.batch, target_kinds(plan.batch, self.cls_id)
        probabilities = EAGER.probabilities(attention.project(states), plan, key_bias).float()
        self.seen.append(target_shares(probabilities, self.kinds, plan.batch.in_body))

    def add(self) -> None:
        """Add what was seen of a batch; examples without body tokens do not count."""
        if self.batch is None:
            raise RuntimeError("no example was read")
        real = self.batch.attention_mask[:, None, None, :].float()
        even = (real / real.sum(-1, keepdim=True)).expand(-1, 1, real.shape[-1], -1)
        uniform = target_shares(even, self.kinds, self.batch.in_body).squeeze(1)
        known = self.batch.in_body.any(1)
        self.attention = self.attention + torch.stack([layer[known].sum(0) for layer in self.seen]).cpu()
        self.uniform = self.uniform + uniform[known].sum(0).cpu()
        self.examples += int(known.sum())
        self.seen = []

    def content(self) -> dict[str, Any]:
        """Return the means as plain values, and which heads share a mask."""
        groups = [{"label": label, "heads": heads} for label, heads in head_groups(self.encoder).items()]
        attention, uniform = self.attention / self.examples, self.uniform / self.examples
        return {"attention": attention.tolist(), "uniform": uniform.tolist(), "groups": groups}


def head_groups(encoder: TableEncoder) -> Mapping[str, list[tuple[int, int]]]:
    """Return the heads that share a mask, as (layer, head) from 0, by what they are called; none where all do."""
    patterns = {pattern: name for name, pattern in encoder.patterns.items()}
    groups: dict[str, list[tuple[int, int]]] = {}
    for layer, spec in enumerate(encoder.specs):
        first = 0
        for label, count in zip(spec.pattern.group_labels(), spec.pattern.head_groups, strict=True):
            name = label if len(patterns) == 1 else f"{label}, {patterns[spec.pattern]}"
            groups.setdefault(name, []).extend((layer, head) for head in range(first, first + count))
            first += count
    return groups if len(groups) > 1 else {}


def refuse_slots(encoder: TableEncoder) -> None:
    """Refuse a network some of whose weights are of no pair of tokens.

    Raises:
        ConfigError: naming it.
    """
    if not encoder.specs or not all(spec.backend.among_tokens for spec in encoder.specs):
        name = type(encoder).__name__
        raise ConfigError(
            f"{name} has no plain token-to-token attention",
            where="analysis",
            remedy="Use a network that has, such as model=tapas or model=mate",
        )


def observe(encoder: TableEncoder, batches: Iterable[TableBatch], cls_id: int) -> dict[str, Flow]:
    """Let a network read batches, and add up where each head of its encoders looks from body tokens.

    Returns:
        A flow by what the names of an encoder's weights begin with.
    """
    flows = {name: Flow(network, cls_id) for name, network in encoder.encoders.items()}
    hooks = [layer.register_forward_pre_hook(flow.look) for flow in flows.values() for layer in flow.layers]
    with ExitStack() as stack, torch.no_grad():
        for hook in hooks:
            stack.callback(hook.remove)
        for batch in batches:
            encoder(batch)
            for flow in flows.values():
                flow.add()
    return flows


def target_kinds(batch: TableBatch, cls_id: int) -> Tensor:
    """Return what each key is to each query: Int64 [B, T, T], the place in `TARGETS`, or `PADDING`."""
    same_row, same_column = ((ids[:, :, None] == ids[:, None, :]).long() for ids in (batch.row_ids, batch.column_ids))
    outside, header = (known[:, None, :] for known in (batch.segment_ids == 0, batch.row_ids == 0))
    kinds = torch.where(header, HEADER + same_column, BODY + same_row + 2 * same_column)
    kinds = torch.where(outside, (batch.input_ids != cls_id).long()[:, None, :], kinds)
    return kinds.masked_fill((batch.attention_mask == 0)[:, None, :], PADDING)


def target_shares(probabilities: Tensor, kinds: Tensor, sources: Tensor) -> Tensor:
    """Return how much of the attention of some tokens goes to each kind, the mean over these tokens: [B, N, targets].

    Args:
        probabilities: of every head, [B, N, T, T].
        kinds: of keys, [B, T, T], as `target_kinds` tells them.
        sources: the tokens whose attention is looked at, Bool [B, T]; an example without any has zeros.
    """
    sums = probabilities.new_zeros(*probabilities.shape[:3], PADDING + 1)
    sums.scatter_add_(-1, kinds[:, None].expand_as(probabilities), probabilities)
    weights = sources / sources.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("bntk,bt->bnk", sums, weights.to(sums.dtype))[..., :PADDING]
