"""Types and values as PostgreSQL's clients know them: oids, texts, and the binary forms.

Arrow's types say what a column is; every value has a text, and the numbers, dates and times that
clients ask for in binary have one too. Parameters come the same two ways and become SQL literals.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewlet.errors import DataError
from viewlet.interfaces.json_values import json_value

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4 = 16, 17, 18, 19, 20, 21, 23
TEXT, OID, JSON, FLOAT4, FLOAT8, UNKNOWN = 25, 26, 114, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ = 1042, 1043, 1082, 1083, 1114, 1184
INTERVAL, NUMERIC, REGCLASS = 1186, 1700, 2205
TEXT_ARRAY, INT4_ARRAY, INT8_ARRAY = 1009, 1007, 1016
SIZES = {BOOL: 1, INT2: 2, INT4: 4, INT8: 8, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIME: 8, OID: 4}
SIZES |= {TIMESTAMP: 8, TIMESTAMPTZ: 8, INTERVAL: 16}
FIRST_DAY = dt.date(2000, 1, 1)
FIRST_MOMENT = dt.datetime(2000, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class WireColumn:
    """A column of an answer."""

    name: str
    oid: int
    modifier: int = -1

    def described(self, format: int) -> tuple[str, int, int, int, int]:
        """For RowDescription."""
        return self.name, self.oid, SIZES.get(self.oid, -1), self.modifier, format


def wire_columns(schema: pa.Schema) -> list[WireColumn]:
    """The columns of an Arrow table."""
    return [WireColumn(field.name, *_oid(field.type)) for field in schema]


def _oid(type: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(type):
        return NUMERIC, ((type.precision << 16) | type.scale) + 4
    if pa.types.is_timestamp(type):
        return (TIMESTAMPTZ if type.tz else TIMESTAMP), -1
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        inner = _oid(type.value_type)[0]
        return {INT2: INT4_ARRAY, INT4: INT4_ARRAY, INT8: INT8_ARRAY}.get(inner, TEXT_ARRAY), -1
    return _PLAIN_OIDS.get(type, TEXT), -1


_PLAIN_OIDS = {
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.uint8(): INT2,
    pa.int16(): INT2,
    pa.uint16(): INT4,
    pa.int32(): INT4,
    pa.uint32(): INT8,
    pa.int64(): INT8,
    pa.uint64(): NUMERIC,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
    pa.date32(): DATE,
    pa.time64("us"): TIME,
    pa.binary(): BYTEA,
}


def wire_oid(type_text: str) -> int:
    """The oid of a type of SQL: BIGINT -> 20, DECIMAL(12,2) -> 1700."""
    return {
        "BOOLEAN": BOOL,
        "INTEGER": INT4,
        "BIGINT": INT8,
        "DOUBLE": FLOAT8,
        "DATE": DATE,
        "TIMESTAMP": TIMESTAMP,
        "VARCHAR": TEXT,
        "DECIMAL": NUMERIC,
    }.get(type_text.partition("(")[0], TEXT)


def text_value(value: Any) -> bytes | None:
    """A value as PostgreSQL would print it; None for NULL."""
    if value is None:
        return None
    return _text(value).encode("utf-8", "replace")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, list):
        return "{" + ",".join(map(_element, value)) + "}"
    if isinstance(value, dict):
        return json.dumps(json_value(value))
    return str(value)


def _element(value: Any) -> str:
    """An element of an array in text."""
    if value is None:
        return "NULL"
    text = _text(value)
    if isinstance(value, str):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def binary_value(value: Any, oid: int) -> bytes | None:
    """A value in the binary form of its type."""
    if value is None:
        return None
    make = _BINARY.get(oid)
    return _text(value).encode() if make is None else make(value)


def has_binary(oid: int) -> bool:
    """Whether values of a type can be sent in binary; texts are the same in both forms."""
    return oid in _BINARY or oid in (TEXT, VARCHAR, NAME)


def _binary_numeric(value: decimal.Decimal | int) -> bytes:
    """Groups of four decimal digits, the place of the first, the sign, and the scale."""
    number = decimal.Decimal(value)
    scale = max(0, -int(number.as_tuple().exponent))
    whole = abs(int(number.scaleb(scale, decimal.Context(prec=200))))
    whole *= 10 ** (-scale % 4)
    groups: list[int] = []
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.append(group)
    weight = len(groups) - 1 - (scale + 3) // 4
    groups.reverse()
    sign = 0x4000 if number < 0 else 0
    head = struct.pack("!hhHH", len(groups), weight if groups else 0, sign, scale)
    return head + struct.pack(f"!{len(groups)}h", *groups)


_BINARY: dict[int, Callable[[Any], bytes]] = {
    BOOL: lambda value: b"\1" if value else b"\0",
    INT2: lambda value: struct.pack("!h", value),
    INT4: lambda value: struct.pack("!i", value),
    INT8: lambda value: struct.pack("!q", value),
    OID: lambda value: struct.pack("!I", value),
    FLOAT4: lambda value: struct.pack("!f", value),
    FLOAT8: lambda value: struct.pack("!d", value),
    DATE: lambda value: struct.pack("!i", (value - FIRST_DAY).days),
    TIMESTAMP: lambda value: struct.pack("!q", (value - FIRST_MOMENT) // MICROSECOND),
    NUMERIC: _binary_numeric,
    BYTEA: bytes,
}


# --- parameters -----------------------------------------------------------------------------------


def literal(value: bytes | None, oid: int, format: int) -> str:
    """A parameter as SQL; what is not of its type is a DataError.

    A text of no type is a quoted string, which takes the type of its place.
    """
    if value is None:
        return "NULL"
    text = _parameter_text(value, oid, format)
    if oid in (INT2, INT4, INT8, OID):
        return f"({_whole(text)})"
    if oid in (FLOAT4, FLOAT8):
        return f"CAST({quoted_text(text)} AS DOUBLE)"
    if oid == NUMERIC:
        return f"({_decimal(text)})"
    if oid == BOOL:
        if text.lower() not in _TRUTHS:
            raise DataError(f"{text[:40]!r} is not a boolean")
        return "TRUE" if _TRUTHS[text.lower()] else "FALSE"
    if oid == DATE:
        return f"DATE {quoted_text(text)}"
    if oid == TIMESTAMP:
        return f"TIMESTAMP {quoted_text(text)}"
    return quoted_text(text)


_TRUTHS = {"t": True, "true": True, "1": True, "on": True, "yes": True}
_TRUTHS |= {"f": False, "false": False, "0": False, "off": False, "no": False}


def quoted_text(text: str) -> str:
    """A string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{text[:40]!r} is not a whole number") from None


