"""Real questions about large tables, encoded as in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mate_cli.benchmark.tokenization import read_questions
from mate_cli.data.hybridqa import HybridQA
from mate_cli.data.sample import Sample
from mate_cli.errors import ConfigError
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

LARGEST = 16
"""Tables of WikiTableQuestions to take; that there are larger ones is seen before any is encoded."""


def encode_hybridqa(root: Path, tokenizer: str, max_tokens: int) -> list[TableEncoding]:
    """The development questions of HybridQA with their tables, linked sentences and all.

    Raises:
        DataError: the files are not there.
    """
    examples = HybridQA(root).examples("dev")
    return _encoded(examples, TapasSerializer(load_tokenizer(tokenizer), max_tokens=max_tokens))


def encode_wtq(root: Path, tokenizer: str, max_tokens: int) -> list[TableEncoding]:
    """One question about each of the largest tables of WikiTableQuestions.

    Raises:
        DataError: the files are not there.
    """
    examples = {id(example.table): example for example in read_questions(root, 10**9)}
    largest = sorted(examples.values(), key=_letters, reverse=True)[:LARGEST]
    return _encoded(largest, TapasSerializer(load_tokenizer(tokenizer), sentences=0, max_tokens=max_tokens))


def encode_sample(root: Path, tokenizer: str, max_tokens: int) -> list[TableEncoding]:
    """The development questions that come with the package; `root` is not looked at."""
    return _encoded(Sample().examples("dev"), TapasSerializer(load_tokenizer(tokenizer), max_tokens=max_tokens))


ENCODERS: dict[str, Callable[[Path, str, int], list[TableEncoding]]] = {
    "hybridqa": encode_hybridqa,
    "wtq": encode_wtq,
    "sample": encode_sample,
}
"""The datasets that batches can be taken from."""


def encode_dataset(name: str, root: str | Path, tokenizer: str, max_tokens: int) -> list[TableEncoding]:
    """The tables of a dataset to choose batches from.

    Raises:
        ConfigError: there is no such dataset.
        DataError: its files are not there.
    """
    if name not in ENCODERS:
        raise ConfigError(
            f"no dataset is called {name!r}", where="benchmark.real", remedy=f"Choose from {', '.join(ENCODERS)}"
        )
    return ENCODERS[name](Path(root), tokenizer, max_tokens)


def _encoded(examples: Sequence[TableExample], serializer: TapasSerializer) -> list[TableEncoding]:
    return [encoding for encoding in serializer.encode(examples) if isinstance(encoding, TableEncoding)]


def _letters(example: TableExample) -> int:
    return sum(len(cell.text) for row in example.table.rows for cell in row)
