"""Questions with their tables as JSON lines that any system reads, `data=files` too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError
from mate_cli.files.atomic import replace_file
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.layout import SUMMARY_ROW
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer

CHUNK = 256
"""Questions that are encoded at once."""
_ESCAPES = str.maketrans({"|": r"\|", "\n": " ", "\r": " "})


def export_questions(
    examples: Sequence[TableExample],
    to: Path,
    *,
    answers: bool = False,
    encoded: tuple[Serializer, Sequence[TableExample]] | None = None,
) -> int:
    """Write a question a line; return how many.

    Args:
        examples: with cells as their authors wrote them.
        to: the file.
        answers: write what is known of the answers too.
        encoded: a serializer and the same examples as it reads them, to leave the rows that it leaves; a question that
            it cannot encode is left out.

    Raises:
        DataError: the encoding leaves no rows, as it is not of tables.
    """
    rows = find_kept_rows(*encoded) if encoded else {}
    written = 0
    with replace_file(to) as draft, draft.open("w", encoding="utf-8") as file:
        for example in examples:
            if encoded is None or example.example_id in rows:
                entry = question_entry(example, rows.get(example.example_id), answers=answers)
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
                written += 1
    return written


def find_kept_rows(serializer: Serializer, examples: Sequence[TableExample]) -> dict[str, list[int]]:
    """Find the rows, from 0, of which an encoding has tokens.

    Raises:
        DataError: it has none of any table.
    """
    rows: dict[str, list[int]] = {}
    for start in range(0, len(examples), CHUNK):
        chunk = examples[start : start + CHUNK]
        for example, encoding in zip(chunk, serializer.encode(chunk), strict=True):
            if not isinstance(encoding, EncodingFailure):
                numbers = {int(row) - 1 for row in encoding.row_ids if 0 < row < SUMMARY_ROW}
                rows[example.example_id] = sorted(numbers & {*range(len(example.table.rows))})
    if not any(rows.values()):
        raise DataError("leaves no row of any table", where="encoding", remedy="Choose encoding=table")
    return rows


def question_entry(
    example: TableExample, rows: Sequence[int] | None = None, *, answers: bool = False
) -> dict[str, Any]:
    """Return a question as plain values: of its table all rows, or those whose numbers (from 0) are named."""
    table = example.table
    numbers = range(len(table.rows)) if rows is None else rows
    header, body = [cell.text for cell in table.header], [[cell.text for cell in table.rows[row]] for row in numbers]
    more: Mapping[str, Any] = {
        "row_numbers": [] if rows is None else list(rows),
        "title": table.title,
        "conversation": example.conversation,
        "history": list(example.history),
        "options": list(example.options),
        "passages": list(_passages(table, numbers)),
        **(_known(example.answer) if answers and example.answer else {}),
    }
    return {
        "id": example.example_id,
        "question": example.question,
        "table_id": table.table_id,
        "table": {"header": header, "rows": body},
        "markdown": write_markdown(header, body),
        **{name: value for name, value in more.items() if value not in ("", [])},
    }


def write_markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [[cell.translate(_ESCAPES) for cell in line] for line in (header, *rows)]
    top, *body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([top, f"|{' --- |' * len(header)}", *body])


def _passages(table: Table, rows: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield the passages that cells of some rows link to; rows are counted among these."""
    for place, row in enumerate(rows):
        for column, cell in enumerate(table.rows[row]):
            for link in cell.links:
                if text := table.passages.get(link):
                    yield {"row": place, "column": column, "title": link, "text": text}


def _known(answer: Answer) -> dict[str, Any]:
    return {"answer": list(answer.texts), **({} if answer.label is None else {"label": answer.label})}
