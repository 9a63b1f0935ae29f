"""`mate benchmark`: measure, and leave a record like a run's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = "benchmark"


def run(cfg: DictConfig) -> float | None:
    """Run the benchmark that was chosen and write its figures to a new run folder."""
    from mate_cli.benchmark.measure import measure

    measure(cfg)
    return None
