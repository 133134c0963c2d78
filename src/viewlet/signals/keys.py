"""Dense numbers for group keys: a key gets the next slot when it is first seen.

One dictionary serves a whole plan, so that the same key of two sources meets in binary operators.
A key is an integer, a string or a tuple of both; strings have a dictionary of their own, and what
a tuple's parts were coded to is one integer again, which a kernel looks up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.errors import DataError, TypingError
from viewlet.signals.batches import Array
from viewlet.signals.kernels import segments as kernel

_TABLE_LIMIT = 1 << 22  # a lookup table over the range of integer keys pays up to this many entries
_EMPTY = np.empty(0, np.int64)


class IntegerCodes:
    """int64 -> code, by a table over the range while that is small, else by hashing."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.counts: Array | None = None  # rows per code in the last batch, when it has them
        self.values = _EMPTY
        self.code_count = 0
        self.low = 0
        self.table = np.empty(0, np.int32)
        self._hash = np.empty(0, np.int32)

    def encode(self, keys: Array) -> Array:
        """The code of every row, new ones for new keys; `counts` where the lookup has them."""
        codes = np.empty(len(keys), np.int32)
        self.counts = None
        if not len(keys):
            return codes
        if self.learn(keys):
            self.counts = np.zeros(self.code_count, np.int64)
            kernel.look_up(keys, self.low, self.table, codes, self.counts)
            return codes
        # Enough room for the worst case; distinct keys of a batch are far fewer than its rows, so
        # the keys are taken in pieces.
        with np.errstate(over="ignore"):
            for at in range(0, len(keys), 1 << 16):
                piece = keys[at : at + (1 << 16)]
                self._reserve(len(piece))
                self._rehash(self.code_count + len(piece))
                self.code_count = kernel.encode_hashed(
                    piece, self._hash, self.values, self.code_count, codes[at : at + len(piece)]
                )
        return codes

    def learn(self, keys: Array) -> bool:
        """Give every new key its code, in the table; False when their range is too wide for one."""
        if not len(keys):
            return not len(self._hash)
        # A table over the range of the first keys will do unless a later one lies outside.
        for sample in (keys[:4096], keys):
            low, high = (int(edge) for edge in kernel.extent(sample))
            if len(self.table):
                low = min(low, self.low)
                high = max(high, self.low + len(self.table) - 1)
            if high - low >= _TABLE_LIMIT or len(self._hash):
                return False
            self._reserve(min(len(keys), high - low + 1))
            self._retable(low, high)
            code_count = kernel.learn(keys, self.low, self.table, self.code_count, self.values)
            if code_count >= 0:
                self.code_count = code_count
                return True
            self.table = np.empty(0, np.int32)  # holds codes of keys that are not known yet
        return False

    def truncate(self, code_count: int) -> None:
        """Forget the keys that got their code after the first `code_count`."""
        values = self.values[:code_count].copy()
        self._clear()
        self.encode(values)

    def _reserve(self, more: int) -> None:
        if self.code_count + more > len(self.values):
            grown = np.empty(max(self.code_count + more, 2 * len(self.values)), np.int64)
            grown[: self.code_count] = self.values[: self.code_count]
            self.values = grown

    def _retable(self, low: int, high: int) -> None:
        if len(self.table) and low == self.low and high < low + len(self.table):
            return
        self.low = low
        self.table = np.full(high - low + 1, -1, np.int32)
        self.table[self.values[: self.code_count] - low] = np.arange(
            self.code_count, dtype=np.int32
        )

    def _rehash(self, needed: int) -> None:
        if 2 * needed <= len(self._hash):
            return
        size = 1 << (4 * needed).bit_length()
        self._hash = np.full(size, -1, np.int32)
        self.table = np.empty(0, np.int32)
        keys = self.values[: self.code_count].copy()
        if len(keys):
            codes = np.empty(len(keys), np.int32)
            kernel.encode_hashed(keys, self._hash, self.values, 0, codes)


@dataclass(frozen=True)
class Coded:
    """Rows by key without a column of codes: row i has the code table[keys[i] - low].

    A key that is not known has a negative code or lies outside of the table.
    """

    keys: Array
    low: int
    table: Array


