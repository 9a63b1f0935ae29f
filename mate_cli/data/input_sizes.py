"""Input lengths of a dataset in tokens, and the shares of inputs that fit common networks.

Source: MATE paper, section 4, which claims that tables with whole passages do not fit a network, but that most tables
with a few sentences fit.
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
"""Maximum number of examples per split, evenly spaced."""
SAMPLE_SENTENCES = 5
LENGTHS = (512, 1024, 2048)
LONG = 11_000
"""Number of tokens that, by the MATE paper, covers at least nine of ten inputs with whole passages."""


@dataclass(frozen=True)
class InputSizes:
    """Input lengths (tokens) and counts of candidate answer cells of a split's questions.

    Args:
        with_passages: number of tokens of each input with all linked passages. Empty if tables have no passages.
        with_sentences: number of tokens of each input with the sentences most similar to the question.
        candidates: number of cells that may contain the answer, for each question with answer cells.
    """

    with_passages: Sequence[int]
    with_sentences: Sequence[int]
    candidates: Sequence[int]

    def shares(self) -> dict[str, float]:
        """Return the share of inputs in each category, such as "at most 512 word pieces in all"."""
        shares = {f"more than {LONG:,} word pieces with passages": share_within(self.with_passages, LONG, more=True)}
        input_type = f"with {SAMPLE_SENTENCES} sentences" if self.with_passages else "in all"
        shares |= {
            f"at most {length:,} word pieces {input_type}": share_within(self.with_sentences, length)
            for length in LENGTHS
        }
        if self.with_passages:
            shares["more than one cell may hold the answer"] = share_within(self.candidates, 1, more=True)
        return {name: value for name, value in shares.items() if value is not None}


def share_within(values: Sequence[int], bound: int, *, more: bool = False) -> float | None:
    """Return the share of values that are at most `bound`, or None without values.

    Args:
        values: values to compare.
        bound: bound of the values.
        more: whether to return the share of values above the bound instead.
    """
    return sum((value > bound) == more for value in values) / len(values) if values else None


def with_input_sizes(report: CheckReport, dataset: TableDataset, tokenizer: Vocabulary) -> CheckReport:
    """Return a check report with the distribution of input lengths in tokens added.

    At most `MAX_EXAMPLES` examples per split are measured.

    Args:
        report: report of checking the dataset.
        dataset: dataset with the examples.
        tokenizer: vocabulary that tokenizes the inputs.

    Raises:
        DataError: the data are damaged.
    """
    inputs = {split: input_sizes(_drawn(dataset.examples(split)), tokenizer) for split in dataset.splits}
    passage_sizes = [size for split_inputs in inputs.values() for size in split_inputs.with_passages]
    sentence_sizes = [size for split_inputs in inputs.values() for size in split_inputs.with_sentences]
    name = f"word pieces with {SAMPLE_SENTENCES} sentences" if passage_sizes else "word pieces"
    measures = {"word pieces with passages": passage_sizes, name: sentence_sizes}
    sizes = {name: percentiles(values) for name, values in measures.items() if values}
    shares = {split: split_inputs.shares() for split, split_inputs in inputs.items()}
    return replace(report, percentiles={**report.percentiles, **sizes}, shares=shares)


def input_sizes(examples: Sequence[TableExample], tokenizer: Vocabulary) -> InputSizes:
    """Measure the length in tokens of each example's input before truncation.

    Examples that cannot be encoded are omitted.

    Args:
        examples: examples to measure.
        tokenizer: vocabulary that tokenizes the inputs.
    """
    has_passages = any(example.table.passages for example in examples)
    counts = []
    for is_full in (True, False) if has_passages else (False,):
        sentences = 0 if is_full else SAMPLE_SENTENCES
        serializer = TapasSerializer(tokenizer, max_tokens=max(LENGTHS), sentences=sentences, whole_passages=is_full)
        encodings = serializer.encode(examples)
        counts.append([e.uncut_tokens for e in encodings if not isinstance(e, EncodingFailure)])
    cells = [len(example.answer.coordinates) for example in examples if example.answer and example.answer.coordinates]
    return InputSizes(counts[0] if has_passages else (), counts[-1], cells)


def _drawn(examples: Sequence[TableExample]) -> Sequence[TableExample]:
    step = -(-len(examples) // MAX_EXAMPLES)
    return examples[:: max(1, step)]
