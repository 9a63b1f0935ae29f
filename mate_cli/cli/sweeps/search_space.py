"""Parse the search space of an optuna sweep from overrides.

For example, `optimizer.lr=interval(1e-5,1e-3)` searches a learning rate. The supported functions of Hydra's override
grammar are `choice`, `range` and `interval`, and the tag `log`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep, Transformer
from omegaconf import DictConfig, OmegaConf

from mate_cli.cli.config.hydra_setup import parse_overrides
from mate_cli.errors import ConfigError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

LOG = "log"
"""Tag of an override whose values are sampled on a logarithmic scale, as in `tag(log, interval(1e-5,1e-3))`."""


@dataclass(frozen=True)
class SearchSpace:
    """The overrides of an optuna sweep, of which some are searched and some are fixed.

    Args:
        fixed: overrides that are equal in all trials.
        distributions: optuna distribution by varied key.
        signs: prefix of the override by varied key, such as `++` or "".
    """

    fixed: tuple[str, ...]
    distributions: Mapping[str, BaseDistribution]
    signs: Mapping[str, str]

    def overrides(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the overrides of one optuna trial.

        Args:
            values: sampled value by varied key.
        """
        return (*(f"{self.signs[key]}{key}={value}" for key, value in values.items()), *self.fixed)


def parse_space(overrides: Sequence[str], config: DictConfig) -> SearchSpace:
    """Parse overrides to the search space of an optuna sweep.

    Keys with several values are searched.

    Args:
        overrides: overrides from the sweep file and the command line.
        config: composed configuration of the sweep, against which the types of values are checked.

    Raises:
        ConfigError: if a key is both fixed and varied, a key has no values, or values have the wrong type.
    """
    fixed: dict[str, str] = {}
    distributions: dict[str, BaseDistribution] = {}
    signs: dict[str, str] = {}
    for text, override in zip(overrides, parse_overrides(overrides), strict=True):
        element = override.get_key_element()
        key = element.lstrip("+~")
        is_varied = override.is_sweep_override()
        if key in distributions or (is_varied and key in fixed):
            raise ConfigError("is both searched and set", where=key, remedy="Remove one of them")
        if not is_varied:
            fixed[key] = text
            continue
        check_kind(key, override, config)
        distributions[key], signs[key] = to_distribution(key, override), element[: len(element) - len(key)]
    if not distributions:
        hint = "Add one, such as 'optimizer.lr=tag(log, interval(1e-5, 1e-3))'"
        raise ConfigError("the search has no key to vary", where="hydra/sweeper=optuna", remedy=hint)
    return SearchSpace(tuple(fixed.values()), distributions, signs)


def to_distribution(key: str, override: Override) -> BaseDistribution:
    """Convert the values of an override, such as `range(1,9)`, to an optuna distribution.

    Args:
        key: dotted key, for error messages.
        override: override with several values.

    Raises:
        ConfigError: if the override has no values, or a value has no logarithm although the tag `log` is set.
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
            start, end, step = range_ends(value)
            if all(isinstance(number, int) for number in (start, end, step)):
                return IntDistribution(int(start), int(end), step=int(step), log=log)
            return FloatDistribution(start, end, step=step, log=log)
        options: list[Any] = list(override.sweep_iterator(transformer=Transformer.encode))
        return CategoricalDistribution(options)
    except ValueError as error:
        raise ConfigError(f"no values to choose from: {error}", where=key) from error


def range_ends(value: RangeSweep) -> tuple[float, float, float]:
    """Return the smallest and largest number of a range override, and its positive step.

    For example, `range(1,9,2)` has the numbers 1, 3, 5 and 7, because the stop is exclusive.

    Raises:
        ValueError: if the range is empty.
    """
    start, stop, step = (0 if number is None else number for number in (value.start, value.stop, value.step))
    count = math.ceil((stop - start) / step - 1e-9) if step else 0
    if count < 1:
        raise ValueError(f"range({start}, {stop}, {step}) is empty")
    end = start + (count - 1) * step
    return (start, end, step) if step > 0 else (end, start, -step)


def check_kind(key: str, override: Override, config: DictConfig) -> None:
    """Raise `ConfigError` if an integer key is searched in an interval of real numbers.

    Args:
        key: dotted key.
        override: override of the key.
        config: configuration of the command.

    Raises:
        ConfigError: the key takes integers. The error suggests the equivalent range of integers.
    """
    value: Any = override.value()
    if not isinstance(value, IntervalSweep) or isinstance(value.start, int) or value.start is None:
        return
    if any("integer" in problem for problem in problems_of(key, value.start + 0.5, config)):
        bounds = f"{math.ceil(value.start)}, {math.floor(value.end or 0) + 1}"
        replacement = f"tag(log, range({bounds}))" if LOG in value.tags else f"range({bounds})"
        raise ConfigError(
            "takes integers, but an interval also has fractions", where=key, remedy=f"Write {key}={replacement}"
        )


def problems_of(key: str, value: float, config: DictConfig) -> Iterator[str]:
    """Yield the error messages about an invalid value in a search space.

    Nothing is yielded if the configuration has no such key.

    Args:
        key: dotted key.
        value: value to check.
        config: configuration of the command.
    """
    from mate_cli.cli.config.validate import check_values, target_problems

    job = OmegaConf.masked_copy(config, [str(name) for name in config if name != "hydra"])
    section = key.partition(".")[0]
    if OmegaConf.select(job, key, default=job) is job:
        return
    OmegaConf.update(job, key, value)
    values: Any = OmegaConf.to_container(job)
    problems = [*check_values(values, "train")[1], *target_problems(values[section], section)]
    yield from (problem for problem in problems if problem.startswith(f"{key}:"))
