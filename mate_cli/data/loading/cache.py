"""Cache of encoded splits in Arrow files (parts) of some hundred examples each.

A file is named by a digest of its examples and of the serializer. A process writes each part that is missing. Processes
and machines that share a folder therefore encode together, and an interrupted encoding is resumed. Arrays that are
mostly zero are written sparse.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, fields, is_dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import mate_cli
from mate_cli.data.loading.parallel import map_on_cores
from mate_cli.errors import DataError
from mate_cli.files.atomic import remove_drafts, replace_file
from mate_cli.files.io_errors import shorten_reason, wrap_file_errors
from mate_cli.files.papers import find_room
from mate_cli.tables.example import TableExample, group_by_table
from mate_cli.tables.table import Table
from mate_cli.terminal.progress import Progress
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS
from mate_cli.tokenization.layout import Array, TableEncoding, cell_numbers, declared_arrays
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer

VERSION = 1
"""Version of the encodings, to increase with every code change that encodes the same examples differently."""
PART, CHUNK = 512, 128
"""Number of examples per file, and per call of the serializer. Examples of one table are adjacent, so its texts are
tokenized once."""
COLUMNS = declared_arrays(TableEncoding)
"""Stored arrays of an encoding, in addition to its id. A missing array is stored empty, a missing scalar as
`Array.fill`."""
ADDED_PREFIX = "own/"
"""Prefix of the column names of arrays that a serializer adds."""
KINDS = (("options",), ("sentences", "supporting", "links", "unjudged", "answers_by_words"))
"""Groups of fields for particular question types. A group with only empty fields is excluded from the digest, which
preserves the digests of examples from before the fields were added."""
ENDING = ".arrow"
DAY = 86_400
"""Seconds per day."""
PLACES = "/places"
"""Suffix of the column with the size of a sparse array and the indices of its nonzero values."""


class EncodedSplit:
    """Cached encodings of a split, in the order of the examples, memory-mapped from disk.

    Args:
        parts: files of the encodings.
        size: number of examples per file. The last file may have fewer.
        order: example index of each row of all files [N].
        columns: arrays of an encoding, by column name.
        digest: digest of the examples, see `digest_examples`.
        rewrite: function that encodes a missing or damaged part again and returns its file.

    Attributes:
        rows: rows of the examples that could be encoded, in the order of the examples.
        cuts: counts of truncated parts of each table, [N, 4], see `TRUNCATION_COUNTS`. [0, 4] if not counted.
    """

    def __init__(
        self,
        parts: Sequence[Path],
        size: int,
        order: Sequence[int],
        columns: Mapping[str, Array],
        digest: str,
        rewrite: Callable[[int], Path],
    ) -> None:
        self._parts, self._size, self._columns, self.digest = [*parts], size, columns, digest
        self._rewrite: Callable[[int], Path] | None = rewrite
        self._open: dict[int, Mapping[str, _Column]] = {}
        self._names: list[str] = []
        failures: list[str] = []
        numbers: list[tuple[np.ndarray, ...]] = [(np.zeros(0, int),) * 2 + (np.zeros(0, bool), np.zeros(0, np.int32))]
        # One file at a time, because mapped files count as memory of this process.
        for part in range(len(parts)):
            table = self._read(part)
            self._names += table["example_id"].to_pylist()
            failures += table["failure"].to_pylist()
            numbers.append(_read_counts(_view_columns(table)))
        lengths, self._uncut, is_counted, cuts = map(np.concatenate, zip(*numbers, strict=True))
        rows = np.argsort(order)
        self.example_ids: list[str] = [self._names[row] for row in rows]
        self.failures: dict[str, str] = {self._names[row]: failures[row] for row in rows if failures[row]}
        self.rows: np.ndarray = rows[[not failures[row] for row in rows]]
        self.lengths: np.ndarray = lengths[self.rows]
        counted_rows = self.rows[is_counted[self.rows]]
        self.cuts: np.ndarray = cuts.reshape(-1, len(TRUNCATION_COUNTS))[is_counted.cumsum()[counted_rows] - 1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling without open files, which the other process opens again."""
        return {**self.__dict__, "_open": {}, "_rewrite": None}

    def _read(self, part: int) -> pa.Table:
        """Memory-map the Arrow file of a part. If it is missing or damaged, encode it again."""
        try:
            return _read_part(self._parts[part])
        except DataError:
            if self._rewrite is None:
                raise
            self._parts[part] = self._rewrite(part)
            return _read_part(self._parts[part])

    @property
    def untruncated_lengths(self) -> dict[str, int]:
        """Number of tokens of each example before truncation, by example id, if counted."""
        return {name: count for name, count in zip(self._names, self._uncut.tolist(), strict=True) if count}

    def __getitem__(self, index: int) -> TableEncoding:
        """Return the encoding at `index`. Examples that could not be encoded are not counted."""
        part, row = divmod(int(self.rows[index]), self._size)
        if part not in self._open:
            self._open[part] = _view_columns(self._read(part))
        columns = self._open[part]
        stored_values: dict[str, Any] = {}
        for name, array in self._columns.items():
            offsets, values = columns[name]
            dtype = np.float32 if array.is_float else np.int64
            if offsets is None:
                # An unknown number is NaN or the fill value.
                if values[row] == values[row] and values[row] != array.fill:
                    stored_values[name] = values[row].astype(dtype)
                continue
            flat = values[offsets[row] : offsets[row + 1]].astype(dtype)
            if name + PLACES in columns:
                starts, positions = columns[name + PLACES]
                assert starts is not None
                indices = positions[starts[row] : starts[row + 1]]
                flat, nonzero = np.zeros(indices[0] if len(indices) else 0, dtype), flat
                flat[indices[1:]] = nonzero
            if len(flat):
                stored_values[name] = flat
        for name in [name for name in stored_values if len(self._columns[name].axes) > 1]:
            shape = _shape(self._columns[name].axes, stored_values[name].size, stored_values)
            stored_values[name] = stored_values[name].reshape(shape)
        added_names = [name for name in stored_values if name.startswith(ADDED_PREFIX)]
        more = {self._columns[name]: stored_values.pop(name) for name in added_names}
        return TableEncoding(example_id=self._names[self.rows[index]], **stored_values, more=more)


