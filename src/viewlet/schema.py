"""Types, columns and relations, and how values of each type are represented.

Inside viewlet a value is one of five plain Python things, so that every later stage can be simple:

    BOOLEAN            bool
    INTEGER, BIGINT    int
    DECIMAL(p, s)      int, the number times 10**s   (exact; the scale is known at compile time)
    DATE               int, days since 1970-01-01
    TIMESTAMP          int, microseconds since 1970-01-01 00:00
    DOUBLE             float; one zero and one NaN, the object NAN
    VARCHAR            str
    NULL               None

DOUBLE is ordered as in PostgreSQL: NaN is the same as NaN and greater than every other number, -0.0
is the same as 0.0. `same` and `precedes` say so for all types. Python's own == is right for keys of
dictionaries as long as every NaN is NAN: an object is equal to itself there.

`encode` and `decode` convert between these and what users write and read. Imports nothing but the
error family.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from viewlet.errors import DataError, RangeError, RangeFailure, ResolutionError

Scalar = bool | int | float | str | None
"""An encoded value."""

EPOCH_DATE = dt.date(1970, 1, 1)
EPOCH = dt.datetime(1970, 1, 1)
INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)
DATE_RANGE = (-719_162, 2_932_896)
"""Days of 0001-01-01 and 9999-12-31, which is what Python's dates and everybody's SQL can say."""
TIMESTAMP_RANGE = (DATE_RANGE[0] * 86_400_000_000, (DATE_RANGE[1] + 1) * 86_400_000_000 - 1)
DECIMAL_DIGITS = 18
"""Of a DECIMAL column: what 64 bits hold whatever the digits are."""
NAN = math.nan
"""The one NaN that encoded values may be."""
PRODUCT_NOT_FINITE = (
    "a product of DOUBLEs from two tables, which is kept as a product of sums, met an infinity, "
    "a NaN or a number beyond the range of DOUBLE"
)
"""What a batch is refused with (frontend.ring_values says why)."""


class Kind(Enum):
    """The SQL types that columns can have."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    VARCHAR = "VARCHAR"
    NULL = "NULL"  # the type of a bare NULL literal, before its context decides


@dataclass(frozen=True)
class Type:
    """A SQL type; precision and scale matter for DECIMAL only."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        return str(self.kind.value)

    @property
    def is_number(self) -> bool:
        """Whether arithmetic and SUM take it; dates, strings and truths are no numbers."""
        return self.kind in (Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL)

    @property
    def is_exact(self) -> bool:
        """Numbers that are represented as int."""
        return self.kind in (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL)

    @cached_property
    def physical(self) -> Physical:
        """What kernels make of its values: int, float or string."""
        return _PHYSICAL[self.kind]


class Physical(Enum):
    """The representation of a value, which is all that calculus, programs and kernels know."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    STR = "str"


_PHYSICAL = {
    Kind.BOOLEAN: Physical.BOOL,
    Kind.INTEGER: Physical.INT,
    Kind.BIGINT: Physical.INT,
    Kind.DECIMAL: Physical.INT,
    Kind.DATE: Physical.INT,
    Kind.TIMESTAMP: Physical.INT,
    Kind.DOUBLE: Physical.FLOAT,
    Kind.VARCHAR: Physical.STR,
    Kind.NULL: Physical.INT,
}

BOOLEAN = Type(Kind.BOOLEAN)
INTEGER = Type(Kind.INTEGER)
BIGINT = Type(Kind.BIGINT)
DOUBLE = Type(Kind.DOUBLE)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
VARCHAR = Type(Kind.VARCHAR)
NULL = Type(Kind.NULL)


def DECIMAL(precision: int = 18, scale: int = 3) -> Type:
    """The type of exact numbers with so many digits, `scale` of them behind the point."""
    return Type(Kind.DECIMAL, precision, scale)


@dataclass(frozen=True)
class Column:
    """A column of a relation.

    `limit` is what its declaration says beyond its type: the characters of VARCHAR(n), the digits
    of a second of TIMESTAMP(n), the bits of SMALLINT. It matters to rows that come in, and to
    nothing that is made of them.
    """

    name: str
    type: Type
    nullable: bool = True
    limit: int | None = field(default=None, compare=False)
    default: Any = field(default=None, compare=False)
    """What a row has that leaves the column out, as a user reads it."""


@dataclass(frozen=True)
class Relation:
    """A table (kept, deletes are checked), or a stream (not kept), with its declared key.

    `static` tables are loaded before the views and never change while views exist.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    is_stream: bool = False
    static: bool = False
    original: str | None = None
    """The relation whose rows it is given later: what a program calls it for deferred views."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of this name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise ResolutionError(f"relation {self.name} has no column {name}")


