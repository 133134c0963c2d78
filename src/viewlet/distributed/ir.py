"""Distributed programs: statements with a place to run, transfers between places, and blocks.

    m[k] += loop | updates      runs on the driver (local block) or on every worker (distributed
                                block), each over its own contents
    r := repart[k](s)           moves the workers' contents of s to the workers that k hashes to
    r := repart[*](s)           ... to every worker and the driver
    r := scatter[k](s)          the same from the driver's s
    r := gather(s)              adds the workers' contents of s up on the driver

A transfer is initiated by the driver and stands in a local block. Transfers of one kind in one
block travel as one compound request. The program is in single transformer form (paper 000
section 4.3.2): what is transferred is a map, statements themselves have no transformer. Buffers,
those of the source program and those that transfers fill, live for one trigger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from viewlet.calculus.expr import Atom, Delta, Expr, MapRef, Rel, walk
from viewlet.calculus.typing import Signature
from viewlet.distributed.location import (
    Local,
    Location,
    Replicated,
    in_variables,
)
from viewlet.program.ir import Map, Program, Statement


class Mode(Enum):
    """Where a statement runs and whose contents it reads and writes."""

    LOCAL = "local"
    DISTRIBUTED = "distributed"


@dataclass(frozen=True)
class RelationBatch:
    """The batch of a relation as something that is read."""

    relation: str

    def __str__(self) -> str:
        return f"Δ{self.relation}"


Source = str | RelationBatch
"""A map, by its name, or a batch."""

MapSide = tuple[Mode, str]
"""The contents of a map on one side; a replicated map has some on each."""

Resource = tuple[Mode, Source]
"""The same of a map or a batch."""


class TransferKind(Enum):
    """From where to where a transfer goes."""

    SCATTER = "scatter"
    REPART = "repart"
    GATHER = "gather"


@dataclass(frozen=True)
class Compute:
    """A statement and where it runs."""

    mode: Mode
    statement: Statement

    @cached_property
    def writes(self) -> frozenset[MapSide]:
        """The target's copy on the side where the statement runs."""
        return frozenset(((self.mode, self.statement.target),))

    @cached_property
    def reads(self) -> frozenset[Resource]:
        """The maps and batches that the statement mentions, on the side where it runs."""
        return frozenset((self.mode, name) for name in sources_of(self.statement))


@dataclass(frozen=True)
class Transfer:
    """target := kind[to](source); `to` is over the target's key columns."""

    kind: TransferKind
    target: str
    source: str
    to: Location

    @property
    def mode(self) -> Mode:
        """Transfers are begun by the driver."""
        return Mode.LOCAL

    @cached_property
    def writes(self) -> frozenset[MapSide]:
        """The target's copies at the location that the contents go to."""
        return frozenset((mode, self.target) for mode in sites(self.to))

    @cached_property
    def reads(self) -> frozenset[Resource]:
        """The source's copies: the driver's for a scatter, else those of the workers."""
        side = Mode.LOCAL if self.kind is TransferKind.SCATTER else Mode.DISTRIBUTED
        return frozenset(((side, self.source),))


Operation = Compute | Transfer


def maps_touched(operation: Operation) -> frozenset[MapSide]:
    """What an operation reads or writes, batches left out."""
    maps = (
        (side, source) for side, source in operation.reads if not isinstance(source, RelationBatch)
    )
    return operation.writes.union(maps)


def sites(location: Location) -> tuple[Mode, ...]:
    """The sides that hold contents with this location."""
    if isinstance(location, Replicated):
        return (Mode.LOCAL, Mode.DISTRIBUTED)
    return (Mode.LOCAL,) if isinstance(location, Local) else (Mode.DISTRIBUTED,)


def sources_of(statement: Statement) -> frozenset[Source]:
    """The maps and the batch that a right-hand side looks into."""
    parts: tuple[Expr, ...] = (statement.loop, *(update for _, update in statement.updates))
    batches = (RelationBatch(n.name) for p in parts for n in walk(p) if isinstance(n, Delta))
    return frozenset[Source]((*statement.reads, *batches))


@dataclass(frozen=True)
class StatementBlock:
    """Operations that run at once on their side, in order."""

    mode: Mode
    operations: tuple[Operation, ...]

    @cached_property
    def writes(self) -> frozenset[MapSide]:
        """What any of its operations writes."""
        return frozenset[MapSide]().union(*(o.writes for o in self.operations))

    @cached_property
    def reads(self) -> frozenset[Resource]:
        """What any of its operations reads."""
        return frozenset[Resource]().union(*(o.reads for o in self.operations))


@dataclass(frozen=True)
class DistributedTrigger:
    """What one batch does; several relations where one batch changes all of them."""

    relations: tuple[str, ...]
    blocks: tuple[StatementBlock, ...]

    @property
    def name(self) -> str:
        """Its relations, as the text shows them: r, s."""
        return ", ".join(self.relations)


@dataclass(frozen=True)
class DistributedProgram:
    """`program` gives relations, maps and views; `buffers` are those that transfers need.

    `locations` holds every map and buffer; `batch` says where ΔR arrives.
    """

    program: Program
    locations: Mapping[str, Location]
    buffers: tuple[Map, ...]
    triggers: tuple[DistributedTrigger, ...]
    batch: Location
    verdict: str = field(default="", compare=False)
    """Why the maps are where they are, in words, if placements were compared."""

    @property
    def maps(self) -> tuple[Map, ...]:
        """The program's maps and then the buffers that distribution added."""
        return (*self.program.maps, *self.buffers)

    def map(self, name: str) -> Map:
        """The map or buffer of this name."""
        return next(m for m in self.maps if m.name == name)

    def trigger(self, relation: str) -> DistributedTrigger | None:
        """The trigger of batches to this relation alone; None if nothing depends on it."""
        return next((t for t in self.triggers if t.relations == (relation,)), None)

    def signatures(self) -> dict[str, Signature]:
        """Map or relation -> the types of its columns, buffers included."""
        return self.program.with_maps(self.maps).signatures()


def atom_location(
    atom: Atom, maps: Mapping[str, Map], locations: Mapping[str, Location], batch: Location
) -> Location:
    """An atom's location over its own variables."""
    if isinstance(atom, Rel | Delta):
        return batch
    assert isinstance(atom, MapRef)
    return in_variables(locations[atom.name], maps[atom.name].key_names, atom.keys)


def target_location(statement: Statement, map: Map, location: Location) -> Location:
    """The target's location over the statement's key variables."""
    return in_variables(location, map.key_names, statement.keys)
