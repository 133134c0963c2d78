"""The engine in one process: maps in flat arrays, triggers as native code.

    engine = LocalEngine(program)
    engine.apply([("orders", batch), ("lineitem", batch)])      all of it or nothing
    engine.records(view)                                         keys and components as columns

A batch is applied relation by relation. Where anything fails (an overflow, a bad string), all maps
are put back to what they were before the first relation. Not for several threads at once: callers
serialise apply and reads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.errors import DataError, RangeError, StateError
from viewlet.kernels.frame import (
    COLUMNS,
    FULL,
    HIGH,
    RANKS,
    WEIGHTS,
    control_words,
)
from viewlet.kernels.jit import Kernel, compile_program, kernel, module_name
from viewlet.program.ir import Program
from viewlet.program.text import program_text
from viewlet.runtime.batching import Batch
from viewlet.runtime.constants import load_constants
from viewlet.runtime.lanes import FEWEST_ROWS, Pace, cores, second_thread
from viewlet.runtime.memos import make_pools
from viewlet.runtime.records import MapReader
from viewlet.runtime.strings import Dictionary, TextTables
from viewlet.schema import Column, Physical
from viewlet.storage.columns import RANKS as MAP_RANKS
from viewlet.storage.columns import Array, Arrays, MemoryArrays
from viewlet.storage.compiled import code_of
from viewlet.storage.multimap import begin_all, commit_all, next_all, rollback_all

COLUMNS_FROM = WEIGHTS + 1
"""The control words, LOW, HIGH and WEIGHTS come first."""


class OneRow:
    """What a kernel's state array says when the batch is one row at fixed addresses."""

    def __init__(
        self,
        engine: LocalEngine,
        relation: str,
        columns: Mapping[int, int],
        nulls: Mapping[int, int],
    ) -> None:
        self.trigger = engine.trigger(relation)
        self.weight = np.ones(1, np.int64)
        self.weight_view = self.weight.data
        control = np.array([*control_words(), 0, 1, _address(self.weight)], np.int64)
        self.control = control.data
        width = len(columns)
        words = np.zeros(2 * width, np.int64)
        for i in range(width):
            words[2 * i : 2 * i + 2] = columns[i], nulls[i]
        self.columns = words.data
        self.end = COLUMNS + 2 * width


