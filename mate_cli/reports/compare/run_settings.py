"""The settings of runs: those of stand-ins for stages too, and what sets runs apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mate_cli.reports.runs.load import LoadedRun, read_flat_config
from mate_cli.runs.identity import (
    ABSENT,
    REPEATED,
    code_setting,
    differing_keys,
    of_stage,
    telling_settings,
    telling_values,
)


def split_by_settings(
    runs: list[LoadedRun], ignored: tuple[str, ...] = REPEATED
) -> list[tuple[dict[str, str], list[LoadedRun]]]:
    """Split runs whose settings differ; each part comes with the settings that set it apart.

    Finished runs that stand in for a stage are as good as one another where they are repeats themselves.
    """
    every = [settings(run, ignored) for run in runs]
    repeated: dict[object, str] = {}
    for run, config in zip(runs, every, strict=True):
        for key, inner in stand_ins(run).items():
            if key in config:
                config[key] = repeated.setdefault((key, frozenset(telling_values(inner, ignored).items())), config[key])
    differing = differing_keys(every)
    parts: dict[tuple[str, ...], list[LoadedRun]] = {}
    for run, config in zip(runs, every, strict=True):
        parts.setdefault(tuple(config.get(key, ABSENT) for key in differing), []).append(run)
    return [(dict(zip(differing, values, strict=True)), part) for values, part in parts.items()]


def settings(run: LoadedRun, ignored: tuple[str, ...] = REPEATED) -> dict[str, str]:
    """Return a run's configuration and code without the ignored keys; its overrides where config.yaml is missing."""
    config = run.config or dict(telling_settings(run.words("overrides"), ()))
    return telling_values({**config, **dict(telling_settings(code_setting(run.part("code"))))}, ignored)


def stand_ins(run: LoadedRun) -> dict[str, Mapping[str, str]]:
    """Return the configurations of the finished runs that stand in for stages, as far as they can be read."""
    folders = {key: Path(folder) for key, folder in run.config.items() if of_stage(key)[1] == "run"}
    configs = {key: read_flat_config(folder / "config.yaml", []) for key, folder in folders.items()}
    return {key: config for key, config in configs.items() if config}
