"""Synthetic questions for HybridQA: their only clue lies in another cell of the row, or in a passage of one.

An answer is a cell, or a span of a passage that a cell links to; the row is singled out by another cell, by a
comparison of numbers, or by a sentence of a passage that another cell links to. So the row has to be matched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mate_cli.data.synthesis.predicates import pick, read_wording
from mate_cli.data.synthesis.question_clues import (
    Clue,
    cell_clue,
    draw_comparison,
    end_rows,
    join_clues,
    passage_clue,
    second_clue,
)
from mate_cli.data.synthesis.question_columns import DATE, NUMBER, PERSON, PLACE, YEAR, QuestionColumn, QuestionTable
from mate_cli.data.synthesis.question_spans import span_questions
from mate_cli.tables.example import Answer, Coordinates, TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.text import candidate_cells, find_all_substrings, normalize_for_candidates

_FORMS = read_wording("questions")


def column_forms(column: QuestionColumn, *, named: bool) -> tuple[str, ...]:
    """Return forms with {row} and {n} that ask for a cell of a column that does not name the rows."""
    more = _FORMS["named"] if named and not column.participle else ()
    last = column.noun.split()[-1]
    if column.kind == YEAR:
        return _event(column, "event_years") or _FORMS["years" if last in ("year", "season") else "dates"] + more
    if column.kind == DATE:
        return _event(column, "event_dates") or _FORMS["dates"] + more
    if column.plural:
        return _FORMS["counts" if column.kind == NUMBER else "plurals"]
    if column.kind == PERSON:
        return _FORMS["people"] + more
    if column.noun in _FORMS["origin_words"]:
        return _FORMS["origins"] + more
    return _FORMS["places" if column.kind == PLACE and last in _FORMS["where_words"] else "any"] + more


def subject_forms(clue: str, row_noun: str, *, person: bool) -> tuple[tuple[str, ...], str]:
    """Return forms with {row}, {s} and {rest} that ask for the cell that names the row, and the rest of its only clue.

    The clue is empty when there are two.
    """
    general: tuple[str, ...] = _FORMS["people_named" if person else "subjects"]
    if row_noun == "one":
        return general if person else ("what is the name of {row}", "what is {row} called"), ""
    begins, _, rest = clue.partition(" ")
    which = _FORMS["which"].get(begins, ())
    more = ("who is the {s} whose {rest}", "who was the {s} whose {rest}") if person and begins == "whose" else ()
    return (*more, *which, *general), rest if which else ""


def _event(column: QuestionColumn, forms: str) -> tuple[str, ...]:
    """Return forms for what happened then; "died" and the like take no "was"."""
    if happened := _FORMS["happened"].get(column.participle):
        year = column.kind == YEAR
        return (f"when did {{row}} {happened}", f"{'in what year' if year else 'on what date'} did {{row}} {happened}")
    return _FORMS[forms] if column.participle else ()


SHARES = {"cell_by_passage": 0.3, "passage_by_cell": 0.4, "passage_by_passage": 0.15, "cell_by_cell": 0.15}
"""How many questions there are of each kind: what the answer is, by what the clue is. Where a table has none of a kind,
the first one takes its place that it has."""
ENDS_SHARE = 0.35
"""How many clues of cells are to be how a number or date compares; people ask for a first or last one in a fifth of
HybridQA's questions, and rows drawn at random are seldom one."""
MAX_CANDIDATES = 3
"""An answer that more cells hold is not asked for."""
ATTEMPTS = 30
MORE_CLUES_SHARE, TITLE_SHARE = 0.1, 0.12
MAX_TITLE_WORDS, MAX_QUESTION_WORDS, MAX_ANSWER_WORDS = 7, 45, 8


