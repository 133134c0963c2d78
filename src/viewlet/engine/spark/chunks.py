"""What crosses between nodes: batches as columns and relations as rows of words, with their texts.

Nodes have dictionaries of their own, so codes do not travel: a column of strings is sent as numbers
into a list of the distinct strings of that chunk, and the receiver looks each of these up once.
Everything else travels as the raw words that both sides keep in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from viewlet.distributed.location import NULL_WORD, SPREAD
from viewlet.engine.partitions.packing import pack, unpack
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.strings import Dictionary
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
    """All that one node sends another at once.

    `origin`: trigger and job, for the driver. `problem`: the error that rows of a DataFrame made,
    as worker.problem_of gives it; the receiver raises it.
    """

    rows: list[Rows] = field(default_factory=list)
    columns: list[Columns] = field(default_factory=list)
    origin: tuple[int, int] | None = None
    problem: bytes | None = None

    def pack(self) -> bytes:
        """As bytes; integers in as few bytes as they need."""
        rows = [(r.target, r.words.shape, r.words.tobytes(), r.texts) for r in self.rows]
        columns = [
            (c.relation, [_narrowed(part) for part in c.columns], c.nulls, _narrow(c.weights))
            for c in self.columns
        ]
        return pack((rows, columns, self.origin, self.problem))

    @classmethod
    def unpack(cls, data: bytes) -> Message:
        """The reverse of pack."""
        rows, columns, origin, problem = unpack(data)
        return cls(
            [
                Rows(target, np.frombuffer(words, np.int64).reshape(shape), texts)
                for target, shape, words, texts in rows
            ],
            [
                Columns(relation, [_widened(part) for part in parts], nulls, _wide(weights))
                for relation, parts, nulls, weights in columns
            ],
            origin,
            problem,
        )


def _narrow(values: Array) -> tuple[Array, str, int]:
    """Values -> (as few bytes as hold them, their type, how many).

    Every byte is copied four times on its way, hashed and logged; weights are mostly all the same.
    """
    kind, count = values.dtype.str, len(values)
    if not count or values.dtype.kind != "i":
        return values, kind, count
    low, high = int(values.min()), int(values.max())
    if low == high:
        return values[:1].copy(), kind, count
    for small in (np.int8, np.int16, np.int32):
        if values.itemsize > np.dtype(small).itemsize:
            limits = np.iinfo(small)
            if limits.min <= low and high <= limits.max:
                return values.astype(small), kind, count
    return values, kind, count


def _wide(sent: tuple[Array, str, int]) -> Array:
    values, kind, count = sent
    if len(values) != count:
        return np.full(count, values[0], kind)
    return values.astype(kind, copy=False)


def _narrowed(column: Any) -> Any:
    """An array, numbers with their strings, or None; all that `Columns` may hold."""
    if column is None:
        return None
    numbers, texts = column if isinstance(column, tuple) else (column, None)
    return _narrow(np.asarray(numbers)), texts


def _widened(sent: Any) -> Any:
    if sent is None:
        return None
    numbers, texts = sent
    return _wide(numbers) if texts is None else (_wide(numbers), texts)


# --- rows of maps ---------------------------------------------------------------------------------


def text_words(layout: Layout) -> list[int]:
    """The words of a record that hold codes of strings."""
    return [
        word
        for field_, word in zip(layout.keys, layout.key_words, strict=True)
        if field_.physical is Physical.STR
    ]


def with_texts(target: str, words: Array, layout: Layout, strings: Sequence[str | None]) -> Rows:
    """Rows with a node's own codes -> rows that any node can read."""
    texts: dict[int, list[str | None]] = {}
    code_words = text_words(layout)
    if code_words:
        words = words.copy()
    for word in code_words:
        words[:, word], texts[word] = numbered(words[:, word], strings)
    return Rows(target, words, texts)


