"""What clients send as values: texts and binary forms -> literals of SQL."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import struct
import uuid
from typing import Any

from viewlet.errors import DataError
from viewlet.schema import Kind, Relation
from viewlet.server.pg_types import (
    BOOL,
    BPCHAR,
    DATE,
    ELEMENTS,
    FIRST_DAY,
    FIRST_MOMENT,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    JSON,
    NAME,
    NUMERIC,
    OID,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARCHAR,
    quoted_text,
)


def null_of(oid: int) -> str:
    """NULL where a parameter stands, of its type where that decides what a statement means."""
    element = ELEMENTS.get(oid)
    kind = "VARCHAR" if element is None else _ELEMENT_TYPES.get(element, "VARCHAR")
    return "NULL" if element is None else f"CAST(NULL AS {kind}[])"


def literal(value: bytes | None, oid: int, format: int) -> str:
    """A parameter as SQL; what is not of its type is a DataError.

    A text of no type is a quoted string, which takes the type of its place.
    """
    if value is None:
        return "NULL"
    if oid in ELEMENTS:
        return _array_literal(value, ELEMENTS[oid], format)
    return _literal(_parameter_text(value, oid, format), oid)


def _literal(text: str, oid: int) -> str:
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
        return f"DATE {quoted_text(without_zone(text))}"
    if oid == TIMESTAMP:
        return f"TIMESTAMP {quoted_text(without_zone(text))}"
    if oid == TIMESTAMPTZ:
        return f"TIMESTAMP {quoted_text(_in_utc(text))}"
    return quoted_text(text)


_ZONE = re.compile(r"(?<=\d)\s*(?:Z|[+-]\d\d(?::?\d\d){0,2})$", re.IGNORECASE)


def without_zone(text: str) -> str:
    """2024-02-03 04:05:06+00 -> 2024-02-03 04:05:06, as PostgreSQL's types without a zone read it.

    Drivers send a zone where they do not know the type of the column.
    """
    return text if len(text) <= 10 else _ZONE.sub("", text)


def _in_utc(text: str) -> str:
    try:
        moment = dt.datetime.fromisoformat(text.strip())
        return (
            (moment.astimezone(dt.UTC) if moment.tzinfo else moment)
            .replace(tzinfo=None)
            .isoformat(sep=" ")
        )
    except (ValueError, OverflowError):
        return without_zone(text)


_TRUTHS = {"t": True, "true": True, "1": True, "on": True, "yes": True}
_TRUTHS |= {"f": False, "false": False, "0": False, "off": False, "no": False}


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
        return value.decode() if format == 0 else from_binary(value, oid)
    except (UnicodeDecodeError, struct.error, OverflowError, decimal.InvalidOperation):
        raise DataError("a parameter is not of its type") from None


def from_binary(value: bytes, oid: int) -> str:
    """The text of a value in binary; struct's errors and others where it is none of its type."""
    plain = {INT2: "!h", INT4: "!i", INT8: "!q", OID: "!I", FLOAT4: "!f", FLOAT8: "!d"}
    if oid in plain:
        return str(struct.unpack(plain[oid], value)[0])
    if oid == BOOL:
        return "t" if value != b"\0" else "f"
    if oid == DATE:
        return (FIRST_DAY + dt.timedelta(days=struct.unpack("!i", value)[0])).isoformat()
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        micros = struct.unpack("!q", value)[0]
        return (FIRST_MOMENT + dt.timedelta(microseconds=micros)).isoformat(sep=" ")
    if oid == NUMERIC:
        return _numeric_text(value)
    if oid == UUID:
        return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.decode()
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


# --- arrays ---------------------------------------------------------------------------------------


def _array_literal(value: bytes, element: int, format: int) -> str:
    """{1,2} or its binary form -> ARRAY[(1), (2)]"""
    try:
        is_binary = format == 1
        texts = _binary_elements(value, element) if is_binary else _text_elements(value.decode())
    except (UnicodeDecodeError, struct.error, OverflowError, decimal.InvalidOperation):
        raise DataError("a parameter is not of its type") from None
    if not texts:
        return f"CAST(ARRAY[] AS {_ELEMENT_TYPES.get(element, 'VARCHAR')}[])"
    return f"ARRAY[{', '.join('NULL' if t is None else _literal(t, element) for t in texts)}]"


_ELEMENT_TYPES = {
    BOOL: "BOOLEAN", INT2: "INTEGER", INT4: "INTEGER", INT8: "BIGINT", FLOAT4: "DOUBLE",
    FLOAT8: "DOUBLE", NUMERIC: "DECIMAL", DATE: "DATE", TIMESTAMP: "TIMESTAMP", OID: "BIGINT",
}  # fmt: skip


def _binary_elements(value: bytes, element: int) -> list[str | None]:
    dimensions, _, _ = struct.unpack_from("!iii", value)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise DataError("arrays of arrays are not supported")
    (count, _) = struct.unpack_from("!ii", value, 12)
    texts: list[str | None] = []
    at = 20
    for _ in range(count):
        (size,) = struct.unpack_from("!i", value, at)
        at += 4
        if size < -1 or at + max(size, 0) > len(value):
            raise struct.error("an element is longer than its array")
        texts.append(None if size < 0 else from_binary(value[at : at + size], element))
        at += max(size, 0)
    return texts


_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"]*))\s*(,|$)', re.DOTALL)


def _text_elements(text: str) -> list[str | None]:
    """{a,"b c",NULL}  ->  a, b c, NULL"""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise DataError(f"{text[:40]!r} is no array", hint="write {1,2}")
    inner, at = inner[1:-1], 0
    texts: list[str | None] = []
    while inner.strip():
        match = _ELEMENT.match(inner, at)
        if match is None:
            raise DataError(f"{text[:40]!r} is no array", hint="write {1,2}")
        quoted, plain = match.group(1), match.group(2)
        if quoted is not None:
            texts.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        else:
            texts.append(None if plain.strip().upper() == "NULL" else plain.strip())
        at = match.end()
        if not match.group(3):
            break
    return texts


# --- values of columns ---------------------------------------------------------------------------


def typed_rows(rows: list[dict[str, Any]], relation: Relation) -> list[dict[str, Any]]:
    """Quoted literals take the type of their column, as in PostgreSQL."""
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str):
                row[name] = typed(value, relation.column(name).type.kind)
    return rows


def typed(text: str, kind: Kind) -> Any:
    """A text for a column: numbers and booleans as values, what is none of its kind as it is."""
    try:
        if kind in (Kind.INTEGER, Kind.BIGINT):
            return int(text)
        if kind is Kind.DOUBLE:
            return float(text)
    except ValueError:
        return text
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        return without_zone(text)
    if kind is Kind.BOOLEAN:
        return _BOOLEANS.get(text.lower(), text)
    return text


_BOOLEANS = {"t": True, "true": True, "f": False, "false": False, "1": True, "0": False}
