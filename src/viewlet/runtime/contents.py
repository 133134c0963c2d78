"""Maps read from many nodes: their rows brought together, and a view's records made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.calculus.expr import PRESENCE, Delta, MapRef, Rel, walk
from viewlet.calculus.query import COUNT, ViewKind
from viewlet.calculus.ring import Gmr, Key, to_weight
from viewlet.errors import ProgramError
from viewlet.program.ir import Map, View
from viewlet.runtime.chunks import Rows, with_codes
from viewlet.runtime.strings import Dictionary
from viewlet.runtime.vectors import Vector
from viewlet.schema import Physical
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
        coded = [with_codes(part, dictionary) for part in parts]
        width = layout.key_width + layout.value_width
        words = np.concatenate(coded) if coded else np.zeros((0, width), np.int64)
        return cls(map, layout, words, dictionary)

    def __len__(self) -> int:
        return len(self.words)

    def keys(self) -> list[Vector]:
        """The key columns, decoded."""
        found = []
        for field, word in zip(self.layout.keys, self.layout.key_words, strict=True):
            values = np.ascontiguousarray(self.words[:, word])
            if field.physical is Physical.STR:
                values = self.dictionary.decode(values)
            elif field.physical is Physical.FLOAT:
                values = values.view(np.float64)
            elif field.physical is Physical.BOOL:
                values = values.astype(bool)
            gaps = self.words[:, word + 1] != 0 if field.nullable else None
            found.append(Vector(values, gaps))
        return found

    def value(self, column: str) -> Array:
        """One value column; a float pair rounded once."""
        place = [c.name for c in self.map.columns].index(column)
        values = np.ascontiguousarray(self.words[:, self.layout.value_words[place]])
        real = self.layout.values[place] is Physical.FLOAT
        return values.view(np.float64) if real else values

    def key_rows(self) -> list[Key]:
        columns = []
        for vector in self.keys():
            plain = vector.values.tolist()
            if vector.nulls is not None:
                gaps = vector.nulls.tolist()
                plain = [None if gap else v for v, gap in zip(plain, gaps, strict=True)]
            columns.append(plain)
        return list(zip(*columns, strict=True)) if columns else [()] * len(self)

    def gmr(self, column: str) -> Gmr:
        rows = self.key_rows()
        if column == PRESENCE:
            return Gmr((row, 1) for row in rows)
        values = self.value(column).tolist()
        return Gmr((row, to_weight(v)) for row, v in zip(rows, values, strict=True) if v)


class MapsRead:
    """Some maps' contents as the database that a view's lets or a definition ask."""

    def __init__(self, contents: Mapping[str, Contents]) -> None:
        self._contents = contents
        self._known: dict[tuple[str, str], Gmr] = {}

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if not isinstance(atom, MapRef):
            raise ProgramError(f"a view reads {atom.name}, which is no map")
        place = (atom.name, atom.column)
        if place not in self._known:
            self._known[place] = self._contents[atom.name].gmr(atom.column)
        return self._known[place]


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
            places = _matching(first, contents[map])
            values = np.append(values, np.zeros(1, values.dtype))[places]
        components[name] = values
    return first.keys(), components


def _only(contents: Contents, column: str) -> Array:
    value = contents.value(column)[:1]
    return value if len(value) else np.zeros(1, value.dtype)


def _matching(mine: Contents, other: Contents) -> Array:
    """For each of my rows the other's row with the same key; the one behind its last if none."""
    width = mine.layout.key_width
    theirs = np.ascontiguousarray(other.words[:, :width])
    places = {row.tobytes(): i for i, row in enumerate(theirs)}
    rows = np.ascontiguousarray(mine.words[:, :width])
    return np.fromiter((places.get(r.tobytes(), len(theirs)) for r in rows), np.int64, len(rows))


def maps_of_view(view: View) -> set[str]:
    """The maps that a view's rows are made of."""
    found = {map for _, map, _ in view.sources}
    return found | {n.name for let in view.query.lets for n in walk(let) if isinstance(n, MapRef)}


def by_target(messages: Sequence[Any]) -> dict[str, list[Rows]]:
    """Rows of all answers, together by map."""
    found: dict[str, list[Rows]] = {}
    for message in messages:
        for rows in message.rows:
            found.setdefault(rows.target, []).append(rows)
    return found
