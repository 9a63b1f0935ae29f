"""Encoded splits on disk: Arrow files keyed by everything that shapes them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, Features, Value, disable_progress_bars
from datasets import Sequence as ArrowSequence
from datasets.arrow_writer import ArrowWriter
from tqdm.auto import tqdm

import mate_cli.sql
import mate_cli.tables
import mate_cli.tokenization
from mate_cli.errors import DataError
from mate_cli.files.atomic import replacing
from mate_cli.sql.schema import Schema
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.fitting.truncation import CUTS
from mate_cli.tokenization.layout import OF_NODES, TOKEN_TYPES, TableEncoding
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer

CHUNK = 128
"""Examples that are tokenised together, those of a table one after the other, so that a text is tokenised once."""

FEATURES = Features(
    {
        "place": Value("int32"),  # among the examples
        "example_id": Value("string"),
        "failure": Value("string"),
        "input_ids": ArrowSequence(Value("int32")),
        **{name: ArrowSequence(Value("int16")) for name in TOKEN_TYPES},
        "label_ids": ArrowSequence(Value("int32")),  # those of masked pieces are ids of the vocabulary
        "cell_features": ArrowSequence(Value("float32")),
        "numeric_values": ArrowSequence(Value("float32")),
        "cut": ArrowSequence(Value("int32")),
        "uncut_tokens": Value("int32"),
        "relations": ArrowSequence(Value("uint8")),
        "node_cells": ArrowSequence(Value("int16")),
        "sentence_ids": ArrowSequence(Value("int16")),
        "node_kinds": ArrowSequence(Value("int8")),
        "node_tables": ArrowSequence(Value("int16")),
        "actions": ArrowSequence(Value("int16")),
        "answer_number": Value("float32"),
        "aggregation_id": Value("int8"),
        "class_id": Value("int8"),
    }
)

OPTIONAL = ("cell_features", "numeric_values", "cut", "sentence_ids", *OF_NODES)
"""Arrays that an encoding may lack; they are empty then."""
SCALARS = {"answer_number": math.nan, "aggregation_id": -1, "class_id": -1, "uncut_tokens": 0}
"""Single numbers of an encoding: of the answer as a whole, and of its length; and how it says that it knows none."""


class EncodedSplit:
    """Encodings of a split in the order of its examples, whatever the order in the file; memory-mapped.

    Attributes:
        cuts: what was cut from each table, [N, 4], see `CUTS`; [0, 4] where the serializer does not count.
    """

    def __init__(self, dataset: Dataset) -> None:
        order = np.argsort(list(dataset["place"]))
        names, failures = list(dataset["example_id"]), list(dataset["failure"])
        self.example_ids: list[str] = [names[row] for row in order]
        self.failures: dict[str, str] = {names[row]: failures[row] for row in order if failures[row]}
        self.rows = [int(row) for row in order if not failures[row]]
        self._dataset = dataset.with_format("numpy")
        offsets = dataset.with_format("arrow")[:]["input_ids"].combine_chunks() if len(dataset) else None
        lengths = np.asarray(offsets.value_lengths()) if offsets is not None else np.zeros(0, int)
        self.lengths: np.ndarray = lengths[self.rows]
        cuts = list(dataset["cut"])
        self.cuts = np.array([cuts[row] for row in self.rows if cuts[row]], np.int32).reshape(-1, len(CUTS))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def uncut_tokens(self) -> dict[str, int]:
        """How many tokens each example would have if nothing were cut, by name; without those that nobody counted."""
        pairs = zip(self._dataset["example_id"], self._dataset["uncut_tokens"], strict=True)
        return {name: int(count) for name, count in pairs if count}

    def __getitem__(self, index: int) -> TableEncoding:
        """The encoding at `index`, counting only examples that could be encoded."""
        row = self._dataset[self.rows[index]]
        del row["place"], row["failure"]
        known = {name: values for name in OPTIONAL if len(values := row.pop(name))}
        encoding = TableEncoding(**row, **known)
        return replace(encoding, **_in_shape(encoding, known))


def _in_shape(encoding: TableEncoding, known: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The arrays of an encoding that are not flat, of those that are on disk, where all are."""
    cells, nodes = encoding.cells[-1] + 1, math.isqrt(len(known.get("relations", ())))
    shapes = {"cell_features": (cells, -1), "relations": (nodes, nodes), "node_cells": (-1, 2), "actions": (-1, 5)}
    return {name: known[name].reshape(shape) for name, shape in shapes.items() if name in known}