def _decimal(text: str) -> str:
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise DataError(f"{text[:40]!r} is not a number") from None
    if not number.is_finite() or abs(number.adjusted()) > 60:
        raise DataError(f"{text[:40]!r} is no DECIMAL")
    return f"{number:f}"


def _parameter_text(value: bytes, oid: int, format: int) -> str:
    try:
        return value.decode() if format == 0 else _from_binary(value, oid)
    except (UnicodeDecodeError, struct.error, OverflowError):
        raise DataError("a parameter is not of its type") from None


def _from_binary(value: bytes, oid: int) -> str:
    plain = {INT2: "!h", INT4: "!i", INT8: "!q", OID: "!I", FLOAT4: "!f", FLOAT8: "!d"}
    if oid in plain:
        return str(struct.unpack(plain[oid], value)[0])
    if oid == BOOL:
        return "t" if value != b"\0" else "f"
    if oid == DATE:
        return (FIRST_DAY + dt.timedelta(days=struct.unpack("!i", value)[0])).isoformat()
    if oid == TIMESTAMP:
        micros = struct.unpack("!q", value)[0]
        return (FIRST_MOMENT + dt.timedelta(microseconds=micros)).isoformat(sep=" ")
    if oid == NUMERIC:
        return _numeric_text(value)
    if oid in (TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN, JSON, 0):
        return value.decode()
    raise DataError(f"parameters of type {oid} cannot be sent in binary", hint="send them as text")


def _numeric_text(value: bytes) -> str:
    count, weight, sign, scale = struct.unpack_from("!hhHH", value)
    if sign not in (0, 0x4000):
        raise DataError("a parameter is no DECIMAL")
    groups = struct.unpack_from(f"!{max(count, 0)}h", value, 8)
    number = decimal.Decimal(0)
    with decimal.localcontext(prec=400):
        for at, group in enumerate(groups):
            number += decimal.Decimal(group).scaleb(4 * (weight - at))
        number = number.quantize(decimal.Decimal(1).scaleb(-min(scale, 300)))
    return f"{-number if sign else number:f}"
