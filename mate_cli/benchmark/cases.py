"""Inputs of benchmarks: synthetic tables of any length, and batches of real tables."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from mate_cli.data.datasets.catalogue import find_dataset
from mate_cli.data.loading.collate import collate
from mate_cli.errors import ConfigError
from mate_cli.tables.example import TableExample, group_by_table
from mate_cli.terminal.console import Console
from mate_cli.tokenization.layout import TableBatch, TableEncoding
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

QUESTION = 24
"""Number of tokens of the question, [CLS] and [SEP] in a synthetic table. All of them are global."""
MIXED = 4
"""Number of examples in a batch of mixed lengths."""
SAMPLE = "sample"
"""Name of the dataset that is part of mate_cli."""
MAX_TABLES = 16
"""Number of largest tables of WikiTableQuestions to use. They are selected by text length, before encoding."""
POSITIONS = 512
VOCABULARY = 30522

Batches = Sequence[int | Literal["mixed"]]


class Shape(NamedTuple):
    """The shape of a synthetic table.

    Args:
        rows: returns the number of body rows for a number of tokens.
        columns: number of columns.
        sigma: standard deviation of the logarithm of the cell lengths, which are log-normal.
    """

    rows: Callable[[int], int]
    columns: int
    sigma: float


SHAPES = {
    "square": Shape(lambda tokens: 20, 6, 0.5),
    "tall": Shape(lambda tokens: max(2, tokens // 24), 6, 0.3),
    "hybridqa_like": Shape(lambda tokens: 15, 5, 0.8),
}
"""Shapes of synthetic tables. `hybridqa_like` is HybridQA's median table with heavy-tailed cell lengths."""


@dataclass(frozen=True)
class Case:
    """One batch to measure on.

    Args:
        shape: shape of the synthetic tables, or name of the dataset.
        label: number of examples, or "mixed" for different lengths.
        batch: collated examples.
    """

    shape: str
    label: str
    batch: TableBatch

    @property
    def tokens(self) -> int:
        """The length T of the longest example."""
        return self.batch.input_ids.shape[1]

    @property
    def name(self) -> str:
        """Name in the keys of measurements: shape, tokens and batch."""
        return f"{self.shape}/{self.tokens}/{self.label}"


def draw_cases(shapes: Iterable[str], lengths: Sequence[int], batches: Batches, seed: int = 0) -> Iterator[Case]:
    """Yield batches of synthetic tables, sorted by length within each shape.

    Args:
        shapes: names in `SHAPES`.
        lengths: numbers of tokens of the longest example.
        batches: numbers of examples, or "mixed" for lengths n, 3/4 n, n/2 and n/4.
        seed: seed of the first example of each batch.

    Raises:
        ConfigError: a shape is unknown, or a length has no room for a question and a table.
    """
    for shape in shapes:
        for tokens in sorted(lengths):
            for label in batches:
                encodings = [draw_table(shape, length, seed + i) for i, length in enumerate(spread(label, tokens))]
                yield Case(shape, str(label), together(encodings))


