"""Findings of analyses of runs; each is shown by a file of its name here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.reports.plots.style import save_figure

if TYPE_CHECKING:
    from mate_cli.terminal.console import Console


def show_findings(findings: Mapping[str, Any], folder: Path, console: Console) -> Iterator[Path]:
    """Print what an analysis has found, and draw it; yields the files.

    Args:
        findings: what it has written.
        folder: where figures go.
        console: where to print.
    """
    name = str(findings["analysis"])
    view = importlib.import_module(f"mate_cli.reports.{name}")
    view.print_findings(findings, console)
    yield folder / f"{name}.json"
    for key, figure in view.figures(findings).items():
        yield from save_figure(figure, folder, key)
