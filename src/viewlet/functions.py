"""Scalar expressions and the functions they may call.

A scalar expression computes one encoded value (see schema.py) from the values of variables. It is
the leaf language of the calculus: values, conditions and assignments hold one. Scalars are
immutable and hashable, and print in an infix form that `calculus.text` parses back.

NULL follows SQL: a strict function of NULL is NULL; AND, OR and NOT are three-valued; only the few
functions marked `strict=False` look at NULL themselves.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from viewlet.schema import EPOCH, EPOCH_DATE, Physical, Scalar


@dataclass(frozen=True)
class Const:
    """A literal."""

    value: Scalar

    # 1 == 1.0 == True in Python, and these are three different constants.
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Const)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __str__(self) -> str:
        return format_constant(self.value)


@dataclass(frozen=True)
class Ref:
    """The value of a variable."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Apply:
    """A function of scalars."""

    function: str
    arguments: tuple[ScalarExpr, ...]

    def __str__(self) -> str:
        return format_scalar(self)


ScalarExpr = Const | Ref | Apply

TRUE = Const(True)
FALSE = Const(False)
NULL = Const(None)


@dataclass(frozen=True)
class Function:
    """A scalar function: its meaning in Python and the representation of its result.

    `result` is a Physical, or a function of the arguments' representations.
    """

    name: str
    call: Callable[..., Scalar]
    result: Physical | Callable[[list[Physical]], Physical]
    strict: bool = True


FUNCTIONS: dict[str, Function] = {}

INFIX = {
    "or": ("or", 1),
    "and": ("and", 2),
    "=": ("=", 4),
    "<>": ("<>", 4),
    "<": ("<", 4),
    "<=": ("<=", 4),
    ">": (">", 4),
    ">=": (">=", 4),
    "==": ("==", 4),
    "+": ("+", 5),
    "-": ("-", 5),
    "*": ("*", 6),
    "/": ("/", 6),
}
"""Functions that print between their arguments, with their binding strength.

`=` is SQL's equality, NULL where an argument is NULL. `==` is sameness, where NULL is the same as
NULL: it is what joins on a shared variable mean, so that unification may use it.
"""


def apply(function: str, *arguments: ScalarExpr) -> ScalarExpr:
    """The normalising constructor: folds constants and the obvious identities.

    f(c1, c2)  -> the constant f(c1, c2)
    f(NULL, x) -> NULL                       f strict
    x and TRUE -> x,  x or FALSE -> x,  x + 0 -> x,  x * 1 -> x,  not(not(x)) -> x
    """
    definition = FUNCTIONS[function]
    if all(isinstance(a, Const) for a in arguments):
        return Const(definition.call(*_constants(arguments)))
    if definition.strict and NULL in arguments:
        return NULL
    identity = _IDENTITIES.get(function)
    if identity is not None:
        folded = identity(arguments)
        if folded is not None:
            return folded
    return Apply(function, arguments)


def _constants(arguments: tuple[ScalarExpr, ...]) -> list[Scalar]:
    return [a.value for a in arguments if isinstance(a, Const)]


def free_variables(scalar: ScalarExpr) -> frozenset[str]:
    """The variables whose values the scalar needs."""
    if isinstance(scalar, Ref):
        return frozenset((scalar.name,))
    if isinstance(scalar, Apply):
        return frozenset[str]().union(*(free_variables(a) for a in scalar.arguments))
    return frozenset()


def substitute(scalar: ScalarExpr, replacement: Mapping[str, ScalarExpr]) -> ScalarExpr:
    """Replace variables by scalars, folding what becomes constant."""
    if isinstance(scalar, Ref):
        return replacement.get(scalar.name, scalar)
    if isinstance(scalar, Apply):
        return apply(scalar.function, *(substitute(a, replacement) for a in scalar.arguments))
    return scalar


def evaluate(scalar: ScalarExpr, environment: Mapping[str, Scalar]) -> Scalar:
    """The value of a scalar where `environment` gives the variables."""
    if isinstance(scalar, Const):
        return scalar.value
    if isinstance(scalar, Ref):
        return environment[scalar.name]
    if scalar.function == "case":
        return _evaluate_case(scalar, environment)
    return FUNCTIONS[scalar.function].call(*(evaluate(a, environment) for a in scalar.arguments))


def _evaluate_case(scalar: Apply, environment: Mapping[str, Scalar]) -> Scalar:
    """Only the chosen branch is evaluated."""
    *branches, otherwise = scalar.arguments
    for test, then in zip(branches[::2], branches[1::2], strict=True):
        if evaluate(test, environment) is True:
            return evaluate(then, environment)
    return evaluate(otherwise, environment)


