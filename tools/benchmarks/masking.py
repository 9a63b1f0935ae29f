"""How many masked examples one core makes per second, from tables on disk to batches.

python tools/benchmarks/masking.py datasets=../shared/data cache=build/cache
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from command import run
from pydantic import PositiveInt
from rich.table import Table as RichTable

from mate_cli.data.corpora.table_corpus import TableCorpus
from mate_cli.data.loading.stream import TableStream
from mate_cli.data.loading.table_data_module import LoaderOptions
from mate_cli.terminal.console import Console
from mate_cli.tokenization.serializers.masking import MaskingSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

EPOCHS = ("first", "later")
"""In the first epoch tables are read and split into word pieces, in later ones the pieces are remembered."""


@dataclass
class MaskingBenchmark:
    """Make batches of masked examples from a corpus, as one loading process does; one core is all it uses.

    Seconds are those of the processor, so that other work on the machine hardly counts.
    """

    datasets: Path
    cache: Path
    sources: Sequence[str] = ("wtq", "tabfact")
    tokenizer: str = "minilm"
    lengths: Sequence[PositiveInt] = (128, 512, 2048)
    tables: PositiveInt = 1600
    batch: PositiveInt = 32

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield, length by length, examples per second in the first and in later epochs, and their mean length.

        Raises:
            DataError: a source is not there.
        """
        corpus = TableCorpus(Path(self.datasets), Path(self.cache), tuple(self.sources), exclude=())
        serializers = {
            length: MaskingSerializer(load_tokenizer(self.tokenizer), max_tokens=length) for length in self.lengths
        }
        table = RichTable(title="Masked examples made per second of one core")
        for heading in ("tokens, at most", "tokens, mean", "first epoch", "later epochs"):
            table.add_column(heading, justify="right")

        for length, serializer in serializers.items():
            loading = LoaderOptions(self.batch, 0, 1, length > 512, 512, corpus.cache, limit_train=self.tables)
            speed, mean = _measure(TableStream(corpus.files, corpus.maker(serializer), loading))
            table.add_row(f"{length:,}", f"{mean:.0f}", *(f"{speed[epoch]:,.0f}" for epoch in EPOCHS))
            found = {f"{epoch}_epoch/examples_per_second": value for epoch, value in speed.items()}
            yield {f"masking/{length}/{name}": value for name, value in {**found, "mean_tokens": mean}.items()}
        Console().print(table)


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


if __name__ == "__main__":
    run(MaskingBenchmark)
