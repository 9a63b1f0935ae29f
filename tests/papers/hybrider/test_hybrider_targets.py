"""Targets and labels equal the original's on its made-up table, and the released answer nodes on real ones."""

import dataclasses
import json
from dataclasses import replace

import hybrider_golden
import pytest
from golden import shared
from hybrider_golden import IDS

from mate_cli.papers.hybrider.linking import TableLinks
from mate_cli.papers.hybrider.nodes import MAX_CANDIDATES, Node
from mate_cli.papers.hybrider.targets import (
    AnswerNode,
    Target,
    find_target,
    hop_candidates,
    hop_labels,
    page_example,
    ranking_labels,
    reading_links,
    trace_answer,
)
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table


@pytest.fixture(scope="module")
def original():
    return hybrider_golden.load()


def linked(original, question):
    example = original.examples[question]
    nodes = TableLinks(original.table, original.raw["stop_words"]).nodes(example.question, example.question_tags)
    return example, nodes, find_target(example, nodes)


def as_released(nodes):
    return [[node.content, list(node.coordinate), node.link, node.source] for node in nodes]


@pytest.mark.parametrize("question", IDS)
def test_targets_and_labels_are_the_originals(original, question):
    example, nodes, target = linked(original, question)
    assert as_released(trace_answer(original.table, example.answer.texts[0])) == original.raw["answer_nodes"][question]
    kept = original.rows("step3", question)
    expected = kept[0] if kept else {"type": "trivial", "where": ""}  # the original forgets trivial questions
    assert (target.kind, target.where) == (expected["type"], expected["where"])
    assert not kept or as_released(target.nodes) == expected["answer-node"]
    expected = [row["labels"] for row in original.rows("stage1", question)]
    assert [list(labels) for labels in [ranking_labels(target, nodes)] if labels] == expected
    rows = []
    for node in nodes:
        candidates = hop_candidates(example.table, node.coordinate[0])
        labels = hop_labels(target, candidates)
        if labels:
            fields = [(*dataclasses.astuple(candidate),) for candidate in candidates]
            rows.append((node.content, [[text, list(place), *rest] for text, place, *rest in fields], list(labels)))
    expected = original.rows("stage2", question)
    assert rows == [(row["current"][0], row["target"], row["labels"]) for row in expected]
    texts = [page_example(example, link).table.rows[0][0].text for link in reading_links(example, target)]
    assert texts == [row["context"] for row in original.rows("stage3", question)]


TABLE = Table(
    "t",
    (Cell("City"), Cell("Mayor"), Cell("Born")),
    (
        (Cell("Oslo", ("/wiki/Oslo",)), Cell("Ann Lee", ("/wiki/Ann_Lee",)), Cell("1960")),
        (Cell("Bergen"), Cell(""), Cell("Oslo")),
    ),
    passages={"/wiki/Oslo": "Oslo is a city . It is old .", "/wiki/Ann_Lee": "Ann Lee grew up in Oslo . She sings ."},
)


def question(text, answer):
    return TableExample("q", text, TABLE, Answer((answer,)))


def node(row, column, source="links", link=None):
    return Node("x", (row, column), link, "", 1.0, "", source)


def test_tracing_matches_words_between_spaces_and_nothing_else():
    assert as_released(trace_answer(TABLE, "oslo")) == [
        ["Oslo", [0, 0], None, "table"],
        ["Oslo", [1, 2], None, "table"],
        ["Ann Lee", [0, 1], "/wiki/Ann_Lee", "passage"],
    ]
    assert trace_answer(TABLE, "Osl") == ()
    assert trace_answer(TABLE, "the Oslo") == ()


def test_columns_named_in_the_question_are_preferred():
    nodes = [node(0, 0), node(1, 0)]
    assert find_target(question("where was she ?", "Oslo"), nodes).nodes[0].coordinate == (0, 0)
    assert find_target(question("where was she Born ?", "Oslo"), nodes).nodes == (AnswerNode("Oslo", (1, 2), None),)


def test_columns_are_not_looked_at_when_only_pages_hold_the_answer():
    pages = {"/wiki/Oslo": "She sings .", "/wiki/Ann_Lee": "She sings ."}
    example = replace(question("which City ?", "sings"), table=replace(TABLE, passages=pages))
    assert [n.coordinate for n in find_target(example, []).nodes] == [(0, 0), (0, 1)]


