"""The figure of `mate benchmark benchmark=depth`: how far a step moves the output, against the number of layers."""

from __future__ import annotations

from pathlib import Path

from mate_cli.reports.plots.scaling import Panel, ScalingFrame, scaling_figure
from mate_cli.reports.plots.style import save_figure
from mate_cli.reports.runs.load import LoadedRun

DEPTH = "depth"
"""What the names of its figures begin with: depth/<variant>/<layers>/change, or bound."""


def depth_changes(run: LoadedRun) -> dict[str, list[tuple[int, float]]]:
    """(layers, change) of every variant; empty where a record is of another benchmark."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name, value in run.metrics.items():
        kind, *rest = name.split("/")
        if kind == DEPTH and len(rest) == 3 and rest[1].isdigit() and rest[2] == "change":
            found.setdefault(rest[0], []).append((int(rest[1]), value))
    return {name: sorted(points) for name, points in found.items()}


def write_depth_figure(run: LoadedRun, folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG; nothing where there is none."""
    lines = depth_changes(run)
    if not lines:
        return []
    panel = Panel("Change of the output by one step, over its rate", lines)
    frame = ScalingFrame(DEPTH, "change / rate", tuple(lines), ((panel,),), axis="layers")
    return save_figure(scaling_figure(frame), folder, DEPTH)
