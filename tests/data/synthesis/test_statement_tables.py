"""Statements as examples to learn from: labels, balance, what is held out, and what is the same in every epoch."""

from collections import Counter

import numpy as np
import pytest
from test_statements import within_chance

from mate_cli.data.corpora.shards import CorpusTable
from mate_cli.data.corpora.statement_tables import StatementTables, draw_of_kind, draw_statement
from mate_cli.data.synthesis.statements import COUNTERFACTUAL, SYNTHETIC
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

SERIALIZER = TapasSerializer(load_tokenizer("sample"), max_tokens=128, sentences=0, drop_rows_to_fit=False)
HALF = {"counterfactual": 0.5, "max_cells": 50}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return StatementTables("nowhere", tmp_path_factory.mktemp("cache"), ["sample"], exclude=())


@pytest.fixture(scope="module")
def tables(corpus):
    return list(corpus.tables())


@pytest.fixture(scope="module")
def drawn(tables):
    rng = np.random.default_rng(0)
    made = [draw_statement(table, rng, **HALF) for _ in range(15) for table in tables]
    return [example for example in made if example]


def few(table, rows):
    return Table("t", tuple(map(Cell, table)), tuple(tuple(map(Cell, row)) for row in rows))


@pytest.mark.long
def test_labels_and_kinds_are_balanced(drawn, tables):
    assert len(drawn) == 15 * len(tables)
    labels = Counter(example.answer.label for example in drawn)
    assert within_chance(labels[1], len(drawn), 0.5)
    both = {table.key for table in tables if draw_of_kind(table, COUNTERFACTUAL, 1, np.random.default_rng(0), 50)}
    of_both = [example for example in drawn if example.example_id.partition("/")[0] in both]
    assert len(of_both) > 80
    assert within_chance(sum(example.subsets == (COUNTERFACTUAL,) for example in of_both), len(of_both), 0.5)
    assert all(draw_statement(table, np.random.default_rng(1), 0, 50).subsets == (SYNTHETIC,) for table in tables)


def test_a_statement_is_about_a_small_part(tables):
    for table in tables[:20]:
        part = draw_statement(table, np.random.default_rng(3), 0, 12).table
        assert len(part.header) * len(part.rows) <= 12
        assert set(part.rows) <= set(table.table.rows)


def test_made_examples_carry_the_label(corpus, tables):
    make = corpus.maker(SERIALIZER)
    for place, table in enumerate(tables[:20]):
        drawn = draw_statement(table, np.random.default_rng(place), **HALF)
        for encoding in make("3/4", lambda table=table: table, np.random.default_rng(place)):
            assert (encoding.example_id, encoding.class_ids) == ("3/4", drawn.answer.label)


@pytest.mark.parametrize("table", [few(["a"], [["1"], ["2"]]), few(["a", "b"], [["1", "2"]]), few(["a"] * 60, [])])
def test_tables_about_which_nothing_can_be_said(corpus, table):
    one = CorpusTable.build(table, "s")
    assert draw_statement(one, np.random.default_rng(0), **HALF) is None
    assert corpus.maker(SERIALIZER)("0/0", lambda: one, np.random.default_rng(0)) == []


def test_held_out_statements_come_in_pairs_and_are_always_the_same(corpus, tmp_path):
    examples = corpus.examples("dev")
    assert len({example.example_id for example in examples}) == len(examples) > 20
    for first, second in zip(examples[::2], examples[1::2], strict=True):
        assert first.example_id.removesuffix("true") == second.example_id.removesuffix("false")
        assert (first.answer.label, second.answer.label) == (1, 0)
        assert first.subsets == second.subsets
    assert {example.subsets for example in examples} == {(SYNTHETIC,), (COUNTERFACTUAL,)}
    again = StatementTables("nowhere", tmp_path, ["sample"], exclude=())
    assert again.examples("dev") == examples
    assert again.examples("train") == []
