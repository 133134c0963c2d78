"""What a distributed program does: a driver and some workers in one process.

Every node has contents of its own and evaluates statements with the calculus' own meaning; only
transfers see more than one node. The contents of all nodes together must be those of
`program.interpret.Interpreter` after every batch, for any number of nodes and any spread of the
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle

from viewlet.calculus.database import Atoms
from viewlet.calculus.ring import Gmr, Key, Weight
from viewlet.distributed.ir import (
    Compute,
    DistributedProgram,
    DistributedTrigger,
    Mode,
    Operation,
    Transfer,
    TransferKind,
    sites,
)
from viewlet.distributed.location import Dist, Local, Location, Replicated, node_of
from viewlet.errors import ProgramError
from viewlet.program.interpret import MapStore, defined_contents, relations_of, view_rows
from viewlet.program.ir import Map, View
from viewlet.schema import Scalar


class SimulatedCluster:
    """A driver and `nodes` workers that run one distributed program."""

    def __init__(self, program: DistributedProgram, nodes: int) -> None:
        self.program = program
        self._maps = {m.name: m for m in program.maps}
        self.driver = MapStore(program.maps)
        self.workers = [MapStore(program.maps) for _ in range(nodes)]

    # Contents in and out.

    def load(self, database: Mapping[str, Gmr]) -> None:
        """Fill every lasting map from its definition over the given base relations."""
        source = relations_of(database)
        for map, column, contents in defined_contents(self.program.program, source):
            self.put(map.name, column, contents.items())

    def put(self, map: str, column: str, items: Iterable[tuple[Key, Weight]]) -> None:
        """Add to a column, where the keys belong."""
        self._add_to(self._maps[map], column, self.program.locations[map], items)

    def column(self, map: str, column: str) -> Gmr:
        """A column's contents over all sites; copies of a replicated map must agree."""
        location = self.program.locations[map]
        if isinstance(location, Dist):
            total = Gmr()
            for worker in self.workers:
                for key, weight in worker.store[map, column].items():
                    total.add(key, weight)
            return total
        contents = self.driver.store[map, column]
        if isinstance(location, Replicated) and any(
            worker.store[map, column] != contents for worker in self.workers
        ):
            raise ProgramError(f"copies of {map} differ")
        return contents

    def rows(self, view: View) -> list[tuple[tuple[Scalar, ...], int]]:
        """The view's rows with multiplicities, between batches, before ORDER BY and LIMIT."""
        atoms = Atoms(maps=self.column, columns=self.driver.columns)
        return view_rows(view, self.column, atoms)

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
        for node in (self.driver, *self.workers):
            node.clear_buffers()
            node.deltas = {relation: Gmr() for relation in deltas}
        turns = iter(spread) if spread is not None else cycle(range(len(self.workers)))
        for relation, delta in deltas.items():
            for key, weight in delta.items():
                local = isinstance(self.program.batch, Local)
                node = self.driver if local else self.workers[next(turns) % len(self.workers)]
                node.deltas[relation].add(key, weight)
        for block in trigger.blocks:
            for operation in block.operations:
                self._run(operation)

    def _run(self, operation: Operation) -> None:
        if isinstance(operation, Compute):
            here = [self.driver] if operation.mode is Mode.LOCAL else self.workers
            for node in here:
                node.run(operation.statement)
        else:
            self._transfer(operation)

    def _transfer(self, transfer: Transfer) -> None:
        target = self._maps[transfer.target]
        source = self._maps[transfer.source]
        senders = [self.driver] if transfer.kind is TransferKind.SCATTER else self.workers
        for old, new in zip(source.columns, target.columns, strict=True):
            for sender in senders:
                sent = list(sender.store[source.name, old.name].items())
                self._add_to(target, new.name, transfer.to, sent)

    def _add_to(
        self, map: Map, column: str, to: Location, items: Iterable[tuple[Key, Weight]]
    ) -> None:
        """Add the items to the map's column where their keys belong."""
        positions = [map.key_names.index(c) for c in to.columns] if isinstance(to, Dist) else []
        for key, weight in items:
            if isinstance(to, Dist):
                number = node_of((key[p] for p in positions), len(self.workers))
                here = [self.workers[number]]
            else:
                here = [self.driver] if Mode.LOCAL in sites(to) else []
                here += self.workers if Mode.DISTRIBUTED in sites(to) else []
            for node in here:
                node.store[map.name, column].add(key, weight)
