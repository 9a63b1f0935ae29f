"""Encoded splits on disk: Arrow files keyed by everything that shapes them."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, Features, Value, disable_progress_bars
from datasets import Sequence as ArrowSequence
from datasets.arrow_writer import ArrowWriter

import mate_cli.tables
import mate_cli.tokenization
from mate_cli.data.loading.encoded_rows import ADDED_PREFIX, COLUMNS, columns_of, encode_rows
from mate_cli.data.loading.parallel import map_on_cores
from mate_cli.errors import DataError
from mate_cli.files.atomic import replace_file
from mate_cli.files.papers import find_room
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.terminal.progress import Progress
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS
from mate_cli.tokenization.layout import Array, TableEncoding, cell_numbers
from mate_cli.tokenization.serializers.serializer import Serializer

CHUNK = 128
"""Examples that are tokenised together, those of a table one after the other, so that a text is tokenised once."""


def _features(columns: Mapping[str, Array]) -> Features:
    kept = {name: ArrowSequence(Value(one.dtype)) if one.axes else Value(one.dtype) for name, one in columns.items()}
    about = {"place": Value("int32"), "example_id": Value("string"), "failure": Value("string")}
    return Features({**about, **kept})  # the place is that among the examples


class EncodedSplit:
    """Encodings of a split in the order of its examples, whatever the order in the file; memory-mapped.

    Args:
        dataset: a row for each example.
        columns: the arrays of an encoding.
        digest: of the examples, see `digest_examples`.

    Attributes:
        cuts: what was cut from each table, [N, 4], see `TRUNCATION_COUNTS`; [0, 4] where the serializer does not count.
    """

    def __init__(self, dataset: Dataset, columns: Mapping[str, Array] = COLUMNS, digest: str = "") -> None:
        self._columns, self.digest = columns, digest
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
        self.cuts = np.array([cuts[row] for row in self.rows if cuts[row]], np.int32).reshape(
            -1, len(TRUNCATION_COUNTS)
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def uncut_tokens(self) -> dict[str, int]:
        """Tokens of each example before truncation, by name; without those that nobody counted."""
        pairs = zip(self._dataset["example_id"], self._dataset["uncut_tokens"], strict=True)
        return {name: int(count) for name, count in pairs if count}

    def __getitem__(self, index: int) -> TableEncoding:
        """Return the encoding at `index`, counting only examples that could be encoded."""
        row = self._dataset[self.rows[index]]
        known = {name: row[name] for name, one in self._columns.items() if _is_known(one, row[name])}
        for name in [name for name in known if len(self._columns[name].axes) > 1]:
            known[name] = known[name].reshape(_shape(self._columns[name].axes, known[name].size, known))
        more = {self._columns[name]: known.pop(name) for name in [*known] if name.startswith(ADDED_PREFIX)}
        return TableEncoding(example_id=row["example_id"], **known, more=more)


def _is_known(one: Array, value: Any) -> bool:  # noqa: ANN401 - an array or a number
    return len(value) > 0 if one.axes else bool(value == value and value != one.fill)


def _shape(axes: tuple[str | int, ...], size: int, known: Mapping[str, np.ndarray]) -> list[int]:
    """Return the shape of an array that was written flat, by its encoding; -1 where the others tell."""
    if axes[0] == "S":
        return [int(cell_numbers(known["row_ids"], known["column_ids"])[-1]) + 1, -1]
    if len(set(axes)) == 1:
        return [math.isqrt(size)] * len(axes)
    return [axis if isinstance(axis, int) else -1 for axis in axes]


def encode_split(
    examples: Sequence[TableExample], serializer: Serializer, folder: Path, name: str, processes: int = 1
) -> EncodedSplit:
    """Encode examples, or read them back where the same were encoded before.

    The line that shows progress calls them `name`. The file is the same for any number of processes.

    Raises:
        DataError: the folder cannot be written, or a process was killed.
    """
    columns = columns_of(serializer)
    maker = f"{serializer.fingerprint}|{columns}|{digest_code({type(serializer), *map(type, examples)})}"
    digest = digest_examples(examples)
    path = folder.expanduser() / f"{_name(digest, maker)}.arrow"
    if not path.exists():
        try:
            _write(examples, serializer, path, name, processes)
        except OSError as error:
            raise DataError(
                f"encodings cannot be written: {error.strerror}",
                where=str(path.parent),
                remedy="Free space or choose another folder with paths.cache=...",
            ) from error
    return EncodedSplit(Dataset.from_file(str(path)), columns, digest)


def _write(examples: Sequence[TableExample], serializer: Serializer, path: Path, name: str, processes: int) -> None:
    disable_progress_bars()
    order = _by_table(examples)
    parts = [order[start : start + CHUNK] for start in range(0, len(order), CHUNK)]
    chunks = [(places, [examples[place] for place in places]) for places in parts]
    if not _can_be_shared(serializer, examples):
        processes = 1
    with (
        replace_file(path) as partial_file,
        ArrowWriter(path=str(partial_file), features=_features(columns_of(serializer))) as writer,
        Progress(f"encoding {name}", len(examples), "examples") as progress,
        closing(map_on_cores(partial(encode_rows, serializer), chunks, processes)) as found,
    ):
        for rows in found:
            for row in rows:
                writer.write(row)
            progress.advance(len(rows))
        writer.finalize()


def _can_be_shared(serializer: Serializer, examples: Sequence[TableExample]) -> bool:
    """Tell whether other processes can have these: not a network that ranks rows, nor what the main module defines."""
    modules = {type(one).__module__ for one in (serializer, *examples[:1])}
    return getattr(serializer, "ranker", None) is None and "__main__" not in modules


def _by_table(examples: Sequence[TableExample]) -> list[int]:
    """Sort the places of examples by table, so that what is worked out for a table serves all of them."""
    first: dict[int, int] = {}
    return sorted(range(len(examples)), key=lambda place: first.setdefault(id(examples[place].table), place))


def digest_of(examples: Sequence[TableExample], maker: str) -> str:
    """Return a name for what is made of examples: the same for equal examples, the same maker and the same code.

    Raises:
        DataError: a field of an example is neither plain nor a dataclass.
    """
    return _name(digest_examples(examples), maker)


def _name(digest: str, maker: str) -> str:
    return hashlib.sha256(f"{maker}|{_code()}|{digest}".encode()).hexdigest()[:32]


def digest_examples(examples: Sequence[TableExample]) -> str:
    """Return a hash of all that examples have, the same wherever their files lie.

    Raises:
        DataError: a field of an example is neither plain nor a dataclass.
    """
    digest = hashlib.sha256()
    known: dict[int, bytes] = {}
    for example in examples:
        values = {field.name: getattr(example, field.name) for field in fields(example)}
        for name in [name for name, value in values.items() if is_dataclass(value)]:  # many examples share a table
            value = values.pop(name)
            if id(value) not in known:
                known[id(value)] = hashlib.sha256(_content(value).encode()).digest()
            digest.update(known[id(value)])
        digest.update(json.dumps(values, default=_plain).encode())
    return digest.hexdigest()[:32]


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever an example has
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise DataError(
        f"examples with a {type(value).__name__} cannot be cached",
        remedy="Use only texts, numbers, tuples, dictionaries and dataclasses",
    )


def _content(value: Any) -> str:  # noqa: ANN401 - any dataclass
    """Return all that there is of a part of an example."""
    if not isinstance(value, Table):
        return json.dumps(_plain(value), default=_plain)
    content = json.dumps([asdict(cell) for cell in value.header], sort_keys=True)
    content += json.dumps([[(c.text, c.links) for c in row] for row in value.rows])
    return content + json.dumps(dict(value.passages), sort_keys=True) + value.title + value.section_title


def _code() -> str:
    """Return a digest of the source files that shape encodings, so that a code change never meets an old cache."""
    digest = hashlib.sha256()
    for package in (mate_cli.tables, mate_cli.tokenization):
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def digest_code(kinds: Collection[type]) -> str:
    """Return a digest of what defines serializers and kinds of examples: modules of your own, and rooms of papers."""
    names = {base.__module__ for kind in kinds for base in kind.__mro__}
    known = (sys.stdlib_module_names, {mate_cli.__name__})
    own = sorted(name for name in names if not any(name.partition(".")[0] in some for some in known))
    files = [Path(file) for name in own if (file := getattr(sys.modules[name], "__file__", None))]
    for room in {room for name in names if (room := find_room(name))}:
        files += sorted(room.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