class SyntheticQuestion(NamedTuple):
    """A question with all that is known of how it was made.

    Args:
        answer: text of the answer.
        row: body row of the gold cell, from 0.
        column: its column.
        link: the passage that holds the answer; None when the cell's own text is the answer.
        kind: a key of `SHARES`.
        form: how it is put, without what is the table's own.
        clue_rows: the rows that the clues together fit: always only the gold one.
        clue_columns: the columns that the clues are taken from.
        candidates: all cells that hold the answer.
    """

    text: str
    answer: str
    row: int
    column: int
    link: str | None
    kind: str
    form: str
    clue_rows: frozenset[int]
    clue_columns: frozenset[int]
    candidates: Coordinates


def as_example(table: Table, question: SyntheticQuestion, place: int, *, gold_only: bool = False) -> TableExample:
    """Return a made question as an example; its id holds the table's, its kind and its place among the table's.

    Its part, `first_column` or `other_columns`, says whether the first cell of the row is what is asked for or a clue:
    then one edge leads from any clue to the answer where cells see their row through its first cell, else two.
    """
    cells = ((question.row, question.column),) if gold_only else question.candidates
    part = "first_column" if 0 in {question.column, *question.clue_columns} else "other_columns"
    answer = Answer((question.answer,), cells, "passage" if question.link else "table")
    example_id = f"{table.table_id}/{question.kind}/{place}"
    return TableExample(example_id, question.text, table, answer, subsets=(part,))


def make_questions(
    table: Table,
    rng: np.random.Generator,
    count: int,
    most_candidates: int = MAX_CANDIDATES,
    kinds: Collection[str] = tuple(SHARES),
) -> list[SyntheticQuestion]:
    """Make up to so many different questions about a table, of some kinds as far as it has them."""
    asked = QuestionTable(table)
    if len(table.rows) < 2 or len(asked.columns) < 2:
        return []
    writer = _Writer(asked, rng, most_candidates)
    kinds = [kind for kind in SHARES if kind in kinds]
    shares = np.array([SHARES[kind] for kind in kinds])
    found: dict[str, SyntheticQuestion] = {}
    for wanted in rng.choice(len(kinds), size=count, p=shares / shares.sum()):
        order = [kinds[wanted], *(kind for kind in kinds if kind != kinds[wanted])]
        question = next((made for kind in order for made in writer.attempts(kind) if made.text not in found), None)
        if question is None:
            break
        found[question.text] = question
    return list(found.values())