_Part = tuple[str, Sequence[TableExample]]
"""Name of a file, and its examples."""
_Column = tuple[np.ndarray | None, np.ndarray]
"""Offset of the first value of each row (None for one value per row), and all values."""


def _read_part(path: Path) -> pa.Table:
    """Memory-map a cached Arrow file, and close the file, because open files are limited."""
    # Touch the file for `prune_cache`. Ignore errors, because the file may belong to another user.
    with suppress(OSError):
        os.utime(path)
    with wrap_file_errors(path, DataError, "these encodings are damaged", "Remove this file"):
        if not path.is_file():  # a pipe would be waited for
            raise ValueError("it is not a regular file")
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).read_all()


def _view_columns(table: pa.Table) -> Mapping[str, _Column]:
    """Return NumPy views of the numeric columns of an Arrow table, by column name."""
    columns: dict[str, _Column] = {}
    for name in table.column_names:
        values = table[name].chunk(0)
        if isinstance(values, pa.ListArray):
            columns[name] = values.offsets.to_numpy(), values.values.to_numpy()
        elif not pa.types.is_string(values.type):
            columns[name] = None, values.to_numpy()
    return columns


def _read_counts(columns: Mapping[str, _Column]) -> tuple[np.ndarray, ...]:
    """Return arrays of token counts and truncation counts, with an element per cached example.

    The arrays are: tokens, tokens before truncation, whether truncation was counted, and all truncation counts.
    """
    (tokens, _), (_, uncut), (offsets, cuts) = (columns[name] for name in ("input_ids", "uncut_tokens", "cut"))
    assert tokens is not None
    assert offsets is not None
    return np.diff(tokens).astype(int), uncut.copy(), np.diff(offsets) > 0, cuts.astype(np.int32)


