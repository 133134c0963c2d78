"""Typed scalars: SQL's types kept beside the calculus' scalars, and all conversions between them.

The calculus knows representations only (schema.py): DECIMAL(p, s) is an integer times 10**s, so
every rule about scales is applied here, at compile time:

    a + b, a - b      exact numbers: scales aligned by a power of ten; with a DOUBLE: DOUBLE
    a * b             scales add
    a / b             always DOUBLE, NULL where b is 0
    a < b             scales aligned; DOUBLE if one side is; DATE and TIMESTAMP as TIMESTAMP
    integers          arithmetic gives BIGINT
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewlet import functions
from viewlet.errors import RangeError, TypingError, UnsupportedError, ViewletError
from viewlet.frontend.intervals import Interval
from viewlet.frontend.syntax import fault, sql_of
from viewlet.functions import Apply, Const, ScalarExpr, apply, as_double, scale_up
from viewlet.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INT64,
    INTEGER,
    NULL,
    TIMESTAMP,
    VARCHAR,
    Column,
    Kind,
    Type,
    encode,
)

MAX_PRECISION = 38


@dataclass(frozen=True)
class Typed:
    """A scalar with its SQL type. Whether it can be NULL is a question to `blocks.Variables`."""

    scalar: ScalarExpr
    type: Type


NULL_VALUE = Typed(functions.NULL, NULL)
TRUE_VALUE = Typed(functions.TRUE, BOOLEAN)
FALSE_VALUE = Typed(functions.FALSE, BOOLEAN)

_TYPES: dict[exp.DType, Type] = {
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.TINYINT: INTEGER,
    exp.DType.SMALLINT: INTEGER,
    exp.DType.INT: INTEGER,
    exp.DType.MEDIUMINT: INTEGER,
    exp.DType.BIGINT: BIGINT,
    exp.DType.FLOAT: DOUBLE,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.DATE: DATE,
    exp.DType.DATE32: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP,
    exp.DType.DATETIME: TIMESTAMP,
    exp.DType.TEXT: VARCHAR,
    exp.DType.CHAR: VARCHAR,
    exp.DType.NCHAR: VARCHAR,
    exp.DType.BPCHAR: VARCHAR,
    exp.DType.VARCHAR: VARCHAR,
    exp.DType.NVARCHAR: VARCHAR,
}


_BITS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16}
_CHARACTERS = (exp.DType.CHAR, exp.DType.NCHAR)
_MOST_DIGITS_OF_A_SECOND = 6


@dataclass(frozen=True)
class Declared:
    """A type as it is written. `limit` are the characters of VARCHAR(n), the digits of a second of
    TIMESTAMP(n), the bits of SMALLINT; None where the type itself says it."""

    type: Type
    limit: int | None = None


def declared(node: exp.DataType) -> Declared:
    """The type that a column definition or a CAST names."""
    if node.this in (exp.DType.DECIMAL, exp.DType.BIGDECIMAL):
        return Declared(_decimal(_sizes(node), node))
    type = _TYPES.get(node.this)
    if type is None or node.args.get("nested"):
        raise fault(
            UnsupportedError,
            f"type {node.sql(dialect='postgres')} is not supported",
            node,
            "use BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL(p,s), DATE, TIMESTAMP or VARCHAR",
        )
    sizes = _sizes(node)
    if node.this in _BITS:
        return Declared(type, _BITS[node.this])
    if not sizes:
        # CHAR alone is CHAR(1), as in the standard.
        return Declared(type, 1 if node.this in _CHARACTERS else None)
    if type.kind is Kind.TIMESTAMP and len(sizes) == 1 and sizes[0] <= _MOST_DIGITS_OF_A_SECOND:
        return Declared(type, sizes[0] if sizes[0] < _MOST_DIGITS_OF_A_SECOND else None)
    if type.kind is Kind.VARCHAR and len(sizes) == 1 and sizes[0] > 0:
        return Declared(type, sizes[0])
    raise fault(
        TypingError,
        f"{node.sql(dialect='postgres')} is not a type",
        node,
        "sizes are those of VARCHAR(n), CHAR(n), TIMESTAMP(0) to TIMESTAMP(6) and DECIMAL(p,s)",
    )


def _sizes(node: exp.DataType) -> list[int]:
    try:
        return [int(size.name) for size in node.expressions]
    except ValueError:
        text = f"{node.sql(dialect='postgres')} is not a type"
        raise fault(TypingError, text, node, "sizes are whole numbers") from None


def _decimal(sizes: list[int], node: exp.DataType) -> Type:
    precision = sizes[0] if sizes else 18
    scale = sizes[1] if len(sizes) > 1 else (0 if sizes else 3)
    if len(sizes) > 2 or not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise fault(
            TypingError,
            f"DECIMAL({precision},{scale}) is not a type",
            node,
            f"precision is 1 to {MAX_PRECISION}, scale 0 to the precision",
        )
    return DECIMAL(precision, scale)


# --- constants ------------------------------------------------------------------------------------


def number_literal(text: str) -> Typed:
    """12 -> INTEGER or BIGINT, 1.50 -> DECIMAL(3,2), 1e3 -> DOUBLE"""
    if "e" in text.lower():
        number = float(text)
        if math.isinf(number):
            raise RangeError(f"{text} is out of range for DOUBLE")
        return Typed(Const(number), DOUBLE)
    if "." in text:
        digits, _, fraction = text.partition(".")
        value = int((digits or "0") + fraction)
        precision = max(len((digits + fraction).lstrip("0")), len(fraction), 1)
        if precision > MAX_PRECISION:
            return Typed(Const(float(text)), DOUBLE)
        return Typed(Const(value), DECIMAL(precision, len(fraction)))
    integer = int(text)
    if abs(integer) < 2**31:
        return Typed(Const(integer), INTEGER)
    if integer <= INT64[1]:
        return Typed(Const(integer), BIGINT)
    return Typed(Const(integer), DECIMAL(min(len(text), MAX_PRECISION), 0))


def text_as(value: Typed, type: Type, node: exp.Expr) -> Typed:
    """A string constant read as a value of another type, as PostgreSQL reads 'unknown' literals."""
    assert isinstance(value.scalar, Const)
    text = value.scalar.value
    assert isinstance(text, str)
    try:
        if type.kind is Kind.DATE:
            moment: object = dt.datetime.fromisoformat(text.strip()).date()
        elif type.kind in (Kind.INTEGER, Kind.BIGINT):
            moment = int(text)
        elif type.kind is Kind.DOUBLE:
            moment = float(text)
        elif type.kind is Kind.BOOLEAN:
            moment = {"true": True, "t": True, "false": False, "f": False}[text.strip().lower()]
        elif type.kind is Kind.DECIMAL:
            moment = decimal.Decimal(text.strip())
        else:
            moment = text.strip() if type.kind is Kind.TIMESTAMP else text
        return Typed(Const(encode(moment, Column("value", type))), type)
    except (ValueError, KeyError, decimal.InvalidOperation, ViewletError):
        raise fault(
            TypingError, f"'{text}' does not read as {type}", node, _LITERAL_HINTS.get(type.kind)
        ) from None


_LITERAL_HINTS = {
    Kind.DATE: "write dates as DATE '1998-12-01'",
    Kind.TIMESTAMP: "write timestamps as TIMESTAMP '1998-12-01 10:30:00'",
    Kind.BOOLEAN: "write TRUE or FALSE",
}

# --- conversions ----------------------------------------------------------------------------------


def trimmed(value: Typed, scale: int) -> Typed:
    """A DECIMAL constant without the trailing zeros that go beyond `scale`: 0.050 -> 0.05"""
    if not isinstance(value.scalar, Const) or not isinstance(value.scalar.value, int):
        return value
    number, digits = value.scalar.value, value.type.scale
    while digits > scale and number % 10 == 0:
        number, digits = number // 10, digits - 1
    return Typed(Const(number), DECIMAL(max(value.type.precision, 1), digits))


def to_double(value: Typed) -> Typed:
    """A number as DOUBLE; constants fold to the nearest double."""
    return Typed(as_double(value.scalar, value.type), DOUBLE)


def decimal_of(type: Type) -> Type:
    """The DECIMAL that holds every number of an exact type."""
    if type.kind is Kind.INTEGER:
        return DECIMAL(10, 0)
    return DECIMAL(19, 0) if type.kind is Kind.BIGINT else type


def common_type(types: Sequence[Type], node: exp.Expr, what: str) -> Type:
    """The type that values of several types meet in, as in CASE, COALESCE and UNION."""
    non_null = [t for t in types if t.kind is not Kind.NULL]
    if not non_null:
        return NULL
    if all(t == non_null[0] for t in non_null):
        return non_null[0]
    if all(t.is_number for t in non_null):
        if any(t.kind is Kind.DOUBLE for t in non_null):
            return DOUBLE
        if any(t.kind is Kind.DECIMAL for t in non_null):
            wide = [decimal_of(t) for t in non_null]
            scale = max(t.scale for t in wide)
            integer_digits = max(t.precision - t.scale for t in wide)
            return DECIMAL(min(integer_digits + scale, MAX_PRECISION), scale)
        return BIGINT
    if all(t.kind in (Kind.DATE, Kind.TIMESTAMP) for t in non_null):
        return TIMESTAMP
    listed = " and ".join(sorted({str(t) for t in non_null}))
    raise fault(TypingError, f"{what} mixes {listed}", node, "convert with CAST(... AS type)")


def meeting_type(values: Sequence[Typed], node: exp.Expr, what: str) -> Type:
    """The common type of values, where string constants take the others' type."""
    others = [v.type for v in values if not is_text_constant(v)]
    if any(t.kind is not Kind.NULL for t in others):
        texts = [v for v in values if is_text_constant(v)]
        target = common_type(others, node, what)
        if not texts or target.kind is Kind.VARCHAR:
            return common_type([*others, *(t.type for t in texts)], node, what)
        return target
    return common_type([v.type for v in values], node, what)


