"""Nodes for sums over ranges of keys (kernels.ranges says what is recognized)."""

from __future__ import annotations

from viewlet.calculus.expr import MapRef
from viewlet.calculus.typing import Slot
from viewlet.kernels.builder import Builder
from viewlet.kernels.loop_nodes import AtBorder, Block, Border, IfMonotone, Range, SubtreeSum
from viewlet.kernels.ranges import Beyond, Bound, KeyTest, RangeShape
from viewlet.kernels.recognize import column_position
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.schema import Physical
from viewlet.storage.columns import NEGATIVES, TOTAL


def has_small_groups(builder: Builder, atom: MapRef, bound: frozenset[str]) -> bool:
    """Whether records refer to one row by its declared key: few, and quicker met one by one.

    A tree would cost every change of the map several times what a chain does.
    """
    groups = builder.loops.small.get(atom.name, ())
    return any({atom.keys[i] for i in group} <= bound for group in groups)


def range_node(
    builder: Builder,
    atom: MapRef,
    shape: RangeShape,
    parts: tuple[int, ...],
    columns: list[str],
    bounds: list[Bound | KeyTest | AtBorder],
    scope: Scope,
    root: str | None,
) -> Range:
    """The sums of some columns of an atom's map, over the range that a shape says."""
    map = builder.loops.maps[atom.name]
    summed = [column_position(map, column) for column in dict.fromkeys(columns)]
    order = atom.keys.index(shape.order)
    index, positions = builder.tree(map.name, parts, order, *((c, TOTAL) for c in summed))
    sums = [
        SubtreeSum(builder.name("range"), map.columns[column].physical, position)
        for column, position in zip(summed, positions, strict=True)
    ]
    key = [] if root else [scope[atom.keys[i]] for i in parts]
    return Range(sums, map.name, index, key, root, bounds, shape.outside, dict(scope))


def range_bounds(
    builder: Builder, shape: RangeShape, scope: Scope
) -> tuple[list[Bound | KeyTest | AtBorder], list[Border]]:
    """The bounds of a range, and the borders that must be found before."""
    bounds: list[Bound | KeyTest | AtBorder] = []
    borders: list[Border] = []
    for bound in shape.bounds:
        if isinstance(bound, Beyond):
            borders.append(border_node(builder, bound, scope))
            bounds.append(AtBorder(borders[-1].name, bound.upper))
        else:
            bounds.append(bound)
    return bounds, borders


def border_node(builder: Builder, beyond: Beyond, scope: Scope) -> Border:
    """The descent to the key at which tests of sums beyond a key turn."""
    map = builder.loops.maps[beyond.map]
    parts, order = _group(beyond)
    columns = [column_position(map, column) for _, column in beyond.sums]
    index, positions = builder.tree(map.name, parts, order, *((c, TOTAL) for c in columns))
    sums: list[tuple[Variable, SubtreeSum]] = []
    inner = dict(scope)
    for (name, _), column, position in zip(beyond.sums, columns, positions, strict=True):
        physical = map.columns[column].physical
        inner[name] = Variable(builder.name(name), Slot(physical))
        sums.append((inner[name], SubtreeSum(builder.name("sum"), physical, position)))
    return Border(
        builder.name("border"),
        map.name,
        index,
        [scope[beyond.keys[i]] for i in parts],
        sums,
        beyond.operator,
        beyond.tests,
        beyond.rises,
        beyond.upper,
        inner,
    )


def turns_at_odd_keys(builder: Builder, shape: RangeShape, node: Range) -> bool:
    """Whether a test of the key may turn twice: x - p > 7 holds again where p is NaN."""
    order = builder.loops.indexes[node.map][node.index].order
    key = builder.loops.maps[node.map].keys[order]
    is_float = key.slot.physical is Physical.FLOAT
    return is_float and any(isinstance(bound, KeyTest) for bound in shape.bounds)


def where_monotone(
    builder: Builder, shape: RangeShape, node: Range, scope: Scope, fast: Block, slow: Block
) -> Block:
    """The fast way where no summed weight is negative, and all keys are finite if need be."""
    if turns_at_odd_keys(builder, shape, node):
        fast = [IfMonotone(node.map, node.index, [], [], fast, slow, of_finite_keys=True)]
    columns: dict[tuple[str, tuple[str, ...], str], dict[str, None]] = {}
    for beyond in beyonds(shape):
        tree = (beyond.map, beyond.keys, beyond.order)
        columns.setdefault(tree, {}).update(dict.fromkeys(c for _, c in beyond.sums))
    for beyond in {(b.map, b.keys, b.order): b for b in beyonds(shape)}.values():
        map = builder.loops.maps[beyond.map]
        parts, order = _group(beyond)
        counts = [
            (column_position(map, column), NEGATIVES)
            for column in columns[beyond.map, beyond.keys, beyond.order]
        ]
        index, positions = builder.tree(map.name, parts, order, *counts)
        key = [scope[beyond.keys[i]] for i in parts]
        fast = [IfMonotone(map.name, index, key, positions, fast, slow)]
    return fast


def beyonds(shape: RangeShape) -> list[Beyond]:
    """The bounds that are tests of sums beyond a key."""
    return [bound for bound in shape.bounds if isinstance(bound, Beyond)]


def _group(beyond: Beyond) -> tuple[tuple[int, ...], int]:
    """The positions of the keys of a group, and of the one that orders it."""
    order = beyond.keys.index(beyond.order)
    return tuple(i for i in range(len(beyond.keys)) if i != order), order
