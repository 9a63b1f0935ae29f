"""Run one benchmark and keep its figures like those of a run."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hydra.utils import instantiate

from mate_cli.files.safe_load import to_yaml
from mate_cli.runs.folders import new_folder
from mate_cli.runs.lock import release_lock
from mate_cli.runs.record import Clock, RunFolder, RunRecord, now

Figures = Mapping[str, float | str]


class BenchmarkStopped(KeyboardInterrupt):
    """A benchmark that somebody stopped, and the folder that keeps what it had measured."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder


def measure(name: str, config: Mapping[str, Any], outputs: Path, *, seed: int, overrides: list[str]) -> RunFolder:
    """Make the benchmark and write config.yaml and record.json of a new folder in outputs/benchmark/.

    The `_target_` of `benchmark` is a function that returns figures by name, or something to iterate over that yields
    them part by part; then what was measured is kept even if the rest fails. A figure that is a text (the machine's
    name, why something was not run) goes to the record's `facts`.

    Raises:
        BenchmarkStopped: by Ctrl-C, or what the command takes for it; the folder keeps what was measured before.
    """
    folder = new_folder(outputs, "benchmark", name, 0)
    folder.write_text("config.yaml", to_yaml(config))
    record = RunRecord(
        command="benchmark",
        experiment=name,
        overrides=overrides,
        dataset="",
        model="",
        attention="",
        init="",
        task="benchmark",
        seed=seed,
    )
    clock = Clock()
    try:
        for figures in _parts(instantiate(config["benchmark"])):
            keep(record, figures)
            record.wall_seconds = round(clock(), 1)
            folder.write_record(record)
        record.status = "finished"
    except KeyboardInterrupt as stop:
        record.status = "interrupted"
        raise BenchmarkStopped(folder) from stop
    except BaseException as error:
        record.status, record.reason = "failed", f"{type(error).__name__}: {error}"
        raise
    finally:
        record.finished, record.wall_seconds = now(), round(clock(), 1)
        folder.write_record(record)
        release_lock(folder.path)
    return folder


def keep(record: RunRecord, figures: Figures) -> None:
    """Add numbers to the record's metrics and texts to its facts."""
    for name, value in figures.items():
        if isinstance(value, str):
            record.facts[name] = value
        else:
            record.metrics[name] = value


def _parts(measured: Figures | Iterable[Figures]) -> Iterable[Figures]:
    return [measured] if isinstance(measured, Mapping) else measured
