"""What crosses between nodes: batches as columns and relations as rows of words, with their texts.

Nodes have dictionaries of their own, so codes do not travel: a column of strings is sent as numbers
into a list of the distinct strings of that chunk, 0 for NULL. The receiver looks each distinct string
up once. Everything else travels as the raw words that both sides keep in memory.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.distributed.location import NULL_WORD, SPREAD
from viewlet.runtime.batching import Batch
from viewlet.runtime.strings import Dictionary
from viewlet.schema import Physical, Relation
from viewlet.storage.columns import Array, Layout


@dataclass
class Rows:
    """Rows of one relation as words; texts[w] are the strings that the numbers in word w mean."""

    target: str
    words: Array
    texts: dict[int, list[str | None]] = field(default_factory=dict)


@dataclass
class Columns:
    """A relation's part of a batch: None for columns that no kernel reads."""

    relation: str
    columns: list[Any]  # an array, (array of numbers, list of strings), or None
    nulls: list[Array | None]
    weights: Array


@dataclass
class Message:
    """All that one node sends another at once. `origin`: trigger and job, for the driver."""

    rows: list[Rows] = field(default_factory=list)
    columns: list[Columns] = field(default_factory=list)
    origin: tuple[int, int] | None = None

    def pack(self) -> bytes:
        rows = [(r.target, r.words.shape, r.words.tobytes(), r.texts) for r in self.rows]
        columns = [(c.relation, c.columns, c.nulls, c.weights) for c in self.columns]
        return pickle.dumps((rows, columns, self.origin), protocol=5)

    @classmethod
    def unpack(cls, data: bytes) -> Message:
        rows, columns, origin = pickle.loads(data)
        return cls(
            [
                Rows(target, np.frombuffer(words, np.int64).reshape(shape), texts)
                for target, shape, words, texts in rows
            ],
            [Columns(*parts) for parts in columns],
            origin,
        )


# --- rows of maps ---------------------------------------------------------------------------------


def text_words(layout: Layout) -> list[int]:
    """The words of a record that hold codes of strings."""
    return [
        word
        for field_, word in zip(layout.keys, layout.key_words, strict=True)
        if field_.physical is Physical.STR
    ]


def with_texts(
    target: str, words: Array, layout: Layout, strings: Sequence[str | None]
) -> Rows:
    """Rows with a node's own codes -> rows that any node can read."""
    texts: dict[int, list[str | None]] = {}
    places = text_words(layout)
    if places:
        words = words.copy()
    for word in places:
        codes, numbers = np.unique(words[:, word], return_inverse=True)
        found = [strings[code] for code in codes.tolist()]
        words[:, word] = numbers
        texts[word] = found
    return Rows(target, words, texts)


def with_codes(rows: Rows, dictionary: Dictionary) -> Array:
    """The same rows with the codes of this node's dictionary."""
    if not rows.texts:
        return rows.words
    words = rows.words.copy()
    for word, texts in rows.texts.items():
        codes = np.fromiter((dictionary.code(text) for text in texts), np.int64, len(texts))
        words[:, word] = codes[words[:, word]] if len(texts) else 0
    return words


# --- batches --------------------------------------------------------------------------------------


def batch_columns(relation: Relation, batch: Batch, used: Iterable[int]) -> Columns:
    """The columns of a batch that kernels read, with strings as numbers into distinct ones."""
    columns: list[Any] = [None] * len(relation.columns)
    nulls: list[Array | None] = [None] * len(relation.columns)
    for i in used:
        values = batch.columns[i]
        nulls[i] = batch.nulls[i]
        if relation.columns[i].type.physical is Physical.STR:
            columns[i] = distinct(values)
        else:
            columns[i] = values
    return Columns(relation.name, columns, nulls, batch.weights)


def distinct(values: Array) -> tuple[Array, list[str | None]]:
    """Strings -> numbers into a list of the distinct ones; 0 is NULL."""
    import pyarrow as pa

    found = pa.array(values, pa.string(), from_pandas=True).dictionary_encode()
    numbers = found.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32) + 1
    return numbers, [None, *found.dictionary.to_pylist()]


