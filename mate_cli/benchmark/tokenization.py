"""How fast questions about tables are encoded, next to the tokenizer in `transformers`."""

from __future__ import annotations

import csv
import io
import statistics
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from rich.console import Console
from rich.table import Table as RichTable

from mate_cli.errors import DataError
from mate_cli.tables.example import TableExample
from mate_cli.tables.numbers import numeric_values
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.layout import TOKEN_TYPES, TableEncoding
from mate_cli.tokenization.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import Vocabulary, load_tokenizer

QUESTIONS = Path("data") / "random-split-1-dev.tsv"
TABLES = "csv.tar.gz"


def run(
    tables_root: str | Path,
    tokenizer: str = "minilm",
    examples: Annotated[int, Field(gt=0)] = 100,
    max_tokens: Annotated[int, Field(ge=8)] = 512,
    rounds: Annotated[int, Field(gt=0)] = 3,
) -> dict[str, float]:
    """Encode the same questions with this package and with `transformers.TapasTokenizer`, in turns.

    Every round starts with empty caches. Both get all questions of a table at once, the same vocabulary and
    length, and drop last rows that do not fit.

    Args:
        tables_root: WikiTableQuestions 1.0.2, with `csv.tar.gz` and `data/random-split-1-dev.tsv`.
        tokenizer: name of a vocabulary, see `load_tokenizer`.
        examples: how many questions.
        max_tokens: the longest encoding.
        rounds: the medians of this many rounds are reported.

    Returns:
        Examples per second of both, their ratio, and the share of equal encodings (`equal_encodings`).

    Raises:
        DataError: the files are not there.
    """
    vocabulary = load_tokenizer(tokenizer)
    found = read_questions(Path(tables_root), examples)
    encoders: dict[str, Callable[[], list[Any]]] = {
        "mate": lambda: TapasSerializer(vocabulary, sentences=0, max_tokens=max_tokens).encode(found),
        "transformers": _transformers_encoder(found, vocabulary, max_tokens),
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    outputs: dict[str, list[Any]] = {}
    for _ in range(rounds):
        for name, encode in encoders.items():
            numeric_values.cache_clear()
            start = time.perf_counter()
            outputs[name] = encode()
            seconds[name].append(time.perf_counter() - start)
    speed = {name: len(found) / statistics.median(times) for name, times in seconds.items()}
    agreement = np.mean(
        [
            equal_encodings(*pair, vocabulary.empty_id)
            for pair in zip(outputs["mate"], outputs["transformers"], strict=True)
        ]
    )
    _print(speed, float(agreement), len(found))
    return {
        **{f"tokenization/{name}/examples_per_second": value for name, value in speed.items()},
        "tokenization/speedup": speed["mate"] / speed["transformers"],
        "tokenization/agreement": float(agreement),
    }


def read_questions(root: Path, limit: int) -> list[TableExample]:
    """The first questions of the WikiTableQuestions development split, those of a table side by side.

    Raises:
        DataError: the files are not there.
    """
    path = root / QUESTIONS
    if not path.is_file() or not (root / TABLES).is_file():
        raise DataError(
            "WikiTableQuestions is not here",
            where=str(root),
            remedy=f"Set benchmark.tables_root to a folder with {TABLES} and {QUESTIONS}",
        )
    by_table: dict[str, list[tuple[str, str]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            by_table[row["context"]].append((row["id"], row["utterance"]))
    tables = _read_tables(root / TABLES, by_table)
    pairs = ((name, question) for name in by_table for question in by_table[name])
    return [TableExample(key, text, tables[name]) for name, (key, text) in islice(pairs, limit)]


def _read_tables(path: Path, names: Iterable[str]) -> dict[str, Table]:
    wanted, tables = set(names), {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name in wanted else None
            if file is not None:
                text = io.TextIOWrapper(file, encoding="utf-8", newline="")
                header, *rows = csv.reader(text, doublequote=False, escapechar="\\")
                cells = tuple(tuple(map(Cell, row)) for row in rows)
                tables[member.name] = Table(member.name, tuple(map(Cell, header)), cells)
    return tables


def _transformers_encoder(
    examples: Sequence[TableExample], vocabulary: Vocabulary, max_tokens: int
) -> Callable[[], list[Any]]:
    import pandas as pd  # type: ignore[import-untyped]
    from transformers import TapasTokenizer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("\n".join(vocabulary.tokens), encoding="utf-8")
        tokenizer = TapasTokenizer(str(path), empty_token=vocabulary.tokens[vocabulary.empty_id])
    frames, questions = {}, defaultdict(list)
    for example in examples:
        questions[id(example.table)].append(example.question)
        if id(example.table) not in frames:
            rows = [[cell.text for cell in row] for row in example.table.rows]
            frames[id(example.table)] = pd.DataFrame(rows, columns=[cell.text for cell in example.table.header])

    def encode() -> list[Mapping[str, Any]]:
        encoded: list[Mapping[str, Any]] = []
        for key, frame in frames.items():
            batch = tokenizer(table=frame, queries=questions[key], truncation="drop_rows_to_fit", max_length=max_tokens)
            columns = zip(batch["input_ids"], batch["token_type_ids"], strict=True)
            encoded += [{"input_ids": ids, "token_type_ids": types} for ids, types in columns]
        return encoded

    return encode


def equal_encodings(ours: object, theirs: Mapping[str, Any], empty_id: int) -> bool:
    """Whether two encodings are equal but for the [EMPTY] of empty cells, which `transformers` leaves out."""
    if not isinstance(ours, TableEncoding):
        return False
    kept, ids = ours.input_ids != empty_id, np.array(theirs["input_ids"])
    arrays = np.column_stack([ids, np.array(theirs["token_type_ids"])])[ids != empty_id]
    names = ("input_ids", *TOKEN_TYPES)
    return all(np.array_equal(getattr(ours, name)[kept], arrays[:, n]) for n, name in enumerate(names))


def _print(speed: Mapping[str, float], agreement: float, examples: int) -> None:
    table = RichTable(title=f"{examples} questions of WikiTableQuestions, one process")
    table.add_column("encoder")
    table.add_column("examples/s", justify="right")
    table.add_column("speed-up", justify="right")
    for name, value in speed.items():
        table.add_row(name, f"{value:,.1f}", f"{value / speed['transformers']:,.1f}x")
    console = Console()
    console.print(table)
    console.print(f"{agreement:.1%} of the encodings are equal")