class TextCodes:
    """string -> code, by one lookup for each distinct string of a batch."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: Array = np.empty(0, object)

    @property
    def code_count(self) -> int:
        """How many strings have a code."""
        return len(self._codes)

    @property
    def values(self) -> Array:
        """The strings in the order of their codes."""
        if len(self._texts) != len(self._codes):
            self._texts = np.array(list(self._codes), object)
        return self._texts

    def encode(self, keys: Array) -> Array:
        """The code of every row; a string that is new gets the next one."""
        texts = pa.array(keys, pa.string(), from_pandas=True)
        if texts.null_count:
            raise DataError("a key is missing (null)", hint="drop rows without a key first")
        batch = texts.dictionary_encode()
        codes = self._codes
        slots = np.array(
            [codes.setdefault(text, len(codes)) for text in batch.dictionary.to_pylist()], np.int32
        )
        return np.asarray(slots[batch.indices.to_numpy()])

    def truncate(self, code_count: int) -> None:
        """Forget the strings that got their code after the first `code_count`."""
        self._codes = dict(islice(self._codes.items(), code_count))
        self._texts = np.empty(0, object)


class KeyDictionary:
    """Keys of one or several columns -> slots. `kinds` is fixed by the first batch.

    `single` is the dictionary of a query without a key: one signal in slot 0.
    """

    def __init__(self, single: bool = False) -> None:
        self.single = single
        self.kinds: list[str] = []
        self._parts: list[IntegerCodes | TextCodes] = []
        self._pairs: list[IntegerCodes] = []

    def __len__(self) -> int:
        if not self.kinds:
            return int(self.single)
        return (self._pairs[-1] if self._pairs else self._parts[0]).code_count

    def encode(self, columns: list[Array], names: list[str]) -> Array:
        """The slot of every row. New keys get slots in the order of their first appearance."""
        kinds = self._agree(columns, names)
        codes = [
            part.encode(_plain(column, kind))
            for part, column, kind in zip(self._parts, columns, kinds, strict=True)
        ]
        slots = codes[0]
        for pairs, code in zip(self._pairs, codes[1:], strict=True):
            slots = pairs.encode((slots.astype(np.int64) << 32) | code)
        return slots

    def coded(self, columns: list[Array], names: list[str], head: int | None) -> Coded:
        """The slots of all rows as a lookup; integer keys are only learned from the first `head`
        rows (None: from all), so that threads may share the rest of the rows."""
        kinds = self._agree(columns, names)
        only = self._parts[0]
        if len(kinds) == 1 and isinstance(only, IntegerCodes):
            keys = _plain(columns[0], kinds[0])
            if only.learn(keys[:head]):
                return Coded(keys, only.low, only.table)
        codes = self.encode(columns, names)
        return Coded(codes, 0, np.arange(len(self), dtype=np.int32))

    def _agree(self, columns: list[Array], names: list[str]) -> list[str]:
        """The kinds of these key columns, the same in every batch."""
        kinds = [_kind(column, name) for column, name in zip(columns, names, strict=True)]
        if not self.kinds:
            self.kinds = kinds
            self._parts = [TextCodes() if kind == "text" else IntegerCodes() for kind in kinds]
            self._pairs = [IntegerCodes() for _ in kinds[1:]]
        elif len(kinds) != len(self.kinds) or any(
            (a == "text") != (b == "text") for a, b in zip(kinds, self.kinds, strict=True)
        ):
            raise TypingError(
                f"the keys {', '.join(names)} are {', '.join(kinds)}, where this query already "
                f"has keys that are {', '.join(self.kinds)}",
                hint="give all sources keys of the same types, in the same order",
            )
        return kinds

    def count(self, slots: Array) -> Array:
        """How many rows every key has, for the slots that `encode` has just given."""
        only = self._parts[0] if len(self._parts) == 1 else None
        if isinstance(only, IntegerCodes) and only.counts is not None:
            return only.counts[: only.code_count]
        counts = np.zeros(len(self), np.int64)
        kernel.histogram(slots, counts)
        return counts

    def sizes(self) -> list[int]:
        """How many codes each of its parts has, for a rollback to return to."""
        return [part.code_count for part in (*self._parts, *self._pairs)]

    def truncate(self, sizes: list[int]) -> None:
        """Back to the sizes that `sizes()` gave: the keys of a failed batch are forgotten."""
        if not sizes:
            self.kinds, self._parts, self._pairs = [], [], []
            return
        for part, code_count in zip((*self._parts, *self._pairs), sizes, strict=True):
            if part.code_count != code_count:
                part.truncate(code_count)

    def decode(self, slots: Array) -> list[Array]:
        """The key columns of these slots."""
        if not self.kinds:
            return []
        codes: list[Array] = []
        for pairs in reversed(self._pairs):
            packed = pairs.values[slots]
            codes.append(packed & 0xFFFFFFFF)
            slots = packed >> 32
        codes.append(slots)
        out = []
        for part, kind, code in zip(self._parts, self.kinds, reversed(codes), strict=True):
            values = part.values[code]
            out.append(values if kind in ("text", "integer") else values.astype(kind))
        return out

    def dump(self) -> dict[str, Any]:
        """The arrays and kinds that `load` needs."""
        parts = [np.asarray(part.values[: part.code_count]) for part in self._parts]
        texts = [part.astype(str) if part.dtype == object else part for part in parts]
        pairs = [pairs.values[: pairs.code_count] for pairs in self._pairs]
        return {"single": self.single, "kinds": self.kinds, "parts": texts, "pairs": pairs}

    @classmethod
    def load(cls, dumped: dict[str, Any]) -> KeyDictionary:
        """The reverse of dump."""
        self = cls(dumped["single"])
        self.kinds = list(dumped["kinds"])
        self._parts = [TextCodes() if kind == "text" else IntegerCodes() for kind in self.kinds]
        self._pairs = [IntegerCodes() for _ in self.kinds[1:]]
        for part, values in zip(self._parts, dumped["parts"], strict=True):
            part.encode(values.astype(object) if values.dtype.kind == "U" else values)
        for pairs, values in zip(self._pairs, dumped["pairs"], strict=True):
            pairs.encode(values)
        return self


def _kind(column: Array, name: str) -> str:
    if column.dtype.kind in "iu":
        return "integer"
    if column.dtype.kind in "bM":
        return str(column.dtype)
    if column.dtype.kind in "OU":
        return "text"
    raise TypingError(
        f"the key {name} is {column.dtype}", hint="group by integers, strings, dates or booleans"
    )


def _plain(column: Array, kind: str) -> Array:
    if kind == "text":
        return column
    if column.dtype.kind == "M":
        return column.view(np.int64)
    return column if column.dtype == np.int64 else column.astype(np.int64)
