"""`mate train -m`: Hydra's sweepers say what varies, each job is resolved here, Hydra's launchers start the jobs."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from mate_cli.cli.config.composition import COMMAND, composing
from mate_cli.cli.config.hydra_errors import parse_overrides, wrap_hydra_errors
from mate_cli.cli.sweeps.jobs import run_job, spec_file
from mate_cli.cli.sweeps.stopping import MARK, StopHandler
from mate_cli.cli.words import Override, texts
from mate_cli.errors import ConfigError, MateError
from mate_cli.files.atomic import make_folders
from mate_cli.files.safe_load import load_json

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override as HydraOverride
    from hydra.plugins.launcher import Launcher

    from mate_cli.pipelines.run_spec import RunSpec

MAX_JOBS = 10_000
WHOLE = ("hydra", "paths", "sweep")
"""Parts of the configuration that Hydra composes a sweep by."""


class GridSweeper(Sweeper):
    """Every row of a sweep's file with every combination of its parameters and of what is typed.

    Args:
        max_batch_size: jobs that are launched at once; None for all.
        params: overrides by key, which may have several values.
        rows: mappings of overrides, which say what a grid cannot.
    """

    def __init__(
        self, max_batch_size: int | None, params: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
    ) -> None:
        self.max_batch_size, self.params = max_batch_size, params
        self.rows = [[f"{key}={_value_text(value)}" for key, value in row.items()] for row in rows] or [[]]

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the launcher."""
        self.launcher = Plugins.instance().instantiate_launcher(hydra_context, task_function, config)

    def sweep(self, arguments: list[str]) -> list[Any]:
        """Launch a job for each row and each combination."""
        jobs = self.jobs(arguments)
        size = self.max_batch_size or len(jobs)
        assert self.launcher is not None
        return [self.launcher.launch(jobs[start : start + size], start) for start in range(0, len(jobs), size)]

    def jobs(self, arguments: Sequence[str]) -> list[list[str]]:
        """Return the overrides of each job; what is typed of a key replaces what the file says of it.

        Raises:
            ConfigError: an interval, which a grid cannot have.
            HydraException: an override cannot be read.
        """
        typed = {Override.parse(word).key for word in arguments}
        params = [f"{key}={value}" for key, value in self.params.items() if Override.parse(key).key not in typed]
        values = [*map(_values_of, parse_overrides([*params, *arguments]))]
        if math.prod(map(len, values)) > MAX_JOBS:
            where = " ".join(word[0].partition("=")[0] for word in values if len(word) > 1)
            raise ConfigError(f"more than {MAX_JOBS:,} jobs", where=where, remedy="List fewer values: key=1,2,3")
        grid = [*itertools.product(*values)]
        rows = [[word for word in row if Override.parse(word).key not in typed] for row in self.rows]
        jobs = dict.fromkeys((*row, *job) for row in rows for job in grid)  # what is typed twice is trained once
        return [*map(list, jobs)]


def _values_of(override: HydraOverride) -> list[str]:
    """Return an override once for each of its values.

    Raises:
        ConfigError: it is an interval, or has no values.
    """
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if not override.is_discrete_sweep():
        remedy = "Add hydra/sweeper=optuna, or list values: key=1,2,3"
        raise ConfigError("a grid cannot use intervals", where=str(override.input_line), remedy=remedy)
    key, values = override.get_key_element(), []
    with suppress(ValueError):  # a range whose step is 0
        values = [*itertools.islice(override.sweep_string_iterator(), MAX_JOBS + 1)]
    if not values:
        remedy = "List them: key=1,2,3; mate list GROUP shows what a pattern may match"
        raise ConfigError("has no values", where=str(override.input_line), remedy=remedy)
    return [f"{key}={value}" for value in values]


@dataclass
class JobLauncher:
    """Resolves each job of a batch and leaves it for the launcher of the sweep.

    Args:
        launcher: Hydra's.
        jobs: the folder of the sweep's jobs.
        settings: overrides that the whole sweep is composed by.
        trust: filled with what jobs are told to trust.
        direction: which way a search looks; None for a sweep that looks at no result.
    """

    launcher: Launcher
    jobs: Path
    settings: Sequence[str]
    trust: list[str]
    direction: str | None

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Any:  # noqa: ANN401
        """Resolve jobs, then launch them under their numbers."""
        for number, words in enumerate(job_overrides, initial_job_idx):
            self._write(number, [word for word in words if not Override.parse(word).is_below("sweep", "hydra")])
        return self.launcher.launch([self.settings] * len(job_overrides), initial_job_idx=initial_job_idx)

    def _write(self, number: int, words: Sequence[str]) -> None:
        from mate_cli.files.safe_load import to_yaml
        from mate_cli.runs.record import RunFolder

        notes = RunFolder(self.jobs)
        note = {"job": number, "overrides": [*words], "folder": None, "before": False, "reason": None}
        try:
            spec = resolve_job(words, self.direction, number)
        except MateError as error:  # what it would train is wrong, or a search looks the wrong way
            note |= {"reason": str(error), "problem": [error.where, error.problem]}
        else:
            check_nodes(self.launcher, spec)
            self.trust[:] = dict.fromkeys([*self.trust, *spec.trusted()])
            notes.write_text(spec_file(self.jobs, number).name, to_yaml(spec.document(self.jobs)))
        notes.write_json(f"{number}.json", note)


