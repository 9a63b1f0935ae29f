"""What is laid out for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment

from mate_cli.terminal.streams import printable


class Console(rich.console.Console):
    """A console of rich that cleans what is laid out; no text is taken for markup or a smiley.

    Args:
        **options: those of rich.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of rich
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=printable(segment.text)) for segment in buffer
        )
