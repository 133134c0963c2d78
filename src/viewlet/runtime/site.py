"""One node of a distributed programme: its maps, and the kernels that it runs on them.

The same class is a worker, whose lasting maps lie in the arrays of its partition, and the driver,
whose maps lie in its own memory. A site knows nothing of other nodes; what it gets and gives are
rows of words.

Contract. `kept` are the arrays that outlive the process; `save` writes the descriptors of the maps
there, `attach` reads them. Transient buffers and the state array that kernels see are the process's
own. The dictionary only grows, and belongs to whoever made the site.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from viewlet.errors import RangeError
from viewlet.kernels.frame import COLUMNS, FULL, HIGH, RANKS, WEIGHTS, control_words
from viewlet.kernels.jit import kernel
from viewlet.runtime.batching import Batch
from viewlet.runtime.chunks import TextHashes
from viewlet.runtime.memos import make_pools
from viewlet.runtime.stages import Piece, SitePlan
from viewlet.runtime.strings import Dictionary, TextTables
from viewlet.schema import Physical
from viewlet.storage.absorb import absorb
from viewlet.storage.columns import RANKS as MAP_RANKS
from viewlet.storage.columns import Array, Arrays, MemoryArrays
from viewlet.storage.multimap import begin_all, clear_buffer, commit_all, rollback_all

_FRAME = "frame"
_NO_ROWS = Batch([], [], np.ones(1, np.int64), coded=True)


class Site:
    """Holds one node's part of all maps. Not for several threads at once."""

    def __init__(self, plan: SitePlan, kept: Arrays, dictionary: Dictionary) -> None:
        self.plan = plan
        self.dictionary = dictionary
        self.hashes = TextHashes()
        self._frame = plan.module.frame
        self._memory = MemoryArrays()
        self._state: Array = np.zeros(self._frame.size, np.int64)
        self._texts = TextTables(plan.module.texts, dictionary)
        self._texts_known = 0
        for i, text in enumerate(plan.module.texts.constants):
            self._state[self._frame.constants + i] = dictionary.code(text)
        self._make_pools(kept)
        for name in self._names(transient=True):
            self.pools[name].create()
        if _FRAME in kept.names():
            self.attach(kept)
        else:
            kept.create(_FRAME, self._frame.size, np.int64)
            for name in self._names(transient=False):
                self.pools[name].create()
            self._update_texts()
            self.save()

    def _names(self, *, transient: bool) -> list[str]:
        return [n for n in self._frame.layouts if (n in self.plan.transient) is transient]

    def _make_pools(self, kept: Arrays) -> None:
        self._kept = kept
        transient = self.plan.transient
        self.pools = make_pools(
            self.plan.module,
            lambda name: self._memory if name in transient else kept,
            self._state,
            self.dictionary,
            self._update_texts,
        )
        lasting = [pool.address for pool in self.pools.values() if not pool.buffer]
        self._lasting = np.array(lasting, np.int64)
        self._lasting_at = (self._lasting.ctypes.data, len(lasting))

    def attach(self, kept: Arrays) -> None:
        """Go on with arrays that another process may have changed since."""
        self._make_pools(kept)
        saved = kept.array(_FRAME)
        for name in self._names(transient=False):
            pool, offset = self.pools[name], self._frame.offsets[name]
            pool.descriptor[:] = saved[offset : offset + len(pool.descriptor)]
            pool.attach()
        self._update_texts()

    def save(self) -> None:
        """Write the descriptors to where the maps are; addresses in them mean nothing there."""
        self._kept.array(_FRAME)[:] = self._state

    def used(self, relation: str) -> frozenset[int]:
        """The columns of a relation's batch that kernels read."""
        return self.plan.used.get(relation, frozenset())

    # Batches.

    def begin(self, *, logged: bool) -> None:
        """Start a batch: what the one before has emptied goes, and can no longer be undone.

        One that need not be undone itself is not logged.
        """
        commit_all(*self._lasting_at)
        begin_all(*self._lasting_at, int(logged))

    def rollback(self) -> None:
        """Take back everything since `begin`."""
        rollback_all(*self._lasting_at)

    def clear(self, names: Iterable[str]) -> None:
        for name in names:
            clear_buffer(self.pools[name].address)

    def clear_transient(self) -> None:
        self.clear(self._names(transient=True))

    def clear_buffers(self) -> None:
        self.clear(name for name, pool in self.pools.items() if pool.buffer)

    def run(self, piece: Piece, batch: Batch | None = None) -> None:
        """Run one kernel; `batch` is that of the piece's relation."""
        if len(self.dictionary) != self._texts_known:
            self._update_texts()
        rows = batch if batch is not None else _NO_ROWS
        alive = self._point_to(piece, rows)
        state = self._state
        state[: HIGH + 1] = (*control_words(), 0, len(rows))  # LOW, HIGH
        address = int(state.ctypes.data)
        try:
            run = kernel(self.plan.module, piece.kernel)
            while run(address, address):
                self.pools[self._frame.maps[state[FULL]]].make_room()
        except OverflowError as error:
            raise RangeError(
                f"{error}; the batch was undone", hint="use DOUBLE where sums grow this large"
            ) from None
        del alive

    def _point_to(self, piece: Piece, batch: Batch) -> list[Array]:
        """Write the addresses of the batch's columns; the arrays must live while kernels run."""
        alive: list[Array] = []
        state = self._state

        def place(array: Array, dtype: type, word: int) -> None:
            alive.append(np.ascontiguousarray(array, dtype))
            state[word] = alive[-1].ctypes.data

        columns = self.plan.module.program.relation(piece.kernel).columns
        for i in self.plan.module.loops.columns[piece.kernel]:
            real = columns[i].type.physical is Physical.FLOAT
            place(batch.columns[i], np.float64 if real else np.int64, COLUMNS + 2 * i)
            if columns[i].nullable:
                nulls = batch.nulls[i]
                gaps = np.zeros(len(batch), np.uint8) if nulls is None else nulls
                place(gaps, np.uint8, COLUMNS + 2 * i + 1)
        place(batch.weights, np.int64, WEIGHTS)
        return alive

    def _update_texts(self) -> None:
        """Lookup tables and ranks for the strings that have come, and where they are now."""
        self._texts.update()
        self._texts_known = len(self.dictionary)
        for i, table in enumerate(self._texts.tables):
            self._state[self._frame.tables + 2 * i] = table.values.ctypes.data
            self._state[self._frame.tables + 2 * i + 1] = table.gaps.ctypes.data
        ranks = self._texts.ranks.ctypes.data
        self._state[RANKS] = ranks
        for pool in self.pools.values():
            pool.descriptor[MAP_RANKS] = ranks

    # Rows.

    def add(self, name: str, words: Array) -> None:
        """Add rows, with this site's codes, to a map or buffer."""
        if len(self.dictionary) != self._texts_known:
            self._update_texts()
        try:
            absorb(self.pools[name], words)
        except OverflowError as error:
            raise RangeError(
                f"{error}; the batch was undone", hint="use DOUBLE where sums grow this large"
            ) from None

    def rows(self, name: str) -> Array:
        """The records that are there, up to their links."""
        pool = self.pools[name]
        return np.ascontiguousarray(pool.table()[pool.live(), : pool.layout.row_width])

    def changed(self, name: str) -> tuple[Array, Array]:
        """The records that the running or last batch touched: before it, and as they are."""
        pool = self.pools[name]
        log = pool.logged()
        new = pool.table()[log[:, 0], : pool.layout.row_width]
        old = new.copy()
        old[:, pool.layout.key_width :] = log[:, 1:]
        return old, new

    def rows_before(self, name: str) -> Array:
        """The records that were there before the running or last batch."""
        pool = self.pools[name]
        table = pool.table()[:, : pool.layout.row_width].copy()
        log = pool.logged()
        table[log[:, 0], pool.layout.key_width :] = log[:, 1:]
        there = (table[:, pool.layout.key_width :] != 0).any(axis=1)
        return np.ascontiguousarray(table[there])
