"""predictions/<split>.json: the official format, and what comparisons ask of each question."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import TableExample


def save_predictions(
    folder: RunFolder,
    split: str,
    examples: Iterable[TableExample],
    answers: Mapping[str, str],
    score: Callable[[TableExample], Mapping[str, float]],
    details: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write a row per question: question_id and pred, as the official scorer wants them, and more.

    A question without an answer of ours gets an empty text; scores are of those whose answer is known, and those of
    parts (`table/em`) are left out.
    """
    details = details or {}
    rows = []
    for example in examples:
        name = example.example_id
        row: dict[str, Any] = {"question_id": name, "pred": answers.get(name, ""), **_facts(example)}
        if example.answer:
            row["scores"] = {key: value for key, value in score(example).items() if "/" not in key}
        rows.append({**row, **details.get(name, {})})
    folder.write_json(f"predictions/{split}.json", rows)


def _facts(example: TableExample) -> dict[str, Any]:
    table, answer = example.table, example.answer
    known: dict[str, Any] = {"answer": list(answer.texts), "source": answer.source} if answer else {}
    if answer and answer.coordinates:
        known["answer_cells"] = [[*cell] for cell in answer.coordinates]
    size = len(table.rows) * len(table.header)
    return {"question": example.question, "table_id": table.table_id, "table_cells": size, **known}
