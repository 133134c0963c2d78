"""The simplest right compiler: keep every base relation, recompute every view after each batch.

A view that is wrong under it was lowered wrongly; one that is right under it and wrong under the
planner's program was planned wrongly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewlet.calculus.expr import Delta, Expr, Extreme, Lift, MapRef, Rel, relations, transform
from viewlet.calculus.query import Query
from viewlet.calculus.text import VALUE_COLUMN
from viewlet.calculus.typing import Slot, variable_slots, weight_type
from viewlet.program.ir import (
    KeyColumn,
    Map,
    Program,
    Statement,
    Trigger,
    ValueColumn,
    View,
    relation_signature,
    statement,
)
from viewlet.schema import Catalog, Physical, Relation

ANY = Slot(Physical.INT, nullable=True)
"""For a key of a component that is constantly 0 and binds nothing."""


def base_map(relation: Relation) -> Map:
    keys = tuple(KeyColumn(c.name, Slot(c.type.physical, c.nullable)) for c in relation.columns)
    value = ValueColumn(VALUE_COLUMN, Physical.INT, Rel(relation.name, relation.names))
    return Map(f"base_{relation.name}", keys, (value,))


def over_maps(expr: Expr) -> Expr:
    """R(x) -> base_R[x]"""

    def swap(node: Expr) -> Expr:
        if isinstance(node, Rel):
            return MapRef(f"base_{node.name}", VALUE_COLUMN, node.variables)
        return node

    return transform(expr, swap)


def compile_naively(catalog: Catalog, queries: Sequence[Query]) -> Program:
    signatures = {relation.name: relation_signature(relation) for relation in catalog}
    maps = [base_map(relation) for relation in catalog]
    recomputed: list[tuple[frozenset[str], Statement]] = []
    views = []
    for query in queries:
        sources = []
        for name, expr in query.components:
            slots = variable_slots(expr, signatures)
            keys = tuple(KeyColumn(key, slots.get(key, ANY)) for key in query.keys)
            column = ValueColumn(VALUE_COLUMN, weight_type(expr, signatures, slots), expr)
            map = Map(f"{query.name}_{name}", keys, (column,))
            maps.append(map)
            update = statement(map.name, query.keys, ":=", VALUE_COLUMN, over_maps(expr))
            recomputed.append((relations(expr), update))
            sources.append((name, map.name, VALUE_COLUMN))
        lets = tuple(over_maps(let) for let in query.lets)
        assert all(isinstance(let, Lift | Extreme) for let in lets)
        views.append(View(replace(query, lets=lets), tuple(sources)))
    triggers = []
    for relation in catalog:
        if relation.static:
            continue
        delta = Delta(relation.name, relation.names)
        kept = statement(f"base_{relation.name}", relation.names, "+=", VALUE_COLUMN, delta)
        updates = tuple(update for reads, update in recomputed if relation.name in reads)
        triggers.append(Trigger(relation.name, (kept, *updates)))
    return Program(tuple(catalog), tuple(maps), tuple(triggers), tuple(views))
