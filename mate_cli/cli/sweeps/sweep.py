"""`mate train -m`: run a sweep.

A sweeper generates the overrides of each job: `GridSweeper`, or a Hydra plugin such as optuna. This module resolves
each job to a run, and a Hydra launcher starts the jobs.
"""

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

from mate_cli.cli.config.composition import COMMAND, init_compose_api
from mate_cli.cli.config.hydra_errors import wrap_hydra_errors
from mate_cli.cli.config.hydra_setup import parse_overrides
from mate_cli.cli.overrides import Override, to_strings
from mate_cli.cli.sweeps.jobs import run_job, spec_file
from mate_cli.cli.sweeps.stopping import STOP_FILE_NAME, StopHandler
from mate_cli.errors import ConfigError, MateError
from mate_cli.files.atomic import make_folders, number_names
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import load_json

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override as HydraOverride
    from hydra.plugins.launcher import Launcher

    from mate_cli.pipelines.run_spec import RunSpec

MAX_JOBS = 10_000
SWEEP_KEYS = ("hydra", "paths", "sweep")
"""Top-level keys that configure the sweep itself. Its configuration is composed from these overrides only."""


class GridSweeper(Sweeper):
    """Hydra sweeper over the rows of a sweep file and all combinations of parameter values.

    Args:
        max_batch_size: maximum number of jobs that are launched at once. None to launch all jobs at once.
        params: values of overrides by key, such as `{"seed": "1,2"}`. A value may list several values.
        rows: overrides of each row as {key: value}, for combinations that a grid cannot express. Empty for one job per
            combination of parameters.
    """

    def __init__(
        self, max_batch_size: int | None, params: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
    ) -> None:
        self.max_batch_size, self.params = max_batch_size, params
        self.rows = [[f"{key}={_value_text(value)}" for key, value in row.items()] for row in rows] or [[]]

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Instantiate the Hydra launcher that the configuration specifies.

        Args:
            hydra_context: context of Hydra, passed to the launcher.
            task_function: function that runs a job, passed to the launcher.
            config: composed configuration of the sweep, with Hydra's section.
        """
        self.launcher = Plugins.instance().instantiate_launcher(hydra_context, task_function, config)

    def sweep(self, arguments: list[str]) -> list[Any]:
        """Launch the jobs of a sweep in batches, and return the results of each batch.

        A batch has at most `max_batch_size` jobs.
        """
        jobs = self.jobs(arguments)
        size = self.max_batch_size or len(jobs)
        assert self.launcher is not None
        return [self.launcher.launch(jobs[start : start + size], start) for start in range(0, len(jobs), size)]

    def jobs(self, arguments: Sequence[str]) -> list[list[str]]:
        """Return the overrides of each job of the sweep.

        Duplicate jobs are removed.

        Args:
            arguments: overrides from the command line, which may have several values. They replace overrides of the
                sweep file with the same key.

        Raises:
            ConfigError: if an override is an interval, or the sweep has more than `MAX_JOBS` jobs.
            HydraException: if an override cannot be parsed.
        """
        override_keys = {Override.parse(override).key for override in arguments}
        params = [
            f"{key}={value}" for key, value in self.params.items() if Override.parse(key).key not in override_keys
        ]
        values = [*map(_values_of, parse_overrides([*params, *arguments]))]
        if math.prod(map(len, values)) > MAX_JOBS:
            varied_keys = " ".join(texts[0].partition("=")[0] for texts in values if len(texts) > 1)
            raise ConfigError(f"more than {MAX_JOBS:,} jobs", where=varied_keys, remedy="List fewer values: key=1,2,3")
        grid = [*itertools.product(*values)]
        rows = [[o for o in row if Override.parse(o).key not in override_keys] for row in self.rows]
        jobs = dict.fromkeys((*row, *job) for row in rows for job in grid)
        return [*map(list, jobs)]


def _values_of(override: HydraOverride) -> list[str]:
    """Expand an override with several values: `seed=1,2` becomes `seed=1` and `seed=2`.

    Raises:
        ConfigError: if the override is an interval, or has no values.
    """
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if not override.is_discrete_sweep():
        hint = "Add hydra/sweeper=optuna, or list values: key=1,2,3"
        raise ConfigError("a grid cannot use intervals", where=str(override.input_line), remedy=hint)
    key, values = override.get_key_element(), []
    with suppress(ValueError):  # The step of a range is 0.
        values = [*itertools.islice(override.sweep_string_iterator(), MAX_JOBS + 1)]
    if not values:
        hint = "List them: key=1,2,3; mate list GROUP shows what a pattern may match"
        raise ConfigError("has no values", where=str(override.input_line), remedy=hint)
    return [f"{key}={value}" for value in values]


@dataclass
class JobLauncher:
    """Wrapper of a Hydra launcher that resolves each job to a run before it is launched.

    The specification of the run is written to a file, which the job reads.

    Args:
        launcher: Hydra launcher that starts the jobs.
        jobs: folder for the files of the sweep's jobs.
        settings: overrides that configure the sweep. Hydra receives them as the overrides of every job.
        trust: list to which the `trust=` values of the jobs are added.
        direction: optimization direction of an optuna sweep, None for other sweeps.
    """

    launcher: Launcher
    jobs: Path
    settings: Sequence[str]
    trust: list[str]
    direction: str | None

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Any:  # noqa: ANN401
        """Resolve the overrides of each job in a batch to a run, then launch all jobs.

        Args:
            job_overrides: overrides of each job.
            initial_job_idx: number of the first job.

        Returns:
            The results of the Hydra launcher.
        """
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            self._write(number, [o for o in overrides if not Override.parse(o).is_below("sweep", "hydra")])
        return self.launcher.launch([self.settings] * len(job_overrides), initial_job_idx=initial_job_idx)

    def _write(self, number: int, overrides: Sequence[str]) -> None:
        from mate_cli.files.safe_load import to_yaml
        from mate_cli.runs.record import RunFolder

        notes = RunFolder(self.jobs)
        note = {"job": number, "overrides": [*overrides], "folder": None, "before": False, "reason": None}
        try:
            spec = resolve_job(overrides, self.direction, number)
        except MateError as error:
            # The run is invalid, or the optimization direction contradicts the metric.
            note |= {"reason": str(error), "problem": [error.where, error.problem]}
        else:
            check_nodes(self.launcher, spec)
            self.trust[:] = dict.fromkeys([*self.trust, *spec.required_trust()])
            notes.write_text(spec_file(self.jobs, number).name, to_yaml(spec.document(self.jobs)))
        notes.write_json(f"{number}.json", note)


def check_nodes(launcher: Launcher, spec: RunSpec) -> None:
    """Check that the Slurm launcher requests the same number of machines as a job uses.

    Raises:
        ConfigError: `hydra.launcher.nodes` and `hardware.nodes` differ.
    """
    requested_nodes, nodes = getattr(launcher, "params", {}).get("nodes"), spec.last.hardware.nodes
    if requested_nodes not in (None, nodes):
        hint = f"Add hydra.launcher.nodes={nodes}, or hardware.nodes={requested_nodes}"
        raise ConfigError(
            f"the launcher asks for hydra.launcher.nodes={requested_nodes}",
            where=f"hardware.nodes={nodes}",
            remedy=hint,
        )


def resolve_job(overrides: Sequence[str], direction: str | None, number: int) -> RunSpec:
    """Resolve the overrides of a sweep job to a run, and check the run.

    Args:
        overrides: overrides of the job.
        direction: optimization direction of an optuna sweep, None for other sweeps.
        number: job number.

    Raises:
        ConfigError: if the run is invalid, or the direction contradicts the metric.
    """
    from mate_cli.cli.check import check_parts, check_quickly
    from mate_cli.cli.config.resolve import resolve

    with wrap_hydra_errors(COMMAND, overrides):
        spec = resolve(overrides)
    if direction is not None:
        check_direction(spec, direction)
    check_quickly(spec, number)
    check_parts(spec)
    return spec


def run_sweep(arguments: Sequence[str], *, submit: bool = True) -> int:
    """Run a sweep and print the summary of its jobs.

    Args:
        arguments: overrides from the command line.
        submit: whether the jobs are submitted. If not, Slurm need not be installed.

    Returns:
        0 if every job has finished (or is already running), else 1.

    Raises:
        MateError: if the sweep's configuration is invalid.
    """
    from mate_cli.cli.sweeps.submission import check_slurm, quiet_controllers, start_tracker
    from mate_cli.cli.sweeps.sweep_summary import find_common_error, is_complete, print_summary

    overrides = [Override.parse(argument) for argument in arguments]
    folders, jobs, problem, planned_count = list[Path](), None, None, 0
    try:
        with init_compose_api(), StopHandler(lambda: job_files(jobs)), quiet_controllers():
            config = compose_sweep(overrides)
            if submit:
                check_slurm(config, arguments)
            folders = claim_folder(config)
            jobs = folders[0]
            if is_joblib(config):
                start_tracker()
            varied = to_strings(override for override in overrides if not override.is_below("hydra", "sweep"))
            sweeper = make_sweeper(config, jobs, overrides)
            planned_count = count_jobs(sweeper, config, varied)
            sweeper.sweep(varied)
    except (MateError, HydraException, OmegaConfBaseException):
        remove_unbegun(folders)
        raise
    except SystemExit:
        # The batch script was printed, so no job runs.
        remove_unbegun(folders)
        jobs = None
        raise
    except Exception as error:
        # Launchers raise various errors if they lose a worker.
        if not job_files(jobs):
            remove_unbegun(folders)
            raise
        problem = f"the launcher stopped early: {type(error).__name__}: {error}".splitlines()[0]
    finally:
        files = job_files(jobs)
        mistake = find_common_error(files)
        if files and not mistake:
            print_summary(files, problem, max(planned_count - len(files), 0), arguments)
        if mistake or not files:
            remove_unbegun(folders)
    if mistake:
        raise MateError(mistake)
    return 0 if is_complete(files) and not problem else 1


def compose_sweep(typed: Sequence[Override]) -> DictConfig:
    """Compose the configuration of a sweep, including Hydra's own section `hydra`.

    Only overrides of the keys in `SWEEP_KEYS` are applied. Parameters of the sweep file are removed if the command line
    sets the same key.

    Args:
        typed: all overrides from the command line.
    """
    hydra = GlobalHydra.instance().hydra
    assert hydra is not None
    config = hydra.compose_config(
        COMMAND, to_strings(override for override in typed if override.is_below(*SWEEP_KEYS)), RunMode.MULTIRUN
    )
    sweeper, keys = config.hydra.sweeper, {override.key for override in typed}
    with read_write(config.hydra), open_dict(config.hydra):
        sweeper.params = {key: value for key, value in (sweeper.params or {}).items() if key.lstrip("+~") not in keys}
    return config


def make_grid(config: DictConfig) -> GridSweeper | None:
    """Create the `GridSweeper` of a sweep.

    Return None if `hydra/sweeper` selects another sweeper.

    Args:
        config: composed configuration of the sweep.
    """
    sweeper = config.hydra.sweeper
    if not str(sweeper._target_).endswith(".BasicSweeper"):
        return None
    rows: Any = OmegaConf.to_container(config.rows) if config.get("rows") else []
    return GridSweeper(sweeper.max_batch_size, dict(sweeper.params or {}), rows)


def make_sweeper(config: DictConfig, jobs: Path, typed: Sequence[Override]) -> Any:  # noqa: ANN401 - a Hydra class
    """Create the Hydra sweeper of a configuration, which launches its jobs by a `JobLauncher`.

    The `JobLauncher` resolves each job to a run before it is launched.

    Args:
        config: composed configuration of the sweep, with Hydra's section.
        jobs: folder for the files of the sweep's jobs.
        typed: all overrides from the command line.
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
    direction, settings = config.hydra.sweeper.get("direction"), to_strings(w for w in typed if w.is_below(*SWEEP_KEYS))
    direction_name = None if direction is None else str(getattr(direction, "name", direction))
    sweeper.launcher = JobLauncher(sweeper.launcher, jobs, settings, trust, direction_name)
    return sweeper


