"""The verifier of distributed programs: what a well-formed one is (paper 000 section 4.2).

every map and buffer has a place, partitioned by columns of its own key,
a local statement reads what the driver holds, a distributed one what the workers hold,
workers evaluate only expressions whose partial results add up, and write them where they belong,
a replicated map is written on both sides by the same statements,
transfers go from where their source is to where their target is said to be,
buffers are filled before they are read.
"""

from __future__ import annotations

from viewlet.calculus.expr import Atom, Delta, MapRef, walk
from viewlet.calculus.scope import check as check_scope
from viewlet.calculus.scope import outputs
from viewlet.distributed.ir import (
    Compute,
    DistributedProgram,
    DistributedTrigger,
    Mode,
    Operation,
    RelationBatch,
    Resource,
    StatementBlock,
    Transfer,
    TransferKind,
    atom_location,
    sites,
    target_location,
)
from viewlet.distributed.location import (
    Dist,
    Local,
    Location,
    Random,
    Replicated,
    tag_of,
)
from viewlet.distributed.text import operation_text
from viewlet.errors import ProgramError
from viewlet.program.ir import Map, Statement


def check(program: DistributedProgram) -> DistributedProgram:
    """The program itself, or ProgramError with the operation at fault."""
    for map in program.maps:
        location = program.locations.get(map.name)
        if location is None:
            raise ProgramError(f"{map.name} has no place")
        if isinstance(location, Dist) and not {*location.columns} <= {*map.key_names}:
            raise ProgramError(f"{map.name} is partitioned by columns that it does not have")
        if isinstance(location, Random) and not map.buffer:
            raise ProgramError(f"{map.name} lasts and cannot be spread at random")
    if not isinstance(program.batch, Local | Random):
        raise ProgramError("a batch arrives on the driver (local) or on the workers (random)")
    checker = _Checker(program)
    for trigger in program.triggers:
        checker.trigger(trigger)
    return program


class _Checker:
    def __init__(self, program: DistributedProgram) -> None:
        self._program = program
        self._maps = {m.name: m for m in program.maps}
        self._locations = program.locations
        self._batch = sites(program.batch)

    def trigger(self, trigger: DistributedTrigger) -> None:
        filled: set[Resource] = {
            (mode, RelationBatch(r)) for r in trigger.relations for mode in self._batch
        }
        twins: dict[Mode, list[Statement]] = {mode: [] for mode in Mode}
        for block in trigger.blocks:
            for operation in block.operations:
                try:
                    self._operation(operation, block, filled)
                except ProgramError as error:
                    raise ProgramError(
                        f"{error.message}\nin the trigger on {trigger.name}:\n"
                        f"{operation_text(operation)}"
                    ) from None
                filled |= operation.writes
                if isinstance(operation, Compute) and isinstance(
                    self._locations[operation.statement.target], Replicated
                ):
                    twins[operation.mode].append(operation.statement)
        if sorted(map(repr, twins[Mode.LOCAL])) != sorted(map(repr, twins[Mode.DISTRIBUTED])):
            raise ProgramError(
                f"copies of a replicated map are updated differently in the trigger on "
                f"{trigger.name}"
            )

    def _operation(
        self, operation: Operation, block: StatementBlock, filled: set[Resource]
    ) -> None:
        if operation.mode is not block.mode:
            raise ProgramError(f"{operation.mode.value} operation in a {block.mode.value} block")
        if isinstance(operation, Transfer):
            self._transfer(operation)
        else:
            self._compute(operation)
        for side, source in operation.reads - filled:
            if isinstance(source, RelationBatch) or source not in self._maps:
                raise ProgramError(f"{source} is not on the {side.value} side")
            if self._maps[source].buffer:
                raise ProgramError(f"buffer {source} is read before it is filled")

    def _map(self, name: str) -> Map:
        if name not in self._maps:
            raise ProgramError(f"unknown map {name}")
        return self._maps[name]

    def _transfer(self, transfer: Transfer) -> None:
        source, target = self._map(transfer.source), self._map(transfer.target)
        source_sites = sites(self._locations[source.name])
        side = Mode.LOCAL if transfer.kind is TransferKind.SCATTER else Mode.DISTRIBUTED
        if side not in source_sites or isinstance(self._locations[source.name], Replicated):
            raise ProgramError(f"{transfer.kind.value} of {source.name}, which is not there")
        if (transfer.kind is TransferKind.GATHER) != isinstance(transfer.to, Local):
            raise ProgramError("gather, and only gather, goes to the driver alone")
        if self._locations[target.name] != transfer.to:
            raise ProgramError(f"{target.name} is placed {self._locations[target.name]}")
        if not target.buffer:
            raise ProgramError("a transfer fills a buffer")
        if len(source.keys) != len(target.keys) or len(source.columns) != len(target.columns):
            raise ProgramError(f"{source.name} and {target.name} differ in their columns")

    def _compute(self, operation: Compute) -> None:
        statement = operation.statement
        target = self._map(statement.target)
        location = self._locations[target.name]
        if operation.mode not in sites(location):
            raise ProgramError(f"{target.name} is not on the {operation.mode.value} side")
        if len(statement.keys) != len(target.keys):
            raise ProgramError(f"{target.name} has {len(target.keys)} keys")
        for column, expr in statement.expressions():
            if column not in {c.name for c in target.columns}:
                raise ProgramError(f"{target.name} has no column {column}")
            check_scope(expr)
            if not {*statement.keys} <= outputs(expr):
                raise ProgramError("a key of the target is not bound")
            for atom in walk(expr):
                if isinstance(atom, MapRef):
                    self._reference(atom)
                if isinstance(atom, MapRef | Delta):
                    self._readable(atom, operation.mode)
            if operation.mode is Mode.DISTRIBUTED:
                self._lands(
                    tag_of(expr, self._location), target_location(statement, target, location)
                )

    def _reference(self, atom: MapRef) -> None:
        map = self._map(atom.name)
        if len(map.keys) != len(atom.keys):
            raise ProgramError(f"{atom.name} has {len(map.keys)} keys")
        if map.buffer != atom.buffer:
            raise ProgramError(f"{atom.name} is {'a' if map.buffer else 'no'} buffer")

    def _location(self, atom: Atom) -> Location:
        return atom_location(atom, self._maps, self._locations, self._program.batch)

    def _readable(self, atom: MapRef | Delta, mode: Mode) -> None:
        atom_sites = self._batch if isinstance(atom, Delta) else sites(self._locations[atom.name])
        if mode not in atom_sites:
            raise ProgramError(f"{atom.name} is not on the {mode.value} side")

    def _lands(self, tag: object, location: Location) -> None:
        """Where the workers' results are must be where the target keeps them."""
        if isinstance(location, Random) and isinstance(tag, Dist | Random):
            return
        if tag != location:
            raise ProgramError(f"the result is {tag}, the target {location}")
