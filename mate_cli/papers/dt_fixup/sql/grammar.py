"""Text-to-SQL grammar and its actions. Derived queries have no tables, values and DISTINCT.

Source: Xu et al. 2021 (DT-Fixup), SQL-SP, `spider_asdl.txt` of the released code; Yin and Neubig 2018, "TRANX". The
released code allows every production of the open type and discards impossible queries afterwards. This implementation
only allows productions that lead to valid queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from mate_cli.papers.dt_fixup.sql.schema import Schema

COLUMN_TYPE = "col_id"
"""Type of a field that is a column instead of a production."""

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
    """A child of a grammar production, such as the WHERE clause of a query, with its own type.

    Args:
        type: type of the field.
        count: "?" for an optional field, "*" for one or more values, "" for exactly one.
    """

    type: str
    count: str = ""


@dataclass(frozen=True, slots=True)
class Production:
    """A grammar rule that builds a value of one type, such as a condition, from its fields.

    Args:
        number: index in `PRODUCTIONS`.
        type: type of the value.
        name: unique name.
        fields: parts of the value.
        text: notation in the papers.
    """

    number: int
    type: str
    name: str
    fields: tuple[Field, ...]
    text: str


def _parse_rules(text: str) -> tuple[Production, ...]:
    rules = []
    for number, line in enumerate(text.strip().splitlines()):
        result, name, field_text = _RULE.fullmatch(line).groups()  # type: ignore[union-attr]  # a literal of this file
        fields = tuple(Field(kind, count) for kind, count, _ in _FIELD.findall(field_text))
        rules.append(Production(number, result, name, fields, line))
    return tuple(rules)


PRODUCTIONS = _parse_rules(_TEXT)
"""All 45 productions, in the order of the decoder's weights."""
TYPES = tuple(sorted({rule.type for rule in PRODUCTIONS} | {COLUMN_TYPE}))
"""All 16 types. The number of a type is its index."""
BY_NAME: Mapping[str, Production] = MappingProxyType({rule.name: rule for rule in PRODUCTIONS})
ROOT_TYPE = "stmt"
"""Type of a whole query."""


@dataclass(frozen=True, slots=True)
class ApplyRule:
    """Decoder action that fills the next open field of a derivation with a production.

    Args:
        production: index of the production in `PRODUCTIONS`.
    """

    production: int

    def __str__(self) -> str:
        return f"ApplyRule[{PRODUCTIONS[self.production].text}]"


@dataclass(frozen=True, slots=True)
class Reduce:
    """Decoder action that ends an optional or repeated field, such as a list of conditions."""

    def __str__(self) -> str:
        return "Reduce"


@dataclass(frozen=True, slots=True)
class SelectColumn:
    """Decoder action that fills the next open field with a column of the schema.

    Args:
        column: number of the column in the schema.
    """

    column: int

    def __str__(self) -> str:
        return f"SelectColumnAction[id={self.column}]"


Action = ApplyRule | Reduce | SelectColumn
REDUCE = Reduce()
NONE = -1
"""Number of a missing production, column or action."""


def encode_action(action: Action) -> tuple[int, int]:
    """Encode a decoder action as two ids: its production and its column.

    The action `Reduce` has the number of productions as its production. A missing number is `NONE`.
    """
    if isinstance(action, SelectColumn):
        return NONE, action.column
    return action.production if isinstance(action, ApplyRule) else len(PRODUCTIONS), NONE


_CLAUSES = ("Select", "From", "Where", "Having", "GroupBy", "Order", "Superlative")


@dataclass(frozen=True, slots=True)
class _Open:
    """A production in the partial derivation of a query whose fields are not all filled.

    Args:
        rule: the production.
        step: index of the action that applied it.
        index: index of the next field.
        children: number of values of that field so far.
        aggregate: name of the aggregate derived last, or "".
    """

    rule: Production
    step: int
    index: int = 0
    children: int = 0
    aggregate: str = ""

    def with_child(self, child: Production | None) -> _Open:
        aggregate = child.name if child and child.type == "agg_op" else self.aggregate
        if self.rule.fields[self.index].count == "*":
            return replace(self, children=self.children + 1, aggregate=aggregate)
        return replace(self, index=self.index + 1, children=0, aggregate=aggregate)


