"""Linking equals the original on its made-up table, and its parts equal their plain definitions."""

import dataclasses
from difflib import SequenceMatcher

import hybrider_golden
import numpy as np
import pytest
from hybrider_golden import IDS
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, texts

from mate_cli.papers.hybrider.linking import (
    TAU,
    OverlapDistance,
    TableLinks,
    TfidfDistance,
    link_questions,
    matching_texts,
    near_sentences,
    partial_ratio,
)
from mate_cli.papers.hybrider.nodes import SOURCES, extremes, first_sentence, page_sentences, page_title
from mate_cli.tables.table import Cell, Table

characters = st.text("abc é", max_size=12)


@pytest.fixture(scope="module")
def original():
    return hybrider_golden.load()


@pytest.mark.parametrize("question", IDS)
def test_nodes_are_the_originals(original, question):
    example = original.examples[question]
    nodes = TableLinks(original.table, original.raw["stop_words"]).nodes(example.question, example.question_tags)
    rows = [row for row in original.raw["inputs"] if row["question_id"] == question]
    expected = [node for row in rows for node in row["nodes"]]
    assert [[*dataclasses.astuple(node)] for node in nodes] == [
        [content, tuple(place), link, fact, pytest.approx(confidence, abs=1e-12), header, source]
        for content, place, link, fact, confidence, header, source in expected
    ]


def plain_overlap(question, sentence):
    match = SequenceMatcher(None, question.lower(), sentence.lower(), autojunk=False).find_longest_match()
    return 1 - match.size / len(question)


@given(st.text("aAbc ", min_size=1, max_size=12), st.lists(characters, max_size=5))
def test_overlap_is_the_longest_common_substring(question, texts):
    expected = [plain_overlap(question, text) for text in texts]
    assert OverlapDistance(texts).to(question).tolist() == pytest.approx(expected)


def test_overlap_does_not_run_over_the_end_of_a_sentence():
    assert OverlapDistance(["ab", "cd"]).to("abcd").tolist() == [0.5, 0.5]
    assert OverlapDistance(["", "b", ""]).to("b").tolist() == [1, 0, 1]


def test_tfidf_counts_pairs_of_words_without_accents_and_stop_words():
    distance = TfidfDistance(["the Café of Paris", "of Paris", "cafe london rome"], ["the", "of"])
    assert distance.to("cafe paris").tolist() == pytest.approx([0, 1, 1])
    assert distance.to("paris").tolist() == [1, 1, 1], "a single word tells nothing"


def test_without_any_pair_of_words_there_is_no_tfidf_node_but_there_are_others():
    table = Table("t", (Cell("Name"),), ((Cell("Ann", ("/wiki/Ann",)),),), passages={"/wiki/Ann": "is a"})
    assert len(TfidfDistance(["is a"], ["is"]).to("is a")) == 0
    assert {node.source for node in TableLinks(table).nodes("Ann is a")} == {"string-overlap", "links"}
    bare = dataclasses.replace(table, passages={})
    assert [node.source for node in TableLinks(bare).nodes("who is Ann")] == ["links"]


def test_near_sentences_fall_per_page_and_else_the_nearest_counts():
    links = ["a", "b", "a", "a", "b"]
    assert near_sentences(links, [0.7, 0.8, 0.7, 0.5, 0.9]) == [0, 1, 3]
    assert near_sentences(links, [0.94, 0.9, 0.9, 0.9, 0.9]) == [1], "the first of the nearest"
    assert near_sentences(links, [0.9, 0.9, 0.80, 0.9, 0.9]) == [2]
    assert near_sentences(links, [0.95] * 5) == []
    assert near_sentences(links, [0.95, 0.949, 0.95, 0.95, 0.95]) == [1]
    assert near_sentences(links, []) == []


def plain_partial_ratio(first, second):
    """Every alignment that a common block names, scored; as the pure Python of fuzzywuzzy is known to do."""
    shorter, longer = (first, second) if len(first) <= len(second) else (second, first)
    best = 0
    for block in SequenceMatcher(None, shorter, longer).get_matching_blocks():
        start = max(block.b - block.a, 0)
        best = max(best, SequenceMatcher(None, shorter, longer[start : start + len(shorter)]).ratio())
    return round(100 * best)


