"""Weights of runs below a folder, to suggest where a folder is named in their place."""

from pathlib import Path

from mate_cli.quoting import format_setting

NAMES = ("best.safetensors", "final.safetensors")
"""What a run leaves in its folder `checkpoints`, in the order of preference."""


def find_run_weights(folder: Path) -> Path | None:
    """Find the weights that a run below a folder left, of several runs the newest; None where there are none."""
    files = [file for name in NAMES for file in folder.glob(f"**/checkpoints/{name}")]
    newest = max(files, key=lambda file: file.parent.stat().st_mtime, default=None)
    return next((file for file in files if newest and file.parent == newest.parent), None)


def suggest_run_weights(folder: Path, key: str = "init.checkpoint") -> str | None:
    """Return a question that offers weights of a run below a folder; None where there are none."""
    file = find_run_weights(folder)
    return f"Did you mean {format_setting(key, file)}?" if file else None
