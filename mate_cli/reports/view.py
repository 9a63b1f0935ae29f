"""Content of report sections, independent of the renderer.

The renderers (terminal, HTML page, LaTeX, Markdown and W&B) only determine the appearance.
"""

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
    """A column of a report table: its headings and sort order.

    Args:
        title: full title.
        groups: headings shared with neighboring columns, the widest group first.
        short: heading below the groups, "" for the title.
        stacked: complete two-line heading for narrow tables, "" for groups above `short`.
        is_number: whether the cells are numbers. Otherwise they are text.
        less_is_better: whether the smallest value sorts first.
        minor: whether the column is omitted if the table is too wide.
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
        """Last heading line of the column, directly above the table cells."""
        return self.short or self.title


@dataclass(frozen=True)
class ViewCell:
    """A cell of a report table: its text and, for numbers, its value, spread and emphasis.

    Args:
        text: displayed text.
        value: displayed number, in the displayed unit. None for text cells.
        spread: text after ±, "" for none.
        spread_value: number of `spread`, in the displayed unit.
        mark: emphasis: best of a column, close to the best, or significantly better or worse.
        detail: additional text, shown if there is enough space.
        hover: text shown on hover.
        ends: ends of an interval around the value.
        dots: numbers of single runs, in the unit of the value.
        states: texts that replace `text`, as `3 finished`, `1 failed`.
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
        """Build a table cell from a number and its formatted text, or an empty cell for None.

        Args:
            value: number to show.
            write: function that formats the unscaled number.
            scale: factor from the number to the displayed unit, such as 100 for percent.
        """
        return cls() if value is None else cls(write(value), scale * value)

    @property
    def has_minus(self) -> bool:
        """True if a hyphen in the text of the table cell is a minus sign."""
        return self.ends is not None or (self.value is not None and self.value < 0)


@dataclass(frozen=True)
class Row:
    """A row of a report table: its label and cells.

    Args:
        label: display name.
        cells: one cell per column.
        kind: type of a row that is not a configuration, such as "published". "" for a configuration.
        place: index of the configuration among all configurations, which determines its color.
    """

    label: str
    cells: tuple[ViewCell, ...]
    kind: Kind = ""
    place: int = 0

    @property
    def style(self) -> str:
        """CSS class that styles the table row on an HTML page."""
        if self.kind == "bound":
            return "nothing"
        return "significant" if any(cell.mark in ("better", "worse") for cell in self.cells) else self.kind


@dataclass(frozen=True)
class View:
    """Renderer-independent table of a report, possibly with figures below the table.

    Args:
        title: title above the table.
        columns: all columns except the first, which contains row labels.
        rows: rows in display order.
        head: heading of the first column.
        unit: unit of the numbers, if the title does not contain it.
        notes: sentences below the table.
        figures: function that draws the figures below the table on a page.
        bars: whether to draw a bar below each number, if the renderer can.
        is_repeated: whether other tables contain the same numbers, so that renderers without bars omit it.
        detail: text after the title that describes the numbers.
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
        """Title of the table, with the description `detail` if there is one."""
        return " · ".join(filter(None, (self.title, self.detail)))

    @property
    def marks(self) -> frozenset[Mark]:
        """Types of emphasis in the table's cells, such as "best", to explain them in a legend."""
        return frozenset(cell.mark for row in self.rows for cell in row.cells)

    def only(self, places: Sequence[int]) -> View:
        """Return a copy of the table with only the columns at the given indices.

        Args:
            places: indices of the columns to keep, in order.
        """
        rows = (replace(row, cells=tuple(row.cells[position] for position in places)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[position] for position in places), rows=tuple(rows))

    def spans(self, level: int) -> list[tuple[str, int]]:
        """Return (title, number of columns) of the column groups in one line of headings.

        Args:
            level: index of the heading line, 0 for the widest groups.
        """
        keys = (column.groups[: level + 1] for column in self.columns)
        return [(key[level] if len(key) > level else "", len(list(columns))) for key, columns in groupby(keys)]

    @property
    def levels(self) -> int:
        """Number of heading lines with titles of column groups, above the column titles."""
        return max((len(column.groups) for column in self.columns), default=0)

    @cached_property
    def widest_ends(self) -> list[float]:
        """Largest absolute end of the intervals in each column, to scale their drawing.

        It is 0 for columns without intervals.
        """
        columns = zip(*(row.cells for row in self.rows), strict=True)
        reach = [[abs(end) for cell in cells for end in cell.ends or ()] for cells in columns]
        return [(max(limits) or 1.0) if limits else 0.0 for limits in reach]

    @cached_property
    def reach(self) -> float:
        """Largest value that the bars, error bars and dots of the table reach, to scale the axis.

        The value is 1 without any.
        """
        cells = [cell for row in self.rows for cell in row.cells if cell.value is not None]
        limits = [(cell.value or 0.0) + (cell.spread_value or 0.0) for cell in cells]
        return max([*limits, *(dot for cell in cells for dot in cell.dots), 0.0]) or 1.0

    @cached_property
    def highest(self) -> float:
        """Upper end of the axis on which the table's bars are drawn.

        A value above ten is rounded up to a multiple of ten.
        """
        return 10 * ceil(self.reach / 10) if self.reach > 10 else self.reach

    @property
    def is_short(self) -> bool:
        """True if the table has one row of at most four cells, so that two fit side by side."""
        return len(self.rows) == 1 and len(self.columns) <= 4


@dataclass(frozen=True)
class ReportSection:
    """A titled section of a comparison report, such as "Results" or "Learning curves".

    Args:
        name: unique name, used in URLs.
        title: heading.
        link: text of the link at the top of the page.
        views: tables and figures.
        notes: sentences that a reader needs to understand the tables.
        hint: short explanation next to the heading.
        template: template that renders the section on a page.
        content: function that returns further values for the template, for pages only. The section is omitted from the
            page if it returns None.
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
        """Tables of the section for renderers without bars and figures.

        Tables whose numbers other tables repeat are omitted.

        Renderers that draw no bars and figures show these views.
        """
        return tuple(view for view in self.views if view.rows and not view.is_repeated)

    @property
    def visible_notes(self) -> tuple[str, ...]:
        """Notes of the section. Empty if the section has tables, but none of them is shown."""
        return self.notes if self.tables or not self.views else ()

    @property
    def note(self) -> str:
        """All visible notes of the section as one paragraph."""
        return sentences(self.notes)


def sentences(notes: Sequence[str]) -> str:
    """Join notes to one paragraph, in which each note is a capitalized sentence.

    A note that begins with `p` for a probability is not capitalized.
    """
    return " ".join(f"{note if note.startswith('p ') else note[0].upper() + note[1:]}." for note in notes)