def is_text_constant(value: Typed) -> bool:
    """Whether it is a string literal, whose type may still be decided by its neighbor."""
    return isinstance(value.scalar, Const) and isinstance(value.scalar.value, str)


def convert(value: Typed, target: Type, node: exp.Expr) -> Typed:
    """An implicit conversion to a type that `common_type` chose."""
    kind, to = value.type.kind, target.kind
    if value.type == target or kind is Kind.NULL:
        return Typed(value.scalar, target)
    if is_text_constant(value) and to is not Kind.VARCHAR:
        return text_as(value, target, node)
    if to is Kind.DOUBLE and value.type.is_number:
        return to_double(value)
    if to is Kind.DECIMAL and value.type.is_exact:
        value = trimmed(value, target.scale)
        if target.scale >= value.type.scale:
            return Typed(scale_up(value.scalar, target.scale - value.type.scale), target)
        return Typed(
            apply("rescale", value.scalar, Const(10 ** (value.type.scale - target.scale))), target
        )
    if to is Kind.TIMESTAMP and kind is Kind.DATE:
        return Typed(apply("timestamp_of_date", value.scalar), TIMESTAMP)
    if kind in (Kind.INTEGER, Kind.BIGINT) and to in (Kind.INTEGER, Kind.BIGINT):
        return Typed(value.scalar, target)
    raise fault(
        TypingError,
        f"{sql_of(node)} is {value.type}, {target} is needed",
        node,
        f"write CAST({sql_of(node)} AS {target})",
    )


