"""A table gets other columns: what definitions over it say in terms of the table as it is then.

a column more     r(a, b) -> Sum[a, b](r(a, b, x))
a column less     r(a, b) -> r(a)        where that says the same: b is summed away, and
                                         nothing else looks at it
another name      r(a, b) -> r(a, b)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from viewlet.calculus.apart import apart
from viewlet.calculus.expr import (
    Expr,
    MapRef,
    Mul,
    Rel,
    Sum,
    children,
    rebuild,
    sum_over,
    transform,
    walk,
)
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.scope import all_names
from viewlet.calculus.simplify import simplify
from viewlet.names import FreshNames
from viewlet.program.ir import Program
from viewlet.schema import Relation


@dataclass(frozen=True)
class Reshape:
    """A table with other columns: for each the position that it had, None for a new one.

    At most one column is new, or one is gone.
    """

    old: Relation
    relation: Relation
    sources: tuple[int | None, ...]

    def added(self) -> list[int]:
        """The positions of columns that are new."""
        return [i for i, source in enumerate(self.sources) if source is None]

    def dropped(self) -> list[int]:
        """The positions, in the old table, of columns that are gone."""
        return [i for i in range(len(self.old.columns)) if i not in self.sources]


Reshapes = Mapping[str, Reshape]
"""By what programs call the table."""

NO_RESHAPES: Reshapes = MappingProxyType({})


def adapted(expr: Expr, keys: Iterable[str], reshapes: Reshapes) -> Expr | None:
    """The same over the tables as they are now; None where it looks at a column that is gone."""
    keys = frozenset(keys)
    gone = _gone(expr, reshapes)
    if gone is None:
        return expr
    if len(set(gone)) != len(gone):
        expr = apart(expr, keys)
        gone = _gone(expr, reshapes) or []
    narrow = transform(expr, lambda node: _narrow(node, reshapes))
    if len(set(gone)) != len(gone) or not all_names(narrow).union(keys).isdisjoint(gone):
        return None
    if gone and not says_the_same(expr, _widened(narrow, reshapes, is_back=True), keys):
        return None
    return _widened(narrow, reshapes)


def _gone(expr: Expr, reshapes: Reshapes) -> list[str] | None:
    """The variables of columns that are gone; None where no table has columns more or less."""
    read = [node for node in walk(expr) if isinstance(node, Rel) and node.name in reshapes]
    if not any(reshapes[node.name].added() or reshapes[node.name].dropped() for node in read):
        return None
    return [node.variables[i] for node in read for i in reshapes[node.name].dropped()]


def says_the_same(left: Expr, right: Expr, keys: Iterable[str]) -> bool:
    """Whether two expressions over the same keys are one, as far as canonical forms show it."""
    keys = frozenset(keys)
    simple = [simplify(expr, keys) for expr in (left, right)]
    return _has_one_form(simple, keys) or _has_one_form([apart(e, keys) for e in simple], keys)


def _has_one_form(exprs: Iterable[Expr], keys: frozenset[str]) -> bool:
    left, right = (canonical(expr, keys) for expr in exprs)
    names = [{form.names.get(key, key): key for key in keys} for form in (left, right)]
    return left.text == right.text and names[0] == names[1]


def _narrow(node: Expr, reshapes: Reshapes) -> Expr:
    """r(a, b) -> r(a)"""
    if not isinstance(node, Rel) or node.name not in reshapes:
        return node
    dropped = reshapes[node.name].dropped()
    return Rel(node.name, tuple(v for i, v in enumerate(node.variables) if i not in dropped))


def _widened(expr: Expr, reshapes: Reshapes, *, is_back: bool = False) -> Expr:
    """r(a) -> Sum[a](r(a, x)), with the columns that are new, or `is_back` those that are gone.

    Sum[](r(a) * {a > 1}) -> Sum[](r(a, x) * {a > 1})
    """
    names = FreshNames(all_names(expr))

    def widen(node: Expr, *, is_summed: bool) -> Expr:
        if isinstance(node, Rel) and node.name in reshapes:
            reshape = reshapes[node.name]
            variables = list(node.variables)
            for position in reshape.dropped() if is_back else reshape.added():
                variables.insert(position, names.fresh("column"))
            wide = Rel(node.name, tuple(variables))
            return wide if is_summed else sum_over(node.variables, wide)
        parts = children(node)
        below = isinstance(node, Sum) or (is_summed and isinstance(node, Mul))
        return rebuild(node, [widen(part, is_summed=below) for part in parts]) if parts else node

    return widen(expr, is_summed=False)


def reshaped_program(program: Program, reshapes: Reshapes) -> Program:
    """A program whose maps are defined over the tables as they are now.

    What cannot be said of them has no definition: nothing is found in it.
    """
    by_name = {
        relation.name: reshapes[relation.original or relation.name]
        for relation in program.relations
        if (relation.original or relation.name) in reshapes
    }
    definitions = {
        (map.name, column.name): adapted(column.definition, map.key_names, by_name)
        for map in program.maps
        for column in map.columns
        if column.definition is not None
    }
    lost: frozenset[str] = frozenset()
    while True:
        now_lost = {
            name
            for (name, _), definition in definitions.items()
            if definition is None or not lost.isdisjoint(_maps_read(definition))
        }
        if now_lost <= lost:
            break
        lost |= now_lost
    maps = tuple(
        replace(
            map,
            columns=tuple(
                replace(
                    column,
                    definition=None
                    if map.name in lost
                    else definitions.get((map.name, column.name)),
                )
                for column in map.columns
            ),
        )
        for map in program.maps
    )
    return replace(program, maps=maps)


def _maps_read(expr: Expr) -> set[str]:
    return {node.name for node in walk(expr) if isinstance(node, MapRef)}
