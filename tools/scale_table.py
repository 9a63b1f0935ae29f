"""Print how cost grows, measured here by CPU seconds, and what follows for many: `python tools/scale_table.py`.

Each figure is of a process of its own. Name rows to measure some: `python tools/scale_table.py encode "first visit"`.
"""

from __future__ import annotations

import json
import math
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

QUESTIONS, TABLES = 1_000_000, 6_200_000
"""What is derived: questions of a run, and tables to pre-train on, as many as MATE's authors had."""
TRAIN = ["experiment=quickstart_cells", "debug=fast", "logger=none", "hardware.threads=1"]
Work = Callable[[], object]


def mate(*words: object) -> None:
    """Type a command."""
    subprocess.run([sys.executable, "-m", "mate_cli", *map(str, words)], check=True, capture_output=True)


def write_questions(count: int, folder: Path) -> None:
    """Write questions about tables of 20 rows and 6 columns, ten about each."""
    random, lines = Random(1), []
    for number in range(count // 10):
        rows = [
            [f"{random.choice('ABCDE')}{random.randrange(9999)} {column}" for column in "uvwxyz"] for _ in range(21)
        ]
        (folder / f"{number}.csv").write_text("".join(f"{','.join(row)}\n" for row in rows))
        for name, _, answer, *_ in rows[1:11]:
            lines.append({"question": f"which is it of {name} ?", "table": f"{number}.csv", "answers": [answer]})
    (folder / "asked.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def read(size: int, folder: Path) -> Work:
    """Read questions from files."""
    from mate_cli.data.datasets.labelled.sources import LabelledFiles

    write_questions(size, folder)
    return partial(LabelledFiles(root=folder, train="asked.jsonl").examples, "train")


def encode(size: int, folder: Path, *, again: bool = False) -> Work:
    """Encode questions of 512 tokens, or find them encoded."""
    from mate_cli.data.datasets.hybridqa.reader import Sample
    from mate_cli.data.loading.cache import encode_split
    from mate_cli.tokenization.serializers.tapas import TapasSerializer
    from mate_cli.tokenization.vocabulary import load_tokenizer

    known = Sample().examples("train")
    asked = ((n, known[n % len(known)]) for n in range(size))
    examples = [replace(one, example_id=str(n), question=f"{n} {one.question}") for n, one in asked]
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=512, lexical_features=True)
    work = partial(encode_split, examples, serializer, folder / "cache", "train")
    if again:
        work()
    return work


def read_encodings(size: int, folder: Path) -> Work:
    """Read each encoding once."""
    split: Any = encode(size, folder)()
    return lambda: [split[index] for index in range(size)]


def find_repeated(size: int, folder: Path) -> Work:
    """Find the questions that repeat others."""
    from mate_cli.data.datasets.hybridqa.files import HybridQAQuestion
    from mate_cli.data.question_contamination import find_repetitions

    words = [f"w{n}" for n in range(500)]
    random = Random(1)
    asked = [HybridQAQuestion(str(n), " ".join(random.sample(words, 12)), str(n // 48)) for n in range(size)]
    return lambda: find_repetitions(asked, [], [])


def draw_epoch(size: int, folder: Path) -> Work:
    """Draw the micro-batches of an epoch."""
    from mate_cli.data.loading.batching import LengthGroupedBatches, Schedule

    lengths = np.random.default_rng(1).integers(64, 512, size)
    batches = LengthGroupedBatches(lengths, Schedule(512, 64, size // 512), 1)
    return lambda: sum(1 for _ in batches)


def network(name: str, size: int, folder: Path) -> Work:
    """Send one table forward and back through two layers of MiniLM's size."""
    import torch

    from mate_cli.attention.backends.auto import Auto
    from mate_cli.benchmark.cases import VOCABULARY, draw_table, together
    from mate_cli.models.linformer import Linformer
    from mate_cli.models.mate import MateEncoder
    from mate_cli.models.tapas import Tapas

    torch.set_num_threads(1)
    make: Any = {"mate": MateEncoder, "dense": Tapas, "linformer": partial(Linformer, length=size)}[name]
    encoder = make("minilm:2", attention=Auto(), vocab_size=VOCABULARY)
    batch = encoder.planner.on("cpu")(together([draw_table("hybridqa_like", size, 1)]))
    return lambda: encoder(batch).states.sum().backward()


def write_tables(size: int, folder: Path) -> Path:
    """Write tables of 16 rows and 6 columns into a file of a corpus."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = Random(1)
    rows = [
        [[f"{random.choice('ABCDE')}{random.randrange(99999)}", "May 3, 1998", str(n), "2-1", "some words", "7%"]] * 16
        for n in range(size)
    ]
    columns = {"header": [list("uvwxyz")] * size, "rows": rows, "title": [f"table {n} of many" for n in range(size)]}
    pq.write_table(pa.table(columns), folder / "tables.parquet", row_group_size=256)
    return folder / "tables.parquet"


def prepare(size: int, folder: Path) -> Work:
    """Prepare the file of a corpus."""
    from mate_cli.data.corpora.table_corpus import TableCorpus

    corpus = TableCorpus(folder, folder / "cache", [str(write_tables(size, folder))], [])
    return lambda: corpus.files


def visit(size: int, folder: Path) -> Work:
    """Make an example of each table of a corpus."""
    from mate_cli.data.corpora.shards import open_shards
    from mate_cli.data.corpora.table_corpus import TableCorpus
    from mate_cli.data.loading.stream import TableStream
    from mate_cli.data.loading.table_data_module import LoaderOptions
    from mate_cli.tokenization.serializers.masking import MaskingSerializer
    from mate_cli.tokenization.vocabulary import load_tokenizer

    maker = TableCorpus(folder, folder).maker(MaskingSerializer(load_tokenizer("sample"), max_tokens=128))
    stream = TableStream(open_shards([write_tables(size, folder)]), maker, LoaderOptions(32, 0, 1, False, 512, folder))
    return lambda: [stream[number] for number in range(size // 32)]


def predict(size: int, folder: Path) -> Work:
    """Answer a question about a large file."""
    lines = (f"Town {n},{n % 97},{n * 7}\n" for n in range(size))
    (folder / "big.csv").write_text("name,size,points\n" + "".join(lines))
    run = train(folder)
    return lambda: mate("predict", f"run={run}", f"table={folder / 'big.csv'}", 'question="which town has 97 points?"')


def train(folder: Path) -> Path:
    """Train a run of two steps beside a folder, if none has been; return its folder."""
    outputs = folder.parent / "first"
    if not outputs.exists():
        mate("train", *TRAIN, f"paths.outputs={outputs}")
    return next(outputs.glob("train/*/*/record.json")).parent


def copy_runs(count: int, folder: Path, *, light: bool) -> Path:
    """Return the folder of as many runs with other seeds; light ones have no predictions."""
    run = train(folder)
    left_out = shutil.ignore_patterns("checkpoints", "predictions" if light else "")
    record, config = ((run / name).read_text() for name in ("record.json", "config.yaml"))
    outputs = folder / "outputs"
    for seed in range(count):
        copy = outputs / "train" / run.parent.name / str(seed)
        shutil.copytree(run, copy, ignore=left_out)
        (copy / "record.json").write_text(json.dumps(json.loads(record) | {"seed": seed}))
        (copy / "config.yaml").write_text(config.replace("\nseed: 1\n", f"\nseed: {seed}\n"))
    return outputs


def compare(size: int, folder: Path, *, light: bool) -> Work:
    """Compare runs on a page."""
    outputs = copy_runs(size, folder, light=light)
    return lambda: mate("compare", outputs, f"html={folder / 'page.html'}")


def find_missing(size: int, folder: Path) -> Work:
    """Look for a run among others, as each job of a sweep does with `resume=missing`."""
    from mate_cli.runs.configuration import read_settings
    from mate_cli.runs.folders import find_same

    outputs, run = copy_runs(size, folder, light=True), train(folder)
    config = {**read_settings(run), "seed": 123_456}
    work = partial(find_same, outputs / "train" / run.parent.name, config, {})
    work()  # the first job of a sweep makes an index
    return work


def sweep(size: int, folder: Path) -> Work:
    """Train runs of two steps, one after the other."""
    seeds = ",".join(map(str, range(1, size + 1)))
    return lambda: mate("train", "-m", *TRAIN, f"paths.outputs={folder}", f"seed={seeds}")


class Row(NamedTuple):
    """Work to measure.

    Args:
        what: one of the things that there are so many of.
        prepare: makes of a number and an empty folder what is measured.
        sizes: the numbers, each four times or so the one before.
    """

    what: str
    prepare: Callable[[int, Path], Work]
    sizes: tuple[int, ...]


ROWS = {
    "read questions": Row("questions", read, (2_000, 8_000, 32_000)),
    "encode": Row("questions", encode, (1_000, 4_000, 16_000)),
    "open encodings": Row("questions", partial(encode, again=True), (1_000, 4_000, 16_000)),
    "read encodings": Row("questions", read_encodings, (500, 2_000, 8_000)),
    "find repeated questions": Row("questions, 48 a table", find_repeated, (4_000, 16_000, 64_000)),
    "order of an epoch": Row("examples", draw_epoch, (100_000, 1_000_000, 6_200_000)),
    "MATE, a step": Row("tokens", partial(network, "mate"), (512, 2_048, 8_192)),
    "Linformer, a step": Row("tokens", partial(network, "linformer"), (512, 2_048, 8_192)),
    "dense attention, a step": Row("tokens", partial(network, "dense"), (512, 2_048, 4_096)),
    "prepare a corpus": Row("tables", prepare, (1_000, 4_000, 16_000)),
    "first visit": Row("tables", visit, (512, 2_048, 8_192)),
    "predict": Row("rows of a CSV file", predict, (10_000, 40_000, 160_000)),
    "compare": Row("runs", partial(compare, light=True), (100, 400, 1_600)),
    "compare predictions": Row("runs", partial(compare, light=False), (50, 200, 800)),
    "find a missing run": Row("runs", find_missing, (100, 400, 1_600)),
    "sweep": Row("jobs", sweep, (1, 3)),
}

BOUNDED = {"prepare a corpus": "keys and a 64th of the tables", "first visit": "some 0.5 GB"}
"""What memory ends at where few tables do not show it: see `preparation.BOUNDS` and `masking.MAX_CACHED_VALUES`."""
OF_RUNS = ("predict", "compare", "compare predictions", "find a missing run")


def used() -> float:
    """Return the seconds of CPU of this process and those it has started."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measure(name: str, size: int, beside: str) -> None:
    """Print seconds of CPU, the peak of memory in MB, and the MB of what is left in `cache`."""
    with TemporaryDirectory(dir=beside) as folder:
        work = ROWS[name].prepare(size, Path(folder))
        before = used()
        work()
        seconds = used() - before
        disk = sum(file.stat().st_size for file in Path(folder, "cache").rglob("*") if file.is_file())
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps([seconds, peak / 1024, disk / 1e6]))


def print_limits(figures: dict[str, list[list[float]]]) -> None:
    """Print what the last figures of some rows say of many; of memory, what the largest has more than the smallest."""
    print("\n| | CPU | memory of a process, more than libraries | disk |\n|---|---|---|---|")
    for name, count in [(name, QUESTIONS) for name in ("read questions", "encode", "open encodings")] + [
        (name, TABLES) for name in ("prepare a corpus", "first visit", "order of an epoch")
    ]:
        if name in figures:
            sizes, (first, *_, last) = ROWS[name].sizes, figures[name]
            hours, disk = last[0] / sizes[-1] * count / 3600, last[2] / sizes[-1] * count / 1e3
            memory = max(last[1] - first[1], 0) / (sizes[-1] - sizes[0]) * count / 1e3
            grows = BOUNDED.get(name, f"{memory:.2g} GB")
            print(f"| {name}: {count:,} {ROWS[name].what} | {hours:.2g} h | {grows} | {disk:.2g} GB |")


def main(names: list[str], beside: str) -> None:
    """Print a line for each row, with the exponent a of its growth (t ~ n^a) between the two largest sizes."""
    print("| work | sizes | CPU, s | peak of memory, MB | on disk, MB | a |\n|---|---|---|---|---|---|")
    figures = {}
    if {*OF_RUNS}.intersection(names or ROWS):
        train(Path(beside, "none"))  # whose memory is that of no row
    for name in names or ROWS:
        sizes = ROWS[name].sizes
        command = [sys.executable, __file__, "--one", beside, name]
        outputs = [subprocess.run([*command, str(size)], check=True, capture_output=True).stdout for size in sizes]
        figures[name] = measured = [json.loads(output.splitlines()[-1]) for output in outputs]
        growth = math.log(measured[-1][0] / measured[-2][0]) / math.log(sizes[-1] / sizes[-2])
        columns = [
            " / ".join(f"{value:,.{digits}f}" for value in values)
            for values, digits in zip(zip(*measured, strict=True), (2, 0, 1), strict=True)
        ]
        print(
            f"| {name} | {' / '.join(f'{size:,}' for size in sizes)} {ROWS[name].what} "
            f"| {' | '.join(columns)} | {growth:.2f} |",
            flush=True,
        )
    print_limits(figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[3], int(sys.argv[4]), sys.argv[2])
    else:
        with TemporaryDirectory() as folder:
            main(sys.argv[1:], folder)
