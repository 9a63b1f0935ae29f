"""How fast questions about tables are encoded, next to the tokenizer in `transformers`.

python tools/benchmarks/tokenization.py data.wtq=../shared/data/wtq
"""

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from command import run
from pydantic import Field, PositiveInt
from rich.table import Table as RichTable

from mate_cli.benchmark.cases import real_questions
from mate_cli.tables.example import TableExample
from mate_cli.tables.numbers import numeric_values
from mate_cli.terminal.console import Console
from mate_cli.tokenization.layout import TOKEN_TYPES, TableEncoding
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import Vocabulary, load_tokenizer

OURS, THEIRS = "mate", "transformers"


@dataclass
class TokenizationBenchmark:
    """Encode the same questions with this package and with `transformers.TapasTokenizer`, in turns.

    Seconds are those of the processor, all threads together, so that other work on the machine hardly counts. Every
    round starts with empty caches. Both get all questions of a table at once, the same vocabulary and length, and drop
    last rows that do not fit; linked passages are not read, as the other one cannot.
    """

    data: Mapping[str, str]
    tokenizer: str = "minilm"
    examples: PositiveInt = 100
    max_tokens: Annotated[int, Field(ge=8)] = 512
    rounds: PositiveInt = 3

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield, dataset by dataset, examples per second of both, their ratio, and the share of equal encodings.

        Raises:
            ConfigError: there is no such dataset.
            DataError: its files are not there.
        """
        vocabulary, table = load_tokenizer(self.tokenizer), _table(self.max_tokens)
        for name, root in self.data.items():
            examples = real_questions(name, root, self.examples)
            speed, agreement = compare_tokenizers(examples, vocabulary, self.max_tokens, self.rounds)
            ratio = speed[OURS] / speed[THEIRS]
            table.add_row(
                name,
                str(len(examples)),
                *(f"{x:,.1f}" for x in (speed[OURS], speed[THEIRS])),
                f"{ratio:,.1f}x",
                f"{agreement:.1%}",
            )
            yield {
                **{f"tokenization/{name}/{encoder}/examples_per_second": value for encoder, value in speed.items()},
                f"tokenization/{name}/speedup": ratio,
                f"tokenization/{name}/agreement": agreement,
            }
        Console().print(table)


def compare_tokenizers(
    examples: Sequence[TableExample], vocabulary: Vocabulary, max_tokens: int, rounds: int
) -> tuple[dict[str, float], float]:
    """Examples per second of processor time of both encoders, and the share of their encodings that are equal."""
    encoders: dict[str, Callable[[], list[Any]]] = {
        OURS: lambda: TapasSerializer(vocabulary, sentences=0, max_tokens=max_tokens).encode(examples),
        THEIRS: transformers_encoder(examples, vocabulary, max_tokens),
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    outputs: dict[str, list[Any]] = {}
    for _ in range(rounds):
        for name, encode in encoders.items():
            numeric_values.cache_clear()
            start = time.process_time()
            outputs[name] = encode()
            seconds[name].append(time.process_time() - start)
    speed = {name: len(examples) / statistics.median(times) for name, times in seconds.items()}
    pairs = zip(outputs[OURS], outputs[THEIRS], strict=True)
    return speed, float(np.mean([equal_encodings(*pair, vocabulary.empty_id) for pair in pairs]))


def transformers_encoder(
    examples: Sequence[TableExample], vocabulary: Vocabulary, max_tokens: int
) -> Callable[[], list[Any]]:
    """`transformers.TapasTokenizer` with the same vocabulary, all questions of a table at once."""
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


def _table(max_tokens: int) -> RichTable:
    table = RichTable(title=f"Questions encoded per second of processor time, {max_tokens:,} tokens")
    table.add_column("dataset")
    for heading in ("questions", OURS, THEIRS, "speed-up", "equal"):
        table.add_column(heading, justify="right")
    return table


if __name__ == "__main__":
    run(TokenizationBenchmark)
