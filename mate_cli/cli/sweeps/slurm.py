"""Sweeps as jobs of Slurm: the batch script that submitit would hand in, shown on a machine without Slurm too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from mate_cli.errors import ConfigError

LAUNCHER = "hydra/launcher=submitit_slurm"


def no_slurm(error: Exception) -> ConfigError | None:
    """The error of a machine without Slurm, where submitit's own comes of that."""
    if not isinstance(error, RuntimeError) or "srun" not in str(error):
        return None
    remedy = "Type it where sbatch and srun are, as on a login node; --print-script shows what would be submitted"
    return ConfigError("there is no Slurm on this machine", where=LAUNCHER, remedy=remedy)


@contextmanager
def printing_script(words: Sequence[str]) -> Iterator[None]:
    """Print the batch script of a sweep in place of submitting its jobs, and end.

    Raises:
        ConfigError: the words choose another launcher.
        SystemExit: once the script is printed.
    """
    if LAUNCHER not in words:
        raise ConfigError("shows what is submitted to Slurm", where="--print-script", remedy=f"Add {LAUNCHER}")
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
