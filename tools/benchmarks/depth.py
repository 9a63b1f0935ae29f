"""How far one step of SGD moves the output of new layers, against their number: what DT-Fixup bounds.

A step of rate eta along the gradient of one direction of the output moves the output in this direction by eta times the
squared norm of that gradient, as far as eta is small. By theorem 3.1 of the paper this is the same at any depth if all
layers are scaled as there. The theorem is of matrices alone: biases as PyTorch draws them, which the released code
keeps, are not scaled, and give every scheme a share that grows with the depth (`biases`).

Theorem 3.2 bounds each layer by itself: of N layers one may change by about 1/N. Without relations the squares of
equation 8, |v x|^2 + |w x|^2, are added up over both sub-layers; with them they are those of equation 7. As the theorem
speaks of numbers, a matrix counts as the factor by which it lengthens a vector of random direction, and a table of
relations as the length of what it adds to a value.

    python tools/benchmarks/depth.py draws=4 relations=true

Source: Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, section 3.2 and appendix B.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from command import run
from pydantic import Field, PositiveFloat, PositiveInt
from rich.table import Table
from torch import Tensor, nn

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import plan_layers
from mate_cli.attention.patterns import Full
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.encoder import EncoderLayer, LayerSpec, Norm
from mate_cli.papers.dt_fixup.models.extra import Extra, ExtraLayers
from mate_cli.papers.dt_fixup.models.relation_attention import RelationAttention
from mate_cli.papers.dt_fixup.models.schemes import evaluation_mode, scaled_weights
from mate_cli.papers.dt_fixup.schema.relations import NODE_RELATIONS
from mate_cli.reports.benchmark import scaling_figure
from mate_cli.reports.plots.style import save_figure
from mate_cli.reports.runs.load import load_runs
from mate_cli.terminal.console import Console
from mate_cli.tokenization.layout import TableBatch

Variant = Literal["standard", "pre_norm", "no_norm", "t_fixup", "admin", "dt_fixup"]
VARIANTS: Mapping[str, tuple[str, Norm | None]] = {
    "standard": ("standard", None),
    "pre_norm": ("standard", "pre"),
    "no_norm": ("standard", "none"),
    "t_fixup": ("t_fixup", None),
    "admin": ("admin", None),
    "dt_fixup": ("dt_fixup", None),
}
"""Scheme and norm of each; without a norm and a scheme matrices stay as Xavier draws them."""
TITLES = {
    "change": "Change of the output by one step of SGD, over its rate",
    "bound": "Theorem 3.2: N times the left side of its condition, about 1 where it holds",
}
"""What is measured, in the order shown."""
RELATIONS = 33
"""Kinds of relations; those of text to SQL are as many."""


class Stack(nn.Module):
    """New layers on inputs that stand fast, in float64 and without dropout.

    Args:
        inputs: what they are given, [T, D].
        batch: of the same T tokens.
        biases: keep and train them, and the gains of norms; else biases are zero, and matrices alone take a step.
    """

    def __init__(
        self,
        extra: Extra,
        inputs: Tensor,
        spec: Callable[[EncoderSize], LayerSpec],
        batch: TableBatch,
        *,
        biases: bool = False,
    ) -> None:
        super().__init__()
        self.inputs, self.batch = inputs, batch
        self.layers = ExtraLayers(extra, inputs.shape[1], spec).double()
        for name, parameter in self.layers.named_parameters():
            parameter.requires_grad_(biases or parameter.dim() > 1)
            if name.endswith("bias") and not biases:
                nn.init.zeros_(parameter)
        self.layers.prepare(self, [self.batch], lambda measure: measure())

    def extra_inputs(self, batch: TableBatch) -> Iterable[Tensor]:
        """Draw inputs of the layers, [T, D]."""
        return [self.inputs]

    def forward(self, batch: TableBatch) -> Tensor:
        """Return the output of the layers, [T, D]."""
        made: Tensor = self.layers(
            self.inputs, plan_layers([spec.pattern for spec in self.layers.encoder.specs], batch)
        )
        return made

    def change(self, direction: Tensor) -> float:
        """Return the squared gradient norm of the output in one direction [T, D]: its change by a step, by rate."""
        self.zero_grad()
        (self(self.batch) * direction).sum().backward()
        return sum(float(p.grad.square().sum()) for p in self.parameters() if p.grad is not None)

    def bound(self) -> float:
        """How far the condition of theorem 3.2 is met, see `layer_bound`."""
        return layer_bound(self, self.layers.encoder.layers, lambda: self(self.batch))


@dataclass(kw_only=True)
class DepthBenchmark:
    """Measure every variant at every depth."""

    layers: Sequence[PositiveInt] = (2, 4, 8, 12, 16, 24)
    variants: Sequence[Variant] = ("standard", "pre_norm", "t_fixup", "admin", "dt_fixup")
    width: PositiveInt = 32
    heads: PositiveInt = 4
    inner: PositiveInt = 128
    tokens: PositiveInt = 16
    mu: PositiveFloat = 12.4
    draws: PositiveInt = 2
    biases: bool = False
    relations: bool = False
    seed: Annotated[int, Field(ge=0)] = 1

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield the change and the bound of each variant, depth by depth; print them all at the end."""
        found: dict[str, dict[str, list[float]]] = {measure: {} for measure in TITLES}
        for name in self.variants:
            measured = [(self.change(name, layers), self.bound(name, layers)) for layers in self.layers]
            for measure, values in zip(TITLES, zip(*measured, strict=True), strict=True):
                found[measure][name] = list(values)
                yield {f"depth/{name}/{n}/{measure}": value for n, value in zip(self.layers, values, strict=True)}
        for measure, title in TITLES.items():
            Console().print(self._table(title, found[measure]))

    def change(self, name: str, layers: int) -> float:
        """Return the change of the output by one step over its rate; the geometric mean over draws."""
        return self._mean(stack.change(direction) for stack, direction in self._drawn(name, layers))

    def bound(self, name: str, layers: int) -> float:
        """How far the condition of theorem 3.2 is met, about 1 where it is; the geometric mean over draws."""
        return self._mean(stack.bound() for stack, _ in self._drawn(name, layers))

    def _drawn(self, name: str, layers: int) -> Iterator[tuple[Stack, Tensor]]:
        return (self.stack(name, layers, self.seed + draw) for draw in range(self.draws))

    def _mean(self, values: Iterable[float]) -> float:
        return float(torch.tensor(list(values), dtype=torch.float64).log().mean().exp())

    def stack(self, name: str, layers: int, seed: int) -> tuple[Stack, Tensor]:
        """Layers as a variant begins with them, and a direction of their output of length 1, [T, D]."""
        torch.manual_seed(seed)
        inputs = torch.randn(self.tokens, self.width, dtype=torch.float64)
        direction = torch.randn_like(inputs)
        scheme, norm = VARIANTS[name]
        extra = Extra(
            layers=layers,
            heads=self.heads,
            inner=self.inner,
            scheme=scheme,
            norm=norm,
            input_dropout=0.0,
            dropout=0.0,
            attention_dropout=0.0,
        )
        inputs *= self.mu / inputs.norm(dim=-1).max()
        stack = Stack(extra, inputs, self._spec, _batch(self.tokens), biases=self.biases)
        return stack, direction / direction.norm()

    def _spec(self, size: EncoderSize) -> LayerSpec:
        return LayerSpec(Full(size.num_heads), RelationAttention(size, RELATIONS) if self.relations else Sdpa())

    def _table(self, title: str, found: Mapping[str, Sequence[float]]) -> Table:
        table = Table(title=title, title_justify="left")
        table.add_column("layers")
        for layers in self.layers:
            table.add_column(str(layers), justify="right")
        table.add_column("last / first", justify="right")
        for name, values in found.items():
            table.add_row(name, *(f"{value:.3g}" for value in values), f"{values[-1] / values[0]:.3g}")
        return table


