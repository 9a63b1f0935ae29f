"""Makes the sample dataset: small tables, passages and questions in the layout of HybridQA, from our own words.

The same seed gives the same files. Rebuild with: python tools/make_sample.py
"""

from __future__ import annotations

import io
import json
import lzma
import random
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_domains import DOMAINS, PASSAGE_ASKS, POOLS, SUBJECT_ASKS, TABLE_ASKS, Domain, DomainColumn

SAMPLE = Path(__file__).parents[1] / "mate_cli" / "data" / "datasets" / "sample" / "release"
SEED = 20
TABLES = {"train": 6, "dev": 1, "test": 1}
"""Tables per domain and split."""
QUESTIONS = {"train": 20, "dev": 15, "test": 15}
"""Questions per table, the last one of every fifth table being without an answer in it."""
SPECIAL_TOKENS = ("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass
class SyntheticTable:
    """One table under construction: `cells[row][column]` texts, and passages by (row, column)."""

    table_id: str
    title: str
    domain: Domain
    cells: list[list[str]]
    passages: dict[tuple[int, int], str] = field(default_factory=dict)
    values: dict[tuple[int, int, str], str] = field(default_factory=dict)

    def places_of(self, answer: str) -> list[tuple[int, int]]:
        """Cells that hold the answer in their text or passage, as whole words."""
        return [
            (r, c)
            for r, row in enumerate(self.cells)
            for c, text in enumerate(row)
            if _has(answer, text) or _has(answer, self.passages.get((r, c), ""))
        ]


def make_tables(rng: random.Random) -> Iterator[tuple[str, SyntheticTable]]:
    """Yield (split, table) for every domain."""
    for domain in DOMAINS:
        places = rng.sample(POOLS["city"], sum(TABLES.values()))
        for split, count in TABLES.items():
            for _ in range(count):
                yield split, _make_table(rng, domain, places.pop())


def _make_table(rng: random.Random, domain: Domain, place: str) -> SyntheticTable:
    title = rng.choice(domain.names).format(place=place)
    height = rng.randint(4, 7)
    columns = [_draw(rng, column.pool, height) for column in domain.columns]
    year = next((c for c, column in enumerate(domain.columns) if column.header in ("Year", "Number", "Page")), None)
    if year is not None:
        columns[year].sort(key=int)
    table = SyntheticTable(
        f"{title.replace(' ', '_')}_0", title, domain, [list(row) for row in zip(*columns, strict=True)]
    )
    for c, column in enumerate(domain.columns):
        _write_passages(rng, table, c, column)
    return table


def _write_passages(rng: random.Random, table: SyntheticTable, c: int, column: DomainColumn) -> None:
    height = len(table.cells)
    drawn = {fact.noun: _draw(rng, fact.pool, height) for fact in column.facts}
    for r in range(height if column.facts else 0):
        told = rng.sample(column.facts, min(len(column.facts), rng.randint(2, 3)))
        sentences = []
        for fact in told:
            value = drawn[fact.noun][r]
            sentences.append(rng.choice(fact.sentences).format(s=table.cells[r][c], v=value))
            table.values[r, c, fact.noun] = value
        table.passages[r, c] = " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)


def _draw(rng: random.Random, pool: str, count: int) -> list[str]:
    """Different values of a pool, in random order."""
    if ".." not in pool:
        return rng.sample(POOLS[pool], count)
    first, last, step = (int(number) for number in re.split(r"\.\.|/", pool))
    return [str(value) for value in rng.sample(range(first, last + 1, step), count)]


def make_sample_questions(
    rng: random.Random, table: SyntheticTable, count: int, unanswered: bool
) -> list[dict[str, Any]]:
    """Different questions about one table, half of them answered in a passage, without ids."""
    questions: dict[str, dict[str, Any]] = {}
    while len(questions) < count - unanswered:
        question = _passage_question(rng, table) if len(questions) % 2 else _table_question(rng, table)
        if len(table.places_of(question["answer-text"])) == 1:
            questions.setdefault(question["question"], question)
    if unanswered:
        text = f"how many rows are in the list of {table.title} ?"
        answer = ("four", "five", "six", "seven")[len(table.cells) - 4]
        questions[text] = {"question": text, "answer-text": answer, "answer-node": []}
    return list(questions.values())


def _row_phrase(rng: random.Random, table: SyntheticTable, r: int, avoid: int) -> str:
    """Return a phrase that singles out one row by another column than `avoid`; three times out of four by a number."""
    able = [c for c, column in enumerate(table.domain.columns) if column.phrases and c != avoid]
    numbers = [c for c in able if ".." in table.domain.columns[c].pool]
    c = rng.choice(numbers if rng.random() < 0.75 else able)
    return rng.choice(table.domain.columns[c].phrases).format(v=table.cells[r][c])


def _table_question(rng: random.Random, table: SyntheticTable) -> dict[str, Any]:
    r, c = rng.randrange(len(table.cells)), rng.randrange(len(table.domain.columns))
    column, subject = table.domain.columns[c], table.domain.subject
    phrase = _row_phrase(rng, table, r, c)
    ask = rng.choice(SUBJECT_ASKS if column is subject else TABLE_ASKS)
    text = ask.format(
        target=column.noun,
        phrase=phrase,
        pronoun=table.domain.pronoun,
        reference=f"the {subject.noun} {table.domain.pronoun} {phrase}",
    )
    answer = table.cells[r][c]
    return {"question": text, "answer-text": answer, "answer-node": [[answer, [r, c], None, "table"]]}


def _passage_question(rng: random.Random, table: SyntheticTable) -> dict[str, Any]:
    r, c, fact = rng.choice(sorted(table.values))
    column, subject = table.domain.columns[c], table.domain.subject
    reference = f"the {subject.noun} {table.domain.pronoun} {_row_phrase(rng, table, r, c)}"
    if column is not subject:
        reference = f"the {column.noun} of {reference}"
    text = rng.choice(PASSAGE_ASKS).format(target=fact, reference=reference)
    node = [table.cells[r][c], [r, c], _link(table.cells[r][c]), "passage"]
    return {"question": text, "answer-text": table.values[r, c, fact], "answer-node": [node]}


def make_files(seed: int = SEED) -> dict[str, bytes]:
    """Return the whole dataset: file contents by path, in the layout of the HybridQA release, and vocab.txt."""
    rng = random.Random(seed)
    contents: dict[str, Any] = {}
    traced: dict[str, list[dict[str, Any]]] = {split: [] for split in TABLES}
    for number, (split, table) in enumerate(list(make_tables(rng))):
        contents[f"tables_tok/{table.table_id}.json"] = _table_json(table)
        contents[f"request_tok/{table.table_id}.json"] = {
            _link(table.cells[r][c]): t for (r, c), t in table.passages.items()
        }
        for question in make_sample_questions(rng, table, QUESTIONS[split], unanswered=number % 5 == 0):
            name = f"{split}-{len(traced[split]):04d}"
            traced[split].append({"question_id": name, "table_id": table.table_id, **question})
    for split, questions in traced.items():
        contents |= _split_files(split, questions)
    files = {path: json.dumps(content, ensure_ascii=False).encode() for path, content in contents.items()}
    return files | {"vocab.txt": make_vocabulary(contents).encode()}


def _table_json(table: SyntheticTable) -> dict[str, Any]:
    header = [[column.header, []] for column in table.domain.columns]
    data = [
        [[text, [_link(text)] if (r, c) in table.passages else []] for c, text in enumerate(row)]
        for r, row in enumerate(table.cells)
    ]
    texts = {"title": table.title, "section_title": "List", "section_text": "", "intro": f"{table.title} ."}
    return {"url": "", "header": header, "data": data, "uid": table.table_id, **texts}


def _split_files(split: str, questions: list[dict[str, Any]]) -> dict[str, Any]:
    plain = [{key: value for key, value in question.items() if key != "answer-node"} for question in questions]
    reference: dict[str, Any] = {"reference": {q["question_id"]: q["answer-text"] for q in questions}}
    for source in ("table", "passage"):
        reference[source] = [
            q["question_id"] for q in questions if q["answer-node"] and q["answer-node"][0][3] == source
        ]
    folder = f"released_data/{split}"
    return {f"{folder}.json": plain, f"{folder}.traced.json": questions, f"{folder}_reference.json": reference}


def make_vocabulary(contents: Mapping[str, Any], at_least: int = 3) -> str:
    """Return a WordPiece vocabulary in BERT's format: special tokens, all single characters, and words by frequency.

    It is counted rather than trained, so that it does not depend on the version of any library.
    """
    counts = Counter(re.findall(r"[a-z]+|[0-9]+", json.dumps(list(contents.values())).lower()))
    characters = [*"abcdefghijklmnopqrstuvwxyz0123456789", *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"]
    words = sorted(word for word, count in counts.items() if count >= at_least and len(word) > 1)
    endings = [f"##{ending}" for ending in ("s", "ed", "er", "ing", "ly", "00", "000")]
    pieces = [*SPECIAL_TOKENS, *characters, *(f"##{character}" for character in characters[:36]), *endings, *words]
    return "\n".join(dict.fromkeys(pieces)) + "\n"


def write_sample(folder: Path = SAMPLE) -> None:
    """Write the dataset: each of its three folders as one .tar.xz, and vocab.txt beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = make_files()
    (folder / "vocab.txt").write_bytes(files.pop("vocab.txt"))
    for name in sorted({path.split("/")[0] for path in files}):
        inside = {path: content for path, content in files.items() if path.startswith(f"{name}/")}
        (folder / f"{name}.tar.xz").write_bytes(_packed(inside))


def _packed(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in sorted(files.items()):
            info = tarfile.TarInfo(path)  # no owner and no time: the same bytes on every machine
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def _link(text: str) -> str:
    return f"/wiki/{text.replace(' ', '_')}"


def _has(answer: str, text: str) -> bool:
    return f" {answer.lower()} " in f" {text.lower()} "


if __name__ == "__main__":
    write_sample()
