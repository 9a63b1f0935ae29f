"""Launchers of sweeps: checks and batch script of submitit, and workers of joblib."""

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
    """Check that Slurm is installed if its launcher is selected.

    Warn if no time limit is set.

    Args:
        config: composed configuration of the sweep.
        overrides: overrides from the command line, which may set the time limit.

    Raises:
        ConfigError: if the Slurm launcher is selected and one of its programs is missing.
    """
    if not str(config.hydra.launcher._target_).endswith(".SlurmLauncher"):
        return
    if missing_programs := [name for name in ("sbatch", "srun") if shutil.which(name) is None]:
        hint = "Run it where they exist, such as a login node; --print-script shows the job without submitting it"
        problem = f"Slurm is not installed on this machine (no {' and no '.join(missing_programs)} on PATH)"
        raise ConfigError(problem, where=LAUNCHER, remedy=hint)
    warn_time_limit(overrides)


def warn_time_limit(overrides: Sequence[str]) -> None:
    """Warn that Slurm ends each job after 60 minutes, unless an override sets `TIME_LIMIT`."""
    if not any(override.lstrip("+").startswith(TIME_LIMIT) for override in overrides):
        warnings.warn(f"each job ends after 60 minutes; for twelve hours add {TIME_LIMIT}=720", stacklevel=2)


@contextmanager
def print_script(overrides: Sequence[str]) -> Iterator[None]:
    """Make the Slurm launcher print its batch script instead of submitting jobs.

    This applies inside the context.

    Args:
        overrides: overrides from the command line, which must select the Slurm launcher.

    Raises:
        ConfigError: if the overrides select another launcher.
        SystemExit: after the script is printed.
    """
    if LAUNCHER not in overrides:
        raise ConfigError("applies to Slurm only", where="--print-script", remedy=f"Add {LAUNCHER}")
    warn_time_limit(overrides)
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
        # Otherwise submitit would require srun on this machine.
        patch.object(SlurmExecutor, "affinity", classmethod(lambda _: 1)),
        patch.object(AutoExecutor, "map_array", show),
    ):
        yield


def start_tracker() -> None:
    """Start joblib's resource tracker so that closing the terminal does not end the tracker.

    The tracker ignores SIGHUP. If the tracker ended before joblib's workers, it would print a
    traceback for each of their locks.
    """
    from joblib.externals.loky.backend import resource_tracker  # type: ignore[import-untyped]

    with _ignore(signal.SIGHUP):
        resource_tracker.ensure_running()


@contextmanager
def _ignore(number: signal.Signals) -> Iterator[None]:
    """Ignore a signal inside the context.

    Subprocesses that are started inside the context ignore the signal too.
    """
    handler = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, handler)


@contextmanager
def quiet_controllers() -> Iterator[None]:
    """Make the launcher `submitit_local` start its controller processes with SIGINT ignored.

    On SIGINT they would print tracebacks. They need no signal, because a controller ends with its job, and the sweep
    process forwards the signal to the jobs.
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
