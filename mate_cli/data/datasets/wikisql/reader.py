"""WikiSQL: questions with SQL queries.

Answers are computed by running the query on the table.

Source: Zhong et al. 2017, "Seq2SQL: Generating Structured Queries from Natural Language using Reinforcement
Learning"; salesforce/WikiSQL; google-research/tapas, `utils/wikisql_utils.py`. The engine of the WikiSQL authors
(`lib/dbengine.py`) compares whole texts instead of words, and returns MAX and MIN as values instead of cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import eq, gt, lt
from typing import Any, ClassVar, Literal, NamedTuple

from mate_cli.data.check import Problem, is_ragged, note_absent_tables
from mate_cli.data.datasets.file_formats import DamagedEntryError, note_damage, read_entries, require_text
from mate_cli.data.datasets.release import Release
from mate_cli.tables.example import AGGREGATIONS, Answer, Coordinates, TableExample
from mate_cli.tables.numbers import convert_to_float
from mate_cli.tables.supervision import CellFinder, supervise
from mate_cli.tables.table import Cell, Table

NO_ROWS = "table without rows"
NO_MATCH = "no row fits"
WRONG_TYPE = "SQL fails"
"""Reasons why a question has no training signal. `WRONG_TYPE`: the SQL compares or adds texts that are not numbers."""


class TypedTable(NamedTuple):
    """A WikiSQL table with the type ("text" or "real") that WikiSQL declares for each column.

    Args:
        table: the table.
        rows: texts of its body cells.
        types: type of each column, "text" or "real".
        cells: finder of its cells.
    """

    table: Table
    rows: Sequence[Sequence[str]]
    types: tuple[str, ...]
    cells: CellFinder


@dataclass(eq=False, kw_only=True)
class WikiSQL(Release):
    """Reader of WikiSQL: questions with SQL queries over one table.

    The files are <split>.jsonl and <split>.tables.jsonl, possibly in data.tar.bz2.

    With `supervision` "full", answers in all splits have the cells, the aggregation and the number computed by the SQL.
    With "weak", answers in the train split are derived from the answer texts instead (`tables.supervision`). A numeric
    answer has a text such as "3.0", as in google-research/tapas, which is rarely found in a cell. A question about a
    table without rows has the answer stated in the file, if any, and no cells.

    Args:
        root: folder of the files, or of the folder data or the archive data.tar.bz2 with the files.
        supervision: supervision of answers in the train split, "weak" or "full".
        require_rows: whether to exclude questions about tables without rows, which are frequent in partial copies.
    """

    folders: ClassVar[Sequence[str]] = ("", "data")

    supervision: Literal["weak", "full"] = "weak"
    require_rows: bool = True

    split_files: ClassVar[Mapping[str, str]] = {split: f"{split}.jsonl" for split in ("train", "dev", "test")}

    def read(self, split: str, problems: list[Problem]) -> Iterator[TableExample]:
        """Yield the valid questions of a split, in the order of the file. See `Release.read`."""
        damaged: list[Problem] = []
        tables = self._read_tables(f"{split}.tables.jsonl", damaged)
        problems += damaged
        file = self.split_files[split]
        waiting: dict[str, list[str]] = {}
        for index, entry in _entries(file, self.need(file), problems):
            # The same id as in google-research/tapas.
            key = f"{split}-{index}"
            with note_damage(file, key, problems):
                table_id, question = require_text(entry, "table_id"), require_text(entry, "question")
                if table := tables.get(table_id):
                    query = WikiSQLQuery.parse(entry.get("sql"), table.types)
                    yield TableExample(key, question, table.table, self._answer(query, table, entry, split))
                else:
                    waiting.setdefault(f"{table_id} is not in {split}.tables.jsonl", []).append(key)
        problems += () if damaged else note_absent_tables(file, waiting)

    def skip_reason(self, example: TableExample) -> str:
        """Return a reason to skip a question whose table has no rows, else "".

        Such questions are skipped only if `require_rows` is set.
        """
        return NO_ROWS if self.require_rows and not example.table.rows else ""

    def _answer(self, query: WikiSQLQuery, table: TypedTable, entry: Mapping[str, Any], split: str) -> Answer | None:
        if not table.table.rows:
            return _read_answer(entry.get("answer"))
        try:
            answer = execute_sql(query, table.rows, table.types)
        except (ValueError, OverflowError):
            return Answer((), source=WRONG_TYPE)
        if not answer.coordinates and answer.aggregation != "count":
            return replace(answer, source=NO_MATCH)
        if self.supervision == "weak" and split == "train":
            return supervise(answer, table.cells, "remove_all")
        return answer

    def _read_tables(self, file: str, problems: list[Problem]) -> dict[str, TypedTable]:
        """Read the tables of a split as {table id: table}. Tables without rows are included."""
        tables: dict[str, TypedTable] = {}
        for index, entry in _entries(file, self.need(file), problems):
            table = _table(file, f"line {index + 1}", entry, problems)
            if table is not None and table.table.table_id in tables:
                problems.append(Problem(file, table.table.table_id, "the table id occurs twice"))
            elif table is not None:
                tables[table.table.table_id] = table
        return tables


def _entries(file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the 0-based line number and the JSON object of each line of a file."""
    for key, entry in read_entries(file, content, problems):
        kind, _, number = key.partition(" ")
        yield int(number) - (kind == "line"), entry