class LocalEngine(MapReader):
    """Holds the maps of one programme and runs its triggers.

    `single`: apply every batch tuple by tuple, in native code, instead of as a whole. `arrays`:
    where the maps live; if they hold this programme's state already, it is taken up as it is, and
    `dictionary` must be the one that its strings were coded with.
    """

    def __init__(
        self,
        program: Program,
        *,
        single: bool = False,
        arrays: Arrays | None = None,
        dictionary: Dictionary | None = None,
    ) -> None:
        self.program = program
        self.single = single
        self.module = compile_program(program)
        self._arrays: Arrays = arrays if arrays is not None else MemoryArrays()
        self.dictionary = dictionary if dictionary is not None else Dictionary()
        self._started = False
        self._used = self.module.loops.columns
        self._plan_reading()
        if "state" in self._arrays.names():
            self._take_up()
        else:
            self._state = self._arrays.create("state", self.module.frame.size, np.int64)
            self._make_pools()
            for pool in self._pools.values():
                pool.create()
        self._begin_texts()

    def _take_up(self) -> None:
        """Use the arrays as they are; addresses in them are those of another process."""
        self._started = True
        self._state = self._arrays.array("state")
        if len(self._state) != self.module.frame.size:
            raise StateError("these arrays hold the state of another programme")
        self._make_pools()
        for pool in self._pools.values():
            pool.attach()

    def _make_pools(self) -> None:
        self._pools = make_pools(
            self.module, lambda _: self._arrays, self._state, self.dictionary, self._update_texts
        )
        kept = [pool for pool in self._pools.values() if not pool.buffer]
        # The addresses of all lasting maps' descriptors, for what is done to each of them.
        self._kept = np.array([pool.address for pool in kept], np.int64)
        self._kept_at = (_address(self._kept), len(kept))
        self._state_address = _address(self._state)
        self._state_view = self._state.data
        self._next_all = code_of(next_all)

    def _begin_texts(self) -> None:
        texts = self.module.texts
        self._texts = TextTables(texts, self.dictionary)
        for i, text in enumerate(texts.constants):
            self._state[self.module.frame.constants + i] = self.dictionary.code(text)
        self._update_texts()

    # Changes.

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None:
        """One atomic batch over any number of relations."""
        coded = [(name, self.code(name, batch)) for name, batch in changes]
        # Records that the batch before has emptied go only now: until then it can be undone.
        next_all(*self._kept_at)
        try:
            for relation, batch in coded:
                self._run(relation, batch)
        except BaseException as error:
            raise self._undone(error) from None

    def _undone(self, error: BaseException) -> BaseException:
        """Take back what a failed batch did; what to raise for it."""
        rollback_all(*self._kept_at)
        if isinstance(error, OverflowError):
            return RangeError(
                f"{error}; the batch was undone", hint="use DOUBLE where sums grow this large"
            )
        return error

    def one_row(
        self, relation: str, columns: Mapping[int, int], nulls: Mapping[int, int]
    ) -> OneRow:
        """A plan for batches of one row whose values and null bytes are at these addresses."""
        return OneRow(self, relation, columns, nulls)

    def run_row(self, plan: OneRow) -> None:
        """Apply the row that lies at the plan's addresses, as a batch of its own."""
        self._next_all(*self._kept_at)
        trigger = plan.trigger
        if trigger is None:
            return
        try:
            if len(self.dictionary) != self._texts_known:
                self._update_texts()
            view = self._state_view
            view[:COLUMNS_FROM] = plan.control
            view[COLUMNS : plan.end] = plan.columns
            address = self._state_address
            while trigger(address, address):
                self._pools[self.module.frame.maps[self._state[FULL]]].make_room()
        except BaseException as error:
            raise self._undone(error) from None

    def undo(self) -> None:
        """Take back the last batch; a second time nothing is left to take back."""
        rollback_all(*self._kept_at)

    def load(self, tables: Mapping[str, Batch]) -> None:
        """Fill the maps of a new engine from existing rows, without a log to undo it.

        Static tables must be among the first tables that an engine is given.
        """
        commit_all(*self._kept_at)
        begin_all(*self._kept_at, 0)
        try:
            if not self._started:
                load_constants(self.program, tables, self._pools, self.dictionary)
                self._started = True
            for relation, batch in tables.items():
                self._run(relation, self.code(relation, batch))
        except BaseException as error:
            for pool in self._pools.values():
                pool.create()
            self._started = False
            if isinstance(error, OverflowError):
                raise RangeError(f"{error}; nothing was loaded") from None
            raise
        commit_all(*self._kept_at)

    def code(self, relation: str, batch: Batch) -> Batch:
        """The batch with strings as codes: those of columns that some trigger reads."""
        if batch.coded:
            return batch
        schema = self._relations.get(relation)
        if schema is None:
            raise DataError(f"no relation {relation}", hint=", ".join(self._relations))
        if len(batch.columns) != len(schema.columns):
            raise DataError(f"{relation} has {len(schema.columns)} columns")
        texts = self._text_columns[relation]
        if not texts:
            return batch
        used = self._used.get(relation, set())
        columns = list(batch.columns)
        for i in texts:
            columns[i] = self.dictionary.encode(columns[i] if i in used else ())
        return Batch(columns, batch.nulls, batch.weights, coded=True)

    def _plan_reading(self) -> None:
        """What every batch needs to know, once."""
        self._relations = {r.name: r for r in self.program.relations}
        self._text_columns = {
            r.name: [i for i, c in enumerate(r.columns) if c.type.physical is Physical.STR]
            for r in self.program.relations
        }
        self._triggers: dict[str, Kernel] = {}
        fed = [trigger.relation for trigger in self.program.triggers]
        # A memo says in one place of the state array what it has no value for: one at a time.
        lanes = {name: self.module.loops.lanes(name) for name in fed}
        allowed = not self.single and not self.module.texts.memos and cores() > 1
        self._lanes = {
            name: phases
            for name, phases in lanes.items()
            if allowed and any(len(phase) > 1 for phase in phases)
        }
        self._paces = {name: Pace() for name in self._lanes}
        self._reads = {
            name: [
                (
                    i,
                    _dtype(self._relations[name].columns[i]),
                    self._relations[name].columns[i].nullable,
                )
                for i in sorted(self._used[name])
            ]
            for name in fed
        }

    def trigger(self, relation: str) -> Kernel | None:
        """The machine code that a batch of a relation runs, None if nothing depends on it.

        Made or loaded when it is first asked for: of views that are created one by one, most
        programmes never see a row.
        """
        if relation not in self._triggers and relation in self._reads:
            self._triggers[relation] = code_of(kernel(self.module, relation, single=self.single))
        return self._triggers.get(relation)

    def reads(self, relation: str) -> frozenset[int]:
        """The columns that the relation's trigger looks at."""
        return frozenset(i for i, _, _ in self._reads.get(relation, ()))

    def _run(self, relation: str, batch: Batch) -> None:
        if not len(batch) or self.trigger(relation) is None:
            return
        if len(self.dictionary) != self._texts_known:
            self._update_texts()
        state = self._state
        kept_alive = self._point_to(relation, batch)
        state[: HIGH + 1] = (*control_words(), 0, len(batch))  # LOW, HIGH
        phases = self._lanes.get(relation)
        if phases is None or len(batch) < FEWEST_ROWS:
            self._steps(relation, state)
        else:
            self._run_lanes(relation, phases, len(batch))
        del kept_alive

    def _steps(self, relation: str, control: Array) -> None:
        """Run the steps that the control words name, making room for maps as they grow."""
        address = _address(control)
        trigger = self._triggers[relation]
        while trigger(self._state_address, address):
            self._pools[self.module.frame.maps[control[FULL]]].make_room()

    def _run_lanes(self, relation: str, phases: list[list[tuple[int, int]]], rows: int) -> None:
        """The whole trigger in one thread or in two, whichever was faster lately."""
        pace = self._paces[relation]
        in_two = pace.in_two()
        started = time.perf_counter()
        if in_two:
            for phase in phases:
                works = [
                    partial(self._steps, relation, np.array(control_words(*lane), np.int64))
                    for lane in phase
                ]
                if len(works) == 1:
                    works[0]()
                else:
                    second_thread().both(*works)
        else:
            self._steps(relation, self._state)
        pace.took(in_two, time.perf_counter() - started, rows)

    def _point_to(self, relation: str, batch: Batch) -> list[Array]:
        """Write the addresses of the batch's columns; the arrays must live while kernels run."""
        alive: list[Array] = []
        state = self._state
        for i, dtype, nullable in self._reads[relation]:
            column = batch.columns[i]
            if column.dtype != dtype or not column.flags.c_contiguous:
                column = np.ascontiguousarray(column, dtype)
            alive.append(column)
            state[COLUMNS + 2 * i] = _address(column)
            if nullable:
                nulls = batch.nulls[i]
                if nulls is None:
                    nulls = np.zeros(len(batch), np.uint8)
                elif nulls.dtype != np.uint8 or not nulls.flags.c_contiguous:
                    nulls = np.ascontiguousarray(nulls, np.uint8)
                alive.append(nulls)
                state[COLUMNS + 2 * i + 1] = _address(nulls)
        weights = np.ascontiguousarray(batch.weights, np.int64)
        alive.append(weights)
        state[WEIGHTS] = _address(weights)
        return alive

    def _update_texts(self) -> None:
        """Lookup tables and ranks for the strings that have come, and where they are now."""
        self._texts.update()
        self._texts_known = len(self.dictionary)
        frame = self.module.frame
        for i, table in enumerate(self._texts.tables):
            self._state[frame.tables + 2 * i] = _address(table.values)
            self._state[frame.tables + 2 * i + 1] = _address(table.gaps)
        ranks = _address(self._texts.ranks)
        self._state[RANKS] = ranks
        for pool in self._pools.values():
            pool.descriptor[MAP_RANKS] = ranks

    # Size and persistence.

    def memory(self) -> dict[str, dict[str, int]]:
        """Records and bytes of every map."""
        return {
            name: {"records": len(pool.live()), "bytes": pool.nbytes()}
            for name, pool in self._pools.items()
            if not pool.buffer
        }

    def save(self, directory: str | Path) -> None:
        """Write all maps to a directory, to be read by `restore` of an equal programme."""
        commit_all(*self._kept_at)
        place = Path(directory)
        place.mkdir(parents=True, exist_ok=True)
        arrays = {"state": self._state}
        for pool in self._pools.values():
            for name in pool.array_names():
                arrays[name] = self._arrays.array(name)
        for i, (_, array) in enumerate(arrays.items()):
            np.save(place / f"{i}.npy", array)
        about = {
            "program": program_text(self.program),
            "kernels": module_name(self.module),
            "arrays": list(arrays),
            "strings": self.dictionary.strings[1:],
        }
        (place / "engine.json").write_text(json.dumps(about), encoding="utf-8")

    def restore(self, directory: str | Path) -> None:
        """Take the state that `save` wrote; StateError if it is another programme's."""
        place = Path(directory)
        try:
            about = json.loads((place / "engine.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StateError(f"no saved engine in {place}: {error}") from None
        if about["kernels"] != module_name(self.module):
            raise StateError(
                f"the state in {place} belongs to other views or another version of viewlet",
                hint="load the base tables again",
            )
        for i, name in enumerate(about["arrays"]):
            saved = np.load(place / f"{i}.npy")
            if name in self._arrays.names():
                self._arrays.resize(name, len(saved))[:] = saved
            else:
                self._arrays.create(name, len(saved), saved.dtype)[:] = saved
        self._take_up()
        self.dictionary = Dictionary(about["strings"])
        self._begin_texts()


def _dtype(column: Column) -> Any:
    return np.dtype(np.float64 if column.type.physical is Physical.FLOAT else np.int64)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
