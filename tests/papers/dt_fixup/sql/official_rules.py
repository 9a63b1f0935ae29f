"""The rules of Spider's official measure once more, on the dictionaries of its files: a second opinion for tests.

Source: taoyds/spider, `evaluation.py`, as of the release; its slips are rules here.
"""

from collections import Counter

AND_OR, NOT, IN, LIKE = ("and", "or"), 0, 8, 9
FOLLOWING = ("intersect", "except", "union")


def compared(sql, schema):
    """A query as it is compared: no values, no DISTINCT, and one number for columns that refer to each other."""
    keys = {}
    for pair in schema["foreign_keys"]:  # a key joins the first group that it touches
        group = next((group for group in keys.values() if group & set(pair)), set(pair))
        group |= set(pair)
        keys |= dict.fromkeys(group, group)
    tables = {number for kind, number in sql["from"]["table_units"] if kind == "table_unit"}
    own = {n for n, (table, _) in enumerate(schema["column_names"]) if table in tables}
    same = {column: min(group) for column, group in keys.items() if column in own}
    return one_number(without_values(sql), same)


def without_values(sql):
    """Values are compared nowhere; queries in their place are."""
    return {
        **sql,
        "from": {**sql["from"], "conds": conditions_without(sql["from"]["conds"])},
        "where": conditions_without(sql["where"]),
        "having": conditions_without(sql["having"]),
        **{word: without_values(sql[word]) if sql[word] else None for word in FOLLOWING},
    }


def conditions_without(conditions):
    return [
        part if part in AND_OR else [*part[:3], *(without_values(v) if isinstance(v, dict) else None for v in part[3:])]
        for part in conditions
    ]


def one_number(sql, same):
    def column(unit):
        return unit and [unit[0], same.get(unit[1], unit[1])]

    def value(unit):
        return [unit[0], column(unit[1]), column(unit[2])]

    def conditions(parts):
        return [part if part in AND_OR else [*part[:2], value(part[2]), *part[3:]] for part in parts]

    direction, *units = sql["orderBy"] or [None]
    return {
        **sql,
        "from": {**sql["from"], "conds": conditions(sql["from"]["conds"])},
        "select": [[aggregate, value(unit)] for aggregate, unit in sql["select"][1]],
        "where": conditions(sql["where"]),
        "groupBy": [column(unit) for unit in sql["groupBy"]],
        "having": conditions(sql["having"]),
        "orderBy": [direction, [value(unit) for unit in units[0]]] if units else [],
        **{word: one_number(sql[word], same) if sql[word] else None for word in FOLLOWING},
    }


def in_both(one, other):
    """How many parts stand in both lists, each as often as it does in both."""
    return (Counter(map(repr, one)) & Counter(map(repr, other))).total()


def parts(predicted, gold, names):
    """Of each component: how many there are in the first query, in the second, and in both."""

    def lists(make):
        one, other = make(predicted), make(gold)
        return len(one), len(other), in_both(one, other)

    def either(make, alike):
        one, other = bool(make(predicted)), bool(make(gold))
        return int(one), int(other), int(one and other and alike)

    grouped = [[unit[1] for unit in sql["groupBy"]] for sql in (predicted, gold)]
    limited = (predicted["limit"] is None) == (gold["limit"] is None)
    words = [set(sql["where"][1::2]) for sql in (predicted, gold)]
    following = [(predicted[word], gold[word]) for word in FOLLOWING]
    keys = keywords(predicted), keywords(gold)
    return {
        "select": lists(lambda sql: sql["select"]),
        "select(no AGG)": lists(lambda sql: [unit for _, unit in sql["select"]]),
        "where": lists(lambda sql: sql["where"][::2]),
        "where(no OP)": lists(lambda sql: [condition[2] for condition in sql["where"][::2]]),
        "group(no Having)": lists(lambda sql: [names[unit[1]] for unit in sql["groupBy"]]),
        "group": either(lambda sql: sql["groupBy"], grouped[0] == grouped[1] and predicted["having"] == gold["having"]),
        "order": either(lambda sql: sql["orderBy"], predicted["orderBy"] == gold["orderBy"] and limited),
        "and/or": (1, 1, 1) if words[0] == words[1] else (len(words[0]), len(words[1]), 0),
        "IUEN": (
            sum(one is not None for one, _ in following),
            sum(other is not None for _, other in following),
            sum(one is not None and other is not None and alike(one, other, names) for one, other in following),
        ),
        "keywords": (len(keys[0]), len(keys[1]), len(keys[0] & keys[1])),
    }


def alike(predicted, gold, names):
    """Every component is the same, and so are the tables, in any order."""
    if any(len(set(counts)) > 1 for counts in parts(predicted, gold, names).values()):
        return False
    tables = [sql["from"]["table_units"] for sql in (predicted, gold)]
    return not tables[1] or Counter(map(repr, tables[0])) == Counter(map(repr, tables[1]))


def all_conditions(sql):
    return [sql["from"]["conds"], sql["where"], sql["having"]]


def keywords(sql):
    found = {word for word in ("where", "having", *FOLLOWING) if sql[word]}
    found |= {"group"} if sql["groupBy"] else set()
    found |= {"order", sql["orderBy"][0]} if sql["orderBy"] else set()
    found |= {"limit"} if sql["limit"] is not None else set()
    for some in all_conditions(sql):
        found |= {"or"} & {*some[1::2]}
        for condition in some[::2]:
            found |= {"not"} if condition[0] else set()
            found |= {IN: {"in"}, LIKE: {"like"}}.get(condition[1], set())
    return found


def level(sql):
    """How hard a query is; see the docstring of the module."""
    some = all_conditions(sql)
    conditions = [condition for part in some for condition in part[::2]]
    first = sum(bool(sql[word]) for word in ("where", "groupBy", "orderBy")) + (sql["limit"] is not None)
    first += max(0, len(sql["from"]["table_units"]) - 1)
    first += sum(part[1::2].count("or") for part in some) + sum(condition[1] == LIKE for condition in conditions)
    second = sum(isinstance(value, dict) for condition in conditions for value in condition[3:])
    second += sum(sql[word] is not None for word in FOLLOWING)
    ordered = [column for unit in (sql["orderBy"][1:] or [[]])[0] for column in unit[1:] if column]
    counted = [unit[0] != 0 for unit in (*sql["select"][1], *sql["where"][::2], *sql["groupBy"], *ordered)]
    counted += [part in AND_OR or part[0] != 0 for part in sql["having"]]  # its words count, its aggregates do not
    third = (sum(counted) > 1) + (len(sql["select"][1]) > 1) + (len(sql["where"]) > 1) + (len(sql["groupBy"]) > 1)
    if (first <= 1, second, third) == (True, 0, 0):
        return "easy"
    if second == 0 and ((third <= 2 and first <= 1) or (first <= 2 and third < 2)):
        return "medium"
    if second == 0 and ((third > 2 and first <= 2) or (2 < first <= 3 and third <= 2)):
        return "hard"
    return "hard" if first <= 1 and third == 0 and second <= 1 else "extra"
