import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from golden import numbers
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.data.corpora.shards import CorpusTable
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.synthesis.counterfactual import (
    Rewriting,
    TableReferences,
    counterfactual_pairs,
    find_places,
    replaceable_mentions,
)
from mate_cli.data.synthesis.statements import MAX_WORDS, Grammar, part_statements, table_parts
from mate_cli.tables.table import Cell, Table

GOLDEN = numbers("tapas/g11_intermediate")
SOME, ONE, ALL = Grammar(), Rewriting(), Rewriting(max_pairs=None)


def statements_of(table, rng, grammar=SOME, rewriting=ONE, max_words=MAX_WORDS):
    parts = table_parts(table.table)
    made = (part_statements(table, begin, part, rng, grammar, rewriting, max_words) for begin, part in parts)
    return [statement for some in made for statement in some]


def make_table(*rows, links=()):
    links = dict(links)
    header, *body = [tuple(Cell(text, links.get(text, ())) for text in row) for row in rows]
    return Table("t", header, tuple(body))


def shown(candidate):
    return {
        "focus": sorted(candidate.focus),
        "pos": sorted(candidate.positives),
        "neg": sorted(candidate.negatives),
        "support": sorted(candidate.support),
    }


def pairs_of(table, text, seeds=range(20), rewriting=ALL):
    """Every (positive, negative) that some seeds give."""
    references = TableReferences(table)
    made = (counterfactual_pairs(references, [text], np.random.default_rng(seed), rewriting) for seed in seeds)
    return {(pair.positive, pair.negative) for some in made for pair in some}


RACE = make_table(GOLDEN["tables"]["t2"]["columns"], *GOLDEN["tables"]["t2"]["rows"])
PEOPLE = make_table(
    ("Name", "Age", "Birthday"),
    ("Bob", "1.7", "24 April 1950"),
    ("Julia", "1.5", "24 April 1951"),
    ("Peter", "1.9", "24 March 1950"),
    links={"Bob": ("/wiki/Robert",), "Julia": ("/wiki/Julia",), "Peter": ("/wiki/Peter_(king)",)},
)
TOLD = GOLDEN["contrastive_candidates"]["text"]
BORN = "Robert was born on 24 April 1950."


def test_candidates_are_those_of_the_reference():
    expected = GOLDEN["contrastive_candidates"]
    assert [shown(found) for found in replaceable_mentions(TableReferences(RACE), expected["text"])] == expected[
        "candidates"
    ]


def test_the_pairs_of_the_reference_are_among_those_that_come_out():
    made = pairs_of(
        RACE, GOLDEN["contrastive_candidates"]["text"], rewriting=Rewriting(unsupported_share=1, max_pairs=None)
    )
    assert {(positive, negative) for _, positive, negative in GOLDEN["contrastive"]} <= made
    supported = pairs_of(RACE, GOLDEN["contrastive_candidates"]["text"])
    expected = {(positive, negative) for has_support, positive, negative in GOLDEN["contrastive"] if has_support}
    assert expected <= supported < made


def test_a_linked_cell_is_known_by_the_title_of_its_page():
    """The example of the reference's own tests, where an annotation says that Robert is Bob."""
    found = [shown(candidate) for candidate in replaceable_mentions(TableReferences(PEOPLE), BORN)]
    day, bob = ["24 April 1950"], ["Bob", "Robert"]
    assert found == [
        {"focus": day, "pos": day, "neg": ["24 April 1951", "24 March 1950"], "support": ["Robert"]},
        {"focus": bob, "pos": ["Bob"], "neg": ["Julia", "Peter"], "support": day},
    ]
    assert pairs_of(PEOPLE, BORN) == {
        ("Bob was born on 24 April 1950.", "Julia was born on 24 April 1950."),
        ("Bob was born on 24 April 1950.", "Peter was born on 24 April 1950."),
        ("Robert was born on 24 April 1950.", "Robert was born on 24 April 1951."),
        ("Robert was born on 24 April 1950.", "Robert was born on 24 March 1950."),
    }
    assert pairs_of(PEOPLE, BORN, rewriting=replace(ALL, min_context=7)) == pairs_of(PEOPLE, BORN)
    assert not pairs_of(PEOPLE, BORN, rewriting=replace(ALL, min_context=8))
    ages = make_table(("Name", "Age"), ("Bob", "17"), ("Julia", "15"))
    assert pairs_of(ages, "Bob is now 17.")
    assert pairs_of(ages, "Bob is 17.", rewriting=replace(ALL, min_context=3))
    assert not pairs_of(ages, "Bob is 17."), "three words and marks are too few by default"