def physical_type(scalar: ScalarExpr, environment: Mapping[str, Physical]) -> Physical:
    """The representation of a scalar's value where `environment` gives the variables'."""
    if isinstance(scalar, Ref):
        return environment[scalar.name]
    if isinstance(scalar, Const):
        return _CONSTANT_TYPES[type(scalar.value)]
    rule = FUNCTIONS[scalar.function].result
    if isinstance(rule, Physical):
        return rule
    values = scalar.arguments
    if scalar.function == "case":
        values = (*values[1:-1:2], values[-1])
    return rule([physical_type(a, environment) for a in values if a != NULL])


_CONSTANT_TYPES: Mapping[type, Physical] = {
    bool: Physical.BOOL,
    int: Physical.INT,
    float: Physical.FLOAT,
    str: Physical.STR,
    type(None): Physical.INT,
}


def conjuncts(scalar: ScalarExpr) -> list[ScalarExpr]:
    """a and (b and c) -> [a, b, c]"""
    if isinstance(scalar, Apply) and scalar.function == "and":
        return [part for a in scalar.arguments for part in conjuncts(a)]
    return [] if scalar == TRUE else [scalar]


# --- text -----------------------------------------------------------------------------------------


def format_constant(value: Scalar) -> str:
    """As `calculus.text` reads it back; a float always shows that it is one."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def format_scalar(scalar: ScalarExpr, strength: int = 0) -> str:
    """Infix where INFIX says so, f(a, b) otherwise; parentheses only where needed."""
    if not isinstance(scalar, Apply):
        return str(scalar)
    if scalar.function in INFIX and len(scalar.arguments) == 2:
        symbol, own = INFIX[scalar.function]
        left, right = scalar.arguments
        # Comparisons do not chain, so both sides bind tighter; the others lean left.
        text = f"{format_scalar(left, own + (own == 4))} {symbol} {format_scalar(right, own + 1)}"
        return f"({text})" if own < strength else text
    return f"{scalar.function}({', '.join(format_scalar(a) for a in scalar.arguments)})"


# --- the functions --------------------------------------------------------------------------------


def _define(
    name: str,
    call: Callable[..., Any],
    result: Physical | Callable[[list[Physical]], Physical],
    *,
    strict: bool = True,
) -> None:
    def guarded(*arguments: Scalar) -> Scalar:
        return None if None in arguments else call(*arguments)

    FUNCTIONS[name] = Function(name, guarded if strict else call, result, strict)


def _widest(types: list[Physical]) -> Physical:
    """FLOAT if any argument is, else the first argument's representation."""
    if Physical.FLOAT in types:
        return Physical.FLOAT
    return types[0] if types else Physical.INT


def _divide(a: Any, b: Any) -> float | None:
    """Division by zero is NULL: one bad row must not stop a live view."""
    return None if b == 0 else a / b


def _integer_divide(a: int, b: int) -> int | None:
    """Truncates towards zero, as PostgreSQL does."""
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(a: Any, b: Any) -> Any:
    """The sign of the dividend, as in PostgreSQL."""
    if b == 0:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    remainder = abs(a) % abs(b)
    return remainder if a >= 0 else -remainder


def _rescale_down(value: int, factor: int) -> int:
    """value / factor, rounded half away from zero: DECIMAL to a smaller scale."""
    quotient, remainder = divmod(abs(value), factor)
    quotient += 2 * remainder >= factor
    return quotient if value >= 0 else -quotient


def _round_float(value: float, digits: int) -> float:
    """Half away from zero, as PostgreSQL and DuckDB round."""
    if not math.isfinite(value):
        return value
    factor = 10.0**digits
    return math.copysign(math.floor(abs(value) * factor + 0.5), value) / factor


def _and(*arguments: Scalar) -> Scalar:
    if False in arguments:
        return False
    return None if None in arguments else True


def _or(*arguments: Scalar) -> Scalar:
    if True in arguments:
        return True
    return None if None in arguments else False


def _case(*arguments: Scalar) -> Scalar:
    *branches, otherwise = arguments
    for test, then in zip(branches[::2], branches[1::2], strict=True):
        if test is True:
            return then
    return otherwise


def _coalesce(*arguments: Scalar) -> Scalar:
    return next((a for a in arguments if a is not None), None)


