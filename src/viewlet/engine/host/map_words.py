"""Rows of words for a map, as KernelHost.add takes them: from values, and from another map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from viewlet.calculus.ring import Gmr, Unbounded, Weight, multiplicity
from viewlet.engine.values.strings import Dictionary
from viewlet.schema import Physical, Scalar
from viewlet.storage.columns import Array, KeyField, Layout
from viewlet.storage.element_arrays import number_in, words_of_number
from viewlet.storage.memory import float_bits
from viewlet.storage.pool import Pool


def words_of_values(layout: Layout, position: int, contents: Gmr, texts: Dictionary) -> Array:
    """A weighted relation as rows in which only the value column `position` is not zero."""
    rows = np.zeros((len(contents), layout.row_width), np.int64)
    words = layout.value_slice(position)
    is_float = layout.values[position] is Physical.FLOAT
    for row, (key, weight) in zip(rows, contents.items(), strict=True):
        row[: layout.key_width] = list(_key_words(key, layout.keys, texts)) or 0
        row[words] = words_of_weight(weight) if is_float else multiplicity(weight)
    return rows


def words_of_weight(weight: Weight) -> tuple[int, ...]:
    """A weight as the words of a sum of DOUBLE, without loss where 159 bits hold it."""
    if isinstance(weight, Unbounded):
        return words_of_number(weight.number, weight.above, weight.below, weight.nans)
    return words_of_number(Fraction(weight))


def weights_in(layout: Layout, position: int, words: Array) -> list[Weight]:
    """The inverse for rows of a value column's words."""
    if layout.values[position] is Physical.FLOAT:
        return [_weight_in(row) for row in words]
    integers: list[Weight] = words[:, 0].tolist()
    return integers


def _weight_in(words: Array) -> Weight:
    number, *counts = number_in(words)
    return Unbounded(number, *counts) if any(counts) else number


def _key_words(
    key: tuple[Scalar, ...], fields: tuple[KeyField, ...], texts: Dictionary
) -> Iterator[int]:
    for value, field in zip(key, fields, strict=True):
        if field.physical is Physical.STR:
            yield texts.code(value)  # type: ignore[arg-type]
        elif field.physical is Physical.FLOAT:
            yield float_bits(float(value or 0.0))
        else:
            yield int(value or 0)
        if field.nullable:
            yield int(value is None)


def words_of_map(
    layout: Layout,
    positions: Sequence[int],
    old: Pool,
    old_positions: Sequence[int],
    order: Sequence[int],
    translate: Callable[[Array], Array],
) -> Array:
    """Value columns of another map as rows of this one; sums of DOUBLE keep all their words.

    Key column order[i] there is the i-th here, and value column old_positions[j] there is
    positions[j] here. `translate` gives the codes of strings here for those there.
    """
    table = old.table()
    there = [old.layout.value_slice(position) for position in old_positions]
    values = [table[:, words] for words in there]
    records = np.flatnonzero(np.any([(part != 0).any(axis=1) for part in values], axis=0))
    full = old.full_keys(records)
    rows = np.zeros((len(records), layout.row_width), np.int64)
    for i, (key, word) in enumerate(zip(layout.keys, layout.key_words, strict=True)):
        words = np.ascontiguousarray(full[:, 2 * order[i]])
        rows[:, word] = translate(words) if key.physical is Physical.STR else words
        if key.nullable:
            rows[:, word + 1] = full[:, 2 * order[i] + 1]
    for position, part in zip(positions, values, strict=True):
        rows[:, layout.value_slice(position)] = part[records]
    return rows
