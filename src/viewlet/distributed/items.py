"""A statement taken apart: the factors of its product, each with the place where it can be joined.

    T[k] op f1 * f2 | c1: g1 * g2, c2: g1 * g3

has the items f1, f2 (of all columns), g1 (of c1 and again of c2), g2 and g3. Factors may be joined
in another order than they are written in, as long as bindings still flow from left to right.

A factor whose atoms are at several locations has none of its own. `Layout.copies` give it one: they
move the odd atoms, all of their contents, to where the others are. This is the only reason for
which a materialized view is transferred instead of a delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from viewlet.calculus.expr import (
    PRESENCE,
    Atom,
    Delta,
    Expr,
    MapRef,
    factors_of,
    product_of,
    transform,
    walk,
)
from viewlet.calculus.rewrite import rename
from viewlet.calculus.scope import NONE, Names, all_names, check, outputs
from viewlet.calculus.text import VALUE_COLUMN
from viewlet.distributed.ir import RelationBatch, Source, atom_location
from viewlet.distributed.location import (
    LOCAL,
    RANDOM,
    REPLICATED,
    Dist,
    Local,
    Location,
    Random,
    Tag,
    in_variables,
    tag_of,
)
from viewlet.errors import ProgramError
from viewlet.names import FreshNames
from viewlet.program.ir import KeyColumn, Map, Program, Statement, ValueColumn, relation_signature
from viewlet.schema import Physical


@dataclass(frozen=True)
class StatementItem:
    """A factor; `columns` are the updates that it belongs to, None for the loop.

    `needs` are the variables that stand to its left and that it uses without binding them.
    """

    expr: Expr
    columns: frozenset[str] | None
    tag: Tag
    needs: Names

    def is_ready(self, bound: Names) -> bool:
        """Whether the factor can be evaluated once these variables are bound."""
        if not self.needs <= bound:
            return False
        try:
            check(self.expr, bound)
        except ProgramError:
            return False
        return True


@dataclass(frozen=True)
class AtomCopy:
    """A whole map, or the batch of a relation, that is moved to `to`, over its own columns."""

    name: str
    source: Source
    to: Location
    map: Map


class AtomLocations:
    """What a compiler of one trigger knows of maps and their places; copies are added to it."""

    def __init__(
        self,
        program: Program,
        locations: Mapping[str, Location],
        batch: Location,
        names: FreshNames | None = None,
    ) -> None:
        self.program = program
        self.names = names or program.names()
        """Of all that is kept, for the buffers that transfers need."""
        self._stand_ins = self.names.inner()
        self._copy_names: dict[tuple[Source, Location], str] = {}
        self._move_names: list[str] = []
        self.batch = batch
        self.maps: dict[str, Map] = {m.name: m for m in program.maps}
        self.locations: dict[str, Location] = dict(locations)
        self.copies: dict[str, AtomCopy] = {}
        constants = {m.name for m in program.constants}
        self.state = frozenset(
            m.name for m in program.maps if not m.buffer and m.name not in constants
        )
        """The maps that last and change: a stage that reads none needs no partition."""
        self.batch_buffers = {m.name for m in program.maps if m.buffer}
        """What the program's own statements fill from the batch."""

    def locate(self, atom: Atom) -> Location:
        """Where the contents of a relation, a batch or a map are."""
        return atom_location(atom, self.maps, self.locations, self.batch)

    def copy(self, atom: MapRef | Delta, to: Location) -> MapRef:
        """A reference to the atom's contents moved to `to`, which is over its variables."""
        source: Source = atom.name if isinstance(atom, MapRef) else RelationBatch(atom.name)
        map = self._batch_map(source) if isinstance(source, RelationBatch) else self.maps[source]
        variables = atom.keys if isinstance(atom, MapRef) else atom.variables
        location = in_variables(to, variables, map.key_names)
        if (source, location) not in self._copy_names:
            self._copy_names[source, location] = self._stand_ins.fresh(f"@{map.name}@{location}")
        name = self._copy_names[source, location]
        copied = replace(map, name=name, buffer=True, change_of=None)
        self.copies[name] = AtomCopy(name, source, location, copied)
        self.maps[name] = self.copies[name].map
        self.locations[name] = location
        column = atom.column if isinstance(atom, MapRef) else VALUE_COLUMN
        return MapRef(name, column, variables, buffer=True)

    def source_location(self, source: Source) -> Location:
        """Where a map is, or the batch."""
        return self.batch if isinstance(source, RelationBatch) else self.locations[source]

    def move_name(self, number: int) -> str:
        """What stands for the n-th moved product of a statement, until its buffer has a name."""
        while len(self._move_names) < number:
            self._move_names.append(self._stand_ins.fresh(f"@{len(self._move_names) + 1}"))
        return self._move_names[number - 1]

    def _batch_map(self, batch: RelationBatch) -> Map:
        relation = self.program.relation(batch.relation)
        slots = relation_signature(relation).keys
        keys = tuple(KeyColumn(n, s) for n, s in zip(relation.names, slots, strict=True))
        columns = (ValueColumn(VALUE_COLUMN, Physical.INT),)
        return Map(relation.name, keys, columns, buffer=True)


