"""Statements with location transformers: all the ways to make one well formed.

A statement's items (see `items`) are joined group by group. The product so far is a relation C; it
starts where the batch is, takes in every factor that can be joined there, and is then moved to the
place of the next group by a transformer over an expression, until the target's own place:

    T[k] += C2[x, k].* * h        with  C2 := Repart[x](Sum[x, k](C1[y, x].* * g[y]))
                                        C1 := Repart[y](Sum[y, x](ΔR(...) * f))

Each move projects to the variables that are still needed and adds up, so that what crosses the
network is a pre-aggregated delta. A place whose variables C does not bind is reached with C
replicated.

The rules of paper 000 Figure 3 push a transformer through join, union, Sum and lift in either
direction; what they reach from one statement is exactly the choice of a start and an order of
groups, which `plans` enumerates. A replicated map that changes may be joined to the batch at once,
or only after the batch has moved (`late`): what reads the batch alone needs no partition and can
run where the rows are. `naive` takes the order in which the factors are written (paper 000 section
4.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from viewlet.calculus.expr import (
    PRESENCE,
    Assign,
    Binder,
    Cond,
    Delta,
    Expr,
    MapRef,
    Value,
    product_of,
    walk,
)
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.scope import NONE, Names, all_names, outputs
from viewlet.calculus.text import VALUE_COLUMN
from viewlet.distributed.ir import Mode, Source, sources_of, target_location
from viewlet.distributed.items import AtomLocations, StatementItem, items_of
from viewlet.distributed.location import (
    LOCAL,
    RANDOM,
    REPLICATED,
    Dist,
    Follows,
    Local,
    Location,
    Random,
    Replicated,
)
from viewlet.program.ir import Statement

Updates = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Move:
    """name[keys] := transformer[to](Sum[keys](loop | updates)), evaluated on `mode`'s side."""

    name: str
    mode: Mode
    keys: tuple[str, ...]
    loop: Expr
    updates: Updates
    to: Location

    @cached_property
    def sources(self) -> frozenset[Source]:
        """The maps and the batch that it looks into."""
        return sources_of(Statement("", self.keys, "+=", self.loop, self.updates))

    @cached_property
    def loop_sources(self) -> frozenset[Source]:
        """Those whose rows it is made of."""
        return sources_of(Statement("", self.keys, "+=", self.loop, ()))


@dataclass(frozen=True)
class StatementPlan:
    """A well-formed statement: its moves, innermost first, and what runs at the target."""

    moves: tuple[Move, ...]
    modes: tuple[Mode, ...]
    final: Statement

    @cached_property
    def sources(self) -> frozenset[Source]:
        """The maps and the batch that its last part looks into."""
        return sources_of(self.final)

    @cached_property
    def maps_read(self) -> frozenset[str]:
        """All maps, buffers and copies that it looks into."""
        sources = self.sources.union(*(move.sources for move in self.moves))
        return frozenset(source for source in sources if isinstance(source, str))


@dataclass(frozen=True)
class _Product:
    """The product so far: the moved part C, what has been joined since, and what is left."""

    location: Location
    aim: tuple[str, ...]  # the group that a replicated product is for, () for partial sums
    remaining: tuple[StatementItem, ...]
    items: tuple[StatementItem, ...] = ()
    bound: Names = NONE
    moved: MapRef | None = None
    values: tuple[tuple[str, str], ...] = ()  # the column of C for each column of the target
    moves: tuple[Move, ...] = ()


def plans(statement: Statement, layout: AtomLocations) -> list[StatementPlan]:
    """Every order of groups; never empty, because the driver can always do it alone."""
    items = items_of(statement, layout)
    statement_plans = list(_Builder(statement, layout, items).all())
    statement_plans += _Builder(statement, layout, items, late=_copied_state(items, layout)).all()
    return statement_plans or list(_on_driver(statement, layout).all())


def _copied_state(items: list[StatementItem], layout: AtomLocations) -> frozenset[Expr]:
    """The factors that read maps which change and which every node has a copy of."""
    return frozenset(
        item.expr
        for item in items
        if item.tag == REPLICATED
        and any(isinstance(n, MapRef) and n.name in layout.state for n in walk(item.expr))
    )