def count_jobs(sweeper: Sweeper, config: DictConfig, varied: list[str]) -> int:
    """Return the number of jobs in a sweep, or 0 if the number is unknown.

    Args:
        sweeper: sweeper from `make_sweeper`.
        config: composed configuration of the sweep, with Hydra's section.
        varied: overrides of the jobs, which may have several values.
    """
    if isinstance(sweeper, GridSweeper):
        return len(sweeper.jobs(varied))
    return int(config.hydra.sweeper.get("n_trials") or 0)


def is_joblib(config: DictConfig) -> bool:
    """Return whether the launcher is joblib.

    It starts jobs from worker processes of the sweep process.
    """
    return "joblib" in str(config.hydra.launcher.get("_target_"))


def claim_folder(config: DictConfig) -> list[Path]:
    """Create a new folder for a sweep, with a subfolder for the files of its jobs.

    If `hydra.sweep.dir` exists, a number is appended to the name, and `config` is changed accordingly.

    Returns:
        The created folders, starting with the subfolder for the jobs.

    Raises:
        ConfigError: if the folders cannot be created.
    """
    requested = Path(str(config.hydra.sweep.dir)).absolute()
    problem, hint = "the folder of the sweep cannot be made", "Choose another paths.outputs"
    with wrap_file_errors(requested, ConfigError, problem, hint):
        candidates = (folder / "jobs" for folder in number_names(requested))
        folders = next(folders for jobs in candidates if jobs in (folders := make_folders(jobs)))
    with open_dict(config):
        config.hydra.sweep.dir = str(folders[0].parent)
    return folders