@dataclass
class Catalog:
    """The relations of a database by name."""

    relations: dict[str, Relation] = field(default_factory=dict)

    def add(self, relation: Relation) -> None:
        """Declare a relation; a second one of a name is an error."""
        if relation.name in self.relations:
            raise ResolutionError(f"relation {relation.name} already exists")
        self.relations[relation.name] = relation

    def __getitem__(self, name: str) -> Relation:
        return self.relations[name]

    def __contains__(self, name: object) -> bool:
        return name in self.relations

    def __iter__(self) -> Iterator[Relation]:
        return iter(self.relations.values())


def folded_name(name: str) -> str:
    """What DuckDB, which answers ad-hoc queries, compares names by: A to Z are a to z."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in name)


def same(left: Any, right: Any) -> bool:
    """Whether two encoded values are the same: NULL is NULL, NaN is NaN."""
    return bool(left == right or (left != left and right != right))


def precedes(left: Any, right: Any) -> bool:
    """left < right in the order of their type, where NaN is the greatest number."""
    return bool(left < right or (right != right and left == left))


def ordering(value: Any) -> tuple[bool, Any]:
    """A key for sorting values that are not NULL."""
    return value != value, value


def normalized(value: Any) -> Any:
    """An encoded value with one zero and one NaN."""
    if type(value) is float:
        return NAN if value != value else value + 0.0
    return value


def encode(value: Any, column: Column) -> Scalar:
    """A user's value -> its representation; DataError where the column cannot hold it.

    >>> encode(decimal.Decimal("1.50"), Column("price", DECIMAL(12, 2)))
    150
    """
    try:
        if _is_missing(value, column.type.kind):
            if not column.nullable:
                raise DataError(f"NULL in column {column.name}, which is NOT NULL")
            return None
        encoded: Scalar = _ENCODERS[column.type.kind](value, column.type)
        return encoded if column.limit is None else sized_value(encoded, column)
    except RangeError as error:
        raise RangeError(f"column {column.name}: {error.message}") from None
    except DataError:
        raise
    except OverflowError:
        raise RangeError(
            f"column {column.name}: {shown_value(value)} is out of range for {column.type}"
        ) from None
    except UnicodeError as error:
        raise DataError(
            f"column {column.name} is {column.type}, and {shown_value(value)} is not: {error}",
            hint="give Unicode text; bytes have to be decoded first",
        ) from None
    except Exception:  # whatever an object of the user's does when it is asked for its value
        raise DataError(
            f"column {column.name} is {column.type}, and {shown_value(value)} is not",
            hint=f"give a value that converts to {column.type} without loss",
        ) from None


def _is_missing(value: Any, kind: Kind) -> bool:
    """None, and what libraries write for it: NaT, pandas' NA, and NaN where it is no number."""
    name = type(value).__name__
    if name in _MISSING:
        return True
    if name == "datetime64" or (kind is not Kind.DOUBLE and isinstance(value, numbers.Real)):
        return bool(value != value)
    return False


_MISSING = frozenset(("NoneType", "NAType", "NaTType"))


def shown_value(value: object) -> str:
    """A value for a message: never long, whatever it is, and never an error of its own."""
    try:
        text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    except Exception:
        text = f"a {type_name(value)}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def sized_value(value: Any, column: Column) -> Scalar:
    """An encoded value as the column's declared size holds it, as in PostgreSQL.

    Text that is longer is an error, except for blanks at its end, which are cut; a TIMESTAMP is
    rounded; a whole number out of range is an error.
    """
    limit, kind = column.limit, column.type.kind
    if limit is None or value is None:
        return value  # type: ignore[no-any-return]
    if kind is Kind.VARCHAR:
        if len(value) > limit and value[limit:].strip(" "):
            raise RangeError(f"{shown_value(value)} has {len(value)} characters, {limit} are most")
        return str(value[:limit])
    if kind is Kind.TIMESTAMP:
        rounded = rounded_moment(value, 10 ** (6 - limit))
        return _in_range(rounded, TIMESTAMP_RANGE, column.type)
    return _in_range(value, signed_range(limit), column.type)


def signed_range(bits: int) -> tuple[int, int]:
    """The least and the greatest whole number of so many bits."""
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def rounded_moment(moment: int, unit: int) -> int:
    """To whole units, half away from 2000 as in PostgreSQL: TIMESTAMP(0) has the unit 1 s."""
    count = moment // unit
    twice_remainder = 2 * (moment - count * unit)
    if twice_remainder > unit or (twice_remainder == unit and moment >= 946_684_800_000_000):
        count += 1
    return count * unit


def decode(value: Scalar, type: Type) -> Any:
    """The representation of a value -> what a user reads.

    >>> decode(150, DECIMAL(12, 2))
    Decimal('1.50')
    """
    if value is None:
        return None
    kind = type.kind
    if kind is Kind.DECIMAL:
        return decimal.Decimal(int(value)).scaleb(-type.scale, _DECIMAL_CONTEXT)
    if kind is Kind.DATE:
        return EPOCH_DATE + dt.timedelta(days=int(value))
    if kind is Kind.TIMESTAMP:
        return EPOCH + dt.timedelta(microseconds=int(value))
    if kind is Kind.DOUBLE:
        return float(value)
    if kind is Kind.BOOLEAN:
        return bool(value)
    return value


