"""Predicates of passages: what sentences say of their subject, from the verb on ("was founded in 1909")."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mate_cli.errors import DataError
from mate_cli.files.safe_load import read_yaml
from mate_cli.papers.hybrider.linking import STOP_WORDS
from mate_cli.tokenization.expansion import split_sentences

Item = TypeVar("Item")


def pick(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    """Return one of some items, each as likely."""
    return items[int(rng.integers(len(items)))]


def shuffle(rng: np.random.Generator, items: Sequence[Item]) -> list[Item]:
    """Return the items in random order."""
    return [items[place] for place in rng.permutation(len(items))]


@cache
def _read_file() -> Mapping[str, Any]:
    return read_yaml(Path(__file__).with_name("wording.yaml"), DataError, "Install mate_cli again")


def read_wording(module: str) -> Mapping[str, Any]:
    """Return what `wording.yaml` has for a module: texts as sets of words, lists as tuples."""
    return {name: _freeze(value) for name, value in _read_file()[module].items()}


def _freeze(value: str | list[Any] | dict[str, Any]) -> object:
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list):
        return tuple(value)
    return {key: one if isinstance(one, str) else tuple(one) for key, one in value.items()}


_WORDS = read_wording("predicates")
LITTLE = frozenset(STOP_WORDS) - {"won"}
"""Words that say little."""
MONTHS: frozenset[str] = _WORDS["months"]


Words = tuple[str, ...]

MAX_SENTENCES = 6
MIN_CONTENT, MAX_CONTENT = 3, 8
"""Words that say something in a clue; two suffice where one of them has a capital or a digit."""
MAX_WORDS = 14

_MONTH = f"(?:{'|'.join(sorted(MONTHS))})"
DAY = rf"(?:\d{{1,2}} {_MONTH} \d{{4}}|{_MONTH} \d{{1,2}} , \d{{4}})"
_BORN = re.compile(rf"\(\s*(?:[^()]*[;,:] )?born ({DAY}|\d{{4}})\b")
_LIVED = re.compile(rf"\(\s*(?:[^()]*[;,:] )?({DAY}) [-\u2013] ({DAY})")
_BRACKETS = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_WORD = re.compile(r"\w")
_SHORT_FORM = re.compile(
    r"(?:^|\s)(?:[A-Z]|No|St|Dr|Mr|Mrs|Ms|Jr|Sr|vs|ca|Hon|Lt|Col|Gen|Rev|Inc|Ltd|Bros|Corp|Co|U\.S|D\.C)\s?\.$"
)

_DULL = _WORDS["adverbs"] | _WORDS["dull"]
_NEEDS_MORE = LITTLE | _WORDS["needs_more"]


def predicates(passage: str, names: frozenset[str]) -> list[Words]:
    """List what a passage says of its subject, in the order of the text, without repetitions.

    The passage is tokenised, with spaces between words. Names are lower-cased words by which its subject is called;
    they may stand before a verb, not behind it.

    Returns:
        Phrases of at least three words, each beginning with a verb in the singular.
    """
    sentences = _sentences(passage)[:MAX_SENTENCES]
    if not sentences or not names & {word.lower() for word in sentences[0].split()[:6]}:
        return []  # a page about something else, to which the link was redirected
    found = _life(passage[: passage.find(")") + 1])
    nouns = frozenset(word for word in sentences[0].split() if word.islower())
    for number, sentence in enumerate(sentences):
        words = tuple(_BRACKETS.sub("", _BRACKETS.sub("", sentence)).split())
        found += _fronted(words, names)
        first = next((place for place in range(1, min(len(words), 18)) if words[place] in ("is", "was")), None)
        begin = _verb(words, names, nouns) if number else first
        if begin:
            found.append(_clause(words[begin:]))
    kept = (clause for clause in found if len(clause) > 2 and not names & {word.lower() for word in clause})
    return list(dict.fromkeys(kept))


def _sentences(passage: str) -> list[str]:
    """Return sentences, whole where an initial or a short form with a dot is in them."""
    joined: list[str] = []
    for sentence in split_sentences(passage):
        if joined and _SHORT_FORM.search(joined[-1]):
            joined[-1] += f" {sentence}"
        else:
            joined.append(sentence)
    return joined


def content(words: Sequence[str]) -> list[str]:
    """Return the words that say something."""
    return [word for word in words if word.lower() not in LITTLE and _WORD.search(word)]


def shorten(clause: Words, rng: np.random.Generator) -> Words:
    """Return a beginning of a phrase that says enough and ends where a phrase may end; empty when there is none."""
    ends = [end for end in range(3, min(len(clause), MAX_WORDS) + 1) if _may_end(clause, end)]
    return clause[: pick(rng, ends)] if ends else ()


def vary(clause: Words, rng: np.random.Generator) -> Words:
    """Vary a phrase by chance: another word of the same meaning, no adjective, or two names exchanged."""
    words = list(clause)
    for place, word in enumerate(words):
        if word in _WORDS["same"] and rng.random() < 0.4:
            words[place] = pick(rng, _WORDS["same"][word].split(" | "))
    modifiers = [place for place in range(2, len(words) - 1) if _modifies(words, place)]
    if modifiers and len(content(words)) > MIN_CONTENT and rng.random() < 0.4:
        place = pick(rng, modifiers)
        del words[place]
    if "and" in words[1:-1] and rng.random() < 0.5:
        _exchange(words, words.index("and", 1))
    for place in range(len(words) - 1):
        if words[place] in ("a", "an"):
            words[place] = article(words[place + 1])
    return tuple(words)


def keywords(clause: Words, rng: np.random.Generator) -> Words:
    """Return a phrase in other words: a few of its telling words, names kept whole, in random order; or empty."""
    if "born" in clause or "died" in clause:
        return ()
    items = [item for item in _items(clause[1:]) if len(item) > 3 and item not in _DULL]
    if len(items) < MIN_CONTENT:
        return ()
    chosen = shuffle(rng, items)[: int(rng.integers(MIN_CONTENT, 5))]
    verb = pick(rng, ("is described with the words", "is associated with", "has to do with", "is linked with"))
    return tuple(f"{verb} {' , '.join(chosen[:-1])} and {chosen[-1]}".split())


def _life(brackets: str) -> list[Words]:
    """Return dates of birth and death from the brackets behind a person's name."""
    lived, born = _LIVED.search(brackets), _BORN.search(brackets)
    if lived:
        return [("was", "born", "on", *lived[1].split()), ("died", "on", *lived[2].split())]
    if born:
        return [("was", "born", "in" if born[1].isdecimal() else "on", *born[1].split())]
    return []


