"""`mate run FOLDER`: train, or go on training, the run that a folder holds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.cli.app import PROGRAM
from mate_cli.errors import ConfigError, RunError

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec
    from mate_cli.runs.record import RunFolder

ROOT = "data.root="
HELP = """Train or continue the run in a folder, from its config.yaml.

Usage: mate run FOLDER [data.root=FOLDER] [trust=NAME]

Examples
  mate run outputs/train/quickstart/2026-11-25_10-00-00_0

data.root: where its data are now
trust: module to import for parts of the run; its code is executed. Also a
folder outside that it may write to, or online, for loggers that use a server"""


def run_plain(words: Sequence[str]) -> int:
    """Train the run in a folder.

    Raises:
        ConfigError: no folder is named.
        RunError: it holds no run, or another process trains it.
        TrustError: it names something to build that is neither ours nor trusted.
    """
    folders = [word for word in words if not word.startswith(("trust=", ROOT, "-"))]
    root = next((word.removeprefix(ROOT) for word in words if word.startswith(ROOT)), None)
    others = [word for word in words if word.startswith("-")]
    if len(folders) != 1 or others:
        raise ConfigError("needs one folder", where="mate run", remedy="Type mate run FOLDER")
    trust = [name for word in words if word.startswith("trust=") for name in _trusted(word[6:])]
    return run_folder(Path(folders[0]), trust, root)


def _trusted(value: str) -> list[str]:
    """Return what is typed of `trust=`: a list in brackets, or one name or place."""
    return value[1:-1].split(",") if value[:1] + value[-1:] == "[]" else [value]


def run_folder(path: Path, trust: Sequence[str] = (), root: str | None = None) -> int:
    """Train the run in a folder, in as many processes as its hardware has, from the folder that its paths begin at.

    Raises:
        RunError: it holds no run, or another process trains it.
    """
    from mate_cli.cli.check import check_parts
    from mate_cli.files.io_errors import wrap_read_errors
    from mate_cli.files.outside import check_settings
    from mate_cli.files.targets import find_beside
    from mate_cli.pipelines.run_spec import load_spec
    from mate_cli.runs.configuration import explain_places, read_base
    from mate_cli.runs.folders import open_run
    from mate_cli.runs.record import RunFolder

    folder = open_run(str(path), "mate run")
    if (base := read_base(folder.path).folder) != Path.cwd():
        find_beside(trust)  # modules in the folder of whoever types it come first
        root = root and str(Path(root).absolute())
        folder = RunFolder(folder.path.absolute())
        check_settings(base)
        os.chdir(base)
    file = folder.path / "config.yaml"
    spec = load_spec(file, trust)
    with join_others(spec), explain_places(folder.path):
        with wrap_read_errors(file, RunError, "it does not fit this version of mate", "Train the run again"):
            check_parts(spec)
        return execute(spec.with_root(root), folder, trust, [ROOT + root]) if root else execute(spec, folder, trust)


@contextmanager
def join_others(spec: RunSpec) -> Iterator[None]:
    """Meet the other processes of a run, where several were started, before its checks: all hear of what one refuses.

    Raises:
        RunError: they do not come, or have another configuration or other code.
    """
    if "RANK" not in os.environ and os.environ.get("SLURM_STEP_NUM_TASKS", "1") == "1":
        yield
        return
    from mate_cli.runs import ranks
    from mate_cli.runs.launch import check_processes, find_place, join_processes

    hardware = spec.last.config.hardware
    if find_place(os.environ):
        check_processes(hardware, os.environ)
    with join_processes(hardware):
        ranks.require_agreement(code_facts(spec), "Start all with the same words, in the same version of mate")
        yield


def code_facts(spec: RunSpec) -> dict[str, str]:
    """Return what all processes of a run must have in common before they read data: settings, code and packages."""
    from mate_cli.runs.identity import NO_EFFECT, PLACES, flat_keys, hash_package, telling_values, value_text
    from mate_cli.runs.record import package_versions

    settings = telling_values(flat_keys(spec.values()), (*PLACES, *NO_EFFECT))
    code = {"the code of mate": hash_package(), **spec.code, **package_versions()}
    return {name: value_text(value) for name, value in (settings | code).items()}


def execute(spec: RunSpec, folder: RunFolder | None, trust: Sequence[str], more: Sequence[str] = ()) -> int:
    """Train a run here, or let processes of this machine do so, each of which is `mate run` of its folder.

    Args:
        spec: what is trained.
        folder: of the run; None for one that is to be made.
        trust: what its folder has to be told to trust.
        more: further words for these processes.

    Returns:
        The exit code.

    Raises:
        MateError: something the user can mend.
    """
    from mate_cli.cli.check import check_machine
    from mate_cli.pipelines.run_spec import prepare_run
    from mate_cli.runs import ranks
    from mate_cli.runs.launch import check_processes, find_place, join_processes, train_in_processes
    from mate_cli.runs.lock import acquire_lock, end_with_launcher, release_lock
    from mate_cli.runs.record import STOPPED

    end_with_launcher()
    hardware = spec.last.config.hardware
    if folder is None:
        check_machine(spec)
    else:
        check_processes(hardware, os.environ)
    if hardware.devices > 1 and not find_place(os.environ):
        folder = folder or prepare_run(spec)[0]
        acquire_lock(folder.path)
        command = [*PROGRAM, "run", str(folder.path), *more, *(f"trust={word}" for word in trust)]
        try:
            return train_in_processes(folder, command, hardware)
        finally:
            release_lock(folder.path)
    from mate_cli.pipelines.stages import train_spec  # first: whoever is stopped before it has a folder leaves none

    with join_processes(hardware):
        ranks.wait_for_all()  # whoever refuses what it was to check has ended
        folder = folder or ranks.broadcast_from_rank_zero(lambda: prepare_run(spec)[0])
        try:
            train_spec(spec, folder)
        except KeyboardInterrupt:
            if ranks.is_rank_zero():
                folder.complete_records("interrupted", STOPPED)
            raise
    return 0
