"""What the kernels of one program stand on in a process: state array, pools, strings, room, errors.

    host = KernelHost(module, state, dictionary, lambda map: arrays)
    host.create()                    empty maps; or host.attach() for arrays that are full already
    host.run(kernel, reads, batch)   a kernel over a batch's rows, with room made as maps grow

Contract. The state array (kernels.frame) belongs to whoever made the host, and so do the arrays of
the maps; what is written into the state array are addresses of this process. The dictionary only
grows. Kernels of one host run one at a time, or with control words of their own on maps that do
not meet (kernels.lanes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.engine.host.memos import make_pools
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.strings import Dictionary, TextTables
from viewlet.errors import RangeError
from viewlet.kernels.emit import Module
from viewlet.kernels.frame import COLUMNS, FULL, HIGH, RANKS, WEIGHTS, control_words
from viewlet.kernels.jit import Kernel
from viewlet.schema import Physical, Relation
from viewlet.storage.absorb import absorb
from viewlet.storage.columns import RANKS as MAP_RANKS
from viewlet.storage.columns import Array, Arrays
from viewlet.storage.memory import address_of
from viewlet.storage.multimap import begin_all, clear_buffer, commit_all, next_all, rollback_all
from viewlet.storage.pool import Pool


@dataclass(frozen=True)
class BatchColumn:
    """A column of a batch that a kernel reads, as it expects it in memory."""

    position: int
    dtype: Any
    nullable: bool


def batch_columns_of(relation: Relation, positions: Iterable[int]) -> tuple[BatchColumn, ...]:
    """How kernels read some columns of a relation's batches."""
    columns = []
    for position in sorted(positions):
        column = relation.columns[position]
        real = column.type.physical is Physical.FLOAT
        dtype = np.dtype(np.float64 if real else np.int64)
        columns.append(BatchColumn(position, dtype, column.nullable))
    return tuple(columns)


