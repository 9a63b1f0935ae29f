"""What a run is called by: the choice of each group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """Which choice of each group a run was composed from."""

    experiment: str
    dataset: str
    model: str
    attention: str
    init: str
    task: str

    @classmethod
    def of(cls, choices: Mapping[str, str | None]) -> Names:
        """Read the choices that Hydra made; a run without an experiment is named after its data and model."""
        experiment = choices.get("experiment") or f"{choices['data']}_{choices['model']}"
        groups = {"dataset": "data", "model": "model", "attention": "attention", "init": "init", "task": "task"}
        return cls(experiment, **{name: str(choices[group]) for name, group in groups.items()})
