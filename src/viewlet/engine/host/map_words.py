"""Rows of words for a map, as KernelHost.add takes them: from values, and from another map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from viewlet.calculus.ring import Gmr, to_value
from viewlet.engine.values.strings import Dictionary
from viewlet.schema import Physical, Scalar
from viewlet.storage.columns import Array, KeyField, Layout
from viewlet.storage.memory import float_bits
from viewlet.storage.pool import Pool


def words_of_values(layout: Layout, position: int, contents: Gmr, texts: Dictionary) -> Array:
    """A weighted relation as rows in which only the value column `position` is not zero."""
    rows = np.zeros((len(contents), layout.row_width), np.int64)
    word = layout.value_words[position]
    is_float = layout.values[position] is Physical.FLOAT
    for row, (key, weight) in zip(rows, contents.items(), strict=True):
        row[: layout.key_width] = list(_key_words(key, layout.keys, texts)) or 0
        value = to_value(weight)
        row[word] = float_bits(float(value or 0.0)) if is_float else int(value or 0)
    return rows


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
    """Value columns of another map as rows of this one; floats keep their pairs.

    Key column order[i] there is the i-th here, and value column old_positions[j] there is
    positions[j] here. `translate` gives the codes of strings here for those there.
    """
    table = old.table()
    there = [_value_slice(old.layout, position) for position in old_positions]
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
        rows[:, _value_slice(layout, position)] = part[records]
    return rows


def _value_slice(layout: Layout, position: int) -> slice:
    """The words of a value column."""
    bounds = (*layout.value_words, layout.row_width)
    return slice(bounds[position], bounds[position + 1])
