"""The grammar of text to SQL: which parts a query has, without its tables, values and DISTINCT.

Source: Xu et al. 2021 (DT-Fixup), SQL-SP, `spider_asdl.txt` of the released code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

COLUMN_TYPE = "col_id"
"""The type of a field that is a column, not a production."""

_TEXT = """
agg_op -> avg()
agg_op -> count()
agg_op -> max()
agg_op -> min()
agg_op -> none()
agg_op -> sum()
col_unit -> ColUnit(agg_op agg_op_val, col_id col_id_val)
cond_expr -> And(cond_expr cond_val1, cond_expr cond_val2)
cond_expr -> Between(val_unit val_unit_val)
cond_expr -> Equal(val_unit val_unit_val)
cond_expr -> Greater(val_unit val_unit_val)
cond_expr -> GreaterEqual(val_unit val_unit_val)
cond_expr -> In(val_unit val_unit_val, query_expr body)
cond_expr -> Inequal(val_unit val_unit_val)
cond_expr -> Less(val_unit val_unit_val)
cond_expr -> LessEqual(val_unit val_unit_val)
cond_expr -> Like(val_unit val_unit_val)
cond_expr -> NestedEqual(val_unit val_unit_val, query_expr body)
cond_expr -> NestedGreater(val_unit val_unit_val, query_expr body)
cond_expr -> NestedGreaterEqual(val_unit val_unit_val, query_expr body)
cond_expr -> NestedInequal(val_unit val_unit_val, query_expr body)
cond_expr -> NestedLess(val_unit val_unit_val, query_expr body)
cond_expr -> NestedLessEqual(val_unit val_unit_val, query_expr body)
cond_expr -> NotIn(val_unit val_unit_val, query_expr body)
cond_expr -> NotLike(val_unit val_unit_val)
cond_expr -> Or(cond_expr cond_val1, cond_expr cond_val2)
from_cond_expr -> FromCond(col_unit col_unit_val1, col_unit col_unit_val2)
from_expr -> From(from_cond_expr* from_cond_val)
groupBy_expr -> GroupBy(col_unit* col_unit_val)
having_expr -> Having(cond_expr cond_val)
orderBy_expr -> Order(order_op order_op_val, val_unit* val_unit_val)
orderBy_expr -> Superlative(order_op order_op_val, val_unit* val_unit_val)
order_op -> asc()
order_op -> desc()
query_expr -> Query(sel_expr sel_val, from_expr? from_val, where_expr? where_val, having_expr? having_val, \
orderBy_expr? orderBy_val, groupBy_expr? groupBy_val)
sel_col -> SelectCol(agg_op agg_op_val, val_unit val_unit_val)
sel_expr -> Select(sel_col* sel_col_val)
stmt -> Except(query_expr lbody, query_expr rbody)
stmt -> Intersect(query_expr lbody, query_expr rbody)
stmt -> SingleQuery(query_expr body)
stmt -> Union(query_expr lbody, query_expr rbody)
val_unit -> ValUnit(col_unit col_unit_val1)
val_unit -> ValUnitMinus(col_unit col_unit_val1, col_unit col_unit_val2)
val_unit -> ValUnitPlus(col_unit col_unit_val1, col_unit col_unit_val2)
where_expr -> Where(cond_expr cond_val)
"""

_RULE = re.compile(r"(\w+) -> (\w+)\((.*)\)")
_FIELD = re.compile(r"(\w+)([?*]?) (\w+)")


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a production: its type, and "?" where it may be absent, "*" where there are one or more of it."""

    type: str
    count: str = ""


@dataclass(frozen=True, slots=True)
class Production:
    """A way to make a thing of one type.

    Its number is the place in `PRODUCTIONS`, its name is unlike any other's, its text as papers write it.
    """

    number: int
    type: str
    name: str
    fields: tuple[Field, ...]
    text: str


def _read(text: str) -> tuple[Production, ...]:
    rules = []
    for number, line in enumerate(text.strip().splitlines()):
        result, name, inside = _RULE.fullmatch(line).groups()  # type: ignore[union-attr]  # a literal of this file
        fields = tuple(Field(kind, count) for kind, count, _ in _FIELD.findall(inside))
        rules.append(Production(number, result, name, fields, line))
    return tuple(rules)


PRODUCTIONS = _read(_TEXT)
"""All 45; the place is the number, which the weights of a decoder are in the order of."""
TYPES = tuple(sorted({rule.type for rule in PRODUCTIONS} | {COLUMN_TYPE}))
"""All 16; the place is the number."""
BY_NAME: Mapping[str, Production] = MappingProxyType({rule.name: rule for rule in PRODUCTIONS})
BY_TYPE: Mapping[str, tuple[Production, ...]] = MappingProxyType(
    {kind: tuple(rule for rule in PRODUCTIONS if rule.type == kind) for kind in TYPES}
)
ROOT_TYPE = "stmt"
"""The type of a whole query."""