def _shape(axes: tuple[str | int, ...], size: int, arrays: Mapping[str, np.ndarray]) -> list[int]:
    """Return the shape of an array that is stored flat, to restore the array by `reshape`.

    An inferred axis is -1.

    Args:
        axes: axes of the array, see `Array.axes`.
        size: number of stored values.
        arrays: arrays of the same encoding, by column name.
    """
    if axes[0] == "S":
        return [int(cell_numbers(arrays["row_ids"], arrays["column_ids"])[-1]) + 1, -1]
    if len(set(axes)) == 1:
        return [math.isqrt(size)] * len(axes)
    return [axis if isinstance(axis, int) else -1 for axis in axes]


def encode_split(
    examples: Sequence[TableExample], serializer: Serializer, folder: Path, name: str, processes: int = 1
) -> EncodedSplit:
    """Encode the examples of a split, and cache the encodings on disk for later runs.

    Encodings that are already cached are not computed again.

    The cached files do not depend on the number of processes.

    Args:
        examples: examples to encode.
        serializer: serializer that encodes the examples.
        folder: folder of the cache. If it is not writable, a temporary folder is used.
        name: name of the examples in the progress line.
        processes: number of processes that encode.

    Raises:
        DataError: no folder is writable, or a process was killed.
    """
    columns, folder, size = columns_of(serializer), folder.expanduser(), PART
    encoder_key = f"{serializer.fingerprint}|{columns}|{digest_code({type(serializer), *map(type, examples)})}"
    digest, digests = _digest_each(examples)
    # Examples of one table are adjacent, because the serializer computes the facts of a table once.
    order = [*chain.from_iterable(group_by_table(examples))]
    parts = []
    for start in range(0, len(order), size):
        indices = order[start : start + size]
        part_digest = hashlib.sha256(b"".join(digests[index] for index in indices)).hexdigest()
        parts.append((f"{_name(part_digest, encoder_key)}{ENDING}", [examples[index] for index in indices]))
    # Subprocesses can use neither a network that ranks rows nor classes of `__main__`.
    modules = {type(item).__module__ for item in (serializer, *examples[:1])}
    if getattr(serializer, "ranker", None) is not None or "__main__" in modules:
        processes = 1
    paths = _write_parts(serializer, folder, parts, name, processes)

    def rewrite(part: int) -> Path:
        to = paths[part].parent
        try:
            paths[part].unlink(missing_ok=True)
        except OSError as error:
            to = open_temporary_cache(to, error)
        return _write_parts(serializer, to, [parts[part]], name)[0]

    return EncodedSplit(paths, size, order, columns, digest, rewrite)


def _write_parts(
    serializer: Serializer, folder: Path, parts: Sequence[_Part], name: str, processes: int = 1
) -> list[Path]:
    """Encode the parts of a split that are missing in the cache, and return all part files."""
    missing_parts = [(folder / file, examples) for file, examples in parts if not (folder / file).exists()]
    # Processes that encode the same examples start with different parts.
    random.Random().shuffle(missing_parts)
    try:
        total = sum(len(examples) for _, examples in missing_parts)
        written_counts = map_on_cores(partial(_write_part, serializer), missing_parts, processes)
        with Progress(f"encoding {name}", total, "examples") as progress, closing(written_counts):
            for count in written_counts:
                progress.advance(count)
    except BaseException as error:
        # Remove the temporary files of the subprocesses, which were killed.
        remove_drafts(folder)
        if not isinstance(error, OSError):
            raise
        return _write_parts(serializer, open_temporary_cache(folder, error), parts, name, processes)
    return [folder / file for file, _ in parts]


_temporary_caches: dict[Path, TemporaryDirectory[str]] = {}
"""Temporary caches by the folder that they replace. The caches are removed when this process exits."""


def open_temporary_cache(folder: Path, error: Exception) -> Path:
    """Return a temporary folder of this process, which replaces a cache that is not writable.

    Raises:
        DataError: `folder` already is a temporary cache.
    """
    reason = shorten_reason(error)
    hint = "Free space, or choose another folder with paths.cache= or MATE_CACHE"
    if any(Path(temporary.name) in (folder, *folder.parents) for temporary in _temporary_caches.values()):
        raise DataError(f"encodings cannot be written: {reason}", where=str(folder), remedy=hint) from error
    if folder not in _temporary_caches:
        _temporary_caches[folder] = TemporaryDirectory(prefix="mate_cache_")
        problem = f"the cache cannot be written ({reason}), so a temporary one is used"
        print(f"warning: {folder}: {problem}. {hint}", file=sys.stderr, flush=True)
    return Path(_temporary_caches[folder].name)


