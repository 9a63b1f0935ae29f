"""Tables of measurements in the documentation, and the statements of their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECORDED = re.compile(r"Recorded: (.+)")
NOT_RECORDED = re.compile(r"[Nn]ot recorded, measured on (\d{4}-\d\d-\d\d)")
_RULE = re.compile(r"^\|[\s:|-]+\|$")
_DECIMAL = re.compile(r"\d\.\d")
_CODE = re.compile(r"`[^`]*`")
MANY = 3
"""Minimum number of decimal numbers in a table of measurements."""


@dataclass(frozen=True)
class DocumentedTable:
    """A table of the documentation.

    Args:
        document: path of the file, relative to `docs/` if the file is in `docs/`.
        header: cells of the header.
        rows: cells of the rows.
        below: first paragraph below the table.
    """

    document: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    below: str

    @property
    def name(self) -> str:
        return f"{self.document}: {' | '.join(self.header)[:60]}"

    @property
    def has_figures(self) -> bool:
        return len(_DECIMAL.findall(_CODE.sub("", " ".join(" ".join(row) for row in self.rows)))) >= MANY

    @property
    def folders(self) -> list[Path]:
        """Folders of the run records that the paragraph below the table names."""
        found = RECORDED.match(self.below)
        return [ROOT / "docs" / path for path in re.findall(r"\]\((?:\.\./)*(runs/[^)]+)\)", found[1])] if found else []

    def cells(self) -> Iterator[tuple[str, str, str]]:
        """Yield the row heading, column heading and text of each nonempty cell."""
        for first, *others in self.rows:
            for head, cell in zip(self.header[1:], others, strict=True):
                if cell:
                    yield first, head, cell


def documented_tables() -> list[DocumentedTable]:
    """Return all tables of README.md and of docs/."""
    return [table for document in DOCUMENTS for table in _tables_of(document)]


def _tables_of(document: Path) -> Iterator[DocumentedTable]:
    text = document.read_text(encoding="utf-8")
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        prose = re.sub(r"```.*?```", "", section, flags=re.DOTALL)
        for table, below in re.findall(r"((?:^\|.*\n)+)\n*((?:.+\n)*)", prose, re.MULTILINE):
            header, rule, *rows = table.splitlines() + [""] * 2
            if _RULE.match(rule):
                yield DocumentedTable(
                    document.relative_to(ROOT).as_posix().removeprefix("docs/"),
                    _cells(header),
                    tuple(_cells(row) for row in rows if row),
                    below.replace("\n", " "),
                )


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