def check_nodes(launcher: Launcher, spec: RunSpec) -> None:
    """Refuse jobs that are to run on other numbers of machines than their launcher asks for.

    Raises:
        ConfigError: with both numbers.
    """
    asked, nodes = getattr(launcher, "params", {}).get("nodes"), spec.last.config.hardware.nodes
    if asked not in (None, nodes):
        remedy = f"Add hydra.launcher.nodes={nodes}, or hardware.nodes={asked}"
        raise ConfigError(
            f"the launcher asks for hydra.launcher.nodes={asked}", where=f"hardware.nodes={nodes}", remedy=remedy
        )


def resolve_job(words: Sequence[str], direction: str | None, number: int) -> RunSpec:
    """Resolve and check what a job trains.

    Raises:
        ConfigError: nothing can be trained so, or a search looks the wrong way.
    """
    from mate_cli.cli.check import check_parts, check_quickly
    from mate_cli.cli.config.resolve import resolve

    with wrap_hydra_errors(COMMAND, words):
        spec = resolve(words)
    if direction is not None:
        check_direction(spec, direction)
    check_quickly(spec, number)
    check_parts(spec)
    return spec


def run_sweep(words: Sequence[str], *, submit: bool = True) -> int:
    """Run a sweep to its end and print what became of its jobs.

    Args:
        words: what is typed.
        submit: its jobs are handed to a launcher, whose scheduler has to be here.

    Returns:
        0 when every job has finished (or is being trained elsewhere), else 1.

    Raises:
        MateError: there is no sweep, for the configuration is wrong.
    """
    from mate_cli.cli.sweeps.submission import check_slurm, quiet_controllers, start_tracker
    from mate_cli.cli.sweeps.sweep_summary import common_mistake, is_complete, print_summary

    typed = [Override.parse(word) for word in words]
    folders, jobs, problem, planned = list[Path](), None, None, 0
    try:
        with composing(), StopHandler(lambda: job_files(jobs)), quiet_controllers():
            config = compose_sweep(typed)
            if submit:
                check_slurm(config, words)
            folders = claim_folder(config)
            jobs = folders[0]
            if is_joblib(config):
                start_tracker()
            varied = texts(word for word in typed if not word.is_below("hydra", "sweep"))
            sweeper = make_sweeper(config, jobs, typed)
            planned = count_jobs(sweeper, config, varied)
            sweeper.sweep(varied)
    except (MateError, HydraException, OmegaConfBaseException):
        remove_unbegun(folders)
        raise
    except SystemExit:  # the script of the jobs has been shown, and none is to run
        remove_unbegun(folders)
        jobs = None
        raise
    except Exception as error:  # whatever a launcher raises when a worker of its own is lost
        if not job_files(jobs):
            remove_unbegun(folders)
            raise
        problem = f"the launcher stopped early: {type(error).__name__}: {error}".splitlines()[0]
    finally:
        files = job_files(jobs)
        mistake = common_mistake(files)
        if files and not mistake:
            print_summary(files, problem, max(planned - len(files), 0), words)
        if mistake or not files:
            remove_unbegun(folders)
    if mistake:
        raise MateError(mistake)
    return 0 if is_complete(files) and not problem else 1


def compose_sweep(typed: Sequence[Override]) -> DictConfig:
    """Let Hydra compose the command, with its own part, by the words that are about a whole sweep.

    What is typed of a key replaces what the sweep's file says of it.
    """
    hydra = GlobalHydra.instance().hydra
    assert hydra is not None
    config = hydra.compose_config(COMMAND, texts(word for word in typed if word.is_below(*WHOLE)), RunMode.MULTIRUN)
    chosen, keys = config.hydra.sweeper, {word.key for word in typed}
    with read_write(config.hydra), open_dict(config.hydra):
        chosen.params = {key: value for key, value in (chosen.params or {}).items() if key.lstrip("+~") not in keys}
    return config