def naive(statement: Statement, layout: AtomLocations) -> StatementPlan:
    """Bottom-up, from left to right, transforming the left operand (paper 000 Example 4.1)."""
    plan = next(_Builder(statement, layout, items_of(statement, layout)).all(), None)
    return plan or next(_on_driver(statement, layout).all())


def _on_driver(statement: Statement, layout: AtomLocations) -> _Builder:
    return _Builder(statement, layout, items_of(statement, layout, on_driver=True))


class _Builder:
    """`late`: factors that are joined to the batch only after it has been moved."""

    def __init__(
        self,
        statement: Statement,
        layout: AtomLocations,
        items: list[StatementItem],
        late: frozenset[Expr] = frozenset(),
    ) -> None:
        self._statement = statement
        self._layout = layout
        self._items = tuple(items)
        self._late = late
        target = layout.maps[statement.target]
        self._target = target_location(statement, target, layout.locations[target.name])

    def all(self) -> Iterator[StatementPlan]:
        """Depth first; the first plan follows the order of the factors."""
        for start in self._starts():
            yield from self._extended(self._joined(start))

    def _starts(self) -> Iterator[_Product]:
        batch = next(
            (i for i in self._items if i.tag == RANDOM and isinstance(i.expr, Delta)), None
        )
        if batch is not None:
            others = tuple(i for i in self._items if i is not batch)
            yield _Product(RANDOM, (), others, (batch,), outputs(batch.expr))
            return
        starts: list[tuple[str, ...]] = []
        for item in self._items:
            if isinstance(item.tag, Dist) and item.tag.columns not in starts:
                starts.append(item.tag.columns)
                yield _Product(REPLICATED, item.tag.columns, self._items)
        if any(item.tag == RANDOM for item in self._items):
            yield _Product(REPLICATED, (), self._items)
        elif not starts or any(item.tag == LOCAL for item in self._items):
            everywhere = not starts and all(i.tag == REPLICATED for i in self._items)
            both = everywhere and isinstance(self._target, Replicated)
            yield _Product(REPLICATED if both else LOCAL, (), self._items)

    def _joined(self, product: _Product) -> _Product:
        """Take in every item that can be joined where the product is."""
        while True:
            ready = [item for item in product.remaining if self._can_join(product, item)]
            if not ready:
                return product
            item = min(ready, key=lambda i: not isinstance(i.expr, Cond | Value | Assign))
            product = replace(
                product,
                location=item.tag if isinstance(item.tag, Dist | Random) else product.location,
                remaining=tuple(i for i in product.remaining if i is not item),
                items=(*product.items, item),
                bound=product.bound | (outputs(item.expr) if item.columns is None else NONE),
            )

    def _can_join(self, product: _Product, item: StatementItem) -> bool:
        if not item.is_ready(product.bound):
            return False
        if isinstance(product.location, Local):
            return item.tag in (LOCAL, REPLICATED)
        if product.location == RANDOM and item.expr in self._late:
            return False
        if item.tag == REPLICATED:
            return _is_connected(product, item)
        if isinstance(product.location, Dist):
            return item.tag in (product.location, Follows(product.location.columns))
        aim = Dist(product.aim) if product.aim else RANDOM
        return product.location == REPLICATED and item.tag == aim

    def _extended(self, product: _Product) -> Iterator[StatementPlan]:
        if not product.remaining:
            yield from self._finished(product)
            return
        for to, aim in self._next_locations(product):
            further = self._joined(self._moved(product, to, aim))
            if len(further.remaining) < len(product.remaining):
                yield from self._extended(further)

    def _next_locations(self, product: _Product) -> Iterator[tuple[Location, tuple[str, ...]]]:
        """The locations of the remaining groups, in the order of their first item.

        Repart[x] where the product binds x; where it does not, the product is replicated and a
        factor of the group binds x. Partial sums join a replicated product too.
        """
        destinations: set[tuple[Location, tuple[str, ...]]] = {(product.location, product.aim)}
        if isinstance(product.location, Replicated):
            return  # moved from every worker it would count as often
        if product.moved is None and not product.items:
            return
        for item in product.remaining:
            step: tuple[Location, tuple[str, ...]]
            if isinstance(item.tag, Dist | Follows):
                columns = item.tag.columns
                if {*columns} <= product.bound:
                    step = Dist(columns), ()
                elif isinstance(item.tag, Dist):
                    step = REPLICATED, columns
                else:
                    continue
            elif item.tag == LOCAL:
                step = LOCAL, ()
            elif item.tag == RANDOM:
                step = REPLICATED, ()
            elif isinstance(self._target, Dist) and {*self._target.columns} <= product.bound:
                step = self._target, ()  # a late one is joined where the result is kept
            else:
                continue
            if step not in destinations:
                destinations.add(step)
                yield step

    def _moved(self, product: _Product, to: Location, aim: tuple[str, ...]) -> _Product:
        """C := transformer[to](what has been joined, projected to the variables still needed)."""
        needed = NONE.union(self._statement.keys, *(all_names(i.expr) for i in product.remaining))
        loop, updates = self._evaluated(product)
        variables = product.bound & needed
        order = canonical(loop, variables).names
        keys = tuple(sorted(variables, key=lambda name: int(order[name][1:])))
        columns: dict[Expr, str] = {}
        values: list[tuple[str, str]] = []
        for column, expr in updates:
            name = columns.setdefault(expr, f"v{len(columns) + 1}")
            values.append((column, name))
        if len(columns) == 1:
            columns = dict.fromkeys(columns, VALUE_COLUMN)
            values = [(column, VALUE_COLUMN) for column, _ in values]
        name = self._layout.move_name(len(product.moves) + 1)
        mode = Mode.LOCAL if isinstance(product.location, Local) else Mode.DISTRIBUTED
        move = Move(name, mode, keys, loop, tuple((c, e) for e, c in columns.items()), to)
        return _Product(
            location=to,
            aim=aim,
            remaining=product.remaining,
            bound=frozenset(keys),
            moved=MapRef(name, PRESENCE, keys, buffer=True),
            values=tuple(values),
            moves=(*product.moves, move),
        )

    def _evaluated(self, product: _Product) -> tuple[Expr, Updates]:
        """The loop over what has been joined, and each column's value over it.

        C first, then the items in the order in which they were ready: `schedule` may not order
        them, because it does not see which variables a Sum hides although they are bound.
        """
        moved, carried = product.moved, dict(product.values)
        loop = [i.expr for i in product.items if i.columns is None]
        if moved is not None:
            loop.insert(0, moved)
        updates: list[tuple[str, Expr]] = []
        for column, _ in self._statement.updates:
            own = [i.expr for i in product.items if i.columns and column in i.columns]
            if moved is not None:
                own.insert(0, replace(moved, column=carried[column]))
            updates.append((column, product_of(*own)))
        return product_of(*loop), tuple(updates)

    def _finished(self, product: _Product) -> Iterator[StatementPlan]:
        """At the target's place, or moved there."""
        here = product.location == self._target
        if isinstance(product.location, Replicated) and (product.moved is not None or not here):
            return  # replicated for a group that took nothing
        if not here:
            product = self._moved(product, self._target, ())
        loop, updates = self._evaluated(product)
        final = replace(self._statement, loop=loop, updates=updates)
        modes: tuple[Mode, ...] = (Mode.DISTRIBUTED,)
        if isinstance(self._target, Local):
            modes = (Mode.LOCAL,)
        elif isinstance(self._target, Replicated):
            modes = (Mode.LOCAL, Mode.DISTRIBUTED)
        yield StatementPlan(product.moves, modes, final)


def _is_connected(product: _Product, item: StatementItem) -> bool:
    """A replicated factor waits until it shares a variable: no cross products with the batch."""
    names = outputs(item.expr)
    single = isinstance(item.expr, Binder) or not names - product.bound
    waiting = any(i.tag != REPLICATED for i in product.remaining)
    return single or bool(names & product.bound) or not waiting
