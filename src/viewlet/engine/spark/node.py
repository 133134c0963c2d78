"""One node of a distributed program: its maps, and the kernels that it runs on them.

The same class is a worker, whose lasting maps lie in the arrays of its partition, and the driver,
whose maps lie in its own memory. A node knows nothing of others; what it gets and gives are rows
of words.

Contract. `lasting` are the arrays that outlive the process; `save` writes the descriptors of the
maps there, `attach` reads them. Transient buffers and the state array that kernels see are the
process's own. The dictionary only grows, and belongs to whoever made the node.
"""

from __future__ import annotations

import numpy as np

from viewlet.engine.host.kernel_host import BatchColumn, KernelHost, batch_columns_of, refusal
from viewlet.engine.spark.chunks import TextHashes
from viewlet.engine.spark.stages import NodePlan, Piece
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.strings import Dictionary
from viewlet.kernels.jit import kernel
from viewlet.storage.columns import Array, Arrays, MemoryArrays
from viewlet.storage.pool import Pool

_FRAME = "frame"
_NO_ROWS = Batch([], [], np.ones(1, np.int64), coded=True)


class SparkNode:
    """Keeps one node's part of all maps. Not for several threads at once."""

    def __init__(self, plan: NodePlan, lasting: Arrays, dictionary: Dictionary) -> None:
        self.plan = plan
        self.dictionary = dictionary
        self.hashes = TextHashes()
        self._frame = plan.module.frame
        self._memory = MemoryArrays()
        self._lasting = lasting
        state: Array = np.zeros(self._frame.size, np.int64)
        self._host = KernelHost(plan.module, state, dictionary, self._arrays_of)
        self._columns: dict[str, tuple[BatchColumn, ...]] = {}
        self._host.create(self._names(transient=True))
        if _FRAME in lasting.names():
            self.attach(lasting)
        else:
            lasting.create(_FRAME, self._frame.size, np.int64)
            self._host.create(self._names(transient=False))
            self.save()

    def _names(self, *, transient: bool) -> list[str]:
        return [n for n in self._frame.layouts if (n in self.plan.transient) is transient]

    def _arrays_of(self, map: str) -> Arrays:
        return self._memory if map in self.plan.transient else self._lasting

    @property
    def pools(self) -> dict[str, Pool]:
        """The maps and buffers by name."""
        return self._host.pools

    def attach(self, lasting: Arrays) -> None:
        """Go on with arrays that another process may have changed since."""
        self._lasting = lasting
        self._host.use_arrays(self._arrays_of)
        names = self._names(transient=False)
        saved = lasting.array(_FRAME)
        for name in names:
            descriptor, offset = self.pools[name].descriptor, self._frame.offsets[name]
            descriptor[:] = saved[offset : offset + len(descriptor)]
        self._host.attach(names)

    def save(self) -> None:
        """Write the descriptors to where the maps are; addresses in them mean nothing there."""
        self._lasting.array(_FRAME)[:] = self._host.state

    def used(self, relation: str) -> frozenset[int]:
        """The columns of a relation's batch that kernels read."""
        return self.plan.used.get(relation, frozenset())

    # Batches.

    def begin(self, *, logged: bool) -> None:
        """Start a batch: records that the one before emptied go, and it can no longer be undone.

        `logged`: whether this batch can be undone.
        """
        self._host.begin(logged=logged)

    def rollback(self) -> None:
        """Take back everything since `begin`."""
        self._host.rollback()

    def clear_transient(self) -> None:
        """Empty the buffers that live for one stage."""
        self._host.clear_buffers(self._names(transient=True))

    def clear_buffers(self) -> None:
        """Empty all buffers: they live for one trigger at most."""
        self._host.clear_buffers(name for name, pool in self.pools.items() if pool.buffer)

    def run(self, piece: Piece, batch: Batch | None = None) -> None:
        """Run one kernel; `batch` is that of the piece's relation."""
        columns = self._columns.get(piece.kernel)
        if columns is None:
            module = self.plan.module
            relation = module.program.relation(piece.kernel)
            columns = batch_columns_of(relation, module.loops.columns[piece.kernel])
            self._columns[piece.kernel] = columns
        try:
            code = kernel(self.plan.module, piece.kernel)
            self._host.run(code, columns, batch if batch is not None else _NO_ROWS)
        except OverflowError as error:
            raise refusal(error) from None

    # Rows.

    def add(self, name: str, words: Array) -> None:
        """Add rows, with this node's codes, to a map or buffer."""
        try:
            self._host.add(name, words)
        except OverflowError as error:
            raise refusal(error) from None

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
        is_there = (table[:, pool.layout.key_width :] != 0).any(axis=1)
        return np.ascontiguousarray(table[is_there])
