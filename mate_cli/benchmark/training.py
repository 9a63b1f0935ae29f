"""Training steps on real questions: forward, loss, backward, clipping and optimizer, as `mate train` takes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

import torch
from pydantic import PositiveInt
from torch import nn

from mate_cli.benchmark.cases import encode_dataset, find_real, together
from mate_cli.benchmark.encoder import Autocast, EncoderBenchmark, EncoderJob, job_flops, output_of, plan_job
from mate_cli.benchmark.measure import count_down
from mate_cli.benchmark.timing import (
    Figures,
    NotRun,
    Pace,
    Timing,
    Variant,
    machine_facts,
    measure_variants,
    name_figures,
)
from mate_cli.data.loading.batching import LengthGroupedBatches, plan_schedule
from mate_cli.lit_modules.losses import marginal_likelihood
from mate_cli.lit_modules.optimization.adamw import AdamW
from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.heads.scores import CellSelectionHead
from mate_cli.tokenization.layout import TableBatch, TableEncoding

CLIP = 10.0
"""The largest norm of a gradient; MATE paper, appendix A.2."""

Order = Literal["random", "grouped"]


class Learner(NamedTuple):
    """A variant in training."""

    jobs: Sequence[EncoderJob]
    head: nn.Module
    optimizer: torch.optim.Optimizer

    @property
    def weights(self) -> list[nn.Parameter]:
        """All that is learnt."""
        return [weight for group in self.optimizer.param_groups for weight in group["params"]]


@dataclass(kw_only=True)
class TrainingBenchmark(EncoderBenchmark):
    """Measures steps of cell selection with dropout; iterating over it yields the figures of one order after another.

    Variants are those of `EncoderBenchmark`.
    """

    orders: list[Order]
    batch_size: PositiveInt
    steps: PositiveInt

    def __iter__(self) -> Iterator[Figures]:
        """Measure.

        Raises:
            ConfigError: a name is unknown, or the device is not there.
            DataError: the dataset is not on disk.
        """
        with self.pace() as pace:
            yield machine_facts(pace)
            self.rehearse(pace.device)
            for case, batches in count_down(self._batches_of_orders(), self.seconds):
                yield self.measure_steps(case, [batch.to(pace.device) for batch in batches], pace)

    def _batches_of_orders(self) -> dict[str, list[TableBatch]]:
        """Return the batches of every order of every dataset, by the name of the case."""
        batches: dict[str, list[TableBatch]] = {}
        for name, root in find_real(self.real, self.folders).items():
            encodings = encode_dataset(name, root, self.tokenizer, self.max_tokens)
            for order in self.orders:
                case = f"{name}/{self.max_tokens}/{self.batch_size}_{order}"
                batches[case] = draw_batches(encodings, order, self)
        return batches

    def measure_steps(self, case: str, batches: Sequence[TableBatch], pace: Pace) -> Figures:
        """Return all figures of one order of questions; those named forward_backward are of a whole step."""
        learners, plans, refused = self.prepare(batches, self._learner)
        work = {name: self._steps(learner) for name, learner in learners.items()}
        timings = {name: self._per_step(timing) for name, timing in measure_variants(work, pace).items()}
        per_step = {name: variant._replace(gflop=variant.gflop / self.steps) for name, variant in work.items()}
        place = f"training/{{}}/{case}/{{}}".format
        named = name_figures(refused | timings, per_step, lambda name: place(name, "forward_backward"))
        for name, timing in timings.items():
            if isinstance(timing, Timing):
                per_second = 1000 * self.batch_size / timing.ms
                named[place(name, "forward_backward/examples_per_second")] = per_second
                named[place(name, "plan/ms")] = plans[name] or 0.0
        return named

    def _learner(self, model: nn.Module, batches: Sequence[TableBatch]) -> tuple[Learner, float]:
        """Return a model with its planned batches, a head and an optimizer, and the mean ms of a plan."""
        for name, module in model.train().named_modules():
            if isinstance(module, nn.Dropout) and "attention.self" in name:  # of a peer; ours drop no attention here
                module.p = 0.0
        device = batches[0].input_ids.device
        jobs, plans = zip(*(plan_job(model, batch, device) for batch in batches), strict=True)
        head = CellSelectionHead(self.shape.hidden_size).to(device)
        optimizer = AdamW().build(nn.ModuleList([model, head]))
        return Learner(jobs, head, optimizer), sum(ms or 0.0 for ms in plans) / len(plans)

    def _steps(self, learner: Learner) -> Variant:
        gflop = sum(job_flops(job, self.shape, backward=True) for job in learner.jobs) / 1e9
        return Variant(partial(take_steps, learner, self._autocast), gflop)

    def _per_step(self, timing: Timing | NotRun) -> Timing | NotRun:
        if isinstance(timing, NotRun):
            return timing
        return timing._replace(ms=timing.ms / self.steps, cpu_ms=timing.cpu_ms / self.steps)


def draw_batches(encodings: Sequence[TableEncoding], order: Order, options: TrainingBenchmark) -> list[TableBatch]:
    """Return the first batches of a training run on these questions, of as many as are measured.

    Raises:
        ConfigError: there are fewer questions than a batch has.
    """
    size, steps = options.batch_size, options.steps
    schedule = plan_schedule(len(encodings), batch_size=size, micro_batch=size, max_epochs=None, max_steps=steps)
    lengths = [len(encoding) if order == "grouped" else 0 for encoding in encodings]
    chosen = islice(LengthGroupedBatches(lengths, schedule, seed=0), steps)
    return [together([encodings[index] for index in indices]) for indices in chosen]


def labels_of(output: EncoderOutput, job: EncoderJob) -> TableBatch:
    """Return the labels of the tokens that states are of: all of them, or those that a network keeps."""
    places = output.batch.places
    return job.counted if places is None or output.batch is job.batch else job.counted.keep(places)


def take_steps(learner: Learner, autocast: Autocast) -> None:
    """Take one optimizer step on every batch."""
    for job in learner.jobs:
        with autocast():
            output = output_of(job)
            cells = learner.head(output._replace(batch=labels_of(output, job)))
        loss = marginal_likelihood(cells.logits, cells.mask, cells.candidates).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(learner.weights, CLIP)
        learner.optimizer.step()
        learner.optimizer.zero_grad()
