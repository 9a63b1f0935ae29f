"""The content of a part of a report, made once: terminal, page, LaTeX, Markdown and W&B only decide how it looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

from mate_cli.reports.format import NOTHING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Mark = Literal["best", "close", "better", "worse", ""]
Kind = Literal["", "baseline", "published", "bound"]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        title: in full.
        groups: what it shares with its neighbours, the widest group first.
        short: what is left to say below these; "" for the title.
        stacked: the whole in two lines, where there is little room; "" for groups above `short`.
        is_number: of numbers; else of words.
        less_is_better: sorts the least first.
        minor: left out where there is little room.
    """

    title: str
    groups: tuple[str, ...] = ()
    short: str = ""
    stacked: str = ""
    is_number: bool = True
    less_is_better: bool = False
    minor: bool = False

    @property
    def heading(self) -> str:
        """The text right above the cells."""
        return self.short or self.title


@dataclass(frozen=True)
class ViewCell:
    """A cell of a table.

    Args:
        text: what is written.
        value: the number behind it, in the unit that is written; None for words.
        spread: what is written behind ±, "" for nothing.
        spread_value: the number behind that.
        mark: what stands out: the best of a column, what is within its error, what is better or worse beyond chance.
        detail: words beside it, where there is room.
        hover: more, where there is a pointer.
        ends: of an interval around the value.
        dots: the numbers of single runs, in the unit of the value.
        states: instead of a text, `3 finished`, `1 failed`.
    """

    text: str = NOTHING
    value: float | None = None
    spread: str = ""
    spread_value: float | None = None
    mark: Mark = ""
    detail: str = ""
    hover: str = ""
    ends: tuple[float, float] | None = None
    dots: tuple[float, ...] = ()
    states: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: float | None, write: Callable[[float], str], scale: float = 1.0) -> ViewCell:
        """Return a number times `scale` with its text; an empty cell for None."""
        return cls() if value is None else cls(write(value), scale * value)

    @property
    def has_minus(self) -> bool:
        """True if a hyphen in the text is a minus."""
        return self.ends is not None or (self.value is not None and self.value < 0)


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args:
        label: its name.
        cells: one per column.
        kind: what it is if no configuration.
        place: of the configuration among all, which is that of its colour.
    """

    label: str
    cells: tuple[ViewCell, ...]
    kind: Kind = ""
    place: int = 0

    @property
    def style(self) -> str:
        """The class of its line on a page."""
        if self.kind == "bound":
            return "nothing"
        return "significant" if any(cell.mark in ("better", "worse") for cell in self.cells) else self.kind


@dataclass(frozen=True)
class View:
    """A table, or figures, or both.

    Args:
        title: above it.
        detail: behind the title: of what its numbers are.
        columns: all but the first, which names the rows.
        rows: in the order shown.
        head: of the first column.
        unit: what its numbers are in, where the title does not say it.
        notes: sentences below it.
        figures: draws what the page shows below the table.
        bars: below each number, where they can be drawn.
        is_repeated: its numbers stand in other tables, so that nobody needs it where no bars are drawn.
    """

    title: str
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    head: str = "Configuration"
    unit: str = ""
    notes: tuple[str, ...] = ()
    figures: Callable[[], Sequence[Figure]] = tuple
    bars: bool = False
    is_repeated: bool = False
    detail: str = ""

    @property
    def heading(self) -> str:
        """The title, and of what its numbers are."""
        return " · ".join(filter(None, (self.title, self.detail)))

    @property
    def marks(self) -> frozenset[Mark]:
        """The marks that occur."""
        return frozenset(cell.mark for row in self.rows for cell in row.cells)

    def only(self, places: Sequence[int]) -> View:
        """Return the table with these of its columns."""
        rows = (replace(row, cells=tuple(row.cells[place] for place in places)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in places), rows=tuple(rows))

    def spans(self, level: int) -> list[tuple[str, int]]:
        """Join neighbouring columns that share a group: its name, and how many they are."""
        keys = (column.groups[: level + 1] for column in self.columns)
        return [(key[level] if len(key) > level else "", len(list(same))) for key, same in groupby(keys)]

    @property
    def levels(self) -> int:
        """The number of lines of groups above the headings."""
        return max((len(column.groups) for column in self.columns), default=0)

    @cached_property
    def widest_ends(self) -> list[float]:
        """The largest distance from zero that an interval of each column reaches, 0 where it has none."""
        columns = zip(*(row.cells for row in self.rows), strict=True)
        reach = [[abs(end) for cell in cells for end in cell.ends or ()] for cells in columns]
        return [(max(ends) or 1.0) if ends else 0.0 for ends in reach]

    @cached_property
    def reach(self) -> float:
        """The largest value that its bars, whiskers or dots reach, 1 without any."""
        cells = [cell for row in self.rows for cell in row.cells if cell.value is not None]
        ends = [(cell.value or 0.0) + (cell.spread_value or 0.0) for cell in cells]
        return max([*ends, *(dot for cell in cells for dot in cell.dots), 0.0]) or 1.0

    @cached_property
    def highest(self) -> float:
        """The value at the right end of its bars: a whole ten where they reach that far."""
        return 10 * ceil(self.reach / 10) if self.reach > 10 else self.reach

    @property
    def is_short(self) -> bool:
        """True if it is a single line of few cells, so that another table has room beside it."""
        return len(self.rows) == 1 and len(self.columns) <= 4


@dataclass(frozen=True)
class ReportSection:
    """A part of a comparison.

    Args:
        name: unlike any other's; its place in addresses.
        title: its heading.
        link: what leads to it at the top of the page.
        views: what it shows.
        notes: sentences that a reader must know.
        hint: what it is about, in small.
        template: what draws it on a page.
        content: what that template draws beside the views, made for a page alone; None leaves the section out there.
    """

    name: str
    title: str
    link: str
    views: tuple[View, ...] = ()
    notes: tuple[str, ...] = ()
    hint: str = ""
    template: str = "section"
    content: Callable[[], Mapping[str, Any] | None] = dict

    @property
    def tables(self) -> tuple[View, ...]:
        """The tables, where nothing can be drawn."""
        return tuple(view for view in self.views if view.rows and not view.is_repeated)

    @property
    def visible_notes(self) -> tuple[str, ...]:
        """Notes on these tables, or why there are none."""
        return self.notes if self.tables or not self.views else ()

    @property
    def note(self) -> str:
        """The notes as a paragraph."""
        return sentences(self.notes)


def sentences(notes: Sequence[str]) -> str:
    """Write notes as sentences; the p of a probability stays small."""
    return " ".join(f"{note if note.startswith('p ') else note[0].upper() + note[1:]}." for note in notes)
