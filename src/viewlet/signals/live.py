"""A running query: batches in, results out, in one process.

The keys are spread over lanes by the low bits of their number; every lane has its own state and
may run in its own thread. A push is atomic: when it fails, keys, clocks and states are as before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.errors import StateError, TypingError
from viewlet.signals import saved_query as checkpoint
from viewlet.signals import tables
from viewlet.signals.batches import INF, NEVER, Columns, Events, cat
from viewlet.signals.clock import TimeStamps, own_unit
from viewlet.signals.collector import written
from viewlet.signals.executor import OperatorPlan, PlanExecutor, empty_events
from viewlet.signals.keys import KeyDictionary
from viewlet.signals.operators.grouping import group_rows, single_clock
from viewlet.signals.operators.streams import Source, late_error
from viewlet.signals.pools import expand
from viewlet.signals.state import ArrayStore, MemoryStore, StepJournal

_THREADS_FROM = 50_000  # rows in a push from which a second thread pays


def cores() -> int:
    """Cores that a run may use."""
    return os.cpu_count() or 1


class Live:
    """A query that is being fed. Made by `Query.start` and `Query.restore`.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> live = sensors.sample(2).start()
    >>> live.push(readings)["t"]
    array([0, 2, 4])
    >>> live.flush()["t"]
    array([], dtype=int64)
    """

    def __init__(
        self, plan: OperatorPlan, lanes: int = 1, stores: list[ArrayStore] | None = None
    ) -> None:
        if lanes < 1 or lanes & (lanes - 1):
            raise TypingError(f"{lanes} lanes", hint="use 1, 2, 4 or 8 lanes")
        if not plan.keywise and lanes > 1:
            raise TypingError("a query that regroups runs in one lane", hint="leave lanes out")
        self.plan = plan
        self.lanes = lanes
        self.bits = lanes.bit_length() - 1
        self.keys = KeyDictionary(single=not plan.sources[0].schema.keys)
        self.stores: list[ArrayStore] = stores or [MemoryStore() for _ in range(lanes)]
        self._make_executors()
        self._columns: dict[str, Columns] = {}
        for source in plan.sources:
            names = source.values or ()
            self._columns[source.name] = {name: np.empty(0, np.float64) for name in names}
        self._clock = {source.name: NEVER for source in plan.sources}
        self._late = 0
        self._floor = NEVER
        self.ended = False  # no batch is taken any more
        self._kind = "arrow"
        self.stamps: TimeStamps | None = None  # how times are written, once that is known

    def _make_executors(self) -> None:
        self.executors = [
            PlanExecutor(self.plan, store, self.keys, lane, self.bits)
            for lane, store in enumerate(self.stores)
        ]

    # --- feeding ---------------------------------------------------------------------------------

    def push(self, batch: Any = None, /, **named: Any) -> Any:
        """Take a batch (or one per source name) and return the results that are now final."""
        tables_by_source = self.by_source(batch, named)
        self._kind = tables.kind_of(next(iter(tables_by_source.values())))
        return self.shown(self.push_columns(tables_by_source))

    def push_columns(self, tables_by_source: dict[str, Any]) -> Columns:
        """`push` for tables by source name; the results as NumPy columns."""
        return self.step(tables_by_source, NEVER)

    def advance(self, time: Any) -> Any:
        """Say that no event before `time` will come any more, for any key: ticks or a datetime."""
        return self.shown(self.step({}, self.instant(time)))

    def instant(self, time: Any) -> int:
        """A moment as ticks."""
        stamps = self.stamps or TimeStamps(None, None, self.plan.unit)
        return stamps.instant(time)

    def shown(self, columns: Columns, kind: str | None = None) -> Any:
        """Results as a table of the kind that the input was, with times as they were there."""
        if self.stamps is None or self.stamps.unit is None:
            return tables.write(columns, kind or self._kind)
        schema = self.plan.root.schema
        named = [schema.time]
        if schema.form in ("stream", "signal"):
            named.append(schema.end or "end")
        present = [name for name in named if name in columns]
        columns = columns | {name: self.stamps.shown(columns[name]) for name in present}
        zones = {} if self.stamps.zone is None else dict.fromkeys(present, self.stamps.zone)
        return tables.write(columns, kind or self._kind, zones)

    def flush(self) -> Any:
        """The input has ended: return everything that was still held back."""
        return self.shown(self.flush_columns())

    def flush_columns(self) -> Columns:
        """Time ends: everything that was waiting comes out, and no more input is taken."""
        out = self.step({}, INF)
        self.ended = True
        return out

    def by_source(self, batch: Any, named: dict[str, Any]) -> dict[str, Any]:
        """Tables by source name."""
        names = [source.name for source in self.plan.sources]
        if batch is not None:
            if named or len(names) > 1:
                raise TypingError(
                    f"this query has the sources {', '.join(names)}",
                    hint=f"name the batches: push({names[0]}=...)",
                )
            return {names[0]: batch}
        unknown = set(named) - set(names)
        if unknown or not named:
            raise TypingError(
                f"no source is named {', '.join(sorted(unknown)) or 'in this push'}",
                hint=f"the sources are {', '.join(names)}",
            )
        return named

    def step(self, tables_by_source: dict[str, Any], floor: int) -> Columns:
        """One atomic step: a table per source, and the time that all keys have passed."""
        if self.ended:
            raise StateError("this stream has ended", hint="start the query again")
        undo = self._checkpoint()
        journals = [StepJournal() for _ in self.executors]
        try:
            self._floor = max(self._floor, floor)
            read = {name: self.read(name, table) for name, table in tables_by_source.items()}
            rows = sum(len(part["start"]) for part in read.values())

            def lane(executor: PlanExecutor) -> Columns:
                raw = self._raw(executor, read)
                journal = journals[executor.lane]
                return written(executor.output(executor.step(raw, self._stream_floor(), journal)))

            parts = self._over_lanes(lane, rows >= _THREADS_FROM)
        except BaseException:
            for journal in journals:
                journal.rollback()
            undo()
            raise
        return join_columns(parts)

    def _over_lanes(self, work: Callable[[PlanExecutor], Any], threads: bool) -> list[Any]:
        if not threads or self.lanes == 1:
            return [work(executor) for executor in self.executors]
        with ThreadPoolExecutor(self.lanes) as pool:
            return list(pool.map(work, self.executors))

    def _checkpoint(self) -> Callable[[], None]:
        """Remember what a step changes outside of the operators' states."""
        sizes = self.keys.sizes()
        before = (self._floor, dict(self._clock), self._late, dict(self._columns), self.stamps)

        def undo() -> None:
            self.keys.truncate(sizes)
            self._floor, self._clock, self._late, self._columns, self.stamps = before

        return undo

    # --- reading ---------------------------------------------------------------------------------

    def read(self, name: str, table: Any) -> dict[str, Any]:
        """One table as key codes, times and payload."""
        part = self.take(name, table)
        keys, names = part.pop("keys"), part.pop("names")
        codes = self.keys.encode(keys, names) if keys else None
        counts = self.keys.count(codes) if codes is not None else None
        return {**part, "codes": codes, "counts": counts}

    def take(self, name: str, table: Any) -> dict[str, Any]:
        """One table as keys, times and payload; late events by a stream clock are dropped."""
        source = next(source for source in self.plan.sources if source.name == name)
        schema = source.schema
        fixed = [*schema.keys, schema.time, *([schema.end] if schema.end else [])]
        column_names = None if source.values is None else [*fixed, *source.values]
        columns = tables.read(table, column_names)
        self.note_times(source, table, columns[schema.time])
        tick = self.stamps.tick if self.stamps is not None else None
        start = tables.times(columns[schema.time], schema.time, tick)
        end = tables.times(columns[schema.end], schema.end, tick) if schema.end else None
        if end is not None and (end <= start).any():
            row = int(np.flatnonzero(end <= start)[0])
            raise TypingError(
                f"row {row} ends at {end[row]}, not after its start {start[row]}",
                hint="lifetimes are [start, end) with end > start",
            )
        payload = {
            key: tables.payload(column, key)
            for key, column in columns.items()
            if key not in fixed or (source.values is not None and key in source.values)
        }
        for key, column in {**columns, **payload}.items():
            if len(column) != len(start):
                raise TypingError(
                    f"column {key} has {len(column)} rows, {schema.time} has {len(start)}",
                    hint="give columns of the same length",
                )
        earlier = self._columns[name]
        if earlier and set(earlier) != set(payload):
            raise TypingError(
                f"the batch has payload columns {', '.join(payload)}, earlier ones had "
                f"{', '.join(earlier)}",
                hint="give every batch the same columns",
            )
        keys = [columns[key] for key in schema.keys]
        if source.clock == "stream" and len(start):
            in_time = self._in_time(source, start)
            if in_time is not None:
                start = start[in_time]
                end = None if end is None else end[in_time]
                payload = {key: column[in_time] for key, column in payload.items()}
                keys = [column[in_time] for column in keys]
        if len(start):
            self._columns = {**self._columns, name: {k: c[:0] for k, c in payload.items()}}
        names = list(schema.keys)
        return {"keys": keys, "names": names, "start": start, "end": end, "columns": payload}

    def note_times(self, source: Source, table: Any, column: Any) -> None:
        """Remember how times are written, by the first rows; later ones must be of that sort."""
        unit = own_unit(column)
        if len(column) == 0 and unit is None:
            return
        if unit is None and self.plan.unit is not None and not self.plan.is_unit_declared:
            raise TypingError(
                f"the times in {source.schema.time} are whole numbers, and the query has durations",
                hint='say what a tick is: source(unit="ms")',
            )
        zone = None if unit is None else tables.zone_of(table, source.schema.time)
        if self.stamps is None:
            self.stamps = TimeStamps(unit, zone, self.plan.unit or unit)
        elif (self.stamps.unit is None) != (unit is None):
            raise TypingError(
                f"times in {source.schema.time} are datetimes in one batch and whole numbers in "
                "another",
                hint="give all batches the same type of time",
            )
        elif self.stamps.zone is None and zone is not None:
            self.stamps = replace(self.stamps, zone=zone)

    def columns_of(self, source: Source) -> Columns:
        """The payload columns of a source, without rows."""
        return self._columns[source.name]

    def _in_time(self, source: Source, start: Any) -> Any:
        """Mask of the events that are not late by the stream's clock; None when all are in time."""
        latest = np.maximum.accumulate(np.append(self._clock[source.name], start))
        before = np.maximum(latest[:-1], NEVER + source.reorder)
        late = start < np.maximum(before - source.reorder, self._floor)
        self._clock[source.name] = int(latest[-1])
        if not late.any():
            return None
        if source.late == "fail":
            row = int(np.flatnonzero(late)[0])
            raise late_error("", int(start[row]), int(before[row]), source.reorder)
        self._late += int(late.sum())
        return ~late

    def _stream_floor(self) -> int:
        """The time that the whole stream has passed."""
        floors = []
        for source in self.plan.sources:
            clock = self._clock[source.name]
            moved = source.clock == "stream" and clock != NEVER
            floors.append(max(self._floor, clock - source.reorder if moved else NEVER))
        return min(floors)

    def _raw(self, executor: PlanExecutor, read: dict[str, Any]) -> dict[str, Events]:
        """The lane's share of what was read, in arrival order per key."""
        raw = {}
        for source in self.plan.sources:
            part = read.get(source.name)
            if part is None:
                batch = empty_events(self._columns[source.name], source.schema.end is not None)
            else:
                batch = self._grouped(executor, part)
            floor = self._floor
            is_last = floor == INF or not read
            if source.clock == "stream" and self._clock[source.name] != NEVER:
                floor = max(floor, self._clock[source.name] - source.reorder)
                is_last = True
            if is_last:
                batch = expand(batch, np.arange(executor.slots()))
            frontier = np.full(len(batch.slots), floor)
            raw[source.name] = replace(batch, frontier=frontier)
        return raw

    def _grouped(self, executor: PlanExecutor, part: dict[str, Any]) -> Events:
        start, end, columns = part["start"], part["end"], part["columns"]
        if part["codes"] is None:
            slots, offsets = np.zeros(1, np.int64), np.array([0, len(start)])
            start = single_clock(start)
        else:
            slots, offsets, start, end, columns = group_rows(
                part["codes"],
                part["counts"],
                executor.lane,
                self.bits,
                start,
                end,
                columns,
            )
        return Events(slots, offsets, np.full(len(slots), NEVER), columns, start, end)

    # --- state -----------------------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """Counts so far: events, late (dropped), reordered (put in place), keys."""
        total = {"events": 0, "late": self._late, "reordered": 0}
        for executor in self.executors:
            for name, count in executor.counters().items():
                total[name] = total.get(name, 0) + count
        return {**total, "keys": len(self.keys)}

    def save(self, path: str | Path) -> None:
        """Write the whole running state to a directory, replacing an earlier one there."""
        for executor in self.executors:
            executor.sync()
        checkpoint.save(Path(path), self.plan.fingerprint, self.memory(), self.stores)

    def memory(self) -> dict[str, Any]:
        """What is remembered besides the operators' states."""
        groups = {
            str(position): state.dictionary.dump()
            for position, state in enumerate(self.executors[0].states)
            if state.dictionary is not None
        }
        return {
            "lanes": self.lanes,
            "keys": self.keys.dump(),
            "groups": groups,
            "columns": {
                name: {key: str(column.dtype) for key, column in columns.items()}
                for name, columns in self._columns.items()
            },
            "clock": self._clock,
            "late": self._late,
            "floor": self._floor,
            "ended": self.ended,
            "kind": self._kind,
            "stamps": None if self.stamps is None else list(astuple(self.stamps)),
        }

    @classmethod
    def load(cls, plan: OperatorPlan, memory: dict[str, Any], stores: list[ArrayStore]) -> Live:
        """The reverse of dump: a query that goes on where the saved one stopped."""
        live = cls(plan, memory["lanes"], stores)
        live.keys = KeyDictionary.load(memory["keys"])
        live._make_executors()
        for position, dumped in memory["groups"].items():
            live.executors[0].states[int(position)].dictionary = KeyDictionary.load(dumped)
        live._columns = {
            name: {key: np.empty(0, dtype) for key, dtype in columns.items()}
            for name, columns in memory["columns"].items()
        }
        live._clock = memory["clock"]
        live._late = memory["late"]
        live._floor = memory["floor"]
        live.ended = memory["ended"]
        live._kind = memory["kind"]
        if memory.get("stamps") is not None:
            live.stamps = TimeStamps(*memory["stamps"])
        return live


def join_columns(parts: list[Columns]) -> Columns:
    """Rows of all lanes, lane after lane; lanes without rows do not decide the types."""
    filled = [part for part in parts if part and len(next(iter(part.values())))] or parts[:1]
    return {name: cat([part[name] for part in filled]) for name in filled[0]}
