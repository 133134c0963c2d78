"""The SQL side's programme for the stateful-partition service: kernels over a partition's arrays.

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

from viewlet.errors import StateError, ViewletError
from viewlet.runtime.checkpoint import digest_of
from viewlet.runtime.chunks import Columns, Message, Rows, nodes_of, split, spread, with_texts
from viewlet.runtime.keeping import KeptTables, KeptTexts
from viewlet.runtime.opening import Opening, batches_of, receive, run_stage
from viewlet.runtime.orders import Action, Order, Request, Wanted
from viewlet.runtime.program import DRIVER
from viewlet.runtime.site import Site
from viewlet.runtime.stages import Plan, SitePlan, TriggerPlan
from viewlet.runtime.state import PartitionState
from viewlet.runtime.worker import raise_problem
from viewlet.schema import Relation

_BATCH = "batch"


class _Local:
    """What this process knows of one incarnation of a state: a cache of its dictionaries."""

    def __init__(self) -> None:
        self.texts = KeptTexts("texts")
        self.table_texts = KeptTexts("table texts")
        self.site: Site | None = None


_LOCALS: OrderedDict[str, _Local] = OrderedDict()
_LOCALS_LIMIT = 64
_OPENINGS: OrderedDict[tuple[str, str], Opening] = OrderedDict()
_OPENINGS_LIMIT = 8
_UNCHANGED: set[str] = set()  # incarnations whose failed run has put everything back


class SqlProgram:
    """Implements runtime.program.PartitionProgram, Repartitioning and Undoing."""

    def __init__(
        self, plan: Plan, tables: Sequence[Relation], fingerprint: str, cache: Path
    ) -> None:
        self.fingerprint = fingerprint
        self.stages = plan.stages
        # Small enough to travel in every task's closure; opened once in each process.
        parts = (plan.workers, plan.triggers, tuple(tables))
        self._packed = zlib.compress(pickle.dumps(parts, protocol=5), 6)
        self._cache = str(cache)
        self._opened: tuple[SitePlan, tuple[TriggerPlan, ...], tuple[Relation, ...]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _plan(self) -> tuple[SitePlan, tuple[TriggerPlan, ...], tuple[Relation, ...]]:
        if self._opened is None:
            if Path(self._cache).is_dir():  # the driver's kernels, where this is the same machine
                os.environ.setdefault("VIEWLET_CACHE", self._cache)
            self._opened = pickle.loads(zlib.decompress(self._packed))
        assert self._opened is not None
        return self._opened

    # The protocol.

    def create(self, state: PartitionState) -> None:
        state.create(_BATCH, 0, np.uint8)
        local = _Local()
        local.texts.create(state)
        local.table_texts.create(state)
        local.site = Site(self._plan[0], state, local.texts.dictionary)
        self._tables(state, local).create()
        local.texts.keep(state)
        local.site.save()
        _remember(state, local)

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        order = Order.unpack(broadcast)
        messages = [Message.unpack(data) for data in inputs]
        local, site = self._here(state)
        first = stage == 0 and order.begin
        changed: list[str] = []
        try:
            for message in messages:
                if message.problem is not None:
                    raise_problem(message.problem)
            if first:
                changed = self._begin(state, local, site, order, messages)
            outputs: dict[int, bytes] = {}
            if order.action is Action.PUT:
                receive(site, messages)
            elif order.action is not Action.TABLES:
                outputs = self._stage(state, local, site, order, stage, messages)
            local.texts.keep(state)
            local.table_texts.keep(state)
            site.save()
        except BaseException as problem:
            _LOCALS.pop(state.head.incarnation, None)
            logged = order.action in (Action.BATCH, Action.TABLES)
            # Where the disk is full an array may have grown and its index not: rebuild that one.
            refused = isinstance(problem, ViewletError) and not isinstance(problem, StateError)
            if first and logged and refused:
                if state.meta.get("base") == state.head.tick:  # else the batch had not begun
                    site.rollback()
                    site.save()
                    self._tables(state, local).undo(changed)
                _UNCHANGED.add(state.head.incarnation)
            raise
        return outputs

    def read(self, state: PartitionState, request: bytes) -> bytes:
        local, site = self._here(state)
        answer = self._answer(Request.unpack(request), state, local, site).pack()
        if local.texts.ahead(state):
            # A lookup made a string that a read cannot keep: others would give its code away.
            del _LOCALS[state.head.incarnation]
        return answer

    def rollback(self, state: PartitionState) -> bool:
        """Only where the run itself has put everything back."""
        if state.head.incarnation in _UNCHANGED:
            _UNCHANGED.discard(state.head.incarnation)
            return True
        return False

    def take_back(self, state: PartitionState, tick: int) -> bool:
        """Back to the beginning of the last batch, if that was the tick."""
        if state.meta.get("base") != tick:
            return False
        local, site = self._here(state)
        site.rollback()
        site.save()
        self._tables(state, local).undo(state.meta["tables"])
        local.texts.keep(state)
        state.meta = {}
        return True

    def repartition(self, state: PartitionState, partitions: int) -> dict[int, bytes]:
        """Every row of maps and tables to where its key sends it; copies to everyone."""
        local, site = self._here(state)
        sent: dict[int, Message] = {p: Message() for p in range(partitions)}
        strings = site.dictionary.strings
        for name, by in self._plan[0].homes.items():
            words, layout = site.rows(name), site.pools[name].layout
            if by is None:
                if state.partition == 0:
                    rows = with_texts(name, words, layout, strings)
                    for message in sent.values():
                        message.rows.append(rows)
                continue
            places = nodes_of(words, layout, by, partitions, site.hashes.of(site.dictionary))
            for node, part in split(words, places, partitions):
                sent[node].rows.append(with_texts(name, part, layout, strings))
        tables = self._tables(state, local, reading=True)
        for relation in self._plan[2]:
            for node, columns in enumerate(
                spread(tables.columns(relation.name), relation, partitions)
            ):
                sent[node].columns.append(columns)
        return {node: message.pack() for node, message in sent.items()}

    def adopt(self, state: PartitionState, chunks: list[bytes]) -> None:
        local, site = self._here(state)
        messages = [Message.unpack(chunk) for chunk in chunks]
        self._begin(state, local, site, Order(Action.PUT), messages)
        receive(site, messages)
        local.texts.keep(state)
        local.table_texts.keep(state)
        site.save()

    def open(
        self, number: int, parts: Sequence[Columns], constants: bytes, partitions: int
    ) -> dict[int, Message]:
        """The first stage of a trigger over some rows of a batch; see runtime/opening.py."""
        key = (self.fingerprint, digest_of(constants))
        opening = _OPENINGS.pop(key, None) or Opening(self._plan[0], Message.unpack(constants))
        _OPENINGS[key] = opening
        while len(_OPENINGS) > _OPENINGS_LIMIT:
            _OPENINGS.popitem(last=False)
        return opening.run(self._plan[1][number], parts, partitions)

    # Inside.

    def _here(self, state: PartitionState) -> tuple[_Local, Site]:
        """This process's site on the state, brought up to what other processes did to it."""
        local = _LOCALS.get(state.head.incarnation) or _Local()
        local.texts.learn(state)
        local.table_texts.learn(state)
        if local.site is None:
            local.site = Site(self._plan[0], state, local.texts.dictionary)
        else:
            local.site.attach(state)
        _remember(state, local)
        return local, local.site

    def _tables(self, state: PartitionState, local: _Local, *, reading: bool = False) -> KeptTables:
        dictionary = local.table_texts.dictionary
        return KeptTables(self._plan[2], state, dictionary, reading=reading)

    def _begin(
        self,
        state: PartitionState,
        local: _Local,
        site: Site,
        order: Order,
        messages: Sequence[Message],
    ) -> list[str]:
        """Start a batch: tables take its rows in, or refuse it; maps begin a log for it."""
        parts = [part for message in messages for part in message.columns]
        changed = self._tables(state, local).put(parts) if parts else []
        logged = order.action in (Action.BATCH, Action.TABLES)
        site.begin(logged=logged)
        state.meta = {"base": state.head.tick, "tables": changed} if logged else {}
        return changed

    def _stage(
        self,
        state: PartitionState,
        local: _Local,
        site: Site,
        order: Order,
        stage: int,
        messages: list[Message],
    ) -> dict[int, bytes]:
        trigger = self._plan[1][order.trigger]
        plan = trigger.jobs[order.job].stages[order.skip + stage]
        first = stage == 0 and order.job == 0
        if first:
            site.clear_buffers()
        parts = [part for message in messages for part in message.columns]
        if first and order.action is Action.LOAD:
            parts = self._own_rows(state, local, trigger, order)
        if trigger.reads_batch_late:
            if first:
                data = np.frombuffer(Message(columns=parts).pack(), np.uint8)
                state.resize(_BATCH, len(data))[:] = data
            else:
                parts = Message.unpack(state.array(_BATCH).tobytes()).columns
        batches = batches_of(parts, site)
        receive(site, messages)
        outputs = run_stage(site, plan, batches, state.partitions)
        if state.partition == 0 and stage == 0 and trigger.jobs[order.job].answers:
            outputs.setdefault(DRIVER, Message())
        if DRIVER in outputs:
            outputs[DRIVER].origin = (order.trigger, order.job)
        site.clear_transient()
        return {node: message.pack() for node, message in outputs.items()}

    def _own_rows(
        self, state: PartitionState, local: _Local, trigger: TriggerPlan, order: Order
    ) -> list[Columns]:
        """This partition's rows of the trigger's relation, as if they came now."""
        (name,) = trigger.relations
        read = self._plan[0].module.loops.columns
        pieces = [p for job in trigger.jobs for stage in job.stages for p in stage.pieces]
        used = {i for piece in pieces if piece.relation == name for i in read[piece.kernel]}
        return [self._tables(state, local).columns(name, sorted(used))]

    def _answer(
        self, request: Request, state: PartitionState, local: _Local, site: Site
    ) -> Message:
        message = Message()
        tables = self._tables(state, local, reading=True)
        strings = site.dictionary.strings
        for name in request.names:
            if request.wanted is Wanted.TABLES:
                message.columns.append(tables.columns(name))
                continue
            if request.wanted is Wanted.TABLE_SIZES:
                message.rows.append(Rows(name, np.array([tables.size(name)], np.int64)))
                continue
            pool = site.pools[name]
            if self._plan[0].homes.get(name) is None and state.partition != 0:
                continue
            if request.wanted is Wanted.SIZES:
                size = [[len(pool.live()), pool.nbytes()]]
                message.rows.append(Rows(name, np.array(size, np.int64)))
                continue
            found = {
                Wanted.NOW: lambda n: (site.rows(n),),
                Wanted.BEFORE: lambda n: (site.rows_before(n),),
                Wanted.CHANGED: site.changed,
            }[request.wanted](name)
            message.rows += [with_texts(name, words, pool.layout, strings) for words in found]
        return message


def _remember(state: PartitionState, local: _Local) -> None:
    _LOCALS[state.head.incarnation] = local
    _LOCALS.move_to_end(state.head.incarnation)
    while len(_LOCALS) > _LOCALS_LIMIT:
        _LOCALS.popitem(last=False)