def _batch(tokens: int) -> TableBatch:
    """One example of so many tokens, each of which has all kinds of relations to others; nothing else matters."""
    zero = torch.zeros(1, tokens, dtype=torch.int64)
    places = torch.arange(tokens)
    kinds = (places[:, None] * tokens + places)[None] % RELATIONS
    return TableBatch(*(zero,) * 8, position_ids=zero, attention_mask=zero + 1, more={NODE_RELATIONS: kinds})


def layer_bound(network: nn.Module, layers: Sequence[EncoderLayer], run: Callable[[], object]) -> float:
    """N times the left side of the theorem's condition, the largest of all layers; about 1 where all is as it demands.

    Args:
        network: that the layers are part of.
        layers: N of them.
        run: runs the network once.
    """
    given: dict[nn.Module, float] = {}
    inputs = [(layer.attention["self"], layer.intermediate["dense"]) for layer in layers]
    hooks = [
        module.register_forward_pre_hook(lambda module, args: given.update({module: _longest(args[0])}))
        for pair in inputs
        for module in pair
    ]
    try:
        with evaluation_mode(network):
            run()
    finally:
        for hook in hooks:
            hook.remove()
    bounds = [_bound(layer, *(given[module] for module in pair)) for layer, pair in zip(layers, inputs, strict=True)]
    return len(layers) * max(bounds)


def _bound(layer: EncoderLayer, attended: float, fed: float) -> float:
    """Return the left side of the condition for a layer, by the norms of the inputs of its two sub-layers."""
    value, output, inner, outer, *tables = scaled_weights(layer)
    v, w, v_inner, w_outer = map(_factor, (value, output, inner, outer))
    added = sum(float(table.detach().square().sum(-1).mean()) * layer.spec.pattern.num_heads for table in tables) ** 0.5
    of_attention = (v * attended + added) ** 2 + w**2 * (attended**2 + bool(tables))
    return of_attention + (v_inner**2 + w_outer**2) * fed**2


def _factor(matrix: Tensor) -> float:
    """How much longer a matrix [out, in] makes a vector, the root of the mean square over directions."""
    return float(matrix.detach().square().sum() / matrix.shape[1]) ** 0.5


def _longest(states: Tensor) -> float:
    return float(torch.linalg.vector_norm(states, dim=-1).max())


def draw(folder: Path) -> list[Path]:
    """Draw the changes of a record against the number of layers, as PNG and SVG beside it."""
    lines: dict[str, dict[int, float]] = {}
    for name, value in load_runs([folder]).runs[0].metrics.items():
        _, variant, layers, measure = name.split("/")
        if measure == "change":
            lines.setdefault(variant, {})[int(layers)] = value
    figure = scaling_figure([{"Change of the output by one step, over its rate": lines}], "change / rate", "layers")
    return save_figure(figure, folder, "depth")


if __name__ == "__main__":
    print(*draw(run(DepthBenchmark)), sep="\n")
