"""SQL functions of dates, text and numbers -> typed scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.casts import cast
from viewlet.frontend.syntax import fault, sql_of
from viewlet.frontend.types import (
    Typed,
    as_boolean,
    as_number,
    as_text,
    is_text_constant,
    text_as,
    to_double,
)
from viewlet.functions import Const, apply
from viewlet.schema import BIGINT, DATE, DOUBLE, INTEGER, VARCHAR, Kind, Type

_PARTS: Mapping[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.Quarter: "quarter",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
    exp.DayOfWeek: "dow",
    exp.DayOfMonth: "day",
    exp.DayOfYear: "doy",
}

_TEXT_FUNCTIONS: Mapping[type[exp.Expr], tuple[str, Type]] = {
    exp.Upper: ("upper", VARCHAR),
    exp.Lower: ("lower", VARCHAR),
    exp.Length: ("length", BIGINT),
}

_DOUBLE_FUNCTIONS: Mapping[type[exp.Expr], str] = {
    exp.Sqrt: "sqrt",
    exp.Exp: "exp",
    exp.Ln: "ln",
    exp.Pow: "power",
}


class Functions:
    """Rules for function calls; operands are lowered by whoever inherits from this."""

    def lower(self, node: exp.Expr) -> Typed:
        raise NotImplementedError

    def boolean(self, node: exp.Expr, what: str) -> Typed:
        return as_boolean(self.lower(node), node, what)

    def number(self, node: exp.Expr, what: str) -> Typed:
        return as_number(self.lower(node), node, what)

    def text(self, node: exp.Expr, what: str) -> Typed:
        return as_text(self.lower(node), node, what)

    # Dates.

    def date(self, node: exp.Expr) -> Typed:
        """DATE('1998-01-01'), DATE(timestamp)"""
        return cast(self.lower(node.this), DATE, node)

    def date_part(self, node: exp.Expr) -> Typed:
        if isinstance(node, exp.Extract):
            part, operand = node.this.name.lower(), node.expression
            part = {"dayofweek": "dow", "dayofyear": "doy", "dayofmonth": "day"}.get(part, part)
        else:
            part, operand = _PARTS[type(node)], node.this
        value = self._moment(operand, "EXTRACT")
        name = f"{value.type.kind.name.lower()}_{part}"
        if part not in _PARTS.values():
            raise fault(
                UnsupportedError,
                f"EXTRACT({part.upper()} ...) is not supported",
                node,
                "parts are YEAR, QUARTER, MONTH, DAY, HOUR, MINUTE, SECOND, DOW and DOY",
            )
        return Typed(apply(name, value.scalar), BIGINT)

    def truncate(self, node: exp.Expr) -> Typed:
        """DATE_TRUNC(part, d), which keeps the type of d"""
        unit = node.args["unit"]
        part = unit.name.lower()
        value = self._moment(node.this, "DATE_TRUNC")
        if part not in ("year", "quarter", "month", "week", "day", "hour", "minute", "second"):
            raise fault(UnsupportedError, f"DATE_TRUNC('{part}', ...) is not supported", node)
        if value.type == DATE and part in ("hour", "minute", "second"):
            return value
        return Typed(
            apply(f"{value.type.kind.name.lower()}_trunc_{part}", value.scalar), value.type
        )

    def _moment(self, node: exp.Expr, what: str) -> Typed:
        value = self.lower(node)
        if value.type.kind is Kind.NULL:
            return Typed(value.scalar, DATE)
        if is_text_constant(value):
            return text_as(value, DATE, node)
        if value.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
            raise fault(TypingError, f"{what} needs a date, {sql_of(node)} is {value.type}", node)
        return value

    # Functions of text and numbers.

    def substring(self, node: exp.Substring) -> Typed:
        parts = [self.text(node.this, "SUBSTRING").scalar]
        for place in ("start", "length"):
            operand = node.args.get(place)
            if operand is not None:
                parts.append(self._integer(operand, "SUBSTRING").scalar)
            elif place == "start":
                parts.append(Const(1))
        return Typed(apply("substring", *parts), VARCHAR)

    def _integer(self, node: exp.Expr, what: str) -> Typed:
        value = self.lower(node)
        if value.type.kind not in (Kind.INTEGER, Kind.BIGINT, Kind.NULL):
            raise fault(
                TypingError, f"{what} needs an integer, {sql_of(node)} is {value.type}", node
            )
        return value

    def trim(self, node: exp.Trim) -> Typed:
        if node.expression is not None and node.expression.name != " ":
            raise fault(UnsupportedError, "TRIM takes away blanks only", node, "use REPLACE")
        side = str(node.args.get("position") or "BOTH").upper()
        name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side]
        return Typed(apply(name, self.text(node.this, "TRIM").scalar), VARCHAR)

    def replace(self, node: exp.Replace) -> Typed:
        parts = [node.this, node.expression, node.args.get("replacement") or exp.Literal.string("")]
        return Typed(apply("replace", *(self.text(p, "REPLACE").scalar for p in parts)), VARCHAR)

    def of_text(self, node: exp.Expr) -> Typed:
        name, result = _TEXT_FUNCTIONS[type(node)]
        return Typed(apply(name, self.text(node.this, name.upper()).scalar), result)

    def keeping(self, node: exp.Expr) -> Typed:
        """ABS keeps the type of its argument, SIGN gives an integer"""
        value = self.number(node.this, type(node).__name__.upper())
        if isinstance(node, exp.Sign):
            return Typed(apply("sign", value.scalar), INTEGER)
        return Typed(apply("abs", value.scalar), value.type)

    def of_double(self, node: exp.Expr) -> Typed:
        name = _DOUBLE_FUNCTIONS[type(node)]
        parts = [node.this, *([node.expression] if isinstance(node, exp.Pow) else [])]
        values = [to_double(self.number(part, name.upper())).scalar for part in parts]
        return Typed(apply(name, *values), DOUBLE)

    def floor(self, node: exp.Expr) -> Typed:
        """FLOOR and CEIL: whole DECIMALs of DECIMALs, DOUBLE of DOUBLE"""
        name = "floor" if isinstance(node, exp.Floor) else "ceil"
        value = self.number(node.this, name.upper())
        if value.type.kind in (Kind.INTEGER, Kind.BIGINT):
            return value
        if value.type.kind is Kind.DECIMAL:
            unit = Const(10**value.type.scale)
            scalar = apply(f"decimal_{name}", value.scalar, unit)
            return Typed(scalar, Type(Kind.DECIMAL, value.type.precision, 0))
        return Typed(apply("to_float", apply(name, value.scalar)), DOUBLE)

    def round(self, node: exp.Round) -> Typed:
        """ROUND(x [, digits]), half away from zero"""
        value = self.number(node.this, "ROUND")
        places = node.args.get("decimals")
        digits = self._integer(places, "ROUND").scalar if places is not None else Const(0)
        if not isinstance(digits, Const) or not isinstance(digits.value, int):
            raise fault(UnsupportedError, "ROUND needs a constant number of digits", node)
        if value.type.kind in (Kind.INTEGER, Kind.BIGINT) and digits.value >= 0:
            return value
        if value.type.kind is Kind.DECIMAL and digits.value >= 0:
            if digits.value >= value.type.scale:
                return value
            unit = Const(10 ** (value.type.scale - digits.value))
            rounded = apply("rescale", value.scalar, unit)
            return Typed(rounded, Type(Kind.DECIMAL, value.type.precision, digits.value))
        return Typed(apply("round", to_double(value).scalar, digits), DOUBLE)


FUNCTION_RULES: Mapping[type[exp.Expr], Callable[..., Typed]] = {
    exp.Date: Functions.date,
    exp.Extract: Functions.date_part,
    exp.TimestampTrunc: Functions.truncate,
    exp.DateTrunc: Functions.truncate,
    exp.Substring: Functions.substring,
    exp.Trim: Functions.trim,
    exp.Replace: Functions.replace,
    exp.Abs: Functions.keeping,
    exp.Sign: Functions.keeping,
    exp.Floor: Functions.floor,
    exp.Ceil: Functions.floor,
    exp.Round: Functions.round,
    **dict.fromkeys(_PARTS, Functions.date_part),
    **dict.fromkeys(_TEXT_FUNCTIONS, Functions.of_text),
    **dict.fromkeys(_DOUBLE_FUNCTIONS, Functions.of_double),
}