class MapAddresses:
    """Some maps as storage.multimap takes them: the address of their addresses, their number."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._addresses = np.array([pool.address for pool in pools], np.int64)
        self.words = (address_of(self._addresses), len(self._addresses))


class KernelHost:
    """The maps of one program in a process, and what its kernels need beside them."""

    def __init__(
        self,
        module: Module,
        state: Array,
        dictionary: Dictionary,
        arrays_of: Callable[[str], Arrays],
    ) -> None:
        self.module = module
        self.state = state
        self.state_address = address_of(state)
        self.dictionary = dictionary
        self.texts_indexed = 0  # strings, and arrivals among them, that tables and ranks know
        self._texts = TextTables(module.texts, dictionary)
        for i, text in enumerate(module.texts.constants):
            state[module.frame.constants + i] = dictionary.code(text)
        self.use_arrays(arrays_of)

    # Maps.

    def use_arrays(self, arrays_of: Callable[[str], Arrays]) -> None:
        """Let the maps lie in these arrays, by name; `create` or `attach` must follow."""
        self.pools = make_pools(
            self.module, arrays_of, self.state, self.dictionary, self.update_texts
        )
        self._lasting = self.addresses(self.pools)
        self.lasting = self._lasting.words

    def addresses(self, names: Iterable[str]) -> MapAddresses:
        """Those of the maps that last among the named ones."""
        return MapAddresses(self.pools[name] for name in names if not self.pools[name].buffer)

    def create(self, names: Iterable[str] | None = None) -> None:
        """Make these maps empty; all of them, if none are named."""
        for name in self.pools if names is None else names:
            self.pools[name].create()
        self.update_texts()

    def attach(self, names: Iterable[str] | None = None) -> None:
        """Go on with what the arrays hold; addresses in it are those of another process."""
        for name in self.pools if names is None else names:
            self.pools[name].attach()
        self.update_texts()

    def make_room(self, control: Array) -> None:
        """Grow the map that a kernel with these control words found full."""
        self.pools[self.module.frame.maps[control[FULL]]].make_room()

    def add(self, map: str, words: Array) -> None:
        """map[k] += words[k], rows of words with the codes of this host's dictionary."""
        self.refresh_texts()
        absorb(self.pools[map], words)

    def clear_buffers(self, names: Iterable[str]) -> None:
        """Buffers are empty again before the next trigger uses them."""
        for name in names:
            clear_buffer(self.pools[name].address)

    # Strings.

    def refresh_texts(self) -> None:
        """Let kernels know the strings that have come since the last time."""
        if len(self.dictionary) + len(self.dictionary.arrivals) != self.texts_indexed:
            self.update_texts()

    def update_texts(self) -> None:
        """Lookup tables and ranks for all strings, and where they are now."""
        self._texts.update()
        self.texts_indexed = len(self.dictionary) + len(self.dictionary.arrivals)
        frame, state = self.module.frame, self.state
        for i, table in enumerate(self._texts.tables):
            state[frame.tables + 2 * i] = address_of(table.values)
            state[frame.tables + 2 * i + 1] = address_of(table.gaps)
        ranks = address_of(self._texts.ranks)
        state[RANKS] = ranks
        for pool in self.pools.values():
            pool.descriptor[MAP_RANKS] = ranks

    # Kernels.

    def run(self, kernel: Kernel, reads: Sequence[BatchColumn], batch: Batch) -> None:
        """Run all steps of a kernel over all rows of a batch."""
        alive = self.point_to(reads, batch)
        self.run_steps(kernel, self.state)
        del alive

    def run_steps(self, kernel: Kernel, control: Array) -> None:
        """Run the steps that the control words name, making room for maps as they grow."""
        state, address = self.state_address, address_of(control)
        while kernel(state, address):
            self.make_room(control)

    def point_to(self, reads: Sequence[BatchColumn], batch: Batch) -> list[Array]:
        """Let the state array name all rows of a batch; the arrays must live while kernels run."""
        self.refresh_texts()
        alive: list[Array] = []
        state = self.state
        for read in reads:
            at = COLUMNS + 2 * read.position
            column = batch.columns[read.position]
            if column.dtype != read.dtype or not column.flags.c_contiguous:
                column = np.ascontiguousarray(column, read.dtype)
            alive.append(column)
            state[at] = address_of(column)
            if read.nullable:
                nulls = batch.nulls[read.position]
                if nulls is None:
                    nulls = np.zeros(len(batch), np.uint8)
                elif nulls.dtype != np.uint8 or not nulls.flags.c_contiguous:
                    nulls = np.ascontiguousarray(nulls, np.uint8)
                alive.append(nulls)
                state[at + 1] = address_of(nulls)
        weights = np.ascontiguousarray(batch.weights, np.int64)
        alive.append(weights)
        state[WEIGHTS] = address_of(weights)
        state[: HIGH + 1] = (*control_words(), 0, len(batch))  # LOW, HIGH
        return alive

    # Batches.

    def begin(self, *, logged: bool) -> None:
        """Start anew: what was logged before can no longer be undone.

        What need not be undone itself is not logged.
        """
        commit_all(*self.lasting)
        begin_all(*self.lasting, int(logged))

    def next(self, maps: MapAddresses | None = None) -> None:
        """Start a logged batch; records that the one before has emptied go only now.

        On these maps alone, where some are given: what was logged of others stays.
        """
        next_all(*(self._lasting if maps is None else maps).words)

    def commit(self) -> None:
        """Forget the log: nothing can be undone."""
        commit_all(*self.lasting)

    def rollback(self, maps: MapAddresses | None = None) -> None:
        """Take back everything since the batch began; a second time there is nothing left."""
        rollback_all(*(self._lasting if maps is None else maps).words)


def refusal(error: BaseException, *, outcome: str = "the batch was undone") -> BaseException:
    """What to raise for an error of a kernel: an overflow is a RangeError that says what to do."""
    if isinstance(error, OverflowError):
        return RangeError(f"{error}; {outcome}", hint="use DOUBLE where sums grow this large")
    return error
