"""The ways to ask for a cell, by what kind of cell it is."""

from __future__ import annotations

from mate_cli.data.synthesis.question_columns import DATE, NUMBER, PERSON, PLACE, YEAR, QuestionColumn
from mate_cli.data.synthesis.word_sets import word_set

_ANY = (
    "what is the {n} of {row}",
    "what is the {n} of {row}",
    "what is the {n} for {row}",
    "which {n} does {row} have",
    "what {n} is listed for {row}",
    "what {n} is given for {row}",
    "for {row} , what is the {n}",
    "what {n} goes with {row}",
    "{row} has what {n}",
    "which {n} belongs to {row}",
)
_PLURALS = (
    "what are the {n} of {row}",
    "what are the {n} for {row}",
    "which {n} does {row} have",
    "which {n} are listed for {row}",
    "for {row} , what are the {n}",
)
_COUNTS = (
    "how many {n} did {row} have",
    "how many {n} does {row} have",
    "what is the number of {n} of {row}",
    "how many {n} are listed for {row}",
    "for {row} , how many {n} are given",
    "{row} has how many {n}",
)
_YEARS = (
    "what is the {n} of {row}",
    "what {n} is listed for {row}",
    "which {n} belongs to {row}",
    "in what {n} is {row} listed",
    "in which {n} does {row} appear",
    "{row} is listed for which {n}",
)
_EVENT_YEARS = (
    "in what year was {row} {p}",
    "when was {row} {p}",
    "what year was {row} {p}",
    "{row} was {p} in what year",
    "in which year was {row} {p}",
)
_DATES = (
    "what is the {n} of {row}",
    "what {n} is listed for {row}",
    "what is the {n} for {row}",
    "for {row} , what is the {n}",
    "which {n} belongs to {row}",
)
_EVENT_DATES = (
    "when was {row} {p}",
    "on what date was {row} {p}",
    "{row} was {p} on what date",
    "on which day was {row} {p}",
)
_PEOPLE = (
    "who is the {n} of {row}",
    "who was the {n} of {row}",
    "who is listed as the {n} of {row}",
    "what is the name of the {n} of {row}",
    "which {n} goes with {row}",
    "for {row} , who was the {n}",
    "who was the {n} for {row}",
)
_PLACES = (
    "where is {row}",
    "in what {n} is {row}",
    "in which {n} is {row} located",
    "in what {n} can {row} be found",
    "what is the {n} of {row}",
    "which {n} is listed for {row}",
)
_ORIGINS = (
    "what is the {n} of {row}",
    "which {n} is {row} from",
    "from which {n} does {row} come",
    "what {n} does {row} come from",
    "what {n} is listed for {row}",
)
_SUBJECTS = ("what is the name of {row}", "what is {row} called", "which one is {row}", "how is {row} called")
_NAMED = ("what is {row} 's {n}", "{row} has what {n}")
"""Only for a row that is called by its name."""
_WHICH = {
    "with ": ("which {s} has {rest}", "what {s} has {rest}", "what is the name of the {s} that has {rest}"),
    "who ": ("who {rest}", "which {s} {rest}", "what is the name of the {s} who {rest}"),
    "that ": ("which {s} {rest}", "what {s} {rest}", "what is the name of the {s} that {rest}"),
    "whose ": ("which {s} is the one whose {rest}", "what {s} is it whose {rest}", "what is the {s} whose {rest}"),
    "from ": ("which {s} is from {rest}", "what {s} is from {rest}"),
    "located ": ("which {s} is located {rest}", "what {s} can be found {rest}"),
}
"""Ways to ask for the cell that names the row, by how the row's only clue begins."""
_WHOSE_PEOPLE = ("who is the {s} whose {rest}", "who was the {s} whose {rest}", *_WHICH["whose "])
_ORIGIN_WORDS = word_set("country nation nationality hometown")
_WHERE_WORDS = word_set("location city venue town county region village suburb place")


def column_forms(column: QuestionColumn, *, named: bool) -> tuple[str, ...]:
    """Forms with {row} and {n} that ask for a cell of a column that does not name the rows."""
    more = _NAMED if named and not column.participle else ()
    last = column.noun.split()[-1]
    if column.kind == YEAR:
        return _event(column, _EVENT_YEARS) or (_YEARS if last in ("year", "season") else _DATES) + more
    if column.kind == DATE:
        return _event(column, _EVENT_DATES) or _DATES + more
    if column.kind == NUMBER and column.plural:
        return _COUNTS
    if column.plural:
        return _PLURALS
    if column.kind == PERSON:
        return _PEOPLE + more
    if column.noun in _ORIGIN_WORDS:
        return _ORIGINS + more
    if column.kind == PLACE and last in _WHERE_WORDS:
        return _PLACES + more
    return _ANY + more


def subject_forms(clue: str, row_noun: str, *, person: bool) -> tuple[tuple[str, ...], str]:
    """Forms with {row}, {s} and {rest} that ask for the cell that names the row, and the rest of its only clue.

    The clue is empty when there are two.
    """
    general: tuple[str, ...] = _SUBJECTS
    if person:
        general = ("who is {row}", "who was {row}", "what is the name of {row}")
    elif row_noun == "one":
        general = ("what is the name of {row}", "what is {row} called")
    begins = next((begin for begin in _WHICH if clue.startswith(begin)), None)
    if begins is None or row_noun == "one":
        return general, ""
    return (*(_WHOSE_PEOPLE if person and begins == "whose " else _WHICH[begins]), *general), clue[len(begins) :]


def _event(column: QuestionColumn, forms: tuple[str, ...]) -> tuple[str, ...]:
    """Forms for what happened then; "died" and the like take no "was"."""
    if column.participle in ("died", "retired", "joined", "premiered"):
        happened = {"died": "die", "retired": "retire", "joined": "join", "premiered": "premiere"}[column.participle]
        year = column.kind == YEAR
        return (f"when did {{row}} {happened}", f"{'in what year' if year else 'on what date'} did {{row}} {happened}")
    return forms if column.participle else ()