def _write_part(serializer: Serializer, part: tuple[Path, Sequence[TableExample]]) -> int:
    """Encode the examples of a part and write the encodings to its file, unless it exists.

    Returns:
        The number of examples in the part, for the progress line.
    """
    path, examples = part
    if path.exists():
        return len(examples)
    chunks = (examples[start : start + CHUNK] for start in range(0, len(examples), CHUNK))
    encodings = [encoding for chunk in chunks for encoding in serializer.encode(chunk)]
    reasons = [encoding.reason if isinstance(encoding, EncodingFailure) else "" for encoding in encodings]
    names = [encoding.example_id for encoding in encodings]
    columns: dict[str, pa.Array] = {"example_id": pa.array(names), "failure": pa.array(reasons)}
    for name, array in columns_of(serializer).items():
        columns |= _write_column(name, array, [_flatten(array, encoding, name) for encoding in encodings])
    batch = pa.record_batch(columns)
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, batch.schema) as writer:
        writer.write_batch(batch)
    with replace_file(path) as draft:
        draft.write_bytes(content.getvalue())
    return len(examples)


def columns_of(serializer: Serializer) -> dict[str, Array]:
    """Return the arrays that an encoding consists of, by the name of their cache column.

    Additional arrays of the serializer are included.
    """
    return {**COLUMNS, **{f"{ADDED_PREFIX}{array.name}": array for array in serializer.arrays}}


def _flatten(array: Array, encoding: TableEncoding | EncodingFailure, name: str) -> np.ndarray | float:
    """Flatten an array of an encoding to float32 or int32 values, for the cache.

    An array without axes is stored as a scalar.
    """
    values: Any = None
    if isinstance(encoding, TableEncoding):
        values = encoding.more.get(array) if array.name else getattr(encoding, name)
    if not array.axes:
        return array.fill if values is None else values
    dtype = np.float32 if array.is_float else np.int32
    return np.zeros(0, dtype) if values is None else values.ravel().astype(dtype, copy=False)


def _write_column(name: str, array: Array, values: Sequence[Any]) -> Iterator[tuple[str, pa.Array]]:
    """Yield the Arrow columns in which an array is cached: values, and indices if sparse."""
    arrow_type = pa.from_numpy_dtype(np.dtype(array.dtype))
    if not array.axes:
        yield name, pa.array(np.array(values)).cast(arrow_type)
        return
    if array.is_float and len(array.axes) > 1 and not array.fill:
        # Compare bits, because a negative zero must be stored.
        indices = [np.flatnonzero(row.view(np.int32)) for row in values]
        sizes = [[row.size] * bool(row.size) for row in values]
        yield (
            name + PLACES,
            _lists([np.array([*size, *row], np.int32) for size, row in zip(sizes, indices, strict=True)]),
        )
        values = [row[row_indices] for row, row_indices in zip(values, indices, strict=True)]
    yield name, _lists(values, arrow_type)


def _lists(values: Sequence[np.ndarray], kind: pa.DataType | None = None) -> pa.ListArray:
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(values)).cast(kind or pa.int32()))


def prune_cache(folder: Path, days: float) -> tuple[int, int]:
    """Remove encodings and unfinished corpora that were not used for some days.

    Args:
        folder: folder of the cache.
        days: minimum number of days since the last use.

    Returns:
        The number and the total bytes of the removed files.
    """

    def find_unused(pattern: str) -> list[Path]:
        return [path for path in folder.expanduser().glob(pattern) if path.lstat().st_mtime < time.time() - days * DAY]

    # The pattern matches only files of this cache.
    files = find_unused(f"{'[0-9a-f]' * 32}{ENDING}")
    parts = find_unused(f"corpora/{'[0-9a-f]' * 24}.parts")
    parts = [path for path in parts if not path.is_symlink() and not remove_drafts(path)]
    files += [file for path in parts for file in path.iterdir() if file.is_file()]
    size = sum(file.lstat().st_size for file in files)
    for file in files:
        file.unlink(missing_ok=True)
    for path in parts:
        # The folder may also contain temporary files of killed processes.
        shutil.rmtree(path, ignore_errors=True)
    return len(files), size