@dataclass(frozen=True, slots=True)
class Derivation:
    """A partial derivation of a query on one schema: the actions applied so far, and the open fields.

    `apply` returns a new derivation and leaves this one unchanged.

    Args:
        schema: schema of the database.
        actions: applied actions.
    """

    schema: Schema
    actions: tuple[Action, ...] = ()
    _open: tuple[_Open, ...] = ()

    @property
    def step(self) -> int:
        """Number of applied actions, which is the index of the next action."""
        return len(self.actions)

    @property
    def is_complete(self) -> bool:
        """True if the query has no open field, so that no action can follow."""
        return bool(self.actions) and not self._open

    @property
    def open_type(self) -> str | None:
        """Type of the next value, one of `TYPES`, or None if the query is complete."""
        if not self._open:
            return None if self.actions else ROOT_TYPE
        innermost = self._open[-1]
        return innermost.rule.fields[innermost.index].type

    @property
    def frontier(self) -> tuple[int, int, int]:
        """Index of the action that opened the current field, its production, and the field's type.

        Index and production are `NONE` before the first action. All three are `NONE` if the query is complete.
        """
        kind = NONE if self.open_type is None else TYPES.index(self.open_type)
        return (self._open[-1].step, self._open[-1].rule.number, kind) if self._open else (NONE, NONE, kind)

    @property
    def columns(self) -> tuple[int, ...]:
        """Numbers of the columns that were selected so far, in order."""
        return tuple(action.column for action in self.actions if isinstance(action, SelectColumn))

    def legal(self) -> tuple[Action, ...]:
        """Return the legal next actions, or () if the query is complete.

        Aggregates are not nested and do not occur in FROM, WHERE and GROUP BY. "*" is only counted or selected alone. A
        repeated field has at least one value.
        """
        kind = self.open_type
        if kind is None:
            return ()
        if kind == COLUMN_TYPE:
            return _columns(len(self.schema.tables), len(self.schema.columns), stars=self._allows_star())
        is_plain = kind == "agg_op" and not self._allows_aggregate()
        actions = (ApplyRule(BY_NAME["none"].number),) if is_plain else _rules(kind)
        return (*actions, REDUCE) if self._allows_reduce() else actions

    def apply(self, action: Action) -> Derivation:
        """Return a new derivation, extended by one action.

        Raises:
            ValueError: the action is not legal.
        """
        if action not in self.legal():
            raise ValueError(f"{action} cannot create {self.open_type or 'a further node'} (step {self.step})")
        stack = list(self._open)
        if isinstance(action, Reduce):
            stack[-1] = replace(stack[-1], index=stack[-1].index + 1, children=0)
        else:
            rule = PRODUCTIONS[action.production] if isinstance(action, ApplyRule) else None
            stack[-1:] = [parent.with_child(rule) for parent in stack[-1:]]
            stack += [_Open(rule, self.step)] if rule else []
        while stack and stack[-1].index == len(stack[-1].rule.fields):
            stack.pop()
        return Derivation(self.schema, (*self.actions, action), tuple(stack))

    def _allows_reduce(self) -> bool:
        if not self._open:
            return False
        innermost = self._open[-1]
        count = innermost.rule.fields[innermost.index].count
        return count == "?" or (count == "*" and innermost.children > 0)

    def _allows_aggregate(self) -> bool:
        if self._open[-1].rule.name == "SelectCol":
            return True
        clause = self._innermost(*_CLAUSES).rule.name
        if clause == "Select":
            return self._innermost("SelectCol").aggregate == "none" and self._open[-2].rule.name != "ValUnit"
        return clause in ("Having", "Order", "Superlative")

    def _allows_star(self) -> bool:
        if self._innermost(*_CLAUSES).rule.name == "Select" and self._open[-2].rule.name == "ValUnit":
            return self._innermost("SelectCol").aggregate in ("none", "count")
        return self._open[-1].aggregate == "count"

    def _innermost(self, *names: str) -> _Open:
        """Return the most recently opened production that is named in `names`."""
        return next(entry for entry in reversed(self._open) if entry.rule.name in names)


@cache
def _rules(kind: str) -> tuple[ApplyRule, ...]:
    return tuple(ApplyRule(rule.number) for rule in PRODUCTIONS if rule.type == kind)


@cache
def _columns(tables: int, columns: int, *, stars: bool) -> tuple[SelectColumn, ...]:
    return tuple(SelectColumn(number) for number in range(0 if stars else tables, columns))


def derivations(schema: Schema, actions: tuple[Action, ...]) -> Iterator[Derivation]:
    """Yield the partial derivation before each action, then the derivation after the last action."""
    state = Derivation(schema)
    yield state
    for action in actions:
        state = state.apply(action)
        yield state
