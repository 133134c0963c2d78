"""What a batch costs in time under a placement: coordination, bytes, work on the driver.

    stage       a wave of tasks that waits for the one before; the first is free where it reads no
                state (engine/spark/opening_stage.py)
    job         one more start, and the driver's statements between two
    bytes       rows of a transfer times their width, once for each copy
    work        rows that a statement reads: the driver does all of them, a worker its share

Rows are estimated from the batch, the records of the maps that it is joined with and the values of
the columns that it is added up by (column_classes.py). The rates are those that were measured on
two cores (docs/benchmarks.md); what is compared are placements, so that their ratios matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from viewlet.calculus.expr import Delta, Expr, MapRef, Nested, children
from viewlet.distributed.column_classes import ColumnClasses
from viewlet.distributed.cost import count, stages_beside_rows
from viewlet.distributed.ir import (
    Compute,
    DistributedProgram,
    DistributedTrigger,
    Mode,
    Transfer,
    sites,
)
from viewlet.distributed.location import Dist, Location, Replicated
from viewlet.distributed.price import Price
from viewlet.program.ir import Map, Program, Statement

NODES = 8
"""Of the cluster that is planned for; more nodes make copies dearer and shares smaller."""
BATCH_ROWS = 100_000
FAN_OUT = 10
"""A batch's join has at most so many rows for each of it: keys that repeat more are rare."""
STAGE_MS = 45.0
JOB_MS = 30.0
BYTE_MS = 8e-6
ROW_MS = 5e-4
RECORD_MS = 2e-6
"""For each record that is kept, on each node that keeps it: between equal placements fewer win."""
WORD = 8


@dataclass
class Traffic:
    """Rows and bytes of a program's statements."""

    program: Program
    columns: ColumnClasses
    _records: dict[str, int] = field(default_factory=dict)
    _values: dict[tuple[str, str], int] = field(default_factory=dict)

    def records(self, map: Map) -> int:
        """About how many records a map has."""
        if map.name not in self._records:
            self._records[map.name] = self.columns.records(map)
        return self._records[map.name]

    def batch_rows(self, relation: str) -> int:
        """Rows of a batch: a table changes in proportion to its size, the largest by a full one."""
        rows = {t.relation: self.columns.rows(t.relation) for t in self.program.triggers}
        share = self.columns.rows(relation) / max(rows.values(), default=1)
        return max(round(BATCH_ROWS * share), 100)

    def _values_of(self, map: Map, key: str) -> int:
        if (map.name, key) not in self._values:
            self._values[map.name, key] = max(self.columns.values(map, key), 1)
        return self._values[map.name, key]

    def rows(
        self,
        loop: Expr,
        keys: Iterable[str] | None,
        maps: Mapping[str, Map],
        buffers: Mapping[str, float],
    ) -> float:
        """Rows of a loop, added up by `keys` where there are some.

        `buffers` are the rows of what is there for one batch only.
        """
        rows, bound = 1.0, set[str]()
        values: dict[str, float] = {}
        atoms = list(_joined_atoms(loop))
        while atoms:
            atom = max(atoms, key=lambda a: _binds_first(a, bound, buffers))
            atoms.remove(atom)
            variables = atom.variables if isinstance(atom, Delta) else atom.keys
            domains = [float(domain) for domain in self._domains(atom, maps)]
            if isinstance(atom, Delta):
                size = float(self.batch_rows(atom.name))
            else:
                size = self._size(atom.name, maps, buffers)
            matched = 1.0
            for variable, domain in zip(variables, domains, strict=True):
                values[variable] = min(domain, values.get(variable, domain))
                matched *= domain if variable in bound else 1.0
            most = max(rows, FAN_OUT * BATCH_ROWS)
            rows = min(rows * max(size / matched, 1.0), most) if bound else size
            bound |= {*variables}
        if keys is None:
            return rows
        groups = 1.0
        for key in keys:
            groups *= values.get(key, rows)
        return min(rows, groups)

    def _size(self, name: str, maps: Mapping[str, Map], buffers: Mapping[str, float]) -> float:
        if maps[name].buffer:
            return buffers.get(name, 0.0)  # of another trigger: empty in this one
        return float(self.records(maps[name]))

    def _domains(self, atom: Delta | MapRef, maps: Mapping[str, Map]) -> list[int]:
        if isinstance(atom, Delta):
            relation = self.program.relation(atom.name)
            return [self.columns.column_values(atom.name, name) for name in relation.names]
        map = maps[atom.name]
        if map.buffer:
            return [BATCH_ROWS] * len(map.keys)
        return [self._values_of(map, key) for key in map.key_names]

    def transfer_ms(self, rows: float, width: int, to: Location) -> tuple[float, float]:
        """Time and bytes of moving some rows."""
        size = rows * width * WORD * (NODES + 1 if isinstance(to, Replicated) else 1)
        return size * BYTE_MS, size

    def work_ms(self, rows: float, modes: Iterable[Mode], target: Location | None) -> float:
        """Time of a statement over some rows; where all nodes do it, it is done once for each."""
        if isinstance(target, Replicated):
            return rows * ROW_MS
        return sum(rows * ROW_MS / (1 if mode is Mode.LOCAL else NODES) for mode in modes)

    def memory_ms(self, map: Map, location: Location) -> float:
        """The weight of what is kept: for a copy on each node as often."""
        copies = NODES + 1 if isinstance(location, Replicated) else 1
        driver = 0 if isinstance(location, Dist) else NODES  # a driver has no other to share with
        return self.records(map) * RECORD_MS * (copies + driver)


