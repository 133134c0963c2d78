"""Maps as loops: the access that fits the keys that are bound (kernels.rows lists them)."""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.calculus.expr import PRESENCE, MapRef
from viewlet.kernels.builder import Builder, Cursor, NodeBuilders
from viewlet.kernels.loop_nodes import (
    BindKey,
    Block,
    Column,
    Get,
    MatchKey,
    Named,
    Present,
    Run,
    Scan,
    Slice,
    Walk,
)
from viewlet.kernels.recognize import column_position, narrowed
from viewlet.kernels.scalar_source import Variable
from viewlet.storage.columns import CHAIN, COUNT, Index


@dataclass(frozen=True)
class InOrder:
    """A walk along a group of records, by the order of one key, until `stop` is set."""

    key: str
    greatest_first: bool
    stop: str


def build_atom(builder: Builder, expr: MapRef, cursor: Cursor) -> Block:
    """For every record of a map under the bound keys, the rest."""
    return build_records(builder, expr, cursor, None)


def build_records(
    builder: Builder, expr: MapRef, cursor: Cursor, in_order: InOrder | None
) -> Block:
    """The same, in the order of a key where that is asked for."""
    scope, map = cursor.scope, builder.loops.maps[expr.name]
    bound = [i for i, name in enumerate(expr.keys) if name in scope]
    key = [scope[expr.keys[i]] for i in bound]
    is_full_key = len(bound) == len(expr.keys)
    open_record = (
        builder.records.get((map.name, tuple(v.name for v in key))) if is_full_key else None
    )
    record = open_record or builder.name("at")
    inner = dict(scope)
    for i in bound:
        inner[expr.keys[i]] = narrowed(scope[expr.keys[i]], map.keys[i].slot)
    binds: Block = []
    matches: list[tuple[Variable, int]] = []
    for i, name in enumerate(expr.keys):
        if i in bound:
            continue
        if name in inner:
            matches.append((inner[name], i))
        else:
            inner[name] = Variable(builder.name(name), map.keys[i].slot)
            binds.append(BindKey(inner[name], map.name, i, record))
    row = Cursor(inner, cursor.needed, cursor.factors, cursor.continuation)
    body = _with_record(builder, expr, record, binds, matches, row)
    if open_record:
        return body
    if in_order is not None:
        column = 0 if expr.column == PRESENCE else column_position(map, expr.column)
        order = expr.keys.index(in_order.key)
        index, (count,) = builder.tree(map.name, tuple(bound), order, (column, COUNT))
        greatest, stop = in_order.greatest_first, in_order.stop
        return [Walk(map.name, index, count, record, key, greatest, stop, body)]
    if is_full_key:
        builder.loops.probed.add(map.name)
        return [Get(map.name, record, key, body)]
    if bound and builder.loops.determines(map.name, frozenset(map.key_names[i] for i in bound)):
        return [Run(map.name, tuple(bound), record, key, body)]
    if bound:
        index = builder.index(map.name, Index(CHAIN, tuple(bound)))
        return [Slice(map.name, index, record, key, body)]
    return [Scan(map.name, record, body)]


def _with_record(
    builder: Builder,
    expr: MapRef,
    record: str,
    binds: Block,
    matches: list[tuple[Variable, int]],
    cursor: Cursor,
) -> Block:
    """The rest for one record of a map, under the tests that its keys and value must pass."""
    map = builder.loops.maps[expr.name]
    key = (map.name, tuple(cursor.scope[name].name for name in expr.keys))
    outer_record = builder.records.get(key)
    builder.records[key] = record
    weight = builder.name("w")
    column = None if expr.column == PRESENCE else column_position(map, expr.column)
    factors = cursor.factors
    if column is not None:
        factors = (*factors, Named(weight, map.columns[column].physical, nonzero=True))
    body = cursor.continuation(cursor.scope, factors)
    if outer_record is None:
        del builder.records[key]
    else:
        builder.records[key] = outer_record
    for variable, i in reversed(matches):
        body = [MatchKey(variable, map.name, i, record, body)]
    if column is None:
        return [Present(map.name, record, [*binds, *body])]
    return [Column(weight, map.name, column, record, [*binds, *body])]


BUILDERS: NodeBuilders = {MapRef: build_atom}
