"""A question about a table, with what is known of its answer."""

from __future__ import annotations

from dataclasses import dataclass

from mate_cli.tables.table import Table


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of the answer.

    Args:
        texts: the answer as the dataset states it.
        coordinates: (row, column) of the body cells that hold it; both start at 0. For HybridQA these
            are the candidate cells of the marginal likelihood.
        source: where the answer is found: "table", "passage" or "missing"; empty when the dataset does not say.
    """

    texts: tuple[str, ...]
    coordinates: tuple[tuple[int, int], ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class TableExample:
    """One question about one table.

    Args:
        answer: None when it is not known.
        question_tags: part-of-speech tags of the question's words, parted by spaces, where the dataset has them.
    """

    example_id: str
    question: str
    table: Table
    answer: Answer | None = None
    question_tags: str = ""