def as_number(value: Typed, node: exp.Expr, what: str) -> Typed:
    """The value as a number; a bare NULL becomes one, everything else is an error."""
    if value.type.kind is Kind.NULL:
        return Typed(value.scalar, BIGINT)
    if not value.type.is_number:
        raise fault(TypingError, f"{what} needs a number, {sql_of(node)} is {value.type}", node)
    return value


def as_integer(value: Typed, node: exp.Expr, what: str) -> Typed:
    """The value if it is an integer or NULL; everything else is an error."""
    if value.type.kind not in (Kind.INTEGER, Kind.BIGINT, Kind.NULL):
        raise fault(TypingError, f"{what} needs an integer, {sql_of(node)} is {value.type}", node)
    return value


def as_moment(value: Typed, node: exp.Expr, what: str) -> Typed:
    """A DATE or a TIMESTAMP."""
    if value.type.kind is Kind.NULL:
        return Typed(value.scalar, DATE)
    if value.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise fault(TypingError, f"{what} needs a date, {sql_of(node)} is {value.type}", node)
    return value


def as_boolean(value: Typed, node: exp.Expr, what: str) -> Typed:
    """The value as a condition; a bare NULL becomes one, everything else is an error."""
    if value.type.kind is Kind.NULL:
        return Typed(value.scalar, BOOLEAN)
    if value.type.kind is not Kind.BOOLEAN:
        raise fault(
            TypingError,
            f"{what} needs a condition, {sql_of(node)} is {value.type}",
            node,
            "compare it with something, for instance <> 0" if value.type.is_number else None,
        )
    return value


def as_text(value: Typed, node: exp.Expr, what: str) -> Typed:
    """The value as a string; a bare NULL becomes one, everything else is an error."""
    if value.type.kind is Kind.NULL:
        return Typed(value.scalar, VARCHAR)
    if value.type.kind is not Kind.VARCHAR:
        raise fault(
            TypingError,
            f"{what} needs a VARCHAR, {sql_of(node)} is {value.type}",
            node,
            f"write CAST({sql_of(node)} AS VARCHAR)",
        )
    return value


# --- operators ------------------------------------------------------------------------------------