def test_ordinals_cardinals_and_dates_do_not_stand_for_each_other():
    table = make_table(("Name", "Age", "Rank"), ("Bob", "1.7", "5th"), ("Julia", "1.5", "2"), ("Peter", "1.9", "third"))
    found = {
        candidate.focus: candidate.negatives
        for candidate in replaceable_mentions(TableReferences(table), "Bob is 5th.")
    }
    assert found[frozenset({"5th"})] == {"third"}


def test_what_stands_in_two_columns_is_no_reference():
    table = make_table(("Home", "Away"), ("Rome", "Oslo"), ("Oslo", "Bern"), ("Bonn", "Kiel"))
    text = "Rome played at home against Bern and Oslo."
    assert [found.focus for found in replaceable_mentions(TableReferences(table), text, clear=False)] == [
        {"Rome"},
        {"Bern"},
    ]


def test_what_is_shorter_than_three_characters_is_no_name():
    table = make_table(("Class", "City"), ("AB", "Rome"), ("CD", "Oslo"))
    found = replaceable_mentions(TableReferences(table), "Class AB met in Rome.", clear=False)
    assert [candidate.focus for candidate in found] == [{"Rome"}]


def test_a_replacement_that_makes_the_sentence_true_again_is_left_out():
    table = make_table(("Year", "Winner"), ("2004", "Ann Lee"), ("2005", "Ann Lee"), ("2006", "Cy Young"))
    text = "Ann Lee won the race of the year 2004."
    assert {negative for _, negative in pairs_of(table, text)} == {
        "Ann Lee won the race of the year 2006.",
        "Cy Young won the race of the year 2004.",
    }
    assert ("Ann Lee won the race of the year 2005.") in {
        n for _, n in pairs_of(table, text, rewriting=replace(ALL, clear=False))
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("In 1950 Perth won.", [(8, 13)]),
        ("Perth, Perth. (Perth) 'Perth' Perth's", [(0, 5), (7, 12), (15, 20), (23, 28), (30, 35)]),
        ("Perth-based Perthshire 3Perth Perth.com", []),
        ("Perth Glory of West Perth", []),
        ("Perth 2 and the Perth. The Perth, The Perth", [(16, 21), (27, 32)]),
    ],
)
def test_names_are_found_as_whole_tokens_that_are_no_part_of_a_longer_name(text, found):
    assert find_places(("Perth",), text, names=True) == found


def test_numbers_are_not_found_within_numbers():
    assert find_places(("5",), "3.5 5.5 1,5 15 5th 5% 5, 5.", names=False) == [(19, 20), (22, 23), (25, 26)]
    assert find_places(("24 April", "24 April 1950"), "on 24 April 1950", names=False) == [(3, 16)], "the longest wins"


def test_an_abbreviation_ends_no_sentence():
    table = make_table(("Name", "Land"), ("Ann Lee", "Peru"), ("Cy Young", "Chile"))
    (pair, *_) = pairs_of(table, "St. Mary's of the U.S. met Ann Lee once in Peru.")
    assert pair[0] == "St. Mary's of the U.S. met Ann Lee once in Peru."


FILLERS = ["was", "seen", "with", "the", "team", "in", "race", "of", "and", ",", "at", "Big"]
fillers = st.lists(st.sampled_from(FILLERS), min_size=2, max_size=6)


@st.composite
def told_tables(draw):
    """A table and sentences that mention its cells."""
    names = draw(st.lists(st.sampled_from(["Ann Lee", "Bob", "Cy", "Dee Bob", "Eve", "Ann"]), min_size=2, max_size=5))
    columns = [
        st.sampled_from(["7", "12", "2,000", "2000", "5th", "third"]),
        st.sampled_from(["Rome", "Oslo", "May 2001"]),
    ]
    table = make_table(("Name", "Number", "Place"), *[(name, *(draw(column) for column in columns)) for name in names])
    cells = st.sampled_from([cell.text for row in table.rows for cell in row])
    sentence = st.lists(st.one_of(fillers.map(" ".join), cells), min_size=2, max_size=6).map(" ".join)
    return table, ". ".join(draw(st.lists(sentence, min_size=1, max_size=3))) + "."


@given(told_tables(), st.integers(0, 3), st.booleans())
def test_a_negative_differs_from_its_positive_in_the_focus_only(told, seed, supported):
    table, text = told
    references = TableReferences(table)
    rewriting = Rewriting(unsupported_share=0 if supported else 1, max_pairs=None)
    columns = [{row[column].text for row in table.rows} for column in range(3)]
    for pair in counterfactual_pairs(references, [text], np.random.default_rng(seed), rewriting):
        pieces = re.split(re.escape(pair.focus), pair.positive)
        assert len(pieces) > 1
        assert re.fullmatch(
            f"(?:{re.escape(pair.focus)}|{re.escape(pair.replacement)})".join(map(re.escape, pieces)), pair.negative
        )
        assert pair.positive != pair.negative
        assert any({pair.focus, pair.replacement} <= column for column in columns), "both are of one column"
        assert not find_places((pair.replacement,), pair.positive, names=True), "what the text says is no replacement"
        if supported:
            rows = [{cell.text for cell in row} for row in table.rows]
            assert not any(pair.focus in row and pair.replacement in row for row in rows)