class _Writer:
    """Draws questions about one table."""

    def __init__(self, asked: QuestionTable, rng: np.random.Generator, most_candidates: int) -> None:
        self._asked, self._rng, self._most = asked, rng, most_candidates
        table = asked.table
        rows = range(len(table.rows))
        self._cells = [(row, column) for column in asked.columns for row in rows if row in column.sayable]
        self._ends = [(row, column) for column in asked.columns for row in end_rows(column)]
        self._linked = [(row, column) for row, column in self._cells if asked.link(row, column)]

    def attempts(self, kind: str) -> Iterator[SyntheticQuestion]:
        """Return the questions of one kind, as far as a few attempts give any."""
        of, by = kind.split("_by_")
        places = self._cells if of == "cell" else self._linked
        for _ in range(ATTEMPTS if places and (by == "cell" or self._linked) else 0):
            row, column, clues = self._drawn(places, by)
            question = self._question(row, column, clues, kind) if clues else None
            if question is not None:
                yield question

    def _drawn(self, places: Sequence[tuple[int, QuestionColumn]], by: str) -> tuple[int, QuestionColumn, list[Clue]]:
        """Return the cell that is asked for, of some places, with clues."""
        if by == "cell" and self._ends and self._rng.random() < ENDS_SHARE:
            row, compared = pick(self._rng, self._ends)
            clue = draw_comparison(self._asked, row, compared, self._rng)
            others = [column for other, column in places if other == row and column is not compared]
            if clue and others:
                return row, pick(self._rng, others), [clue]
        row, column = pick(self._rng, places)
        return row, column, self._clues(row, column, by)

    def _clues(self, row: int, target: QuestionColumn, by: str) -> list[Clue]:
        """Return one clue, or two where one fits several rows; none when that fails."""
        others = [column for column in self._asked.columns if column is not target]
        draw = cell_clue if by == "cell" else passage_clue
        first = draw(self._asked, row, pick(self._rng, others), self._rng)
        if first is None or row not in first.rows:
            return []
        if len(first.rows) == 1 and (first.named or self._rng.random() > MORE_CLUES_SHARE):
            return [first]
        second = second_clue(self._asked, row, first, others, self._rng)
        if second is not None:
            return [first, second]
        return [first] if len(first.rows) == 1 else []

    def _question(self, row: int, column: QuestionColumn, clues: list[Clue], kind: str) -> SyntheticQuestion | None:
        link = None
        if kind.startswith("passage"):
            put = self._passage_question(row, column, clues)
            link = self._asked.link(row, column)
        else:
            put = self._cell_question(row, column, clues)
        if put is None:
            return None
        text, answer, form = put
        candidates = tuple(candidate_cells(self._asked.table, answer)) if _is_fair(text, answer) else ()
        if not 0 < len(candidates) <= self._most or (row, column.index) not in candidates:
            return None
        if self._rng.random() * len(candidates) > 1:  # most of the questions that people ask have one candidate
            return None
        form = " | ".join((form, *sorted(clue.form for clue in clues)))
        rows = frozenset.intersection(*(clue.rows for clue in clues))
        columns = frozenset.union(*(clue.columns for clue in clues))
        return SyntheticQuestion(text, answer, row, column.index, link, kind, form, rows, columns, candidates)

    def _cell_question(self, row: int, column: QuestionColumn, clues: list[Clue]) -> tuple[str, str, str]:
        mention, rest = join_clues(clues, self._asked.row_noun), ""
        if column is self._asked.subject:
            only = clues[0].text if len(clues) == 1 else ""
            forms, rest = subject_forms(only, self._asked.row_noun, person=column.kind == PERSON)
        else:
            forms = column_forms(column, named=any(clue.named for clue in clues))
        form = pick(self._rng, forms)
        text = form.format(row=mention, n=column.noun, s=self._asked.row_noun, p=column.participle, rest=rest)
        return self._finish_question(text), self._asked.text(row, column), form

    def _passage_question(self, row: int, column: QuestionColumn, clues: list[Clue]) -> tuple[str, str, str] | None:
        said = self._asked.predicates(row, column)
        if not said or column.plural:
            return None
        found = span_questions(pick(self._rng, said), self._asked.names(row, column), column.kind == PERSON)
        if not found:
            return None
        ask = pick(self._rng, found)
        if any(ask.head.endswith(f" the {other.noun} of") for other in self._asked.columns):
            return None  # it might as well be the table that is asked
        mention = join_clues(clues, self._asked.row_noun)
        if column is not self._asked.subject:
            owned = any(clue.named for clue in clues) and self._rng.random() < 0.5
            mention = f"{mention} 's {column.noun}" if owned else f"the {column.noun} of {mention}"
        return self._finish_question(ask.text(mention)), ask.answer, ask.form

    def _finish_question(self, text: str) -> str:
        title = " ".join(self._asked.table.title.split(" (")[0].split())
        title = title.replace("List of", "the list of", 1) if title.startswith("List of") else title
        if 0 < len(title.split()) <= MAX_TITLE_WORDS and self._rng.random() < TITLE_SHARE:
            text = f"{pick(self._rng, ('in', 'for'))} {title} , {text}"
        return f"{text[0].upper()}{text[1:]} ?"


def _is_fair(question: str, answer: str) -> bool:
    """Tell whether the question is not too long and does not give the answer away."""
    if len(question.split()) > MAX_QUESTION_WORDS or len(answer.split()) > MAX_ANSWER_WORDS:
        return False
    needle = normalize_for_candidates(answer)
    return bool(needle) and not find_all_substrings(needle, normalize_for_candidates(question))
