"""Where the numbers of a run go: metrics.jsonl always, W&B where it is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from mate_cli.errors import ConfigError, RunError
from mate_cli.files.atomic import check_inside
from mate_cli.files.door import reading
from mate_cli.files.plain import read_lines, to_json
from mate_cli.runs.names import configuration_name
from mate_cli.runs.record import RunFolder, RunRecord

Row = dict[str, float]
TABLE_ROWS = 50
"""Predictions that are shown in the dashboard."""
TAGGED = ("dataset", "model", "attention", "init", "task")
LONGEST_TAG = 64
WANDB_MODES = ("online", "offline", "disabled", "dryrun", "run", "shared")
SWEEP = "WANDB_SWEEP_ID"
OF_AGENT = (SWEEP, "WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH")
"""Set by an agent of a W&B sweep for the run that it starts."""


class Tracker(Protocol):
    """Receives the numbers of a run."""

    def log(self, row: Row) -> None:
        """Take one row; `step` is the optimizer step."""

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Take a table."""

    def close(self, summary: Mapping[str, float], exit_code: int) -> None:
        """End the run."""


class MetricsFile:
    """metrics.jsonl: a row per logged step, appended at once.

    Args:
        folder: the run's.
        resume_step: rows after this step belong to work that is done again, and are dropped.
    """

    def __init__(self, folder: RunFolder, resume_step: int | None = None) -> None:
        self.path = folder.path / "metrics.jsonl"
        rows = read_rows(self.path) if resume_step is not None else []
        kept = [row for row in rows if row.get("step", 0) <= (resume_step or 0)]
        folder.write_text("metrics.jsonl", "".join(map(to_json, kept)))

    def log(self, row: Row) -> None:
        """Append a row.

        Raises:
            RunError: the disk is full.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(to_json(row))
        except OSError as error:
            raise RunError(
                f"a row cannot be written: {error.strerror}",
                where=str(self.path),
                remedy="Free space, then use resume=last",
            ) from error

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Predictions have files of their own."""

    def close(self, summary: Mapping[str, float], exit_code: int) -> None:
        """Nothing is left open."""


def read_rows(path: Path) -> list[Row]:
    """Rows of a metrics file; a last line that was cut short by a kill is dropped, and there are none without a file.

    Raises:
        RunError: it is no file, or too large.
    """
    with reading(path, RunError, "cannot be read", "Move it away"):
        return list(read_lines(path)) if path.exists() else []


def seconds_so_far(folder: RunFolder, record: RunRecord) -> float:
    """Wall time of a run that may have been killed: that of its record, its last row or its stages, whichever is most.

    Raises:
        RunError: the record of a stage is damaged.
    """
    rows = read_rows(folder.path / "metrics.jsonl")
    stages = [RunFolder(found.parent) for found in folder.path.glob("*/record.json")]
    in_stages = sum(seconds_so_far(stage, stage.read_record()) for stage in stages)
    return max(record.wall_seconds, in_stages, *(row["time"] for row in rows if type(row.get("time")) in (int, float)))


class WandbTracker:
    """Weights & Biases, offline unless the user asks for more.

    Args:
        folder: the run's; W&B writes below it.
        record: names, tags and group of the run.
        config: the resolved configuration.
        options: the `logger` group.
    """

    def __init__(
        self, folder: RunFolder, record: RunRecord, config: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        configuration = configuration_name(record.experiment, record.settings)
        names = {name: getattr(record, name) for name in ("experiment", *TAGGED)}
        self._run = open_wandb(
            options,
            group=options["group"] or configuration,
            name=f"{configuration} · seed {record.seed}",
            tags=[*(names[name] for name in TAGGED), f"seed-{record.seed}"],
            job_type=record.task,
            dir=str(folder.path),
            config={**config, "names": names, "configuration": configuration, "code_version": record.code_version},
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, row: Row) -> None:
        """Send a row."""
        self._run.log(row)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Send the first rows of a table."""
        import wandb

        shown = [[str(value) for value in row] for row in rows[:TABLE_ROWS]]
        self._run.log({name: wandb.Table(columns=list(columns), data=shown)})

    def line(self, text: str) -> None:
        """Send a line that was printed."""
        self._run.write_logs(text)

    def close(self, summary: Mapping[str, float], exit_code: int) -> None:
        """Write the summary and end the run, so that the next job of a sweep starts one of its own."""
        self._run.summary.update(dict(summary))
        self._run.finish(exit_code=exit_code)


def wandb_mode(options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the words of W&B
    """The mode of the `logger` group, unless the environment disables W&B.

    Raises:
        ConfigError: the environment names no mode.
    """
    told = os.environ.get("WANDB_MODE") or "offline"
    if told not in WANDB_MODES:
        raise ConfigError("is no mode of W&B", where=f"WANDB_MODE={told}", remedy=f"Use {', '.join(WANDB_MODES)}")
    return "disabled" if told == "disabled" else options["mode"]


def open_wandb(options: Mapping[str, Any], *, tags: Sequence[str], **arguments: Any) -> Any:  # noqa: ANN401
    """Start a W&B run; where it cannot be online, start it offline and say so once.

    What a run prints is sent line by line, as W&B's own capture would fill its log with progress bars.
    An agent of a sweep waits for figures on the server: what it starts is online.

    Args:
        options: the `logger` group.
        tags: beside those of the options; W&B takes neither empty nor long ones.
        **arguments: of `wandb.init`.
    """
    check_inside(Path(arguments["dir"]), Path(arguments["dir"], "wandb", "run"))
    import wandb

    settings = wandb.Settings(console="off", silent=True, init_timeout=options["timeout"])
    mode, sweep = wandb_mode(options), os.environ.get(SWEEP)
    if sweep and mode == "offline":
        print(f"a run of the W&B sweep {sweep}: logging online")
        mode = "online"
    of_sweep = [f"sweep-{sweep}"] if sweep else []
    chosen = dict.fromkeys(tag[:LONGEST_TAG] for tag in (*tags, *of_sweep, *options["tags"]) if tag)
    arguments |= {"project": options["project"], "entity": options["entity"], "tags": list(chosen)}
    if mode == "online":
        try:
            # Asked first, because without a key wandb.init would wait for an answer at the terminal.
            if wandb.login(prompt=False, verify=False):
                return wandb.init(mode=mode, settings=settings, **arguments)
            reason = "no key; get one with: wandb login"
        except wandb.errors.Error as error:
            reason = str(error)
        print(f"warning: W&B cannot be reached ({reason}). Logging offline; later: wandb sync", file=sys.stderr)
        mode = "offline"
    return wandb.init(mode=mode, settings=settings, **arguments)


@contextmanager
def apart_from_agents() -> Iterator[None]:
    """Begin W&B runs that no agent of a sweep has asked for: the one it waits for is the whole, and no stage of it."""
    hidden = {name: os.environ.pop(name) for name in OF_AGENT if name in os.environ}
    try:
        yield
    finally:
        os.environ |= hidden


class Trackers:
    """All trackers of a run, as one."""

    def __init__(self, trackers: Sequence[Tracker] = ()) -> None:
        self.trackers = list(trackers)

    def add(self, tracker: Tracker) -> None:
        """Tell one more."""
        self.trackers.append(tracker)

    def log(self, row: Row) -> None:
        """Log to each."""
        for tracker in self.trackers:
            tracker.log(row)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Send the table to each."""
        for tracker in self.trackers:
            tracker.table(name, columns, rows)

    def close(self, summary: Mapping[str, float], exit_code: int = 0) -> None:
        """Close each."""
        for tracker in self.trackers:
            tracker.close(summary, exit_code)
