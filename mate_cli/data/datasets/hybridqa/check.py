"""Reads every file of a HybridQA folder to its end and says what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from mate_cli.data.archive import read_members
from mate_cli.data.check import CheckReport, Problem, Sizes, parse_json
from mate_cli.data.datasets.hybridqa.files import (
    HybridQAQuestion,
    attach_passages,
    parse_hybridqa_table,
    parse_reference,
)
from mate_cli.data.datasets.release_check import LEFT_OUT, overlaps
from mate_cli.data.question_contamination import EVALUATION, KnownQuestions
from mate_cli.errors import DataError
from mate_cli.tables.table import Table


class HybridQAFiles(Protocol):
    """What a check asks of HybridQA; see the reader."""

    near_duplicate: float

    @property
    def splits(self) -> Sequence[str]:
        """The splits that are there."""

    @property
    def published(self) -> Mapping[str, int]:
        """How much the whole release has, by its authors."""

    @property
    def repeated(self) -> Mapping[str, int]:
        """How many questions of `extra_train` are left out, by the reason."""

    def questions(self, split: str, problems: list[Problem]) -> list[HybridQAQuestion]:
        """The questions of a split; what is wrong with others is appended to `problems`."""

    def released(self, file: str) -> dict[str, bytes]:
        """A file of questions with those beside it, by name."""

    def store(self, folder: str) -> Path:
        """Where a folder of tables or passages is kept."""


def check_hybridqa(dataset: HybridQAFiles) -> CheckReport:
    """Check questions, answers, tables and passages of every split, with `extra_train`.

    Noted as problems: unreadable JSON, archives that end too early, tables or passage files that are missing,
    links without passage, ragged rows, ids that occur twice (also in two splits), empty answers, and questions of
    a reference file that its split lacks. Tables that serve two splits are only mentioned: dev and test of the
    public release have 718 in common. So are questions of the release that repeat one of dev or test; those of
    `extra_train` that repeat any are counted as left out.

    Raises:
        DataError: the data are not there at all.
    """
    problems: list[Problem] = []
    splits = {split: dataset.questions(split, problems) for split in dataset.splits}
    for split, questions in splits.items():
        _check_reference(split, questions, dataset.released(f"{split}.json"), problems)
    _check_ids(splits, problems)
    tables = _read_tables(dataset, problems)
    for split, questions in splits.items():
        _check_lookups(split, questions, tables, problems)
        _check_nodes(split, dataset.released(f"{split}.json"), tables, problems)
        if not questions:
            problems.append(Problem(f"{split}.json", "", "there is no sound question in it"))
    problems += [
        Problem(f"tables_tok/{key}.json", key, "the table has no rows")
        for key, table in tables.items()
        if not table.rows
    ]
    counts = {split: _count(questions) for split, questions in splits.items()}
    for why, count in dataset.repeated.items():
        counts["train"][f"{LEFT_OUT}{why}"] = count
    notes = (*_shared(splits, "table_id", "tables"), *_contaminated(splits, dataset.near_duplicate))
    return CheckReport(tuple(problems), counts, _sizes(splits, tables), notes, dataset.published)


def _check_reference(
    split: str, questions: Sequence[HybridQAQuestion], released: Mapping[str, bytes], problems: list[Problem]
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


def _check_ids(splits: Mapping[str, Sequence[HybridQAQuestion]], problems: list[Problem]) -> None:
    for split, questions in splits.items():
        seen = Counter(question.question_id for question in questions)
        twice = [key for key, count in seen.items() if count > 1]
        problems += [
            Problem(f"{split}.json", key, "the question id occurs in two files of this split") for key in twice
        ]
    problems += _shared(splits, "question_id", "question ids")


def _shared(splits: Mapping[str, Sequence[HybridQAQuestion]], field: str, what: str) -> Iterator[Problem]:
    keys = {split: {getattr(question, field) for question in questions} for split, questions in splits.items()}
    return overlaps(keys, what, {split: f"{split}.json" for split in splits})


def _contaminated(splits: Mapping[str, Sequence[HybridQAQuestion]], near: float) -> Iterator[Problem]:
    """What the release itself has in common with its evaluation splits; it stays as its authors have made it."""
    known = KnownQuestions(near, (q for split, questions in splits.items() if split != "train" for q in questions))
    found = [question.question_id for question in splits.get("train", ()) if known.holds(question)]
    if found:
        what = f"{len(found):,} questions are equal or near-equal to {EVALUATION} on the same table, and kept"
        yield Problem("train.json", found[0], what)


def _read_tables(dataset: HybridQAFiles, problems: list[Problem]) -> dict[str, Table]:
    """All readable tables with their passages, whether a question needs them or not."""
    bare: dict[str, Table] = {}
    for table_id, content in _members(dataset, "tables_tok", problems):
        table = parse_hybridqa_table(table_id, content, problems)
        if table is not None:
            bare[table_id] = table
    whole = {
        table_id: attach_passages(bare[table_id], content, problems)
        for table_id, content in _members(dataset, "request_tok", problems)
        if table_id in bare
    }
    absent = [table_id for table_id in bare if table_id not in whole]
    problems += [Problem(f"request_tok/{key}.json", key, "is not there, but the table is") for key in absent]
    return whole | {key: bare[key] for key in absent}


def _members(dataset: HybridQAFiles, folder: str, problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    """(table id, content) of a folder's files, up to where the archive is damaged."""
    try:
        for name, content in read_members(dataset.store(folder), folder):
            yield name.removesuffix(".json"), content
    except DataError as error:
        problems.append(Problem(error.where or folder, "", error.problem))


