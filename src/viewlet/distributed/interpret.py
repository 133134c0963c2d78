"""What a distributed programme does: a driver and some workers in one process.

Every site holds its own contents and evaluates statements with the calculus' own meaning; only
transfers see more than one site. The contents of all sites together must be those of
`program.interpret.Interpreter` after every batch, for any number of nodes and any spread of the
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle

from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import PRESENCE, Delta, MapRef, Rel
from viewlet.calculus.query import COUNT, ViewKind, make_rows
from viewlet.calculus.ring import Gmr, Key, Weight
from viewlet.distributed.ir import (
    Compute,
    DistributedProgram,
    DistributedTrigger,
    Kind,
    Mode,
    Operation,
    Transfer,
    sites,
)
from viewlet.distributed.location import Dist, Local, Location, Replicated, node_of
from viewlet.errors import ProgramError
from viewlet.program.interpret import Store
from viewlet.program.ir import Map, Statement, View
from viewlet.schema import Scalar


class Site:
    """One node: its part of every map and of the batch. The Database that evaluate() asks."""

    def __init__(self, maps: Mapping[str, Map]) -> None:
        self._maps = maps
        self.store: Store = {(m.name, c.name): Gmr() for m in maps.values() for c in m.columns}
        self.deltas: dict[str, Gmr] = {}

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if isinstance(atom, MapRef):
            if atom.column == PRESENCE:
                columns = self._maps[atom.name].columns
                parts = [self.store[atom.name, column.name] for column in columns]
                return Gmr((key, 1) for key in {key for part in parts for key, _ in part.items()})
            return self.store[atom.name, atom.column]
        if isinstance(atom, Delta):
            return self.deltas.get(atom.name, Gmr())
        raise ProgramError(f"a trigger reads base relation {atom.name}")

    def clear_buffers(self) -> None:
        for (name, _), contents in self.store.items():
            if self._maps[name].buffer:
                contents.clear()

    def run(self, statement: Statement) -> None:
        changes = [
            (column, evaluate(expr, statement.keys, self))
            for column, expr in statement.expressions()
        ]
        for column, change in changes:
            target = self.store[statement.target, column]
            if statement.op == ":=":
                target.clear()
            for key, weight in change.items():
                target.add(key, weight)


class SimulatedCluster:
    """A driver and `nodes` workers that run one distributed programme."""

    def __init__(self, program: DistributedProgram, nodes: int) -> None:
        self.program = program
        self._maps = {m.name: m for m in program.maps}
        self.driver = Site(self._maps)
        self.workers = [Site(self._maps) for _ in range(nodes)]

    # Contents in and out.

    def load(self, database: Mapping[str, Gmr]) -> None:
        """Fill every lasting map from its definition over the given base relations."""
        source = _Relations(database)
        for map in self.program.program.maps:
            for column in map.columns:
                if column.definition is not None:
                    found = evaluate(column.definition, map.key_names, source)
                    self.put(map.name, column.name, found.items())

    def put(self, map: str, column: str, items: Iterable[tuple[Key, Weight]]) -> None:
        """Add to a column, where the keys belong."""
        self._place(self._maps[map], column, self.program.locations[map], items)

    def column(self, map: str, column: str) -> Gmr:
        """A column's contents over all sites; copies of a replicated map must agree."""
        place = self.program.locations[map]
        if isinstance(place, Dist):
            total = Gmr()
            for worker in self.workers:
                for key, weight in worker.store[map, column].items():
                    total.add(key, weight)
            return total
        held = self.driver.store[map, column]
        if isinstance(place, Replicated) and any(
            worker.store[map, column] != held for worker in self.workers
        ):
            raise ProgramError(f"copies of {map} differ")
        return held

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        """The Database that a view's lets ask, between batches."""
        assert isinstance(atom, MapRef)
        return self.column(atom.name, atom.column)

    def rows(self, view: View) -> list[tuple[tuple[Scalar, ...], int]]:
        """The view's rows with multiplicities, before ORDER BY and LIMIT."""
        return list(make_rows(view.query, self._records(view), self))

    def _records(self, view: View) -> Iterator[tuple[Key, Mapping[str, Weight]]]:
        sources = {name: self.column(map, column) for name, map, column in view.sources}
        keys: Iterable[Key] = [()]
        if view.query.kind is not ViewKind.TOTAL:
            keys = [key for key, _ in sources[COUNT].items()]
        for key in keys:
            yield key, {name: contents[key] for name, contents in sources.items()}

    # Batches.

    def apply(self, relation: str, delta: Gmr, spread: Iterable[int] | None = None) -> None:
        """Run the relation's trigger for one batch."""
        trigger = self.program.trigger(relation)
        if trigger is not None:
            self.apply_all(trigger, {relation: delta}, spread)

    def apply_all(
        self,
        trigger: DistributedTrigger,
        deltas: Mapping[str, Gmr],
        spread: Iterable[int] | None = None,
    ) -> None:
        """Run one trigger; `spread` says which worker each tuple of the batch arrives at."""
        for site in (self.driver, *self.workers):
            site.clear_buffers()
            site.deltas = {relation: Gmr() for relation in deltas}
        turns = iter(spread) if spread is not None else cycle(range(len(self.workers)))
        for relation, delta in deltas.items():
            for key, weight in delta.items():
                local = isinstance(self.program.batch, Local)
                site = self.driver if local else self.workers[next(turns) % len(self.workers)]
                site.deltas[relation].add(key, weight)
        for block in trigger.blocks:
            for operation in block.operations:
                self._run(operation)

    def _run(self, operation: Operation) -> None:
        if isinstance(operation, Compute):
            here = [self.driver] if operation.mode is Mode.LOCAL else self.workers
            for site in here:
                site.run(operation.statement)
        else:
            self._transfer(operation)

    def _transfer(self, transfer: Transfer) -> None:
        target = self._maps[transfer.target]
        source = self._maps[transfer.source]
        senders = [self.driver] if transfer.kind is Kind.SCATTER else self.workers
        for old, new in zip(source.columns, target.columns, strict=True):
            for sender in senders:
                sent = list(sender.store[source.name, old.name].items())
                self._place(target, new.name, transfer.to, sent)

    def _place(
        self, map: Map, column: str, to: Location, items: Iterable[tuple[Key, Weight]]
    ) -> None:
        """Add the items to the map's column where their keys belong."""
        positions = [map.key_names.index(c) for c in to.columns] if isinstance(to, Dist) else []
        for key, weight in items:
            if isinstance(to, Dist):
                node = node_of((key[p] for p in positions), len(self.workers))
                here = [self.workers[node]]
            else:
                here = [self.driver] if Mode.LOCAL in sites(to) else []
                here += self.workers if Mode.DISTRIBUTED in sites(to) else []
            for site in here:
                site.store[map.name, column].add(key, weight)


class _Relations:
    def __init__(self, contents: Mapping[str, Gmr]) -> None:
        self._contents = contents

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        return self._contents.get(atom.name, Gmr())