def with_lookups_in_loop(statement: Statement) -> Statement:
    """q | c1: m[k].x * a, c2: m[k].y * b   ->   q * m[k].* | c1: m[k].x * a, c2: m[k].y * b

    A record that every column looks up may as well be found by the loop: it filters what is moved
    afterwards, and where it is partitioned by a variable of its own it can bind that.
    """
    lookups = [_records(update) for _, update in statement.updates]
    shared = set.intersection(*lookups) - _records(statement.loop)
    records = sorted(shared, key=lambda record: (record.name, record.keys))
    return replace(statement, loop=product_of(statement.loop, *records))


def _records(expr: Expr) -> set[MapRef]:
    """The records that the factors of a product look up."""
    return {replace(f, column=PRESENCE) for f in factors_of(expr) if isinstance(f, MapRef)}


def items_of(
    statement: Statement, layout: AtomLocations, *, on_driver: bool = False
) -> list[StatementItem]:
    """The statement's items, each with a tag; `on_driver` has copies of all maps gathered there."""
    statement = with_lookups_in_loop(statement)
    items: list[StatementItem] = []
    batches = 0
    binders = [outputs(factor) for factor in factors_of(statement.loop)]
    for expr, columns, bound_before in _factors(statement):
        expr = _apart(expr, bound_before, NONE.union(*binders))
        if isinstance(expr, Delta):
            batches += 1
        tag: Tag
        if on_driver:
            expr, tag = _gathered(expr, layout, first=batches == 1)
        elif isinstance(expr, Delta) and batches > 1:
            # Partial sums join nothing but replicated contents: the second ΔR is replicated.
            expr, tag = layout.copy(expr, REPLICATED), REPLICATED
        else:
            expr, tag = _placed(expr, layout, bound_before)
        # A lookup behind the bar binds nothing: its keys are bound by the loop.
        bound_here = outputs(expr) if columns is None else NONE
        items.append(
            StatementItem(expr, columns, tag, (all_names(expr) - bound_here) & bound_before)
        )
    return items


def _factors(statement: Statement) -> Iterator[tuple[Expr, frozenset[str] | None, Names]]:
    """Each factor with its columns and the variables to its left."""
    bound_before = NONE
    for factor in factors_of(statement.loop):
        yield factor, None, bound_before
        bound_before |= outputs(factor)
    for column, update in statement.updates:
        for factor in factors_of(update):
            yield factor, frozenset((column,)), bound_before


def _apart(expr: Expr, bound_before: Names, bound_somewhere: Names) -> Expr:
    """Hidden variables that a later factor binds get other names before factors change order."""
    hidden = all_names(expr) - outputs(expr) - bound_before
    return rename(expr, {name: f"{name}_in" for name in hidden & bound_somewhere})


def _atoms(expr: Expr) -> list[MapRef | Delta]:
    return [node for node in walk(expr) if isinstance(node, MapRef | Delta)]


def _placed(expr: Expr, layout: AtomLocations, bound_before: Names) -> tuple[Expr, Tag]:
    locations = {layout.locate(atom) for atom in _atoms(expr)}
    if LOCAL in locations and locations <= {LOCAL, REPLICATED}:
        return expr, LOCAL
    try:
        return expr, tag_of(expr, layout.locate, bound_before)
    except ProgramError:
        return _colocated(expr, layout, bound_before, locations)


def _colocated(
    expr: Expr, layout: AtomLocations, bound_before: Names, locations: set[Location]
) -> tuple[Expr, Tag]:
    """The same factor over copies, with the fewest copies, the fewest of them replicated."""
    best: tuple[tuple[int, int], Expr, Tag] | None = None
    destinations: list[Location] = sorted((p for p in locations if isinstance(p, Dist)), key=str)
    for to in (*destinations, REPLICATED):
        new = transform(expr, partial(_moved, to=to, layout=layout))
        try:
            tag = tag_of(new, layout.locate, bound_before)
        except ProgramError:
            continue
        copies = [layout.locate(a) for a in _atoms(new) if a.name in layout.copies]
        cost = (copies.count(REPLICATED), len(copies))
        if best is None or cost < best[0]:
            best = cost, new, tag
    assert best is not None, "all atoms replicated is always well formed"
    return best[1], best[2]


def _moved(node: Expr, to: Location, layout: AtomLocations) -> Expr:
    if not isinstance(node, MapRef | Delta) or layout.locate(node) in (to, REPLICATED):
        return node
    variables = node.keys if isinstance(node, MapRef) else node.variables
    fits = isinstance(to, Dist) and {*to.columns} <= {*variables}
    return layout.copy(node, to if fits else REPLICATED)


def _gathered(expr: Expr, layout: AtomLocations, *, first: bool) -> tuple[Expr, Tag]:
    """Everything on the driver, except the first ΔR: that is moved like any delta."""
    if isinstance(expr, Delta) and first and isinstance(layout.batch, Random):
        return expr, RANDOM

    def gather(node: Expr) -> Expr:
        if isinstance(node, MapRef | Delta) and isinstance(layout.locate(node), Dist | Random):
            return layout.copy(node, LOCAL)
        return node

    new = transform(expr, gather)
    here = any(isinstance(layout.locate(atom), Local) for atom in _atoms(new))
    return new, LOCAL if here else REPLICATED