def spread(label: int | str, tokens: int) -> list[int]:
    """Return the lengths of the examples of a batch whose longest example has `tokens` tokens."""
    if label == "mixed":
        return [tokens - tokens * i // MIXED for i in range(MIXED)]
    return [tokens] * int(label)


def draw_table(shape: str, tokens: int, seed: int) -> TableEncoding:
    """Sample one table without a header, of exactly `tokens` tokens. Cells may be empty.

    Args:
        shape: name in `SHAPES`.
        tokens: number of tokens of question and table.
        seed: seed of the generator.

    Raises:
        ConfigError: the shape is unknown, or there is no room for a question and a table.
    """
    if shape not in SHAPES:
        raise ConfigError(
            f"unknown table shape {shape!r}", where="benchmark.shapes", remedy=f"Choose from {', '.join(SHAPES)}"
        )
    question = min(QUESTION, tokens // 2)
    if not question:
        raise ConfigError(
            f"{tokens} tokens are too few for a table", where="benchmark.lengths", remedy="Give 2 or more"
        )
    random = np.random.default_rng([seed, tokens])
    rows_of, columns, sigma = SHAPES[shape]
    rows = rows_of(tokens)
    weights = np.exp(sigma * random.standard_normal(rows * columns))
    ends = np.round(weights.cumsum() / weights.sum() * (tokens - question)).astype(int)
    cells = np.repeat(np.arange(rows * columns), np.diff(ends, prepend=0))
    row_ids, column_ids = (np.append(np.zeros(question, int), ids + 1) for ids in np.divmod(cells, columns))
    zero = np.zeros(tokens, int)
    return TableEncoding(
        example_id=f"{shape}-{tokens}-{seed}",
        input_ids=random.integers(1000, VOCABULARY, tokens),
        segment_ids=(row_ids > 0).astype(int),
        column_ids=column_ids,
        row_ids=row_ids,
        previous_labels=zero,
        column_ranks=zero,
        inverse_column_ranks=zero,
        numeric_relations=zero,
        label_ids=zero,
    )


def pick_cases(name: str, encodings: Sequence[TableEncoding], batches: Batches) -> Iterator[Case]:
    """Yield batches of real tables: the longest, or for "mixed" a sample of all lengths.

    Args:
        name: name of the dataset.
        encodings: encoded tables.
        batches: numbers of examples, or "mixed".
    """
    by_length = sorted(encodings, key=len, reverse=True)
    for label in batches:
        if label == "mixed":
            chosen = [by_length[i * (len(by_length) - 1) // MIXED] for i in range(MIXED)]
        else:
            chosen = by_length[: int(label)]
        yield Case(name, str(label), together(chosen))


together = partial(collate, reset_positions=True, max_positions=POSITIONS)
"""Function that pads encodings to a batch. Positions restart in every cell."""


def find_real(names: Sequence[str] | None, folders: Sequence[str]) -> dict[str, Path]:
    """Find datasets in subfolders of their names, and print which datasets are available.

    Returns:
        The folder of each available dataset, or of the sample dataset if none is available; empty without names.
    """
    places = {name: [Path(folder).expanduser() / name for folder in folders] for name in names or ()}
    roots = {name: root for name, paths in places.items() if (root := next(filter(Path.is_dir, paths), None))}
    if names and (not roots or SAMPLE in names):
        roots[SAMPLE] = Path("the package")
    if names:
        used = ", ".join(f"{name} ({root})" for name, root in roots.items())
        absent = ", ".join(name for name in names if name not in roots)
        missing = f"; not there: {absent} (mate data download data=NAME)" if absent else ""
        Console(stderr=True, highlight=False).print(f"real tables: {used}{missing}", soft_wrap=True)
    return roots


def real_lengths(batch: TableBatch) -> list[int]:
    """Return the number of tokens of each example, padding excluded."""
    return [int(length) for length in torch.sum(batch.attention_mask == 1, dim=1)]


def real_questions(name: str, root: str | Path, limit: int | None = None) -> list[TableExample]:
    """Return the first dev questions of a dataset without answers, grouped by table.

    Args:
        name: name of the dataset.
        root: folder of the dataset.
        limit: maximum number of questions; None for all.

    Raises:
        DataError: the dataset is unknown, or its files are missing.
    """
    examples = find_dataset(name).open(Path(root)).examples("dev")
    places = [place for group in group_by_table(examples) for place in group][:limit]
    return [replace(examples[place], answer=None, history=(), previous_cells=()) for place in places]


def encode_dataset(name: str, root: str | Path, tokenizer: str, max_tokens: int) -> list[TableEncoding]:
    """Encode the dev questions of a dataset, including linked sentences if available.

    For WikiTableQuestions, encode one question for each of the `MAX_TABLES` largest tables.

    Args:
        name: name of the dataset.
        root: folder of the dataset.
        tokenizer: name of the tokenizer.
        max_tokens: maximum number of tokens per example.

    Raises:
        DataError: the dataset is unknown, or its files are missing.
    """
    examples = real_questions(name, root)
    if name == "wtq":
        one_each = {id(example.table): example for example in examples}
        examples = sorted(one_each.values(), key=_letters, reverse=True)[:MAX_TABLES]
    serializer = TapasSerializer(load_tokenizer(tokenizer), max_tokens=max_tokens)
    return [encoding for encoding in serializer.encode(examples) if isinstance(encoding, TableEncoding)]


def _letters(example: TableExample) -> int:
    return sum(len(cell.text) for row in example.table.rows for cell in row)
