"""Encodings as rows of a table: what processes that encode hand back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import Array, TableEncoding, declared_arrays
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer

COLUMNS = declared_arrays(TableEncoding)
"""What is kept of an encoding besides its name: an array that it lacks is empty, a number `Array.fill`."""

ADDED_PREFIX = "own/"
"""What stands before the names of arrays that a serializer adds."""


def columns_of(serializer: Serializer) -> dict[str, Array]:
    """Return the arrays of a serializer's encodings, by the name of their column."""
    return {**COLUMNS, **{f"{ADDED_PREFIX}{one.name}": one for one in serializer.arrays}}


def encode_rows(serializer: Serializer, examples: Sequence[TableExample]) -> list[Mapping[str, Any]]:
    """Encode examples."""
    columns = columns_of(serializer)
    return [
        {
            "example_id": encoding.example_id,
            "failure": encoding.reason if isinstance(encoding, EncodingFailure) else "",
            **{name: _written(one, encoding, name) for name, one in columns.items()},
        }
        for encoding in serializer.encode(examples)
    ]


def _written(one: Array, encoding: TableEncoding | EncodingFailure, name: str) -> np.ndarray | float:
    """Return an array as it is written: flat values, or a number; those of files may be narrower."""
    values: Any = None
    if isinstance(encoding, TableEncoding):
        values = encoding.more.get(one) if one.name else getattr(encoding, name)
    if not one.axes:
        return one.fill if values is None else values
    dtype = np.float32 if one.is_float else np.int32
    return np.zeros(0, dtype) if values is None else values.ravel().astype(dtype, copy=False)
