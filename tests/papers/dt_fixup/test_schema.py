"""Questions beside schemas: which words name what, how nodes relate, and how a query is taught."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mate_cli.data.loading.cache import encode_split
from mate_cli.data.loading.collate import collate
from mate_cli.papers.dt_fixup.schema.relations import (
    ACTIONS,
    COLUMN,
    EXACT,
    NO_LINK,
    NODE_KINDS,
    NODE_RELATIONS,
    NODE_TABLES,
    PARTIAL,
    RELATIONS,
    TABLE,
    WORD,
    NameLinker,
    SchemaRelations,
    question_words,
)
from mate_cli.papers.dt_fixup.schema.serializer import SchemaSerializer, action_rows
from mate_cli.papers.dt_fixup.sql.example import GoldQuery, schema_example, schema_table
from mate_cli.papers.dt_fixup.sql.grammar import BY_NAME, PRODUCTIONS, TYPES, ApplyRule, Reduce, SelectColumn
from mate_cli.papers.dt_fixup.sql.schema import Schema, SchemaColumn, SchemaTable
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.vocabulary import load_tokenizer

SCHEMA = Schema.from_parts(
    "music",
    [SchemaTable("singer", "singer"), SchemaTable("song", "song"), SchemaTable("prize", "prize")],
    [
        SchemaColumn(1, "singer id", "Singer_ID", "number"),
        SchemaColumn(1, "birth year", "Birth_Year", "time"),
        SchemaColumn(1, "teacher", "teacher", "number"),
        SchemaColumn(2, "song name", "name"),
        SchemaColumn(2, "singer", "singer", "number"),
        SchemaColumn(3, "prize id", "prize_id", "number"),
        SchemaColumn(3, "winner", "winner", "number"),
        SchemaColumn(3, "best song", "song", "number"),
    ],
    primary_keys=[1, 4, 6],
    foreign_keys=[(3, 1), (5, 1), (7, 1), (8, 4), (4, 6)],
)
QUESTION = "How many songs of the singers born in 1985?"
QUERY = "SELECT count(*) FROM singer AS T1 JOIN song AS T2 ON T2.singer = T1.Singer_ID WHERE T1.Birth_Year = 1985"


@pytest.fixture(scope="module")
def serializer():
    return SchemaSerializer(load_tokenizer("sample"))


def example(question=QUESTION, sql=QUERY, name="one"):
    known = GoldQuery.build(sql, SCHEMA) if sql else None
    return schema_example(name, question, SCHEMA, schema_table(SCHEMA), known)


def links(question: str, *names: str) -> list[list[int]]:
    return NameLinker(names).links(question_words(question)).T.tolist()


def test_words():
    assert question_words("What's the 3.5-star's (best) song?") == [
        *("What's", "the", "3.5", "-", "star's", "(", "best", ")", "song", "?")
    ]


def test_names_are_found_whole_and_in_parts():
    no, part, whole = NO_LINK, PARTIAL, EXACT
    assert links("List song names of singers", "song name", "singer", "name") == [
        [no, whole, whole, no, no],
        [no, no, no, no, whole],
        [no, no, no, no, no],  # the words of a name that is found whole are not looked at by themselves
    ]
    assert links("the name of a song", "song name") == [[no, part, no, no, part]]
    assert links("all of it", "ball", "all of us") == [[no, no, no], [part, part, no]]
    assert links("a cat", "category", "a") == [[no, part], [whole, no]]
    assert links("more than 42 in 1999", "room number", "year", "*") == [
        [no, no, part, no, no],
        [no, no, no, no, whole],
        [no, no, no, no, no],
    ]


def test_relations_are_those_of_the_released_code():
    """Written once more, pair by pair, as the code has it."""
    words = question_words(QUESTION)
    found = SchemaRelations(SCHEMA).matrix(words)
    columns, tables = SCHEMA.columns, SCHEMA.tables
    name_links = [NameLinker(item.name for item in items).links(words) for items in (columns, tables)]
    edges = {(columns[a].table, columns[b].table) for a, b in SCHEMA.foreign_keys if a in SCHEMA.primary_keys}
    edges |= {(columns[b].table, columns[a].table) for a, b in SCHEMA.foreign_keys if b in SCHEMA.primary_keys}
    keys = {pair for key in SCHEMA.foreign_keys for pair in (key, key[::-1])}

    def relation(kind, i, other, j):
        match kind, other:
            case "word", "word":
                return 16 + min(2, max(-2, j - i)) + 2
            case "column", "column":
                if i == j or columns[i].table == columns[j].table:
                    return int(i != j)
                return (2 if i in SCHEMA.primary_keys else 3) if (i, j) in keys else 4
            case "table", "table":
                both = ((j, i) in edges, (i, j) in edges)
                return 5 if i == j else {(True, True): 8, (True, False): 6, (False, True): 7}.get(both, 9)
            case "column", "table":
                return 12 if columns[i].table != j else 10 if i in SCHEMA.primary_keys else 11
            case "table", "column":
                return relation("column", j, "table", i) + 3
            case "word", _:
                base = 27 if other == "column" else 21
                return base + {EXACT: 0, PARTIAL: 1, NO_LINK: 2}[int(name_links[other == "table"][i, j])]
        return relation(other, j, kind, i) + 3

    nodes = [
        (kind, n) for kind, of in (("word", words), ("column", columns), ("table", tables)) for n in range(len(of))
    ]
    assert found.tolist() == [[relation(*one, *other) for other in nodes] for one in nodes]
    assert found.max() < RELATIONS == 33
    assert {2, 3, 6, 7, 8, 21, 23, 28, 29} <= set(found.ravel().tolist())


def test_layout(serializer):
    (encoding,) = serializer.encode([example()])
    words, columns, tables = len(question_words(QUESTION)), len(SCHEMA.columns), len(SCHEMA.tables)
    vocabulary = serializer.tokenizer
    separators = np.flatnonzero(encoding.input_ids == vocabulary.sep_id)
    assert encoding.input_ids[0] == vocabulary.cls_id
    assert len(separators) == 1 + columns + tables
    assert separators[-1] == len(encoding) - 1
    outside = [0, *separators.tolist()]
    assert np.flatnonzero(encoding.row_ids == 0).tolist() == outside
    of_names = encoding.row_ids > words
    of_names[-1] = True
    assert (encoding.segment_ids == of_names).all()
    runs = encoding.row_ids[np.flatnonzero(np.diff(encoding.row_ids, prepend=0) * (encoding.row_ids > 0))].tolist()
    assert runs == [
        *range(1, words + 1),
        *range(words + columns + 1, words + columns + tables + 1),
        *range(words + 1, words + columns + 1),
    ]
    assert encoding.more[NODE_KINDS].tolist() == [WORD] * words + [COLUMN] * columns + [TABLE] * tables
    of_column = encoding.more[NODE_TABLES][words : words + columns] - words - columns
    assert of_column.tolist() == [column.table for column in SCHEMA.columns]
    assert (np.delete(encoding.more[NODE_TABLES], range(words, words + columns)) == -1).all()
    last = encoding.input_ids[encoding.row_ids == words + columns]
    assert vocabulary.pieces(["number best song"])[0].tolist() == last.tolist()
    sign = encoding.input_ids[encoding.row_ids == words]
    assert vocabulary.pieces(["?"])[0].tolist() == sign.tolist()


def test_what_does_not_fit(serializer):
    (whole,) = serializer.encode([example()])
    short, shorter, few = (
        SchemaSerializer(serializer.tokenizer, **options)
        for options in ({"max_tokens": len(whole) - 1}, {"max_tokens": 40}, {"max_nodes": 20})
    )
    (without_types,) = short.encode([example()])
    assert len(without_types) < len(whole)
    assert (without_types.more[NODE_RELATIONS] == whole.more[NODE_RELATIONS]).all()
    for other in (shorter, few):
        (failure,) = other.encode([example()])
        assert isinstance(failure, EncodingFailure)
    (failure,) = serializer.encode([example(" ")])
    assert "no words" in failure.reason


def actions_of_rows(rows):
    """The actions of a derivation, from its rows or the first two columns of them; padding is passed over."""
    found = []
    for rule, column in rows[:, :2].tolist():
        if column >= 0:
            found.append(SelectColumn(column))
        elif rule >= 0:
            found.append(Reduce() if rule == len(PRODUCTIONS) else ApplyRule(rule))
    return tuple(found)


def test_actions_as_they_are_taught():
    known = example()
    rows = action_rows(known.actions, SCHEMA)
    assert actions_of_rows(rows) == known.actions
    assert actions_of_rows(np.pad(rows, ((0, 3), (0, 0)), constant_values=-1)) == known.actions
    first, second, third = rows[:3].tolist()
    assert first == [BY_NAME["SingleQuery"].number, -1, -1, -1, TYPES.index("stmt")]
    assert second == [BY_NAME["Query"].number, -1, 0, BY_NAME["SingleQuery"].number, TYPES.index("query_expr")]
    assert third[2:] == [1, BY_NAME["Query"].number, TYPES.index("sel_expr")]
    selected = rows[rows[:, 1] >= 0]
    assert (selected[:, 0] == -1).all()
    assert selected[:, 1].tolist() == [0, 8, 4, 5]
    assert (rows[:, 0] == len(PRODUCTIONS)).sum() == 5
    assert (rows[1:, 2] < np.arange(1, len(rows))).all()


def test_cache_and_batches_hold_all_of_it(serializer, tmp_path):
    asked = [example(), example("Which singers?", "SELECT Singer_ID FROM singer", "two"), example("Why?", "", "three")]
    direct = serializer.encode(asked)
    kept = encode_split(asked, serializer, Path(tmp_path), "dev")
    for place, encoding in enumerate(direct):
        for name in ("input_ids", "row_ids", "segment_ids"):
            assert (getattr(encoding, name) == getattr(kept[place], name)).all()
        assert encoding.more.keys() == kept[place].more.keys()
        for name, one in encoding.more.items():
            assert one.shape == kept[place].more[name].shape
            assert (one == kept[place].more[name]).all()
    batch = collate([kept[place] for place in range(3)], reset_positions=False, max_positions=512)
    most = max(len(encoding.more[NODE_KINDS]) for encoding in direct)
    assert batch.more[NODE_RELATIONS].shape == (3, most, most)
    assert batch.more[NODE_KINDS].shape == batch.more[NODE_TABLES].shape == (3, most)
    size = len(direct[1].more[NODE_KINDS])
    assert (batch.more[NODE_KINDS][1, size:] == 0).all()
    assert (batch.more[NODE_TABLES][1, size:] == -1).all()
    assert batch.more[ACTIONS].shape == (3, len(direct[0].more[ACTIONS]), 5)
    assert (batch.more[ACTIONS][2] == -1).all()
    assert actions_of_rows(batch.more[ACTIONS][1].numpy()) == asked[1].actions
    assert ACTIONS not in collate([kept[2]], reset_positions=False, max_positions=512).more


def test_queries_that_the_grammar_cannot_make_have_no_actions():
    joined = "SELECT T1.teacher FROM singer AS T1 JOIN song AS T2 ON T1.Singer_ID = T2.singer OR T1.teacher = T2.singer"
    for sql in (joined, "SELECT name FROM song WHERE name IN (SELECT name FROM song UNION SELECT name FROM song)"):
        known = GoldQuery.build(sql, SCHEMA)
        assert known.query is not None
        assert known.actions is None