def numbered(codes: Array, strings: Sequence[str | None]) -> tuple[Array, list[str | None]]:
    """Codes of a node's dictionary -> numbers into a list of the strings that they mean."""
    if len(codes) * _SPARSE < len(strings):
        used, numbers = np.unique(codes, return_inverse=True)
    else:
        is_used = np.zeros(len(strings), bool)
        is_used[codes] = True
        used = np.flatnonzero(is_used)
        numbers = (np.cumsum(is_used) - 1)[codes]
    return numbers, [strings[code] for code in used.tolist()]


_SPARSE = 8  # strings per code from which sorting the codes is cheaper than a pass over all strings


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


def coded_columns(
    relation: Relation, batch: Batch, used: Iterable[int], strings: Sequence[str | None]
) -> Columns:
    """The same for a batch with codes of a dictionary of these strings."""
    columns: list[Any] = [None] * len(relation.columns)
    nulls: list[Array | None] = [None] * len(relation.columns)
    for i in used:
        nulls[i] = batch.nulls[i]
        columns[i] = batch.columns[i]
        if relation.columns[i].type.physical is Physical.STR:
            numbers, texts = numbered(columns[i], strings)
            columns[i] = numbers.astype(np.int32), texts
    return Columns(relation.name, columns, nulls, batch.weights)


def distinct(values: Array) -> tuple[Array, list[str | None]]:
    """Strings -> numbers into a list of the distinct ones; 0 is NULL."""
    import pyarrow as pa

    encoded = pa.array(values, pa.string(), from_pandas=True).dictionary_encode()
    numbers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32) + 1
    return numbers, [None, *encoded.dictionary.to_pylist()]


def spread(columns: Columns, table: Relation | None, nodes: int) -> list[Columns]:
    """A batch over nodes: the rows of a table by its key or all columns, others in equal shares."""
    if nodes == 1:
        return [columns]
    if table is None:
        bounds = np.linspace(0, len(columns.weights), nodes + 1).astype(np.int64)
        slices = [slice(low, high) for low, high in pairwise(bounds.tolist())]
        return [_row_subset(columns, part) for part in slices]
    mixed = np.zeros(len(columns.weights), np.uint64)
    for name in table.key or table.names:
        mixed = _mixed(mixed, _column_hashes(columns, table.names.index(name), table))
    node_numbers = mixed % np.uint64(nodes)
    return [_row_subset(columns, np.flatnonzero(node_numbers == node)) for node in range(nodes)]


def _column_hashes(columns: Columns, i: int, relation: Relation) -> Array:
    column = columns.columns[i]
    if isinstance(column, tuple):
        numbers, texts = column
        text_hashes = [NULL_WORD if text is None else zlib.crc32(text.encode()) for text in texts]
        return np.array(text_hashes, np.uint64)[numbers]
    real = relation.columns[i].type.physical is Physical.FLOAT
    words = np.ascontiguousarray(column, np.float64 if real else np.int64).view(np.int64)
    hashed = _hash_words(words, relation.columns[i].type.physical, words)
    gaps = columns.nulls[i]
    if gaps is None:
        return hashed
    return np.where(np.asarray(gaps, bool), np.uint64(NULL_WORD), hashed)


def _row_subset(columns: Columns, rows: Any) -> Columns:
    """Some rows; they take along only the strings that they use."""
    return Columns(
        columns.relation,
        [_part(column, rows) for column in columns.columns],
        [None if gaps is None else gaps[rows] for gaps in columns.nulls],
        columns.weights[rows],
    )


def _part(column: Any, rows: Any) -> Any:
    if not isinstance(column, tuple):
        return None if column is None else column[rows]
    numbers, texts = column[0][rows], column[1]
    if len(texts) <= _FEW:
        return numbers, texts
    used, numbers = np.unique(numbers, return_inverse=True)
    return numbers.astype(np.int32), [texts[number] for number in used.tolist()]


_FEW = 64  # strings: so few are sent whole, whether they are used or not


