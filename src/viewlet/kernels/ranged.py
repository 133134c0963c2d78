"""Sums over ranges of keys as nodes (kernels.ranges says what is recognized)."""

from __future__ import annotations

from collections.abc import Callable

from viewlet.calculus.expr import PRESENCE, Expr, MapRef, factors_of, product_of
from viewlet.calculus.scope import all_names, outputs
from viewlet.calculus.typing import Slot
from viewlet.kernels.builder import Builder, Rest
from viewlet.kernels.loop_nodes import (
    AddTo,
    AtBorder,
    BindKey,
    Block,
    Border,
    Factors,
    Groups,
    Monotone,
    Named,
    Range,
    SubtreeSum,
    Total,
)
from viewlet.kernels.ranges import Beyond, Bound, KeyTest, RangeShape, range_shape
from viewlet.kernels.recognize import column_position
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.storage.columns import NEGATIVES, TOTAL

Finish = Callable[[dict[str, Variable], list[tuple[Block, Factors]]], Block]
"""What to do with one row, given how to compute the weight of each update."""


class RangeBuilder(Builder):
    """Builds range sums: where a factor of a product is one, and where a statement's loop is."""

    def range_sum(
        self, atom: MapRef, others: tuple[Expr, ...], scope: Scope, needed: frozenset[str]
    ) -> tuple[Block, Named, tuple[Expr, ...]] | None:
        """M[g, p].c * {p < x} * q -> range sum * q  where nothing but the conditions needs p."""
        if atom.column == PRESENCE:
            return None
        maps = self.loops.maps
        shape = range_shape(atom, others, frozenset(scope), needed, maps)
        if shape is None or self._is_small(atom, frozenset(scope)):
            return None
        parts = tuple(i for i, name in enumerate(atom.keys) if name in scope)
        bounds, borders = self._bounds(shape, scope)
        node = self._range(atom, shape, parts, [atom.column], bounds, scope, None)
        found = Named(node.sums[0].name, node.sums[0].physical)
        if not borders:
            return [node], found, shape.remaining
        total = Named(self.name("total"), found.physical)

        def add(_: dict[str, Variable], factors: Factors) -> Block:
            return [AddTo(total.name, total.physical, factors)]

        fast: Block = [*borders, node, *add({}, (found,))]
        slow = self._looped(atom, shape, dict(scope), frozenset(), (), add)
        block = self._where_monotone(shape, scope, fast, slow)
        return [Total(total.name, total.physical, block)], total, shape.remaining

    def range_term(
        self,
        term: Expr,
        updates: list[Expr],
        needed: frozenset[str],
        finish: Finish,
        add: Rest,
    ) -> Block | None:
        """L * M[k, p].* * {p < x} | a: M[k, p].a, b: M[k, p].b, ... with one traversal for all.

        `finish` gets the weights of the updates for one row, `add` the row in a plain loop.
        """
        for atom in factors_of(term):
            if isinstance(atom, MapRef) and not self.loops.maps[atom.name].buffer:
                found = self._range_term(atom, term, updates, needed, finish, add)
                if found is not None:
                    return found
        return None

    def _is_small(self, atom: MapRef, bound: frozenset[str]) -> bool:
        """The records that refer to one row by its declared key: few, and quicker met one by one.

        A tree would cost every change of the map several times what a chain does.
        """
        groups = self.loops.small.get(atom.name, ())
        return any({atom.keys[i] for i in group} <= bound for group in groups)

    def _range_term(
        self,
        atom: MapRef,
        term: Expr,
        updates: list[Expr],
        needed: frozenset[str],
        finish: Finish,
        add: Rest,
    ) -> Block | None:
        columns = _columns(atom, updates)
        if columns is None:
            return None
        factors = factors_of(term)
        before = next(i for i, factor in enumerate(factors) if factor is atom)
        others = [*factors[:before], *factors[before + 1 :]]
        bound = frozenset[str]().union(*(outputs(f) for f in others))
        groups = (frozenset(atom.keys) - bound) & needed
        rest = [product_of(*(f for f in factors_of(u) if f not in columns)) for u in updates]
        used = groups.union(*(all_names(f) for f in rest)) | needed
        split = _split(atom, others, before, bound)
        if split is None:
            return None
        first, dependent = split
        scope_names = frozenset[str]().union(*(outputs(f) for f in first))
        shape = range_shape(
            atom, tuple(dependent), scope_names | groups, used - groups, self.loops.maps
        )
        if shape is None or shape.remaining or (groups and scope_names & set(atom.keys)):
            return None
        if self._is_small(atom, scope_names | groups):
            return None
        names = [ref.column for ref in columns]
        parts = tuple(i for i, key in enumerate(atom.keys) if key in scope_names | groups)

        def ranged(scope: dict[str, Variable], factors: Factors) -> Block:
            root = self.name("root") if groups else None
            record = self.name("at")
            inner = dict(scope)
            binds: Block = []
            for key in sorted(groups):
                position = atom.keys.index(key)
                slot = self.loops.maps[atom.name].keys[position].slot
                inner[key] = Variable(self.name(key), slot)
                binds.append(BindKey(inner[key], atom.name, position, record))
            bounds, borders = self._bounds(shape, inner)
            node = self._range(atom, shape, parts, names, bounds, inner, root)
            sums = {kept.name: Named(kept.name, kept.physical) for kept in node.sums}
            by_column = dict(zip(dict.fromkeys(names), sums.values(), strict=True))
            weights: list[tuple[Block, Factors]] = []
            for name, expr in zip(names, rest, strict=True):
                block, weight = self.weight(expr, inner)
                weights.append((block, (*factors, *weight, by_column[name])))
            body: Block = [node, *finish(inner, weights)]
            once = not any(beyond.inputs & groups for beyond in _beyonds(shape))
            if root is None:
                fast = [*borders, *body]
            elif once:
                fast = [*borders, Groups(atom.name, node.index, root, record, [*binds, *body])]
            else:
                slow = self._looped(atom, shape, inner, needed, factors, add)
                chosen = self._where_monotone(shape, inner, [*borders, *body], slow)
                return [Groups(atom.name, node.index, root, record, [*binds, *chosen])]
            if not borders:
                return fast
            slow = self._looped(atom, shape, scope, needed, factors, add)
            return self._where_monotone(shape, scope, fast, slow)

        later = needed.union(used, *(all_names(f) for f in (atom, *dependent)))
        return self.product(tuple(first), {}, later, (), ranged)

    def weight(self, expr: Expr, scope: Scope) -> tuple[Block, Factors]:
        """The weight of an expression whose variables are bound, summed out ones aside."""
        raise NotImplementedError

    def _looped(
        self,
        atom: MapRef,
        shape: RangeShape,
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """The same rows one by one."""
        later = needed.union(*(all_names(other) for other in shape.used))
        return self.rows(
            atom,
            scope,
            later,
            factors,
            lambda inner, found: self.product(shape.used, inner, needed, found, rest),
        )

    def _range(
        self,
        atom: MapRef,
        shape: RangeShape,
        parts: tuple[int, ...],
        columns: list[str],
        bounds: list[Bound | KeyTest | AtBorder],
        scope: Scope,
        root: str | None,
    ) -> Range:
        map = self.loops.maps[atom.name]
        wanted = [column_position(map, column) for column in dict.fromkeys(columns)]
        order = atom.keys.index(shape.order)
        index, places = self.tree(map.name, parts, order, *((c, TOTAL) for c in wanted))
        sums = [
            SubtreeSum(self.name("range"), map.columns[column].physical, place)
            for column, place in zip(wanted, places, strict=True)
        ]
        key = [] if root else [scope[atom.keys[i]] for i in parts]
        return Range(sums, map.name, index, key, root, bounds, shape.outside, dict(scope))

    def _bounds(
        self, shape: RangeShape, scope: Scope
    ) -> tuple[list[Bound | KeyTest | AtBorder], list[Border]]:
        bounds: list[Bound | KeyTest | AtBorder] = []
        borders: list[Border] = []
        for bound in shape.bounds:
            if isinstance(bound, Beyond):
                borders.append(self._border(bound, scope))
                bounds.append(AtBorder(borders[-1].name, bound.upper))
            else:
                bounds.append(bound)
        return bounds, borders

    def _border(self, beyond: Beyond, scope: Scope) -> Border:
        map = self.loops.maps[beyond.map]
        parts, order = _parts(beyond)
        columns = [column_position(map, column) for _, column in beyond.sums]
        index, places = self.tree(map.name, parts, order, *((c, TOTAL) for c in columns))
        sums = []
        for (name, _), column, place in zip(beyond.sums, columns, places, strict=True):
            physical = map.columns[column].physical
            variable = Variable(self.name(name), Slot(physical))
            sums.append((variable, SubtreeSum(self.name("sum"), physical, place)))
        inner = {**scope, **{name: v for (name, _), (v, _) in zip(beyond.sums, sums, strict=True)}}
        return Border(
            self.name("border"),
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

    def _where_monotone(self, shape: RangeShape, scope: Scope, fast: Block, slow: Block) -> Block:
        """The fast way where none of the summed weights is negative."""
        wanted: dict[tuple[str, tuple[str, ...], str], dict[str, None]] = {}
        for beyond in _beyonds(shape):
            place = (beyond.map, beyond.keys, beyond.order)
            wanted.setdefault(place, {}).update(dict.fromkeys(c for _, c in beyond.sums))
        for beyond in {(b.map, b.keys, b.order): b for b in _beyonds(shape)}.values():
            map = self.loops.maps[beyond.map]
            parts, order = _parts(beyond)
            columns = wanted[beyond.map, beyond.keys, beyond.order]
            sums = [(column_position(map, column), NEGATIVES) for column in columns]
            index, places = self.tree(map.name, parts, order, *sums)
            key = [scope[beyond.keys[i]] for i in parts]
            fast = [Monotone(map.name, index, key, places, fast, slow)]
        return fast


def _parts(beyond: Beyond) -> tuple[tuple[int, ...], int]:
    order = beyond.keys.index(beyond.order)
    return tuple(i for i in range(len(beyond.keys)) if i != order), order


def _beyonds(shape: RangeShape) -> list[Beyond]:
    return [bound for bound in shape.bounds if isinstance(bound, Beyond)]


def _columns(atom: MapRef, updates: list[Expr]) -> list[MapRef] | None:
    """The column of the atom's map that each update multiplies with; None if one does not."""
    found = []
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
        found += refs
    return found


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
        passed = [*dependent, atom] if i >= before else dependent
        if any(outputs(other) & all_names(p) for p in passed):
            return None
        first.append(other)
    return first, dependent