def encode_split(examples: Sequence[TableExample], serializer: Serializer, folder: Path, name: str) -> EncodedSplit:
    """Encode examples, or read them back where the same were encoded before.

    The progress bar calls them `name`.

    Raises:
        DataError: the folder cannot be written.
    """
    path = folder.expanduser() / f"{digest_of(examples, f'{serializer.fingerprint}|{list(FEATURES)}')}.arrow"
    if not path.exists():
        try:
            _write(examples, serializer, path, name)
        except OSError as error:
            raise DataError(
                f"encodings cannot be written: {error.strerror}",
                where=str(path.parent),
                remedy="Free space or choose another folder with paths.cache=...",
            ) from error
    return EncodedSplit(Dataset.from_file(str(path)))


def _write(examples: Sequence[TableExample], serializer: Serializer, path: Path, name: str) -> None:
    disable_progress_bars()
    with replacing(path) as partial, ArrowWriter(path=str(partial), features=FEATURES) as writer:
        for row in _rows(examples, serializer, name):
            writer.write(row)
        writer.finalize()


def _rows(examples: Sequence[TableExample], serializer: Serializer, name: str) -> Iterator[dict[str, Any]]:
    empty = {name: np.zeros(0, _dtype(kind)) for name, kind in FEATURES.items() if not isinstance(kind, Value)}
    with tqdm(total=len(examples), desc=f"encoding {name}", unit="examples", delay=0.5, disable=None) as bar:
        order = _by_table(examples)
        for start in range(0, len(order), CHUNK):
            places = order[start : start + CHUNK]
            chunk = [examples[place] for place in places]
            for place, encoding in zip(places, serializer.encode(chunk), strict=True):
                named = {"place": place, "example_id": encoding.example_id}
                if isinstance(encoding, EncodingFailure):
                    yield {**named, "failure": encoding.reason, **empty, **SCALARS}
                else:
                    arrays = {name: getattr(encoding, name) for name in empty}
                    given = {
                        name: empty[name] if array is None else array.ravel().astype(empty[name].dtype, copy=False)
                        for name, array in arrays.items()
                    }
                    scalars = {name: getattr(encoding, name) for name in SCALARS}
                    yield {**named, "failure": "", **given, **scalars}
            bar.update(len(chunk))


def _by_table(examples: Sequence[TableExample]) -> list[int]:
    """The places of examples, those of a table one after the other: what is worked out for it then serves them all."""
    first: dict[int, int] = {}
    return sorted(range(len(examples)), key=lambda place: first.setdefault(id(examples[place].table), place))


def _dtype(kind: ArrowSequence) -> np.dtype:
    """Of the arrays of encodings; what is written may be narrower."""
    return np.dtype(np.float32 if kind.feature.dtype == "float32" else np.int32)


def digest_of(examples: Sequence[TableExample], maker: str) -> str:
    """A name for what is made of examples: the same for equal examples, the same maker and the same code."""
    digest = hashlib.sha256(f"{maker}|{_code()}".encode())
    known: dict[int, bytes] = {}
    for example in examples:
        values = {field.name: getattr(example, field.name) for field in fields(example)}
        shared = {name: values.pop(name) for name in ("table", "schema") if name in values}
        for value in shared.values():
            if id(value) not in known:
                known[id(value)] = hashlib.sha256(_content(value).encode()).digest()
            digest.update(known[id(value)])
        digest.update(json.dumps(values, default=asdict).encode())
    return digest.hexdigest()[:32]


def _content(value: Table | Schema) -> str:
    """All that there is of what many examples share."""
    if not isinstance(value, Table):
        return json.dumps(asdict(value))
    content = json.dumps([asdict(cell) for cell in value.header], sort_keys=True)
    content += json.dumps([[(c.text, c.links) for c in row] for row in value.rows])
    return content + json.dumps(dict(value.passages), sort_keys=True) + value.title + value.section_title


def _code() -> str:
    """A digest of the source files that shape encodings, so that a code change never meets an old cache."""
    digest = hashlib.sha256()
    for package in (mate_cli.sql, mate_cli.tables, mate_cli.tokenization):
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
