"""The made-up table and six questions that the original Hybrider preprocessing was run on."""

import json
from dataclasses import dataclass
from typing import Any

import golden

from mate_cli.data.datasets.hybridqa.files import attach_passages, parse_hybridqa_table
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Table

IDS = ("q1", "q2", "q3", "q4", "q5", "q6")


@dataclass
class Golden:
    table: Table
    examples: dict[str, TableExample]
    raw: dict[str, Any]

    def rows(self, part: str, question: str) -> list[dict[str, Any]]:
        """What the original wrote about a question into one of its lists."""
        return [row for row in self.raw[part] if row["question_id"] == question]


def load() -> Golden:
    raw = json.loads(golden.others("hybrider_preprocessing.json").read_text(encoding="utf-8"))
    problems = []
    table = parse_hybridqa_table("Made_up_0", json.dumps(raw["table"]).encode(), problems)
    table = attach_passages(table, json.dumps(raw["passages"]).encode(), problems)
    assert not problems
    return Golden(table, {q["question_id"]: _example(q, table) for q in raw["questions"]}, raw)


def _example(question: dict[str, str], table: Table) -> TableExample:
    answer = Answer((question["answer-text"],))
    return TableExample(question["question_id"], question["question"], table, answer, question["question_postag"])
