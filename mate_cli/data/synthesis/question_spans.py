"""Turn what a passage says of its subject into a question for a date, a number, a place or a name in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mate_cli.data.synthesis.predicates import MONTHS, Words, content, read_wording

MAX_BEFORE, MAX_INVERTED, MAX_NAME = 14, 7, 6


class SpanQuestion(NamedTuple):
    """A question for a span: its words before and behind the mention of the subject, and the answer.

    Args:
        form: what kind of question it is, to count by.
    """

    head: str
    tail: str
    answer: str
    form: str

    def text(self, subject: str) -> str:
        """Return the question about a subject."""
        return " ".join(part for part in (self.head, subject, self.tail) if part)


class AnswerSpan(NamedTuple):
    """Words [begin, end) of a predicate and what they are: date, year, count, measure or name."""

    begin: int
    end: int
    kind: str


_YEAR = re.compile(r"1[1-9]\d\d|20[0-3]\d")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_YEAR_PREPOSITIONS = ("in", "since", "until", "during", "from", "by")
_WORDS = read_wording("question_spans")
_PREPOSITIONS: frozenset[str] = _WORDS["prepositions"]


def span_questions(clause: Words, names: frozenset[str], person: bool) -> list[SpanQuestion]:
    """Return all the questions that one predicate gives rise to.

    The clause begins with a verb in the singular; no answer has one of the lower-cased `names` of its subject.
    """
    found = list(_nationality(clause)) if person else []
    for span in _spans(clause):
        before, after = clause[: span.begin], clause[span.end :]
        if len(before) <= MAX_BEFORE and not names & {word.lower() for word in clause[span.begin : span.end]}:
            answer = " ".join(clause[span.begin : span.end])
            found += [SpanQuestion(head, tail, answer, form) for head, tail, form in _forms(span, before, after)]
    return found


def _nationality(clause: Words) -> Iterator[SpanQuestion]:
    is_a = clause[0] in ("is", "was") and clause[1] in ("a", "an") and len(clause) > 3
    if is_a and clause[2].istitle() and clause[3].islower() and clause[2].endswith(("an", "sh", "ch", "se", "ss", "i")):
        yield SpanQuestion("what is the nationality of", "", clause[2], "nationality")


def _spans(clause: Words) -> Iterator[AnswerSpan]:
    place = 1
    while place < len(clause):
        span = _span_at(clause, place)
        if span is not None:
            yield span
        place = span.end if span is not None else place + 1


def _span_at(clause: Words, place: int) -> AnswerSpan | None:
    word, before = clause[place], clause[place - 1]
    end = _date_end(clause, place)
    if end:
        return AnswerSpan(place, end, "date") if before == "on" else None
    if _YEAR.fullmatch(word):
        return AnswerSpan(place, place + 1, "year") if before in _YEAR_PREPOSITIONS else None
    if _NUMBER.fullmatch(word):
        after = clause[place + 1] if place + 1 < len(clause) else ""
        if before == "of" and clause[place - 2] in _WORDS["measures"]:
            return AnswerSpan(place, place + 1, "measure")
        plain = before not in ("the", ",", "and", "-", "to", "$", "£", "No") and after.isalpha() and after.islower()
        return AnswerSpan(place, place + 1, "count") if plain and after.endswith("s") else None
    return _name_at(clause, place)


def _date_end(clause: Words, place: int) -> int:
    """Find where a date that begins here ends; 0 without one."""
    words = clause[place : place + 4]
    if len(words) > 2 and words[0].isdecimal() and words[1] in MONTHS and _YEAR.fullmatch(words[2]):
        return place + 3
    full = len(words) == 4 and words[0] in MONTHS and words[1].isdecimal() and words[2] == ","
    return place + 4 if full and _YEAR.fullmatch(words[3]) else 0


def _name_at(clause: Words, place: int) -> AnswerSpan | None:
    before = clause[place - 1]
    if not _is_name(clause[place]) or not before.islower() or clause[place] in MONTHS:
        return None
    at = place - 2 if before == "the" else place - 1
    before = clause[at]
    if before in ("of", "for") and _is_name(clause[at - 1]):  # the name has begun before
        return None
    if before not in _PREPOSITIONS and before not in _WORDS["take_names"]:
        return None
    end = place + 1
    while end < len(clause) and (_is_name(clause[end]) or _goes_on(clause, end)):
        end += 1
    follows = clause[end] if end < len(clause) else ""
    whole = not follows or follows in (",", "and") or follows in _PREPOSITIONS
    listed = follows in (",", "and") and end + 1 < len(clause) and _is_name(clause[end + 1])
    alone = not listed or (follows == "," and before in ("in", "at", "near"))
    return AnswerSpan(place, end, "name") if whole and alone and end - place <= MAX_NAME else None


def _goes_on(clause: Words, place: int) -> bool:
    """Tell whether a word is a small one inside a name, followed by the rest of it."""
    after = clause[place + 1 : place + 3]
    if clause[place] not in _WORDS["in_names"] or not after:
        return False
    return _is_name(after[0]) or (after[0] == "the" and len(after) > 1 and _is_name(after[1]))


def _is_name(word: str) -> bool:
    return word[:1].isupper() and any(map(str.isalpha, word)) and word not in ("I", "A", "No")


def _forms(span: AnswerSpan, before: Words, after: Words) -> Iterator[tuple[str, str, str]]:
    """Return (words before the subject, words behind it, form) of each way to ask for a span."""
    kind = span.kind
    if kind == "measure":
        yield f"what is the {before[-2]} of", "", "measure"
    elif kind == "count":
        before = before[:-1] if before[-1] in _WORDS["roughly"] else before
        yield "", f"{_join_words(before)} how many {' '.join(after[: _count_words(after)])}", "how many"
    elif kind == "date":
        yield from _ask_for_time(before[:-1], "on what date", "date")
    elif kind == "year":
        yield from _ask_for_time(before[:-1], f"{before[-1]} what year", "year")
    else:
        yield from _ask_for_name(before)


def _count_words(after: Words) -> int:
    """Count the words behind a number that belong to the question: its noun, and what follows up to a comma."""
    end = next((place for place, word in enumerate(after) if word in (",", "and", "or")), len(after))
    whole = end == len(after) or after[end] == ","
    return end if whole and end <= 5 else 1


def _ask_for_time(before: Words, when: str, kind: str) -> Iterator[tuple[str, str, str]]:
    if not content(before):
        return
    yield "", f"{_join_words(before)} {when}", f"{kind} in place"
    if not when.startswith(("on", "in")):
        return
    for asked in (when, "when"):
        inverted = _inverted(before)
        if inverted is not None:
            yield f"{asked} {inverted[0]}", inverted[1], f"{kind} {'when' if asked == 'when' else 'first'}"


def _inverted(words: Words) -> tuple[str, str] | None:
    """Find the helping verb before the subject and the words behind it: "was | founded"; None if unknown."""
    if words[0] in _WORDS["bases"]:
        return "does" if words[0].endswith("s") else "did", _join_words((_WORDS["bases"][words[0]], *words[1:]))
    simple = 1 < len(words) <= MAX_INVERTED and words[1] not in _WORDS["no_inversion"] and "," not in words
    return (words[0], _join_words(words[1:])) if words[0] in ("was", "is") and simple else None


def _ask_for_name(before: Words) -> Iterator[tuple[str, str, str]]:
    had_article = before[-1] == "the"
    before = before[:-1] if had_article else before
    if len(before) < 2 and before[-1:] != ("won",) and not content(before):
        return
    preposition = before[-1] if before[-1] in _PREPOSITIONS else ""
    rest = before[:-1] if preposition else before
    if not rest or (not content(rest[1:]) and rest[0] in ("is", "was", "has", "had")):
        return
    if preposition in ("in", "at", "near") and rest[-1] in _WORDS["placed"]:
        yield from _ask_for_place(rest, preposition)
    elif preposition in ("in", "on", "at", "to", "as", "with", "into", "during", "since", "under", "until", "near"):
        return  # too many things can be meant
    else:
        yield from _ask_for_what(rest, preposition, had_article)


def _ask_for_place(rest: Words, preposition: str) -> Iterator[tuple[str, str, str]]:
    yield "", f"{_join_words(rest)} {preposition} what place", "place in place"
    inverted = _inverted(rest)
    if inverted is not None:
        yield f"where {inverted[0]}", inverted[1], "where"


def _ask_for_what(rest: Words, preposition: str, had_article: bool) -> Iterator[tuple[str, str, str]]:
    keys = (f"{word} {preposition}".strip() for word in rest)
    what = next((_WORDS["what_for"][key] for key in keys if key in _WORDS["what_for"]), "what")
    if preposition == "by" and rest[-1].islower() and not had_article:
        what = "whom"
    elif rest[-1] == "one":
        return
    elif preposition == "of" and rest[-1] in _WORDS["places_of"] and rest[-2] == "the" and rest[-3] in _PREPOSITIONS:
        yield "", _join_words((*rest[:-2], "which", rest[-1])), "place of"
        return
    yield "", _join_words([word for word in (*rest, preposition, what) if word]), "name in place"
    inverted = _inverted(rest)
    if inverted is not None:
        asked = "who" if what == "whom" else what
        yield f"{asked} {inverted[0]}", f"{inverted[1]} {preposition}".strip(), "name first"


def _join_words(words: Sequence[str]) -> str:
    return " ".join(words)
