"""Export of questions with their tables as JSON lines.

Any system and `data=files` can read the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mate_cli.errors import DataError
from mate_cli.files.atomic import replace_file
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.layout import SUMMARY_ROW
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer

CHUNK = 256
"""Number of questions encoded at a time."""
_ESCAPES = str.maketrans({"|": r"\|", "\n": " ", "\r": " "})


def export_questions(
    examples: Sequence[TableExample],
    to: Path,
    *,
    answers: bool = False,
    encoded: tuple[Serializer, Sequence[TableExample]] | None = None,
) -> int:
    """Write questions with their tables as JSON lines, and return the number of questions.

    Args:
        examples: examples with cells as written by the dataset's authors.
        to: path of the file.
        answers: whether to write the answers too.
        encoded: serializer, and the same examples in the form for this serializer. Only table rows in its encodings are
            written, and questions that it cannot encode are omitted. None writes all rows.

    Raises:
        DataError: no encoding has table rows, because the serializer does not encode tables.
    """
    rows = find_kept_rows(*encoded) if encoded else {}
    count = 0
    with replace_file(to) as draft, draft.open("w", encoding="utf-8") as file:
        for example in examples:
            if encoded is None or example.example_id in rows:
                entry = question_entry(example, rows.get(example.example_id), answers=answers)
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
                count += 1
    return count


def find_kept_rows(serializer: Serializer, examples: Sequence[TableExample]) -> dict[str, list[int]]:
    """Return {example id: indices of the table rows that its encoding contains}.

    A row remains if the encoding contains at least one of its tokens. Indices start from 0.

    Raises:
        DataError: no encoding has table rows.
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
    """Convert a question with its table to the JSON object of one line in the export.

    Args:
        example: question to write.
        rows: rows of the table to write, from 0. None writes all rows.
        answers: whether to write the answer too.
    """
    table, answer = example.table, example.answer if answers else None
    numbers = range(len(table.rows)) if rows is None else rows
    header, body = [cell.text for cell in table.header], [[cell.text for cell in table.rows[row]] for row in numbers]
    more: Mapping[str, Any] = {
        "row_numbers": [] if rows is None else list(rows),
        "title": table.title,
        "conversation": example.conversation,
        "history": list(example.history),
        "options": list(example.options),
        "passages": list(_passages(table, numbers)),
        **(
            {"answer": [*answer.texts], "label": answer.label, "scale": getattr(example, "scale", "")} if answer else {}
        ),
    }
    return {
        "id": example.example_id,
        "question": example.question,
        "table_id": table.table_id,
        "table": {"header": header, "rows": body},
        "markdown": write_markdown(header, body),
        **{name: value for name, value in more.items() if value not in ("", [], None)},
    }


def write_markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table formatted in Markdown."""
    lines = [[cell.translate(_ESCAPES) for cell in line] for line in (header, *rows)]
    header_line, *body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([header_line, f"|{' --- |' * len(header)}", *body])


def _passages(table: Table, rows: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield the passages that cells of the given rows link to, as dictionaries for the export.

    A dictionary has row, column, title and text.

    The row is an index in `rows`.
    """
    for index, row in enumerate(rows):
        for column, cell in enumerate(table.rows[row]):
            for link in cell.links:
                if text := table.passages.get(link):
                    yield {"row": index, "column": column, "title": link, "text": text}
