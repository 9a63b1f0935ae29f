"""Attention flow: how table cells distribute their attention over types of tokens.

The attention of tokens in body cells is compared with uniform attention over all tokens.

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
from mate_cli.pipelines.machine import get_device
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
"""Types of key tokens relative to a query token in a body cell, such as "table, same row".

"question" includes all tokens before the table except [CLS].
"""
HEADER, BODY = TARGETS.index("header, other column"), TARGETS.index("table, neither")
PADDING = len(TARGETS)
EAGER = Eager()


@dataclass(frozen=True)
class AttentionFlow(Analysis):
    """Analysis of the fraction of attention that table cells pay to each type in `TARGETS`.

    Queries are tokens in body cells. All examples have equal weight.

    Args:
        examples: number of evenly spaced examples of the split to use. None means all.
    """

    name: ClassVar[str] = "attention_flow"
    examples: Annotated[int, Field(gt=0)] | None = 200

    def find(self, parts: Parts, config: RunConfig, split: str) -> dict[str, Any]:
        """Compute the fraction of attention that each head pays to each type of token.

        Args:
            parts: assembled run: task with the trained network, data module and serializer.
            config: configuration of the run.
            split: name of the split to analyze.

        Returns:
            `examples`: number of examples with table cells. `targets`: names of the token types. `networks`: for each
                encoder its name, `attention` as a nested list [layers][heads][targets] of fractions, `uniform` and
                `groups`, see `Flow.content`.

        Raises:
            ConfigError: the attention weights of an encoder are not between pairs of tokens, as in Linformer.
            RunError: no input has table cells.
        """
        encoder, data = parts.task.encoder, parts.data
        for network in encoder.encoders.values():
            refuse_slots(network)
        device = get_device(config.hardware)
        parts.task.to(device).eval()
        examples = pick_evenly(data.examples(split), self.examples)
        loader = data.build_eval_loader(examples, f"{split}, {self.name}")
        flows = observe(encoder, (batch.to(device) for batch in loader), parts.serializer.tokenizer.cls_id)
        if not all(flow.examples for flow in flows.values()):
            hint = "Analyse a network that reads tables"
            raise RunError(f"the split {split} has no input with table cells", remedy=hint)
        networks = [{"name": name.rstrip("."), **flow.content()} for name, flow in flows.items()]
        return {"examples": max(flow.examples for flow in flows.values()), "targets": TARGETS, "networks": networks}


class Flow:
    """Sums the attention fractions of one encoder over all batches that are run through it.

    The method `look` is registered as a forward pre-hook of every attention layer of the encoder. The method `add` is
    called after each batch.

    Args:
        encoder: encoder to observe.
        cls_id: token id of [CLS].
    """

    def __init__(self, encoder: TableEncoder, cls_id: int) -> None:
        self.encoder, self.cls_id, self.examples = encoder, cls_id, 0
        layers: Iterable[Any] = encoder.encoder.layer
        self.layers: list[SelfAttention] = [layer.attention["self"] for layer in layers]
        # Sum over examples of the share of each target, [layers, N, targets].
        self.attention = torch.zeros(())
        # Sum over examples of the share of each target under uniform attention, [targets].
        self.uniform = torch.zeros(())
        self.seen: list[Tensor] = []
        self.batch: TableBatch | None = None

    def look(self, attention: SelfAttention, inputs: tuple[Tensor, AttentionPlan, Tensor | None]) -> None:
        """Store how this layer distributes attention over token types. Runs as forward pre-hook.

        Args:
            attention: attention layer that is about to run.
            inputs: hidden states, attention plan and key bias, the inputs of the layer.
        """
        states, plan, key_bias = inputs
        if self.batch is not plan.batch:
            self.batch, self.kinds = plan.batch, target_kinds(plan.batch, self.cls_id)
        probabilities = EAGER.probabilities(attention.project(states), plan, key_bias).float()
        self.seen.append(target_shares(probabilities, self.kinds, plan.batch.in_body))

    def add(self) -> None:
        """Add the attention fractions of the batch that was just run to the sums over batches.

        Examples without tokens in body cells are skipped.
        """
        if self.batch is None:
            raise RuntimeError("no example was read")
        mask = self.batch.attention_mask[:, None, None, :].float()
        uniform_attention = (mask / mask.sum(-1, keepdim=True)).expand(-1, 1, mask.shape[-1], -1)
        uniform = target_shares(uniform_attention, self.kinds, self.batch.in_body).squeeze(1)
        has_body = self.batch.in_body.any(1)
        self.attention = self.attention + torch.stack([layer[has_body].sum(0) for layer in self.seen]).cpu()
        self.uniform = self.uniform + uniform[has_body].sum(0).cpu()
        self.examples += int(has_body.sum())
        self.seen = []

    def content(self) -> dict[str, Any]:
        """Return the measured attention fractions as JSON-serializable values, for a file.

        Returns:
            `attention`: nested list [layers][heads][targets] of fractions. `uniform`: fraction per target under uniform
                attention. `groups`: label and (layer, head) pairs of each group of attention heads with the same mask.
        """
        groups = [{"label": label, "heads": heads} for label, heads in head_groups(self.encoder).items()]
        attention, uniform = self.attention / self.examples, self.uniform / self.examples
        return {"attention": attention.tolist(), "uniform": uniform.tolist(), "groups": groups}


def head_groups(encoder: TableEncoder) -> Mapping[str, list[tuple[int, int]]]:
    """Group attention heads by their attention mask: {group name: [(layer, head), ...]}.

    Groups are named by their label. Layers and attention heads are counted from 0. The result is {} if all attention
    heads share one mask.
    """
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
    """Raise `ConfigError` if an encoder does not attend from each token to single tokens.

    Linformer, for example, attends to learned combinations of tokens instead.

    Raises:
        ConfigError: the encoder has other attention weights, or no attention layers.
    """
    if not encoder.specs or not all(spec.backend.among_tokens for spec in encoder.specs):
        name = type(encoder).__name__
        hint = "Use a network that has, such as model=tapas or model=mate"
        raise ConfigError(f"{name} has no plain token-to-token attention", where="analysis", remedy=hint)


def observe(encoder: TableEncoder, batches: Iterable[TableBatch], cls_id: int) -> dict[str, Flow]:
    """Run a network on batches without gradients, and sum the attention of table cells.

    Args:
        encoder: network to run.
        batches: batches on the device of the network.
        cls_id: token id of [CLS].

    Returns:
        The accumulated attention of each encoder, by the prefix of the encoder's parameter names.
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
    """Classify each key token by its relation to each query token, Int64 [B, T, T].

    Relations are, for example, a body cell of the same row, or a header cell of another column.

    A type is an index in `TARGETS`, or `PADDING` for a padding token.
    """
    same_row, same_column = ((ids[:, :, None] == ids[:, None, :]).long() for ids in (batch.row_ids, batch.column_ids))
    is_outside, is_header = (mask[:, None, :] for mask in (batch.segment_ids == 0, batch.row_ids == 0))
    kinds = torch.where(is_header, HEADER + same_column, BODY + same_row + 2 * same_column)
    kinds = torch.where(is_outside, (batch.input_ids != cls_id).long()[:, None, :], kinds)
    return kinds.masked_fill((batch.attention_mask == 0)[:, None, :], PADDING)


def target_shares(probabilities: Tensor, kinds: Tensor, sources: Tensor) -> Tensor:
    """Compute the mean attention of source tokens to each type of key token, [B, N, targets].

    Args:
        probabilities: attention probabilities of every attention head, [B, N, T, T].
        kinds: types of keys from `target_kinds`, Int64 [B, T, T].
        sources: mask of the source tokens, Bool [B, T]. The result is zero for examples without source tokens.
    """
    sums = probabilities.new_zeros(*probabilities.shape[:3], PADDING + 1)
    sums.scatter_add_(-1, kinds[:, None].expand_as(probabilities), probabilities)
    weights = sources / sources.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("bntk,bt->bnk", sums, weights.to(sums.dtype))[..., :PADDING]
