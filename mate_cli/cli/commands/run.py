"""`mate run FOLDER`: train the run that a folder specifies, or resume it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mate_cli.errors import ConfigError, RunError

ROOT = "data.root="
HELP = """Train or continue the run in a folder, from its config.yaml.

Usage: mate run FOLDER [data.root=FOLDER] [trust=NAME]

Examples
  mate run outputs/train/quickstart/2026-11-25_10-00-00_0

data.root: where its data are now
trust: module to import for parts of the run; its code is executed. Also a
folder outside that it may write to, or online, for loggers that use a server"""


def run_plain(arguments: Sequence[str]) -> int:
    """Train or resume the run that a folder specifies.

    Args:
        arguments: command-line arguments: the folder, and optionally `data.root=` and `trust=`.

    Raises:
        ConfigError: if no folder is named.
        RunError: if the folder contains no run, or the run is already running.
        TrustError: if its configuration names untrusted classes.
    """
    folders = [argument for argument in arguments if not argument.startswith(("trust=", ROOT, "-"))]
    root = next((argument.removeprefix(ROOT) for argument in arguments if argument.startswith(ROOT)), None)
    flags = [argument for argument in arguments if argument.startswith("-")]
    if len(folders) != 1 or flags:
        raise ConfigError("needs one folder", where="mate run", remedy="Type mate run FOLDER")
    trust = [name for argument in arguments if argument.startswith("trust=") for name in _trusted(argument[6:])]
    return run_folder(Path(folders[0]), trust, root)


def _trusted(value: str) -> list[str]:
    """Return the names of trusted modules in the value of `trust=`.

    The value is a list `[a,b]` or one name.
    """
    return value[1:-1].split(",") if value[:1] + value[-1:] == "[]" else [value]


def run_folder(path: Path, trust: Sequence[str] = (), root: str | None = None) -> int:
    """Train or resume the run in a folder, on all its devices.

    The original working directory of the run is used.

    Args:
        path: run folder.
        trust: trusted modules, folders and services, from `trust=` on the command line.
        root: replacement for `data.root`. None to use the recorded folder.

    Raises:
        RunError: if the folder contains no run, or the run is already running.
    """
    from mate_cli.cli.check import check_parts
    from mate_cli.cli.commands.train import execute, init_process_group
    from mate_cli.files.io_errors import wrap_file_errors
    from mate_cli.files.sandbox import check_settings
    from mate_cli.files.targets import find_beside
    from mate_cli.pipelines.run_spec import load_spec
    from mate_cli.runs.configuration import explain_places, read_base
    from mate_cli.runs.folders import open_run
    from mate_cli.runs.record import RunFolder

    folder = open_run(str(path), "mate run")
    if (base := read_base(folder.path).folder) != Path.cwd():
        # Modules in the current working directory take precedence over modules in the original one.
        find_beside(trust)
        root = root and str(Path(root).absolute())
        folder = RunFolder(folder.path.absolute())
        check_settings(base)
        os.chdir(base)
    file = folder.path / "config.yaml"
    spec = load_spec(file, trust)
    with init_process_group(spec), explain_places(folder.path):
        with wrap_file_errors(file, RunError, "it does not fit this version of mate", "Train the run again"):
            check_parts(spec)
        return execute(spec.with_root(root), folder, trust, [ROOT + root]) if root else execute(spec, folder, trust)
