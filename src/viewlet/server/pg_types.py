"""Types and values as PostgreSQL's clients know them: oids, texts, and the binary forms.

Arrow's types say what a column is; every value has a text, and the numbers, dates, times and arrays
that clients ask for in binary have one too. How they come back is in pg_parameters.py.
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

from viewlet.interfaces.json_values import json_value

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4 = 16, 17, 18, 19, 20, 21, 23
TEXT, OID, JSON, FLOAT4, FLOAT8, UNKNOWN = 25, 26, 114, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ = 1042, 1043, 1082, 1083, 1114, 1184
INTERVAL, NUMERIC, REGCLASS, UUID = 1186, 1700, 2205, 2950
ARRAYS = {
    BOOL: 1000, BYTEA: 1001, NAME: 1003, INT2: 1005, INT4: 1007, TEXT: 1009, VARCHAR: 1015,
    INT8: 1016, FLOAT4: 1021, FLOAT8: 1022, OID: 1028, TIMESTAMP: 1115, DATE: 1182, TIME: 1183,
    TIMESTAMPTZ: 1185, NUMERIC: 1231, UUID: 2951,
}  # fmt: skip
ELEMENTS = {array: element for element, array in ARRAYS.items()}
SIZES = {BOOL: 1, INT2: 2, INT4: 4, INT8: 8, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIME: 8, OID: 4}
SIZES |= {TIMESTAMP: 8, TIMESTAMPTZ: 8, INTERVAL: 16}
FIRST_DAY = dt.date(2000, 1, 1)
FIRST_MOMENT = dt.datetime(2000, 1, 1)
FIRST_ZONED_MOMENT = FIRST_MOMENT.replace(tzinfo=dt.UTC)
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
        return ARRAYS.get(_oid(type.value_type)[0], ARRAYS[TEXT]), -1
    return _PLAIN_OIDS.get(type, TEXT), -1


_PLAIN_OIDS = {
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.uint8(): INT2,
    pa.int16(): INT2,
    pa.uint16(): INT4,
    pa.int32(): INT4,
    pa.uint32(): OID,
    pa.int64(): INT8,
    pa.uint64(): NUMERIC,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
    pa.date32(): DATE,
    pa.time64("us"): TIME,
    pa.binary(): BYTEA,
}


def wire_oid(type_text: str) -> int:
    """The oid of a type of SQL: BIGINT -> 20, DECIMAL(12,2) -> 1700, INTEGER[] -> 1007."""
    if type_text.endswith("[]"):
        return ARRAYS.get(wire_oid(type_text[:-2]), ARRAYS[TEXT])
    return _OIDS.get(type_text.partition("(")[0].strip(), TEXT)


_OIDS = {
    "BOOLEAN": BOOL, "BOOL": BOOL, "SMALLINT": INT2, "INT2": INT2, "INTEGER": INT4, "INT": INT4,
    "INT4": INT4, "BIGINT": INT8, "INT8": INT8, "REAL": FLOAT4, "DOUBLE": FLOAT8, "OID": OID,
    "DOUBLE PRECISION": FLOAT8, "FLOAT": FLOAT8, "DATE": DATE, "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITHOUT TIME ZONE": TIMESTAMP, "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "TIMESTAMPTZ": TIMESTAMPTZ, "TIME": TIME, "INTERVAL": INTERVAL, "DECIMAL": NUMERIC,
    "NUMERIC": NUMERIC, "BYTEA": BYTEA, "NAME": NAME, "UUID": UUID,
}  # fmt: skip


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
    if oid in ELEMENTS and isinstance(value, list):
        return _binary_array(value, ELEMENTS[oid])
    make = _BINARY.get(oid)
    return _text(value).encode() if make is None else make(value)


def has_binary(oid: int) -> bool:
    """Whether values of a type can be sent in binary; texts are the same in both forms."""
    return ELEMENTS.get(oid, oid) in _BINARY or ELEMENTS.get(oid, oid) in (TEXT, VARCHAR, NAME)


def _binary_array(values: list[Any], element: int) -> bytes:
    """One dimension from 1 on; each element with its length."""
    if not values:
        return struct.pack("!iiI", 0, 0, element)
    head = struct.pack("!iiIii", 1, int(None in values), element, len(values), 1)
    parts = [head]
    for value in values:
        content = binary_value(value, element)
        parts.append(struct.pack("!i", -1 if content is None else len(content)) + (content or b""))
    return b"".join(parts)


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
    TIMESTAMPTZ: lambda value: struct.pack("!q", (value - FIRST_ZONED_MOMENT) // MICROSECOND),
    TIME: lambda value: struct.pack("!q", _micros_of_day(value)),
    INTERVAL: lambda value: struct.pack("!qii", value // MICROSECOND, 0, 0),
    NUMERIC: _binary_numeric,
    BYTEA: bytes,
}


def _micros_of_day(value: dt.time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def quoted_text(text: str) -> str:
    """A string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def plain_name(name: str) -> str:
    """A name as viewlet has it: quoted as it is, else in lower case."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
