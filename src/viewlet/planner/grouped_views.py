"""Grouped subqueries of a long query as views of their own, of which the query reads the rows.

    Exists(Sum[k](q)) * (x := Sum[k](q * a)) * (y := Sum[k](q * b))   ->   J[k, x, y]
                                                        J[k, x, y] := what stands on the left

A table expression of WITH is in the calculus wherever the query names it, and a sum over grouped
rows has all their sums in each of its components. The delta of such a product has a term for every
subset that changes, each with all sums before and after. As a view of its own a subquery is planned
once, however often it is named, and changes by its rows. That keeps those rows, so that it is done
where the query is long only: MOST_NODES in all, as it comes from SQL.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_

from viewlet.calculus.delta import correlation
from viewlet.calculus.expr import (
    Atom,
    Exists,
    Expr,
    MapRef,
    Nested,
    NestedValue,
    children,
    factors_of,
    node_count,
    product_of,
    rebuild,
    walk,
)
from viewlet.calculus.query import COUNT, InnerView, Query, expressions, with_expressions
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.scope import Names, inputs, outputs

MOST_NODES = 900


def length(query: Query) -> int:
    """The nodes of all its expressions."""
    return sum(map(node_count, expressions(query)))


def with_grouped_views(query: Query, most_nodes: int = MOST_NODES) -> Query:
    """The query over inner views of its grouped subqueries, if it is long."""
    if length(query) <= most_nodes:
        return query
    return _Groups(query).query()


class _Groups:
    """The grouped subqueries of one query, those that are equal up to names as one."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._views: list[InnerView] = []
        self._by_text: dict[str, InnerView] = {}
        self._rewritten: dict[Expr, Expr] = {}
        self._reads: dict[Expr, MapRef] = {}

    def query(self) -> Query:
        inner: list[InnerView] = []
        for view in self._query.inner:
            body = self._over_views(view.body)
            inner += [*self._new_views(), replace(view, body=body)]
        over_views = with_expressions(replace(self._query, inner=()), self._over_views)
        return replace(over_views, inner=(*inner, *self._new_views()))

    def _new_views(self) -> list[InnerView]:
        """The views since the last call, each after those that it reads."""
        views, self._views = self._views, []
        return views

    def _over_views(self, expr: Expr) -> Expr:
        """An expression with its groups replaced, innermost first."""
        if expr not in self._rewritten:
            parts = factors_of(expr)
            factors = [self._over_parts(factor) for factor in parts]
            changed = not all(map(is_, parts, factors))
            for group in _groups(factors):
                factors[factors.index(group[0])] = self._read(product_of(*group))
                factors = [f for f in factors if f not in group[1:]]
                changed = True
            self._rewritten[expr] = product_of(*factors) if changed else expr
        return self._rewritten[expr]

    def _over_parts(self, expr: Expr) -> Expr:
        parts = children(expr)
        new_parts = [self._over_views(part) for part in parts]
        return expr if all(map(is_, parts, new_parts)) else rebuild(expr, new_parts)

    def _read(self, group: Expr) -> MapRef:
        """The rows of a group's view, made if there is none."""
        if group not in self._reads:
            names = outputs(group)
            form = canonical(group, names)
            ordered = tuple(sorted(names, key=lambda name: int(form.names[name][1:])))
            text = f"[{', '.join(form.names[name] for name in ordered)}] {form.text}"
            if text not in self._by_text:
                view = InnerView(f"grouped_{len(self._by_text) + 1}", ordered, group)
                self._by_text[text] = view
                self._views.append(view)
            self._reads[group] = MapRef(self._by_text[text].name, COUNT, ordered)
        return self._reads[group]


def _groups(factors: list[Expr]) -> list[list[Expr]]:
    """Which rows there are, with the values that are computed for each of them; and values that are
    computed from nothing else."""
    groups: dict[Names, list[Expr]] = {}
    closed: list[list[Expr]] = []
    for factor in factors:
        if isinstance(factor, Exists) and outputs(factor) and _is_closed(factor):
            groups.setdefault(outputs(factor), []).append(factor)
    for factor in factors:
        if not isinstance(factor, NestedValue):
            continue
        if inputs(factor) in groups and correlation(factor) == inputs(factor):
            groups[inputs(factor)].append(factor)
        elif _is_closed(factor):
            closed.append([factor])
    return [*groups.values(), *closed]


def _is_closed(factor: Nested) -> bool:
    """Whether it stands for rows by itself, and not for those of one map."""
    is_map = isinstance(factor.body, MapRef)
    return not inputs(factor) and not is_map and any(isinstance(n, Atom) for n in walk(factor))
