"""Jobs that submitit starts, on Slurm or this machine, and printing of the Slurm script."""

from __future__ import annotations

import shutil
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from omegaconf import DictConfig

from mate_cli.errors import ConfigError

LAUNCHER = "hydra/launcher=submitit_slurm"
TIME_LIMIT = "hydra.launcher.timeout_min"


def check_slurm(config: DictConfig, overrides: Sequence[str]) -> None:
    """Check that Slurm is installed if its launcher is selected. Warn about the time limit.

    Raises:
        ConfigError: if the Slurm launcher is selected and one of its programs is missing.
    """
    if not str(config.hydra.launcher._target_).endswith(".SlurmLauncher"):
        return
    if missing_programs := [name for name in ("sbatch", "srun") if shutil.which(name) is None]:
        hint = "Run it where they exist, such as a login node; --print-script shows the job without submitting it"
        problem = f"Slurm is not installed on this machine (no {' and no '.join(missing_programs)} on PATH)"
        raise ConfigError(problem, where=LAUNCHER, remedy=hint)
    tell_time_limit(overrides)


def tell_time_limit(overrides: Sequence[str]) -> None:
    """Warn that submitit terminates jobs after an hour unless a time limit is specified."""
    if not any(override.lstrip("+").startswith(TIME_LIMIT) for override in overrides):
        warnings.warn(f"each job ends after 60 minutes; for twelve hours add {TIME_LIMIT}=720", stacklevel=2)


@contextmanager
def print_script(overrides: Sequence[str]) -> Iterator[None]:
    """Print the batch script of a sweep instead of submitting its jobs, and exit.

    Raises:
        ConfigError: if the overrides select another launcher.
        SystemExit: after the script is printed.
    """
    if LAUNCHER not in overrides:
        raise ConfigError("applies to Slurm only", where="--print-script", remedy=f"Add {LAUNCHER}")
    tell_time_limit(overrides)
    try:
        from submitit import AutoExecutor, SlurmExecutor
    except ImportError:  # Hydra raises an error for the missing launcher.
        yield
        return

    def show(executor: AutoExecutor, _: object, jobs: Sequence[object], *__: object) -> None:
        slurm = executor._executor
        assert isinstance(slurm, SlurmExecutor)
        slurm.parameters |= {"map_count": len(jobs)} if len(jobs) > 1 else {}
        print(slurm._make_submission_file_text(slurm._submitit_command_str, ""))
        raise SystemExit(0)

    with (
        patch.object(SlurmExecutor, "affinity", classmethod(lambda _: 1)),  # avoids the search for srun
        patch.object(AutoExecutor, "map_array", show),
    ):
        yield


def start_tracker() -> None:
    """Start the resource tracker of joblib, protected from the hang-up signal of the terminal.

    If it ended before joblib's workers, it would print a traceback for each of their locks.
    """
    from joblib.externals.loky.backend import resource_tracker  # type: ignore[import-untyped]

    with _ignore(signal.SIGHUP):
        resource_tracker.ensure_running()


@contextmanager
def _ignore(number: signal.Signals) -> Iterator[None]:
    """Ignore a signal. Subprocesses that are started meanwhile ignore it too."""
    handler = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, handler)


@contextmanager
def quiet_controllers() -> Iterator[None]:
    """Start the controllers of `submitit_local` with SIGINT ignored.

    On SIGINT they would print tracebacks.

    A controller ends with its job, and the sweep process forwards the signal to jobs.
    """
    try:
        from submitit.local import local
    except ImportError:
        yield
        return
    start_controller = local.start_controller

    def start_quietly(*args: Any, **kwargs: Any) -> object:
        with _ignore(signal.SIGINT):
            return start_controller(*args, **kwargs)

    with patch.object(local, "start_controller", start_quietly):
        yield
