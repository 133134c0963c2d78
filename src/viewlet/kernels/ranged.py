"""Statements whose loop is a sum over a range of keys: one descent for all updates."""

from __future__ import annotations

from collections.abc import Callable

from viewlet.calculus.expr import PRESENCE, Expr, MapRef, factors_of, product_of
from viewlet.calculus.scope import all_names, outputs
from viewlet.kernels.builder import Builder, Continuation, Cursor
from viewlet.kernels.loop_nodes import BindKey, Block, Factors, Groups, Named
from viewlet.kernels.product_loops import build_in_order, build_product
from viewlet.kernels.range_nodes import (
    beyonds,
    has_small_groups,
    range_bounds,
    range_node,
    turns_at_odd_keys,
    where_monotone,
)
from viewlet.kernels.ranges import range_shape
from viewlet.kernels.scalar_source import Variable
from viewlet.kernels.totals import weight_factors

Finish = Callable[[dict[str, Variable], list[tuple[Block, Factors]]], Block]
"""What to do with one row, given how to compute the weight of each update."""


def build_range_term(
    builder: Builder,
    term: Expr,
    updates: list[Expr],
    needed: frozenset[str],
    finish: Finish,
    add: Continuation,
) -> Block | None:
    """L * M[k, p].* * {p < x} | a: M[k, p].a, b: M[k, p].b, ... with one descent for all.

    `finish` gets the weights of the updates for one row, `add` the row in a plain loop. None if no
    factor of the term is such a map.
    """
    for atom in factors_of(term):
        if isinstance(atom, MapRef) and not builder.loops.maps[atom.name].buffer:
            block = _range_term(builder, atom, term, updates, needed, finish, add)
            if block is not None:
                return block
    return None


def _range_term(
    builder: Builder,
    atom: MapRef,
    term: Expr,
    updates: list[Expr],
    needed: frozenset[str],
    finish: Finish,
    add: Continuation,
) -> Block | None:
    columns = _columns(atom, updates)
    if columns is None:
        return None
    maps = builder.loops.maps
    factors = factors_of(term)
    before = next(i for i, factor in enumerate(factors) if factor is atom)
    others = [*factors[:before], *factors[before + 1 :]]
    bound = frozenset[str]().union(*(outputs(f) for f in others))
    groups = (frozenset(atom.keys) - bound) & needed
    weights = [product_of(*(f for f in factors_of(u) if f not in columns)) for u in updates]
    used = groups.union(*(all_names(weight) for weight in weights)) | needed
    split = _split(atom, others, before, bound)
    if split is None:
        return None
    first, dependent = split
    outer = frozenset[str]().union(*(outputs(f) for f in first))
    shape = range_shape(atom, tuple(dependent), outer | groups, used - groups, maps)
    if shape is None or shape.remaining or (groups and outer & set(atom.keys)):
        return None
    if has_small_groups(builder, atom, outer | groups):
        return None
    names = [ref.column for ref in columns]
    parts = tuple(i for i, key in enumerate(atom.keys) if key in outer | groups)

    def sums(scope: dict[str, Variable], factors: Factors) -> Block:
        """The sums of one group, or of each group, for a row of what stands before."""
        root = builder.name("root") if groups else None
        record = builder.name("at")
        inner = dict(scope)
        binds: Block = []
        for key in sorted(groups):
            position = atom.keys.index(key)
            inner[key] = Variable(builder.name(key), maps[atom.name].keys[position].slot)
            binds.append(BindKey(inner[key], atom.name, position, record))
        bounds, borders = range_bounds(builder, shape, inner)
        node = range_node(builder, atom, shape, parts, names, bounds, inner, root)
        totals = [Named(sum.name, sum.physical) for sum in node.sums]
        by_column = dict(zip(dict.fromkeys(names), totals, strict=True))
        products: list[tuple[Block, Factors]] = []
        for name, expr in zip(names, weights, strict=True):
            block, weight = weight_factors(builder, expr, inner)
            products.append((block, (*factors, *weight, by_column[name])))
        body: Block = [node, *finish(inner, products)]
        if root is not None and any(beyond.inputs & groups for beyond in beyonds(shape)):
            # Every group has borders of its own.
            slow = one_by_one(inner, factors)
            either = where_monotone(builder, shape, node, inner, [*borders, *body], slow)
            return [Groups(atom.name, node.index, root, record, [*binds, *either])]
        if root is not None:
            body = [Groups(atom.name, node.index, root, record, [*binds, *body])]
        if not borders and not turns_at_odd_keys(builder, shape, node):
            return body
        slow = one_by_one(scope, factors)
        return where_monotone(builder, shape, node, scope, [*borders, *body], slow)

    def one_by_one(scope: dict[str, Variable], factors: Factors) -> Block:
        """The same rows without the order of keys."""
        return build_in_order(builder, atom, shape.used, Cursor(scope, needed, factors, add))

    later = needed.union(used, *(all_names(f) for f in (atom, *dependent)))
    return build_product(builder, tuple(first), Cursor({}, later, (), sums))


def _columns(atom: MapRef, updates: list[Expr]) -> list[MapRef] | None:
    """The column of the atom's map that each update multiplies with; None if one does not."""
    columns: list[MapRef] = []
    for update in updates:
        refs = [
            f
            for f in factors_of(update)
            if isinstance(f, MapRef) and (f.name, f.keys) == (atom.name, atom.keys)
        ]
        if atom.column != PRESENCE:
            refs.append(atom)
        if len(refs) != 1 or refs[0].column == PRESENCE:
            return None
        columns += refs
    return columns


def _split(
    atom: MapRef, others: list[Expr], before: int, bound: frozenset[str]
) -> tuple[list[Expr], list[Expr]] | None:
    """What can be done before the atom, and what needs the keys that it binds.

    The first `before` of the others stand to its left. Nothing may move left over an expression
    that uses a name which it binds: there that name is another variable.
    """
    names = set(atom.keys) - bound
    first: list[Expr] = []
    dependent: list[Expr] = []
    for i, other in enumerate(others):
        if all_names(other) & names:
            dependent.append(other)
            names |= outputs(other)
            continue
        overtaken = [*dependent, atom] if i >= before else dependent
        if any(outputs(other) & all_names(expr) for expr in overtaken):
            return None
        first.append(other)
    return first, dependent