def job_files(jobs: Path | None) -> list[Path]:
    """Return the JSON files of a sweep's jobs, sorted by job number.

    Args:
        jobs: folder with the files of the jobs. None: the result is [].
    """
    return sorted(jobs.glob("*.json"), key=lambda path: int(path.stem)) if jobs else []


def remove_unbegun(folders: Sequence[Path]) -> None:
    """Delete the files and folders of a sweep in which no job has created a run folder.

    Args:
        folders: created folders from `claim_folder`, starting with the subfolder for the jobs.
    """
    jobs = folders[0] if folders else None
    if jobs is None or any(load_json(file).get("folder") for file in job_files(jobs)):
        return
    for file in (*jobs.glob("*.json"), *jobs.glob("*.yaml"), jobs / STOP_FILE_NAME):
        file.unlink(missing_ok=True)
    for folder in folders:
        with suppress(OSError):  # The folder contains other files.
            folder.rmdir()


def check_direction(spec: RunSpec, asked: str) -> None:
    """Check that an optuna sweep optimizes the monitored metric in the correct direction.

    Args:
        spec: run of a job, with the monitored metric.
        asked: configured direction, `minimize` or `maximize`.

    Raises:
        ConfigError: if `hydra.sweeper.direction` contradicts the monitored metric.
    """
    from hydra.utils import get_class

    from mate_cli.metrics.specs import spec_to_follow

    judge: Any = get_class((spec.system or spec.last.task)["_target_"])
    monitor = judge.monitor if spec.system else judge.spec.monitor
    required = "maximize" if spec_to_follow(monitor).direction > 0 else "minimize"
    if asked != required:
        raise ConfigError(
            f"{monitor} is better when {'higher' if required == 'maximize' else 'lower'}, not the opposite",
            where="hydra.sweeper.direction",
            remedy=f"Add hydra.sweeper.direction={required}",
        )


def _value_text(value: object) -> str:
    """Format a YAML value for Hydra's override grammar."""
    from mate_cli.quoting import quote_text

    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, list):
        return f"[{','.join(map(_value_text, value))}]"
    text = str(value)
    return text if re.fullmatch(r"[\w./:+-]*", text) else quote_text(text)
