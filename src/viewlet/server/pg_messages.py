"""The messages of PostgreSQL's protocol 3.0 as bytes, and how a client's are read.

A message is a letter, a length that counts itself, and a content; the first one has no letter.
Whatever a client sends that is not so is a WireError, which ends its connection.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

MAX_MESSAGE = 64 * 2**20
MAX_STARTUP = 10_000
MAX_PARAMETERS = 2**15 - 1


class WireError(Exception):
    """A client that does not speak the protocol."""


def message(letter: bytes, content: bytes = b"") -> bytes:
    """A whole message."""
    return letter + struct.pack("!i", len(content) + 4) + content


def text(value: str) -> bytes:
    """A string as messages have it: UTF-8 up to a zero byte."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


AUTHENTICATION_OK = message(b"R", struct.pack("!i", 0))
PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
PORTAL_SUSPENDED = message(b"s")
COPY_DONE = message(b"c")


def authentication(kind: int, content: bytes = b"") -> bytes:
    """A step of SASL, by its number."""
    return message(b"R", struct.pack("!i", kind) + content)


def parameter_status(name: str, value: str) -> bytes:
    """A setting that clients like to know."""
    return message(b"S", text(name) + text(value))


def backend_key(process: int, secret: int) -> bytes:
    """What a client needs to cancel."""
    return message(b"K", struct.pack("!iI", process, secret))


def ready(status: bytes) -> bytes:
    """I: idle, T: in a transaction, E: in one that failed."""
    return message(b"Z", status)


def command_complete(tag: str) -> bytes:
    """The end of a statement, as SELECT 3."""
    return message(b"C", text(tag))


def fields(kind: bytes, values: Mapping[str, str]) -> bytes:
    """An error (E) or a notice (N)."""
    content = b"".join(code.encode() + text(value) for code, value in values.items() if value)
    return message(kind, content + b"\0")


def data_row(values: Sequence[bytes | None]) -> bytes:
    """One row, each value in the format that its description says."""
    parts = [struct.pack("!h", len(values))]
    for value in values:
        parts.append(b"\xff\xff\xff\xff" if value is None else struct.pack("!i", len(value)))
        if value is not None:
            parts.append(value)
    return message(b"D", b"".join(parts))


def row_description(columns: Sequence[tuple[str, int, int, int, int]]) -> bytes:
    """Columns as (name, type's oid, its size, modifier, format)."""
    parts = [struct.pack("!h", len(columns))]
    for name, oid, size, modifier, format in columns:
        parts.append(text(name) + struct.pack("!ihihih", 0, 0, oid, size, modifier, format))
    return message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f"!h{len(oids)}I", len(oids), *oids))


def copy_response(letter: bytes, columns: int, format: int = 0) -> bytes:
    """G: send rows; H: rows follow. As text (CSV is one), or in binary."""
    return message(letter, struct.pack(f"!bh{columns}h", format, columns, *([format] * columns)))


class MessageReader:
    """The content of a message, from its beginning on."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def string(self) -> str:
        """Up to the zero byte."""
        end = self._content.find(b"\0", self._at)
        if end < 0:
            raise WireError("a string has no end")
        part, self._at = self._content[self._at : end], end + 1
        try:
            return part.decode()
        except UnicodeDecodeError:
            raise WireError("a string is not UTF-8") from None

    def numbers(self, format: str) -> tuple[int, ...]:
        """Numbers of fixed sizes, as struct reads them."""
        size = struct.calcsize("!" + format)
        if self._at + size > len(self._content):
            raise WireError("a message is too short")
        part = struct.unpack_from("!" + format, self._content, self._at)
        self._at += size
        return part

    def counted(self, format: str) -> tuple[int, ...]:
        """A count, and so many numbers."""
        (count,) = self.numbers("h")
        if count < 0:
            raise WireError("a count is negative")
        return self.numbers(f"{count}{format}")

    def value(self) -> bytes | None:
        """A value with its length; None for NULL."""
        (size,) = self.numbers("i")
        if size == -1:
            return None
        if size < 0 or self._at + size > len(self._content):
            raise WireError("a value is longer than its message")
        self._at += size
        return self._content[self._at - size : self._at]

    def rest(self) -> bytes:
        """Everything that is left."""
        return self._content[self._at :]
