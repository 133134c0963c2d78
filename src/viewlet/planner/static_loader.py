"""What maps hold before the first row comes, as views over static tables that triggers can fill.

map m[k] := Sum[k](r(k, x) * s(x, y))    r is static, s empty yet:  nothing
map n[x] := Sum[x](r(k, x) * {k < 9})                               a view of that over r
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from viewlet.calculus.expr import ZERO, Expr, MapRef, Rel, transform, walk
from viewlet.calculus.query import Query, ViewKind
from viewlet.calculus.simplify import simplify
from viewlet.errors import ViewletError
from viewlet.planner.viewlets import compile_program
from viewlet.program.ir import Map, Program
from viewlet.program.static_maps import StaticLoader
from viewlet.schema import Catalog


def static_loader(program: Program, maps: Iterable[Map]) -> StaticLoader | None:
    """How to fill these maps by triggers over static tables; None where that is not possible."""
    static = {r.name for r in program.relations if r.static}
    queries: dict[str, tuple[Map, Query]] = {}
    others = set()
    for map in maps:
        components = []
        for column in map.columns:
            if column.definition is None:
                continue
            initial = _before_rows(column.definition, static)
            if initial == ZERO:
                continue
            if any(isinstance(n, MapRef) for n in walk(initial)) or not _relations(initial):
                others.add((map.name, column.name))
            else:
                components.append((column.name, initial))
        if components:
            query = Query(map.name, ViewKind.GROUP, map.key_names, tuple(components), ())
            queries[map.name] = map, query
    if not queries:
        return StaticLoader(Program((), (), ()), (), frozenset(others))
    catalog = Catalog()
    for relation in program.relations:
        if relation.static:
            catalog.add(replace(relation, static=False))
    try:
        loader = compile_program(catalog, [query for _, query in queries.values()])
    except ViewletError:
        return None
    sources = tuple(
        (queries[view.name][0], component, MapRef(name, column, queries[view.name][0].key_names))
        for view in loader.views
        for component, name, column in view.sources
    )
    return StaticLoader(loader, sources, frozenset(others))


def _before_rows(definition: Expr, static: Container[str]) -> Expr:
    """R(a, b) -> 0  of every relation that has no rows yet."""

    def rule(node: Expr) -> Expr:
        return ZERO if isinstance(node, Rel) and node.name not in static else node

    return simplify(transform(definition, rule))


def _relations(expr: Expr) -> bool:
    return any(isinstance(node, Rel) for node in walk(expr))
