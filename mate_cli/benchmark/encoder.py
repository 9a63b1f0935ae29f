"""Benchmark of complete encoders: networks of mate with each backend, and `transformers`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full
from mate_cli.benchmark.attention import REHEARSED, time_plan
from mate_cli.benchmark.backends import PEERS, find_backends, find_network, list_backends, list_networks
from mate_cli.benchmark.cases import VOCABULARY, Case, draw_cases
from mate_cli.benchmark.measure import DIRECTIONS, BenchmarkOptions
from mate_cli.benchmark.timing import (
    Figures,
    NotRun,
    Pace,
    Timing,
    Variant,
    attempt,
    clock,
    measure_variants,
    name_figures,
    warm_up,
)
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


Autocast = Callable[[], AbstractContextManager[object]]


class EncoderJob(NamedTuple):
    """An encoder with its input batch, ready for time measurements.

    Args:
        model: encoder to measure.
        batch: batch on the device, with the attention plan if the encoder is a network of mate.
        counted: same batch on the CPU, from which operations are counted.
    """

    model: nn.Module
    batch: TableBatch
    counted: TableBatch


@dataclass(kw_only=True)
class EncoderBenchmark(BenchmarkOptions):
    """Benchmark of complete encoders with random weights and without dropout.

    Variants are `<name in conf/model>` (with dense attention), `<name in conf/model>_<name in conf/attention>`,
    `transformers_tapas`, `transformers_bert`, and names in `networks`. A variant with the suffix `@256` reads only the
    first 256 tokens of each example, as with `encoding.max_tokens=256`. For networks of mate the attention plan is part
    of the batch, as in training, and its time is measured separately.
    """

    variants: list[str]
    networks: dict[str, dict[str, str | int | float | bool | None]]
    size: str
    layers: PositiveInt | None

    @property
    def shape(self) -> EncoderSize:
        """The size of all benchmarked encoders, such as their hidden size and number of layers."""
        size = encoder_size(self.size)
        return replace(size, num_layers=self.layers or size.num_layers)

    @cached_property
    def _models(self) -> dict[str, nn.Module | NotRun]:
        """Each benchmarked encoder in eval mode, or the reason why this machine cannot build the encoder.

        Raises:
            ConfigError: a name or a key is unknown.
        """
        return {name: attempt(partial(self._build, name)) for name in self.variants}

    def _build(self, name: str) -> nn.Module:
        return self._model(name).to(self.device).eval()

    def _model(self, name: str) -> nn.Module:
        """Build the benchmarked encoder with a given name, with random weights.

        Raises:
            ConfigError: the name is unknown.
        """
        longest, (name, _, tokens) = max([*self.lengths, self.max_tokens]), name.partition(CUT)
        if tokens and not (tokens.isdecimal() and int(tokens)):
            hint = f"Write {name}{CUT}256"
            raise ConfigError(f"{tokens!r} is not a number of tokens", where="benchmark.variants", remedy=hint)
        if name in PEERS:
            return PEERS[name](self.shape, longest)
        variants = list_variants() | {label: (str(options["model"]), DENSE) for label, options in self.networks.items()}
        if name not in variants:
            names = [*PEERS, *list_networks(), *(f"mate_{backend}" for backend in list_backends()), *self.networks]
            raise ConfigError(
                f"unknown variant {name!r}",
                where="benchmark.variants",
                remedy=f"Choose from {', '.join(names)}, or combine an option of conf/model with one of conf/attention",
            )
        network, attention = variants[name]
        backend = find_backends([attention])[attention]
        settings = {key: value for key, value in self.networks.get(name, {}).items() if key != "model"}
        options = {"size": self.shape, "vocab_size": VOCABULARY, "attention_dropout": 0.0}
        options = {key: value for key, value in options.items() if key not in settings}
        return find_network(network, backend, longest, settings, **options)

    def rehearse(self, device: torch.device) -> None:
        """Call every encoder on small synthetic tables, so that compilation is not timed later."""
        longest = max([*self.lengths, self.max_tokens])
        for case in draw_cases(["square"], [min(tokens, longest) for tokens in REHEARSED], [1]):
            for job in self._jobs(case, device)[0].values():
                warm_up(partial(encode_and_back, job, self._autocast), clock(device), device)

    def measure(self, case: Case, pace: Pace) -> Figures:
        """Measure all encoders on one input batch: times, memory, operations and throughput."""
        jobs, plans, failures = self._jobs(case, pace.device)
        results: Figures = {}
        for direction, backward in DIRECTIONS.items():
            prefix = f"encoder/{{}}/{case.name}/{direction}".format
            calls = {name: self._work(job, backward=backward) for name, job in jobs.items()}
            timings = measure_variants(calls, pace)
            results |= name_figures(failures | timings, calls, prefix)
            for name, timing in timings.items():
                if isinstance(timing, Timing):
                    results[f"{prefix(name)}/examples_per_second"] = 1000 * len(case.batch.input_ids) / timing.ms
        return results | {f"encoder/{name}/{case.name}/plan/ms": ms for name, ms in plans.items() if ms is not None}

    def _jobs(
        self, case: Case, device: torch.device
    ) -> tuple[dict[str, EncoderJob], dict[str, float | None], dict[str, NotRun]]:
        """Prepare one input batch for every encoder, with the attention plan of the encoder.

        Returns:
            The jobs, the planning times in ms (None if a variant has no plan), and the reasons why variants failed,
                each by variant name.
        """
        jobs: dict[str, EncoderJob] = {}
        plans: dict[str, float | None] = {}
        failures: dict[str, NotRun] = {}
        for name, model in self._models.items():
            if isinstance(model, NotRun):
                failures[name] = model
                continue
            outcome = attempt(partial(plan_job, model, select_tokens(name, case.batch), device))
            if isinstance(outcome, NotRun):
                failures[name] = outcome
            else:
                jobs[name], plans[name] = outcome
        return jobs, plans, failures

    def _work(self, job: EncoderJob, *, backward: bool) -> Variant:
        call = partial(encode_and_back if backward else encode, job, self._autocast)
        return Variant(call, job_flops(job, self.shape, backward=backward) / 1e9)

    def _autocast(self) -> AbstractContextManager[object]:
        half = self.torch_dtype != torch.float32
        return torch.autocast(self.device, self.torch_dtype) if half else nullcontext()


def plan_job(model: nn.Module, batch: TableBatch, device: torch.device) -> tuple[EncoderJob, float | None]:
    """Create a benchmark job from a model and a batch: compute the attention plan and move the batch.

    Args:
        model: encoder to measure.
        batch: batch on the CPU.
        device: device of the measurement.

    Returns:
        The job, and the planning time in milliseconds, which is None for models of `transformers`.
    """
    if not isinstance(model, TableEncoder):
        return EncoderJob(model, batch.to(device), batch), None
    planned_batch, ms = time_plan(model.planner.for_device(device.type), batch)
    return EncoderJob(model, planned_batch.to(device), batch), ms


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


def job_flops(job: EncoderJob, size: EncoderSize, *, backward: bool) -> float:
    """Compute the floating point operations of the dense layers and the attention of an encoder.

    Embeddings, normalization and activations are not counted.

    Args:
        job: model and batch.
        size: size of the encoder.
        backward: whether to include the backward pass.
    """
    if isinstance(job.model, TableEncoder):
        return encoder_flops(job.model, job.counted, backward=backward)
    count = Sdpa().count_operations(AttentionPlan(Full(size.num_heads), job.counted))
    attention = work_flops(count, size.head_size, backward=backward)
    return dense_flops(size, job.counted.input_ids.numel(), backward=backward) + size.num_layers * attention


def encode(job: EncoderJob, autocast: Autocast) -> Tensor:
    """Run an encoder without gradients, and return the hidden states [B, T, D]."""
    with torch.no_grad(), autocast():
        return states_of(job)


def encode_and_back(job: EncoderJob, autocast: Autocast) -> tuple[Tensor | None, ...]:
    """Run an encoder forward, then backward with the hidden states as the gradient of the output.

    Returns:
        The gradient of each parameter, None if the parameter is not used.
    """
    with autocast():
        states = states_of(job)
    return torch.autograd.grad(states, list(job.model.parameters()), states.detach(), allow_unused=True)


def states_of(job: EncoderJob) -> Tensor:
    """Run an encoder on its input batch, and return the hidden states [B, T, D]."""
    output = job.model(job.batch)
    return output if isinstance(output, Tensor) else output.states
