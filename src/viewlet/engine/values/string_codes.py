"""The strings of an engine's rows as codes: one store for its tables and all that comes in batches.

    "a", NULL, "b", "a"  ->  1, 0, 2, 1

Arrow's strings are coded where they lie, without an object of Python's for each; single ones go
through a small dict first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.storage.arrow_buffers import take_codes
from viewlet.storage.columns import Array
from viewlet.storage.memory import address_of
from viewlet.storage.string_store import (
    BY_HALF_WORDS,
    BY_VIEWS,
    BY_WORDS,
    FULL,
    StringStore,
    code_bytes,
    code_texts,
)

_RECENT = 1 << 14
"""Strings whose codes are remembered for rows that come one by one."""

_FEW = 32
"""Strings that are coded one by one as fast as through Arrow."""


class StringCodes:
    """Strings by code and codes by string."""

    def __init__(self) -> None:
        self._store = StringStore()
        self._recent: dict[str | None, int] = {None: 0}
        self._buffer = np.zeros(256, np.uint8)
        self._view = self._buffer.data
        self._address = address_of(self._buffer)

    def __len__(self) -> int:
        return len(self._store)

    def nbytes(self) -> int:
        """Bytes in use."""
        return self._store.nbytes()

    # Codes.

    def code(self, text: str | None) -> int:
        """The code of one string."""
        code = self._recent.get(text)
        if code is None:
            assert text is not None
            code = self._code_of(text)
            if len(self._recent) > _RECENT:
                self._recent = {None: 0}
            self._recent[text] = code
        return code

    def _code_of(self, text: str) -> int:
        data = utf8(text)
        size = len(data)
        if size > len(self._buffer):
            self._buffer = np.zeros(2 * size, np.uint8)
            self._view = self._buffer.data
            self._address = address_of(self._buffer)
        self._view[:size] = data
        while True:
            code = code_bytes(self._store.address, self._address, size)
            if code != FULL:
                return int(code)
            self._store.make_room()

    def encode(self, texts: Iterable[str | None]) -> Array:
        """The codes of many strings of Python."""
        listed = texts if isinstance(texts, list | np.ndarray) else list(texts)
        if len(listed) <= _FEW:
            return np.fromiter(map(self.code, listed), np.int64, len(listed))
        import pyarrow as pa

        values = pa.array(listed, pa.large_string())
        codes = np.empty(len(values), np.int64)
        nulls = np.asarray(values.is_null(), np.uint8) if values.null_count else None
        address = 0 if nulls is None else address_of(nulls)
        row = self.read(values.buffers(), 0, len(values), address, codes, BY_WORDS)
        assert row < 0, "Python's strings are UTF-8 in Arrow"
        return codes

    def read(
        self, buffers: Sequence[Any], offset: int, count: int, nulls: int, codes: Array, form: int
    ) -> int:
        """The codes of an Arrow array of strings; the row of one that is no UTF-8, else -1."""
        if count == 0:
            return -1
        addresses = addresses_of(buffers)
        first, data = text_addresses(addresses, offset, form)
        target, done = address_of(codes), 0
        addresses_at = address_of(addresses)
        store = self._store
        while done < count:
            done = code_texts(
                store.address, form, first, data, addresses_at, nulls, target, done, count
            )
            if done < 0:
                return -1 - done
            if done < count:
                store.make_room()
        return -1

    def read_dictionary(self, values: Any, nulls: int, codes: Array) -> int:
        """The same for an Arrow array that names its strings by their positions in a dictionary."""
        strings, indices = values.dictionary, values.indices
        entry_codes = np.empty(len(strings), np.int64)
        row = self.read(
            strings.buffers(), strings.offset, len(strings), 0, entry_codes, form_of(strings)
        )
        if row >= 0:
            return row_of_entry(values, row)
        width = indices.type.bit_width // 8
        data = indices.buffers()[1].address + width * indices.offset if len(indices) else 0
        return int(
            take_codes(
                data,
                width,
                len(indices),
                nulls,
                address_of(entry_codes),
                len(entry_codes),
                address_of(codes),
            )
        )

    # Strings.

    def texts(self, codes: Iterable[int]) -> list[str | None]:
        """The strings of a few codes."""
        return self._store.texts(codes)

    def arrow(self, codes: Array) -> Any:
        """The strings of codes as an Arrow array."""
        import pyarrow as pa

        data, ends = self._store.buffers()
        # Ends of the codes 0, 1, ... are the offsets of the strings 1, 2, ...
        strings = pa.LargeStringArray.from_buffers(
            len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(data)
        )
        return strings.take(pa.array(codes - 1, mask=codes == 0))

    def decode(self, codes: Array) -> Array:
        """The strings of codes as an array of objects."""
        if len(codes) <= _FEW:
            objects = np.empty(len(codes), object)
            objects[:] = self.texts(codes.tolist())
            return objects
        return np.asarray(self.arrow(codes).to_numpy(zero_copy_only=False), object)


def utf8(text: str) -> bytes:
    """A string's bytes; DataError for half a surrogate pair, which no UTF-8 has."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{text!r} is no text: it has half of a surrogate pair",
            hint='decode bytes with errors="replace", or keep them out of VARCHAR',
        ) from None


def row_of_entry(values: Any, entry: int) -> int:
    """The first row of an Arrow array that names an entry of its dictionary; 0 if none does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    indices = values.indices
    return max(0, int(pc.index(indices, pa.scalar(entry, indices.type)).as_py()))


def addresses_of(buffers: Sequence[Any]) -> Array:
    """Where the buffers of an Arrow array are: a view names that of its bytes by number."""
    return np.array([0 if b is None else b.address for b in buffers], np.int64)


def text_addresses(addresses: Array, offset: int, form: int) -> tuple[int, int]:
    """Where the offsets or views of an Arrow array of strings begin, and where its bytes do."""
    data = int(addresses[2]) if form != BY_VIEWS else 0
    return int(addresses[1]) + form * offset, data


def form_of(strings: Any) -> int:
    """How the strings of an Arrow array lie in memory."""
    import pyarrow as pa

    if pa.types.is_string_view(strings.type):
        return BY_VIEWS
    return BY_WORDS if pa.types.is_large_string(strings.type) else BY_HALF_WORDS
