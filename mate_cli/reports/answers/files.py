"""Files with answers to questions about user tables: JSON, JSON lines, CSV, HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from mate_cli.errors import ConfigError
from mate_cli.files.atomic import check_writable, write_text
from mate_cli.files.safe_load import to_json
from mate_cli.reports.answers.terminal import (
    answer_text,
    computed_text,
    confidence_text,
    hidden_text,
    numeric_columns,
    rate_certainty,
    speed_text,
    window,
)
from mate_cli.reports.export.data_files import csv_text
from mate_cli.reports.page import render_template
from mate_cli.tables.questions import Session, TableAnswerResult

FIELDS = ("table", "question", "answer", "aggregation", "value", "confidence", "calibrated", "abstained")
"""Columns of the CSV file that precede the cells."""


def answers_json(session: Session) -> str:
    """Format all answers as a JSON text, together with the model's name.

    Notes on each table file and the skipped files are included.
    """
    content = {
        "model": session.model,
        "answers": [entry(item) for item in session.answers],
        "notes": session.notes,
        "skipped": session.skipped,
    }
    return to_json(content, indent=1)


def answers_csv(session: Session) -> str:
    """Format all answers to questions as CSV, one row per answer.

    The selected cells, or the cells of a query result, are written as `row 3, sales: 1,204` and joined by semicolons.
    """
    rows: list[list[Any]] = [[*FIELDS, "cells", "remarks"]]
    for item in session.answers:
        row = entry(item)
        cells = "; ".join(f"row {number}, {column}: {text}" for number, column, text in _cells(item))
        remarks = " ".join([*row["cut"], *row["warnings"], row["failure"]]).strip()
        rows.append([*("" if row[name] is None else row[name] for name in FIELDS), cells, remarks])
    return csv_text(rows)


def _cells(answer: TableAnswerResult) -> Iterator[tuple[int, str, str]]:
    """Yield (row number, column name, text) of each table cell that an answer selects.

    If the answer is the result of a query, all cells of the result are yielded.
    """
    table, all_cells = answer.table, answer.result is not None
    positions = ((row, column) for row in range(len(table.rows)) for column in range(len(table.header)))
    for row, column in positions if all_cells else answer.cells:
        yield answer.row_numbers[row], table.header[column].text, table.rows[row][column].text


def entry(answered: TableAnswerResult) -> dict[str, Any]:
    """Convert an answered question with its table cells to a JSON object for an answers file.

    Rows are numbered from 1 below the header.
    """
    selected_cells = () if answered.result is not None else _cells(answered)
    cells = [
        {"row": row, "column": column, "text": text, "probability": round(share, 4)}
        for (row, column, text), share in zip(selected_cells, answered.probabilities, strict=True)
    ]
    columns = [cell.text for cell in answered.table.header]
    result = {} if answered.result is None else {"result": {"columns": columns, "rows": answered.result}}
    return {
        "table": answered.source,
        "question": answered.question,
        "answer": None if answered.abstained or answered.failure else answered.answer,
        "aggregation": answered.aggregation,
        "value": answered.value,
        "cells": cells,
        **result,
        "confidence": None if answered.confidence is None else round(answered.confidence, 4),
        "calibrated": answered.calibrated,
        "abstained": answered.abstained,
        "rows_looked_at": len(answered.table.rows),
        "rows": f"more than {answered.rows_in_file}" if answered.more_rows else answered.rows_in_file,
        "cut": list(answered.cut),
        "warnings": list(answered.warnings),
        "failure": answered.failure,
    }


def check_output(output: str | None) -> None:
    """Check that answers can be written to the file `output`, before the model is loaded.

    Raises:
        ConfigError: the suffix of the file is unknown, or its folder is not writable.
    """
    if output is None:
        return
    file = Path(output).expanduser()
    if file.suffix.lower() not in WRITERS:
        raise ConfigError("unknown file type", where=f"output={output}", remedy=f"Use {', '.join(WRITERS)}")
    check_writable(file, f"output={output}")


def write_answers(session: Session, output: str) -> Path:
    """Write all answers to a file in the format of its suffix, and return the file's path.

    Raises:
        RunError: the file cannot be written.
    """
    file = Path(output).expanduser()
    return write_text(file, WRITERS[file.suffix.lower()](session))


MAX_ROWS, MAX_COLUMNS = 60, 40


def render_answers(session: Session) -> str:
    """Render all answers as a self-contained HTML page."""
    groups = groupby(session.answers, key=lambda answered: answered.source)
    return render_template(
        "answers.html",
        title="Answers",
        style="answers.css",
        scripts=(),
        skipped=list(session.skipped.values()),
        tables=[(name, session.notes.get(name, ()), list(map(answer_card, answers))) for name, answers in groups],
        footer=speed_text(session),
    )


def answer_card(answered: TableAnswerResult) -> Mapping[str, Any]:
    """Return the template values of one answer: question, answer, confidence and table cells."""
    shown_part = window(answered, MAX_ROWS, MAX_COLUMNS)
    is_numeric = dict(zip(shown_part.columns, numeric_columns(answered, shown_part), strict=True))
    confidence = confidence_text(answered)
    details = [computed_text(answered), f"confidence {confidence}" if confidence else ""]
    header = answered.table.header
    return {
        "answered": answered,
        "text": answer_text(answered),
        "sure": rate_certainty(answered),
        "facts": " · ".join(filter(None, details)),
        "shown": shown_part,
        "names": {
            column: (header[column].text, is_numeric[column]) for column in shown_part.columns if column is not None
        },
        "number": lambda row: f"{answered.row_numbers[row]:,}",
        "hits": {row for row, column in answered.cells if column in shown_part.columns},
        "cell": lambda row, column: answered.table.rows[row][column].text,
        "hidden": hidden_text(shown_part),
    }


WRITERS: dict[str, Callable[[Session], str]] = {
    ".json": answers_json,
    ".jsonl": lambda session: "".join(to_json(entry(answered)) for answered in session.answers),
    ".csv": answers_csv,
    ".html": render_answers,
}
"""Functions that convert answers to the text of a file, by the suffix of the file."""
