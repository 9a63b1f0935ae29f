"""From timings to named figures, as they stand in a record: `<benchmark>/<variant>/<case>/<direction>/<figure>`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mate_cli.benchmark.timing import Call, NotRun, Timing, matmul_peak, time_turns

Figures = dict[str, float | str]
"""Numbers by name; a text says why there is none."""


class Variant(NamedTuple):
    """One way to do the work of a case in one direction.

    Args:
        gflop: the operations it takes, counted, in 10**9.
        approximate: what it computes is only near to what its pattern says.
    """

    call: Call
    gflop: float
    approximate: bool = False


@dataclass
class Pace:
    """Limits of measurements, and the speeds known so far.

    Args:
        rounds: at most so many.
        seconds: about so long in all rounds of one case and direction; the most that a first call may take.
        peak: GFLOP per second of matrix products, the highest seen.
        speeds: the highest speed seen of each variant, in GFLOP per second.
    """

    rounds: int
    seconds: float
    device: torch.device
    peak: float
    speeds: dict[str, float]
    dtype: torch.dtype = torch.float32

    def measure_peak(self, seconds: float = 0.1) -> None:
        """Measure the peak once more: a machine is now faster, now slower."""
        self.peak = max(self.peak, matmul_peak(self.device, self.dtype, seconds=seconds))


def measure_variants(variants: Mapping[str, Variant], pace: Pace) -> dict[str, Timing | NotRun]:
    """Time variants in turns, and with them the machine's peak, without those that are known to take too long.

    A variant is expected to be as fast as it ever was in this run, or as the machine's peak at its first case.
    """
    expected = {name: variant.gflop / pace.speeds.get(name, pace.peak) for name, variant in variants.items()}
    slow = {name: seconds for name, seconds in expected.items() if seconds > pace.seconds}
    calls = {name: variant.call for name, variant in variants.items() if name not in slow}
    timings = time_turns(calls, rounds=pace.rounds, seconds=pace.seconds, device=pace.device, before=pace.measure_peak)
    for name, timing in timings.items():
        if isinstance(timing, Timing):
            pace.speeds[name] = max(pace.speeds.get(name, 0.0), speed(variants[name], timing))
    late = {name: NotRun(f"a call would take {s:.3g} s, the limit is {pace.seconds:g} s") for name, s in slow.items()}
    return {name: timings.get(name) or late[name] for name in variants}


def speed(variant: Variant, timing: Timing) -> float:
    """Return GFLOP per second of wall time."""
    return variant.gflop / max(timing.ms / 1000, 1e-9)


def name_figures(
    timings: Mapping[str, Timing | NotRun],
    variants: Mapping[str, Variant],
    prefix: Callable[[str], str],
    references: Mapping[str, str],
    peak: float,
) -> Figures:
    """Name what was measured in one case and direction.

    Args:
        timings: of the variants.
        variants: their work.
        prefix: what the names of a variant's figures begin with.
        references: the variants to compare with, by the name of the comparison (`speedup_vs_<name>`).
        peak: GFLOP per second of matrix products.
    """
    named: Figures = {}
    for name, timing in timings.items():
        if isinstance(timing, NotRun):
            named[f"{prefix(name)}/not_run"] = timing.reason
            continue
        ratios = _ratios(name, timing, timings, references)
        for figure, value in [*_costs(variants[name], timing, peak), *ratios]:
            named[f"{prefix(name)}/{figure}"] = value
    return named


def _costs(variant: Variant, timing: Timing, peak: float) -> Iterator[tuple[str, float]]:
    yield "ms", timing.ms
    yield "cpu_ms", timing.cpu_ms
    yield "rounds", float(timing.rounds)
    if timing.peak_mb is not None:
        yield "peak_mb", timing.peak_mb
    yield "gflop", variant.gflop
    yield "gflops_per_second", speed(variant, timing)
    yield "share_of_peak", speed(variant, timing) / peak
    if variant.approximate:
        yield "approximate", 1.0


def _ratios(
    name: str, timing: Timing, timings: Mapping[str, Timing | NotRun], references: Mapping[str, str]
) -> Iterator[tuple[str, float]]:
    for label, reference in references.items():
        other = timings.get(reference)
        if isinstance(other, Timing) and reference != name:
            yield f"speedup_vs_{label}", other.ms / timing.ms
