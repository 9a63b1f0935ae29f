"""Thousands of drawn pairs of queries, judged as by the rules of the official script, written down once more."""

import copy
import random
from collections import Counter

import pytest
from official_rules import alike, compared, level, parts
from spider_layout import query_from_dict

from mate_cli.papers.dt_fixup.sql.exact_match import component_scores, hardness, queries_match
from mate_cli.papers.dt_fixup.sql.schema import Schema

NAMES = [[-1, "*"], [0, "id"], [0, "name"], [0, "age"], [1, "id"], [1, "singer"], [1, "Name"], [2, "song"], [2, "id"]]
SCHEMA = {
    "db_id": "music",
    "table_names": ["singer", "song", "sale"],
    "table_names_original": ["singer", "song", "sale"],
    "column_names": NAMES,
    "column_names_original": NAMES,
    "column_types": ["text"] * len(NAMES),
    "primary_keys": [1],
    "foreign_keys": [[5, 1], [7, 4], [8, 7]],
}


class Draw:
    """Random queries in the layout of Spider's files, and small changes of them."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def often(self, share):
        return self.chance.random() < share

    def column(self, aggregated=0.3):
        number = self.chance.randrange(len(NAMES))
        return [self.chance.randrange(1, 6) if self.often(aggregated) else 0, number, self.often(0.1)]

    def unit(self, aggregated=0.2):
        if self.often(0.1):
            return [self.chance.randrange(1, 5), self.column(0), self.column(0)]
        return [0, self.column(aggregated), None]

    def value(self, depth):
        if depth and self.often(0.2):
            return self.query(depth - 1)
        return self.chance.choice([1, 2.5, '"x"', None])

    def condition(self, depth, aggregated=0.0):
        operator = self.chance.choice([1, 2, 2, 3, 4, 5, 6, 7, 8, 9])
        second = self.value(0) if operator == 1 else None
        return [self.often(0.15), operator, self.unit(aggregated), self.value(depth), second]

    def conditions(self, depth, count, aggregated=0.0):
        made = []
        for place in range(count):
            made += [self.chance.choice(["and", "and", "or"])] if place else []
            made.append(self.condition(depth, aggregated))
        return made

    def query(self, depth=1):
        tables = [["table_unit", self.chance.randrange(3)] for _ in range(self.chance.choice([1, 1, 2, 3]))]
        if depth and self.often(0.05):
            tables = [["sql", self.query(0)]]
        joins = self.conditions(0, len(tables) - 1)
        following = dict.fromkeys(("intersect", "union", "except"))
        if depth and self.often(0.2):
            following[self.chance.choice([*following])] = self.query(depth - 1)
        grouped = [self.column(0) for _ in range(self.chance.choice([0, 0, 1, 2]))]
        ordered = [self.unit() for _ in range(self.chance.choice([0, 0, 1, 2]))]
        return {
            "from": {"table_units": tables, "conds": joins},
            "select": [self.often(0.2), [[self.aggregate(), self.unit(0)] for _ in range(self.chance.randint(1, 3))]],
            "where": self.conditions(depth, self.chance.choice([0, 1, 1, 2, 3])),
            "groupBy": grouped,
            "having": self.conditions(depth, self.chance.choice([0, 1, 2]), 0.8) if grouped else [],
            "orderBy": [self.chance.choice(["asc", "desc"]), ordered] if ordered else [],
            "limit": self.chance.choice([None, None, 1, 3]),
            **following,
        }

    def aggregate(self):
        return self.chance.choice([0, 0, 0, 1, 3, 5])

    def changed(self, sql):
        """The same query, or one that differs in a few places, of which many do not count."""
        made = copy.deepcopy(sql)
        for _ in range(self.chance.choice([0, 1, 1, 2, 4])):
            self.change(made)
        return made

    def change(self, sql):
        getattr(self, self.chance.choice(CHANGES))(sql)

    def any_of(self, some):
        """One of some parts, or a copy of none where there are no parts."""
        return self.chance.choice(some) if some else [False, 2, None, None, None]

    def conditions_of(self, sql):
        return sql["where"][::2]

    def columns_of(self, sql):
        return [*sql["groupBy"], *(item[1][1] for item in sql["select"][1])]

    def change_order_of_select(self, sql):
        self.chance.shuffle(sql["select"][1])

    def change_distinct(self, sql):
        sql["select"][0] = not sql["select"][0]

    def change_column_for_its_key(self, sql):
        column = self.any_of(self.columns_of(sql))
        column[1] = {1: 5, 5: 1, 7: 4, 4: 8, 8: 7}.get(column[1], column[1])

    def change_column(self, sql):
        self.any_of(self.columns_of(sql))[1] = self.chance.randrange(len(NAMES))

    def change_value(self, sql):
        self.any_of(self.conditions_of(sql))[3] = self.value(1)

    def change_negation(self, sql):
        self.any_of(self.conditions_of(sql))[0] = self.often(0.5)

    def change_operator(self, sql):
        self.any_of(self.conditions_of(sql))[1] = self.chance.choice([2, 3, 8, 9])

    def change_order_of_where(self, sql):
        conditions = self.conditions_of(sql)
        sql["where"][::2] = self.chance.sample(conditions, len(conditions))

    def change_connector(self, sql):
        sql["where"][1:2] = [self.chance.choice(["and", "or"]) for _ in sql["where"][1:2]]

    def change_limit(self, sql):
        sql["limit"] = self.chance.choice([None, 1, 9])

    def change_order_of_tables(self, sql):
        self.chance.shuffle(sql["from"]["table_units"])

    def change_joins(self, sql):
        sql["from"]["conds"] = self.query(0)["from"]["conds"]

    def change_order_of_groups(self, sql):
        sql["groupBy"].reverse()

    def change_what_follows(self, sql):
        for word in ("intersect", "union", "except"):
            if sql[word]:
                self.change(sql[word])

    def change_clause(self, sql):
        part = self.chance.choice(["orderBy", "where", "having", "select", "groupBy"])
        sql[part] = self.query(1)[part]


CHANGES = [name for name in vars(Draw) if name.startswith("change_")]


@pytest.mark.parametrize("count", [3_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_components_and_matches_of_spider(count):
    schema, draw, seen = Schema.from_entry(SCHEMA), Draw(count), Counter()
    for _ in range(count):
        gold = draw.query()
        predicted = draw.changed(gold) if draw.often(0.9) else draw.query()
        plain = [compared(sql, SCHEMA) for sql in (predicted, gold)]
        names = [name.lower() for _, name in NAMES]
        read = [query_from_dict(sql, schema) for sql in (predicted, gold)]
        expected = parts(*plain, names)
        found = {name: (s.predicted, s.gold, s.shared) for name, s in component_scores(*read, schema).items()}
        assert found == expected, (predicted, gold)
        assert queries_match(*read, schema) == alike(*plain, names), (predicted, gold)
        seen["match"] += alike(*plain, names)
        seen["differ, but match"] += alike(*plain, names) and predicted != gold
        seen.update(name for name, counts in expected.items() if len(set(counts)) > 1)
    assert count / 5 < seen["match"] < count * 4 / 5
    assert seen["differ, but match"] > count / 20
    assert all(seen[name] > count / 100 for name in expected), seen


@pytest.mark.parametrize("count", [3_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_hardness_of_spider(count):
    schema, draw, seen = Schema.from_entry(SCHEMA), Draw(count), Counter()
    for _ in range(count):
        sql = draw.query()
        for part in ("where", "groupBy", "orderBy", "having"):
            sql[part] = [] if draw.often(0.5) else sql[part]
        assert hardness(query_from_dict(sql, schema)) == level(sql), sql
        seen[level(sql)] += 1
    assert min(seen[name] for name in ("easy", "medium", "hard", "extra")) > count / 50, seen