def _joined_atoms(expr: Expr) -> Iterator[Delta | MapRef]:
    """The atoms whose rows are multiplied; those of nested values are looked up."""
    if isinstance(expr, Delta | MapRef):
        yield expr
    elif not isinstance(expr, Nested):
        for part in children(expr):
            yield from _joined_atoms(part)


def _binds_first(
    atom: Delta | MapRef, bound: set[str], buffers: Mapping[str, float]
) -> tuple[bool, bool, float]:
    """The batch first, then what is tied most to what is bound."""
    if isinstance(atom, Delta):
        return True, True, 1.0
    tied = sum(key in bound for key in atom.keys) / max(len(atom.keys), 1)
    return False, atom.name in buffers, tied


def width_of(keys: Iterable[object], columns: Iterable[object]) -> int:
    """Words of a row: its keys and values."""
    return len(list(keys)) + len(list(columns))


def price_of(program: DistributedProgram, traffic: Traffic) -> Price:
    """What an average batch costs: the mean over the triggers, and what is kept."""
    ms = moved = 0.0
    stages = jobs = 0
    for trigger in program.triggers:
        own_stages = stages_beside_rows(program, trigger)
        own_jobs = count(trigger).jobs
        own_ms, own_moved = _data_ms(program, trigger, traffic)
        ms += STAGE_MS * own_stages + JOB_MS * max(own_jobs - 1, 0) + own_ms
        moved += own_moved
        stages += own_stages
        jobs += own_jobs
    number = max(len(program.triggers), 1)
    memory = sum(
        traffic.memory_ms(map, program.locations[map.name])
        for map in program.program.maps
        if not map.buffer
    )
    return Price(ms / number + memory, stages, jobs, moved / number)


def _data_ms(
    program: DistributedProgram, trigger: DistributedTrigger, traffic: Traffic
) -> tuple[float, float]:
    maps = {m.name: m for m in program.maps}
    buffers: dict[str, float] = {}
    ms = moved = 0.0
    for operation in (o for block in trigger.blocks for o in block.operations):
        if isinstance(operation, Transfer):
            source = maps[operation.source]
            rows = buffers.get(source.name)
            if rows is None:
                rows = float(traffic.records(source)) if not source.buffer else BATCH_ROWS
            buffers[operation.target] = rows
            width = width_of(source.keys, source.columns)
            own_ms, size = traffic.transfer_ms(rows, width, operation.to)
            ms, moved = ms + own_ms, moved + size
        else:
            ms += _compute_ms(program, operation, maps, buffers, traffic)
    return ms, moved


def _compute_ms(
    program: DistributedProgram,
    operation: Compute,
    maps: Mapping[str, Map],
    buffers: dict[str, float],
    traffic: Traffic,
) -> float:
    statement = operation.statement
    known = {n: buffers.get(n, BATCH_ROWS) for n in statement.reads if maps[n].buffer}
    rows = statement_rows(statement, maps, known, traffic)
    if maps[statement.target].buffer:
        added = traffic.rows(statement.loop, statement.keys, maps, known)
        buffers[statement.target] = buffers.get(statement.target, 0.0) + added
    target = program.locations[statement.target]
    everywhere = target if len(sites(target)) > 1 else None
    return traffic.work_ms(rows, (operation.mode,), everywhere)


def statement_rows(
    statement: Statement,
    maps: Mapping[str, Map],
    buffers: Mapping[str, float],
    traffic: Traffic,
) -> float:
    """The rows of a statement's loop."""
    return traffic.rows(statement.loop, None, maps, buffers)