def _fronted(words: Words, names: frozenset[str]) -> list[Words]:
    """Say what "Founded in 1923 , it ..." says: that it was founded in 1923."""
    first = words[0] if words else ""
    if not (first.endswith("ed") or first in ("Born", "Built", "Set")) or "," not in words[:15]:
        return []
    comma = words.index(",")
    follows = words[comma + 1].lower() if comma + 1 < len(words) else ""
    if follows not in ("it", "he", "she", "the") and follows not in names:
        return []
    return [_clause(("was", first.lower(), *words[1:comma]))]


def _verb(words: Words, names: frozenset[str], nouns: frozenset[str]) -> int | None:
    """Find where the verb of a later sentence is, if its subject is that of the passage."""
    pronoun = words[0] in ("He", "She", "It") if words else False
    begin = 1 if pronoun else 0
    if not pronoun and len(words) > 2 and words[0] == "The" and words[1] in nouns:
        begin = 2
    while not pronoun and begin < len(words) and words[begin].lower() in names:
        begin += 1
    while begin < len(words) and words[begin] in _WORDS["adverbs"]:
        begin += 1
    if not begin or begin >= len(words):
        return None
    verb = words[begin]
    known = verb in _WORDS["verbs"] or verb.endswith("ed")
    return begin if verb.islower() and (known or (pronoun and verb not in _WORDS["no_verbs"])) else None