def received_batch(
    parts: Sequence[Columns], dictionary: Dictionary, used: frozenset[int] | None = None
) -> Batch:
    """The parts of one relation's batch that came here, with this node's codes."""
    coded = [_coded(part, dictionary, used) for part in parts]
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


def _coded(part: Columns, dictionary: Dictionary, used: frozenset[int] | None) -> Batch:
    columns: list[Any] = []
    for i, column in enumerate(part.columns):
        if used is not None and i not in used:
            columns.append(None)
        elif isinstance(column, tuple):
            numbers, texts = column
            codes = np.fromiter((dictionary.code(text) for text in texts), np.int64, len(texts))
            columns.append(codes[numbers])
        else:
            columns.append(column)
    return Batch(columns, part.nulls, part.weights, coded=True)


def plain_batch(parts: Sequence[Columns]) -> Batch:
    """Parts of a relation, all of its columns, as one batch with strings as they are."""
    dictionary = Dictionary()
    batch = received_batch(parts, dictionary)
    for i, column in enumerate(parts[0].columns):
        if isinstance(column, tuple):
            batch.columns[i] = dictionary.decode(batch.columns[i])
    return Batch(batch.columns, batch.nulls, batch.weights)


# --- routing --------------------------------------------------------------------------------------


class TextHashes:
    """The hash words of a dictionary's strings by code, each computed once."""

    def __init__(self) -> None:
        self._words: Array = np.zeros(1, np.uint64)

    def of(self, dictionary: Dictionary) -> Array:
        """The hash of every string of a dictionary, by code; only new strings are hashed."""
        hashed_count = len(self._words)
        if hashed_count < len(dictionary):
            new_hashes = [
                zlib.crc32(text.encode()) for text in dictionary.strings[hashed_count:] if text
            ]
            if len(new_hashes) != len(dictionary) - hashed_count:  # the empty string is falsy
                new_hashes = [
                    zlib.crc32((text or "").encode()) for text in dictionary.strings[hashed_count:]
                ]
            self._words = np.append(self._words, np.array(new_hashes, np.uint64))
            self._words[0] = NULL_WORD
        return self._words


def nodes_of(words: Array, layout: Layout, by: Sequence[int], nodes: int, texts: Array) -> Array:
    """`distributed.location.node_of` for the key columns `by` of many rows at once."""
    mixed = np.zeros(len(words), np.uint64)
    for key in by:
        at = layout.key_words[key]
        column = np.ascontiguousarray(words[:, at])
        hashed = _hash_words(column, layout.keys[key].physical, texts)
        if layout.keys[key].nullable:
            hashed = np.where(words[:, at + 1] != 0, np.uint64(NULL_WORD), hashed)
        mixed = _mixed(mixed, hashed)
    return (mixed % np.uint64(nodes)).astype(np.int64)


def _mixed(seed: Array, words: Array) -> Array:
    mixed = (seed ^ words) * np.uint64(SPREAD)
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))


def _hash_words(column: Array, physical: Physical, texts: Array) -> Array:
    if physical is Physical.STR:
        return np.asarray(texts[column])
    if physical is not Physical.FLOAT:
        return column.view(np.uint64)
    values = column.view(np.float64)
    is_integer = (np.floor(values) == values) & (np.abs(values) < 2.0**63)
    integers = np.where(is_integer, values, 0.0).astype(np.int64)
    return np.asarray(np.where(is_integer, integers, column).view(np.uint64))


def split(words: Array, node_numbers: Array, nodes: int) -> list[tuple[int, Array]]:
    """Rows by the node that each belongs to; nodes that get none are left out."""
    if nodes == 1:
        return [(0, words)] if len(words) else []
    order = np.argsort(node_numbers, kind="stable")
    bounds = np.searchsorted(node_numbers[order], np.arange(nodes + 1))
    return [
        (node, words[order[low:high]])
        for node, (low, high) in enumerate(pairwise(bounds.tolist()))
        if high > low
    ]
