"""Print what encodings cost an example, measured here, and what follows for many: `python tools/scale_table.py`."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading.cache import encode_split
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

SIZES = (1_000, 4_000, 16_000)
MANY = 1_000_000


def make_examples(count: int) -> list[TableExample]:
    """Return as many different questions about the tables of the sample."""
    known = Sample().examples("train")
    asked = ((n, known[n % len(known)]) for n in range(count))
    return [replace(one, example_id=str(n), question=f"{n} {one.question}") for n, one in asked]


def time_cpu(work: Callable[[], object]) -> float:
    """Return the seconds of CPU that a piece of work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(size: int) -> tuple[float, float, float, float]:
    """Return what to encode, to keep, to open and to read an example costs: seconds of CPU, and bytes on disk."""
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=512, lexical_features=True)
    examples = make_examples(size)
    with TemporaryDirectory() as folder:
        encode = time_cpu(lambda: encode_split(examples, serializer, Path(folder), "train"))
        disk = sum(file.stat().st_size for file in Path(folder).iterdir())
        opened = time_cpu(lambda: encode_split(examples, serializer, Path(folder), "train"))
        split = encode_split(examples, serializer, Path(folder), "train")
        read = time_cpu(lambda: [split[index] for index in range(size)])
    return encode / size, disk / size, opened / size, read / size


def main(sizes: Sequence[int] = SIZES) -> None:
    """Print a line for each size, and what the last of them says of a million."""
    print("| examples | encode, CPU | on disk | open, CPU | read one, CPU |\n|---|---|---|---|---|")
    for size in sizes:
        encode, disk, opened, read = measure(size)
        costs = f"{encode * size:.1f} s | {disk * size / 1e6:.1f} MB | {opened * size:.2f} s | {read * 1e6:.0f} us"
        print(f"| {size:,} | {costs} |")
    hours, space = encode * MANY / 3600, disk * MANY / 1e9
    print(f"| {MANY:,} | {hours:.1f} h | {space:.1f} GB | {opened * MANY:.0f} s | {read * 1e6:.0f} us |")


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