def _table(file: str, line: str, entry: Mapping[str, Any], problems: list[Problem]) -> TypedTable | None:
    key = entry.get("id")
    header, types, rows = (entry.get(name) for name in ("header", "types", "rows"))
    if not isinstance(key, str) or not key.strip():
        problems.append(Problem(file, line, "id is missing, empty or not text"))
    elif not isinstance(header, list) or not isinstance(types, list) or not isinstance(rows, list):
        problems.append(Problem(file, key, "should have id, header, types and rows"))
    elif not all(isinstance(name, str) for name in header):
        problems.append(Problem(file, key, "a name in its header is not text"))
    elif len(types) != len(header) or not all(kind in TYPES for kind in types):
        problems.append(Problem(file, key, f"should have a type (text or real) for each of {len(header)} columns"))
    elif not all(isinstance(row, list) and all(isinstance(cell, CELLS) for cell in row) for row in rows):
        problems.append(Problem(file, key, "a row is not a list of texts and numbers"))
    elif not is_ragged(file, key, header, rows, problems):
        texts = [["" if value is None else str(value) for value in row] for row in rows]
        body = tuple(tuple(map(_cell, row)) for row in texts)
        table = Table(key, tuple(map(Cell, header)), body)
        return TypedTable(table, texts, tuple(types), CellFinder(table))
    return None


CELLS = (str, int, float, type(None))
# Cached, because many cells have the same texts.
_cell = lru_cache(maxsize=1 << 16)(Cell)


def _read_answer(results: object) -> Answer | None:
    """Convert the query result in a file, such as [["Paris"], ["Rome"]], to an answer.

    Return None if the file states no result.
    """
    if not isinstance(results, list) or not results:
        return None
    values = (value for row in results for value in (row if isinstance(row, list) else [row]))
    return Answer(tuple(map(str, values)), source=NO_ROWS)


SQL_AGGREGATIONS = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
"""SQL aggregations, by their index in the files."""
OPERATORS = ("=", ">", "<")
"""SQL operators, by their index in the files."""
TYPES = ("text", "real")

Value = str | float

_COMPARISONS: tuple[Callable[[Any, Any], bool], ...] = (eq, gt, lt)
_NAMES = {"COUNT": "count", "SUM": "sum", "AVG": "average"}
_WORDS = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True, slots=True)
class WikiSQLCondition:
    """Condition of a WikiSQL query: a column (from 0), an operator and a value.

    The operator is an index in `OPERATORS`.
    """

    column: int
    operator: int
    value: Value


@dataclass(frozen=True, slots=True)
class WikiSQLQuery:
    """SQL query of WikiSQL: a column to select (from 0), an aggregation, and conditions.

    The aggregation is an index in `SQL_AGGREGATIONS`.
    """

    column: int
    aggregation: int
    conditions: tuple[WikiSQLCondition, ...] = ()

    @classmethod
    def parse(cls, sql: Any, types: Sequence[str]) -> WikiSQLQuery:  # noqa: ANN401 - what JSON holds
        """Parse a WikiSQL query from JSON, and check that it is valid for the table's columns.

        The form is {"sel": column, "agg": aggregation, "conds": [[column, operator, value]]}.

        Args:
            sql: query of a question.
            types: types of the columns of its table.

        Raises:
            DamagedEntryError: the query is invalid for the table. The message is the reason.
        """
        try:
            conditions = tuple(WikiSQLCondition(*condition) for condition in sql["conds"])
            query = cls(sql["sel"], sql["agg"], conditions)
        except (KeyError, TypeError) as error:
            problem = "sql should contain sel, agg and conds, a list of [column, operator, value]"
            raise DamagedEntryError(problem) from error
        columns = [query.column, *(condition.column for condition in conditions)]
        if not all(_is_place(column, types) for column in columns):
            raise DamagedEntryError(f"sql names a column that does not exist (the table has {len(types)})")
        if not _is_place(query.aggregation, SQL_AGGREGATIONS):
            raise DamagedEntryError(f"sql has no aggregation {query.aggregation!r}")
        if not all(_is_place(condition.operator, OPERATORS) for condition in conditions):
            raise DamagedEntryError("sql has an operator other than =, > and <")
        if not all(isinstance(condition.value, str | int | float) for condition in conditions):
            raise DamagedEntryError("sql compares with a value that is neither text nor a number")
        return query


