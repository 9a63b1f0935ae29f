"""What a long training leaves free is given back from time to time."""

from time import monotonic
from typing import Any

import pytorch_lightning as pl

from mate_cli.runs.allocator import give_back_freed_memory


class FreedMemory(pl.Callback):
    """Give back what is free every so many seconds; without it the memory of a long training grows without end."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds, self._last = seconds, monotonic()

    def on_train_batch_end(self, *given: Any) -> None:
        """Between two batches, nearly nothing is in use."""
        if monotonic() - self._last >= self.seconds:
            give_back_freed_memory()
            self._last = monotonic()