def arithmetic(operator: str, left: Typed, right: Typed, node: exp.Expr) -> Typed:
    """+, - and * of two numbers."""
    if DOUBLE in (left.type, right.type):
        return Typed(apply(operator, to_double(left).scalar, to_double(right).scalar), DOUBLE)
    if Kind.DECIMAL not in (left.type.kind, right.type.kind):
        return Typed(apply(operator, left.scalar, right.scalar), BIGINT)
    a, b = decimal_of(left.type), decimal_of(right.type)
    if operator == "*":
        scale = a.scale + b.scale
        if scale > MAX_PRECISION:
            raise fault(
                TypingError,
                f"the product has {scale} decimals, at most {MAX_PRECISION} can be kept",
                node,
                "convert one side with CAST(... AS DOUBLE)",
            )
        result = DECIMAL(min(a.precision + b.precision, MAX_PRECISION), scale)
        return Typed(apply("*", left.scalar, right.scalar), result)
    scale = max(a.scale, b.scale)
    integer_digits = max(a.precision - a.scale, b.precision - b.scale) + 1
    result = DECIMAL(min(integer_digits + scale, MAX_PRECISION), scale)
    aligned = (scale_up(v.scalar, scale - t.scale) for v, t in ((left, a), (right, b)))
    return Typed(apply(operator, *aligned), result)


def division(left: Typed, right: Typed) -> Typed:
    """a / b as DOUBLE: exact operands are divided as integers of the same scale."""
    if left.type.is_exact and right.type.is_exact:
        a, b = left.type.scale, right.type.scale
        return Typed(
            apply("/", scale_up(left.scalar, b - a), scale_up(right.scalar, a - b)), DOUBLE
        )
    return Typed(apply("/", to_double(left).scalar, to_double(right).scalar), DOUBLE)


def aligned(left: Typed, right: Typed, node: exp.Expr, what: str) -> tuple[Typed, Typed]:
    """Both sides in one representation, so that comparing representations compares values."""
    if left.type.is_number and right.type.is_number:
        if DOUBLE in (left.type, right.type):
            return to_double(left), to_double(right)
        left, right = trimmed(left, right.type.scale), trimmed(right, left.type.scale)
        a, b = left.type.scale, right.type.scale
        return (
            Typed(scale_up(left.scalar, b - a), left.type),
            Typed(scale_up(right.scalar, a - b), right.type),
        )
    target = meeting_type([left, right], node, what)
    return convert(left, target, node), convert(right, target, node)


def comparison(operator: str, left: Typed, right: Typed, node: exp.Expr) -> Typed:
    """a op b with scales aligned; numbers that both sides are multiplied by are left out."""
    a, b = aligned(left, right, node, "the comparison")
    sides = without_common_factor(a.scalar, b.scalar) if a.type.is_exact else (a.scalar, b.scalar)
    return Typed(apply(operator, *sides), BOOLEAN)


def without_common_factor(left: ScalarExpr, right: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    """x * 10000, y * 100 -> x * 100, y: smaller numbers stay within 64 bits."""
    (a, x), (b, y) = _factored(left), _factored(right)
    common = math.gcd(a, b)
    if common <= 1:
        return left, right
    return apply("*", x, Const(a // common)), apply("*", y, Const(b // common))


def _factored(scalar: ScalarExpr) -> tuple[int, ScalarExpr]:
    """x * n -> n, x  for a positive whole number n; a constant is its size times its sign."""
    if isinstance(scalar, Const) and type(scalar.value) is int:
        return abs(scalar.value), Const(-1 if scalar.value < 0 else 1)
    if isinstance(scalar, Apply) and scalar.function == "*":
        other, factor = scalar.arguments
        if isinstance(factor, Const) and type(factor.value) is int and factor.value > 0:
            return factor.value, other
    return 1, scalar


def shift(value: Typed, by: Interval, node: exp.Expr) -> Typed:
    """DATE or TIMESTAMP + INTERVAL; a DATE stays one unless hours are added."""
    if is_text_constant(value):
        value = text_as(value, DATE, node)
    if value.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise fault(TypingError, f"an interval cannot be added to {value.type}", node)
    if value.type.kind is Kind.DATE and by.microseconds:
        value = convert(value, TIMESTAMP, node)
    is_date = value.type.kind is Kind.DATE
    scalar = value.scalar
    if by.months:
        name = "date_add_months" if is_date else "timestamp_add_months"
        scalar = apply(name, scalar, Const(by.months))
    if is_date:
        return Typed(apply("date_add_days", scalar, Const(by.days)), value.type)
    microseconds = by.days * functions.DAY + by.microseconds
    return Typed(apply("timestamp_add", scalar, Const(microseconds)), value.type)
