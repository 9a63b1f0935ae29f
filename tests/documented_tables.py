"""Tables of the documents that hold measured figures, and what is said of where these come from."""

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
"""Decimal numbers in a table that holds figures."""


@dataclass(frozen=True)
class DocumentedTable:
    """A table.

    Args:
        document: the path of the file, below `docs/` where it is there.
        header: its cells.
        rows: their cells.
        below: the first paragraph below it.
        commands: lines of code in its section, the part of the document below the same heading of level two.
    """

    document: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    below: str
    commands: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.document}: {' | '.join(self.header)[:60]}"

    @property
    def has_figures(self) -> bool:
        return len(_DECIMAL.findall(_CODE.sub("", " ".join(" ".join(row) for row in self.rows)))) >= MANY

    @property
    def folders(self) -> list[Path]:
        """Folders of the records that are named below it."""
        found = RECORDED.match(self.below)
        return [ROOT / "docs" / path for path in re.findall(r"\]\((?:\.\./)*(runs/[^)]+)\)", found[1])] if found else []

    def cells(self) -> Iterator[tuple[str, str, str]]:
        """Yield the heads of each cell's row and column, and what it says."""
        for first, *others in self.rows:
            for head, cell in zip(self.header[1:], others, strict=True):
                if cell:
                    yield first, head, cell


def documented_tables() -> list[DocumentedTable]:
    """Find all tables of all documents."""
    return [table for document in DOCUMENTS for table in _tables_of(document)]


def _tables_of(document: Path) -> Iterator[DocumentedTable]:
    text = document.read_text(encoding="utf-8")
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        blocks = re.findall(r"```(?:bash|shell)\n(.*?)```", section, re.DOTALL)
        commands = tuple(line for block in blocks for line in block.replace("\\\n", " ").splitlines())
        prose = re.sub(r"```.*?```", "", section, flags=re.DOTALL)
        for table, below in re.findall(r"((?:^\|.*\n)+)\n*((?:.+\n)*)", prose, re.MULTILINE):
            header, rule, *rows = table.splitlines() + [""] * 2
            if _RULE.match(rule):
                yield DocumentedTable(
                    document.relative_to(ROOT).as_posix().removeprefix("docs/"),
                    _cells(header),
                    tuple(_cells(row) for row in rows if row),
                    below.replace("\n", " "),
                    commands,
                )


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
