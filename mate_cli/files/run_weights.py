"""Suggestion of the weights file of a run, if the user specifies a folder instead."""

from pathlib import Path

from mate_cli.quoting import format_setting

WEIGHT_FILES = ("best.safetensors", "final.safetensors")
"""Weights files in the folder `checkpoints` of a run, in order of preference."""


def suggest_run_weights(folder: Path, key: str = "init.checkpoint") -> str | None:
    """Return the hint "Did you mean KEY=PATH?" for the newest weights below a folder.

    Return None if there are no weights.

    Args:
        folder: folder of a run, or a folder that contains runs.
        key: configuration key of the weights file.
    """
    files = [file for name in WEIGHT_FILES for file in folder.glob(f"**/checkpoints/{name}")]
    # `max` returns the first of equal files, which has the preferred name.
    newest = max(files, key=lambda file: file.parent.stat().st_mtime, default=None)
    return f"Did you mean {format_setting(key, newest)}?" if newest else None
