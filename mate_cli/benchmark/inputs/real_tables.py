"""Real questions and tables, as they are and encoded as in training."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from mate_cli.data.datasets.catalogue import find_dataset
from mate_cli.tables.example import TableExample
from mate_cli.terminal.console import Console
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

AUTO, SAMPLE = "auto", "sample"
"""In place of a folder: the dataset where it is there; and the dataset that comes with the package."""
LARGEST = 16
"""Tables of WikiTableQuestions to take; that there are larger ones is seen before any is encoded."""


def find_real(real: Mapping[str, str] | None, folders: Sequence[str]) -> dict[str, str]:
    """Find the datasets to measure on, and say which they are where that was left open.

    Args:
        real: the folder of each dataset, or `AUTO`.
        folders: where those are looked for; of several, in the folder of its name.

    Returns:
        The folder of each; of `AUTO` those that are there, or else the sample alone.
    """
    named = {name: root for name, root in (real or {}).items() if root != AUTO}
    auto = [name for name, root in (real or {}).items() if root == AUTO]
    places = {name: [Path(folder).expanduser() / name for folder in folders] for name in auto}
    found = {name: next((str(place) for place in paths if place.is_dir()), None) for name, paths in places.items()}
    there = {name: root for name, root in found.items() if root}
    if auto and not there and not named:
        there = {SAMPLE: "the package"}
    if auto:
        used = ", ".join(f"{name} ({root})" for name, root in there.items()) or "those that are named"
        absent = [name for name in auto if name not in there]
        missing = f"; not there: {', '.join(absent)} (mate data download data=NAME)" if absent else ""
        Console(stderr=True, highlight=False).print(f"real tables: {used}{missing}", soft_wrap=True)
    return named | there


def real_questions(name: str, root: str | Path, limit: int | None = None) -> list[TableExample]:
    """The first development questions of a dataset, those of a table side by side, without their answers.

    Raises:
        DataError: there is no such dataset, or its files are not there.
    """
    by_table: dict[int, list[TableExample]] = defaultdict(list)
    for example in find_dataset(name).open(Path(root)).examples("dev"):
        by_table[id(example.table)].append(replace(example, answer=None, history=(), previous_cells=()))
    return list(islice((example for examples in by_table.values() for example in examples), limit))


def encode_dataset(name: str, root: str | Path, tokenizer: str, max_tokens: int) -> list[TableEncoding]:
    """The tables of a dataset to choose batches from: of WikiTableQuestions one question on each of the largest.

    Linked sentences are appended where there are any.

    Raises:
        DataError: there is no such dataset, or its files are not there.
    """
    examples = real_questions(name, root)
    if name == "wtq":
        one_each = {id(example.table): example for example in examples}
        examples = sorted(one_each.values(), key=_letters, reverse=True)[:LARGEST]
    serializer = TapasSerializer(load_tokenizer(tokenizer), max_tokens=max_tokens)
    return [encoding for encoding in serializer.encode(examples) if isinstance(encoding, TableEncoding)]


def _letters(example: TableExample) -> int:
    return sum(len(cell.text) for row in example.table.rows for cell in row)