_DECIMAL_CONTEXT = decimal.Context(prec=80)


def scaled(value: decimal.Decimal, scale: int) -> int:
    """A decimal -> the integer value * 10**scale, rounded half away from zero as in PostgreSQL."""
    shifted = value.scaleb(scale, _DECIMAL_CONTEXT)
    return int(shifted.to_integral_value(decimal.ROUND_HALF_UP, _DECIMAL_CONTEXT))


_no_decimal = RangeFailure("a DOUBLE does not fit into DECIMAL")


def units_of_double(value: float, units: int) -> int:
    """A double as a DECIMAL: the nearest whole number of units, of which 1 has so many.

    Half a unit is rounded away from zero, as in PostgreSQL. A double that is the nearest one to
    half a unit counts as that half: 1.005, which is a little less, is 101 hundredths.
    """
    size = abs(value)
    if not size < 9223372036854775808.0 or int(size) >= 9223372036854775807 // units:
        _no_decimal()
    total = nearest_units(size, units)
    return total if value >= 0.0 else -total


def nearest_units(size: float, units: int) -> int:
    """The same for a double that is not negative, and not too large."""
    integer = int(size)
    part = (size - float(integer)) * float(units)
    count = int(part)
    fraction = part - float(count)
    half = (float(count) + 0.5) / float(units)
    if fraction >= 0.5 or (fraction > 0.49 and float(integer) + half == size):
        count += 1
    return integer * units + count


def _in_range(value: int, bounds: tuple[int, int], type: Type) -> int:
    low, high = bounds
    if not low <= value <= high:
        raise RangeError(f"{shown_value(value)} is out of range for {type}")
    return value


_MOST_DIGITS = 40
"""A number with more digits before its point is out of every type's range."""


def _check_digits(value: decimal.Decimal, type: Type) -> None:
    """RangeError before a power of ten is written out in full: Decimal('1e999999999')."""
    if value.is_finite() and value and value.adjusted() > _MOST_DIGITS:
        raise RangeError(f"{shown_value(value)} is out of range for {type}")


def _integral(value: Any, type: Type) -> int:
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, decimal.Decimal)):
        raise TypeError
    if isinstance(value, decimal.Decimal):
        _check_digits(value, type)
    number: Any = value
    if int(number) != number:
        raise ValueError
    return int(number)


def _encode_integer(value: Any, type: Type) -> int:
    return _in_range(_integral(value, type), INT32 if type.kind is Kind.INTEGER else INT64, type)


def _encode_decimal(value: Any, type: Type) -> int:
    if isinstance(value, bool) or not isinstance(value, (numbers.Number, decimal.Decimal, str)):
        raise TypeError
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError
        number = units_of_double(value, 10**type.scale)
    else:
        exact = decimal.Decimal(str(value))
        if not exact.is_finite():
            raise ValueError
        _check_digits(exact, type)
        number = scaled(exact, type.scale)
    if abs(number) >= 10**type.precision:
        raise RangeError(f"{shown_value(value)} is out of range for {type}")
    return number


def _encode_double(value: Any, type: Type) -> float:
    if isinstance(value, (bool, str, bytes, bytearray)):
        raise TypeError
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        raise TypeError
    number = float(value)
    if math.isinf(number) and value != number:
        raise OverflowError
    return float(normalized(number))


def _encode_date(value: Any, type: Type) -> int:
    if isinstance(value, str):
        value = dt.date.fromisoformat(value)
    if isinstance(value, dt.datetime):
        if value.time() != dt.time():
            raise ValueError
        value = value.date()
    if not isinstance(value, dt.date):
        raise TypeError
    return (value - EPOCH_DATE).days


def _encode_timestamp(value: Any, type: Type) -> int:
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if not isinstance(value, dt.date):
        raise TypeError
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    moment: dt.datetime = value
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def _encode_boolean(value: Any, type: Type) -> bool:
    if isinstance(value, bool) or type_name(value) == "bool":
        return bool(value)
    raise TypeError


def _encode_varchar(value: Any, type: Type) -> str:
    if not isinstance(value, str):
        raise TypeError
    check_text(value)
    return str(value)


def check_text(value: str) -> None:
    """UnicodeEncodeError for a lone surrogate, which is in no text and which no file can keep."""
    if not value.isascii():
        value.encode()


def type_name(value: object) -> str:
    """The type's bare name, which is `bool` for NumPy's booleans too."""
    return str(type(value).__name__).rstrip("_")


_ENCODERS: Mapping[Kind, Any] = {
    Kind.BOOLEAN: _encode_boolean,
    Kind.INTEGER: _encode_integer,
    Kind.BIGINT: _encode_integer,
    Kind.DECIMAL: _encode_decimal,
    Kind.DOUBLE: _encode_double,
    Kind.DATE: _encode_date,
    Kind.TIMESTAMP: _encode_timestamp,
    Kind.VARCHAR: _encode_varchar,
}