def _is_place(index: object, items: Sequence[Any]) -> bool:
    return type(index) is int and 0 <= index < len(items)


def execute_sql(query: WikiSQLQuery, rows: Sequence[Sequence[str]], types: Sequence[str]) -> Answer:
    """Execute a WikiSQL query, and return its result as answer with the selected cells.

    MAX and MIN select a single cell: of equal cells the last for MAX and the first for MIN. Texts are equal if their
    words and punctuation are equal, ignoring case and spacing. The number is set if the result is a number. It is NaN
    if no cell is selected, except for a count.

    Args:
        query: query to run.
        rows: texts of the body cells.
        types: type of each column, "text" or "real".

    Raises:
        ValueError: a value of a condition, or a cell to aggregate, does not have the type of its column.
        OverflowError: a number in a condition is too large.
    """
    cells = tuple(
        (row, query.column)
        for row, texts in enumerate(rows)
        if all(_holds(texts[condition.column], condition, types[condition.column]) for condition in query.conditions)
    )
    name = SQL_AGGREGATIONS[query.aggregation]
    values = [_parse_cell(rows[row][column], types[column]) for row, column in cells]
    if name in ("MAX", "MIN") and len(cells) > 1:
        cells, values = _extreme(cells, values, name)
    aggregation = _NAMES.get(name, AGGREGATIONS[0])
    number = _number(aggregation, values)
    texts = (str(number),) if number is not None else tuple(rows[row][column] for row, column in cells)
    return Answer(texts, cells, aggregation=aggregation, number=number)


def _holds(text: str, condition: WikiSQLCondition, kind: str) -> bool:
    target, cell = _parse_target(condition.value, kind), _parse_cell(text, kind)
    if isinstance(target, str) and isinstance(cell, str):
        return _COMPARISONS[condition.operator](_words(cell), _words(target))
    if isinstance(cell, str) and kind == "real":
        # The cell is a remark instead of a number.
        return False
    return _COMPARISONS[condition.operator](cell, target)


def _parse_target(value: Value, kind: str) -> Value:
    if kind == "real":
        return convert_to_float(value) if isinstance(value, str) else float(value)
    if not isinstance(value, str):
        raise ValueError(f"a condition compares text with the number {value!r}")
    return value


def _parse_cell(text: str, kind: str) -> Value:
    """Convert the text of a cell in a "real" column to a number, or return the text."""
    if kind != "real":
        return text
    try:
        return convert_to_float(text)
    except ValueError:
        return text


def _words(text: str) -> list[str]:
    return _WORDS.findall(text.lower())


def _extreme(cells: Coordinates, values: Sequence[Value], name: str) -> tuple[Coordinates, list[Value]]:
    choose: Callable[..., Any] = max if name == "MAX" else min
    numbers = [value for value in values if not isinstance(value, str)]
    pairs = [(value, index) for index, value in enumerate(values) if not numbers or not isinstance(value, str)]
    _, index = choose(pairs)
    return (cells[index],), [values[index]]


def _number(aggregation: str, values: Sequence[Value]) -> float | None:
    """Compute the result of a query as a number. Return None if the result consists of texts.

    Raises:
        ValueError: a single value to aggregate is not a number.
    """
    if aggregation == "count":
        return float(len(values))
    if not values:
        return float("nan")
    if len(values) == 1:
        try:
            return convert_to_float(values[0]) if isinstance(values[0], str) else values[0]
        except ValueError:
            if aggregation != AGGREGATIONS[0]:
                raise
    if aggregation == AGGREGATIONS[0] or any(isinstance(value, str) for value in values):
        return None
    total = float(sum(values))  # type: ignore[arg-type]  # no texts are left
    return total / len(values) if aggregation == "average" else total
