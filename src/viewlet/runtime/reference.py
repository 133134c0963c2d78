"""The interpreter as an engine: slow, and right by definition."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import Delta, MapRef, Rel
from viewlet.calculus.ring import Gmr, Weight
from viewlet.errors import StateError
from viewlet.program.interpret import Interpreter, Store
from viewlet.program.ir import Program, View
from viewlet.program.text import program_text
from viewlet.runtime.engine import (
    Held,
    MapSize,
    Row,
    Weighted,
    difference,
    from_old_maps,
    visible_rows,
)

_STATE = "maps.json"


class ReferenceEngine:
    """Runs `program.interpret`; the state before the last batch is kept for undo and changes."""

    def __init__(self) -> None:
        self._machine = Interpreter(Program((), (), ()))
        self._before: Store = {}

    @property
    def program(self) -> Program:
        return self._machine.program

    def install(self, program: Program, tables: Mapping[str, Gmr], passed: frozenset[str]) -> None:
        old = self._machine
        held = Held(old.program)
        source = _Sources(tables, old)
        machine = Interpreter(program)
        for map in program.maps:
            for column in map.columns:
                definition = column.definition
                if definition is None:
                    continue
                moved = from_old_maps(held, definition, map.key_names, passed)
                contents = evaluate(moved or definition, map.key_names, source)
                machine.store[map.name, column.name] = contents
        self._machine, self._before = machine, {}

    def apply(self, changes: Sequence[tuple[str, Gmr]]) -> None:
        self._before = self._copy_of_targets(name for name, _ in changes)
        try:
            for name, delta in changes:
                self._machine.apply(name, delta)
        except BaseException:
            self.undo()
            raise

    def _copy_of_targets(self, names: Any) -> Store:
        """The contents of the maps that these relations' triggers write."""
        triggers = [self.program.trigger(name) for name in names]
        written = {s.target for t in triggers if t is not None for s in t.statements}
        store = self._machine.store
        return {place: store[place].copy() for place in store if place[0] in written}

    def undo(self) -> None:
        self._machine.store.update(self._before)
        self._before = {}

    def rows(self, view: str) -> list[Row]:
        found = self._view(view)
        return visible_rows(found.query, self._machine.rows(found))

    def changes(self, view: str) -> Weighted:
        after = self.rows(view)
        now = dict(self._machine.store)
        self._machine.store.update(self._before)
        try:
            before = self.rows(view)
        finally:
            self._machine.store.update(now)
        return difference(after, before)

    def sizes(self) -> dict[str, MapSize]:
        sizes = {}
        for map in self.program.state:
            columns = [self._machine.store[map.name, column.name] for column in map.columns]
            records = max(len(contents) for contents in columns)
            memory = sum(_bytes_of(contents) for contents in columns)
            sizes[map.name] = MapSize(records, memory)
        return sizes

    def save(self, directory: Path) -> None:
        maps = [
            [map, column, [[list(key), _weight_out(w)] for key, w in contents.items()]]
            for (map, column), contents in self._machine.store.items()
        ]
        state = {"program": program_text(self.program), "maps": maps}
        (directory / _STATE).write_text(json.dumps(state), encoding="utf-8")

    def load(self, program: Program, directory: Path) -> None:
        state = json.loads((directory / _STATE).read_text(encoding="utf-8"))
        if state["program"] != program_text(program):
            raise StateError(
                f"the state in {directory} belongs to another programme",
                hint="restore it with the version of viewlet that wrote it, or load the data anew",
            )
        machine = Interpreter(program)
        for map, column, items in state["maps"]:
            machine.store[map, column] = Gmr((tuple(key), _weight_in(w)) for key, w in items)
        self._machine, self._before = machine, {}

    def close(self) -> None:
        self._machine, self._before = Interpreter(Program((), (), ())), {}

    def _view(self, name: str) -> View:
        return next(view for view in self.program.views if view.name == name)


class _Sources:
    """Tables and the maps of the programme before; streams start empty."""

    def __init__(self, tables: Mapping[str, Gmr], old: Interpreter) -> None:
        self._tables = tables
        self._old = old

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if isinstance(atom, MapRef):
            return self._old.contents(atom)
        return self._tables.get(atom.name, _EMPTY)


_EMPTY = Gmr()


def _bytes_of(contents: Gmr) -> int:
    """An estimate: the dictionary's entries and their key tuples."""
    return sum(sys.getsizeof(key) + sys.getsizeof(weight) + 100 for key, weight in contents.items())


def _weight_out(weight: Weight) -> int | float | list[int]:
    """JSON has no fractions: [numerator, denominator]."""
    if isinstance(weight, Fraction):
        return [weight.numerator, weight.denominator]
    return weight


def _weight_in(weight: int | float | list[int]) -> Weight:
    return Fraction(*weight) if isinstance(weight, list) else weight
