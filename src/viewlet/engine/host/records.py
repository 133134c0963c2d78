"""Records of maps as decoded columns: a view's, those of one key, those that a batch touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.calculus.query import COUNT, ViewKind
from viewlet.calculus.ring import Gmr
from viewlet.engine.host.kernel_host import KernelHost
from viewlet.engine.host.map_words import weights_in
from viewlet.engine.values.batching import plain_values
from viewlet.engine.values.strings import Dictionary
from viewlet.program.ir import View
from viewlet.schema import Physical, Scalar
from viewlet.storage.columns import Array, KeyField
from viewlet.storage.memory import float_bits


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
    """What can be read of the maps of one program, which others change."""

    def __init__(self, host: KernelHost) -> None:
        self._host = host
        self._maps = host.module.loops.maps

    # Views.

    def records(self, view: View) -> Records:
        """The records of a view that are there: one, if only virtually, for a TOTAL view."""
        pools = self._host.pools
        sources = {name: (map, self.position(map, c)) for name, map, c in view.sources}
        if view.query.kind is ViewKind.TOTAL:
            return Records([], [], {name: self._only_value(*s) for name, s in sources.items()})
        map, count = sources[COUNT]
        records = {map: pools[map].live(count)}
        keys, nulls = self._keys(map, records[map])
        others = {source for source, _ in sources.values()} - {map}
        if others:
            full = pools[map].full_keys(records[map])
            records |= {other: pools[other].find(full) for other in others}
        components = {
            name: self._values(source, position, records[source])
            for name, (source, position) in sources.items()
        }
        return Records(keys, nulls, components)

    def changed(self, view: View) -> Changed:
        """The keys that the last batch touched in any of the view's maps; O(batch)."""
        pools = {map: self._host.pools[map] for _, map, _ in view.sources}
        logs = {map: pool.logged()[:, 0] for map, pool in pools.items()}
        if view.query.kind is ViewKind.TOTAL:
            full: Array = np.zeros((1, 0), np.int64)
        else:
            full = np.concatenate([pool.full_keys(logs[map]) for map, pool in pools.items()])
            if len(pools) > 1:
                full = np.unique(full, axis=0)
        if len(pools) == 1 and full.shape[1]:
            records = logs
            log_rows = {map: np.arange(len(log)) for map, log in logs.items()}
        else:
            records = {map: pool.find(full) for map, pool in pools.items()}
            log_rows = {map: _log_rows(logs[map], records[map]) for map in pools}
        old: dict[str, Array] = {}
        new: dict[str, Array] = {}
        for name, map, column in view.sources:
            position, is_logged = self.position(map, column), log_rows[map] >= 0
            new[name] = self._values(map, position, records[map])
            old[name] = new[name].copy()
            old[name][is_logged] = pools[map].old_column(position)[log_rows[map][is_logged]]
        keys, nulls = self._decoded(view, full)
        return Changed(keys, nulls, old, new)

    def find(self, view: View, key: tuple[Scalar, ...]) -> Records | None:
        """The record of a view with this key, None if it is surely not there."""
        fields = self._host.pools[_count_map(view)].layout.keys
        full = np.zeros((1, 2 * len(key)), np.int64)
        for i, (value, field) in enumerate(zip(key, fields, strict=True)):
            if value is None:
                full[0, 2 * i + 1] = 1
            elif field.physical is Physical.STR:
                code = self._host.dictionary.codes.get(str(value))
                if code is None:
                    return None
                full[0, 2 * i] = code
            elif field.physical is Physical.FLOAT:
                full[0, 2 * i] = float_bits(float(value))
            else:
                full[0, 2 * i] = value
        keys, nulls = self._decoded(view, full)
        components = {
            name: self._values(map, self.position(map, column), self._host.pools[map].find(full))
            for name, map, column in view.sources
        }
        return Records(keys, nulls, components)

    def key_kinds(self, view: View) -> list[Any]:
        """The dtypes of a view's key columns, decoded."""
        kinds = {Physical.FLOAT: np.float64, Physical.STR: object, Physical.BOOL: np.bool_}
        fields = self._host.pools[_count_map(view)].layout.keys
        return [kinds.get(field.physical, np.int64) for field in fields]

    # Maps.

    def contents(
        self, map: str, column: str, *, before: bool = False
    ) -> dict[tuple[Any, ...], Any]:
        """One value column by decoded key, as it is or as it was before the last batch."""
        position = self.position(map, column)
        layout = self._host.pools[map].layout
        return self._contents(
            map, position, before, lambda words: layout.values_in(position, words).tolist()
        )

    def weights(self, map: str, column: str, *, before: bool = False) -> Gmr:
        """The same as a weighted relation, sums of DOUBLE not rounded."""
        position = self.position(map, column)
        layout = self._host.pools[map].layout
        contents = self._contents(
            map, position, before, lambda words: weights_in(layout, position, words)
        )
        return Gmr(contents.items())

    def _contents(
        self, map: str, position: int, before: bool, decode: Callable[[Array], list[Any]]
    ) -> dict[tuple[Any, ...], Any]:
        pool = self._host.pools[map]
        records = pool.live(position)
        values = decode(pool.column_words(position, records))
        contents = dict(zip(self._key_rows(map, records), values, strict=True))
        if before:
            rows = self._key_rows(map, pool.logged()[:, 0])
            for key, value in zip(rows, decode(pool.old_words(position)), strict=True):
                if value:
                    contents[key] = value
                else:
                    contents.pop(key, None)
        return contents

    def columns(self, map: str) -> list[str]:
        """The names of a map's value columns."""
        return [column.name for column in self._maps[map].columns]

    def position(self, map: str, column: str) -> int:
        """Which of the map's value columns it is."""
        return self.columns(map).index(column)

    def value_kind(self, map: str, column: str) -> Any:
        """The dtype of a value column."""
        return self._value_kind(map, self.position(map, column))

    def _value_kind(self, map: str, position: int) -> Any:
        is_float = self._host.pools[map].layout.values[position] is Physical.FLOAT
        return np.float64 if is_float else np.int64

    def _values(self, map: str, position: int, records: Array) -> Array:
        """A value column of some records; 0 for record -1."""
        values = np.zeros(len(records), self._value_kind(map, position))
        is_there = records >= 0
        values[is_there] = self._host.pools[map].value_column(position, records[is_there])
        return values

    def _only_value(self, map: str, position: int) -> Array:
        """The value of a map without keys; 0 while it has no record."""
        pool = self._host.pools[map]
        value = pool.value_column(position, pool.live()[:1])
        return value if len(value) else np.zeros(1, value.dtype)

    def _key_rows(self, map: str, records: Array) -> list[tuple[Any, ...]]:
        keys, nulls = self._keys(map, records)
        columns = [plain_values(k, gaps) for k, gaps in zip(keys, nulls, strict=True)]
        return list(zip(*columns, strict=True)) if columns else [()] * len(records)

    def _keys(self, map: str, records: Array) -> tuple[list[Array], list[Array | None]]:
        pool = self._host.pools[map]
        keys: list[Array] = []
        nulls: list[Array | None] = []
        for i, field in enumerate(pool.layout.keys):
            words, gaps = pool.key_column(i, records)
            keys.append(key_values(field, words, self._host.dictionary))
            nulls.append(gaps)
        return keys, nulls

    def _decoded(self, view: View, full: Array) -> tuple[list[Array], list[Array | None]]:
        """Key columns from words as Pool.full_keys has them."""
        fields = self._host.pools[_count_map(view)].layout.keys
        keys: list[Array] = []
        nulls: list[Array | None] = []
        for i, field in enumerate(fields[: full.shape[1] // 2]):
            words = np.ascontiguousarray(full[:, 2 * i])
            keys.append(key_values(field, words, self._host.dictionary))
            gaps = full[:, 2 * i + 1] != 0
            nulls.append(gaps if gaps.any() else None)
        return keys, nulls


def key_values(field: KeyField, words: Array, dictionary: Dictionary) -> Array:
    """A key column's words as values."""
    if field.physical is Physical.FLOAT:
        return words.view(np.float64)
    if field.physical is Physical.STR:
        return dictionary.decode(words)
    return words != 0 if field.physical is Physical.BOOL else words


def _count_map(view: View) -> str:
    """The map whose keys are the view's."""
    return next(map for name, map, _ in view.sources if name == COUNT)


def _log_rows(logged: Array, records: Array) -> Array:
    """The row of each record in the log, which names a record once; -1 where it has none."""
    if not len(logged):
        return np.full(len(records), -1)
    order = np.argsort(logged)
    at = order[np.minimum(np.searchsorted(logged, records, sorter=order), len(logged) - 1)]
    return np.where(logged[at] == records, at, -1)
