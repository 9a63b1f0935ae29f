"""Inputs of benchmarks: synthetic tables of any length, and tables of datasets."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from mate_cli.data.datasets.catalogue import find_dataset
from mate_cli.data.loading.collate import collate
from mate_cli.errors import ConfigError
from mate_cli.tables.example import TableExample, group_by_table
from mate_cli.terminal.console import Console
from mate_cli.tokenization.layout import TableBatch, TableEncoding
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

QUESTION = 24
"""Number of tokens of the question, [CLS] and [SEP] in a synthetic table.

Question tokens, [CLS] and [SEP] are global tokens.
"""
MIXED = 4
"""Number of examples in a batch of mixed lengths."""
SAMPLE = "sample"
"""Name of the sample dataset that is part of the package."""
MAX_TABLES = 16
"""Number of WikiTableQuestions tables to encode: the largest by text length in characters."""
POSITIONS = 512
VOCABULARY = 30522

Batches = Sequence[int | Literal["mixed"]]


class Shape(NamedTuple):
    """Shape of a synthetic table: its rows and columns, and how cell lengths vary.

    Args:
        rows: function that returns the number of body rows for a number of tokens.
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
"""Shapes of synthetic tables by name.

`hybridqa_like` has the size of HybridQA's median table, with heavy-tailed cell lengths.
"""


@dataclass(frozen=True)
class Case:
    """One benchmark input: a batch of synthetic tables or of tables from a dataset.

    Args:
        shape: name of the shape of synthetic tables, or name of the dataset.
        label: number of examples as text, or "mixed" for different lengths.
        batch: collated examples.
    """

    shape: str
    label: str
    batch: TableBatch

    @property
    def tokens(self) -> int:
        """Number of tokens of the longest example in the batch, the dimension T of its tensors."""
        return self.batch.input_ids.shape[1]

    @property
    def name(self) -> str:
        """Name of the benchmark input in measurements: `shape/tokens/label`."""
        return f"{self.shape}/{self.tokens}/{self.label}"


def draw_cases(shapes: Iterable[str], lengths: Sequence[int], batches: Batches) -> Iterator[Case]:
    """Yield benchmark batches of random synthetic tables, by shape and then by length.

    Args:
        shapes: names in `SHAPES`.
        lengths: lengths of the longest example of a batch, in tokens.
        batches: numbers of examples, or "mixed" for four examples of lengths n, 3/4 n, n/2 and n/4.

    Raises:
        ConfigError: a shape is unknown, or a length has no room for a question and a table.
    """
    for shape in shapes:
        for tokens in sorted(lengths):
            for label in batches:
                encodings = [draw_table(shape, length, seed) for seed, length in enumerate(spread(label, tokens))]
                yield Case(shape, str(label), together(encodings))


def spread(label: int | str, tokens: int) -> list[int]:
    """Return the length in tokens of each example of a synthetic batch, longest first.

    The longest example has `tokens` tokens.

    All lengths are equal, except in a "mixed" batch, whose lengths are n, 3/4 n, n/2 and n/4.
    """
    if label == "mixed":
        return [tokens - tokens * i // MIXED for i in range(MIXED)]
    return [tokens] * int(label)


def draw_table(shape: str, tokens: int, seed: int) -> TableEncoding:
    """Sample a synthetic table with a question, without header, of exactly `tokens` tokens.

    Args:
        shape: name in `SHAPES`.
        tokens: number of tokens of question and table together.
        seed: seed of the random generator.

    Raises:
        ConfigError: the shape is unknown, or `tokens` is too small for a question and a table.
    """
    if shape not in SHAPES:
        hint = f"Choose from {', '.join(SHAPES)}"
        raise ConfigError(f"unknown table shape {shape!r}", where="benchmark.shapes", remedy=hint)
    question = min(QUESTION, tokens // 2)
    if not question:
        problem = f"{tokens} tokens are too few for a table"
        raise ConfigError(problem, where="benchmark.lengths", remedy="Give 2 or more")
    random = np.random.default_rng([seed, tokens])
    rows_of, columns, sigma = SHAPES[shape]
    rows = rows_of(tokens)
    weights = np.exp(sigma * random.standard_normal(rows * columns))
    borders = np.round(weights.cumsum() / weights.sum() * (tokens - question)).astype(int)
    cells = np.repeat(np.arange(rows * columns), np.diff(borders, prepend=0))
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
    """Yield benchmark batches of a dataset's longest tables, or of evenly spaced lengths.

    Args:
        name: name of the dataset.
        encodings: encoded tables.
        batches: numbers of examples, or "mixed".
    """
    by_length = sorted(encodings, key=len, reverse=True)
    for label in batches:
        if label == "mixed":
            members = [by_length[i * (len(by_length) - 1) // MIXED] for i in range(MIXED)]
        else:
            members = by_length[: int(label)]
        yield Case(name, str(label), together(members))


together = partial(collate, reset_positions=True, max_positions=POSITIONS)
"""Function that collates encodings to a padded batch.

Positions restart in every cell.
"""


def find_real(names: Sequence[str] | None, folders: Sequence[str]) -> dict[str, Path]:
    """Return {dataset name: folder} for the datasets on disk, and print the missing datasets.

    Args:
        names: names of datasets, None for no datasets.
        folders: folders that may contain a subfolder named after a dataset.

    Returns:
        The folder of each available dataset, by name. If no dataset is available, the sample dataset of the package is
            returned. The result is empty without names.
    """
    paths_by_name = {name: [Path(folder).expanduser() / name for folder in folders] for name in names or ()}
    roots = {name: root for name, paths in paths_by_name.items() if (root := next(filter(Path.is_dir, paths), None))}
    if names and (not roots or SAMPLE in names):
        roots[SAMPLE] = Path("the package")
    if names:
        available = ", ".join(f"{name} ({root})" for name, root in roots.items())
        absent = ", ".join(name for name in names if name not in roots)
        hint = f"; not there: {absent} (mate data download data=NAME)" if absent else ""
        Console(stderr=True, highlight=False).print(f"real tables: {available}{hint}", soft_wrap=True)
    return roots


def real_questions(name: str, root: str | Path, limit: int | None = None) -> list[TableExample]:
    """Load the first dev questions of a dataset without gold answers, grouped by table.

    Args:
        name: name of the dataset.
        root: folder of the dataset.
        limit: maximum number of questions; None for all.

    Raises:
        DataError: the dataset is unknown, or its files are missing.
    """
    examples = find_dataset(name).open(Path(root)).examples("dev")
    indices = [index for group in group_by_table(examples) for index in group][:limit]
    return [replace(examples[index], answer=None, history=(), previous_cells=()) for index in indices]


def encode_dataset(name: str, root: str | Path, tokenizer: str, max_tokens: int) -> list[TableEncoding]:
    """Read and encode the dev questions of a dataset, as realistic inputs of a benchmark.

    If tables have linked passages, sentences of these passages are encoded too.

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
        by_table = {id(example.table): example for example in examples}
        sizes = {key: sum(len(c.text) for row in e.table.rows for c in row) for key, e in by_table.items()}
        examples = [by_table[key] for key in sorted(sizes, key=sizes.__getitem__, reverse=True)[:MAX_TABLES]]
    serializer = TapasSerializer(load_tokenizer(tokenizer), max_tokens=max_tokens)
    return [encoding for encoding in serializer.encode(examples) if isinstance(encoding, TableEncoding)]
