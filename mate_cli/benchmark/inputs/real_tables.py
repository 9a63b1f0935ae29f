"""Real questions and tables, as they are and encoded as in training."""

from collections import defaultdict
from dataclasses import replace
from itertools import islice
from pathlib import Path

from mate_cli.data.datasets.catalogue import find_dataset
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

LARGEST = 16
"""Tables of WikiTableQuestions to take; that there are larger ones is seen before any is encoded."""


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