def corpus_tables():
    tables = {example.table.table_id: example.table for example in Sample().examples("dev")}
    return [CorpusTable.build(table, "sample") for table in [*tables.values(), replace(RACE, title=TOLD), PEOPLE]]


def test_statements_of_a_corpus_are_balanced_bare_and_the_same_again():
    made = [example for table in corpus_tables() for example in statements_of(table, np.random.default_rng(3))]
    again = [example for table in corpus_tables() for example in statements_of(table, np.random.default_rng(3))]
    assert made == again
    assert made != [example for table in corpus_tables() for example in statements_of(table, np.random.default_rng(4))]
    assert len({example.example_id for example in made}) == len(made)
    kinds = Counter((example.subsets, example.answer.label, *example.answer.texts) for example in made)
    assert set(kinds) == {
        ((k,), label, text)
        for k in ("synthetic", "counterfactual")
        for label, text in enumerate(("refuted", "entailed"))
    }
    assert kinds[("counterfactual",), 0, "refuted"] == kinds[("counterfactual",), 1, "entailed"]
    for example in made:
        around = (example.table.title, example.table.section_text, example.table.intro, example.table.passages)
        assert not any(around)
        assert len(example.table.rows) * len(example.table.header) <= 50


def test_long_statements_are_left_out_and_kinds_can_be_switched_off():
    (table, *_) = corpus_tables()
    rng = np.random.default_rng(0)
    assert all(len(it.question.split()) <= 12 for it in statements_of(table, rng, max_words=12))
    assert {it.subsets for it in statements_of(table, rng, rewriting=None)} == {("synthetic",)}
    assert {it.subsets for it in statements_of(table, rng, grammar=None, rewriting=ALL)} <= {("counterfactual",)}


@pytest.mark.long
def test_statements_do_not_depend_on_the_hashes_of_strings():
    script = (
        "import numpy as np; from mate_cli.data.corpora.shards import CorpusTable;"
        "from mate_cli.data.datasets.hybridqa.reader import Sample;"
        "from test_counterfactual import statements_of;"
        "table = CorpusTable.build(Sample().examples('dev')[0].table, 'sample');"
        "print([it.question for seed in range(5) for it in statements_of(table, np.random.default_rng(seed))])"
    )
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    runs = (
        subprocess.run(
            [sys.executable, "-c", script], env=known | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        )
        for seed in "12"
    )
    said = {run.stdout for run in runs}
    assert len(said) == 1
    assert len(said.pop()) > 500


def test_a_replacement_is_left_out_for_any_row_of_it():
    table = make_table(
        ("Year", "Winner"), ("2004", "Ann Lee"), ("2005", "Bob Stone"), ("2005", "Ann Lee"), ("2006", "Cy Young")
    )
    made = {negative for _, negative in pairs_of(table, "Ann Lee won the race of the year 2004.")}
    assert "Ann Lee won the race of the year 2006." in made
    assert "Ann Lee won the race of the year 2005." not in made


def test_two_things_of_one_name_do_not_stand_for_each_other():
    pages = {"2004": "/wiki/Crimson", "2005": "/wiki/Navy", "2006": "/wiki/Scarlet"}
    songs = [("Red", "2004"), ("Blue", "2005"), ("Red", "2006")]
    rows = tuple((Cell(name, (pages[year],)), Cell(year)) for name, year in songs)
    table = Table("t", (Cell("Song"), Cell("Year")), rows)
    made = pairs_of(table, "Crimson is heard since the year 2004.")
    assert {positive for positive, _ in made} == {"Crimson is heard since the year 2004."}, "the year is replaced only"


def test_passages_of_other_parts_are_not_told_of_a_part():
    rows = [[f"City {row}", str(1900 + row)] for row in range(40)]
    table = make_table(("Place", "Founded"), *rows, links={"City 39": ("last",), "City 1": ("first",)})
    text = "People came to City 0 in the year 1900."
    for link, pairs in (("first", 2), ("last", 0)):
        told = CorpusTable.build(replace(table, passages={link: text}), "made up")
        made = statements_of(told, np.random.default_rng(0), grammar=None, rewriting=ALL)
        assert len(made) == 2 * pairs


def test_no_negative_comes_twice():
    made = counterfactual_pairs(TableReferences(PEOPLE), [BORN] * 30, np.random.default_rng(0), ALL)
    assert sorted(Counter(pair.negative for pair in made).values()) == [1, 1, 1, 1]
