"""Weights of runs, suggested in errors if a folder is given instead of a weights file."""

from pathlib import Path

from mate_cli.quoting import format_setting

NAMES = ("best.safetensors", "final.safetensors")
"""Weights files in the folder `checkpoints` of a run, in order of preference."""


def suggest_run_weights(folder: Path, key: str = "init.checkpoint") -> str | None:
    """Return a hint that suggests the weights of the newest run below a folder.

    Return None if there are no weights.
    """
    files = [file for name in NAMES for file in folder.glob(f"**/checkpoints/{name}")]
    # `max` returns the first of equal files, which has the preferred name.
    newest = max(files, key=lambda file: file.parent.stat().st_mtime, default=None)
    return f"Did you mean {format_setting(key, newest)}?" if newest else None
