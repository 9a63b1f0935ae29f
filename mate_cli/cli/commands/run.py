"""`mate run FOLDER`: train, or go on training, the run that a folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import ConfigError, RunError

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec
    from mate_cli.runs.record import RunFolder

HELP = """Train the run that a folder holds, or go on with it, from its config.yaml.

Usage: mate run FOLDER [trust=MODULE]

Examples
  mate run outputs/train/quickstart/2026-11-25_10-00-00_0

trust: a module of your own that the run is made of; its code is executed"""


def run_plain(words: Sequence[str]) -> int:
    """Train the run in a folder.

    Raises:
        ConfigError: no folder is named.
        RunError: it holds no run, or another process trains it.
        TrustError: it names something to build that is neither ours nor trusted.
    """
    if not words or {"--help", "-h"} & set(words):
        print(HELP)
        return 0
    folders = [word for word in words if not word.startswith(("trust=", "-"))]
    others = [word for word in words if word.startswith("-")]
    if len(folders) != 1 or others:
        raise ConfigError("needs one folder", where="mate run", remedy="Type mate run FOLDER")
    trust = [name for word in words if word.startswith("trust=") for name in word[6:].strip("[]").split(",") if name]
    return run_folder(Path(folders[0]), trust)


def run_folder(path: Path, trust: Sequence[str] = ()) -> int:
    """Train the run in a folder, in as many processes as its hardware has.

    Raises:
        RunError: it holds no run, or another process trains it.
    """
    from mate_cli.pipelines.run_spec import load_spec
    from mate_cli.runs.folders import open_run

    folder = open_run(str(path))
    if not folder.has_record():
        raise RunError("this is not the folder of a training run", where=str(path), remedy="Give one of outputs/train/")
    return execute(load_spec(folder.path / "config.yaml", trust), folder, trust)


def execute(spec: RunSpec, folder: RunFolder, trust: Sequence[str]) -> int:
    """Train a run in its folder; further processes are `mate run` of the same folder."""
    import sys

    from mate_cli.runs.launch import together

    main = Path(__file__).resolve().parents[2] / "__main__.py"
    sys.argv = [str(main), "run", str(folder.path), *([f"trust=[{','.join(trust)}]"] if trust else [])]
    with together(spec.last.config.hardware):
        from mate_cli.pipelines.stages import train_spec

        train_spec(spec, folder)
    return 0
