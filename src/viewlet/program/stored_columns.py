"""The columns of a program by what they hold, whatever their maps and variables are called."""

from __future__ import annotations

from collections.abc import Container, Iterator

from viewlet.calculus.expr import (
    Expr,
    MapRef,
    Mul,
    Rel,
    Sum,
    Value,
    children,
    cond,
    product_of,
    rebuild,
    relations,
    sum_over,
    transform,
)
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.scope import all_names, outputs
from viewlet.functions import Apply, Const
from viewlet.program.ir import Map, Program


class StoredColumns:
    """Finds the column that equals an expression, in all maps of a program but the `excluded`.

    A column is known by its definition in canonical form, a key by its number in it.
    """

    def __init__(self, program: Program, excluded: Container[str] = ()) -> None:
        self._columns: dict[tuple[str, frozenset[str]], tuple[Map, str, tuple[str, ...]]] = {}
        # What is refreshed on read may be behind; its twin that every batch keeps is not.
        for map in sorted(program.maps, key=lambda map: map.name in program.on_read):
            for column in map.columns:
                if column.definition is not None and map.name not in excluded:
                    text, keys = _canonical(column.definition, map.key_names)
                    self._columns.setdefault((text, frozenset(keys)), (map, column.name, keys))

    def find(self, expr: Expr, keys: tuple[str, ...]) -> MapRef | None:
        """expr over keys -> the column that holds it, with these keys in the map's order."""
        text, numbered = _canonical(expr, keys)
        entry = self._columns.get((text, frozenset(numbered)))
        if entry is None:
            return None
        map, column, order = entry
        names = dict(zip(numbered, keys, strict=True))
        return MapRef(map.name, column, tuple(names[number] for number in order))

    def rewrite(self, expr: Expr) -> Expr:
        """Replace the largest parts that columns hold by those columns."""
        column = self.find(expr, tuple(sorted(outputs(expr)))) if relations(expr) else None
        if column is not None:
            return column
        if isinstance(expr, Sum) and isinstance(expr.body, Mul):
            expr = sum_over(expr.keys, product_of(*_with_own_sums(expr.body.factors, expr.keys)))
        parts = children(expr)
        return rebuild(expr, (self.rewrite(part) for part in parts)) if parts else expr


def _with_own_sums(factors: tuple[Expr, ...], keys: tuple[str, ...]) -> Iterator[Expr]:
    """Sum[k](R(k, x) * Q) -> Sum[k](Sum[k](R(k, x)) * Q)  where x is R's alone."""
    for index, factor in enumerate(factors):
        others = factors[:index] + factors[index + 1 :]
        shared = frozenset(keys).union(*(all_names(other) for other in others))
        alone = isinstance(factor, Rel) and outputs(factor) - shared
        yield sum_over(outputs(factor) & shared, factor) if alone else factor


def _canonical(expr: Expr, keys: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    form = canonical(transform(expr, _as_condition), keys)
    return form.text, tuple(form.names.get(key, key) for key in keys)


def _as_condition(expr: Expr) -> Expr:
    """[case(c, 1, 0)] -> {c}: the same weight, written so that loops can be shared."""
    scalar = expr.scalar if isinstance(expr, Value) else None
    if isinstance(scalar, Apply) and scalar.function == "case" and len(scalar.arguments) == 3:
        test, then, otherwise = scalar.arguments
        if (then, otherwise) == (Const(1), Const(0)):
            return cond(test)
    return expr
