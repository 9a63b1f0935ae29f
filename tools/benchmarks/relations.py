"""What relations cost: relation-aware attention beside plain attention of the same size, forward and backward.

python tools/benchmarks/relations.py nodes=64 examples=16
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from command import run
from pydantic import PositiveFloat, PositiveInt
from rich.table import Table as RichTable

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import Attention, AttentionPlan
from mate_cli.attention.patterns import Full
from mate_cli.benchmark.timing import Call, NotRun, Timing, time_turns
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.encoder import SelfAttention
from mate_cli.papers.dt_fixup.models.relation_attention import RelationAttention
from mate_cli.papers.dt_fixup.schema.relations import NODE_RELATIONS, RELATIONS
from mate_cli.terminal.console import Console
from mate_cli.tokenization.layout import ARRAYS, TableBatch

PLAIN, RELATIONAL = "eager", "relations"


@dataclass
class RelationsBenchmark:
    """Time the attention of one layer, with its projections and without them, over nodes that relate at random."""

    nodes: PositiveInt = 64
    examples: PositiveInt = 16
    width: PositiveInt = 256
    heads: PositiveInt = 8
    rounds: PositiveInt = 50
    seconds: PositiveFloat = 60.0

    @property
    def size(self) -> EncoderSize:
        """Of the layer."""
        return EncoderSize(self.width, 1, self.heads, 4 * self.width)

    @cached_property
    def batch(self) -> TableBatch:
        """Nodes that relate at random."""
        ids = torch.zeros(self.examples, self.nodes, dtype=torch.int64)
        arrays: dict[str, Any] = dict.fromkeys(ARRAYS, ids)
        relations = torch.randint(0, RELATIONS, (self.examples, self.nodes, self.nodes))
        return TableBatch(
            **arrays, position_ids=ids, attention_mask=torch.ones_like(ids), more={NODE_RELATIONS: relations}
        )

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield milliseconds, of the wall and of the processor, memory, and both in shares of plain attention's."""
        backends: dict[str, Attention] = {PLAIN: Eager(), "sdpa": Sdpa()}
        backends[RELATIONAL] = RelationAttention(self.size, RELATIONS)
        table = RichTable(title="One layer's attention, forward and backward")
        for heading in ("", "ms", "CPU ms", "MB", "of plain, time", "of plain, memory"):
            table.add_column(heading, justify="right" if heading else "left")
        for kind, make in (("attention", self._alone), ("layer", self._projected)):
            calls = {name: make(backend) for name, backend in backends.items()}
            found = time_turns(calls, rounds=self.rounds, seconds=self.seconds, device=torch.device("cpu"))
            plain = found[PLAIN]
            for name, timing in found.items():
                if isinstance(timing, NotRun) or isinstance(plain, NotRun):
                    continue
                shares = timing.cpu_ms / plain.cpu_ms, (timing.peak_mb or 0.0) / (plain.peak_mb or 1.0)
                table.add_row(f"{kind}, {name}", *_row(timing, shares))
                place = f"relations/{kind}/{name}"
                yield {f"{place}/cpu_ms": timing.cpu_ms, f"{place}/time": shares[0], f"{place}/memory": shares[1]}
        Console().print(table)

    def _alone(self, backend: Attention) -> Call:
        plan = AttentionPlan(Full(self.size.num_heads), self.batch)
        nodes = self.batch.input_ids.numel()
        qkv = torch.randn(nodes, 3, self.size.num_heads, self.size.head_size, requires_grad=True)

        def call() -> None:
            backend.forward(qkv, plan).sum().backward()  # type: ignore[no-untyped-call]
            qkv.grad = None

        return call

    def _projected(self, backend: Attention) -> Call:
        plan = AttentionPlan(Full(self.size.num_heads), self.batch)
        layer = SelfAttention(self.size, backend, 0.0)
        states = torch.randn(self.batch.input_ids.numel(), self.size.hidden_size, requires_grad=True)

        def call() -> None:
            layer(states, plan, None).sum().backward()
            states.grad = None

        return call


def _row(timing: Timing, shares: tuple[float, float]) -> tuple[str, ...]:
    memory = "-" if timing.peak_mb is None else f"{timing.peak_mb:.1f}"
    return (f"{timing.ms:.2f}", f"{timing.cpu_ms:.2f}", memory, *(f"x{share:.2f}" for share in shares))


if __name__ == "__main__":
    run(RelationsBenchmark)
