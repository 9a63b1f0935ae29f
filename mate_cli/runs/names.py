"""Names of runs: the choice of each group, and the settings that tell configurations apart."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

REPEATED = (
    *("seed", "resume", "experiment", "paths.", "hardware.", "logger.", "hydra.", "name", "notes"),
    *("experiment_name", "run", "deterministic", "data.download", "data.root", "data.datasets", "data.cache"),
    *("trainer.log_every", "trainer.checkpoint_minutes", "trainer.options.profiler."),
)
"""Keys that may differ between two repeats of an experiment; a final dot stands for everything below that key."""
MAX_NAME = 120


@dataclass(frozen=True)
class Names:
    """The choice of each group that a run was composed from."""

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

    def after(self, before: Names, stage: str) -> Names:
        """Return the names of a run that begins with a stage's weights: `init` lists all stages before it."""
        return replace(self, init=f"{before.init} + {stage}")


def of_stage(key: str) -> tuple[str, str]:
    """Take `stages.NAME.` off a configuration key: both parts, the first empty for a key of the run itself."""
    parts = key.split(".", 2)
    return (f"stages.{parts[1]}.", parts[2]) if parts[0] == "stages" and len(parts) == 3 else ("", key)


def is_ignored(key: str, ignored: Sequence[str] = REPEATED) -> bool:
    """Say whether a configuration key is one of the ignored ones, or below one that ends in a dot.

    What is ignored of a run is ignored of its stages; whose run stands in for a stage is not.
    """
    stage, own = of_stage(key)
    if stage and own == "run":
        return key in ignored
    return any(
        own == name.rstrip(".") or (name.endswith(".") and own.startswith(name)) or key == name for name in ignored
    )


def configuration_name(experiment: str, overrides: Sequence[str]) -> str:
    """Name what the repeats of a run share: `hybridqa_mate · init=minilm · optimizer.lr=1e-4`.

    Choices of a group come first, and what may differ between repeats is left out.
    """
    name = " · ".join([experiment, *_settings(overrides)])
    if len(name) <= MAX_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]  # two long names may begin alike
    return f"{name[: MAX_NAME - len(mark) - 2]}… {mark}"


def shown_name(experiment: str, overrides: Sequence[str]) -> str:
    """Return `configuration_name` for people: a long one with every setting, but short keys and values."""
    name = configuration_name(experiment, overrides)
    if len(" · ".join([experiment, *_settings(overrides)])) <= MAX_NAME:
        return name
    pairs = [setting.partition("=") for setting in _settings(overrides)]
    room = max(8, MAX_NAME // len(pairs) - 4)
    short = (f"{key.rpartition('.')[2]}={value}" for key, _, value in pairs)
    return " · ".join([experiment, *(text if len(text) <= room else f"{text[: room - 1]}…" for text in short)])


def _settings(overrides: Sequence[str]) -> list[str]:
    keys = {item: item.lstrip("+~").partition("=")[0] for item in overrides}
    return sorted((item for item in keys if not is_ignored(keys[item])), key=lambda item: ("." in keys[item], item))
