"""COPY's binary format: rows of values with their lengths, between a signature and a trailer.

Values are as in binary parameters and answers. That is how ADBC reads, and how asyncpg writes.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from viewlet.errors import DataError
from viewlet.schema import Kind
from viewlet.server.pg_parameters import from_binary
from viewlet.server.pg_types import (
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    WireColumn,
    binary_value,
)

if TYPE_CHECKING:
    import pyarrow as pa

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEAD = SIGNATURE + struct.pack("!ii", 0, 0)
TRAILER = struct.pack("!h", -1)
_INTEGERS = {2: INT2, 4: INT4, 8: INT8}
_FLOATS = {4: FLOAT4, 8: FLOAT8}
_OIDS = {
    Kind.BOOLEAN: BOOL,
    Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.DECIMAL: NUMERIC,
    Kind.VARCHAR: TEXT,
}


def binary_rows(table: pa.Table, columns: list[WireColumn]) -> list[bytes]:
    """The rows of a table; signature and trailer are the caller's."""
    count = struct.pack("!h", len(columns))
    lists = [
        [_field(binary_value(value, column.oid)) for value in table.column(at).to_pylist()]
        for at, column in enumerate(columns)
    ]
    rows = zip(*lists, strict=True) if lists else [()] * table.num_rows
    return [count + b"".join(row) for row in rows]


def _field(content: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if content is None else struct.pack("!i", len(content)) + content


def binary_lines(data: bytes, kinds: list[Kind]) -> Iterator[list[str | None]]:
    """The rows of a body as texts, by the kinds of their columns; DataError where it is none."""
    if not data.startswith(SIGNATURE):
        raise DataError("the rows are not COPY's binary format")
    try:
        at = len(SIGNATURE) + 8
        (extension,) = struct.unpack_from("!i", data, at - 4)
        at += max(extension, 0)
        while at < len(data):  # a trailer is what most write, and not needed
            (count,) = struct.unpack_from("!h", data, at)
            at += 2
            if count == -1:
                return
            if count != len(kinds):
                raise DataError(f"a row has {count} values for {len(kinds)} columns")
            row: list[str | None] = []
            for kind in kinds:
                (size,) = struct.unpack_from("!i", data, at)
                at += 4
                if size < -1 or at + max(size, 0) > len(data):
                    raise DataError("a value is longer than the rows")
                row.append(None if size < 0 else _text(data[at : at + size], kind))
                at += max(size, 0)
            yield row
    except (struct.error, UnicodeDecodeError, OverflowError, decimal.InvalidOperation):
        raise DataError("the rows are not COPY's binary format, or not of these types") from None


def _text(content: bytes, kind: Kind) -> str:
    if kind in (Kind.INTEGER, Kind.BIGINT):
        oid = _INTEGERS.get(len(content), INT8)
    elif kind is Kind.DOUBLE:
        oid = _FLOATS.get(len(content), FLOAT8)
    else:
        oid = _OIDS.get(kind, TEXT)
    return from_binary(content, oid)
