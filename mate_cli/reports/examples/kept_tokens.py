"""The tokens of one example in the terminal: which a network keeps, coloured by how it scores them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from rich.style import Style
from rich.table import Table
from rich.text import Text

from mate_cli.reports.format import plural
from mate_cli.terminal.console import Console

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ROWS = 40
"""So many rows of a table are shown, beside those that hold an answer."""
PALE, STRONG = (255, 246, 229), (244, 140, 36)
"""Behind tokens with the lowest and the highest score, in red, green and blue; the letters are black."""
LEFT_OUT = "dim strike"
IN_ANSWER = "bold underline"
SWATCHES = 5
BETWEEN = " │ "


@dataclass(frozen=True)
class KeptTokens:
    """The tokens of one example, those that a network keeps, and their scores.

    Args:
        kinds: of each, "question", "header", "body" or "counts".
        rows: of each, [T]; 1 is the first of the body.
        cells: the number of the cell that each is in, in their order, [T].
        kept: which of them it answers from, Bool [T].
        scores: the logarithm of the probability that each matters [T]; None where none are scored.
        in_table: which are scored, Bool [T]; those of the question always stay.
        in_answer: which are of the answer, Bool [T].
    """

    kinds: Sequence[str]
    rows: np.ndarray
    cells: np.ndarray
    kept: np.ndarray
    scores: np.ndarray | None
    in_table: np.ndarray
    in_answer: np.ndarray

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest score in the table; None without any."""
        if self.scores is None or not self.in_table.any():
            return None
        known = self.scores[self.in_table]
        return float(known.min()), float(known.max())

    def style(self, token: int) -> Style:
        """Return how a token looks: the stronger the colour behind it, the higher its score."""
        style = Style.parse(IN_ANSWER) if self.in_answer[token] else Style()
        if not self.kept[token]:
            return style + Style.parse(LEFT_OUT)
        if self.bounds is None or self.scores is None or not self.in_table[token]:
            return style
        low, high = self.bounds
        return style + shade((float(self.scores[token]) - low) / ((high - low) or 1.0))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what is said above them, with what each line is called."""
        text = f"{self.kept.sum():,} of {plural(len(self.kept), 'token')}"
        if self.in_answer.any():
            text += f"; of the answer {(self.kept & self.in_answer).sum():,} of {self.in_answer.sum():,}"
        yield "kept", text
        if self.bounds is None or self.scores is None:
            return
        left, gone = self.in_table & self.kept, self.in_table & ~self.kept
        text = "log P in the table {:.2f} to {:.2f}".format(*self.bounds)
        if left.any() and gone.any():
            text += f"; mean of kept tokens {self.scores[left].mean():.2f}, of the rest {self.scores[gone].mean():.2f}"
        yield "scores", text


def shade(share: float) -> Style:
    """Return the colour of a score: 0 the lowest of an example, 1 the highest."""
    red, green, blue = (round(pale + share * (full - pale)) for pale, full in zip(PALE, STRONG, strict=True))
    return Style(color="#000000", bgcolor=f"#{red:02x}{green:02x}{blue:02x}")


def print_kept(tokens: KeptTokens, pieces: Sequence[str], console: Console) -> None:
    """Print the input as it is read, row by row; what is left out is struck out, without a terminal in [-brackets-].

    Args:
        tokens: what the network makes of them.
        pieces: the text of each.
        console: where to print.
    """
    for name, text in tokens.facts():
        console.print(Text.assemble((f"{name:<10}", "bold"), text), soft_wrap=True)
    console.print()
    view, hidden = Table.grid(padding=(0, 2)), 0
    for name, row, places in _lines(tokens):
        if row > MAX_ROWS and not tokens.in_answer[places].any():
            hidden += 1
            continue
        view.add_row(Text(name, style="dim"), _line(tokens, pieces, places, plain=not console.is_terminal))
    console.print(view)
    if hidden:
        console.print(Text(f"{plural(hidden, 'more row')}", style="dim"))
    if console.is_terminal:
        console.print("", _legend(tokens.bounds), sep="\n")
    console.print()


def _lines(tokens: KeptTokens) -> Iterator[tuple[str, int, list[int]]]:
    """Yield the lines of an input in its order: their names, rows, and the places of their tokens."""
    for (kind, row), places in groupby(range(len(tokens.kept)), lambda at: (tokens.kinds[at], int(tokens.rows[at]))):
        yield (f"row {row}" if kind == "body" else kind), (row if kind == "body" else 0), list(places)


def _line(tokens: KeptTokens, pieces: Sequence[str], places: Sequence[int], *, plain: bool) -> Text:
    """Return the tokens of a line, a bar between its cells."""
    line, cells, is_kept = Text(), tokens.cells, tokens.kept
    for place in places:
        follows = place > places[0]
        begins_cell = follows and cells[place] != cells[place - 1]
        if plain and follows and not is_kept[place - 1] and (is_kept[place] or begins_cell):
            line.append("-]")
        if follows and not pieces[place].startswith("##"):
            line.append(BETWEEN if begins_cell else " ", style="dim" if begins_cell else "")
        if plain and not is_kept[place] and (not follows or is_kept[place - 1] or begins_cell):
            line.append("[-")
        line.append(pieces[place].removeprefix("##"), style=tokens.style(place))
    return line.append("-]") if plain and not is_kept[places[-1]] else line


def _legend(bounds: tuple[float, float] | None) -> Text:
    parts = [Text("left out", LEFT_OUT), Text("of the answer", IN_ANSWER)]
    if bounds is not None:
        low, high = bounds
        steps = [place / (SWATCHES - 1) for place in range(SWATCHES)]
        parts.insert(0, Text.assemble(*((f" {low + step * (high - low):.2f} ", shade(step)) for step in steps)))
    return Text("  ").join(parts)
