"""Jobs that submitit starts: on Slurm, whose batch script can be shown without one, and on this machine."""

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


def check_slurm(config: DictConfig, words: Sequence[str]) -> None:
    """Refuse to submit jobs from a machine without Slurm.

    Raises:
        ConfigError: its launcher is chosen, and a program of it is missing.
    """
    if not str(config.hydra.launcher._target_).endswith(".SlurmLauncher"):
        return
    if missing := [name for name in ("sbatch", "srun") if shutil.which(name) is None]:
        remedy = "Run it where they exist, such as a login node; --print-script shows the job without submitting it"
        problem = f"Slurm is not installed on this machine (no {' and no '.join(missing)} on PATH)"
        raise ConfigError(problem, where=LAUNCHER, remedy=remedy)
    tell_time_limit(words)


def tell_time_limit(words: Sequence[str]) -> None:
    """Warn that submitit ends jobs after an hour where nobody says how long they may take."""
    if not any(word.lstrip("+").startswith(TIME_LIMIT) for word in words):
        warnings.warn(f"each job ends after 60 minutes; for twelve hours add {TIME_LIMIT}=720", stacklevel=2)


@contextmanager
def print_script(words: Sequence[str]) -> Iterator[None]:
    """Print the batch script of a sweep in place of submitting its jobs, and end.

    Raises:
        ConfigError: the words choose another launcher.
        SystemExit: once the script is printed.
    """
    if LAUNCHER not in words:
        raise ConfigError("applies to Slurm only", where="--print-script", remedy=f"Add {LAUNCHER}")
    tell_time_limit(words)
    try:
        from submitit import AutoExecutor, SlurmExecutor
    except ImportError:  # Hydra knows no such launcher then
        yield
        return

    def show(executor: AutoExecutor, _: object, jobs: Sequence[object], *__: object) -> None:
        slurm = executor._executor
        assert isinstance(slurm, SlurmExecutor)
        slurm.parameters |= {"map_count": len(jobs)} if len(jobs) > 1 else {}
        print(slurm._make_submission_file_text(slurm._submitit_command_str, ""))
        raise SystemExit(0)

    with (
        patch.object(SlurmExecutor, "affinity", classmethod(lambda _: 1)),  # or else it looks for srun
        patch.object(AutoExecutor, "map_array", show),
    ):
        yield


def start_tracker() -> None:
    """Start the process that watches over those of joblib so that a hang-up of the terminal does not end it.

    Ended before them, it would print a traceback for each of their locks.
    """
    from joblib.externals.loky.backend import resource_tracker  # type: ignore[import-untyped]

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what is started inherits it
    try:
        resource_tracker.ensure_running()
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def quiet_controllers() -> Iterator[None]:
    """Let processes of `submitit_local` that watch over jobs not hear Ctrl-C, on which they print tracebacks.

    They end with their jobs, which the process of the sweep tells to.
    """
    try:
        from submitit.local import local
    except ImportError:
        yield
        return
    start_controller = local.start_controller

    def start_quietly(*args: Any, **kwargs: Any) -> object:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is started inherits it
        try:
            return start_controller(*args, **kwargs)
        finally:
            signal.signal(signal.SIGINT, before)

    with patch.object(local, "start_controller", start_quietly):
        yield
