"""The SQL side's programme for the stateful-partition service: kernels over a partition's arrays.

    order (broadcast)   which trigger and job a step runs, or rows to put into maps as they are
    inputs, stage 0     the partition's part of the batch, and what the driver scatters
    inputs, later       the relations that the stage before sent here
    outputs             relations by destination; partition 0 always says to the driver which job
                        it was, so that the driver's part can be repeated from the commit log

A torn run is not undone in place: it may have been killed while it was turning a tree, which no
log of values repairs. The partition is rebuilt from its snapshot and the change log instead.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.runtime.batching import Batch
from viewlet.runtime.chunks import (
    Message,
    Rows,
    nodes_of,
    received_batch,
    split,
    with_codes,
    with_texts,
)
from viewlet.runtime.program import DRIVER
from viewlet.runtime.site import Site
from viewlet.runtime.stages import Plan, Route, SitePlan, TriggerPlan
from viewlet.runtime.state import PartitionState
from viewlet.runtime.strings import Dictionary
from viewlet.storage.columns import Array

_TEXTS, _ENDS, _BATCH = "texts", "text_ends", "batch"
_SITES: OrderedDict[str, Site] = OrderedDict()  # by incarnation of the state; a cache
_SITES_LIMIT = 64


@dataclass(frozen=True)
class Order:
    """What a step does. `trigger` None: put the rows that the inputs bring into the maps."""

    trigger: int | None
    job: int = 0
    begin: bool = True  # the first job of a batch

    def pack(self) -> bytes:
        return pickle.dumps((self.trigger, self.job, self.begin))

    @classmethod
    def unpack(cls, data: bytes) -> Order:
        return cls(*pickle.loads(data))


class SqlProgram:
    """Implements runtime.program.PartitionProgram and Repartitioning for a plan's workers."""

    def __init__(self, plan: Plan, fingerprint: str, cache: Path) -> None:
        self.fingerprint = fingerprint
        self.stages = plan.stages
        # Small enough to travel in every task's closure; opened once in each process.
        self._packed = zlib.compress(pickle.dumps((plan.workers, plan.triggers), protocol=5), 6)
        self._cache = str(cache)
        self._opened: tuple[SitePlan, tuple[TriggerPlan, ...]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _plan(self) -> tuple[SitePlan, tuple[TriggerPlan, ...]]:
        if self._opened is None:
            if Path(self._cache).is_dir():  # the driver's kernels, where this is the same machine
                os.environ.setdefault("VIEWLET_CACHE", self._cache)
            self._opened = pickle.loads(zlib.decompress(self._packed))
        return self._opened

    # The protocol.

    def create(self, state: PartitionState) -> None:
        state.create(_TEXTS, 0, np.uint8)
        state.create(_ENDS, 0, np.int64)
        state.create(_BATCH, 0, np.uint8)
        dictionary = Dictionary()
        _remember(state, Site(self._plan[0], state, dictionary))
        _keep_texts(state, dictionary)

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        order = Order.unpack(broadcast)
        messages = [Message.unpack(data) for data in inputs]
        site = self._site(state)
        try:
            if order.trigger is None:
                self._put(site, messages)
                outputs: dict[int, bytes] = {}
            else:
                outputs = self._stage(state, site, order, stage, messages)
            _keep_texts(state, site.dictionary)
            site.save()
        except BaseException:
            _SITES.pop(state.head.incarnation, None)
            raise
        return outputs

    def read(self, state: PartitionState, request: bytes) -> bytes:
        """Answers to a Request: rows of maps, with their strings."""
        site = self._site(state)
        answer = Request.unpack(request).answer(site, state.partition).pack()
        if len(site.dictionary) - 1 > len(state.array(_ENDS)):
            # A lookup made a string that a read cannot keep: others would give its code away.
            del _SITES[state.head.incarnation]
        return answer

    def rollback(self, state: PartitionState) -> bool:
        return False

    def repartition(self, state: PartitionState, partitions: int) -> dict[int, bytes]:
        """Every lasting map's rows to where its partitioning sends them; copies to everyone."""
        site = self._site(state)
        sent: dict[int, Message] = {p: Message() for p in range(partitions)}
        for name, by in self._homes.items():
            words, layout = site.rows(name), site.pools[name].layout
            if by is None:
                if state.partition == 0:
                    rows = with_texts(name, words, layout, site.dictionary.strings)
                    for message in sent.values():
                        message.rows.append(rows)
                continue
            places = nodes_of(words, layout, by, partitions, site.hashes.of(site.dictionary))
            for node, part in split(words, places, partitions):
                sent[node].rows.append(
                    with_texts(name, part, layout, site.dictionary.strings)
                )
        return {node: message.pack() for node, message in sent.items()}

    def adopt(self, state: PartitionState, chunks: list[bytes]) -> None:
        site = self._site(state)
        self._put(site, [Message.unpack(chunk) for chunk in chunks])
        _keep_texts(state, site.dictionary)
        site.save()

    # Stages.

    @property
    def _homes(self) -> dict[str, tuple[int, ...] | None]:
        return self._plan[0].homes

    def _site(self, state: PartitionState) -> Site:
        """This process's site on the state, brought up to what other processes did to it."""
        site = _SITES.get(state.head.incarnation)
        dictionary = site.dictionary if site is not None else Dictionary()
        _learn_texts(state, dictionary)
        if site is None:
            site = Site(self._plan[0], state, dictionary)
        else:
            site.attach(state)
        _remember(state, site)
        return site

    def _put(self, site: Site, messages: Iterable[Message]) -> None:
        site.begin(logged=False)
        for message in messages:
            for rows in message.rows:
                site.add(rows.target, with_codes(rows, site.dictionary))

    def _stage(
        self, state: PartitionState, site: Site, order: Order, stage: int, messages: list[Message]
    ) -> dict[int, bytes]:
        assert order.trigger is not None
        trigger = self._plan[1][order.trigger]
        plan = trigger.jobs[order.job].stages[stage]
        first = stage == 0 and order.job == 0
        if first:
            if order.begin:
                site.begin()
            site.clear_buffers()
        batches = self._batches(state, site, trigger, first, messages)
        for message in messages:
            for rows in message.rows:
                site.add(rows.target, with_codes(rows, site.dictionary))
        for piece in plan.pieces:
            batch = None
            if piece.relation is not None:
                batch = batches.get(piece.relation)
                if batch is None:
                    batch = _empty_batch(site, piece.relation, piece.kernel)
            site.run(piece, batch)
        outputs = _sent(site, plan.routes, state.partitions)
        if state.partition == 0 and stage == 0 and trigger.jobs[order.job].answers:
            outputs.setdefault(DRIVER, Message())
        if DRIVER in outputs:
            outputs[DRIVER].origin = (order.trigger, order.job)
        site.clear_transient()
        return {node: message.pack() for node, message in outputs.items()}

    def _batches(
        self,
        state: PartitionState,
        site: Site,
        trigger: TriggerPlan,
        first: bool,
        messages: list[Message],
    ) -> dict[str, Batch]:
        """The batch of each relation; kept in the state where later stages read it again."""
        parts = [part for message in messages for part in message.columns]
        if trigger.reads_batch_late:
            if first:
                _write(state, _BATCH, Message(columns=parts).pack())
            else:
                parts = Message.unpack(state.array(_BATCH).tobytes()).columns
        found: dict[str, list[Any]] = {}
        for part in parts:
            found.setdefault(part.relation, []).append(part)
        return {name: received_batch(same, site.dictionary) for name, same in found.items()}


def _empty_batch(site: Site, relation: str, kernel: str) -> Batch:
    width = len(site.plan.module.program.relation(kernel).columns)
    nothing = np.zeros(0, np.int64)
    return Batch([nothing] * width, [None] * width, nothing, coded=True)


def _sent(site: Site, routes: Sequence[Route], partitions: int) -> dict[int, Message]:
    """What leaves a site by these routes: a message for each node that gets anything."""
    sent: dict[int, Message] = {}
    for route in routes:
        for node, rows in routed(site, route, partitions):
            sent.setdefault(node, Message()).rows.append(rows)
    return sent


def routed(site: Site, route: Route, partitions: int) -> list[tuple[int, Rows]]:
    """A relation's rows by destination; the driver is DRIVER."""
    words, layout = site.rows(route.source), site.pools[route.source].layout
    if not len(words):
        return []
    strings = site.dictionary.strings
    found: list[tuple[int, Rows]] = []
    if route.by:
        texts = site.hashes.of(site.dictionary)
        places = nodes_of(words, layout, route.by, partitions, texts)
        for node, part in split(words, places, partitions):
            found.append((node, with_texts(route.target, part, layout, strings)))
    if route.everywhere or route.driver:
        rows = with_texts(route.target, words, layout, strings)
        if route.everywhere:
            found += [(node, rows) for node in range(partitions)]
        if route.driver:
            found.append((DRIVER, rows))
    return found


# --- reading --------------------------------------------------------------------------------------

NOW, BEFORE, CHANGED, SIZES = "now", "before", "changed", "sizes"


@dataclass(frozen=True)
class Request:
    """Rows of maps as they are, as they were before the last batch, or what that batch touched.

    CHANGED answers twice for each map, before and after. Copies are asked of partition 0 alone.
    """

    kind: str
    maps: tuple[str, ...]
    copies: frozenset[str] = frozenset()

    def pack(self) -> bytes:
        return pickle.dumps((self.kind, self.maps, self.copies))

    @classmethod
    def unpack(cls, data: bytes) -> Request:
        return cls(*pickle.loads(data))

    def answer(self, site: Site, partition: int) -> Message:
        message = Message()
        for name in self.maps:
            if name in self.copies and partition != 0:
                continue
            layout = site.pools[name].layout
            for words in self._words(site, name):
                if self.kind == SIZES:
                    message.rows.append(Rows(name, words))
                else:
                    message.rows.append(with_texts(name, words, layout, site.dictionary.strings))
        return message

    def _words(self, site: Site, name: str) -> list[Array]:
        if self.kind == NOW:
            return [site.rows(name)]
        if self.kind == BEFORE:
            return [site.rows_before(name)]
        if self.kind == CHANGED:
            return list(site.changed(name))
        pool = site.pools[name]
        return [np.array([[len(pool.live()), pool.nbytes()]], np.int64)]


# --- texts in the state ---------------------------------------------------------------------------


def _remember(state: PartitionState, site: Site) -> None:
    _SITES[state.head.incarnation] = site
    _SITES.move_to_end(state.head.incarnation)
    while len(_SITES) > _SITES_LIMIT:
        _SITES.popitem(last=False)


def _learn_texts(state: PartitionState, dictionary: Dictionary) -> None:
    """Take in the strings that the state has and this process does not know yet."""
    ends = state.array(_ENDS)
    known = len(dictionary) - 1  # without NULL
    if len(ends) <= known:
        return
    start = int(ends[known - 1]) if known else 0
    data = state.array(_TEXTS)[start:].tobytes()
    low = 0
    for end in (ends[known:] - start).tolist():
        dictionary.code(data[low:end].decode())
        low = end


def _keep_texts(state: PartitionState, dictionary: Dictionary) -> None:
    """Append the strings that came to the state."""
    ends = state.array(_ENDS)
    known = len(ends)
    coming = [(text or "").encode() for text in dictionary.strings[known + 1 :]]
    if not coming:
        return
    start = int(ends[-1]) if known else 0
    data = b"".join(coming)
    state.resize(_TEXTS, start + len(data))[start:] = np.frombuffer(data, np.uint8)
    lengths = np.fromiter((len(text) for text in coming), np.int64, len(coming))
    state.resize(_ENDS, known + len(coming))[known:] = start + np.cumsum(lengths)


def _write(state: PartitionState, name: str, data: bytes) -> None:
    state.resize(name, len(data))[:] = np.frombuffer(data, np.uint8)