def _known(choose: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """SQL's LEAST and GREATEST, which pass over NULLs."""

    def chosen(*arguments: Any) -> Any:
        known = [a for a in arguments if a is not None]
        return choose(known) if known else None

    return chosen


def _in(value: Scalar, *candidates: Scalar) -> Scalar:
    """SQL's IN over a list: NULL where the answer hangs on a NULL."""
    if value is None:
        return None
    if value in [c for c in candidates if c is not None]:
        return True
    return None if None in candidates else False


@cache
def like_pattern(pattern: str, escape: str = "\\") -> re.Pattern[str]:
    """SQL's LIKE pattern -> a regular expression."""
    out, escaped = [], False
    for character in pattern:
        if escaped:
            out.append(re.escape(character))
            escaped = False
        elif character == escape:
            escaped = True
        elif character == "%":
            out.append(".*")
        elif character == "_":
            out.append(".")
        else:
            out.append(re.escape(character))
    return re.compile("".join(out), re.DOTALL)


def _like(value: str, pattern: str) -> bool:
    return like_pattern(pattern).fullmatch(value) is not None


def _substring(text: str, start: int, length: int | None = None) -> str:
    """Positions count from 1; a start before the text eats into the length."""
    begin = start - 1
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _date(days: int) -> dt.date:
    return EPOCH_DATE + dt.timedelta(days=days)


def _timestamp(microseconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=microseconds)


def _add_months_to(date: dt.date, months: int) -> dt.date:
    """The same day of a later month, or that month's last day."""
    index = date.year * 12 + date.month - 1 + months
    year, month = divmod(index, 12)
    last = (dt.date(year + (month == 11), (month + 1) % 12 + 1, 1) - dt.timedelta(days=1)).day
    return date.replace(year=year, month=month + 1, day=min(date.day, last))


def _date_add_months(days: int, months: int) -> int:
    return (_add_months_to(_date(days), months) - EPOCH_DATE).days


def _timestamp_add_months(microseconds: int, months: int) -> int:
    moment = _timestamp(microseconds)
    moved = dt.datetime.combine(_add_months_to(moment.date(), months), moment.time())
    return (moved - EPOCH) // dt.timedelta(microseconds=1)


_PARTS: Mapping[str, Callable[[dt.datetime], int]] = {
    "year": lambda d: d.year,
    "quarter": lambda d: (d.month + 2) // 3,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "hour": lambda d: d.hour,
    "minute": lambda d: d.minute,
    "second": lambda d: d.second,
    "dow": lambda d: (d.weekday() + 1) % 7,
    "doy": lambda d: d.timetuple().tm_yday,
}

DAY = 86_400_000_000
"""Microseconds of a day."""


def _start_of(part: str, date: dt.date) -> dt.date:
    if part == "year":
        return date.replace(month=1, day=1)
    if part == "quarter":
        return date.replace(month=(date.month - 1) // 3 * 3 + 1, day=1)
    if part == "month":
        return date.replace(day=1)
    return date - dt.timedelta(days=date.weekday()) if part == "week" else date


_TRUNCATED = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}


def _truncate(part: str, microseconds: int) -> int:
    if part in _TRUNCATED:
        return microseconds - microseconds % _TRUNCATED[part]
    date = _start_of(part, _timestamp(microseconds).date())
    return (date - EPOCH_DATE).days * DAY


def _cast_to_text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _decimal_text(value: int, scale: int) -> str:
    sign, digits = "-" if value < 0 else "", str(abs(value)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _float_to_int(value: float) -> int | None:
    """Half to even, as PostgreSQL and DuckDB cast."""
    return round(value) if math.isfinite(value) else None


def _define_all() -> None:
    _bool, _int, _float, _str = Physical.BOOL, Physical.INT, Physical.FLOAT, Physical.STR

    _define("+", lambda a, b: a + b, _widest)
    _define("-", lambda a, b: a - b, _widest)
    _define("*", lambda a, b: a * b, _widest)
    _define("/", _divide, _float)
    _define("neg", lambda a: -a, _widest)
    _define("div", _integer_divide, _int)
    _define("mod", _modulo, _widest)
    _define("abs", abs, _widest)
    _define("floor", lambda a: math.floor(a) if math.isfinite(a) else a, _float)
    _define("ceil", lambda a: math.ceil(a) if math.isfinite(a) else a, _float)
    _define("round", _round_float, _float)
    _define("sqrt", lambda a: math.sqrt(a) if a >= 0 else None, _float)
    _define("exp", lambda a: math.exp(a), _float)
    _define("ln", lambda a: math.log(a) if a > 0 else None, _float)
    _define("power", lambda a, b: float(a) ** b, _float)
    _define("sign", lambda a: (a > 0) - (a < 0), _int)
    _define("rescale", _rescale_down, _int)
    _define("decimal_floor", lambda a, unit: a // unit, _int)
    _define("decimal_ceil", lambda a, unit: -(-a // unit), _int)
    _define("to_float", float, _float)
    _define("to_int", _float_to_int, _int)
    _define("bool_to_int", int, _int)
    _define("to_text", _cast_to_text, _str)
    _define("decimal_text", _decimal_text, _str)
    _define("date_text", lambda a: _date(a).isoformat(), _str)
    _define("timestamp_text", lambda a: _timestamp(a).isoformat(" "), _str)

    _define("=", lambda a, b: a == b, _bool)
    _define("<>", lambda a, b: a != b, _bool)
    _define("<", lambda a, b: a < b, _bool)
    _define("<=", lambda a, b: a <= b, _bool)
    _define(">", lambda a, b: a > b, _bool)
    _define(">=", lambda a, b: a >= b, _bool)
    _define("==", lambda a, b: a == b, _bool, strict=False)
    _define("in", _in, _bool, strict=False)
    _define("is_null", lambda a: a is None, _bool, strict=False)
    _define("is_true", lambda a: a is True, _bool, strict=False)
    _define("and", _and, _bool, strict=False)
    _define("or", _or, _bool, strict=False)
    _define("not", lambda a: not a, _bool)
    _define("case", _case, _widest, strict=False)
    _define("coalesce", _coalesce, _widest, strict=False)
    _define("nullif", lambda a, b: None if a == b else a, lambda t: t[0], strict=False)
    _define("least", lambda *a: min(a), _widest)
    _define("greatest", lambda *a: max(a), _widest)

    _define("least_known", _known(min), _widest, strict=False)
    _define("greatest_known", _known(max), _widest, strict=False)

    _define("like", _like, _bool)
    _define("ilike", lambda a, b: _like(a.lower(), b.lower()), _bool)
    _define("substring", _substring, _str)
    _define("upper", str.upper, _str)
    _define("lower", str.lower, _str)
    _define("trim", lambda a: a.strip(" "), _str)
    _define("ltrim", lambda a: a.lstrip(" "), _str)
    _define("rtrim", lambda a: a.rstrip(" "), _str)
    _define("length", len, _int)
    _define("concat", lambda *a: "".join(a), _str)
    _define("replace", lambda a, b, c: a.replace(b, c) if b else a, _str)

    for part, of in _PARTS.items():
        _define(f"date_{part}", lambda d, of=of: of(_timestamp(d * DAY)), _int)
        _define(f"timestamp_{part}", lambda t, of=of: of(_timestamp(t)), _int)
    for part in ("year", "quarter", "month", "week", "day"):
        _define(
            f"date_trunc_{part}",
            lambda d, part=part: (_start_of(part, _date(d)) - EPOCH_DATE).days,
            _int,
        )
    for part in ("year", "quarter", "month", "week", "day", *_TRUNCATED):
        _define(f"timestamp_trunc_{part}", lambda t, part=part: _truncate(part, t), _int)
    _define("date_add_months", _date_add_months, _int)
    _define("timestamp_add_months", _timestamp_add_months, _int)
    _define("date_of_timestamp", lambda t: t // DAY, _int)
    _define("timestamp_of_date", lambda d: d * DAY, _int)


_define_all()


def _fold_and(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    if FALSE in arguments:
        return FALSE
    rest = tuple(a for a in arguments if a != TRUE)
    if len(rest) < len(arguments):
        return apply("and", *rest) if len(rest) > 1 else rest[0]
    return None


def _fold_or(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    if TRUE in arguments:
        return TRUE
    rest = tuple(a for a in arguments if a != FALSE)
    if len(rest) < len(arguments):
        return apply("or", *rest) if len(rest) > 1 else rest[0]
    return None


_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _fold_not(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    """not(not(x)) -> x and not(a < b) -> a >= b, which is as true, false or NULL as before.

    NaN is the one value for which the second does not hold; viewlet orders NaN as equal to itself
    and above all numbers, as PostgreSQL does, so it is a total order here.
    """
    (inner,) = arguments
    if isinstance(inner, Apply):
        if inner.function == "not":
            return inner.arguments[0]
        if inner.function in _NEGATED:
            return apply(_NEGATED[inner.function], *inner.arguments)
    return None


def _fold_plus(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    left, right = arguments
    if left == Const(0):
        return right
    return left if right == Const(0) else None


def _fold_times(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    left, right = arguments
    if left == Const(1):
        return right
    return left if right == Const(1) else None


def _fold_case(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    """Branches that are never taken go; a branch always taken ends the CASE."""
    *branches, otherwise = arguments
    kept: list[ScalarExpr] = []
    for test, then in zip(branches[::2], branches[1::2], strict=True):
        if test == TRUE:
            otherwise = then
            break
        if test not in (FALSE, NULL):
            kept += [test, then]
    if not kept:
        return otherwise
    folded = (*kept, otherwise)
    return Apply("case", folded) if folded != arguments else None


def _fold_same(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    return TRUE if arguments[0] == arguments[1] else None


_IDENTITIES: Mapping[str, Callable[[tuple[ScalarExpr, ...]], ScalarExpr | None]] = {
    "and": _fold_and,
    "or": _fold_or,
    "not": _fold_not,
    "+": _fold_plus,
    "*": _fold_times,
    "case": _fold_case,
    "==": _fold_same,
}