def test_answers_near_evidence_are_preferred():
    example = question("where ?", "Oslo")
    assert [n.coordinate for n in find_target(example, [node(1, 0)]).nodes] == [(1, 2)]
    assert [n.coordinate for n in find_target(example, [node(0, 1)]).nodes] == [(0, 1)]
    assert [n.coordinate for n in find_target(example, [node(0, 2)]).nodes] == [(0, 0), (0, 1)]
    assert [n.coordinate for n in find_target(example, []).nodes] == [(0, 0), (1, 2), (0, 1)]


def test_kinds():
    def kind(text, answer, *nodes):
        return find_target(question(text, answer), nodes).kind

    assert kind("who ?", "Bergen", node(1, 0, "tf-idf")) == "trivial"
    assert kind("who ?", "Bergen", node(1, 0, "tf-idf"), node(1, 0)) == "trivial"
    assert kind("who ?", "Bergen", node(1, 0)) == "easy"
    assert kind("who ?", "Bergen", node(1, 1)) == "medium"
    assert kind("who ?", "Bergen", node(0, 1)) == "hard"
    assert kind("How many ?", "3") == "numeric"
    assert kind("who ?", "3") == "dropped"
    assert kind("is it ?", "Yes") == "dropped"
    assert kind("How many ?", " ".join("abcdefghijklmno")) == "numeric"
    assert kind("How many ?", " ".join("abcdefghijklmnop")) == "dropped", "more than 15 words"
    assert find_target(replace(question("who ?", "x"), answer=None), ()) == Target("dropped")


def test_where_is_said_before_the_evidence_is_looked_at():
    assert find_target(question("where ?", "Oslo"), [node(0, 1)]).where == "table"


def test_a_page_and_a_cell_named_like_it_are_both_right():
    target = Target("easy", "passage", (AnswerNode("Ann Lee", (0, 1), "/wiki/Ann_Lee"),))
    candidates = hop_candidates(TABLE, 0)
    assert [c.content for c in candidates] == ["Oslo", "Oslo", "Ann Lee", "Ann Lee", "1960"]
    assert [c.sentence for c in candidates] == ["", "Oslo is a city .", "", "Ann Lee grew up in Oslo .", ""]
    assert hop_labels(target, candidates) == (0, 0, 1, 1, 0)
    earlier = AnswerNode("Oslo", (0, 0), None)
    assert hop_labels(replace(target, nodes=(earlier, *target.nodes)), candidates) == (0, 0, 1, 1, 0), "the last counts"
    assert hop_labels(target, hop_candidates(TABLE, 1)) == ()
    assert hop_labels(replace(target, kind="hard"), candidates) == ()


def test_hops_leave_out_empty_cells_and_stop_at_sixteen():
    assert [c.content for c in hop_candidates(TABLE, 1)] == ["Bergen", "Oslo"]
    wide = Table("t", (Cell("h"),) * 20, ((Cell("x"),) * 20,))
    assert len(hop_candidates(wide, 0)) == MAX_CANDIDATES


def test_a_page_is_read_once_and_nothing_of_trivial_questions():
    example = question("where did she grow up ?", "oslo")
    target = Target("hard", "passage", (AnswerNode("Ann Lee", (0, 1), "/wiki/Ann_Lee"),) * 2)
    assert reading_links(example, target) == ["/wiki/Ann_Lee"]
    assert reading_links(example, replace(target, kind="trivial")) == []


OTHER_TABLE = {"6546ba5329f186cb", "cd27c43c211d752a", "f1f011d3a63b506c", "060323fe818531b8"}
"""Questions whose table has other rows or cells than the one that was traced (the tables come from OTT-QA)."""


@pytest.mark.long
@pytest.mark.parametrize("split", ["dev", "test"])
def test_real_answers_are_traced_to_the_released_nodes(real, split):
    """All but repeated nodes: a cell that names a link twice is read as naming it once."""
    found = real.examples(split)
    released = json.loads(shared("data", "hybridqa", "released_data", f"{split}.traced.json").read_text("utf-8"))
    nodes = {entry["question_id"]: entry["answer-node"] for entry in released}
    assert len(found) == len(nodes)
    for example in found:
        if example.example_id not in OTHER_TABLE:
            once = [
                n for place, n in enumerate(nodes[example.example_id]) if n not in nodes[example.example_id][:place]
            ]
            assert as_released(trace_answer(example.table, example.answer.texts[0])) == once
