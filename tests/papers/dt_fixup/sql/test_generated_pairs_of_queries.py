"""Thousands of drawn pairs of queries, judged as by the rules of the official script, written down once more."""

import copy
import random
from collections import Counter, defaultdict

import pytest
from official_rules import FOLLOWING, alike, compared, level, parts
from spider_layout import query_from_dict
from spider_release import questions, release, schemas

from mate_cli.papers.dt_fixup.sql.exact_match import hardness, queries_match

CLAUSES = [("select",), ("from",), ("where",), ("groupBy",), ("having",), ("orderBy",), ("limit",), FOLLOWING]


def changed(sql, other, keys, chance):
    """A query with some clauses of another one on the same database, and changes of which many do not count."""
    clauses = [name for names in chance.sample(CLAUSES, chance.choice([0, 1, 2])) for name in names]
    made = copy.deepcopy({**sql, **{name: other[name] for name in clauses}})
    chance.shuffle(made["select"][1])
    chance.shuffle(made["from"]["table_units"])
    made["select"][0] ^= chance.random() < 0.3
    made["where"][1::2] = [chance.choice([word, word, word, "or"]) for word in made["where"][1::2]]
    for condition in (*made["where"][::2], *made["having"][::2]):
        condition[0] ^= chance.random() < 0.1
        condition[3] = chance.choice([condition[3], 7])
    for unit in (*made["groupBy"], *(item[1][1] for item in made["select"][1])):
        unit[1] = keys.get(unit[1], unit[1]) if chance.random() < 0.5 else unit[1]
    return made


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.long)])
def test_matches_and_hardness_of_spider(count):
    chance, seen, levels, by_database = random.Random(count), Counter(), Counter(), defaultdict(list)
    for entry in (*questions("dev"), *questions("train")):
        if entry["sql"]:
            by_database[entry["db_id"]].append(entry["sql"])
    for _ in range(count):
        name = chance.choice([*by_database])
        schema, plain_schema = schemas()[name], release()[name]
        gold, other = chance.choices(by_database[name], k=2)
        keys = {one: to for pair in plain_schema["foreign_keys"] for one, to in (pair, pair[::-1])}
        predicted = changed(gold, other, keys, chance)
        plain = [compared(sql, plain_schema) for sql in (predicted, gold)]
        names = [column.lower() for _, column in plain_schema["column_names_original"]]
        read = [query_from_dict(sql, schema) for sql in (predicted, gold)]
        expected = parts(*plain, names)
        assert queries_match(*read, schema) == alike(*plain, names), (predicted, gold)
        assert hardness(read[0]) == level(predicted), predicted
        levels[level(predicted)] += 1
        seen["match"] += alike(*plain, names)
        seen["differ, but match"] += alike(*plain, names) and predicted != gold
        seen.update(part for part, counts in expected.items() if len(set(counts)) > 1)
    assert count / 5 < seen["match"] < count * 4 / 5
    assert seen["differ, but match"] > count / 20
    assert all(seen[part] > count / 200 for part in expected), seen
    assert min(levels[name] for name in ("easy", "medium", "hard", "extra")) > count / 50, levels
