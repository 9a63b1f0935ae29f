"""Labelled questions as people write them down: a question, a table, and what is known of the answer, row by row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mate_cli.data.archive import read_file
from mate_cli.data.check import Problem
from mate_cli.data.datasets.file_formats import decode
from mate_cli.errors import DataError, MateError
from mate_cli.quoting import format_setting
from mate_cli.tables.example import AGGREGATIONS, LABELS, USER_SUBSET, VERDICTS, Answer, Coordinates, TableExample
from mate_cli.tables.formats.cell_text import NumberText, spreadsheet_number, spreadsheet_text
from mate_cli.tables.formats.records import find_table
from mate_cli.tables.read import SUFFIXES, open_table, read_table
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table import Cell, Table, find_table_formats
from mate_cli.tables.values.column_format import ColumnFormat, format_of

NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "question_id"),
    "question": ("question", "statement"),
    "table": ("table",),
    "sheet": ("sheet",),
    "title": ("title",),
    "passages": ("passages",),
    "answer": ("answer", "answers"),
    "coordinates": ("coordinates", "cells"),
    "aggregation": ("aggregation",),
    "number": ("number",),
    "label": ("label",),
    "conversation": ("conversation",),
    "subsets": ("subsets", "subset"),
    "sql": ("sql",),
    "database": ("database",),
}
"""What a row may have, and what each may be called."""
PARTED = "|"
"""Between the texts of one cell of a spreadsheet."""


class RowError(ValueError):
    """A row cannot be used; the message says why."""


class RowTableError(RowError):
    """The table file of a row cannot be used, which is reported once for all of its rows."""


@dataclass(frozen=True)
class LabelledRow:
    """A row with its values by our names; what is empty is left out.

    A row of a spreadsheet is plain: all values are texts. Tables that it names may lie in its folder.
    `is_unanswerable` says that its answer is null or an empty list of JSON.
    """

    values: Mapping[str, Any]
    plain: bool
    folder: Path
    is_unanswerable: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any], columns: Mapping[str, str], folder: Path, *, plain: bool) -> LabelledRow:
        """Find what is known by the names that values may have.

        `columns` has the names that some have there, by ours.
        """
        there = {str(name).strip().lower(): value for name, value in values.items()}
        names = {ours: (columns[ours].lower(),) if ours in columns else also for ours, also in NAMES.items()}
        fields = {ours: next((there[name] for name in also if name in there), None) for ours, also in names.items()}
        known = {name: value for name, value in fields.items() if value not in (None, "", [])}
        is_stated = any(name in there for name in names["answer"]) and fields["answer"] in (None, [])
        is_null = is_stated and not plain and known.keys().isdisjoint(("coordinates", "number", "label", "sql"))
        return cls(known, plain, folder, is_null)

    def text(self, name: str) -> str:
        """Return a value as text; "" without it."""
        return spreadsheet_text(self.values[name]).strip() if name in self.values else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a value as texts: the entries of a list, or what bars part in a cell of a spreadsheet."""
        value = self.values.get(name)
        if value is None:
            return ()
        if self.plain and isinstance(value, str):
            value = value.split(PARTED)
        entries = value if isinstance(value, (list, tuple)) else [value]
        return tuple(text for entry in entries if (text := spreadsheet_text(entry).strip()))

    def parse(self, name: str) -> Any:  # noqa: ANN401 - what JSON holds
        """Return a value that may be JSON in a text.

        Raises:
            RowError: it is not.
        """
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            raise RowError(f"{name} is not JSON") from error


