"""Actions that make a query one after the other, and which of them may come next.

Source: Xu et al. 2021 (DT-Fixup), SQL-SP; Yin and Neubig 2018, "TRANX". The released code allows every production of
the open type and throws impossible queries away afterwards; here they are never begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile

from mate_cli.papers.dt_fixup.sql.grammar import BY_NAME, BY_TYPE, COLUMN_TYPE, PRODUCTIONS, ROOT_TYPE, Production
from mate_cli.papers.dt_fixup.sql.schema import Schema


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

_CLAUSES = frozenset(BY_NAME[name].number for name in ("Select", "From", "Where", "Having", "GroupBy"))
_ORDERS = frozenset(BY_NAME[name].number for name in ("Order", "Superlative"))
_SET_OPERATORS = frozenset(BY_NAME[name].number for name in ("Union", "Intersect", "Except"))


@dataclass(frozen=True, slots=True)
class _Open:
    """A production of which not everything is made.

    The step is the action that applied it, the place that of the field that is next, of which so much is made. A query
    needs a group if SQLite demands one for its HAVING or for aggregates in its ORDER BY.
    """

    rule: Production
    step: int
    place: int = 0
    children: int = 0
    aggregate: str = ""
    needs_group: bool = False

    def with_child(self, child: Production | None) -> _Open:
        aggregate = child.name if child and child.type == "agg_op" else self.aggregate
        needs_group = self.needs_group or bool(child and child.name == "Having")
        if self.rule.fields[self.place].count == "*":
            return replace(self, children=self.children + 1, aggregate=aggregate)
        return replace(self, place=self.place + 1, children=0, aggregate=aggregate, needs_group=needs_group)

    def reduced(self) -> _Open:
        return replace(self, place=self.place + 1, children=0)


@dataclass(frozen=True, slots=True)
class Derivation:
    """A query half made, about one schema; `apply` gives the next one and leaves this one as it is.

    Args:
        schema: of the database.
        runnable: nothing is legal that SQLite refuses in any database: an ORDER BY in front of a set operator, two
            queries of one with different numbers of columns, several columns of a query in a condition, and HAVING, or
            ORDER BY of an aggregate, without groups. The released code has no such rules.
        actions: that were applied.
    """

    schema: Schema
    actions: tuple[Action, ...] = ()
    runnable: bool = False
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
    def parent_production(self) -> int | None:
        """The number of the production that the open field is of; None before the first action and after the last."""
        return self._open[-1].rule.number if self._open else None

    @property
    def parent_step(self) -> int | None:
        """The number of the action that applied that production."""
        return self._open[-1].step if self._open else None

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
        actions = tuple(ApplyRule(rule.number) for rule in BY_TYPE[kind] if self._allows_rule(rule))
        return (*actions, REDUCE) if self._allows_reduce() else actions

    def apply(self, action: Action) -> Derivation:
        """Return the derivation after one more action.

        Raises:
            ValueError: the action is not legal here.
        """
        if not self._allows(action):
            raise ValueError(f"{action} cannot make {self.open_type or 'anything more'} (step {self.step})")
        below, top = self._open[:-1], self._open[-1:]
        if isinstance(action, ApplyRule):
            rule = PRODUCTIONS[action.production]
            stack = (*below, *(parent.with_child(rule) for parent in top), _Open(rule, self.step))
            if self.runnable and _is_aggregate(rule):
                stack = self._with_aggregate(stack)
        elif isinstance(action, Reduce):
            stack = (*below, top[0].reduced())
        else:
            stack = (*below, top[0].with_child(None))
        while stack and stack[-1].place == len(stack[-1].rule.fields):
            stack = stack[:-1]
        return Derivation(self.schema, (*self.actions, action), self.runnable, stack)

    def _allows(self, action: Action) -> bool:
        """Tell whether an action is among the legal ones, without making all of them."""
        kind = self.open_type
        if isinstance(action, Reduce):
            return self._allows_reduce()
        if isinstance(action, SelectColumn):
            first = 0 if kind == COLUMN_TYPE and self._allows_star() else len(self.schema.tables)
            return kind == COLUMN_TYPE and first <= action.column < len(self.schema.columns)
        rule = PRODUCTIONS[action.production]
        return rule.type == kind and self._allows_rule(rule)

    def _allows_rule(self, rule: Production) -> bool:
        """Tell whether a production of the open type may be applied."""
        if rule.type == "agg_op":
            return rule.name == "none" or self._allows_aggregate()
        if self.runnable and rule.type == "sel_col":
            most = self._width()
            return most is None or self._open[-1].children < most
        return not (self.runnable and rule.type == "orderBy_expr" and self._is_left())

    def _allows_reduce(self) -> bool:
        if not self._open:
            return False
        top = self._open[-1]
        field = top.rule.fields[top.place]
        if self.runnable and field.type == "groupBy_expr" and top.needs_group:
            return False
        if self.runnable and field.type == "sel_col":
            return top.children >= (self._width() or 1)
        return field.count == "?" or (field.count == "*" and top.children > 0)

    def _allows_aggregate(self) -> bool:
        if self._open[-1].rule.name == "SelectCol":
            return True
        clause = self._clause()
        if clause == "Select":
            return self._find_selected().aggregate == "none" and self._open[-2].rule.name != "ValUnit"
        return clause in ("Having", "Order", "Superlative")

    def _allows_star(self) -> bool:
        aggregate = self._open[-1].aggregate
        if self._clause() == "Select" and self._open[-2].rule.name == "ValUnit":
            everything = self._find_selected().aggregate == "none"
            return not self.runnable or self._is_alone() if everything else self._find_selected().aggregate == "count"
        return aggregate == "count"

    def _query(self) -> tuple[_Open, _Open]:
        """Return the innermost open query, and what it stands in."""
        place = next(n for n in range(len(self._open) - 1, -1, -1) if self._open[n].rule.name == "Query")
        return self._open[place], self._open[place - 1]

    def _is_alone(self) -> bool:
        """Tell whether the innermost query is the whole one."""
        return self._query()[1].rule.name == "SingleQuery"

    def _is_left(self) -> bool:
        """Tell whether a set operator follows the innermost query."""
        outside = self._query()[1]
        return outside.rule.number in _SET_OPERATORS and outside.place == 1

    def _width(self) -> int | None:
        """Return the number of columns that the innermost query has to have; None for any number."""
        outside = self._query()[1]
        if outside.rule.number in _SET_OPERATORS:
            if outside.place == 1:
                return None
            return sum(rule.name == "SelectCol" for rule in self._result(outside.step + 1))
        return 1 if outside.rule.type == "cond_expr" else None

    def _result(self, step: int) -> list[Production]:
        """Find the productions that made the result of the query of an action; nothing else precedes Reduce."""
        rest = takewhile(lambda action: not isinstance(action, Reduce), self.actions[step:])
        return [PRODUCTIONS[action.production] for action in rest if isinstance(action, ApplyRule)]

    def _with_aggregate(self, stack: tuple[_Open, ...]) -> tuple[_Open, ...]:
        """Return the open productions: a query that is ordered by an aggregate needs a group, or another aggregate."""
        query, _ = self._query()
        if self._clause() not in ("Order", "Superlative") or any(map(_is_aggregate, self._result(query.step))):
            return stack
        return tuple(replace(entry, needs_group=True) if entry.step == query.step else entry for entry in stack)

    def _clause(self) -> str:
        """Return the name of the innermost part of a query that is open."""
        return next(entry.rule.name for entry in reversed(self._open) if entry.rule.number in _CLAUSES | _ORDERS)

    def _find_selected(self) -> _Open:
        """Return the open column of the result."""
        return next(entry for entry in reversed(self._open) if entry.rule.name == "SelectCol")


def _is_aggregate(rule: Production) -> bool:
    return rule.type == "agg_op" and rule.name != "none"


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
