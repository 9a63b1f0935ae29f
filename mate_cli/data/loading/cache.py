"""Encoded splits on disk: Arrow files of some hundred examples each, named after everything that shapes them.

Whoever finds a part missing writes it: processes and machines that share a folder encode together, and an encoding that
was killed goes on. Arrays that are mostly zero are written sparse.
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
from mate_cli.files.atomic import find_files_in_writing, remove_drafts, replace_file
from mate_cli.files.io_errors import shorten_reason, wrap_read_errors
from mate_cli.files.papers import find_room
from mate_cli.tables.example import TableExample, group_by_table
from mate_cli.tables.table import Table
from mate_cli.terminal.progress import Progress
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS
from mate_cli.tokenization.layout import Array, TableEncoding, cell_numbers, declared_arrays
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer

VERSION = 1
"""Rises with every change of the code that makes other encodings of the same examples."""
PART, CHUNK = 512, 128
"""Examples of a file, and those that are tokenised together: of a table one after the other, so that a text is
tokenised once."""
COLUMNS = declared_arrays(TableEncoding)
"""What is kept of an encoding besides its name: an array that it lacks is empty, a number `Array.fill`."""
ADDED_PREFIX = "own/"
"""What stands before the names of arrays that a serializer adds."""
KINDS = (("options",), ("sentences", "supporting", "links", "unjudged", "answers_by_words"))
"""Fields of kinds of questions. Those of a kind that an example has nothing of do not count: it is known as it was
before there were such kinds."""
ENDING = ".arrow"
DAY = 86_400
"""Seconds."""
PLACES = "/places"
"""Ends the name of a column with the size of an array, and the places of its values that are not zero."""


class EncodedSplit:
    """Encodings of a split in the order of its examples, whatever the order in the files; memory-mapped.

    Args:
        parts: the files, with `size` examples each, but for the last.
        order: the place among the examples of each row of all files [N].
        columns: the arrays of an encoding.
        digest: of the examples, see `digest_examples`.
        rewrite: encodes the examples of a part again and returns its file, for a part that is missing or damaged.

    Attributes:
        rows: of the examples that could be encoded, in their order.
        cuts: what was cut from each table, [N, 4], see `TRUNCATION_COUNTS`; [0, 4] where the serializer does not count.
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
        for part in range(len(parts)):  # one by one: what is mapped of a file counts as memory of this process
            table = self._read(part)
            self._names += table["example_id"].to_pylist()
            failures += table["failure"].to_pylist()
            numbers.append(_read_counts(_view_columns(table)))
        lengths, self._uncut, has_cut, cuts = map(np.concatenate, zip(*numbers, strict=True))
        rows = np.argsort(order)
        self.example_ids: list[str] = [self._names[row] for row in rows]
        self.failures: dict[str, str] = {self._names[row]: failures[row] for row in rows if failures[row]}
        self.rows: np.ndarray = rows[[not failures[row] for row in rows]]
        self.lengths: np.ndarray = lengths[self.rows]
        counted = self.rows[has_cut[self.rows]]
        self.cuts: np.ndarray = cuts.reshape(-1, len(TRUNCATION_COUNTS))[has_cut.cumsum()[counted] - 1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which opens files by itself and encodes none."""
        return {**self.__dict__, "_open": {}, "_rewrite": None}

    def _read(self, part: int) -> pa.Table:
        """Map a part into memory; one that was removed or damaged meanwhile is encoded again."""
        try:
            return _read_part(self._parts[part])
        except DataError:
            if self._rewrite is None:
                raise
            self._parts[part] = self._rewrite(part)
            return _read_part(self._parts[part])

    @property
    def uncut_tokens(self) -> dict[str, int]:
        """Tokens of each example before truncation, by name; without those that nobody counted."""
        return {name: count for name, count in zip(self._names, self._uncut.tolist(), strict=True) if count}

    def __getitem__(self, index: int) -> TableEncoding:
        """Return the encoding at `index`, counting only examples that could be encoded."""
        part, row = divmod(int(self.rows[index]), self._size)
        if part not in self._open:
            self._open[part] = _view_columns(self._read(part))
        columns = self._open[part]
        found = {name: _read_array(columns, name, one, row) for name, one in self._columns.items()}
        known = {name: value for name, value in found.items() if _is_known(self._columns[name], value)}
        for name in [name for name in known if len(self._columns[name].axes) > 1]:
            known[name] = known[name].reshape(_shape(self._columns[name].axes, known[name].size, known))
        more = {self._columns[name]: known.pop(name) for name in [*known] if name.startswith(ADDED_PREFIX)}
        return TableEncoding(example_id=self._names[self.rows[index]], **known, more=more)


_Part = tuple[str, Sequence[TableExample]]
"""The name of a file, and the examples in it."""
_Column = tuple[np.ndarray | None, np.ndarray]
"""Where the values of each row begin, None for one value a row; and all values."""


def _read_part(path: Path) -> pa.Table:
    """Map a file into memory; it is not kept open, of which a process may have few."""
    with suppress(OSError):  # by its time one sees that it is used; the file may be somebody else's
        os.utime(path)
    damaged = wrap_read_errors(path, DataError, "these encodings are damaged", "Remove this file")
    with damaged, pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def _view_columns(table: pa.Table) -> Mapping[str, _Column]:
    """Return the numbers of a file without copying any."""
    columns: dict[str, _Column] = {}
    for name in table.column_names:
        values = table[name].chunk(0)
        if isinstance(values, pa.ListArray):
            columns[name] = values.offsets.to_numpy(), values.values.to_numpy()
        elif not pa.types.is_string(values.type):
            columns[name] = None, values.to_numpy()
    return columns


def _read_counts(columns: Mapping[str, _Column]) -> tuple[np.ndarray, ...]:
    """Return of each row its tokens, those before truncation, and if it has counts of cuts; and these counts."""
    (tokens, _), (_, uncut), (ends, cuts) = (columns[name] for name in ("input_ids", "uncut_tokens", "cut"))
    assert tokens is not None
    assert ends is not None
    return np.diff(tokens).astype(int), uncut.copy(), np.diff(ends) > 0, cuts.astype(np.int32)


def _read_array(columns: Mapping[str, _Column], name: str, one: Array, row: int) -> Any:  # noqa: ANN401
    """Return an array of a row, flat, or a number; all but floats as int64."""
    offsets, values = columns[name]
    dtype = np.float32 if one.is_float else np.int64
    if offsets is None:
        return values[row].astype(dtype)
    found = values[offsets[row] : offsets[row + 1]].astype(dtype)
    if not _is_sparse(one):
        return found
    begins, places = columns[name + PLACES]
    if begins is None or begins[row] == begins[row + 1]:
        return found
    own = places[begins[row] : begins[row + 1]]
    whole = np.zeros(own[0], dtype)
    whole[own[1:]] = found
    return whole


def _is_sparse(one: Array) -> bool:
    return one.is_float and len(one.axes) > 1 and not one.fill


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
    """Encode examples, or read those back that were encoded before.

    The line that shows progress calls them `name`. The files are the same for any number of processes. If the folder
    cannot be written, they are in a temporary one.

    Raises:
        DataError: no folder can be written, or a process was killed.
    """
    columns, folder, size = columns_of(serializer), folder.expanduser(), PART
    maker = f"{serializer.fingerprint}|{columns}|{digest_code({type(serializer), *map(type, examples)})}"
    digest, marks = _digest_each(examples)
    order = [*chain.from_iterable(group_by_table(examples))]  # what is worked out for a table serves all of them
    places = [order[start : start + size] for start in range(0, len(order), size)]
    names = (_name(hashlib.sha256(b"".join(marks[place] for place in part)).hexdigest(), maker) for part in places)
    parts = [(f"{mark}{ENDING}", [examples[place] for place in part]) for mark, part in zip(names, places, strict=True)]
    if not _can_be_shared(serializer, examples):
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
    """Write the parts that are missing in a folder; return the files of all."""
    work = [(folder / file, examples) for file, examples in parts if not (folder / file).exists()]
    random.Random().shuffle(work)  # others who encode the same begin elsewhere
    try:
        with (
            Progress(f"encoding {name}", sum(len(own) for _, own in work), "examples") as progress,
            closing(map_on_cores(partial(_write_part, serializer), work, processes)) as counts,
        ):
            for count in counts if work else ():
                progress.advance(count)
    except BaseException as error:
        remove_drafts(folder)  # of the other processes, which are killed
        if not isinstance(error, OSError):
            raise
        return _write_parts(serializer, open_temporary_cache(folder, error), parts, name, processes)
    return [folder / file for file, _ in parts]


_temporary_caches: dict[Path, TemporaryDirectory[str]] = {}
"""By the folder that each replaces; they are removed with this process."""


def open_temporary_cache(folder: Path, error: Exception) -> Path:
    """Return a cache that this process alone uses, since `folder` cannot be written.

    Raises:
        DataError: if `folder` is that cache already.
    """
    reason = shorten_reason(error)
    remedy = "Free space, or choose another folder with paths.cache= or MATE_CACHE"
    if any(Path(temporary.name) in (folder, *folder.parents) for temporary in _temporary_caches.values()):
        raise DataError(f"encodings cannot be written: {reason}", where=str(folder), remedy=remedy) from error
    if folder not in _temporary_caches:
        _temporary_caches[folder] = TemporaryDirectory(prefix="mate_cache_")
        problem = f"the cache cannot be written ({reason}), so a temporary one is used"
        print(f"warning: {folder}: {problem}. {remedy}", file=sys.stderr, flush=True)
    return Path(_temporary_caches[folder].name)


def _write_part(serializer: Serializer, part: tuple[Path, Sequence[TableExample]]) -> int:
    """Encode the examples of a file and write it, unless somebody else has meanwhile; return their number."""
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
    """Return the arrays of a serializer's encodings, by the name of their column."""
    return {**COLUMNS, **{f"{ADDED_PREFIX}{array.name}": array for array in serializer.arrays}}


def _flatten(array: Array, encoding: TableEncoding | EncodingFailure, name: str) -> np.ndarray | float:
    """Return an array as it is written: flat values, or a number; those of files may be narrower."""
    values: Any = None
    if isinstance(encoding, TableEncoding):
        values = encoding.more.get(array) if array.name else getattr(encoding, name)
    if not array.axes:
        return array.fill if values is None else values
    dtype = np.float32 if array.is_float else np.int32
    return np.zeros(0, dtype) if values is None else values.ravel().astype(dtype, copy=False)


def _write_column(name: str, one: Array, values: Sequence[Any]) -> Iterator[tuple[str, pa.Array]]:
    """Yield the column of an array; of a sparse one, that of its places too."""
    kind = pa.from_numpy_dtype(np.dtype(one.dtype))
    if not one.axes:
        yield name, pa.array(np.array(values)).cast(kind)
        return
    if _is_sparse(one):
        places = [np.flatnonzero(own.view(np.int32)) for own in values]  # by its bits: there are zeros with a sign
        sizes = [[own.size] * bool(own.size) for own in values]
        yield name + PLACES, _lists([np.array([*size, *at], np.int32) for size, at in zip(sizes, places, strict=True)])
        values = [own[at] for own, at in zip(values, places, strict=True)]
    yield name, _lists(values, kind)


def _lists(values: Sequence[np.ndarray], kind: pa.DataType | None = None) -> pa.ListArray:
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(values)).cast(kind or pa.int32()))