class RowTables:
    """The tables of rows, each read once, whether it is named or stands in the row."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Table] = {}

    def get(self, row: LabelledRow) -> Table:
        """Return the table of a row, with its passages.

        Raises:
            RowError: it is missing, damaged, or has no such cell as a passage names.
        """
        if "table" not in row.values:
            raise RowError("has neither a table nor a database")
        value = row.values["table"]
        if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
            value = row.parse("table")
        parts = [value, row.text("sheet"), row.text("title"), row.values.get("passages"), str(row.folder)]
        key = json.dumps(parts, default=str, sort_keys=True)
        if key not in self._known:
            table = self._read(value, row) if isinstance(value, str) else inline_table(value)
            table = replace(table, title=row.text("title") or table.title)
            if passages := self._passages(row):
                table = with_passages(table, passages)
            if not isinstance(value, str):
                table = replace(table, table_id=table.table_id or f"table {len(self._known)}")
            self._known[key] = table
        return self._known[key]

    def _read(self, name: str, row: LabelledRow) -> Table:
        path = self.find(name, row.folder)
        try:
            return replace(read_table(path, ReadOptions(sheet=row.text("sheet") or None))[0], table_id=name)
        except MateError as error:
            raise RowTableError(f"its table cannot be used: {error}") from error

    def find(self, name: str, folder: Path, kind: str = "table") -> Path:
        """Find a file that a row names, beside its own file or below the root.

        Raises:
            RowError: it is not there.
        """
        places = (folder / name, self._root / name)
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise RowError(f"its {kind} {name} was not found")
        return path

    def _passages(self, row: LabelledRow) -> list[Mapping[str, Any]]:
        value = row.values.get("passages")
        if isinstance(value, str) and not value.lstrip().startswith("["):
            try:
                value = json.loads(read_file(self.find(value, row.folder)))
            except (ValueError, RecursionError) as error:
                raise RowError(f"its passages {value} are not JSON") from error
        elif isinstance(value, str):
            value = row.parse("passages")
        if value is not None and not (isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value)):
            raise RowError("passages should be a list of {row, column, text}")
        return value or []


def inline_table(value: object) -> Table:
    """Return a table that stands in a row: lists, of which the first is the header, objects, or an object of a shape.

    The shapes are those of JSON files, such as `{header, rows}` and `{columns, data}` of pandas.

    Raises:
        RowError: it is none of these.
    """
    name = spreadsheet_text(value.get("id") or value.get("name")) if isinstance(value, Mapping) else ""
    parts = _split_header(value)
    if parts is None:
        raise RowError('the table should be a list of rows, of objects, or {"header": [...], "rows": [[...], ...]}')
    header, rows = parts
    lines = [header, *rows]
    if not all(isinstance(line, (list, tuple)) for line in lines):
        raise RowError("a row of the table is not a list")
    long = next((place for place, row in enumerate(rows) if len(row) > len(header)), None)
    if long is not None:
        raise RowError(f"row {long} of the table has {len(rows[long])} cells under {len(header)} headers")
    texts = [
        [cell.strip() if isinstance(cell, str) else spreadsheet_text(cell) for cell in line]
        + [""] * (len(header) - len(line))
        for line in lines
    ]
    top, *body = (tuple(map(Cell, line)) for line in texts)
    table = Table(name, top, tuple(body))
    return replace(table, formats=find_table_formats(table))


def _split_header(value: Any) -> tuple[Any, list[Any]] | None:  # noqa: ANN401 - what JSON holds
    if isinstance(value, Mapping):
        with suppress(DataError):
            header, value = find_table(dict(value), Path("table"), [])
            if header:
                return header, value
    if not isinstance(value, (list, tuple)) or not value:
        return None
    if all(isinstance(row, Mapping) for row in value):
        names = list(dict.fromkeys(name for row in value for name in row))
        return names, [[row.get(name) for name in names] for row in value]
    return value[0], list(value[1:])


def with_passages(table: Table, passages: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table with passages linked to cells.

    Each has `row`, `column` (a number from 0, or a name) and `text`, perhaps a `title`.

    Raises:
        RowError: the table has no such cell, or a passage no text.
    """
    links: dict[tuple[int, int], list[str]] = {}
    texts = dict(table.passages)
    for place, passage in enumerate(passages):
        text = spreadsheet_text(passage.get("text")).strip()
        if not text:
            raise RowError(f"passage {place} has no text")
        link = spreadsheet_text(passage.get("title")).strip() or f"passage {place}"
        texts[link] = text
        links.setdefault(find_cell(table, [passage.get("row"), passage.get("column")]), []).append(link)
    rows = tuple(
        tuple(replace(cell, links=(*cell.links, *links.get((row, column), ()))) for column, cell in enumerate(cells))
        for row, cells in enumerate(table.rows)
    )
    return replace(table, rows=rows, passages=texts)


def find_cell(table: Table, pair: object) -> tuple[int, int]:
    """Return (row, column) of a body cell, from a number of the row and a number or name of the column.

    Raises:
        RowError: it is no pair, or outside the table.
    """
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise RowError("coordinates should be a list of [row, column], rows from 0 below the header")
    row, column = pair
    names = [cell.text for cell in table.header]
    if isinstance(column, str) and column in names:
        column = names.index(column)
    if not all(type(number) is int for number in (row, column)):
        raise RowError(f"[{row}, {column}] is not a row and column; columns here: {', '.join(names)}")
    if not table.has_cell(row, column):
        raise RowError(f"the table has no cell [{row}, {column}], but {len(table.rows)} rows, {len(names)} columns")
    return row, column


def build_example(row: LabelledRow, name: str, tables: RowTables) -> TableExample:
    """Return the question of a row with what it states of its answer; nothing is derived yet.

    `name` is for a question that has none.

    Raises:
        RowError: saying what is wrong with it.
    """
    question = row.text("question")
    if not question:
        raise RowError("has no question")
    table = tables.get(row)
    return TableExample(
        row.text("id") or name,
        question,
        table,
        _answer(row, table),
        conversation=row.text("conversation"),
        subsets=tuple(f"{USER_SUBSET}{name}" for name in row.texts("subsets")),
    )