def digest_of(examples: Sequence[TableExample], maker: str) -> str:
    """Hash examples and the description of a computation to the cache key of its result.

    The key depends on `VERSION` too.

    Args:
        examples: examples, whose content is part of the key.
        maker: description of the computation, which is part of the key.

    Raises:
        DataError: a field of an example is neither JSON-serializable nor a dataclass.
    """
    return _name(digest_examples(examples), maker)


def _name(digest: str, key: str) -> str:
    return hashlib.sha256(f"{key}|{VERSION}|{digest}".encode()).hexdigest()[:32]


def digest_examples(examples: Sequence[TableExample]) -> str:
    """Return a digest of the content of examples, which does not depend on file locations.

    Raises:
        DataError: a field of an example is neither JSON-serializable nor a dataclass.
    """
    return _digest_each(examples)[0]


def _digest_each(examples: Sequence[TableExample]) -> tuple[str, list[bytes]]:
    """Return the digest of all examples together (hexadecimal), and of each example (bytes)."""
    total, digests = hashlib.sha256(), []
    cached_digests: dict[int, bytes] = {}
    for example in examples:
        values = {field.name: getattr(example, field.name) for field in fields(example)}
        for name in chain.from_iterable(kind for kind in KINDS if not any(map(values.get, kind))):
            values.pop(name, None)
        content = b""
        # Digests of dataclasses are cached, because many examples share a table.
        for name in [name for name, value in values.items() if is_dataclass(value)]:
            value = values.pop(name)
            if id(value) not in cached_digests:
                cached_digests[id(value)] = hashlib.sha256(_content(value).encode()).digest()
            content += cached_digests[id(value)]
        content += json.dumps(values, default=_plain).encode()
        total.update(content)
        digests.append(hashlib.sha256(content).digest())
    return total.hexdigest()[:32], digests


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever an example has
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    hint = "Use only texts, numbers, tuples, dictionaries and dataclasses"
    raise DataError(f"examples with a {type(value).__name__} cannot be cached", remedy=hint)


def _content(value: Any) -> str:  # noqa: ANN401 - any dataclass
    """Serialize the fields of a dataclass, such as a table, to the text that is hashed."""
    if not isinstance(value, Table):
        return json.dumps(_plain(value), default=_plain)
    content = json.dumps([asdict(cell) for cell in value.header], sort_keys=True)
    content += json.dumps([[(c.text, c.links) for c in row] for row in value.rows])
    return content + json.dumps(dict(value.passages), sort_keys=True) + value.title + value.section_title


def digest_code(kinds: Collection[type]) -> str:
    """Hash the code on which encodings depend: user-defined and paper code of some classes.

    The digest covers the user-defined modules of the classes and their bases, and whole papers in `mate_cli.papers`.

    Args:
        kinds: classes of serializers and examples.
    """
    names = {base.__module__ for kind in kinds for base in kind.__mro__}
    known_modules = {*sys.stdlib_module_names, mate_cli.__name__}
    user_modules = sorted(name for name in names if name.partition(".")[0] not in known_modules)
    files = [Path(file) for name in user_modules if (file := getattr(sys.modules[name], "__file__", None))]
    for paper_folder in {paper_folder for name in names if (paper_folder := find_room(name))}:
        files += sorted(paper_folder.rglob("*.py"))
    return hashlib.sha256("".join(map(_read_code, files)).encode()).hexdigest()


def _read_code(file: Path) -> str:
    """Return the syntax tree of a module as text, to detect changes of its code.

    Comments and docstrings do not affect encodings.
    """
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            prose = [part for part in body if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)]
            node.body = [part for part in body if part not in prose]  # type: ignore[attr-defined]
    return ast.dump(tree)
