"""Rows of metrics as W&B shows them."""

from collections.abc import Mapping
from typing import Any

from pytorch_lightning.loggers import WandbLogger

CLOCK = ("time", "epoch")
"""Figures of a row that belong to its step."""


class Dashboard(WandbLogger):
    """Lightning's logger of W&B, with the clock and the epoch of a run beside its step."""

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Log a row; Lightning's own rows have the epoch that it sees, which is always 0."""
        clock = {f"trainer/{name}": metrics[name] for name in CLOCK if "time" in metrics and name in metrics}
        row = {name: value for name, value in metrics.items() if name not in CLOCK} | clock
        super().log_metrics(row, step)

    def write_logs(self, text: str) -> None:
        """Show lines that the run prints."""
        self.experiment.write_logs(text)

    def close(self, summary: Mapping[str, float], exit_code: int) -> None:
        """Log the last figures, and end."""
        self.experiment.summary.update(dict(summary))
        self.experiment.finish(exit_code=exit_code)