def _answer(row: LabelledRow, table: Table) -> Answer | None:
    texts, cells = row.texts("answer"), _coordinates(row, table)
    label, number = _label(row), _number(row, table)
    aggregation = row.text("aggregation").lower() or None
    if aggregation is not None and aggregation not in AGGREGATIONS:
        raise RowError(f"aggregation is {aggregation}, not one of {', '.join(AGGREGATIONS)}")
    if label is not None:
        return Answer((VERDICTS[label],), label=label)
    if not texts and number is not None:
        texts = (spreadsheet_number(number),)
    if not texts and cells:
        texts = tuple(table.rows[r][c].text for r, c in cells)
    if not texts:
        return Answer((), aggregation="none") if row.is_unanswerable else None
    return Answer(texts, cells, aggregation=aggregation, number=number)


def _coordinates(row: LabelledRow, table: Table) -> Coordinates:
    value = row.parse("coordinates")
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise RowError("coordinates should be a list of [row, column], rows from 0 below the header")
    return tuple(find_cell(table, pair) for pair in value)


def _label(row: LabelledRow) -> int | None:
    text = row.text("label").lower()
    if not text:
        return None
    if text not in LABELS:
        raise RowError(f"label is {text}, not 1 or 0, entailed or refuted")
    return LABELS[text]


def _number(row: LabelledRow, table: Table) -> float | None:
    text, value = row.text("number"), row.values.get("number")
    number = value.number if type(value) is NumberText else read_stated_number(text, table) if text else None
    if text and number is None:
        raise RowError(f"{text} is not a number, or is too large")
    return number / 100 if number is not None and "%" in text else number


def read_stated_number(text: str, table: Table) -> float | None:
    """Read the number of an answer: as its table writes numbers, else as the text alone is read; None for no number."""
    marks = {column_format.decimal for column_format in table.formats} - {""}
    as_in_table = ColumnFormat(decimal=marks.pop()).read_number(text) if len(marks) == 1 else None
    return format_of([text]).read_number(text) if as_in_table is None else as_in_table


NEEDED = (("question",), ("table", "database"), ("answer", "coordinates", "number", "label", "sql"))
"""What rows have: of each, one."""
ALIKE = 0.75
"""How much of two names must be equal, from 0 to 1."""
JSON_LINES, JSON = (".jsonl", ".ndjson"), (".json",)


def check_columns(names: Iterable[str], columns: Mapping[str, str], place: str) -> None:
    """Refuse rows that lack a column which they need where another one is spelled nearly so.

    Args:
        names: those that rows have.
        columns: what some are called there, by our names.
        place: the file, to name it.

    Raises:
        DataError: with both names.
    """
    there = [name.strip().lower() for name in names]
    for needed in NEEDED:
        wanted = [name for ours in needed for name in ([columns[ours].lower()] if ours in columns else NAMES[ours])]
        if any(name in there for name in wanted):
            continue
        unknown = unknown_columns(there, columns)
        for name in wanted:
            for near in get_close_matches(name, unknown, n=1, cutoff=ALIKE):
                ours = next(key for key in needed if name in (*NAMES[key], columns.get(key, "").lower()))
                typed = format_setting("data.columns", {**columns, ours: near})
                remedy = f"Did you mean {near}? Rename it, or type {typed}"
                raise DataError(f"no column `{name}`", where=place, remedy=remedy)


def unknown_columns(names: Iterable[str], columns: Mapping[str, str]) -> list[str]:
    """Return the columns that nobody reads."""
    known = {*(name for also in NAMES.values() for name in also), *map(str.lower, columns.values())}
    return [name for name in names if name.strip().lower() not in known]


def read_rows(path: Path, place: str, problems: list[Problem]) -> tuple[bool, Iterator[Mapping[str, Any]]]:
    """Read the rows of a file; say whether their values are texts alone, as those of a table are.

    Raises:
        DataError: it is of no type that is read, or damaged.
    """
    suffix = Path(place.removesuffix(".gz")).suffix.lower()
    if suffix in (*JSON_LINES, *JSON):
        return False, _read_json(path, place, suffix in JSON_LINES, problems)
    if path.suffix.lower() not in SUFFIXES:
        raise DataError("unknown type of question file", where=str(path), remedy="Use .jsonl, .json, .csv or .xlsx")
    table = open_table(path)
    return True, (dict(zip(table.header, row, strict=True)) for row in table)


def _read_json(path: Path, place: str, lines: bool, problems: list[Problem]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file of JSON, or of its lines; what is none is noted."""
    text = decode(place, read_file(path), problems) or ""
    texts = enumerate(text.split("\n"), 1) if lines else [(1, text)]
    for number, part in texts:
        if not part.strip():
            continue
        try:
            value = json.loads(part)
        except (ValueError, RecursionError) as error:
            problems.append(Problem(place, f"line {number}", f"is not readable JSON ({error})"))
            continue
        if isinstance(value, dict) and not lines:
            value = value.get("data", [value])
        for entry in value if isinstance(value, list) and not lines else [value]:
            if isinstance(entry, dict):
                yield entry
            else:
                problems.append(Problem(place, f"line {number}", "is not an object with a question"))
