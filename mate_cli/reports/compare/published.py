"""Figures that papers print, to hold against one's own: a file per dataset in `published/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from omegaconf import OmegaConf

from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.statistics import Statistic


@dataclass(frozen=True)
class PublishedResult:
    """One row of a paper's table.

    Args:
        label: its name there.
        model: the name that `model=` gives the same network or system.
        metrics: its figures as fractions, under the full names that runs use, such as `dev/em/table`.
        source: where the figures were read.
        errors: what is printed behind ± of some of them, likewise.
        best: of the runs behind some of them, likewise.
        statistic: whether a figure is the median of several runs or their mean, and its error goes with it.
        examples_per_second: of training, on the machine of the paper; None where it is not printed.
    """

    label: str
    model: str
    metrics: Mapping[str, float]
    source: str
    errors: Mapping[str, float] = field(default_factory=dict)
    best: Mapping[str, float] = field(default_factory=dict)
    statistic: Statistic = "median"
    examples_per_second: float | None = None


@cache
def published_results(dataset: str) -> tuple[PublishedResult, ...]:
    """Return the figures published for a dataset, best first as the file lists them; none for an unknown one."""
    files = resources.files("mate_cli.reports").joinpath("published").iterdir()
    file = next((file for file in files if file.name == f"{dataset}.yaml"), None)
    if file is None:
        return ()
    content: Any = OmegaConf.to_container(OmegaConf.create(file.read_text(encoding="utf-8")))
    return tuple(published_row(row, content["sources"], content.get("statistic", "median")) for row in content["rows"])


def published_row(
    row: Mapping[str, Any], sources: Mapping[str, str], statistic: Statistic = "median"
) -> PublishedResult:
    """Return one entry of a file, its percent turned into fractions and its sources joined."""
    parts = list(parts_of(row))
    source = "; ".join(sources[part["source"]] for part in parts)
    figures = {key: fractions({n: v for part in parts for n, v in part.get(key, {}).items()}) for key in FIGURES}
    speed = row.get("examples_per_second")
    return PublishedResult(
        row["label"], row["model"], source=source, statistic=statistic, examples_per_second=speed, **figures
    )


FIGURES = ("metrics", "errors", "best")
"""Keys of an entry that hold figures."""


def fractions(percent: Mapping[str, float]) -> Mapping[str, float]:
    """Return figures by the full names of their metrics, in percent where these are shares, as runs have them."""
    return MappingProxyType({name: value / MetricName.parse(name).scale for name, value in percent.items()})


def parts_of(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield an entry and, under `also`, what a second source adds to it."""
    yield row
    if "also" in row:
        yield row["also"]
