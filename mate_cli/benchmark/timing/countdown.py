"""How long a benchmark will take: said before it begins, and counted down while it runs."""

import time
from collections.abc import Iterator, Mapping
from typing import TypeVar

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from mate_cli.terminal.console import Console

MINUTE = 60.0
TRUST = 0.1
"""The share of the expected time for which the expectation counts as if it had been measured."""

Part = TypeVar("Part")


class TimeLeft(ProgressColumn):
    """The time until the moment in the field `ends`."""

    def render(self, task: Task) -> Text:
        """Draw it."""
        return Text(f"about {estimate_text(max(0.0, task.fields['ends'] - time.monotonic()))} left", style="dim")


def counted(
    parts: Mapping[str, Part], expected: Mapping[str, float], console: Console | None = None
) -> Iterator[tuple[str, Part]]:
    """Yield the parts of a benchmark with their names, and say on the error stream how long it takes.

    A terminal shows a bar, a file or pipe gets a line per part. What is left is expected anew after every part.

    Args:
        parts: by name, in their order.
        expected: seconds of each.
        console: to write on.
    """
    console = console or Console(stderr=True, highlight=False)
    total, done, began = sum(expected[name] for name in parts), 0.0, time.monotonic()
    if total > MINUTE:
        kept = "stopped, it shows what it has measured"
        console.print(f"{len(parts)} cases to measure, about {estimate_text(total)}; {kept}", soft_wrap=True)
    columns = (BarColumn(), TextColumn("measuring {task.description}"), TimeLeft())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, ends=began + total)
        for name, part in parts.items():
            left = time_left(total, done, time.monotonic() - began)
            bar.update(task, description=name, completed=done, ends=time.monotonic() + left)
            if not console.is_terminal:
                rest = f", about {estimate_text(left)} left" if total > MINUTE else ""
                console.print(f"measuring {name}{rest}", style="dim", soft_wrap=True)
            yield name, part
            done += expected[name]


def time_left(total: float, done: float, spent: float) -> float:
    """Return the seconds left when what was expected to take `done` of `total` seconds has taken `spent`."""
    trusted = TRUST * total
    return (total - done) * (spent + trusted) / (done + trusted) if total else 0.0


def estimate_text(seconds: float) -> str:
    """Return a time as people say it: `7 minutes`."""
    number, unit = (round(seconds / 60), "minute") if seconds >= 1.5 * MINUTE else (round(seconds), "second")
    return f"{number} {unit}{'' if number == 1 else 's'}"
