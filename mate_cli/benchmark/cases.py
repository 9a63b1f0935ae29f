"""Inputs of benchmarks: tables of known shapes at any length, and batches of real ones."""

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
"""Tokens of the question, [CLS] and [SEP] in a drawn table; all of them are global."""
MIXED = 4
"""Examples in a batch of mixed lengths."""
SAMPLE = "sample"
"""The dataset that comes with the package."""
MAX_TABLES = 16
"""Tables of WikiTableQuestions to take; that there are larger ones is seen before any is encoded."""
POSITIONS = 512
VOCABULARY = 30522

Batches = Sequence[int | Literal["mixed"]]


class Shape(NamedTuple):
    """The shape of a drawn table: its rows by number of tokens, its columns, and the spread of cell lengths.

    Args:
        rows: body rows of a table of so many tokens.
        columns: of every table.
        sigma: cell lengths are log-normal with this deviation.
    """

    rows: Callable[[int], int]
    columns: int
    sigma: float


SHAPES = {
    "square": Shape(lambda tokens: 20, 6, 0.5),
    "tall": Shape(lambda tokens: max(2, tokens // 24), 6, 0.3),
    "hybridqa_like": Shape(lambda tokens: 15, 5, 0.8),
}
"""The tables that are drawn; `hybridqa_like` is HybridQA's median table with its heavy-tailed cells."""


@dataclass(frozen=True)
class Case:
    """One batch to measure on.

    Args:
        label: the number of examples, or "mixed" for different lengths.
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
        """As in the names of figures: shape, tokens, batch."""
        return f"{self.shape}/{self.tokens}/{self.label}"


def draw_cases(shapes: Iterable[str], lengths: Sequence[int], batches: Batches, seed: int = 0) -> Iterator[Case]:
    """Return batches of drawn tables, the shortest first; a mixed batch has lengths n, 3/4 n, n/2 and n/4.

    Raises:
        ConfigError: there is no such shape, or no room for a question and a table.
    """
    for shape in shapes:
        for tokens in sorted(lengths):
            for label in batches:
                encodings = [draw_table(shape, length, seed + i) for i, length in enumerate(spread(label, tokens))]
                yield Case(shape, str(label), together(encodings))


def spread(label: int | str, tokens: int) -> list[int]:
    """Return the lengths of the examples of a batch of which the longest has so many tokens."""
    if label == "mixed":
        return [tokens - tokens * i // MIXED for i in range(MIXED)]
    return [tokens] * int(label)


def draw_table(shape: str, tokens: int, seed: int) -> TableEncoding:
    """Return one table without a header, of exactly so many tokens; cells may be empty.

    Raises:
        ConfigError: there is no such shape, or no room for a question and a table.
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
    """Pick batches of real tables: the longest one, the longest four, and in a mixed batch a sample of all lengths."""
    by_length = sorted(encodings, key=len, reverse=True)
    for label in batches:
        if label == "mixed":
            chosen = [by_length[i * (len(by_length) - 1) // MIXED] for i in range(MIXED)]
        else:
            chosen = by_length[: int(label)]
        yield Case(name, str(label), together(chosen))


together = partial(collate, reset_positions=True, max_positions=POSITIONS)
"""Pads encodings to a batch whose positions restart in every cell."""


def find_real(names: Sequence[str] | None, folders: Sequence[str]) -> dict[str, Path]:
    """Find the datasets to measure on in some folders, each in the folder of its name; say which are there.

    Returns:
        The folder of each; of those that are not there none, and of the sample alone where none is.
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
    """Count the real tokens of every example."""
    return [int(length) for length in torch.sum(batch.attention_mask == 1, dim=1)]


def real_questions(name: str, root: str | Path, limit: int | None = None) -> list[TableExample]:
    """Return the first development questions of a dataset, those of a table side by side, without their answers.

    Raises:
        DataError: there is no such dataset, or its files are not there.
    """
    examples = find_dataset(name).open(Path(root)).examples("dev")
    places = [place for group in group_by_table(examples) for place in group][:limit]
    return [replace(examples[place], answer=None, history=(), previous_cells=()) for place in places]


def encode_dataset(name: str, root: str | Path, tokenizer: str, max_tokens: int) -> list[TableEncoding]:
    """Return the tables of a dataset to choose batches from: of WikiTableQuestions one question on each of the largest.

    Linked sentences are appended where there are any.

    Raises:
        DataError: there is no such dataset, or its files are not there.
    """
    examples = real_questions(name, root)
    if name == "wtq":
        one_each = {id(example.table): example for example in examples}
        examples = sorted(one_each.values(), key=_letters, reverse=True)[:MAX_TABLES]
    serializer = TapasSerializer(load_tokenizer(tokenizer), max_tokens=max_tokens)
    return [encoding for encoding in serializer.encode(examples) if isinstance(encoding, TableEncoding)]


def _letters(example: TableExample) -> int:
    return sum(len(cell.text) for row in example.table.rows for cell in row)