@given(characters | texts, characters | texts)
def test_partial_ratio_equals_its_definition(first, second):
    expected = plain_partial_ratio(first, second) if first and second else 0
    assert partial_ratio(first, second) == expected
    floored = partial_ratio(first, second, 90)
    assert floored == expected if expected > 90 else floored <= 90


def test_a_part_at_the_end_may_be_shorter():
    assert partial_ratio("abxcdefghi", "zzzzabcdefghi", 90) == 95, "nine of ten and of nine characters"


@pytest.mark.parametrize(
    ("text", "question", "matches"),
    [
        ("Carl Dune", "when was carl dune born ?", 1.0),
        ("1998", "who won in 1998 ?", 1.0),
        ("1998", "who won in 1999 ?", None),
        ("5", "who won in 1955 ?", None),
        ("Johannesburg", "who lives in Johannesburgh ?", 0.93),
        ("Johanesburg", "who lives in Johannesburg ?", 0.92),
        ("Barcelona", "who left barcelone ?", 0.91),
        ("New York", "who left new yark ?", None),
        ("", "who won ?", None),
        ("Who won in the end ? ! ?", "who won in the end ?", 1.0),
    ],
)
def test_cells_match_above_ninety(text, question, matches):
    assert matching_texts([text, text], question) == ({text: matches} if matches else {})


def column(*texts, header="Points"):
    return Table("t", (Cell(header),), tuple((Cell(text),) for text in texts))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("3", "1,200", "-", "5 %"), [("minimum", 0), ("maximum", 1)]),
        (("7", "2", "2", "7"), [("minimum", 1), ("maximum", 3)]),
        (("1998", "2001", "1990"), [("earliest", 2), ("latest", 1)]),
        (("May 3 , 1852", "12 June 1851", "x"), [("earliest", 1), ("latest", 0)]),
        (("5", "1998", "May 3 , 1852"), [("minimum", 0), ("maximum", 1)]),
        (("0", "0", "4"), [("minimum", 2), ("maximum", 2)]),
        (("a", "b", "c", "1"), []),
        (("nan", "inf", ""), []),
    ],
)
def test_extremes_of_a_column(texts, expected):
    assert extremes(column(*texts)) == tuple((word, (row, 0)) for word, row in expected)


def test_extremes_leave_out_some_headers_and_keep_the_last_of_equal_ones():
    assert extremes(column("1", "2", header="Position")) == ()
    table = Table("t", (Cell("A"), Cell("B"), Cell("A")), ((Cell("1"), Cell("5"), Cell("2")),))
    assert [place for _, place in extremes(table)] == [(0, 2), (0, 2), (0, 1), (0, 1)]


def test_superlatives_are_linked_when_the_tags_name_one():
    links = TableLinks(column("3", "9"))
    assert [node.fact for node in links.nodes("who has the most ?", "WP VBZ DT JJS .")] == ["minimum", "maximum"]
    assert links.nodes("who has the most ?", "WP VBZ DT NN .") == ()


def test_sentences_end_where_a_full_stop_stands_alone():
    assert page_sentences("He joined the U.S. Navy . He left . ") == ["He joined the U.S. Navy .", "He left ."]
    assert page_sentences("He joined. He left.") == ["He joined.", "He left."]
    assert first_sentence("Ann ran . She won") == "Ann ran ."
    assert first_sentence("") == ""
    assert page_title("/wiki/Anna_Berg") == "Anna Berg"


@given(st.lists(examples(), min_size=1, max_size=3))
def test_questions_are_linked_alike_alone_and_together(found):
    together = link_questions([*found, *found])
    assert together == [nodes for _ in range(2) for example in found for nodes in link_questions([example])]


@pytest.mark.long
def test_real_questions_are_all_linked(real):
    """On real tables, page nodes come within the threshold or alone, as many in a row as cells link the page."""
    found = real.examples("dev")[:25]
    linked = link_questions(found)
    for example, nodes in zip(found, linked, strict=True):
        assert nodes, example.example_id
        for source in SOURCES[:2]:
            distances = [node.confidence for node in nodes if node.source == source]
            assert not distances or max(distances) <= TAU or len(set(distances)) == 1
    assert np.mean([any(node.source == "tf-idf" for node in nodes) for nodes in linked]) > 0.5
