"""What a passage says of its subject, cut and varied into clues, and the questions for spans of it."""

import numpy as np
import pytest

from mate_cli.data.synthesis.predicates import article, content, keywords, predicates, shorten, vary
from mate_cli.data.synthesis.question_spans import span_questions

PASSAGE = (
    "Ann B. Lee ( /lee/ ; born 3 May 1950 ) is a retired Norwegian skier who lives in Oslo . She won the Silver Cup in "
    "1973 . The skier later opened three shops in Bergen . Her brother Bob was born in 1952 . Lee studied law ; it was "
    "hard . Founded in 1980 , the Lee School is her work ."
)
NAMES = frozenset(("ann", "b.", "lee"))


def words(text):
    return tuple(text.split())


def said(passage=PASSAGE, names=NAMES):
    return [" ".join(clause) for clause in predicates(passage, names)]


def test_only_what_is_said_of_the_subject():
    assert said() == [
        "was born on 3 May 1950",
        "is a retired Norwegian skier",
        "won the Silver Cup in 1973",
        "opened three shops in Bergen",
        "was founded in 1980",
    ]


def test_a_life_gives_two_dates():
    text = "Ann Lee ( May 3 , 1850 - June 4 , 1910 ) was a painter ."
    assert said(text)[:2] == ["was born on May 3 , 1850", "died on June 4 , 1910"]


def test_a_page_about_something_else_says_nothing():
    assert said("Season nine of the Show premiered in 1999 . It ended in 2000 .") == []
    assert said("") == []


def test_clauses_do_not_name_the_subject_again():
    assert all(not NAMES & set(clause.lower().split()) for clause in said())


@pytest.mark.parametrize("seed", range(20))
def test_clues_end_where_a_phrase_may(seed):
    clause = words("was founded in 1923 by two Bosnian brothers and plays in the old harbour of Split")
    cut = shorten(clause, np.random.default_rng(seed))
    assert cut == clause[: len(cut)]
    assert " ".join(cut[3:]) in {
        "1923",
        "1923 by two Bosnian brothers",
        "1923 by two Bosnian brothers and plays in the old harbour of Split",
    }


def test_names_and_dates_are_not_cut():
    rng = np.random.default_rng(0)
    clause = words("was born on May 1 , 1990 in Bosnia and Herzegovina")
    cuts = {" ".join(shorten(clause, rng)) for _ in range(40)}
    assert cuts == {"was born on May 1 , 1990", "was born on May 1 , 1990 in Bosnia and Herzegovina"}
    assert shorten(("is", "one", "of", "the"), rng) == ()


def test_variations_keep_most_of_what_is_said():
    rng = np.random.default_rng(1)
    clause = words("is a large wooden film studio located in Rome and Milan")
    found = {vary(clause, rng) for _ in range(60)}
    assert len(found) > 6
    for made in found:
        assert len(set(content(made)) & set(content(clause))) >= 4
    assert any(made.index("Milan") < made.index("Rome") for made in found)


def test_keywords_are_in_another_order_and_names_stay_whole():
    rng = np.random.default_rng(2)
    clause = words("led Indianapolis Washington School to several titles and famous championships")
    found = [" ".join(keywords(clause, rng)) for _ in range(10)]
    assert len(set(found)) > 3
    assert any("Indianapolis Washington School" in text for text in found)
    assert keywords(("was", "founded", "in", "1923"), rng) == ()


def test_articles():
    assert [article(word) for word in ("apple", "U.S.", "university", "pear", "8")] == ["an", "a", "a", "a", "an"]


ASKED = {
    "was founded in 1923": {("in what year was X founded", "1923"), ("when was X founded", "1923")},
    "was born on 3 May 1950": {("on what date was X born", "3 May 1950"), ("when was X born", "3 May 1950")},
    "was born in Omaha , Nebraska": {("where was X born", "Omaha")},
    "played for Celtic": {("which team did X play for", "Celtic"), ("X played for which team", "Celtic")},
    "was directed by John Lemont": {("who was X directed by", "John Lemont")},
    "won the Silver Cup in 1973": {("in what year did X win the Silver Cup", "1973"), ("what did X win", "Silver Cup")},
    "has a population of 39,843": {("what is the population of X", "39,843")},
    "seated about 17,341 spectators": {("X seated how many spectators", "17,341")},
    "is a Norwegian skier": {("what is the nationality of X", "Norwegian")},
    "is the home of Celtic": {("X is the home of what", "Celtic")},
    "lies in the city of Oslo": {("X lies in which city", "Oslo")},
}


@pytest.mark.parametrize("clause", ASKED)
def test_spans_are_asked_for_by_what_they_are(clause):
    found = {(ask.text("X"), ask.answer) for ask in span_questions(words(clause), frozenset(), person=True)}
    assert ASKED[clause] <= found


@pytest.mark.parametrize("clause", ["is old", "was in 1950", "is near the", "won 3 of them", "is a Norwegian"])
def test_nothing_is_asked_where_nothing_can_be(clause):
    assert span_questions(words(clause), frozenset(), person=False) == []


def test_the_subject_is_no_answer():
    assert span_questions(("played", "for", "Celtic"), frozenset(("celtic",)), person=True) == []
