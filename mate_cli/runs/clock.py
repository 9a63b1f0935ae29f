"""The wall time of a run."""

import time


class Clock:
    """Seconds of wall time, counted on from those of earlier parts of the same run."""

    def __init__(self, before: float = 0.0) -> None:
        self._start = time.monotonic() - before

    def __call__(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._start