def make_grid(config: DictConfig) -> GridSweeper | None:
    """Make the sweeper of a grid; None for a search."""
    chosen = config.hydra.sweeper
    if not str(chosen._target_).endswith(".BasicSweeper"):
        return None
    rows: Any = OmegaConf.to_container(config.rows) if config.get("rows") else []
    return GridSweeper(chosen.max_batch_size, dict(chosen.params or {}), rows)


def make_sweeper(config: DictConfig, jobs: Path, typed: Sequence[Override]) -> Any:  # noqa: ANN401 - of Hydra
    """Make the sweeper that a configuration names, whose jobs are resolved here.

    Args:
        config: of the command, with Hydra's part.
        jobs: the folder of the sweep's jobs.
        typed: all that was.
    """
    hydra, trust = GlobalHydra.instance().hydra, list[str]()
    assert hydra is not None
    owner = os.getpid() if is_joblib(config) else None
    arguments: Any = {
        "hydra_context": HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config)),
        "task_function": partial(run_job, jobs=str(jobs), trust=trust, sweep=owner),
        "config": config,
    }
    sweeper: Any = make_grid(config)
    if sweeper:
        sweeper.setup(**arguments)
    else:
        sweeper = Plugins.instance().instantiate_sweeper(**arguments)
    direction, settings = config.hydra.sweeper.get("direction"), texts(w for w in typed if w.is_below(*WHOLE))
    asked = None if direction is None else str(getattr(direction, "name", direction))
    sweeper.launcher = JobLauncher(sweeper.launcher, jobs, settings, trust, asked)
    return sweeper


def count_jobs(sweeper: Sweeper, config: DictConfig, varied: list[str]) -> int:
    """Return the number of jobs of a grid, or the number of trials of a search; 0 if it is unknown."""
    if isinstance(sweeper, GridSweeper):
        return len(sweeper.jobs(varied))
    return int(config.hydra.sweeper.get("n_trials") or 0)


def is_joblib(config: DictConfig) -> bool:
    """Say whether jobs are run by processes that the sweep keeps beside it."""
    return "joblib" in str(config.hydra.launcher.get("_target_"))


def claim_folder(config: DictConfig) -> list[Path]:
    """Make the folder of a sweep and of its jobs, which no other sweep has; return what was made, that of jobs first.

    Raises:
        ConfigError: it cannot be made.
    """
    wanted = Path(str(config.hydra.sweep.dir)).absolute()
    for number in range(1, 1000):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            folders = make_folders(folder / "jobs")
        except OSError as error:
            problem = f"the folder of the sweep cannot be made: {error.strerror}"
            raise ConfigError(problem, where=str(folder), remedy="Choose another paths.outputs") from error
        if folder / "jobs" not in folders:
            continue
        with open_dict(config):
            config.hydra.sweep.dir = str(folder)
        return folders
    raise ConfigError("this folder has a thousand sweeps", where=str(wanted), remedy="Choose another hydra.sweep.dir")


def job_files(jobs: Path | None) -> list[Path]:
    """Return the files of a sweep's jobs, in order of their numbers."""
    return sorted(jobs.glob("*.json"), key=lambda path: int(path.stem)) if jobs else []


def remove_unbegun(folders: Sequence[Path]) -> None:
    """Remove what a sweep that began no job has written, and the folders that it made, the first for its jobs."""
    jobs = folders[0] if folders else None
    if jobs is None or any(load_json(file).get("folder") for file in job_files(jobs)):
        return
    for file in (*jobs.glob("*.json"), *jobs.glob("*.yaml"), jobs / MARK):
        file.unlink(missing_ok=True)
    for folder in folders:
        with suppress(OSError):  # others lie in it
            folder.rmdir()


def check_direction(spec: RunSpec, asked: str) -> None:
    """Refuse a search that looks the wrong way.

    Raises:
        ConfigError: it minimises what is better when greater, or the other way round.
    """
    from hydra.utils import get_class

    from mate_cli.metrics.specs import spec_to_follow

    judge: Any = get_class((spec.system or spec.last.config.task)["_target_"])
    monitor = judge.monitor if spec.system else judge.spec.monitor
    wanted = "maximize" if spec_to_follow(monitor).direction > 0 else "minimize"
    if asked != wanted:
        raise ConfigError(
            f"{monitor} is better when {'higher' if wanted == 'maximize' else 'lower'}, not the opposite",
            where="hydra.sweeper.direction",
            remedy=f"Add hydra.sweeper.direction={wanted}",
        )


def _value_text(value: object) -> str:
    """Write a value of YAML in the grammar of overrides."""
    from mate_cli.quoting import quote_text

    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, list):
        return f"[{','.join(map(_value_text, value))}]"
    text = str(value)
    return text if re.fullmatch(r"[\w./:+-]*", text) else quote_text(text)
