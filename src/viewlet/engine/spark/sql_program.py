"""The SQL side's program for the stateful-partition service: kernels over a partition's arrays.

    broadcast           the Order: which job of which trigger a step runs
    inputs, stage 0     the partition's part of the batch, and what the driver scatters
    inputs, later       the relations that the stage before sent here
    outputs             relations by destination; partition 0 always says to the driver which job
                        it was, so that the driver's part can be repeated from the commit log

A batch that is given up is undone from the maps' own logs (`take_back`). A run that was torn is
not: it may have been killed while it was turning a tree, which no log of values repairs. The
service then rebuilds the partition from its snapshot and the change log.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.engine.durable.sealed import digest_of
from viewlet.engine.partitions.partition_program import DRIVER
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.partitions.worker import raise_problem
from viewlet.engine.spark.chunks import Columns, Message, Rows, nodes_of, split, spread, with_texts
from viewlet.engine.spark.node import SparkNode
from viewlet.engine.spark.opening_stage import Opening, batches_of, receive, run_stage
from viewlet.engine.spark.orders import Action, Order, ReadKind, Request
from viewlet.engine.spark.partition_tables import PartitionTables, StoredTexts
from viewlet.engine.spark.shipment import FORWARDED, Shipment, packed
from viewlet.engine.spark.stages import NodePlan, StagedProgram, TriggerPlan
from viewlet.engine.spark.view_frames import ViewRows, partition_chunks
from viewlet.errors import StateError, ViewletError
from viewlet.schema import Relation

_BATCH = "batch"


class _Local:
    """What this process knows of one incarnation of a state: a cache of its dictionaries."""

    def __init__(self) -> None:
        self.texts = StoredTexts("texts")
        self.table_texts = StoredTexts("table texts")
        self.node: SparkNode | None = None


_LOCALS: OrderedDict[str, _Local] = OrderedDict()
_LOCALS_LIMIT = 64
_OPENINGS: OrderedDict[tuple[str, str], Opening] = OrderedDict()
_OPENINGS_LIMIT = 8
_UNCHANGED: set[str] = set()  # incarnations whose failed run has put everything back


class SqlProgram:
    """Implements PartitionProgram, Repartitioning, Exporting and Undoing of engine.partitions."""

    def __init__(
        self, plan: StagedProgram, tables: Sequence[Relation], fingerprint: str, cache: Path
    ) -> None:
        self.fingerprint = fingerprint
        self.stages = plan.stages
        # Small enough to travel in every task's closure; opened once in each process.
        parts = (plan.workers, plan.triggers, tuple(tables))
        self._packed = zlib.compress(pickle.dumps(parts, protocol=5), 6)
        self._cache = str(cache)
        self._opened: tuple[NodePlan, tuple[TriggerPlan, ...], tuple[Relation, ...]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _plan(self) -> tuple[NodePlan, tuple[TriggerPlan, ...], tuple[Relation, ...]]:
        if self._opened is None:
            if Path(self._cache).is_dir():  # the driver's kernels, where this is the same machine
                os.environ.setdefault("VIEWLET_CACHE", self._cache)
            self._opened = pickle.loads(zlib.decompress(self._packed))
        assert self._opened is not None
        return self._opened

    # The protocol.

    def create(self, state: PartitionState) -> None:
        """The arrays of a partition's strings, maps and tables, empty."""
        state.create(_BATCH, 0, np.uint8)
        local = _Local()
        local.texts.create(state)
        local.table_texts.create(state)
        local.node = SparkNode(self._plan[0], state, local.texts.dictionary)
        self._tables(state, local).create()
        local.texts.keep(state)
        local.node.save()
        _remember(state, local)

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        """One stage of an order on one partition: what it sends, by receiving partition."""
        order = Order.unpack(broadcast)
        messages = [Message.unpack(data) for data in inputs]
        local, node = self._here(state)
        first = stage == 0 and order.begin
        changed: list[str] = []
        try:
            for message in messages:
                if message.problem is not None:
                    raise_problem(message.problem)
            if first:
                changed = self._begin(state, local, node, order, messages)
            outputs: dict[int, bytes] = {}
            if order.action is Action.PUT:
                outputs = _put(node, messages)
            elif order.action is not Action.TABLES:
                outputs = self._stage(state, local, node, order, stage, messages)
            local.texts.keep(state)
            local.table_texts.keep(state)
            node.save()
        except BaseException as problem:
            _LOCALS.pop(state.head.incarnation, None)
            logged = order.action in (Action.BATCH, Action.TABLES)
            # Where the disk is full an array may have grown and its index not: rebuild that one.
            refused = isinstance(problem, ViewletError) and not isinstance(problem, StateError)
            if first and logged and refused:
                if state.meta.get("base") == state.head.tick:  # else the batch had not begun
                    node.rollback()
                    node.save()
                    self._tables(state, local).undo(changed)
                _UNCHANGED.add(state.head.incarnation)
            raise
        return outputs

    def read(self, state: PartitionState, request: bytes) -> bytes:
        """The partition's answer to a request."""
        local, node = self._here(state)
        result = self._result(Request.unpack(request), state, local, node).pack()
        if local.texts.ahead(state):
            # A lookup added a string that a read cannot store: another process may reuse its code.
            del _LOCALS[state.head.incarnation]
        return result

    def rollback(self, state: PartitionState) -> bool:
        """True where the failed run has put everything back itself."""
        if state.head.incarnation in _UNCHANGED:
            _UNCHANGED.discard(state.head.incarnation)
            return True
        return False

    def take_back(self, state: PartitionState, tick: int) -> bool:
        """Back to the beginning of the last batch, if that was the tick."""
        if state.meta.get("base") != tick:
            return False
        local, node = self._here(state)
        node.rollback()
        node.save()
        self._tables(state, local).undo(state.meta["tables"])
        local.texts.keep(state)
        state.meta = {}
        return True

    def repartition(self, state: PartitionState, partitions: int) -> dict[int, bytes]:
        """Every row of maps and tables to where its key sends it; copies to everyone."""
        local, node = self._here(state)
        sent: dict[int, Message] = {p: Message() for p in range(partitions)}
        strings = node.dictionary.strings
        for name, by in self._plan[0].homes.items():
            words, layout = node.rows(name), node.pools[name].layout
            if by is None:
                if state.partition == 0:
                    rows = with_texts(name, words, layout, strings)
                    for message in sent.values():
                        message.rows.append(rows)
                continue
            targets = nodes_of(words, layout, by, partitions, node.hashes.of(node.dictionary))
            for target, part in split(words, targets, partitions):
                sent[target].rows.append(with_texts(name, part, layout, strings))
        tables = self._tables(state, local, reading=True)
        for relation in self._plan[2]:
            for target, columns in enumerate(
                spread(tables.columns(relation.name), relation, partitions)
            ):
                sent[target].columns.append(columns)
        return {target: message.pack() for target, message in sent.items()}

    def export(
        self, state: PartitionState, request: Shipment | ViewRows
    ) -> list[tuple[int, bytes]]:
        """This partition's part of a shipment to the partitions of another program, or of a view's
        rows, which stay where they are.
        """
        local, node = self._here(state)
        if isinstance(request, ViewRows):
            return [(state.partition, chunk) for chunk in partition_chunks(node, request)]
        tables = self._tables(state, local, reading=True)
        columns = [tables.columns(name, used) for name, used in request.tables]
        return packed(node, request, columns, state.partition, state.partitions)

    def adopt(self, state: PartitionState, chunks: list[bytes]) -> None:
        local, node = self._here(state)
        messages = [Message.unpack(chunk) for chunk in chunks]
        self._begin(state, local, node, Order(Action.PUT), messages)
        receive(node, messages)
        local.texts.keep(state)
        local.table_texts.keep(state)
        node.save()

    def open(
        self, number: int, parts: Sequence[Columns], constants: bytes, partitions: int
    ) -> dict[int, Message]:
        """The first stage of a trigger over some rows of a batch; see opening_stage.py."""
        key = (self.fingerprint, digest_of(constants))
        opening = _OPENINGS.pop(key, None) or Opening(self._plan[0], Message.unpack(constants))
        _OPENINGS[key] = opening
        while len(_OPENINGS) > _OPENINGS_LIMIT:
            _OPENINGS.popitem(last=False)
        return opening.run(self._plan[1][number], parts, partitions)

    # Inside.

    def _here(self, state: PartitionState) -> tuple[_Local, SparkNode]:
        """This process's node on the state, brought up to what other processes did to it."""
        local = _LOCALS.get(state.head.incarnation) or _Local()
        local.texts.learn(state)
        local.table_texts.learn(state)
        if local.node is None:
            local.node = SparkNode(self._plan[0], state, local.texts.dictionary)
        else:
            local.node.attach(state)
        _remember(state, local)
        return local, local.node

    def _tables(
        self, state: PartitionState, local: _Local, *, reading: bool = False
    ) -> PartitionTables:
        dictionary = local.table_texts.dictionary
        return PartitionTables(self._plan[2], state, dictionary, reading=reading)

    def _begin(
        self,
        state: PartitionState,
        local: _Local,
        node: SparkNode,
        order: Order,
        messages: Sequence[Message],
    ) -> list[str]:
        """Start a batch: tables take its rows in, or refuse it; maps begin a log for it."""
        parts = [part for message in messages for part in message.columns]
        changed = self._tables(state, local).put(parts) if parts else []
        logged = order.action in (Action.BATCH, Action.TABLES)
        node.begin(logged=logged)
        state.meta = {"base": state.head.tick, "tables": changed} if logged else {}
        return changed

    def _stage(
        self,
        state: PartitionState,
        local: _Local,
        node: SparkNode,
        order: Order,
        stage: int,
        messages: list[Message],
    ) -> dict[int, bytes]:
        trigger = self._plan[1][order.trigger]
        plan = trigger.jobs[order.job].stages[order.skip + stage]
        first = stage == 0 and order.job == 0
        if first:
            node.clear_buffers()
        parts = [part for message in messages for part in message.columns]
        if trigger.reads_batch_late:
            if first:
                data = np.frombuffer(Message(columns=parts).pack(), np.uint8)
                state.resize(_BATCH, len(data))[:] = data
            else:
                parts = Message.unpack(state.array(_BATCH).tobytes()).columns
        batches = batches_of(parts, node)
        receive(node, messages)
        outputs = run_stage(node, plan, batches, state.partitions)
        if state.partition == 0 and stage == 0 and trigger.jobs[order.job].involves_driver:
            outputs.setdefault(DRIVER, Message())
        if DRIVER in outputs:
            outputs[DRIVER].origin = (order.trigger, order.job)
        node.clear_transient()
        return {target: message.pack() for target, message in outputs.items()}

    def _result(
        self, request: Request, state: PartitionState, local: _Local, node: SparkNode
    ) -> Message:
        message = Message()
        tables = self._tables(state, local, reading=True)
        strings = node.dictionary.strings
        for name in request.names:
            if request.kind is ReadKind.TABLES:
                message.columns.append(tables.columns(name))
                continue
            if request.kind is ReadKind.TABLE_SIZES:
                message.rows.append(Rows(name, np.array([tables.size(name)], np.int64)))
                continue
            pool = node.pools[name]
            if self._plan[0].homes.get(name) is None and state.partition != 0:
                continue
            if request.kind is ReadKind.SIZES:
                size = [[len(pool.live()), pool.nbytes()]]
                message.rows.append(Rows(name, np.array(size, np.int64)))
                continue
            parts = {
                ReadKind.NOW: lambda n: (node.rows(n),),
                ReadKind.BEFORE: lambda n: (node.rows_before(n),),
                ReadKind.CHANGED: node.changed,
            }[request.kind](name)
            message.rows += [with_texts(name, words, pool.layout, strings) for words in parts]
        return message


def _put(node: SparkNode, messages: Sequence[Message]) -> dict[int, bytes]:
    """Take rows in as they are; those for the driver are sent on."""
    forwarded = Message()
    for message in messages:
        if message.origin == FORWARDED:
            forwarded.rows += message.rows
        else:
            receive(node, [message])
    return {DRIVER: forwarded.pack()} if forwarded.rows else {}


def _remember(state: PartitionState, local: _Local) -> None:
    _LOCALS[state.head.incarnation] = local
    _LOCALS.move_to_end(state.head.incarnation)
    while len(_LOCALS) > _LOCALS_LIMIT:
        _LOCALS.popitem(last=False)