def prune_cache(folder: Path, days: float) -> tuple[int, int]:
    """Remove the encodings that nobody has opened for some days, and parts of corpora whose preparation has not ended.

    Returns:
        How many files there were, and their bytes.
    """

    def unused(pattern: str) -> list[Path]:
        return [path for path in folder.expanduser().glob(pattern) if path.lstat().st_mtime < time.time() - days * DAY]

    files = unused(f"{'[0-9a-f]' * 32}{ENDING}")  # not what others may keep there
    parts = [path for path in unused(f"corpora/{'[0-9a-f]' * 24}.parts") if not path.is_symlink()]
    parts = [path for path in parts if not find_files_in_writing(path)]
    files += [file for path in parts for file in path.iterdir() if file.is_file()]
    size = sum(file.lstat().st_size for file in files)
    for file in files:
        file.unlink(missing_ok=True)
    for path in parts:
        shutil.rmtree(path, ignore_errors=True)  # with the drafts of killed processes
    return len(files), size


def _can_be_shared(serializer: Serializer, examples: Sequence[TableExample]) -> bool:
    """Tell whether other processes can have these: not a network that ranks rows, nor what the main module defines."""
    modules = {type(one).__module__ for one in (serializer, *examples[:1])}
    return getattr(serializer, "ranker", None) is None and "__main__" not in modules


