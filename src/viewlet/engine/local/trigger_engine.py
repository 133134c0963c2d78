"""The engine in one process: maps in flat arrays, triggers as native code.

    engine = LocalEngine(program)
    engine.apply([("orders", batch), ("lineitem", batch)])      all of it or nothing
    engine.reader.records(view)                                  keys and components as columns

A batch is applied relation by relation. Where anything fails (an overflow, a bad string), all maps
are put back to what they were before the first relation. Not for several threads at once: callers
serialize apply and reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from viewlet.calculus.ring import Gmr
from viewlet.engine.host.kernel_host import (
    KernelHost,
    MapAddresses,
    batch_columns_of,
    refusal,
)
from viewlet.engine.host.map_words import words_of_values
from viewlet.engine.host.records import MapReader
from viewlet.engine.local.saved_maps import read_maps, write_maps
from viewlet.engine.local.second_lane import FEWEST_ROWS, Pace, cores, second_thread
from viewlet.engine.local.statement_clock import TimedTrigger
from viewlet.engine.values.batching import Batch, weighted_rows
from viewlet.engine.values.strings import Dictionary
from viewlet.errors import DataError, StateError, ViewletError
from viewlet.kernels.emit import Module
from viewlet.kernels.frame import control_words
from viewlet.kernels.jit import Kernel, compile_program, kernel
from viewlet.kernels.refreshes import refresh_names
from viewlet.native.compiled import code_of
from viewlet.native.optimizer import OPTIMIZER
from viewlet.program.interpret import defined_contents, relations_of
from viewlet.program.ir import Program
from viewlet.program.text import parse_program, program_text
from viewlet.schema import Physical
from viewlet.storage.columns import Arrays, MemoryArrays

_STATE = "state"
_MANY_ROWS = 20_000
"""Rows that better code is waited for, since the first code of a function is slow."""
_NO_ROWS = Batch([], [], np.ones(1, np.int64))


class LocalEngine:
    """Keeps the maps of one program and runs its triggers.

    `single`: apply every batch tuple by tuple, in native code, instead of as a whole. `arrays`:
    where the maps live; if they hold this program's state already, it is taken up as it is, and
    `dictionary` must be the one that its strings were coded with. `module`: the program's kernels,
    where they have been written already.
    """

    def __init__(
        self,
        program: Program,
        *,
        single: bool = False,
        arrays: Arrays | None = None,
        dictionary: Dictionary | None = None,
        module: Module | None = None,
    ) -> None:
        self.program = program
        self.single = single
        self.module = module if module is not None else compile_program(program)
        self.dictionary = dictionary if dictionary is not None else Dictionary()
        self.arrays: Arrays = arrays if arrays is not None else MemoryArrays()
        self._started = _STATE in self.arrays.names()
        size = self.module.frame.size
        if self._started:
            state = self.arrays.array(_STATE)
            if len(state) != size:
                raise StateError("these arrays hold the state of another program")
        else:
            state = self.arrays.create(_STATE, size, np.int64)
        self.host = KernelHost(self.module, state, self.dictionary, lambda _: self.arrays)
        if self._started:
            self.host.attach()
        else:
            self.host.create()
        self.reader = MapReader(self.host)
        self._plan_batches()

    def _plan_batches(self) -> None:
        """What every batch needs to know, once."""
        self._relations = {r.name: r for r in self.program.relations}
        self._text_columns = {
            r.name: [i for i, c in enumerate(r.columns) if c.type.physical is Physical.STR]
            for r in self.program.relations
        }
        self._triggers: dict[str, Kernel] = {}
        self._timed: dict[str, TimedTrigger] | None = None
        self._refreshes = refresh_names(self.program)
        self._refreshed: dict[tuple[str, tuple[str, ...]], MapAddresses] = {}
        loops = self.module.loops
        self._columns = {
            trigger.relation: batch_columns_of(
                self._relations[trigger.relation], loops.columns[trigger.relation]
            )
            for trigger in self.program.triggers
        }
        # A memo says in one place of the state array what it has no value for: one at a time.
        allowed = not self.single and not self.module.texts.memos and cores() > 1
        self._lanes = {}
        for name in self._columns if allowed else ():
            phases = loops.lanes(name)
            if any(len(phase) > 1 for phase in phases):
                self._lanes[name] = phases
        self._paces = {name: Pace() for name in self._lanes}

    # Changes.

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None:
        """One atomic batch over any number of relations."""
        coded = [(name, self.code(name, batch)) for name, batch in changes]
        self.host.next()
        try:
            for relation, batch in coded:
                self._run(relation, batch)
        except BaseException as error:
            self.host.rollback()
            raise refusal(error) from None

    def refresh(self, view: str, changes: Sequence[tuple[str, Batch]]) -> None:
        """Changes to relations that this view alone reads, then what a read of it does.

        Only the maps that this writes begin anew: others keep what the last batch did to them.
        """
        coded = [(name, self.code(name, batch)) for name, batch in changes]
        maps = self._refreshed_maps(view, tuple(name for name, _ in coded))
        self.host.next(maps)
        try:
            for relation, batch in coded:
                self._run(relation, batch)
            if view in self._refreshes:
                self.host.run(self._refresh_kernel(view), (), _NO_ROWS)
        except BaseException as error:
            self.host.rollback(maps)
            raise refusal(error, outcome=f"view {view} is as it was before the refresh") from None

    def _refreshed_maps(self, view: str, relations: tuple[str, ...]) -> MapAddresses:
        if (view, relations) not in self._refreshed:
            refresh = self.program.refresh(view)
            triggers = [self.program.trigger(relation) for relation in relations]
            events = [event for event in (*triggers, refresh) if event is not None]
            targets = {statement.target for event in events for statement in event.statements}
            self._refreshed[view, relations] = self.host.addresses(targets)
        return self._refreshed[view, relations]

    def _refresh_kernel(self, view: str) -> Kernel:
        """The machine code of a view's refresh, made or loaded when it is first read."""
        name = self._refreshes[view]
        if name not in self._triggers:
            self._triggers[name] = code_of(kernel(self.module, name))
        return self._triggers[name]

    def undo(self) -> None:
        """Take back the last batch; a second time nothing is left to take back."""
        self.host.rollback()

    def load(
        self, tables: Mapping[str, Batch], fill_initial: Callable[[], None] | None = None
    ) -> None:
        """Fill the maps of a new engine from existing rows, without a log to undo it.

        Static tables must be among the first tables that an engine is given, unless `fill_initial`
        puts into maps what these have before the first row.
        """
        self.host.begin(logged=False)
        try:
            if not self._started:
                if fill_initial is not None:
                    fill_initial()
                else:
                    self._load_constants(tables)
                self._started = True
            for relation, batch in tables.items():
                self._run(relation, self.code(relation, batch))
        except BaseException as error:
            self.host.create()
            self._started = False
            raise refusal(error, outcome="nothing was loaded") from None
        self.host.commit()

    def _load_constants(self, tables: Mapping[str, Batch]) -> None:
        """What maps hold before the first row comes: their definitions over static tables alone.

        Maps that read static tables only are so computed once and for all. Others are mostly empty
        then, but not where a definition says something of nothing: SELECT COUNT(*) has a row over
        empty tables.
        """
        static = {
            relation.name: Gmr(weighted_rows(relation, tables[relation.name]))
            for relation in self.program.relations
            if relation.static and relation.name in tables
        }
        for map, column, contents in defined_contents(self.program, relations_of(static)):
            self.add(map.name, column, contents)

    def add(self, map: str, column: str, contents: Gmr) -> None:
        """Add a weighted relation to one value column of a map."""
        layout = self.host.pools[map].layout
        position = self.reader.position(map, column)
        self.host.add(map, words_of_values(layout, position, contents, self.dictionary))

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
        used = self.module.loops.columns.get(relation, set())
        columns = list(batch.columns)
        for i in texts:
            columns[i] = self.dictionary.encode(columns[i] if i in used else ())
        return Batch(columns, batch.nulls, batch.weights, coded=True)

    def trigger(self, relation: str) -> Kernel | None:
        """The machine code that a batch of a relation runs, None if nothing depends on it.

        Made or loaded when it is first asked for: of views that are created one by one, most
        programs never see a row.
        """
        if relation not in self._triggers and relation in self._columns:
            code = code_of(kernel(self.module, relation, single=self.single))
            self._triggers[relation] = self._with_clock(relation, code)
        return self._triggers.get(relation)

    def time_statements(self) -> None:
        """From now on some batches say how their time is shared among statements."""
        if self._timed is None:
            self._timed = {}
            for relation in self._triggers.keys() & self._columns.keys():
                self._triggers[relation] = self._with_clock(relation, self._triggers[relation])

    def _with_clock(self, relation: str, code: Kernel) -> Kernel:
        """Rows that are taken one by one run all steps for each: there is nothing to tell apart."""
        if self._timed is None or self.single or relation in self.module.loops.by_row:
            return code
        timed = TimedTrigger(code, self.host, self.module.loops.ordered(relation))
        self._timed[relation] = timed
        return timed

    def statement_seconds(self) -> dict[str, list[float]]:
        """Of the batches of each relation that were timed, by the positions of statements."""
        return {relation: timed.seconds() for relation, timed in (self._timed or {}).items()}

    def _is_timed(self, relation: str) -> bool:
        timed = None if self._timed is None else self._timed.get(relation)
        return timed is not None and timed.is_due()

    def reads(self, relation: str) -> frozenset[int]:
        """The columns that the relation's trigger looks at."""
        return frozenset(column.position for column in self._columns.get(relation, ()))

    def _run(self, relation: str, batch: Batch) -> None:
        trigger = self.trigger(relation) if len(batch) else None
        if trigger is None:
            return
        if len(batch) > _MANY_ROWS:
            OPTIMIZER.wait()
        phases = self._lanes.get(relation)
        if phases is None or len(batch) < FEWEST_ROWS or self._is_timed(relation):
            self.host.run(trigger, self._columns[relation], batch)
            return
        alive = self.host.point_to(self._columns[relation], batch)
        self._run_lanes(trigger, self._paces[relation], phases, len(batch))
        del alive

    def _run_lanes(
        self, trigger: Kernel, pace: Pace, phases: list[list[tuple[int, int]]], rows: int
    ) -> None:
        """The whole trigger in one thread or in two, whichever was faster lately."""
        in_two = pace.in_two()
        started = time.perf_counter()
        if in_two:
            for phase in phases:
                works = [
                    partial(self.host.run_steps, trigger, np.array(control_words(*lane), np.int64))
                    for lane in phase
                ]
                if len(works) == 1:
                    works[0]()
                else:
                    second_thread().both(*works)
        else:
            self.host.run_steps(trigger, self.host.state)
        pace.took(in_two, time.perf_counter() - started, rows)

    # Size and persistence.

    def memory(self) -> dict[str, dict[str, int]]:
        """Records and bytes of every map."""
        return {
            name: {"records": len(pool.live()), "bytes": pool.nbytes()}
            for name, pool in self.host.pools.items()
            if not pool.buffer
        }

    def save(self, directory: Path) -> None:
        """Write all maps to a new directory, to be read by `restored`."""
        self.host.commit()
        write_maps(directory, program_text(self.program), self.host.pools, self.dictionary)

    @classmethod
    def restored(cls, directory: Path) -> LocalEngine | None:
        """An engine of the program that was saved, with its state.

        None if this version does not understand the program or the words of its maps.
        """
        saved = read_maps(directory)
        try:
            engine = cls(parse_program(saved.program), dictionary=Dictionary(saved.strings))
        except ViewletError:
            return None
        lasting = {name: pool for name, pool in engine.host.pools.items() if not pool.buffer}
        if not all(saved.fits(pool.layout) for pool in lasting.values()):
            return None
        engine.host.begin(logged=False)
        for name in lasting:
            engine.host.add(name, saved.words[name])
        engine.host.commit()
        engine._started = True
        return engine