def parts_of(columns: Columns, count: int) -> list[Columns]:
    """About equal slices; each takes along only the strings that it uses."""
    bounds = np.linspace(0, len(columns.weights), count + 1).astype(np.int64)
    return [
        Columns(
            columns.relation,
            [_sliced(column, low, high) for column in columns.columns],
            [None if n is None else n[low:high] for n in columns.nulls],
            columns.weights[low:high],
        )
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]


def _sliced(column: Any, low: int, high: int) -> Any:
    if not isinstance(column, tuple):
        return None if column is None else column[low:high]
    numbers, texts = column[0][low:high], column[1]
    if len(texts) <= 64:
        return numbers, texts
    used, numbers = np.unique(numbers, return_inverse=True)
    return numbers.astype(np.int32), [texts[number] for number in used.tolist()]


def received_batch(parts: Sequence[Columns], dictionary: Dictionary) -> Batch:
    """The parts of one relation's batch that came here, with this node's codes."""
    coded = [_coded(part, dictionary) for part in parts]
    if len(coded) == 1:
        return coded[0]
    columns: list[Any] = []
    nulls: list[Array | None] = []
    for i in range(len(coded[0].columns)):
        same = [part.columns[i] for part in coded]
        columns.append(None if same[0] is None else np.concatenate(same))
        gaps = [part.nulls[i] for part in coded]
        if all(gap is None for gap in gaps):
            nulls.append(None)
        else:
            nulls.append(
                np.concatenate(
                    [
                        np.zeros(len(part), np.uint8) if gap is None else gap
                        for part, gap in zip(coded, gaps, strict=True)
                    ]
                )
            )
    return Batch(columns, nulls, np.concatenate([part.weights for part in coded]), coded=True)


def _coded(part: Columns, dictionary: Dictionary) -> Batch:
    columns: list[Any] = []
    for column in part.columns:
        if isinstance(column, tuple):
            numbers, texts = column
            codes = np.fromiter((dictionary.code(text) for text in texts), np.int64, len(texts))
            columns.append(codes[numbers])
        else:
            columns.append(column)
    return Batch(columns, part.nulls, part.weights, coded=True)


# --- routing --------------------------------------------------------------------------------------


class TextHashes:
    """The hash words of a dictionary's strings by code, each computed once."""

    def __init__(self) -> None:
        self._words: Array = np.zeros(1, np.uint64)

    def of(self, dictionary: Dictionary) -> Array:
        known = len(self._words)
        if known < len(dictionary):
            more = [zlib.crc32(text.encode()) for text in dictionary.strings[known:] if text]
            if len(more) != len(dictionary) - known:  # the empty string is falsy
                more = [zlib.crc32((text or "").encode()) for text in dictionary.strings[known:]]
            self._words = np.append(self._words, np.array(more, np.uint64))
            self._words[0] = NULL_WORD
        return self._words


def nodes_of(
    words: Array, layout: Layout, by: Sequence[int], nodes: int, texts: Array
) -> Array:
    """`distributed.location.node_of` for the key columns `by` of many rows at once."""
    mixed = np.zeros(len(words), np.uint64)
    for key in by:
        at = layout.key_words[key]
        column = np.ascontiguousarray(words[:, at])
        hashed = _hash_words(column, layout.keys[key].physical, texts)
        if layout.keys[key].nullable:
            hashed = np.where(words[:, at + 1] != 0, np.uint64(NULL_WORD), hashed)
        mixed = (mixed ^ hashed) * np.uint64(SPREAD)
        mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(nodes)).astype(np.int64)


def _hash_words(column: Array, physical: Physical, texts: Array) -> Array:
    if physical is Physical.STR:
        return np.asarray(texts[column])
    if physical is not Physical.FLOAT:
        return column.view(np.uint64)
    values = column.view(np.float64)
    whole = (np.floor(values) == values) & (np.abs(values) < 2.0**63)
    integers = np.where(whole, values, 0.0).astype(np.int64)
    return np.asarray(np.where(whole, integers, column).view(np.uint64))


def split(words: Array, places: Array, nodes: int) -> list[tuple[int, Array]]:
    """Rows by the node that each belongs to; nodes that get none are left out."""
    if nodes == 1:
        return [(0, words)] if len(words) else []
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(nodes + 1))
    return [
        (node, words[order[low:high]])
        for node, (low, high) in enumerate(zip(bounds[:-1], bounds[1:], strict=True))
        if high > low
    ]
