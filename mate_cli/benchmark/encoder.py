"""Benchmark of complete encoders: networks of mate with each backend, and `transformers`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full
from mate_cli.benchmark.attention import time_plan
from mate_cli.benchmark.backends import PEERS, find_backends, find_network, list_backends, list_networks
from mate_cli.benchmark.cases import VOCABULARY, Case
from mate_cli.benchmark.measure import BenchmarkOptions
from mate_cli.benchmark.timing import DIRECTIONS, FORWARD, NotRun, Variant, attempt
from mate_cli.errors import ConfigError
from mate_cli.models.base.costs import dense_flops, encoder_flops, work_flops
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.tokenization.layout import TableBatch

CUT = "@"
"""Separator in the name of a variant, before the number of tokens that the variant reads."""
DENSE = "sdpa"
"""Backend of a network variant whose name contains no backend.

The backend is PyTorch's `scaled_dot_product_attention`, if the network uses the backend.
"""


@dataclass(kw_only=True)
class EncoderBenchmark(BenchmarkOptions):
    """Benchmark of the speed and memory of complete encoders with random weights.

    Dropout is disabled.

    Variants are `<name in conf/model>` (with dense attention), `<name in conf/model>_<name in conf/attention>`,
    `transformers_tapas`, `transformers_bert`, and names in `networks`. A variant with the suffix `@256` reads only the
    first 256 tokens of each example, as with `encoding.max_tokens=256`. For networks of mate the attention plan is part
    of the batch, as in training, and its time is measured separately.
    """

    kind: ClassVar[str] = "encoder"
    variants: list[str]
    networks: dict[str, dict[str, str | int | float | bool | None]]
    size: str
    layers: PositiveInt | None

    @property
    def shape(self) -> EncoderSize:
        """Hidden size, number of layers and other dimensions, equal for all benchmarked encoders."""
        size = encoder_size(self.size)
        return replace(size, num_layers=self.layers or size.num_layers)

    @cached_property
    def _models(self) -> dict[str, nn.Module | NotRun]:
        """Encoders to benchmark by name, or the reason why this machine cannot build the encoder.

        Raises:
            ConfigError: a name or a key is unknown.
        """
        return {name: attempt(partial(self._model, name)) for name in self.variants}

    def _model(self, name: str) -> nn.Module:
        """Build the encoder to benchmark by its name, with random weights.

        Raises:
            ConfigError: the name is unknown.
        """
        name, _, tokens = name.partition(CUT)
        if tokens and not (tokens.isdecimal() and int(tokens)):
            hint = f"Write {name}{CUT}256"
            raise ConfigError(f"{tokens!r} is not a number of tokens", where="benchmark.variants", remedy=hint)
        if name in PEERS:
            return PEERS[name](self.shape, self.longest_input)
        variants = list_variants() | {label: (str(options["model"]), DENSE) for label, options in self.networks.items()}
        if name not in variants:
            names = [*PEERS, *list_networks(), *(f"mate_{backend}" for backend in list_backends()), *self.networks]
            hint = f"Choose from {', '.join(names)}, or combine an option of conf/model with one of conf/attention"
            raise ConfigError(f"unknown variant {name!r}", where="benchmark.variants", remedy=hint)
        network, attention = variants[name]
        backend = find_backends([attention])[attention]
        settings = {key: value for key, value in self.networks.get(name, {}).items() if key != "model"}
        options = {"size": self.shape, "vocab_size": VOCABULARY, "attention_dropout": 0.0}
        options = {key: value for key, value in options.items() if key not in settings}
        return find_network(network, backend, self.longest_input, settings, **options)

    def prepare(self, case: Case, device: torch.device) -> Mapping[str, Callable[[], Variant | NotRun]]:
        """Return a function per encoder that prepares the encoder and a batch on the device.

        The preparation computes the attention plan of the batch, and moves the batch to the device.

        Args:
            case: input batch.
            device: device of the measurement.
        """
        return {name: partial(self._prepare, name, case.batch, device) for name in self.variants}

    def _prepare(self, name: str, whole_batch: TableBatch, device: torch.device) -> Variant | NotRun:
        model, batch = self._models[name], select_tokens(name, whole_batch)
        if isinstance(model, NotRun):
            return model
        planned_batch, ms = batch, None
        if isinstance(model, TableEncoder):
            planned_batch, ms = time_plan(model.planner.for_device(device.type), batch)
        forward = partial(self._encode, model.to(device).eval(), planned_batch.to(device))
        gflop = {d: count_flops(model, self.shape, batch, backward=d != FORWARD) / 1e9 for d in DIRECTIONS}
        return Variant(forward, list(model.parameters()), gflop, ms, examples=len(batch.input_ids))

    def _encode(self, model: nn.Module, batch: TableBatch) -> Tensor:
        """Run an encoder on a batch, and return the hidden states [B, T, D]."""
        with torch.autocast(self.device, self.torch_dtype, enabled=self.torch_dtype != torch.float32):
            output = model(batch)
        return output if isinstance(output, Tensor) else output.states


def list_variants() -> dict[str, tuple[str, str]]:
    """Return {encoder name: (network, attention backend)} of all encoders of mate."""
    networks, backends = list_networks(), list_backends()
    pairs = {f"{network}_{backend}": (network, backend) for network in networks for backend in backends}
    return pairs | {network: (network, DENSE) for network in networks}


def select_tokens(variant: str, batch: TableBatch) -> TableBatch:
    """Truncate a batch to the first `n` tokens if the variant's name ends in `@n`."""
    tokens = variant.partition(CUT)[2]
    if not tokens or int(tokens) >= batch.input_ids.shape[1]:
        return batch
    first = torch.arange(int(tokens), device=batch.input_ids.device)
    return batch.keep(first.expand(len(batch.input_ids), -1))


def count_flops(model: nn.Module, size: EncoderSize, batch: TableBatch, *, backward: bool) -> float:
    """Count the floating point operations of an encoder: dense layers and attention.

    Embeddings, normalization and activations are not counted.

    Args:
        model: encoder.
        size: size of the encoder.
        batch: batch on the CPU.
        backward: whether to include the backward pass.
    """
    if isinstance(model, TableEncoder):
        return encoder_flops(model, batch, backward=backward)
    count = Sdpa().count_operations(AttentionPlan(Full(size.num_heads), batch))
    attention = work_flops(count, size.head_size, backward=backward)
    return dense_flops(size, batch.input_ids.numel(), backward=backward) + size.num_layers * attention
