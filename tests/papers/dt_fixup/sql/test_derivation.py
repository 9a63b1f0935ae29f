"""Queries become actions and actions queries, as in the released code; what is not legal is refused."""

from __future__ import annotations

import json

import pytest
from golden import others
from spider_layout import query_from_dict
from spider_release import questions, schemas

from mate_cli.papers.dt_fixup.sql.grammar import (
    BY_NAME,
    PRODUCTIONS,
    REDUCE,
    TYPES,
    ApplyRule,
    Derivation,
    SelectColumn,
    derivations,
)
from mate_cli.papers.dt_fixup.sql.schema import Schema, SchemaColumn, SchemaTable
from mate_cli.papers.dt_fixup.sql.tree import UnsupportedQueryError, oracle_actions

SINGERS = Schema.from_parts(
    "singers",
    [SchemaTable("singer", "singer"), SchemaTable("song", "song")],
    [SchemaColumn(1, "name", "name"), SchemaColumn(1, "age", "age", "number"), SchemaColumn(2, "title", "title")],
)


def after(*names: str | int) -> Derivation:
    """The derivation after productions, columns (their numbers) and "Reduce"."""
    state = Derivation(SINGERS)
    for name in names:
        rule = BY_NAME.get(name)
        action = SelectColumn(name) if isinstance(name, int) else ApplyRule(rule.number) if rule else REDUCE
        state = state.apply(action)
    return state


def names(state: Derivation) -> list[str]:
    """What is legal, as `after` takes it."""
    found = state.legal()
    return [
        a.column if isinstance(a, SelectColumn) else PRODUCTIONS[a.production].name if a != REDUCE else "Reduce"
        for a in found
    ]


def test_productions_and_sequences_of_the_released_code():
    golden = json.loads(others("dtfixup_grammar_roundtrip.json").read_text())
    assert [rule.text for rule in PRODUCTIONS] == golden["productions"]
    assert len(TYPES) == 16
    known = {(entry["db_id"], entry["query"]): entry["sql"] for entry in questions("dev")}
    for example in golden["examples"]:
        schema = schemas()[example["db_id"]]
        query = query_from_dict(known[example["db_id"], example["query"]], schema)
        assert [str(action) for action in oracle_actions(query, schema)] == example["actions"]


@pytest.mark.parametrize("split", ["dev", pytest.param("train", marks=pytest.mark.long)])
def test_every_query_is_legal_or_said_to_be_unsupported(split):
    unsupported = 0
    for entry in questions(split):
        if entry["sql"] is None:
            continue
        schema = schemas()[entry["db_id"]]
        query = query_from_dict(entry["sql"], schema)
        try:
            actions = oracle_actions(query, schema)
        except UnsupportedQueryError:
            unsupported += 1
            continue
        *_, last = derivations(schema, actions)
        assert last.is_complete
        assert last.columns == tuple(action.column for action in actions if isinstance(action, SelectColumn))
    assert unsupported == {"dev": 2, "train": 10}[split]


def test_what_the_decoder_is_fed():
    assert Derivation(SINGERS).frontier == (-1, -1, TYPES.index("stmt"))
    made = ("SingleQuery", "Query", "Select", "SelectCol", "count", "ValUnit")
    assert after(*made).frontier == (5, BY_NAME["ValUnit"].number, TYPES.index("col_unit"))
    assert after(*made, "ColUnit", "none", 1).frontier == (2, BY_NAME["Select"].number, TYPES.index("sel_col"))


def test_aggregates_and_stars_stand_where_sql_allows_them():
    column = ("SingleQuery", "Query", "Select", "SelectCol")
    assert names(after(*column, "max", "ValUnit", "ColUnit")) == ["none"]
    assert names(after(*column, "max", "ValUnit", "ColUnit", "none")) == [3, 4, 5]
    assert names(after(*column, "count", "ValUnit", "ColUnit", "none")) == [0, 1, 2, 3, 4, 5]
    assert len(names(after(*column, "none", "ValUnitMinus", "ColUnit"))) == 6
    assert names(after(*column, "none", "ValUnitMinus", "ColUnit", "max")) == [3, 4, 5]
    assert 0 in names(after(*column, "none", "ValUnitMinus", "ColUnit", "count"))
    where = (*column, "none", "ValUnit", "ColUnit", "none", 3, "Reduce", "Reduce", "Where", "Equal", "ValUnit")
    assert names(after(*where, "ColUnit")) == ["none"]
    assert names(after(*where, "ColUnit", "none")) == [3, 4, 5]


def test_what_may_be_there_several_times_is_there_once():
    assert "Reduce" not in names(after("SingleQuery", "Query", "Select"))
    state = after("SingleQuery", "Query", "Select", "SelectCol", "none", "ValUnit", "ColUnit", "none", 3)
    assert names(state) == ["SelectCol", "Reduce"]
    assert names(state.apply(REDUCE)) == ["From", "Reduce"]


def test_what_is_not_legal_is_refused():
    with pytest.raises(ValueError, match="cannot create stmt"):
        after("Query")
    with pytest.raises(ValueError, match="cannot create sel_col"):
        after("SingleQuery", "Query", "Select", 3)
    with pytest.raises(ValueError, match="cannot create col_id"):
        after("SingleQuery", "Query", "Select", "SelectCol", "max", "ValUnit", "ColUnit", "none", 0)
