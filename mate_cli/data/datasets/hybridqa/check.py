"""Problems in the files of a HybridQA folder, and their sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from mate_cli.data.archive import read_members
from mate_cli.data.check import Problem, Sizes
from mate_cli.data.datasets.entries import DamagedEntryError, read_entries
from mate_cli.data.datasets.hybridqa.files import (
    HybridQAQuestion,
    answer_nodes,
    attach_passages,
    parse_hybridqa_table,
    parse_reference,
)
from mate_cli.data.datasets.release_check import NO_QUESTION, describe_unanswered, find_overlaps
from mate_cli.data.question_contamination import EVALUATION, KnownQuestions
from mate_cli.errors import DataError
from mate_cli.tables.table import Table

Splits = Mapping[str, Sequence[HybridQAQuestion]]
Files = Mapping[str, bytes]
"""Contents of files of questions, by name."""


def check_questions(splits: Splits, released: Mapping[str, Files], problems: list[Problem]) -> None:
    """Note what is wrong with the questions of each split, and with the files beside them."""
    for split, questions in splits.items():
        _check_reference(split, questions, released[split], problems)
    for split, questions in splits.items():
        counts = Counter(question.question_id for question in questions)
        twice = [key for key, count in counts.items() if count > 1]
        what = "the question id occurs in two files of this split"
        problems += [Problem(f"{split}.json", key, what) for key in twice]
    problems += _shared(splits, "question_id", "question ids")


def check_tables(
    splits: Splits, released: Mapping[str, Files], tables: Mapping[str, Table], problems: list[Problem]
) -> None:
    """Note what is wrong with the tables, and which questions have none."""
    for split, questions in splits.items():
        _check_lookups(split, questions, tables, problems)
        _check_nodes(split, released[split], tables, problems)
        if not questions and not problems:
            problems.append(Problem(f"{split}.json", "", NO_QUESTION))
    empty = [key for key, table in tables.items() if not table.rows]
    problems += [Problem(f"tables_tok/{key}.json", key, "the table has no rows") for key in empty]


def note_overlaps(splits: Splits, near_duplicate: float) -> tuple[Problem, ...]:
    """Note common parts of splits that are no damage."""
    return (*_shared(splits, "table_id", "tables"), *_contaminated(splits, near_duplicate))


def _check_reference(
    split: str, questions: Sequence[HybridQAQuestion], released: Files, problems: list[Problem]
) -> None:
    """Compare the reference file with the split; what is wrong with its JSON was noted when the split was read."""
    name = f"{split}_reference.json"
    answers = (parse_reference(name, released, []) or {"reference": {}})["reference"]
    here = {question.question_id: question.answer for question in questions}
    for key, answer in answers.items():
        if key not in here:
            problems.append(Problem(name, key, f"the question is not in {split}.json"))
        elif here[key] is not None and here[key] != answer:
            problems.append(Problem(name, key, f"the answer is {answer!r}, but {here[key]!r} in {split}.json"))


def _shared(splits: Splits, field: str, what: str) -> Iterator[Problem]:
    keys = {split: {getattr(question, field) for question in questions} for split, questions in splits.items()}
    return find_overlaps(keys, what, {split: f"{split}.json" for split in splits})


def _contaminated(splits: Splits, near: float) -> Iterator[Problem]:
    """Note the questions of the release that repeat one of its evaluation splits; they stay as released."""
    known = KnownQuestions(near, (q for split, questions in splits.items() if split != "train" for q in questions))
    repeats = [question.question_id for question in splits.get("train", ()) if known.holds(question)]
    if repeats:
        what = f"{len(repeats):,} questions are equal or near-equal to {EVALUATION} on the same table, and kept"
        yield Problem("train.json", repeats[0], what)


def read_all_tables(store: Callable[[str], Path], problems: list[Problem]) -> dict[str, Table]:
    """Return all readable tables with their passages, whether a question needs them or not."""
    bare: dict[str, Table] = {}
    for table_id, content in _members(store, "tables_tok", problems):
        table = parse_hybridqa_table(table_id, content, problems)
        if table is not None:
            bare[table_id] = table
    whole = {
        table_id: attach_passages(bare[table_id], content, problems)
        for table_id, content in _members(store, "request_tok", problems)
        if table_id in bare
    }
    absent = [table_id for table_id in bare if table_id not in whole]
    problems += [Problem(f"request_tok/{key}.json", key, "is not there, but the table is") for key in absent]
    return whole | {key: bare[key] for key in absent}


def _members(store: Callable[[str], Path], folder: str, problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    """Return (table id, content) of a folder's files, up to where the archive is damaged."""
    try:
        for name, content in read_members(store(folder), folder):
            yield name.removesuffix(".json"), content
    except DataError as error:
        problems.append(Problem(error.where or folder, "", error.problem))


def _check_lookups(
    split: str, questions: Sequence[HybridQAQuestion], tables: Mapping[str, Table], problems: list[Problem]
) -> None:
    told = {problem.file for problem in problems}
    waiting: dict[str, list[str]] = {}
    for question in questions:
        if question.table_id not in tables and f"tables_tok/{question.table_id}.json" not in told:
            waiting.setdefault(question.table_id, []).append(question.question_id)
    for table_id, keys in waiting.items():
        more = f" (nor is that of {len(keys) - 1} more)" if len(keys) > 1 else ""
        problems.append(Problem(f"{split}.json", keys[0], f"its table tables_tok/{table_id}.json is not there{more}"))
    without = [question.question_id for question in questions if question.answer is None]
    if without and (split == "train" or len(without) < len(questions)):
        problems.append(Problem(f"{split}.json", without[0], describe_unanswered(len(without), len(questions))))


def _check_nodes(split: str, released: Files, tables: Mapping[str, Table], problems: list[Problem]) -> None:
    """Look for answer nodes that are no cell of their table; what is wrong with the JSON was noted before."""
    name = f"{split}.traced.json"
    entries = read_entries(name, released[name], []) if name in released else ()
    for place, (_, entry) in enumerate(entries):
        table = tables.get(str(entry.get("table_id")))
        try:
            wrong = [node for node in answer_nodes(entry) if table is not None and not is_cell(node[1], table)]
        except DamagedEntryError as error:
            problem = Problem(name, f"entry {place}", str(error))
            problems += [problem] if problem not in problems else []
            continue
        if wrong:
            what = f"no cell is at answer node {wrong[0]!r:.80}"
            problems.append(Problem(name, str(entry.get("question_id")), what))


def is_cell(place: object, table: Table) -> bool:
    """Tell whether [row, column], both from 0, is a cell of the body of a table."""
    if not isinstance(place, list) or len(place) != 2 or not all(type(number) is int for number in place):
        return False
    return table.has_cell(*place)


def count_questions(questions: Sequence[HybridQAQuestion]) -> dict[str, int]:
    """Return the questions, tables, and questions by the source of their answer."""
    sources = Counter(question.source or "not given" for question in questions)
    tables = len({question.table_id for question in questions})
    in_order = {name: sources[name] for name in ("table", "passage", "missing", "not given")}
    return {"questions": len(questions), "tables": tables, **in_order}


def measure_tables(splits: Splits, tables: Mapping[str, Table]) -> dict[str, dict[int | str, float]]:
    """Return the words in questions, and how large the tables are that they are about."""
    sizes = Sizes()
    for questions in splits.values():
        for question in questions:
            sizes.add("words in a question", len(question.text.split()))
    for table_id in {question.table_id for questions in splits.values() for question in questions}:
        if table_id in tables:
            sizes.add_table(tables[table_id])
    return sizes.percentiles()
