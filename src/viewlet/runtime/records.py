"""Records of maps as decoded columns: a view's, those of one key, those that a batch touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.calculus.query import COUNT, ViewKind
from viewlet.kernels.emit import Module
from viewlet.program.ir import View
from viewlet.runtime.strings import Dictionary
from viewlet.schema import Physical, Scalar
from viewlet.storage.columns import Array, KeyField
from viewlet.storage.memory import float_bits
from viewlet.storage.pool import Pool


@dataclass
class Records:
    """Keys as columns with null masks, and the components' weights, of some records of a view."""

    keys: list[Array]
    nulls: list[Array | None]
    components: dict[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.components.values())))


@dataclass
class Changed:
    """The records that a batch touched, with the components before and after it."""

    keys: list[Array]
    nulls: list[Array | None]
    old: dict[str, Array]
    new: dict[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.new.values())))


class MapReader:
    """What can be read of the maps of one programme; runtime.local changes them."""

    module: Module
    dictionary: Dictionary
    _pools: dict[str, Pool]

    def records(self, view: View) -> Records:
        """The records of a view that are there: one, if only virtually, for a TOTAL view."""
        sources = {name: (map, column) for name, map, column in view.sources}
        map = sources[COUNT][0]
        pool = self._pools[map]
        places = {name: self.place(*source) for name, source in sources.items()}
        if view.query.kind is ViewKind.TOTAL:
            components = {
                name: self._value_or_zero(sources[name][0], place) for name, place in places.items()
            }
            return Records([], [], components)
        found = pool.live(places[COUNT])
        keys, nulls = self._keys(map, found)
        others = {source for source, _ in sources.values()} - {map}
        full = pool.full_keys(found) if others else None
        records = {map: found}
        if full is not None:
            records |= {other: self._pools[other].find(full) for other in others}
        components = {
            name: self._values(source, places[name], records[source])
            for name, (source, _) in sources.items()
        }
        return Records(keys, nulls, components)

    def changed(self, view: View) -> Changed:
        """The keys that the last batch touched in any of the view's maps; O(batch)."""
        pools = {map: self._pools[map] for _, map, _ in view.sources}
        logs = {map: pool.logged()[:, 0] for map, pool in pools.items()}
        if view.query.kind is ViewKind.TOTAL:
            full: Array = np.zeros((1, 0), np.int64)
        else:
            full = np.concatenate([pool.full_keys(logs[map]) for map, pool in pools.items()])
            if len(pools) > 1:
                full = np.unique(full, axis=0)
        if len(pools) == 1 and full.shape[1]:
            records = logs
            places = {map: np.arange(len(log)) for map, log in logs.items()}
        else:
            records = {map: pool.find(full) for map, pool in pools.items()}
            places = {map: _places(logs[map], records[map]) for map in pools}
        old: dict[str, Array] = {}
        new: dict[str, Array] = {}
        for name, map, column in view.sources:
            place, logged = self.place(map, column), places[map] >= 0
            new[name] = self._values(map, place, records[map])
            old[name] = new[name].copy()
            old[name][logged] = pools[map].old_column(place)[places[map][logged]]
        keys, nulls = self._decoded(view, full)
        return Changed(keys, nulls, old, new)

    def find(self, view: View, key: tuple[Scalar, ...]) -> Records | None:
        """The record of a view with this key, None if it is surely not there."""
        map = {name: map for name, map, _ in view.sources}[COUNT]
        full = np.zeros((1, 2 * len(key)), np.int64)
        for i, (value, field) in enumerate(zip(key, self._pools[map].layout.keys, strict=True)):
            if value is None:
                full[0, 2 * i + 1] = 1
            elif field.physical is Physical.STR:
                code = self.dictionary.codes.get(str(value))
                if code is None:
                    return None
                full[0, 2 * i] = code
            elif field.physical is Physical.FLOAT:
                full[0, 2 * i] = float_bits(float(value))
            else:
                full[0, 2 * i] = value
        keys, nulls = self._decoded(view, full)
        components = {
            name: self._values(map, self.place(map, column), self._pools[map].find(full))
            for name, map, column in view.sources
        }
        return Records(keys, nulls, components)

    def _decoded(self, view: View, full: Array) -> tuple[list[Array], list[Array | None]]:
        """Key columns from words as Pool.full_keys has them."""
        map = {name: map for name, map, _ in view.sources}[COUNT]
        keys: list[Array] = []
        nulls: list[Array | None] = []
        for i in range(full.shape[1] // 2):
            field = self._pools[map].layout.keys[i]
            keys.append(self._plain(field, np.ascontiguousarray(full[:, 2 * i])))
            gaps = full[:, 2 * i + 1] != 0
            nulls.append(gaps if gaps.any() else None)
        return keys, nulls

    def _plain(self, field: KeyField, words: Array) -> Array:
        """A key column's words as values."""
        if field.physical is Physical.FLOAT:
            return words.view(np.float64)
        if field.physical is Physical.STR:
            return self.dictionary.decode(words)
        return words != 0 if field.physical is Physical.BOOL else words

    def _values(self, map: str, place: int, records: Array) -> Array:
        """A value column of some records; 0 for record -1."""
        pool = self._pools[map]
        found = np.zeros(len(records), self.value_kind_at(map, place))
        there = records >= 0
        found[there] = pool.value_column(place, records[there])
        return found

    def contents(
        self, map: str, column: str, *, before: bool = False
    ) -> dict[tuple[Any, ...], Any]:
        """One value column by decoded key, as it is or as it was before the last batch."""
        pool, place = self._pools[map], self.place(map, column)
        found = pool.live(place)
        contents = dict(
            zip(self._key_rows(map, found), pool.value_column(place, found).tolist(), strict=True)
        )
        if before:
            log = pool.logged()
            rows = self._key_rows(map, log[:, 0])
            for key, value in zip(rows, pool.old_column(place).tolist(), strict=True):
                if value:
                    contents[key] = value
                else:
                    contents.pop(key, None)
        return contents

    def _key_rows(self, map: str, records: Array) -> list[tuple[Any, ...]]:
        keys, nulls = self._keys(map, records)
        columns = [
            [None if gaps is not None and gaps[i] else value for i, value in enumerate(k.tolist())]
            for k, gaps in zip(keys, nulls, strict=True)
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * len(records)

    def pool(self, map: str) -> Pool:
        return self._pools[map]

    def place(self, map: str, column: str) -> int:
        return [c.name for c in self.module.loops.maps[map].columns].index(column)

    def value_kind(self, map: str, column: str) -> Any:
        """The dtype of a value column."""
        return self.value_kind_at(map, self.place(map, column))

    def value_kind_at(self, map: str, place: int) -> Any:
        is_float = self._pools[map].layout.values[place] is Physical.FLOAT
        return np.float64 if is_float else np.int64

    def key_slots(self, view: View) -> list[Any]:
        """The dtypes of a view's key columns, decoded."""
        map = {name: map for name, map, _ in view.sources}[COUNT]
        kinds = {Physical.FLOAT: np.float64, Physical.STR: object, Physical.BOOL: np.bool_}
        return [kinds.get(field.physical, np.int64) for field in self._pools[map].layout.keys]

    def _value_or_zero(self, map: str, place: int) -> Array:
        """The value of a map without keys; 0 while it has no record."""
        pool = self._pools[map]
        found = pool.live()[:1]
        value = pool.value_column(place, found)
        return value if len(value) else np.zeros(1, value.dtype)

    def _keys(self, map: str, records: Array) -> tuple[list[Array], list[Array | None]]:
        pool = self._pools[map]
        keys: list[Array] = []
        nulls: list[Array | None] = []
        for i, field in enumerate(pool.layout.keys):
            values, gaps = pool.key_column(i, records)
            keys.append(values if field.physical is Physical.FLOAT else self._plain(field, values))
            nulls.append(gaps)
        return keys, nulls


def _places(logged: Array, records: Array) -> Array:
    """Where each record stands in the log, which names a record once; -1 where it does not."""
    if not len(logged):
        return np.full(len(records), -1)
    order = np.argsort(logged)
    at = order[np.minimum(np.searchsorted(logged, records, sorter=order), len(logged) - 1)]
    return np.where(logged[at] == records, at, -1)
