"""The driver's half of a distributed program: its own maps, and batch after batch of jobs.

A batch is atomic: all its jobs become one version of the partitions, and the driver's maps are put
back where any of them fails. What partitions are and where they run is the business of `Steps`:
a Spark cluster, or a few directories in a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from viewlet.calculus.ring import Gmr
from viewlet.engine.host.map_words import words_of_values
from viewlet.engine.partitions.partition_program import DRIVER
from viewlet.engine.spark.chunks import (
    Columns,
    Message,
    TextHashes,
    batch_columns,
    nodes_of,
    plain_batch,
    split,
    spread,
    with_texts,
)
from viewlet.engine.spark.gathered_maps import Contents, by_target
from viewlet.engine.spark.node import SparkNode
from viewlet.engine.spark.opening_stage import Opening, receive, routed
from viewlet.engine.spark.orders import Action, Order, Request, Wanted
from viewlet.engine.spark.stages import JobPlan, Piece, StagedProgram
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.strings import Dictionary
from viewlet.errors import ProgramError
from viewlet.program.ir import Map, ValueColumn
from viewlet.schema import Relation
from viewlet.storage.columns import Array, Arrays, Layout, MemoryArrays

_CONSTANTS = 1 << 20  # bytes of constant maps that may travel with every task

REVERTED = (-1, -1)
"""The origin of the message that stands for a version that took the one before it back."""


class Steps(Protocol):
    """What the conductor asks of the partitions; engine.partitions.cluster.Cluster is one."""

    @property
    def partitions(self) -> int: ...

    def step(
        self,
        inputs: Any = None,
        broadcast: bytes = b"",
        *,
        batch_id: str | None = None,
        commit: bool = True,
        stages: int | None = None,
    ) -> list[bytes]: ...

    def note(self, output: bytes, run_seconds: float) -> None: ...

    def gather(self, given: Any) -> list[bytes]: ...

    def read(self, request: bytes) -> list[bytes]: ...

    def commit(self, batch_id: str | None = None) -> None: ...

    def abort(self) -> None: ...


@dataclass(frozen=True)
class _Opened:
    """The first stage of a batch that was run before its job: here, or where its rows are.

    `answer` is what it said to the driver, None where the job itself will bring that.
    """

    answer: bytes | None = None
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
        self._openings: dict[tuple[str, ...], Opening] = {}

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

    def apply(
        self,
        changes: Iterable[tuple[str, Batch]],
        *,
        batch_id: str | None = None,
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

    def apply_given(
        self, names: Sequence[str], given: Any, *, batch_id: str | None, opened: bool = False
    ) -> None:
        """The same for an RDD that brings (partition, packed message) pairs of these relations.

        `opened`: it brings the records of their trigger's first stage instead.
        """
        nothing = [Message() for _ in range(self.steps.partitions)]
        found = [n for n in names if self.matters(n)]
        self.run(found, nothing, given, batch_id, _Opened() if opened else None)

    def opening(self, names: Sequence[str]) -> int | None:
        """The trigger of these relations, if its first stage can run where the rows are."""
        number = self.plan.trigger_for(dict.fromkeys(names))
        if number is None or any(name in self.tables for name in names):
            return None
        wanted = self.plan.triggers[number].opening
        small = wanted is not None and len(self.constants(wanted)) <= _CONSTANTS
        return number if small else None

    def constants(self, names: tuple[str, ...]) -> bytes:
        """The rows of maps that never change, read once."""
        if names not in self._constants:
            read = self.steps.read(Request(Wanted.NOW, names).pack()) if names else []
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
        answer = sent.get(DRIVER, Message())
        answer.origin = (number, 0)
        scattered = [sent.get(node, Message()) for node in range(self.steps.partitions)]
        return scattered, _Opened(answer.pack(), time.perf_counter() - started)

    def run(
        self,
        names: Sequence[str],
        scattered: list[Message],
        given: Any,
        batch_id: str | None,
        opened: _Opened | None = None,
    ) -> None:
        """The jobs of a trigger, one after the other, and the driver's statements between them."""
        number = self.plan.trigger_for(dict.fromkeys(names))
        if number is None and not names and batch_id is None:
            return
        self.node.begin(logged=True)
        try:
            if number is None:
                inputs = given if given is not None else _packed(scattered)
                order = Order(Action.TABLES)
                self.steps.step(inputs, order.pack(), commit=False, stages=1)
            else:
                self._jobs(Action.BATCH, number, scattered, given, opened)
            self.steps.commit(batch_id)
        except BaseException:
            self.node.rollback()
            self.steps.abort()
            raise

    def undo(self) -> bytes:
        """Take the driver's part of the last batch back; what the log is to say of it."""
        self.node.rollback()
        return Message(origin=REVERTED).pack()

    def _jobs(
        self,
        action: Action,
        number: int,
        scattered: list[Message],
        given: Any,
        opened: _Opened | None = None,
    ) -> None:
        self.node.clear_buffers()
        for at, job in enumerate(self.plan.triggers[number].jobs):
            self._before(job, scattered)
            inputs: Any = _packed(scattered)
            if at == 0 and given is not None:
                if inputs:
                    raise ProgramError("a job cannot take scattered rows beside an RDD")
                inputs = given
            outputs: list[bytes] = []
            skip = 1 if at == 0 and opened is not None else 0
            if skip and opened is not None and opened.answer is not None:
                self.steps.note(opened.answer, opened.seconds)
                outputs.append(opened.answer)
            if len(job.stages) > skip:
                order = Order(action, number, at, begin=at == 0, skip=skip)
                count = len(job.stages) - skip
                outputs += self.steps.step(inputs, order.pack(), commit=False, stages=count)
            elif skip and given is not None:
                outputs += self.steps.gather(given)
            self._receive(map(Message.unpack, outputs))
            self._after(job)
            scattered = [Message() for _ in scattered]

    def _before(self, job: JobPlan, scattered: list[Message]) -> None:
        for operation in job.before:
            if isinstance(operation, Piece):
                self.node.run(operation)
                continue
            for target, rows in routed(self.node, operation, len(scattered)):
                if target == DRIVER:
                    self._receive([Message([rows])])
                else:
                    scattered[target].rows.append(rows)

    def _receive(self, messages: Iterable[Message]) -> None:
        receive(self.node, messages)

    def _after(self, job: JobPlan) -> None:
        for piece in job.after:
            self.node.run(piece)

    # The beginning of a program.

    def put(self, messages: Sequence[Message | bytes], own: Message | None = None) -> None:
        """Add rows to maps and tables as they are, for each partition and for the driver."""
        self.node.begin(logged=False)
        self._receive([own] if own is not None else [])
        packed = {
            p: message if isinstance(message, bytes) else message.pack()
            for p, message in enumerate(messages)
        }
        self.steps.step(packed, Order(Action.PUT).pack(), stages=1)

    def load(self, relation: str) -> None:
        """Run a relation's trigger over the rows that the partitions' tables have."""
        number = self.plan.trigger_for([relation])
        if number is not None:
            self.node.begin(logged=False)
            nothing = [Message() for _ in range(self.steps.partitions)]
            self._jobs(Action.LOAD, number, nothing, None)
            self.steps.commit()

    def fill(self, contents: Callable[[Map, ValueColumn], Gmr]) -> None:
        """Put every map's columns where they belong."""
        dictionary, hashes = Dictionary(), TextHashes()
        messages = [Message() for _ in range(self.steps.partitions)]
        own = Message()
        for map in self._maps.values():
            if map.buffer:
                continue
            layout = self.layout(map.name)
            words = _words_of(map, layout, contents, dictionary)
            if not len(words):
                continue
            if map.name in self.plan.driver.homes:
                own.rows.append(with_texts(map.name, words, layout, dictionary.strings))
            if map.name not in self.plan.workers.homes:
                continue
            by = self.plan.workers.homes[map.name]
            if by is None:
                rows = with_texts(map.name, words, layout, dictionary.strings)
                for message in messages:
                    message.rows.append(rows)
                continue
            places = nodes_of(words, layout, by, len(messages), hashes.of(dictionary))
            for node, part in split(words, places, len(messages)):
                messages[node].rows.append(with_texts(map.name, part, layout, dictionary.strings))
        if own.rows or any(message.rows for message in messages):
            self.put(messages, own)

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

    def layout(self, map: str) -> Layout:
        """How a map's rows of words look: the same on both sides."""
        layouts = self.plan.workers.module.frame.layouts
        return layouts[map] if map in layouts else self.plan.driver.module.frame.layouts[map]

    def contents(self, maps: Iterable[str], wanted: Wanted = Wanted.NOW) -> dict[str, Contents]:
        """Maps from wherever they are, their strings in one dictionary."""
        dictionary = Dictionary()
        found = self._rows(maps, wanted)
        return {
            name: Contents.of(self._maps[name], self.layout(name), rows, dictionary)
            for name, rows in found.items()
        }

    def changed(self, map: str) -> tuple[Contents, Contents]:
        """The records of a map that the last batch touched, before and after it."""
        dictionary = Dictionary()
        rows = self._rows([map], Wanted.CHANGED)[map]
        layout = self.layout(map)
        return (
            Contents.of(self._maps[map], layout, rows[0::2], dictionary),
            Contents.of(self._maps[map], layout, rows[1::2], dictionary),
        )

    def _rows(self, maps: Iterable[str], wanted: Wanted) -> dict[str, list[Any]]:
        names = sorted(maps)
        remote = [name for name in names if name not in self.plan.driver.homes]
        found: dict[str, list[Any]] = {name: [] for name in names}
        if remote:
            answers = self.steps.read(Request(wanted, tuple(remote)).pack())
            found |= by_target([Message.unpack(answer) for answer in answers])
        node = self.node
        for name in names:
            if name not in remote:
                layout, strings = node.pools[name].layout, node.dictionary.strings
                parts: tuple[Array, ...] = (
                    (node.rows(name),)
                    if wanted is Wanted.NOW
                    else (node.rows_before(name),)
                    if wanted is Wanted.BEFORE
                    else node.changed(name)
                )
                found[name] = [with_texts(name, words, layout, strings) for words in parts]
        return found

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Records and bytes of every lasting map over all nodes."""
        totals: dict[str, tuple[int, int]] = {}
        for name in self.plan.driver.homes:
            pool = self.node.pools[name]
            totals[name] = (len(pool.live()), pool.nbytes())
        remote = tuple(name for name in self.plan.workers.homes if name not in totals)
        totals |= self._totals(Request(Wanted.SIZES, remote))
        return totals

    def table_sizes(self) -> dict[str, tuple[int, int]]:
        """Table -> records and bytes over all partitions."""
        return self._totals(Request(Wanted.TABLE_SIZES, tuple(self.tables)))

    def _totals(self, request: Request) -> dict[str, tuple[int, int]]:
        totals = dict.fromkeys(request.names, (0, 0))
        answers = self.steps.read(request.pack()) if request.names else []
        for name, parts in by_target([Message.unpack(answer) for answer in answers]).items():
            records, size = np.sum([part.words[0] for part in parts], axis=0).tolist()
            totals[name] = (records, size)
        return totals

    def table_parts(self, names: Sequence[str]) -> list[bytes]:
        """The rows of tables as `put` takes them, partition by partition."""
        return self.steps.read(Request(Wanted.TABLES, tuple(names)).pack())

    def table(self, name: str) -> Batch:
        """The rows of a table from all partitions."""
        parts = [Message.unpack(part).columns[0] for part in self.table_parts([name])]
        return plain_batch(parts)


def _packed(messages: Sequence[Message]) -> dict[int, bytes]:
    return {
        p: message.pack() for p, message in enumerate(messages) if message.rows or message.columns
    }


def _words_of(
    map: Map,
    layout: Layout,
    contents: Callable[[Map, ValueColumn], Gmr],
    dictionary: Dictionary,
) -> Array:
    """A map's contents as rows of words, which add up to it: one for each key and column."""
    parts = [
        words_of_values(layout, position, contents(map, column), dictionary)
        for position, column in enumerate(map.columns)
        if column.definition is not None
    ]
    return np.concatenate(parts) if parts else np.zeros((0, layout.row_width), np.int64)
