"""Rows of user data (lines of a file or records of a dataset): each row has a question, a table and an answer."""

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
from mate_cli.tables.example import AGGREGATIONS, LABELS, USER_SUBSET, VERDICTS, Answer, TableExample
from mate_cli.tables.formats.cell_text import NumberText, spreadsheet_number, spreadsheet_text
from mate_cli.tables.formats.records import find_table
from mate_cli.tables.read import SUFFIXES, open_table, read_table
from mate_cli.tables.read_options import ReadOptions
from mate_cli.tables.table import Cell, Table, find_table_formats
from mate_cli.tables.values.column_format import ColumnFormat, format_of

FIELD_ALIASES: Mapping[str, tuple[str, ...]] = {
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
"""Fields of a row, each with its accepted column names."""
LIST_SEPARATOR = "|"
"""Separator of several texts in one cell of a spreadsheet."""


def _find_names(field: str, columns: Mapping[str, str]) -> tuple[str, ...]:
    return (columns[field].lower(),) if field in columns else FIELD_ALIASES[field]


class RowError(ValueError):
    """Error for a row of user data that cannot be read. Its message states the reason."""


class RowTableError(RowError):
    """Error of a question whose table file cannot be used.

    The error is reported once for all rows of the table.
    """


@dataclass(frozen=True)
class LabelledRow:
    """One labelled question of user data: its values by field name, such as "question".

    Args:
        values: values by field name, see `FIELD_ALIASES`, without empty values.
        flat: whether all values are texts, as in a spreadsheet.
        folder: folder of the file, for the relative paths of tables.
        is_unanswerable: whether the answer is null or an empty list in JSON.
    """

    values: Mapping[str, Any]
    flat: bool
    folder: Path
    is_unanswerable: bool = False

    @classmethod
    def build(cls, values: Mapping[str, Any], columns: Mapping[str, str], folder: Path, *, flat: bool) -> LabelledRow:
        """Create a labelled row from a record of a file, by mapping column names to field names.

        Args:
            values: values by column name.
            columns: column names in the file that differ from `FIELD_ALIASES`, by field name.
            folder: folder of the file.
            flat: whether all values are texts.
        """
        by_column = {str(name).strip().lower(): value for name, value in values.items()}
        names = {key: next(filter(by_column.__contains__, _find_names(key, columns)), None) for key in FIELD_ALIASES}
        fields = {key: by_column[name] for key, name in names.items() if name is not None}
        filled = {name: value for name, value in fields.items() if value not in (None, "", [])}
        is_stated = "answer" in fields and fields["answer"] in (None, [])
        is_null = is_stated and not flat and filled.keys().isdisjoint(("coordinates", "number", "label", "sql"))
        return cls(filled, flat, folder, is_null)

    def text(self, name: str) -> str:
        """Return the value of a field as text, or "" if the row has no such field."""
        return spreadsheet_text(self.values[name]).strip() if name in self.values else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a field that has several, such as ("a", "b") for "a | b".

        The texts are separated by "|" in a spreadsheet cell, and form a list in JSON.
        """
        value = self.values.get(name)
        if value is None:
            return ()
        if self.flat and isinstance(value, str):
            value = value.split(LIST_SEPARATOR)
        entries = value if isinstance(value, (list, tuple)) else [value]
        return tuple(text for entry in entries if (text := spreadsheet_text(entry).strip()))

    def parse(self, name: str) -> Any:  # noqa: ANN401 - what JSON holds
        """Return the value of a field. A value that is text is parsed as JSON.

        Raises:
            RowError: the text is not JSON.
        """
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            raise RowError(f"{name} is not JSON") from error


class RowTables:
    """Cache of the tables of user rows, each of which names a table file or contains its table.

    Args:
        root: folder for relative paths that are not found next to the file of the row.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tables: dict[str, Table] = {}

    def get(self, row: LabelledRow) -> Table:
        """Return the table that a row of user data names or contains, with its passages.

        Table files are read once.

        Raises:
            RowError: the table is missing or damaged, or lacks the cell of a passage.
        """
        if "table" not in row.values:
            raise RowError("has neither a table nor a database")
        value = row.values["table"]
        if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
            value = row.parse("table")
        parts = [value, row.text("sheet"), row.text("title"), row.values.get("passages"), str(row.folder)]
        key = json.dumps(parts, default=str, sort_keys=True)
        if key not in self._tables:
            table = self._load(value, row) if isinstance(value, str) else inline_table(value)
            table = replace(table, title=row.text("title") or table.title)
            if passages := self._passages(row):
                table = with_passages(table, passages)
            if not isinstance(value, str):
                table = replace(table, table_id=table.table_id or f"table {len(self._tables)}")
            self._tables[key] = table
        return self._tables[key]

    def _load(self, name: str, row: LabelledRow) -> Table:
        path = self.find(name, row.folder)
        try:
            return replace(read_table(path, ReadOptions(sheet=row.text("sheet") or None))[0], table_id=name)
        except MateError as error:
            raise RowTableError(f"its table cannot be used: {error}") from error

    def find(self, name: str, folder: Path, kind: str = "table") -> Path:
        """Find a file that a row names, relative to the folder of the row's file or to the root.

        Args:
            name: path of the file, relative to one of the folders.
            folder: folder of the row's file.
            kind: type of the file, for the message.

        Raises:
            RowError: the file does not exist.
        """
        paths = (folder / name, self._root / name)
        path = next((candidate for candidate in paths if candidate.is_file()), None)
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
    """Parse a table that user data contains inline, as nested lists or objects.

    The table is a list of lists with the header first, a list of objects, or an object in a format of JSON table
    files, such as `{header, rows}` or `{columns, data}` of pandas.

    Raises:
        RowError: the value has none of these formats.
    """
    name = spreadsheet_text(value.get("id") or value.get("name")) if isinstance(value, Mapping) else ""
    parts = _split_header(value)
    if parts is None:
        raise RowError('the table should be a list of rows, of objects, or {"header": [...], "rows": [[...], ...]}')
    header, rows = parts
    lines = [header, *rows]
    if not all(isinstance(line, (list, tuple)) for line in lines):
        raise RowError("a row of the table is not a list")
    long = next((index for index, row in enumerate(rows) if len(row) > len(header)), None)
    if long is not None:
        raise RowError(f"row {long} of the table has {len(rows[long])} cells under {len(header)} headers")
    texts = [
        [cell.strip() if isinstance(cell, str) else spreadsheet_text(cell) for cell in line]
        + [""] * (len(header) - len(line))
        for line in lines
    ]
    header_cells, *body = (tuple(map(Cell, line)) for line in texts)
    table = Table(name, header_cells, tuple(body))
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
    """Return a copy of a table with additional passages. Each is linked to one cell.

    Args:
        table: table without these passages.
        passages: passages with `row`, `column` (an index from 0, or a name), `text`, and optionally `title`.

    Raises:
        RowError: a cell does not exist, or a passage has no text.
    """
    links: dict[tuple[int, int], list[str]] = {}
    texts = dict(table.passages)
    for index, passage in enumerate(passages):
        text = spreadsheet_text(passage.get("text")).strip()
        if not text:
            raise RowError(f"passage {index} has no text")
        link = spreadsheet_text(passage.get("title")).strip() or f"passage {index}"
        texts[link] = text
        links.setdefault(find_cell(table, [passage.get("row"), passage.get("column")]), []).append(link)
    rows = tuple(
        tuple(replace(cell, links=(*cell.links, *links.get((row, column), ()))) for column, cell in enumerate(cells))
        for row, cells in enumerate(table.rows)
    )
    return replace(table, rows=rows, passages=texts)


def find_cell(table: Table, pair: object) -> tuple[int, int]:
    """Convert a cell position in user data, [0, 1] or [0, "city"], to (row, column).

    Raises:
        RowError: the value is not a pair, or the cell is outside the table.
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
    """Convert a row to an example with the answer that the row states.

    If the row states only answer texts, the cells of the answer are not searched yet.

    Args:
        row: row of user data.
        name: id of the question if the row has none.
        tables: cache of tables.

    Raises:
        RowError: the row is invalid.
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
    pairs = row.parse("coordinates")
    pairs = () if pairs is None else pairs if isinstance(pairs, (list, tuple)) else [pairs]
    cells = tuple(find_cell(table, pair) for pair in pairs)
    texts = row.texts("answer")
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


def _label(row: LabelledRow) -> int | None:
    text = row.text("label").lower()
    if text and text not in LABELS:
        raise RowError(f"label is {text}, not 1 or 0, entailed or refuted")
    return LABELS.get(text)


def _number(row: LabelledRow, table: Table) -> float | None:
    text, value = row.text("number"), row.values.get("number")
    number = value.number if type(value) is NumberText else read_stated_number(text, table) if text else None
    if text and number is None:
        raise RowError(f"{text} is not a number, or is too large")
    return number / 100 if number is not None and "%" in text else number


def read_stated_number(text: str, table: Table) -> float | None:
    """Parse an answer text as a number. Return None if the text is not a number.

    The decimal mark is that of the table, if the table has number formats.
    """
    decimal_separators = {column_format.decimal for column_format in table.formats} - {""}
    if len(decimal_separators) == 1:
        as_in_table = ColumnFormat(decimal=decimal_separators.pop()).read_number(text)
        if as_in_table is not None:
            return as_in_table
    return format_of([text]).read_number(text)


REQUIRED_FIELDS = (("question",), ("table", "database"), ("answer", "coordinates", "number", "label", "sql"))
"""Groups of fields. Each row needs at least one field of each group."""
MIN_NAME_SIMILARITY = 0.75
"""Minimum similarity of two names from 0 to 1, for `difflib.get_close_matches`."""
JSON_LINES, JSON = (".jsonl", ".ndjson"), (".json",)


def check_columns(names: Iterable[str], columns: Mapping[str, str], file: str) -> None:
    """Raise `DataError` if the name of a required column seems to be misspelled.

    Args:
        names: names of the columns of a file.
        columns: column names in the file that differ from `FIELD_ALIASES`, by field name.
        file: name of the file, for the message.

    Raises:
        DataError: a required column is missing and an unknown column has a similar name.
    """
    column_names = [name.strip().lower() for name in names]
    for group in REQUIRED_FIELDS:
        accepted_names = [name for field_name in group for name in _find_names(field_name, columns)]
        if any(name in column_names for name in accepted_names):
            continue
        unknown = unknown_columns(column_names, columns)
        for name in accepted_names:
            for similar in get_close_matches(name, unknown, n=1, cutoff=MIN_NAME_SIMILARITY):
                field_name = next(key for key in group if name in _find_names(key, columns))
                setting = format_setting("data.columns", {**columns, field_name: similar})
                hint = f"Did you mean {similar}? Rename it, or type {setting}"
                raise DataError(f"no column `{name}`", where=file, remedy=hint)


def unknown_columns(names: Iterable[str], columns: Mapping[str, str]) -> list[str]:
    """Return the columns of a user file that match no field, to report that they are ignored.

    Names of fields are in `FIELD_ALIASES`.
    """
    known_names = {*(name for aliases in FIELD_ALIASES.values() for name in aliases), *map(str.lower, columns.values())}
    return [name for name in names if name.strip().lower() not in known_names]


def read_rows(path: Path, name: str, problems: list[Problem]) -> tuple[bool, Iterator[Mapping[str, Any]]]:
    """Read the records of a file of labelled questions: JSON, JSON lines or a table file.

    Args:
        path: path of the file.
        name: name of the file in the configuration, which has its type and names the file in problems.
        problems: list that receives the problems of invalid rows.

    Returns:
        Whether all values are texts, as in a table file, and the rows.

    Raises:
        DataError: the type of the file is not supported, or the file is damaged.
    """
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if suffix in (*JSON_LINES, *JSON):
        return False, _read_json(path, name, suffix in JSON_LINES, problems)
    if path.suffix.lower() not in SUFFIXES:
        raise DataError("unknown type of question file", where=str(path), remedy="Use .jsonl, .json, .csv or .xlsx")
    table = open_table(path)
    return True, (dict(zip(table.header, row, strict=True)) for row in table)


def _read_json(path: Path, name: str, lines: bool, problems: list[Problem]) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in a user file, which is a JSON list or has one object per line.

    Other values are reported as problems.
    """
    text = decode(name, read_file(path), problems) or ""
    texts = enumerate(text.split("\n"), 1) if lines else [(1, text)]
    for number, part in texts:
        if not part.strip():
            continue
        try:
            value = json.loads(part)
        except (ValueError, RecursionError) as error:
            problems.append(Problem(name, f"line {number}", f"is not readable JSON ({error})"))
            continue
        if isinstance(value, dict) and not lines:
            value = value.get("data", [value])
        for entry in value if isinstance(value, list) and not lines else [value]:
            if isinstance(entry, dict):
                yield entry
            else:
                problems.append(Problem(name, f"line {number}", "is not an object with a question"))
