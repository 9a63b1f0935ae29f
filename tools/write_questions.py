"""Writes synthetic questions about a HybridQA release as a file of its layout, for `data.extra_train`.

    python tools/write_questions.py data/hybridqa data/hybridqa/released_data/synthetic.json
    mate train experiment=hybridqa_mate data.extra_train=[released_data/synthetic.json]

Read back, each example has all cells that hold its answer as candidates. Of near-equal questions the first is read
back, unless `data.near_duplicate=1`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mate_cli.data.datasets.synthetic_questions import Made, SyntheticQuestions
from mate_cli.data.synthesis.questions import SyntheticQuestion
from mate_cli.tables.example import TableExample


def write_questions(made: Sequence[Made], path: Path) -> None:
    """Write questions, with a .traced.json beside them that has their answer nodes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    traced = [format_entry(*one) for one in made]
    plain = [{key: value for key, value in entry.items() if key != "answer-node"} for entry in traced]
    for file, entries in ((path, plain), (path.with_suffix(".traced.json"), traced)):
        file.write_text(json.dumps(entries, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def format_entry(example: TableExample, question: SyntheticQuestion) -> dict[str, Any]:
    """Format one question as the release does."""
    cell = example.table.rows[question.row][question.column]
    node = [cell.text, [question.row, question.column], question.link, "passage" if question.link else "table"]
    return {
        "question_id": example.example_id,
        "question": question.text,
        "table_id": example.table.table_id,
        "answer-text": question.answer,
        "answer-node": [node],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder of the release")
    parser.add_argument("path", type=Path, help="file to write")
    parser.add_argument("--split", choices=("train", "dev"), default="train")
    words = parser.parse_args()
    write_questions(SyntheticQuestions(words.root).make(words.split), words.path)
