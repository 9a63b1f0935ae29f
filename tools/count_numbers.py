"""Count what the reader of people's numbers finds in WikiTableQuestions, SQA, TabFact, TAT-QA and FeTaQA as shipped.

MATE_SHARED=FOLDER python tools/count_numbers.py > numbers.md; with "draw", 200 cells of a fixed seed and their columns.
"""

import csv
import io
import json
import lzma
import math
import os
import random
import re
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mate_cli.tables.values.cell_number import FRACTION, LONE_FRACTION, is_currency, parse_amount, simplify
from mate_cli.tables.values.column_evidence import collect_evidence
from mate_cli.tables.values.column_format import ColumnFormat, find_formats

DATA = Path(os.environ.get("MATE_SHARED", "../shared")) / "data"
SEED = 20261125
Column = tuple[str, str, Sequence[str], ColumnFormat]
"""Table, header, texts and format of a column."""
KINDS = (
    "plain",
    "grouped",
    "decimal",
    "percent",
    "currency",
    "parentheses",
    "unit",
    "date, place",
    "digits, no number",
)
DIGIT = re.compile(r"\d")
SPECIAL = re.compile(r"[()%$€£¥₹‰]|\d ?(?:[^\W\d_]|[²³°])+$|million|billion|thousand|crore|lakh")


def read_archive(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file of an archive."""
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile():
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read().decode("utf-8")


def read_wtq() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the tables of WikiTableQuestions."""
    for name, text in read_archive(DATA / "wtq/csv.tar.gz"):
        yield name, list(csv.reader(io.StringIO(text, newline=""), doublequote=False, escapechar="\\"))


def read_sqa() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the tables of SQA."""
    for name, text in read_archive(DATA / "sqa/table_csv.tar.gz"):
        yield name, list(csv.reader(io.StringIO(text, newline="")))


def read_tabfact() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the tables of TabFact."""
    for name, text in read_archive(DATA / "tabfact/all_csv.tar.gz"):
        yield name, [line.split("#") for line in text.replace("\r", "").split("\n") if line]


def read_tatqa() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the tables of TAT-QA."""
    for path in sorted((DATA / "tatqa/dataset_raw").glob("*.xz")):
        for context in json.loads(lzma.decompress(path.read_bytes())):
            yield context["table"]["uid"], context["table"]["table"]


def read_fetaqa() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the tables of FeTaQA."""
    for path in sorted((DATA / "fetaqa/data").glob("*.xz")):
        for line in lzma.decompress(path.read_bytes()).decode("utf-8").splitlines():
            example = json.loads(line)
            yield str(example["feta_id"]), example["table_array"]


SETS = {
    "WikiTableQuestions": read_wtq,
    "SQA": read_sqa,
    "TabFact": read_tabfact,
    "TAT-QA": read_tatqa,
    "FeTaQA (dev, test)": read_fetaqa,
}


def read_columns(tables: Iterable[tuple[str, list[list[str]]]]) -> Iterator[Column]:
    """Yield every column of some tables."""
    for name, lines in tables:
        lines = [line for line in lines if line]
        width = max(map(len, lines), default=0)
        header, *rows = [[cell.strip() for cell in line] + [""] * (width - len(line)) for line in lines] or [[]]
        columns = list(zip(*rows, strict=True)) or [()] * width
        formats, _ = find_formats(header, list(map(collect_evidence, columns)))
        for column in range(width):
            yield name, header[column], columns[column], formats[column]


def name_kind(text: str, written: ColumnFormat) -> str:
    """Name what a cell is; "" for a text without digits."""
    number = written.read_number(text)
    if number is None:
        return (
            "date, place"
            if not math.isnan(written.read_sortable(text))
            else "digits, no number"
            if DIGIT.search(text)
            else ""
        )
    amount = parse_amount(simplify(text))
    assert amount is not None
    if number <= 0 and "(" in text:
        return "parentheses"
    if amount.unit:
        first = re.split(r"[ /]", amount.unit)[0]
        return "percent" if first == "%" else "currency" if is_currency(first) else "unit"
    if (
        number != int(number)
        or amount.kind in (FRACTION, LONE_FRACTION)
        or not re.fullmatch(r"[\d., ']+", amount.digits)
    ):
        return "decimal"
    if amount.digits.isdecimal():
        return "plain"
    return "decimal" if re.search(re.escape(written.decimal) + r"\d+$", amount.digits) else "grouped"


def count() -> None:
    """Print the table of counts."""
    print("| | tables | filled cells | numbers | " + " | ".join(KINDS) + " |\n|" + "---|" * (len(KINDS) + 4))
    for title, read in SETS.items():
        tables, cells, kinds = set[str](), 0, Counter[str]()
        for name, _, texts, written in read_columns(read()):
            tables.add(name)
            for text in filter(None, texts):
                cells += 1
                kinds[name_kind(text, written)] += 1
        numbers = sum(kinds[kind] for kind in KINDS[:7])
        print(
            f"| {title} | {len(tables):,} | {cells:,} | {numbers:,} | "
            + " | ".join(f"{kinds[k]:,}" for k in KINDS)
            + " |"
        )


def draw() -> None:
    """Print 40 cells of each data set: 20 numbers, 10 texts with digits, 10 with more than digits."""
    chance = random.Random(SEED)
    for title, read in SETS.items():
        found = defaultdict[str, list[Any]](list)
        for name, head, texts, written in read_columns(read()):
            for text in filter(DIGIT.search, texts):
                number = written.read_number(text)
                entry = (name, head, text, number, written.read_sortable(text), written.read_unit(text), texts)
                found["text" if number is None else "number"].append(entry)
                if len(text) <= 40 and SPECIAL.search(text):
                    found["special"].append(entry)
        for kind, size in (("number", 20), ("text", 10), ("special", 10)):
            for _, head, text, number, sortable, unit, texts in chance.sample(found[kind], size):
                near = [other[:22] for other in filter(None, texts)]
                print(title, kind, repr(head[:30]), repr(text[:60]), number, sortable, unit, near[:6], near[-3:])


if __name__ == "__main__":
    draw() if sys.argv[1:] == ["draw"] else count()
