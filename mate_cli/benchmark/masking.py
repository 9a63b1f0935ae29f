"""How fast masked examples are made, next to how fast a network can learn from them."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from rich.table import Table as RichTable

from mate_cli.benchmark.timing.countdown import counted
from mate_cli.data.corpora.table_corpus import MaskedTables, TableCorpus
from mate_cli.data.loading.stream import TableStream
from mate_cli.data.loading.table_data_module import Loading
from mate_cli.terminal.console import Console
from mate_cli.tokenization.serializers.masking import MaskingSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

EPOCHS = ("first", "later")
"""In the first epoch tables are read and split into word pieces, in later ones the pieces are remembered."""


class MaskingBenchmark:
    """Make batches of masked examples from a corpus, as one loading process does; one core is all it uses.

    Seconds are those of the processor, so that other work on the machine hardly counts.
    """

    def __init__(
        self,
        datasets: str | Path,
        cache: str | Path,
        sources: Sequence[str] = ("wtq", "tabfact"),
        tokenizer: str = "minilm",
        lengths: Sequence[int] = (128, 512, 2048),
        tables: Annotated[int, Field(gt=0)] = 1600,
        batch: Annotated[int, Field(gt=0)] = 32,
    ) -> None:
        self.corpus = TableCorpus(Path(datasets), Path(cache), tuple(sources), exclude=())
        self.tokenizer, self.lengths, self.tables, self.batch = tokenizer, tuple(lengths), tables, batch

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield, length by length, examples per second in the first and in later epochs, and their mean length.

        Raises:
            DataError: a source is not there.
        """
        vocabulary, shards = load_tokenizer(self.tokenizer), self.corpus.files
        table = RichTable(title="Masked examples made per second of one core")
        for heading in ("tokens, at most", "tokens, mean", "first epoch", "later epochs"):
            table.add_column(heading, justify="right")

        def stream(length: int) -> TableStream:
            loading = Loading(self.batch, 0, 1, length > 512, 512, self.corpus.cache, limit_train=self.tables)
            return TableStream(shards, MaskedTables(MaskingSerializer(vocabulary, max_tokens=length)), loading)

        lengths = {f"{length:,} tokens": length for length in self.lengths}
        expected = {name: _expected(stream(length)) for name, length in lengths.items()}
        for _, length in counted(lengths, expected):
            speed, mean = _measure(stream(length))
            table.add_row(f"{length:,}", f"{mean:.0f}", *(f"{speed[epoch]:,.0f}" for epoch in EPOCHS))
            found = {f"{epoch}_epoch/examples_per_second": value for epoch, value in speed.items()}
            yield {f"masking/{length}/{name}": value for name, value in {**found, "mean_tokens": mean}.items()}
        Console().print(table)


def _expected(stream: TableStream) -> float:
    """About how many seconds a length takes, from its first batch."""
    began = time.perf_counter()
    len(stream[0].input_ids)
    return len(EPOCHS) * (len(stream) // stream.loading.micro_batch) * (time.perf_counter() - began)


def _measure(stream: TableStream) -> tuple[dict[str, float], float]:
    """Examples per second of each of `EPOCHS`, and the mean number of tokens of an example."""
    per_epoch = len(stream) // stream.loading.micro_batch
    speed, tokens = {}, 0
    for place, epoch in enumerate(EPOCHS):
        start = time.process_time()
        for number in range(place * per_epoch, (place + 1) * per_epoch):
            tokens += int(stream[number].attention_mask.sum())
        speed[epoch] = per_epoch * stream.loading.micro_batch / (time.process_time() - start)
    return speed, tokens / (len(EPOCHS) * per_epoch * stream.loading.micro_batch)
