"""Progress of a benchmark: the time that it takes at most, and the case that is being measured."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from rich.progress import BarColumn, Progress, TextColumn

from mate_cli.terminal.console import Console

MINUTE = 60.0

Part = TypeVar("Part")


def count_down(parts: Mapping[str, Part], seconds: float, console: Console | None = None) -> Iterator[tuple[str, Part]]:
    """Yield the parts of a benchmark with their names, and say on the error stream how many there are.

    A terminal shows a bar, a file or pipe gets a line per part.

    Args:
        parts: by name, in their order.
        seconds: that one of them takes at most, about.
        console: to write on.
    """
    console = console or Console(stderr=True, highlight=False)
    total = len(parts) * seconds
    if total > MINUTE:
        text = f"{len(parts)} cases to measure, at most about {estimate_text(total)}"
        console.print(f"{text}; stopped, it shows what it has measured", soft_wrap=True)
    columns = (BarColumn(), TextColumn("measuring {task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(parts))
        for number, (name, part) in enumerate(parts.items()):
            text = f"{name}, {number + 1} of {len(parts)}"
            bar.update(task, description=text, completed=number)
            if not console.is_terminal:
                console.print(f"measuring {text}", style="dim", soft_wrap=True)
            yield name, part


def estimate_text(seconds: float) -> str:
    """Return a time as people say it: `7 minutes`."""
    number, unit = (round(seconds / 60), "minute") if seconds >= 1.5 * MINUTE else (round(seconds), "second")
    return f"{number} {unit}{'' if number == 1 else 's'}"
