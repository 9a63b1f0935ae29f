"""Lightning's W&B logger with the time and epoch of each row."""

from collections.abc import Mapping
from typing import Any

from pytorch_lightning.loggers import WandbLogger

CLOCK = ("time", "epoch")
"""Values of a row that are logged next to `trainer/global_step`."""


class Dashboard(WandbLogger):
    """Lightning's `WandbLogger`, which also logs `trainer/time` and `trainer/epoch`."""

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Log a row of metrics, with time and epoch under `trainer/`.

        The epoch in rows from Lightning is always 0 and is dropped.
        """
        clock = {f"trainer/{name}": metrics[name] for name in CLOCK if "time" in metrics and name in metrics}
        row = {name: value for name, value in metrics.items() if name not in CLOCK} | clock
        super().log_metrics(row, step)

    def write_logs(self, text: str) -> None:
        """Send printed lines of the run to the console log of W&B."""
        self.experiment.write_logs(text)

    def close(self, summary: Mapping[str, float], exit_code: int) -> None:
        """Write the final metrics to the summary of the W&B run, and finish the run."""
        self.experiment.summary.update(dict(summary))
        self.experiment.finish(exit_code=exit_code)
