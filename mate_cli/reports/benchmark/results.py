"""The results of a benchmark, put together from the names of its figures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mate_cli.data.datasets.catalogue import dataset_names, find_dataset
from mate_cli.errors import RunError
from mate_cli.reports.runs.load import LoadedRun, clean, load_runs

FORWARD, BOTH, PLAN = "forward", "forward_backward", "plan"
DIRECTIONS = {FORWARD: "forward", BOTH: "forward+backward"}
KINDS = {"attention": "Attention", "encoder": "Encoder", "training": "Training step"}
PARTS = 7
"""In the name of a figure."""
BOUND = "bound"
"""The variant that is no variant: what an exact method could reach at most."""
NOT_RUN = "not_run"
APPROXIMATE = "≈"
"""Stands behind the names of variants that are."""
LIKE, THEIRS = "_like", "transformers_"
NETWORKS = {"mate": "MATE", "tapas": "TAPAS", "bert": "BERT", "sat": "SAT", "etc": "TableETC", "dot": "DoT"}
"""Names that are abbreviations; others are words."""


class MeasuredCase(NamedTuple):
    """The input of a measurement.

    Args:
        kind: one of `KINDS`.
        shape: of the tables.
        tokens: of the longest example.
        batch: the number of examples, or "mixed"; in training also their order.
    """

    kind: str
    shape: str
    tokens: int
    batch: str

    @property
    def title(self) -> str:
        """Kind, tables, length and batch in words."""
        batch = "mixed batch" if self.batch == "mixed" else f"batch {self.batch.replace('_', ' ')}"
        return f"{KINDS[self.kind]}, {shape_title(self.shape)} tables, {self.tokens:,} tokens, {batch}"


def shape_title(shape: str) -> str:
    """Return what tables are called: those of a data set by its title."""
    name, like, rest = shape.partition(LIKE)
    title = find_dataset(name).title if name in dataset_names() else name.replace("_", " ")
    return f"{title}-like{rest}" if like else title


def variant_title(variant: str) -> str:
    """Return what a network is called, with what it attends by or reads: `MATE, native`."""
    name, _, tokens = variant.partition("@")
    name, padded, _ = name.partition("_padded")
    theirs = name.startswith(THEIRS)
    first, _, rest = name.removeprefix(THEIRS).partition("_")
    parts = [NETWORKS.get(first, first), rest.replace("_", " ")]
    parts += ["of transformers" if theirs else "", f"first {tokens} tokens" if tokens else "", padded.strip("_")]
    return ", ".join(filter(None, parts))


Measured = dict[str, dict[str, dict[str, float]]]
"""Figures by variant, direction and name."""


@dataclass
class BenchmarkResults:
    """All figures of a record.

    Args:
        run: the record and its folder.
        cases: the figures by case, in the order of the record.
        reasons: why a variant was not run, by case, variant and direction.
    """

    run: LoadedRun
    cases: dict[MeasuredCase, Measured] = field(default_factory=dict)
    reasons: dict[MeasuredCase, dict[str, dict[str, str]]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of the benchmark, one of `KINDS`."""
        return next(iter(self.cases)).kind

    @property
    def variants(self) -> list[str]:
        """All of them, in the order of the record, the bound last."""
        names = dict.fromkeys(name for measured in self.cases.values() for name in measured)
        return sorted(names, key=BOUND.__eq__)

    @property
    def shapes(self) -> list[str]:
        """All shapes of tables, in the order of the record."""
        return list(dict.fromkeys(case.shape for case in self.cases))

    @property
    def threads(self) -> int:
        """The number of PyTorch's threads; 0 when the record does not say."""
        return int(self.run.metrics.get("machine/threads", 0))

    def figure(self, case: MeasuredCase, variant: str, direction: str, name: str) -> float | None:
        """Return one figure, None when it was not measured."""
        return self.cases[case].get(variant, {}).get(direction, {}).get(name)

    def is_approximate(self, variant: str) -> bool:
        """Tell whether what a variant computes is only near to what its pattern says."""
        ways = (way for measured in self.cases.values() for way in measured.get(variant, {}).values())
        return any(figures.get("approximate") for figures in ways)

    def title(self, variant: str) -> str:
        """Return a variant's name for people."""
        name = variant.replace("_", " ") if self.kind == "attention" else variant_title(variant)
        return f"{name} {APPROXIMATE}" if self.is_approximate(variant) else name

    def fact(self, name: str) -> str:
        """Return what is known of the machine, as text."""
        number = self.run.metrics.get(f"machine/{name}")
        return str(self.run.part("facts").get(f"machine/{name}", "")) if number is None else f"{number:,.0f}"


def read_benchmark(folder: str | os.PathLike[str]) -> LoadedRun:
    """Read the record of any benchmark.

    Raises:
        RunError: there is no record, or it has no benchmark results.
    """
    run = load_runs([folder]).runs[0]
    if run.record.get("command") != "benchmark" or not measured_figures(run):
        raise RunError("has no benchmark results", where=str(folder), remedy="Give a folder of outputs/benchmark")
    return run


def measured_figures(run: LoadedRun) -> dict[str, float]:
    """Return what was measured, without what describes the machine."""
    return {name: value for name, value in run.metrics.items() if not name.startswith("machine/")}


def parse_results(run: LoadedRun) -> BenchmarkResults | None:
    """Put the figures of a record together; None when there are none of `KINDS`."""
    results = BenchmarkResults(run)
    figures: Mapping[str, Any] = {**run.part("facts"), **run.metrics}
    for name, value in sorted(figures.items(), key=lambda item: isinstance(item[1], str)):
        if (place := parse_name(name)) is not None:
            case, variant, direction, figure = place
            measured = results.cases.setdefault(case, {})
            if figure == NOT_RUN:
                measured.setdefault(variant, {})
                results.reasons.setdefault(case, {}).setdefault(variant, {})[direction] = clean(value)
            else:
                measured.setdefault(variant, {}).setdefault(direction, {})[figure] = float(value)
    return results if results.cases else None


def parse_name(name: str) -> tuple[MeasuredCase, str, str, str] | None:
    """Parse `attention/<variant>/<shape>/<tokens>/<batch>/<direction>/<figure>` into case, variant, direction, figure.

    In all but `attention/...` the tokens come before the shape.
    """
    parts = name.split("/")
    if len(parts) != PARTS or parts[0] not in KINDS:
        return None
    kind, variant, shape, tokens, batch, direction, figure = parts
    if kind != "attention":
        shape, tokens = tokens, shape
    return (MeasuredCase(kind, shape, int(tokens), batch), variant, direction, figure) if tokens.isdigit() else None
