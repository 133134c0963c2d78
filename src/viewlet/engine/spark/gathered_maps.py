"""Maps read from many nodes: their rows brought rows_by_map, and a view's records made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from viewlet.calculus.database import Atoms
from viewlet.calculus.query import COUNT, ViewKind
from viewlet.calculus.ring import Gmr, Key
from viewlet.engine.host.map_words import weights_in
from viewlet.engine.host.records import key_values
from viewlet.engine.spark.chunks import Rows, with_codes
from viewlet.engine.values.batching import plain_values
from viewlet.engine.values.strings import Dictionary
from viewlet.engine.values.vectors import Vector
from viewlet.program.ir import Map, View
from viewlet.storage.columns import Array, Layout


class Contents:
    """All rows of one map, whatever nodes they came from; strings are codes of `dictionary`."""

    def __init__(self, map: Map, layout: Layout, words: Array, dictionary: Dictionary) -> None:
        self.map = map
        self.layout = layout
        self.words = words
        self.dictionary = dictionary

    @classmethod
    def of(
        cls, map: Map, layout: Layout, parts: Iterable[Rows], dictionary: Dictionary
    ) -> Contents:
        """A map's rows from several partitions, their strings in the driver's codes."""
        coded = [with_codes(part, dictionary) for part in parts]
        width = layout.key_width + layout.value_width
        words = np.concatenate(coded) if coded else np.zeros((0, width), np.int64)
        return cls(map, layout, words, dictionary)

    def __len__(self) -> int:
        return len(self.words)

    def keys(self) -> list[Vector]:
        """The key columns, decoded."""
        columns = []
        for field, word in zip(self.layout.keys, self.layout.key_words, strict=True):
            words = np.ascontiguousarray(self.words[:, word])
            gaps = self.words[:, word + 1] != 0 if field.nullable else None
            columns.append(Vector(key_values(field, words, self.dictionary), gaps))
        return columns

    def value(self, column: str) -> Array:
        """One value column; a sum of DOUBLE rounded once."""
        return self.layout.values_in(*self._position_and_words(column))

    def _position_and_words(self, column: str) -> tuple[int, Array]:
        position = [c.name for c in self.map.columns].index(column)
        return position, self.words[:, self.layout.value_slice(position)]

    def key_rows(self) -> list[Key]:
        """The keys as rows of values."""
        columns = [plain_values(vector.values, vector.nulls) for vector in self.keys()]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self)

    def weights(self, column: str) -> Gmr:
        """One value column as a weighted relation."""
        weights = weights_in(self.layout, *self._position_and_words(column))
        return Gmr(zip(self.key_rows(), weights, strict=True))


def database_of(contents: Mapping[str, Contents]) -> Atoms:
    """Some maps' contents for a view's lets; each column is decoded once."""
    return Atoms(
        maps=cache(lambda map, column: contents[map].weights(column)),
        columns=lambda map: [column.name for column in contents[map].map.columns],
    )


def records(view: View, contents: Mapping[str, Contents]) -> tuple[list[Vector], dict[str, Array]]:
    """A view's keys and components; a TOTAL view has one record, if only virtually."""
    sources = {name: (map, column) for name, map, column in view.sources}
    if view.query.kind is ViewKind.TOTAL:
        return [], {name: _only(contents[map], c) for name, (map, c) in sources.items()}
    first = contents[sources[COUNT][0]]
    components: dict[str, Array] = {}
    for name, (map, column) in sources.items():
        values = contents[map].value(column)
        if map != first.map.name:
            matching = _matching(first, contents[map])
            values = np.append(values, np.zeros(1, values.dtype))[matching]
        components[name] = values
    return first.keys(), components


def _only(contents: Contents, column: str) -> Array:
    value = contents.value(column)[:1]
    return value if len(value) else np.zeros(1, value.dtype)


def _matching(mine: Contents, other: Contents) -> Array:
    """For each row of `mine` the number of the other's row with its key; if none, their count."""
    width = mine.layout.key_width
    theirs = np.ascontiguousarray(other.words[:, :width])
    numbers = {row.tobytes(): i for i, row in enumerate(theirs)}
    rows = np.ascontiguousarray(mine.words[:, :width])
    return np.fromiter((numbers.get(r.tobytes(), len(theirs)) for r in rows), np.int64, len(rows))


def by_target(messages: Sequence[Any]) -> dict[str, list[Rows]]:
    """The rows of all messages by map."""
    rows_by_map: dict[str, list[Rows]] = {}
    for message in messages:
        for rows in message.rows:
            rows_by_map.setdefault(rows.target, []).append(rows)
    return rows_by_map
