"""Between which values a search chooses, as Hydra's words say it: `choice`, `range`, `interval`, and their `log`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep, Transformer
from omegaconf import DictConfig, OmegaConf

from mate_cli.cli.config.hydra_errors import parse_overrides
from mate_cli.errors import ConfigError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

LOG = "log"
"""The tag of values whose logarithms are evenly likely."""


@dataclass(frozen=True)
class SearchSpace:
    """Overrides of every trial, and the values to choose from.

    Args:
        fixed: overrides of every trial.
        distributions: the values to choose from, by key.
        signs: what stands before a key, such as `++`.
    """

    fixed: tuple[str, ...]
    distributions: Mapping[str, BaseDistribution]
    signs: Mapping[str, str]

    def overrides(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the overrides of a trial with these values."""
        return (*(f"{self.signs[key]}{key}={value}" for key, value in values.items()), *self.fixed)


def parse_space(words: Sequence[str], config: DictConfig) -> SearchSpace:
    """Read what is fixed and what is searched.

    Args:
        words: overrides, as they are typed.
        config: that of the command, which knows the kinds of its values.

    Raises:
        ConfigError: a key is both fixed and searched, no values can be chosen, or they are of the wrong kind.
    """
    fixed: dict[str, str] = {}
    distributions: dict[str, BaseDistribution] = {}
    signs: dict[str, str] = {}
    for word, override in zip(words, parse_overrides(words), strict=True):
        element = override.get_key_element()
        key = element.lstrip("+~")
        searched = override.is_sweep_override()
        if key in distributions or (searched and key in fixed):
            raise ConfigError("is both searched and set", where=key, remedy="Remove one of them")
        if not searched:
            fixed[key] = word
            continue
        check_kind(key, override, config)
        distributions[key], signs[key] = to_distribution(key, override), element[: len(element) - len(key)]
    if not distributions:
        remedy = "Add one, such as 'optimizer.lr=tag(log, interval(1e-5, 1e-3))'"
        raise ConfigError("the search has no key to vary", where="hydra/sweeper=optuna", remedy=remedy)
    return SearchSpace(tuple(fixed.values()), distributions, signs)


def to_distribution(key: str, override: Override) -> BaseDistribution:
    """Make a distribution of Optuna of the values of an override.

    Raises:
        ConfigError: there are none, or they have no logarithm.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value: Any = override.value()
    log = LOG in getattr(value, "tags", ())
    try:
        if isinstance(value, IntervalSweep):
            if isinstance(value.start, int) and isinstance(value.end, int):
                return IntDistribution(value.start, value.end, log=log)
            return FloatDistribution(float(value.start or 0), float(value.end or 0), log=log)
        if isinstance(value, RangeSweep):
            start, last, step = range_ends(value)
            if all(isinstance(number, int) for number in (start, last, step)):
                return IntDistribution(int(start), int(last), step=int(step), log=log)
            return FloatDistribution(start, last, step=step, log=log)
        choices: list[Any] = list(override.sweep_iterator(transformer=Transformer.encode))
        return CategoricalDistribution(choices)
    except ValueError as error:
        raise ConfigError(f"no values to choose from: {error}", where=key) from error


def range_ends(value: RangeSweep) -> tuple[float, float, float]:
    """Return the first and last number of a range, which ends before its stop, and the step between two.

    Raises:
        ValueError: there is no number in it.
    """
    start, stop, step = (0 if number is None else number for number in (value.start, value.stop, value.step))
    count = math.ceil((stop - start) / step - 1e-9) if step else 0
    if count < 1:
        raise ValueError(f"range({start}, {stop}, {step}) is empty")
    last = start + (count - 1) * step
    return (start, last, step) if step > 0 else (last, start, -step)


def check_kind(key: str, override: Override, config: DictConfig) -> None:
    """Refuse an interval, of which any number may be chosen, for a key that takes integers alone.

    Raises:
        ConfigError: saying how the integers are written.
    """
    value: Any = override.value()
    if not isinstance(value, IntervalSweep) or isinstance(value.start, int) or value.start is None:
        return
    if any("integer" in problem for problem in problems_of(key, value.start + 0.5, config)):
        ends = f"{math.ceil(value.start)}, {math.floor(value.end or 0) + 1}"
        written = f"tag(log, range({ends}))" if LOG in value.tags else f"range({ends})"
        raise ConfigError(
            "takes integers, but an interval also has fractions", where=key, remedy=f"Write {key}={written}"
        )


def problems_of(key: str, value: float, config: DictConfig) -> Iterator[str]:
    """Say what is wrong with a value, as far as the configuration of the command knows its key."""
    from mate_cli.cli.config.validate import plain_problems, target_problems

    job = OmegaConf.masked_copy(config, [str(name) for name in config if name != "hydra"])
    part = key.partition(".")[0]
    if OmegaConf.select(job, key, default=job) is job:
        return
    OmegaConf.update(job, key, value)
    values: Any = OmegaConf.to_container(job)
    problems = [*plain_problems(values, "train"), *target_problems(values[part], part)]
    yield from (problem for problem in problems if problem.startswith(f"{key}:"))
