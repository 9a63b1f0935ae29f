"""What is wrong with a query that is not the right one: its columns, its structure, or both.

Source: Xu et al. 2021 (DT-Fixup), section 4.4: a column error is "the structure is right, the columns are wrong", a
sketch error the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from mate_cli.sql.exact_match import queries_match
from mate_cli.sql.ir import ColumnUnit, Conditions, From, Query
from mate_cli.sql.schema import STAR, Schema

COLUMN_ERROR, SKETCH_ERROR, DOUBLE_ERROR = "column_error", "sketch_error", "column_and_sketch_error"

Part = TypeVar("Part")


def query_error(predicted: Query, gold: Query, schema: Schema) -> str:
    """What is wrong with a query that does not match the right one: one of the three."""
    same_columns = set(_columns(predicted)) == set(_columns(gold))
    same_sketch = queries_match(_sketch(predicted), _sketch(gold), schema)
    if same_sketch:
        return COLUMN_ERROR
    return SKETCH_ERROR if same_columns else DOUBLE_ERROR


def _sketch(part: Part) -> Part:
    """The same part of a query with "*" for every column, and of one table."""
    if isinstance(part, ColumnUnit):
        return replace(part, column=STAR)
    if isinstance(part, From):
        return replace(part, units=(1,), joins=Conditions())
    if isinstance(part, tuple):
        return tuple(map(_sketch, part))  # type: ignore[return-value]
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: _sketch(getattr(part, field.name)) for field in fields(part)})
    return part


def _columns(part: Any) -> Iterator[int]:  # noqa: ANN401 - any part of a query
    """The columns of a query, but for those that tables are joined by."""
    if isinstance(part, ColumnUnit):
        yield part.column
    elif isinstance(part, tuple):
        for one in part:
            yield from _columns(one)
    elif is_dataclass(part) and not isinstance(part, From):
        for field in fields(part):
            yield from _columns(getattr(part, field.name))