def _clause(words: Words) -> Words:
    """Return the words up to where the clause ends; none when quotation marks or brackets are left open."""
    end = next((place for place in range(1, len(words)) if words[place].lower() in _WORDS["ends"]), len(words))
    clause = list(words[:end])
    while clause and (clause[-1] in {",", ".", "and", "or", "!", "?"} or clause[-1] == "'"):
        clause.pop()
    text = " ".join(clause)
    if text.count('"') % 2 or any(mark in clause for mark in ("'", "``", "''", "/", "listen", "(", ")")):
        return ()
    return tuple(clause)


def _may_end(clause: Words, end: int) -> bool:
    """Tell whether a phrase may be cut here, and says neither too little nor too much then."""
    kept, last = clause[:end], clause[end - 1]
    short = len(last) < 2 or last.endswith(".") or (last.isdecimal() and len(last) < 3)
    if last.lower() in _NEEDS_MORE or last in MONTHS or short or ("between" in kept and "and" not in kept):
        return False
    if end < len(clause) and (clause[end] not in _WORDS["boundaries"] or _goes_on(clause, end)):
        return False
    if (
        end < len(clause) and last.islower() and (last in _WORDS["verbs"] or last.endswith(("ed", "ing", "ly")))
    ):  # by whom, in what, ...
        return False
    telling = content(kept[1:])
    least = 2 if any(not word.islower() for word in telling) else MIN_CONTENT
    return least <= len(telling) <= MAX_CONTENT


def _goes_on(clause: Words, end: int) -> bool:
    """Tell whether a name or a date goes on behind a boundary: "Bosnia and Herzegovina", "May 1 , 1990"."""
    last, boundary, after = clause[end - 1], clause[end], (*clause[end + 1 : end + 2], "")[0]
    if boundary == "and":
        return _is_named(last) and _is_named(after)
    return boundary == "," and last[-1].isdigit() and after[:1].isdigit()


def _is_named(word: str) -> bool:
    return word[:1].isupper()


def _modifies(words: Sequence[str], place: int) -> bool:
    """Tell whether a word can be left out: one that says something, between an article or adjective and a noun."""
    before, word, after = words[place - 1 : place + 2]
    if not (word.isalpha() and after.isalpha() and after.islower()) or len(content((word, after))) < 2:
        return False
    fits = before in ("a", "an", "the") or before.endswith("an")
    return fits and not word.endswith(("ed", "ly")) and not after.endswith(("ed", "ly", "ing", "ous", "able"))


def article(word: str) -> str:
    """Choose the indefinite article before a word, by the word's letters."""
    said = word.lower()
    vowel = said.startswith(tuple("aeiou")) and not said.startswith(("uni", "eu", "us", "u.s", "one"))
    return "an" if vowel or said in ("8", "11", "18") else "a"


def _exchange(words: list[str], middle: int) -> None:
    """Exchange single names on both sides of an "and"."""
    left, right = words[middle - 1], words[middle + 1]
    outside = (words[middle - 2], words[middle + 2] if middle + 2 < len(words) else "")
    if _is_named(left) and _is_named(right) and not any(map(_is_named, outside)):
        words[middle - 1], words[middle + 1] = right, left


def _items(words: Words) -> list[str]:
    """Return the words that say something; capitalised ones that follow each other are one item."""
    items: list[list[str]] = []
    last_named = False
    for word in words:
        telling = bool(content((word,)))
        if telling and last_named and _is_named(word):
            items[-1].append(word)
        elif telling:
            items.append([word])
        last_named = telling and _is_named(word)
    return list(dict.fromkeys(" ".join(item) for item in items))
