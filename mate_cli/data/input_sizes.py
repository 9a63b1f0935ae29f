"""Lengths of a dataset's inputs in word pieces, shares of them that fit a network, and of ambiguous answers.

Source: the claims of the MATE paper, section 4: tables with passages do not fit, with a few sentences of them most do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mate_cli.data.check import CheckReport, percentiles
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.serializers.tapas import TapasSerializer

if TYPE_CHECKING:
    from mate_cli.data.datasets.catalogue import TableDataset
    from mate_cli.tables.example import TableExample
    from mate_cli.tokenization.vocabulary import Vocabulary

MAX_EXAMPLES = 1000
"""Of a split, evenly drawn from it."""
SENTENCES = 5
LENGTHS = (512, 1024, 2048)
LONG = 11_000
"""Word pieces with which the paper would cover nine of ten inputs with whole passages, or a little more."""


@dataclass(frozen=True)
class InputSizes:
    """The inputs of a split.

    Args:
        with_passages: word pieces of each input with all linked passages; empty where tables have none.
        with_sentences: with the sentences nearest to the question.
        candidates: of each question whose answer is known and in the table or its passages, the cells that may hold it.
    """

    with_passages: Sequence[int]
    with_sentences: Sequence[int]
    candidates: Sequence[int]

    def shares(self) -> dict[str, float]:
        """Return the share of inputs of each property, by its name."""
        shares = {f"more than {LONG:,} word pieces with passages": share_within(self.with_passages, LONG, more=True)}
        what = f"with {SENTENCES} sentences" if self.with_passages else "in all"
        shares |= {
            f"at most {length:,} word pieces {what}": share_within(self.with_sentences, length) for length in LENGTHS
        }
        if self.with_passages:
            shares["more than one cell may hold the answer"] = share_within(self.candidates, 1, more=True)
        return {name: value for name, value in shares.items() if value is not None}


def share_within(values: Sequence[int], bound: int, *, more: bool = False) -> float | None:
    """Return the share of values that are at most a bound, or more; None without values."""
    return sum((value > bound) == more for value in values) / len(values) if values else None


def with_input_sizes(report: CheckReport, dataset: TableDataset, tokenizer: Vocabulary) -> CheckReport:
    """Return a report of a dataset's check with the sizes of inputs, of at most `MAX_EXAMPLES` of each split.

    Raises:
        DataError: the data are damaged.
    """
    inputs = {split: input_sizes(_drawn(dataset.examples(split)), tokenizer) for split in dataset.splits}
    whole = [size for split_inputs in inputs.values() for size in split_inputs.with_passages]
    cut = [size for split_inputs in inputs.values() for size in split_inputs.with_sentences]
    name = f"word pieces with {SENTENCES} sentences" if whole else "word pieces"
    measures = {"word pieces with passages": whole, name: cut}
    sizes = {name: percentiles(values) for name, values in measures.items() if values}
    shares = {split: split_inputs.shares() for split, split_inputs in inputs.items()}
    return replace(report, percentiles={**report.percentiles, **sizes}, shares=shares)


def input_sizes(examples: Sequence[TableExample], tokenizer: Vocabulary) -> InputSizes:
    """Count the word pieces of inputs as they are before anything is cut; what cannot be encoded is left out."""
    linked = any(example.table.passages for example in examples)
    counts = [
        [
            encoding.uncut_tokens
            for encoding in TapasSerializer(
                tokenizer, max_tokens=max(LENGTHS), sentences=0 if whole else SENTENCES, whole_passages=whole
            ).encode(examples)
            if not isinstance(encoding, EncodingFailure)
        ]
        for whole in ((True, False) if linked else (False,))
    ]
    cells = [len(example.answer.coordinates) for example in examples if example.answer and example.answer.coordinates]
    return InputSizes(counts[0] if linked else (), counts[-1], cells)


def _drawn(examples: Sequence[TableExample]) -> Sequence[TableExample]:
    step = -(-len(examples) // MAX_EXAMPLES)
    return examples[:: max(1, step)]
