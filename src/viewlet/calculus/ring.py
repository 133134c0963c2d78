"""Generalized multiset relations: key tuple -> non-zero weight (thesis 2.2.1).

Weights are int, or Fraction where a DOUBLE takes part, so that sums which go up and down come back
exactly. Infinities and NaNs are no numbers that could be taken away again; they are counted beside
the number, in an Unbounded. A weight becomes a value again through `to_value`, rounded once:

    SUM{1, 2.5, inf, -1 * inf}  =  3.5            SUM{1, 2.5, inf}  =  3.5 and one inf  ->  inf

A product with a number of rows counts them as often. A product of two DOUBLEs, of which one is not
finite, is NaN here: the frontend keeps products of DOUBLEs inside of values, where IEEE 754 rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from viewlet.schema import NAN, Scalar


@dataclass(frozen=True)
class Unbounded:
    """An exact number, and how many inf, -inf and NaN stand beside it; not all of these are 0."""

    number: Fraction
    above: int = 0
    below: int = 0
    nans: int = 0

    def __add__(self, other: Weight) -> Weight:
        if not isinstance(other, Unbounded):
            return Unbounded(self.number + other, self.above, self.below, self.nans)
        return _counted(
            self.number + other.number,
            self.above + other.above,
            self.below + other.below,
            self.nans + other.nans,
        )

    def __mul__(self, other: Weight) -> Weight:
        if isinstance(other, int):
            return _counted(
                self.number * other, self.above * other, self.below * other, self.nans * other
            )
        return Unbounded(Fraction(0), nans=1)

    __radd__ = __add__
    __rmul__ = __mul__

    def __float__(self) -> float:
        if self.nans or (self.above and self.below):
            return NAN
        return math.inf if self.above else -math.inf


Weight = int | Fraction | Unbounded

Key = tuple[Scalar, ...]


def _counted(number: Fraction, above: int, below: int, nans: int) -> Weight:
    return Unbounded(number, above, below, nans) if above or below or nans else number


def to_weight(value: Scalar) -> Weight:
    """A number as a weight; NULL weighs nothing."""
    if value is None:
        return 0
    if isinstance(value, float):
        if math.isfinite(value):
            return Fraction(value)
        kinds = (value == math.inf, value == -math.inf, value != value)
        return Unbounded(Fraction(0), *map(int, kinds))
    if isinstance(value, str):
        raise TypeError(f"{value!r} is not a weight")
    return int(value)


def to_value(weight: Weight) -> Scalar:
    """A weight as a value: exact numbers stay int, all others round once, to float."""
    if isinstance(weight, int):
        return weight
    try:
        return float(weight) + 0.0
    except OverflowError:
        assert isinstance(weight, Fraction)
        return math.inf if weight > 0 else -math.inf


def multiplicity(weight: Weight) -> int:
    """How often a row is there: the weights of relations are whole numbers."""
    if isinstance(weight, Unbounded):
        raise TypeError(f"{weight} does not count rows")
    return int(weight)


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
        """Every key that has a weight, in no order that means anything."""
        return iter(self._weights.items())

    def copy(self) -> Gmr:
        """The same weights, to be changed on their own."""
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
        """Every weight becomes 0."""
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
