"""Records of maps as decoded columns: a view's, those of one key, those that a batch touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.calculus.query import COUNT, ViewKind
from viewlet.calculus.ring import Gmr, Key
from viewlet.engine.host.kernel_host import KernelHost
from viewlet.engine.host.map_words import weights_in
from viewlet.engine.values.batching import plain_values
from viewlet.engine.values.strings import Dictionary
from viewlet.program.ir import View
from viewlet.schema import Physical, Scalar
from viewlet.storage.columns import Array, KeyField, Layout
from viewlet.storage.memory import float_bits
from viewlet.storage.pool import Pool
from viewlet.storage.touched import count_change, count_records, touched_rows


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


@dataclass
class Touched:
    """Records of a view over one map that a batch changed, as words: key, old values, new values.

    Copies: what becomes of the map is nothing to them.
    """

    words: Array
    layout: Layout
    dictionary: Dictionary
    positions: dict[str, int]
    """The value column of each component."""

    def __len__(self) -> int:
        return len(self.words)

    def part(self, low: int, high: int) -> Touched:
        """The records from low up to high."""
        return Touched(self.words[low:high], self.layout, self.dictionary, self.positions)

    def changed(self) -> Changed:
        """The same as columns."""
        keys: list[Array] = []
        nulls: list[Array | None] = []
        for field, word in zip(self.layout.keys, self.layout.key_words, strict=True):
            words = np.ascontiguousarray(self.words[:, word])
            keys.append(key_values(field, words, self.dictionary))
            gaps = self.words[:, word + 1] != 0 if field.nullable else None
            nulls.append(gaps if gaps is not None and gaps.any() else None)
        return Changed(keys, nulls, self._values(0), self._values(self.layout.value_width))

    def _values(self, shift: int) -> dict[str, Array]:
        values = {}
        for name, position in self.positions.items():
            words = self.layout.value_slice(position)
            cells = np.ascontiguousarray(self.words[:, words.start + shift : words.stop + shift])
            values[name] = self.layout.values_in(position, cells)
        return values

    def one(self) -> tuple[Key, dict[str, Scalar]]:
        """The first record: its key, and the first values."""
        words = self.words[0].tolist()
        return self._key(words), self._plain_values(self.words[0], words, 0)

    def plain(self) -> Iterator[tuple[Key, dict[str, Scalar], dict[str, Scalar]]]:
        """Of a few records: the key, and the values of the components before and after."""
        width = self.layout.value_width
        for row in self.words:
            words = row.tolist()
            before, after = (self._plain_values(row, words, shift) for shift in (0, width))
            yield self._key(words), before, after

    def _key(self, words: list[int]) -> Key:
        return tuple(
            None if field.nullable and words[word + 1] else self._key_value(field, words[word])
            for field, word in zip(self.layout.keys, self.layout.key_words, strict=True)
        )

    def _key_value(self, field: KeyField, word: int) -> Scalar:
        if field.physical is Physical.STR:
            return self.dictionary.strings[word]
        if field.physical is Physical.FLOAT:
            (value,) = plain_values(np.array([word]).view(np.float64), None)
            return value
        return bool(word) if field.physical is Physical.BOOL else word

    def _plain_values(self, row: Array, words: list[int], shift: int) -> dict[str, Scalar]:
        values: dict[str, Scalar] = {}
        for name, position in self.positions.items():
            cells = self.layout.value_slice(position)
            value: Scalar = words[cells.start + shift]
            if self.layout.values[position] is Physical.FLOAT:
                element = row[np.newaxis, cells.start + shift : cells.stop + shift]
                (value,) = plain_values(self.layout.values_in(position, element), None)
            values[name] = value
        return values


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

    def is_over_one_map(self, view: View) -> bool:
        """Whether all components of a view are columns of one map."""
        return len({map for _, map, _ in view.sources}) == 1

    def touched(self, view: View) -> Touched | None:
        """What the last batch changed, of a view over one map; None for other views."""
        if not self.is_over_one_map(view):
            return None
        return self._as_touched(view, touched_rows(self._host.pools[_count_map(view)]))

    def _as_touched(self, view: View, words: Array) -> Touched:
        map = _count_map(view)
        positions = {name: self.position(map, column) for name, _, column in view.sources}
        layout = self._host.pools[map].layout
        return Touched(words, layout, self._host.dictionary, positions)

    def changed_most(self, view: View) -> int:
        """How many records of a map of the view the last batch touched, at most."""
        return max(len(self._host.pools[map].logged()) for _, map, _ in view.sources)

    def find_plain(
        self, view: View, key: tuple[Scalar, ...]
    ) -> tuple[Key, dict[str, Scalar]] | None:
        """The record with this key of a view over one map: key and components; None if none is."""
        pool = self._host.pools[_count_map(view)]
        full = self._full_key(view, key)
        record = -1 if full is None else int(pool.find(full)[0])
        if record < 0:
            return None
        words = pool.table()[record : record + 1, : pool.layout.row_width]
        return self._as_touched(view, words).one()

    def count(self, view: View) -> int:
        """How many records are there."""
        pool, words = self._count_words(view)
        return int(count_records(pool.address, pool.used, words.start, words.stop - words.start))

    def count_change(self, view: View) -> int:
        """How many more are there than before the last batch; O(batch)."""
        pool, words = self._count_words(view)
        return int(count_change(pool.address, words.start, words.stop - words.start))

    def _count_words(self, view: View) -> tuple[Pool, slice]:
        map, column = next((map, c) for name, map, c in view.sources if name == COUNT)
        pool = self._host.pools[map]
        return pool, pool.layout.value_slice(self.position(map, column))

    def find(self, view: View, key: tuple[Scalar, ...]) -> Records | None:
        """The record of a view with this key, None if it is surely not there."""
        full = self._full_key(view, key)
        if full is None:
            return None
        keys, nulls = self._decoded(view, full)
        components = {
            name: self._values(map, self.position(map, column), self._host.pools[map].find(full))
            for name, map, column in view.sources
        }
        return Records(keys, nulls, components)

    def _full_key(self, view: View, key: tuple[Scalar, ...]) -> Array | None:
        """A key as words; None if it has a string that no record has."""
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
        return full

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
