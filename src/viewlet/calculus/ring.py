"""Generalised multiset relations: key tuple -> non-zero weight (thesis 2.2.1).

Weights are int, or Fraction where a DOUBLE takes part, so that sums which go up and down come back
exactly: the slow definitions must not drift. A weight becomes a value again through `to_value`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from viewlet.schema import Scalar

Weight = int | Fraction | float
"""float only for the values that no fraction can hold: infinities and NaN."""

Key = tuple[Scalar, ...]


def to_weight(value: Scalar) -> Weight:
    """A number as a weight; NULL weighs nothing."""
    if value is None:
        return 0
    if isinstance(value, float):
        return Fraction(value) if math.isfinite(value) else value
    if isinstance(value, str):
        raise TypeError(f"{value!r} is not a weight")
    return int(value)


def to_value(weight: Weight) -> Scalar:
    """A weight as a value: exact numbers stay int, all others round once, to float."""
    return weight if isinstance(weight, int) else float(weight)


class Gmr:
    """A finite map from key tuples to non-zero weights, with slices on any set of positions.

    Slices are answered from indexes that are made at the first use of a set of positions and kept
    up to date by `add`.
    """

    def __init__(self, items: Iterable[tuple[Key, Weight]] = ()) -> None:
        self._weights: dict[Key, Weight] = {}
        self._indexes: dict[tuple[int, ...], dict[Key, dict[Key, None]]] = {}
        for key, weight in items:
            self.add(key, weight)

    def __len__(self) -> int:
        return len(self._weights)

    def __getitem__(self, key: Key) -> Weight:
        return self._weights.get(key, 0)

    def __contains__(self, key: Key) -> bool:
        return key in self._weights

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gmr) and self._weights == other._weights

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Gmr({self._weights!r})"

    def items(self) -> Iterator[tuple[Key, Weight]]:
        return iter(self._weights.items())

    def copy(self) -> Gmr:
        twin = Gmr()
        twin._weights = dict(self._weights)
        return twin

    def add(self, key: Key, weight: Weight) -> None:
        """key -> old weight + weight, gone when that is zero."""
        if weight == 0:
            return
        old = self._weights.get(key)
        if old is None:
            self._weights[key] = weight
            for positions, index in self._indexes.items():
                index.setdefault(tuple(key[p] for p in positions), {})[key] = None
            return
        new = old + weight
        if new != 0:
            self._weights[key] = new
            return
        del self._weights[key]
        for positions, index in self._indexes.items():
            part = tuple(key[p] for p in positions)
            index[part].pop(key)
            if not index[part]:
                del index[part]

    def clear(self) -> None:
        self._weights.clear()
        self._indexes.clear()

    def slice(self, positions: tuple[int, ...], part: Key) -> Iterator[tuple[Key, Weight]]:
        """The items whose key has `part` at `positions`."""
        if not positions:
            yield from list(self._weights.items())
            return
        index = self._indexes.get(positions)
        if index is None:
            index = {}
            for key in self._weights:
                index.setdefault(tuple(key[p] for p in positions), {})[key] = None
            self._indexes[positions] = index
        for key in list(index.get(part, ())):
            yield key, self._weights[key]