def digest_of(examples: Sequence[TableExample], maker: str) -> str:
    """Return a name for what is made of examples: the same for equal examples, the same maker and the same code.

    Raises:
        DataError: a field of an example is neither plain nor a dataclass.
    """
    return _name(digest_examples(examples), maker)


def _name(digest: str, maker: str) -> str:
    return hashlib.sha256(f"{maker}|{VERSION}|{digest}".encode()).hexdigest()[:32]


def digest_examples(examples: Sequence[TableExample]) -> str:
    """Return a hash of all that examples have, the same wherever their files lie.

    Raises:
        DataError: a field of an example is neither plain nor a dataclass.
    """
    return _digest_each(examples)[0]


def _digest_each(examples: Sequence[TableExample]) -> tuple[str, list[bytes]]:
    """Return a hash of all examples, and one of each."""
    whole, marks = hashlib.sha256(), []
    known: dict[int, bytes] = {}
    for example in examples:
        values = {field.name: getattr(example, field.name) for field in fields(example)}
        for name in chain.from_iterable(kind for kind in KINDS if not any(map(values.get, kind))):
            values.pop(name, None)
        content = b""
        for name in [name for name, value in values.items() if is_dataclass(value)]:  # many examples share a table
            value = values.pop(name)
            if id(value) not in known:
                known[id(value)] = hashlib.sha256(_content(value).encode()).digest()
            content += known[id(value)]
        content += json.dumps(values, default=_plain).encode()
        whole.update(content)
        marks.append(hashlib.sha256(content).digest())
    return whole.hexdigest()[:32], marks


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


def digest_code(kinds: Collection[type]) -> str:
    """Return a digest of what defines serializers and kinds of examples: modules of your own, and rooms of papers."""
    names = {base.__module__ for kind in kinds for base in kind.__mro__}
    known = (sys.stdlib_module_names, {mate_cli.__name__})
    own = sorted(name for name in names if not any(name.partition(".")[0] in some for some in known))
    files = [Path(file) for name in own if (file := getattr(sys.modules[name], "__file__", None))]
    for room in {room for name in names if (room := find_room(name))}:
        files += sorted(room.rglob("*.py"))
    return hashlib.sha256("".join(map(_read_code, files)).encode()).hexdigest()


def _read_code(file: Path) -> str:
    """Return the syntax tree of a module without comments and docstrings, which change no encoding."""
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            prose = [part for part in body if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)]
            node.body = [part for part in body if part not in prose]  # type: ignore[attr-defined]
    return ast.dump(tree)
