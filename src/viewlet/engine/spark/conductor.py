"""The driver's half of a distributed program: its own maps, and batch after batch of jobs.

A batch is atomic: all its jobs become one version of the partitions, and the driver's maps are put
back where any of them fails. What partitions are and where they run is the business of `Steps`:
a Spark cluster, or a few directories in a test.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from viewlet.calculus.ring import Gmr
from viewlet.engine.host.map_words import words_of_values
from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.packing import pack, unpack
from viewlet.engine.partitions.partition_program import DRIVER
from viewlet.engine.spark.chunks import (
    Columns,
    Message,
    Rows,
    TextHashes,
    batch_columns,
    plain_batch,
    spread,
    with_texts,
)
from viewlet.engine.spark.gathered_maps import Contents, by_target
from viewlet.engine.spark.node import SparkNode
from viewlet.engine.spark.opening_stage import Opening, receive, routed, routed_words
from viewlet.engine.spark.orders import Action, Order, ReadKind, Request
from viewlet.engine.spark.stages import JobPlan, Piece, StagedProgram, route_to
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.strings import Dictionary
from viewlet.errors import ProgramError
from viewlet.kernels.jit import compile_kernels
from viewlet.program.ir import Map
from viewlet.schema import Relation
from viewlet.storage.columns import Array, Arrays, MemoryArrays

_CONSTANTS = 1 << 20  # bytes of constant maps that may travel with every task

REVERTED = (-1, -1)
"""The origin of the message of a version that undid the one before it."""


class Steps(Protocol):
    """What the conductor asks of the partitions; engine.partitions.cluster.Cluster is one."""

    @property
    def partitions(self) -> int: ...

    def step(
        self,
        inputs: Any = None,
        broadcast: bytes = b"",
        *,
        batch_id: BatchId | None = None,
        commit: bool = True,
        stages: int | None = None,
    ) -> list[bytes]: ...

    def note(self, output: bytes, run_seconds: float) -> None: ...

    def gather(self, rdd: Any) -> list[bytes]: ...

    def read(self, request: bytes) -> list[bytes]: ...

    def commit(self, batch_id: BatchId | None = None) -> None: ...

    def abort(self) -> None: ...


@dataclass(frozen=True)
class _Opened:
    """The first stage of a batch that was run before its job: here, or where its rows are.

    `driver_output` is its message for the driver, None where the job itself will bring that.
    """

    driver_output: bytes | None = None
    seconds: float = 0.0


class Conductor:
    """Runs a plan's triggers over partitions and on the driver's own node."""

    def __init__(
        self,
        plan: StagedProgram,
        tables: Sequence[Relation],
        steps: Steps,
        arrays: Arrays | None = None,
        dictionary: Dictionary | None = None,
    ) -> None:
        self.plan = plan
        self.steps = steps
        self.tables = {relation.name: relation for relation in tables}
        self.arrays = arrays if arrays is not None else MemoryArrays()
        self.node = SparkNode(plan.driver, self.arrays, dictionary or Dictionary())
        self._relations = {r.name: r for r in plan.distributed.program.relations} | self.tables
        self.program = plan.distributed.program
        self._maps = {m.name: m for m in self.program.maps}
        self._constants: dict[tuple[str, ...], bytes] = {}
        self._compiled: set[int] = set()
        self._openings: dict[tuple[str, ...], Opening] = {}

    def saved_state(self) -> bytes:
        """The driver's maps and strings, as `restored` takes them up."""
        self.node.save()
        arrays = {name: self.arrays.array(name) for name in self.arrays.names()}
        return pack((arrays, self.node.dictionary.strings[1:]))

    @classmethod
    def restored(
        cls, plan: StagedProgram, tables: Sequence[Relation], steps: Steps, state: bytes
    ) -> Conductor:
        """Go on with the driver's part as it was saved."""
        arrays, strings = unpack(state)
        return cls(plan, tables, steps, MemoryArrays(arrays), Dictionary(strings))

    # Batches.

    def relation(self, name: str) -> Relation:
        """The table or stream of this name."""
        return self._relations[name]

    def columns_sent(self, name: str) -> list[int]:
        """The columns of a batch that travel: of a table all, else only what kernels read."""
        if name in self.tables:
            return list(range(len(self._relations[name].columns)))
        return sorted(self.plan.workers.used[name])

    def matters(self, name: str) -> bool:
        """Whether rows of a relation change anything at all."""
        return name in self.tables or name in self.plan.workers.used

    def compile(self, names: Sequence[str]) -> None:
        """Compile the kernels of a batch once, before tasks of several processes load them."""
        number = self.plan.trigger_for(dict.fromkeys(names))
        if number is None or number in self._compiled:
            return
        jobs = self.plan.triggers[number].jobs
        pieces = [piece for job in jobs for stage in job.stages for piece in stage.pieces]
        compile_kernels(self.plan.workers.module, [piece.kernel for piece in pieces])
        self._compiled.add(number)

    def apply(
        self,
        changes: Iterable[tuple[str, Batch]],
        *,
        batch_id: BatchId | None = None,
    ) -> None:
        """One atomic batch over any number of relations."""
        sent = [
            (name, batch_columns(self._relations[name], batch, self.columns_sent(name)))
            for name, batch in changes
            if self.matters(name) and len(batch)
        ]
        names = [name for name, _ in sent]
        number = self.opening(names)
        if number is not None:
            scattered, opened = self._open(number, [columns for _, columns in sent])
            self.run(names, scattered, None, batch_id, opened)
            return
        scattered = [Message() for _ in range(self.steps.partitions)]
        for name, columns in sent:
            parts = spread(columns, self.tables.get(name), len(scattered))
            for message, part in zip(scattered, parts, strict=True):
                if len(part.weights):
                    message.columns.append(part)
        self.run(names, scattered, None, batch_id)

    def apply_rdd(
        self, names: Sequence[str], rdd: Any, *, batch_id: BatchId | None, opened: bool = False
    ) -> None:
        """The same for an RDD that brings (partition, packed message) pairs of these relations.

        `opened`: it brings the records of their trigger's first stage instead.
        """
        nothing = [Message() for _ in range(self.steps.partitions)]
        relations = [n for n in names if self.matters(n)]
        self.run(relations, nothing, rdd, batch_id, _Opened() if opened else None)

    def opening(self, names: Sequence[str]) -> int | None:
        """The trigger of these relations, if its first stage can run where the rows are."""
        number = self.plan.trigger_for(dict.fromkeys(names))
        if number is None or any(name in self.tables for name in names):
            return None
        constant_maps = self.plan.triggers[number].opening
        small = constant_maps is not None and len(self.constants(constant_maps)) <= _CONSTANTS
        return number if small else None

    def constants(self, names: tuple[str, ...]) -> bytes:
        """The rows of maps that never change, read once."""
        if names not in self._constants:
            read = self.steps.read(Request(ReadKind.NOW, names).pack()) if names else []
            rows = [rows for part in read for rows in Message.unpack(part).rows]
            self._constants[names] = Message(rows).pack()
        return self._constants[names]

    def _open(self, number: int, parts: Sequence[Columns]) -> tuple[list[Message], _Opened]:
        """The first stage here: what it scatters, and what it says to the driver."""
        trigger = self.plan.triggers[number]
        assert trigger.opening is not None
        if trigger.opening not in self._openings:
            constants = Message.unpack(self.constants(trigger.opening))
            self._openings[trigger.opening] = Opening(self.plan.workers, constants)
        started = time.perf_counter()
        sent = self._openings[trigger.opening].run(trigger, parts, self.steps.partitions)
        driver_output = sent.get(DRIVER, Message())
        driver_output.origin = (number, 0)
        scattered = [sent.get(node, Message()) for node in range(self.steps.partitions)]
        return scattered, _Opened(driver_output.pack(), time.perf_counter() - started)

    def run(
        self,
        names: Sequence[str],
        scattered: list[Message],
        rdd: Any,
        batch_id: BatchId | None,
        opened: _Opened | None = None,
    ) -> None:
        """The jobs of a trigger, one after the other, and the driver's statements between them."""
        number = self.plan.trigger_for(dict.fromkeys(names))
        if number is None and not names and batch_id is None:
            return
        self.node.begin(logged=True)
        try:
            if number is None:
                inputs = rdd if rdd is not None else _packed(scattered)
                order = Order(Action.TABLES)
                self.steps.step(inputs, order.pack(), commit=False, stages=1)
            else:
                self._jobs(Action.BATCH, number, scattered, rdd, opened)
            self.steps.commit(batch_id)
        except BaseException:
            self.node.rollback()
            self.steps.abort()
            raise

    def undo(self) -> bytes:
        """Undo the driver's part of the last batch; returns the message to be logged for it."""
        self.node.rollback()
        return Message(origin=REVERTED).pack()

    def _jobs(
        self,
        action: Action,
        number: int,
        scattered: list[Message],
        rdd: Any,
        opened: _Opened | None = None,
    ) -> None:
        self.node.clear_buffers()
        for at, job in enumerate(self.plan.triggers[number].jobs):
            self._before(job, scattered)
            inputs: Any = _packed(scattered)
            if at == 0 and rdd is not None:
                if inputs:
                    raise ProgramError("a job cannot take scattered rows beside an RDD")
                inputs = rdd
            outputs: list[bytes] = []
            skip = 1 if at == 0 and opened is not None else 0
            if skip and opened is not None and opened.driver_output is not None:
                self.steps.note(opened.driver_output, opened.seconds)
                outputs.append(opened.driver_output)
            if len(job.stages) > skip:
                order = Order(action, number, at, begin=at == 0, skip=skip)
                count = len(job.stages) - skip
                outputs += self.steps.step(inputs, order.pack(), commit=False, stages=count)
            elif skip and rdd is not None:
                outputs += self.steps.gather(rdd)
            self._receive(map(Message.unpack, outputs))
            self._after(job)
            scattered = [Message() for _ in scattered]

    def _before(self, job: JobPlan, scattered: list[Message]) -> None:
        for operation in job.before:
            if isinstance(operation, Piece):
                self.node.run(operation)
                continue
            self.deliver(routed(self.node, operation, len(scattered)), scattered)

    def deliver(self, sent: Iterable[tuple[int, Rows]], scattered: Sequence[Message]) -> None:
        """Rows by destination: the driver's own go into its maps, others wait to be scattered."""
        for target, rows in sent:
            if target == DRIVER:
                self._receive([Message([rows])])
            else:
                scattered[target].rows.append(rows)

    def _receive(self, messages: Iterable[Message]) -> None:
        receive(self.node, messages)

    def _after(self, job: JobPlan) -> None:
        for piece in job.after:
            self.node.run(piece)

    # The beginning of a program: what is put need not be undone, and is no version yet.

    def put(self, inputs: Any) -> None:
        """Add rows to maps and tables as they are: an RDD of messages for partitions, or a mapping.

        A partition forwards the rows for the driver's maps to the driver.
        """
        self.node.begin(logged=False)
        outputs = self.steps.step(inputs, Order(Action.PUT).pack(), commit=False, stages=1)
        self._receive(map(Message.unpack, outputs))

    def load(self, relation: str, rdd: Any) -> None:
        """Run a relation's trigger over the rows that an RDD brings."""
        number = self.plan.trigger_for([relation])
        if number is not None:
            self.node.begin(logged=False)
            nothing = [Message() for _ in range(self.steps.partitions)]
            self._jobs(Action.LOAD, number, nothing, rdd)

    def scatter(self, contents: Iterable[tuple[Map, str, Gmr]]) -> None:
        """Add weighted relations to columns of maps, wherever these are."""
        dictionary, hashes = Dictionary(), TextHashes()
        scattered = [Message() for _ in range(self.steps.partitions)]
        self.node.begin(logged=False)
        for map, column, values in contents:
            layout = self.plan.layout(map.name)
            position = [c.name for c in map.columns].index(column)
            words = words_of_values(layout, position, values, dictionary)
            route = route_to(map.name, map.name, self.plan)
            sent = routed_words(words, layout, route, len(scattered), dictionary, hashes)
            self.deliver(sent, scattered)
        self.put_scattered(scattered)

    def put_scattered(self, scattered: Sequence[Message]) -> None:
        """The same as `put` for rows that the driver has."""
        if inputs := _packed(scattered):
            self.put(inputs)

    def replay(self, outputs: Sequence[bytes]) -> None:
        """Repeat the driver's part of one version from what the partitions sent it then."""
        received: dict[tuple[int, int], list[Message]] = {}
        for data in outputs:
            message = Message.unpack(data)
            if message.origin == REVERTED:
                self.node.rollback()
            elif message.origin is not None:
                received.setdefault(message.origin, []).append(message)
        if not received:
            return
        self.node.begin(logged=True)
        self.node.clear_buffers()
        for (number, at), messages in sorted(received.items()):
            job = self.plan.triggers[number].jobs[at]
            self._before(job, [Message() for _ in range(self.steps.partitions)])
            self._receive(messages)
            self._after(job)

    # Reading.

    def contents(self, maps: Iterable[str], kind: ReadKind = ReadKind.NOW) -> dict[str, Contents]:
        """Maps from wherever they are, their strings in one dictionary."""
        dictionary = Dictionary()
        rows_by_map = self._rows(maps, kind)
        return {
            name: Contents.of(self._maps[name], self.plan.layout(name), rows, dictionary)
            for name, rows in rows_by_map.items()
        }

    def changed(self, map: str) -> tuple[Contents, Contents]:
        """The records of a map that the last batch touched, before and after it."""
        dictionary = Dictionary()
        rows = self._rows([map], ReadKind.CHANGED)[map]
        layout = self.plan.layout(map)
        return (
            Contents.of(self._maps[map], layout, rows[0::2], dictionary),
            Contents.of(self._maps[map], layout, rows[1::2], dictionary),
        )

    def _rows(self, maps: Iterable[str], kind: ReadKind) -> dict[str, list[Any]]:
        names = sorted(maps)
        remote = [name for name in names if name not in self.plan.driver.homes]
        rows_by_map: dict[str, list[Any]] = {name: [] for name in names}
        if remote:
            results = self.steps.read(Request(kind, tuple(remote)).pack())
            rows_by_map |= by_target([Message.unpack(result) for result in results])
        node = self.node
        for name in names:
            if name not in remote:
                layout, strings = node.pools[name].layout, node.dictionary.strings
                parts: tuple[Array, ...] = (
                    (node.rows(name),)
                    if kind is ReadKind.NOW
                    else (node.rows_before(name),)
                    if kind is ReadKind.BEFORE
                    else node.changed(name)
                )
                rows_by_map[name] = [with_texts(name, words, layout, strings) for words in parts]
        return rows_by_map

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Records and bytes of every lasting map over all nodes."""
        pools = self.node.pools
        totals = {name: (size, pools[name].nbytes()) for name, size in self.driver_sizes().items()}
        remote = tuple(name for name in self.plan.workers.homes if name not in totals)
        totals |= self._totals(Request(ReadKind.SIZES, remote))
        return totals

    def driver_sizes(self) -> dict[str, int]:
        """Records of the maps of which the driver has all."""
        return {name: len(self.node.pools[name].live()) for name in self.plan.driver.homes}

    def table_sizes(self) -> dict[str, tuple[int, int]]:
        """Table -> records and bytes over all partitions."""
        return self._totals(Request(ReadKind.TABLE_SIZES, tuple(self.tables)))

    def _totals(self, request: Request) -> dict[str, tuple[int, int]]:
        totals = dict.fromkeys(request.names, (0, 0))
        results = self.steps.read(request.pack()) if request.names else []
        for name, parts in by_target([Message.unpack(result) for result in results]).items():
            records, size = np.sum([part.words[0] for part in parts], axis=0).tolist()
            totals[name] = (records, size)
        return totals

    def table_parts(self, names: Sequence[str]) -> list[bytes]:
        """The rows of tables as `put` takes them, partition by partition."""
        return self.steps.read(Request(ReadKind.TABLES, tuple(names)).pack())

    def table(self, name: str) -> Batch:
        """The rows of a table from all partitions."""
        parts = [Message.unpack(part).columns[0] for part in self.table_parts([name])]
        return plain_batch(parts)


def _packed(messages: Sequence[Message]) -> dict[int, bytes]:
    return {
        p: message.pack() for p, message in enumerate(messages) if message.rows or message.columns
    }
