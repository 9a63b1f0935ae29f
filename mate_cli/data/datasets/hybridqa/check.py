"""Problems in the files of a HybridQA folder that say more than the questions, and counts by the source of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mate_cli.data.check import Problem
from mate_cli.data.datasets.entries import DamagedEntryError, read_entries
from mate_cli.data.datasets.hybridqa.files import HybridQAQuestion, answer_nodes, parse_reference
from mate_cli.data.question_contamination import EVALUATION, KnownQuestions
from mate_cli.tables.table import Table

Files = Mapping[str, bytes]
"""Contents of files of questions, by name."""


def check_reference(split: str, questions: Sequence[HybridQAQuestion], released: Files) -> Iterator[Problem]:
    """Compare the reference file with the split; what is wrong with its JSON was noted when the split was read."""
    name = f"{split}_reference.json"
    answers = (parse_reference(name, released, []) or {"reference": {}})["reference"]
    here = {question.question_id: question.answer for question in questions}
    for key, answer in answers.items():
        if key not in here:
            yield Problem(name, key, f"the question is not in {split}.json")
        elif here[key] is not None and here[key] != answer:
            yield Problem(name, key, f"the answer is {answer!r}, but {here[key]!r} in {split}.json")


def check_nodes(split: str, released: Files, tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Look for answer nodes that are no cell of their table; what is wrong with the JSON was noted before."""
    name = f"{split}.traced.json"
    entries = read_entries(name, released[name], []) if name in released else ()
    for place, (_, entry) in enumerate(entries):
        table = tables.get(str(entry.get("table_id")))
        try:
            wrong = [node for node in answer_nodes(entry) if table is not None and not is_cell(node[1], table)]
        except DamagedEntryError as error:
            yield Problem(name, f"entry {place}", str(error))
            continue
        if wrong:
            yield Problem(name, str(entry.get("question_id")), f"no cell is at answer node {wrong[0]!r:.80}")


def is_cell(place: object, table: Table) -> bool:
    """Tell whether [row, column], both from 0, is a cell of the body of a table."""
    if not isinstance(place, list) or len(place) != 2 or not all(type(number) is int for number in place):
        return False
    return table.has_cell(*place)


def note_contamination(splits: Mapping[str, Sequence[HybridQAQuestion]], near: float) -> Iterator[Problem]:
    """Note the questions of the release that repeat one of its evaluation splits; they stay as released."""
    known = KnownQuestions(near, (q for split, questions in splits.items() if split != "train" for q in questions))
    repeats = [question.question_id for question in splits.get("train", ()) if known.holds(question)]
    if repeats:
        what = f"{len(repeats):,} questions are equal or near-equal to {EVALUATION} on the same table, and kept"
        yield Problem("train.json", repeats[0], what)


def count_questions(questions: Sequence[HybridQAQuestion]) -> dict[str, int]:
    """Return the questions, tables, and questions by the source of their answer."""
    sources = Counter(question.source or "not given" for question in questions)
    tables = len({question.table_id for question in questions})
    in_order = {name: sources[name] for name in ("table", "passage", "missing", "not given")}
    return {"questions": len(questions), "tables": tables, **in_order}
