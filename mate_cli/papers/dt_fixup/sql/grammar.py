"""The grammar of text to SQL, and the actions that make a query by it: without tables, values and DISTINCT.

Source: Xu et al. 2021 (DT-Fixup), SQL-SP, `spider_asdl.txt` of the released code; Yin and Neubig 2018, "TRANX". The
released code allows every production of the open type and throws impossible queries away afterwards; here they are
never begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from mate_cli.papers.dt_fixup.sql.schema import Schema

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
ROOT_TYPE = "stmt"
"""The type of a whole query."""


@dataclass(frozen=True, slots=True)
class ApplyRule:
    """Make a thing of the open type by a production, whose number it is."""

    production: int

    def __str__(self) -> str:
        return f"ApplyRule[{PRODUCTIONS[self.production].text}]"


@dataclass(frozen=True, slots=True)
class Reduce:
    """There is nothing more of the open type."""

    def __str__(self) -> str:
        return "Reduce"


@dataclass(frozen=True, slots=True)
class SelectColumn:
    """Choose a column by its number in the schema."""

    column: int

    def __str__(self) -> str:
        return f"SelectColumnAction[id={self.column}]"


Action = ApplyRule | Reduce | SelectColumn
REDUCE = Reduce()
NONE = -1
"""Number of no production, no column, no action."""


def encode_action(action: Action) -> tuple[int, int]:
    """Return the number of the production, that behind all of them for Reduce; and that of the column."""
    if isinstance(action, SelectColumn):
        return NONE, action.column
    return action.production if isinstance(action, ApplyRule) else len(PRODUCTIONS), NONE


_CLAUSES = ("Select", "From", "Where", "Having", "GroupBy", "Order", "Superlative")


@dataclass(frozen=True, slots=True)
class _Open:
    """A production of which not everything is made.

    The step is the action that applied it, the place that of the field that is next, of which so much is made.
    """

    rule: Production
    step: int
    place: int = 0
    children: int = 0
    aggregate: str = ""

    def with_child(self, child: Production | None) -> _Open:
        aggregate = child.name if child and child.type == "agg_op" else self.aggregate
        if self.rule.fields[self.place].count == "*":
            return replace(self, children=self.children + 1, aggregate=aggregate)
        return replace(self, place=self.place + 1, children=0, aggregate=aggregate)


@dataclass(frozen=True, slots=True)
class Derivation:
    """A query half made, about one schema; `apply` gives the next one and leaves this one as it is.

    Args:
        schema: of the database.
        actions: that were applied.
    """

    schema: Schema
    actions: tuple[Action, ...] = ()
    _open: tuple[_Open, ...] = ()

    @property
    def step(self) -> int:
        """Number of actions that were applied, which is that of the next one."""
        return len(self.actions)

    @property
    def is_complete(self) -> bool:
        """True if the query is made."""
        return bool(self.actions) and not self._open

    @property
    def open_type(self) -> str | None:
        """The type of what is made next, one of `TYPES`; None where all is made."""
        if not self._open:
            return None if self.actions else ROOT_TYPE
        top = self._open[-1]
        return top.rule.fields[top.place].type

    @property
    def frontier(self) -> tuple[int, int, int]:
        """The action that applied the production of which a field is open, its number, and the number of the type.

        The first two are `NONE` before the first action, all where the query is made.
        """
        kind = NONE if self.open_type is None else TYPES.index(self.open_type)
        return (self._open[-1].step, self._open[-1].rule.number, kind) if self._open else (NONE, NONE, kind)

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that were chosen so far, in their order."""
        return tuple(action.column for action in self.actions if isinstance(action, SelectColumn))

    def legal(self) -> tuple[Action, ...]:
        """Return the actions that may come next; none where the query is made.

        Aggregates stand neither in each other nor in FROM, WHERE and GROUP BY; "*" is counted, or selected by itself;
        of what may be there several times there is at least one.
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
        """Return the derivation after one more action.

        Raises:
            ValueError: the action is not legal here.
        """
        if action not in self.legal():
            raise ValueError(f"{action} cannot make {self.open_type or 'anything more'} (step {self.step})")
        stack = list(self._open)
        if isinstance(action, Reduce):
            stack[-1] = replace(stack[-1], place=stack[-1].place + 1, children=0)
        else:
            rule = PRODUCTIONS[action.production] if isinstance(action, ApplyRule) else None
            stack[-1:] = [parent.with_child(rule) for parent in stack[-1:]]
            stack += [_Open(rule, self.step)] if rule else []
        while stack and stack[-1].place == len(stack[-1].rule.fields):
            stack.pop()
        return Derivation(self.schema, (*self.actions, action), tuple(stack))

    def _allows_reduce(self) -> bool:
        if not self._open:
            return False
        top = self._open[-1]
        count = top.rule.fields[top.place].count
        return count == "?" or (count == "*" and top.children > 0)

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
        """Return the innermost open production of some names."""
        return next(entry for entry in reversed(self._open) if entry.rule.name in names)


@cache
def _rules(kind: str) -> tuple[ApplyRule, ...]:
    return tuple(ApplyRule(rule.number) for rule in PRODUCTIONS if rule.type == kind)


@cache
def _columns(tables: int, columns: int, *, stars: bool) -> tuple[SelectColumn, ...]:
    return tuple(SelectColumn(number) for number in range(0 if stars else tables, columns))


def derivations(schema: Schema, actions: tuple[Action, ...]) -> Iterator[Derivation]:
    """Yield the derivation before each of some actions, then the last one."""
    state = Derivation(schema)
    yield state
    for action in actions:
        state = state.apply(action)
        yield state