def _check_lookups(
    split: str, questions: Sequence[HybridQAQuestion], tables: Mapping[str, Table], problems: list[Problem]
) -> None:
    waiting = Counter(question.table_id for question in questions if question.table_id not in tables)
    for table_id, count in waiting.items():
        what = f"the table of {count} question{'s' * (count > 1)} of {split} is missing or damaged"
        problems.append(Problem(f"tables_tok/{table_id}.json", table_id, what))


def _check_nodes(
    split: str, released: Mapping[str, bytes], tables: Mapping[str, Table], problems: list[Problem]
) -> None:
    """Look for answer nodes that are no cell of their table; what is wrong with the JSON was noted before."""
    name = f"{split}.traced.json"
    entries = parse_json(name, released[name], []) if name in released else None
    for entry in entries if isinstance(entries, list) else ():
        table = tables.get(str(entry.get("table_id"))) if isinstance(entry, dict) else None
        nodes = entry.get("answer-node") if table is not None else None
        for node in nodes if isinstance(nodes, list) else ():
            if table is not None and not _is_cell(node, table):
                problems.append(Problem(name, str(entry.get("question_id")), f"no cell is at answer node {node!r:.80}"))
                break


def _is_cell(node: object, table: Table) -> bool:
    place = node[1] if isinstance(node, list) and len(node) > 1 else None
    if not isinstance(place, list) or len(place) != 2 or not all(type(number) is int for number in place):
        return False
    return 0 <= place[0] < len(table.rows) and 0 <= place[1] < len(table.header)


def _count(questions: Sequence[HybridQAQuestion]) -> dict[str, int]:
    sources = Counter(question.source or "not given" for question in questions)
    tables = len({question.table_id for question in questions})
    in_order = {name: sources[name] for name in ("table", "passage", "missing", "not given")}
    return {"questions": len(questions), "tables": tables, **in_order}


def _sizes(splits: Mapping[str, Sequence[HybridQAQuestion]], tables: Mapping[str, Table]) -> dict[str, dict[int, int]]:
    sizes = Sizes()
    for questions in splits.values():
        for question in questions:
            sizes.add("words in a question", len(question.text.split()))
    for table_id in {question.table_id for questions in splits.values() for question in questions}:
        if table_id in tables:
            sizes.add_table(tables[table_id])
    return sizes.percentiles()
