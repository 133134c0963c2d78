"""SQL functions -> typed scalars, by what the records of viewlet.functions say of them.

Most functions need nothing here: a call finds its record by its name and the types of its
arguments. Calls with a grammar of their own (EXTRACT, DATE_TRUNC, TRIM) are brought to that form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.casts import cast
from viewlet.frontend.date_patterns import formatted
from viewlet.frontend.syntax import fault, sql_of
from viewlet.frontend.text_calls import split_index
from viewlet.frontend.time_calls import bucket, date_diff, seconds
from viewlet.frontend.types import (
    Typed,
    as_boolean,
    as_integer,
    as_moment,
    as_number,
    as_text,
    is_text_constant,
    text_as,
    to_double,
)
from viewlet.functions import CALLS, NULL, Const, ScalarFunction, SqlCall, apply
from viewlet.functions.regular import WrongPattern, check_replacement, pattern_of
from viewlet.functions.sql_forms import Accepts, Parameter
from viewlet.schema import BIGINT, DATE, VARCHAR, Kind, Type

Operands = Sequence[exp.Expr | None]
"""The arguments as they stand, None for one that was left out before others."""


class Functions:
    """Rules for function calls; operands are lowered by whoever inherits from this."""

    def lower(self, node: exp.Expr) -> Typed:
        """An expression of SQL as a typed scalar."""
        raise NotImplementedError

    def boolean(self, node: exp.Expr, what: str) -> Typed:
        """The same, which must be a condition."""
        return as_boolean(self.lower(node), node, what)

    def number(self, node: exp.Expr, what: str) -> Typed:
        """The same, which must be a number."""
        return as_number(self.lower(node), node, what)

    def text(self, node: exp.Expr, what: str) -> Typed:
        """The same, which must be a string."""
        return as_text(self.lower(node), node, what)

    # Calls by their records.

    def call(self, node: exp.Func) -> Typed:
        """F(a, b)"""
        if isinstance(node, exp.Anonymous) and node.name.upper() in GRAMMATICAL:
            return GRAMMATICAL[node.name.upper()](self.lower, node)
        names = [node.name.upper()] if isinstance(node, exp.Anonymous) else node.sql_names()
        spelling = next(name for name in names if name in CALLS)
        return self.called(spelling, _operands(node), node)

    def called(self, spelling: str, operands: Operands, node: exp.Expr) -> Typed:
        """The function with this name whose parameters accept the operands."""
        name = spelling.partition(" ")[0]
        values = [None if operand is None else self.lower(operand) for operand in operands]
        record = _accepting(CALLS[spelling], values, name, node)
        call = _call_of(record)
        arguments, types = [], []
        for number, parameter in enumerate(call.parameters):
            operand = operands[number] if number < len(operands) else None
            value = values[number] if operand is not None else None
            if value is None or operand is None:
                if parameter.default is None:
                    break
                value = Typed(parameter.default, BIGINT)
            else:
                value = _converted(parameter, value, operand, name)
            if parameter.constant and not isinstance(value.scalar, Const):
                raise fault(UnsupportedError, f"{name} needs a constant {parameter.constant}", node)
            arguments.append(value.scalar)
            types.append(value.type)
        rule = call.scalar
        scalar = apply(record.name, *arguments) if rule is None else rule(arguments, types)
        result = call.result
        return Typed(scalar, result if isinstance(result, Type) else result(arguments, types))

    # Calls with a grammar of their own.

    def date(self, node: exp.Date) -> Typed:
        """DATE('1998-01-01'), DATE(timestamp)"""
        return cast(self.lower(node.this), DATE, node)

    def date_part(self, node: exp.Extract) -> Typed:
        """EXTRACT(part FROM date or timestamp)"""
        part = node.this.name.upper()
        if f"EXTRACT {part}" not in CALLS:
            part_names = _first_names("EXTRACT")
            raise fault(
                UnsupportedError,
                f"EXTRACT({part} ...) is not supported",
                node,
                f"parts are {', '.join(part_names[:-1])} and {part_names[-1]}",
            )
        if part == "EPOCH" and (difference := seconds(self.lower, node.expression)) is not None:
            return difference
        return self.called(f"EXTRACT {part}", [node.expression], node)

    def truncate(self, node: exp.TimestampTrunc | exp.DateTrunc) -> Typed:
        """DATE_TRUNC(part, d)"""
        part = node.args["unit"].name
        if f"DATE_TRUNC {part.upper()}" not in CALLS:
            message = f"DATE_TRUNC('{part.lower()}', ...) is not supported"
            units = ", ".join(name.lower() for name in _first_names("DATE_TRUNC"))
            raise fault(UnsupportedError, message, node, f"units are {units}")
        return self.called(f"DATE_TRUNC {part.upper()}", [node.this], node)

    def trim(self, node: exp.Trim) -> Typed:
        """TRIM, LTRIM and RTRIM, of blanks or of the characters in a text"""
        side = str(node.args.get("position") or "BOTH").upper()
        characters = [] if node.expression is None else [node.expression]
        return self.called(f"TRIM {side}", [node.this, *characters], node)

    def concatenated(self, node: exp.ConcatWs) -> Typed:
        """CONCAT_WS(separator, a, b): what is not NULL, with separators between

        Each part comes with a separator before it, and the first separator is cut off.
        """
        if not node.expressions:
            raise fault(TypingError, "CONCAT_WS needs a separator", node)
        between, *parts = node.expressions
        separator = self.text(between, "CONCAT_WS").scalar
        texts = [
            apply(
                "coalesce",
                apply("concat", separator, cast(self.lower(part), VARCHAR, part).scalar),
                Const(""),
            )
            for part in parts
        ]
        start = apply("+", apply("length", separator), Const(1))
        joined = apply("concat", *texts) if len(texts) > 1 else (texts or [Const("")])[0]
        return Typed(apply("substring", joined, start), VARCHAR)

    def formed(self, node: exp.Expr) -> Typed:
        """A call that sqlglot has a node with other names for"""
        spelling, operands = FORMS[type(node)](node)
        return self.called(spelling, operands, node)

    def regular(self, node: exp.Expr) -> Typed:
        """A call with a regular expression, which must be one; flags become a part of it"""
        spelling, operands, flags = _regular(node)
        pattern = self.text(node.expression, spelling).scalar
        if not isinstance(pattern, Const):
            name = spelling.partition(" ")[0]
            message = f"{name} needs a constant regular expression"
            raise fault(UnsupportedError, message, node)
        if pattern != NULL:
            text = f"(?i){pattern.value}" if "i" in flags else str(pattern.value)
            replacement = node.args.get("replacement")
            other = None if replacement is None else self.text(replacement, spelling).scalar
            group = node.args.get("position")
            number = None if group is None else self.lower(group).scalar
            try:
                groups = pattern_of(text).groups
                if isinstance(other, Const) and other != NULL:
                    check_replacement(text, str(other.value))
                asked = number.value if isinstance(number, Const) else None
                if isinstance(asked, int) and not 0 <= asked <= groups:
                    raise WrongPattern(f"there is no group {asked}")
            except WrongPattern as error:
                message = f"{sql_of(node.expression)} is not a regular expression: {error}"
                raise fault(TypingError, message, node) from None
            operands = [operands[0], exp.Literal.string(text), *operands[2:]]
        return self.called(spelling, operands, node)

    def logarithm(self, node: exp.Log) -> Typed:
        """LOG(x) and LOG10(x), which sqlglot reads as LOG(10, x)"""
        base, value = node.this, node.expression
        if value is None:
            return self.called("LOG", [base], node)
        if not isinstance(base, exp.Literal) or base.name != "10":
            raise fault(
                UnsupportedError, f"{sql_of(node)} is not supported", node, "write LN(x) / LN(base)"
            )
        return self.called("LOG10", [value], node)


def _operands(node: exp.Func) -> list[exp.Expr | None]:
    """The arguments of a call in their order."""
    operands: list[exp.Expr | None] = []
    for name in node.arg_types:
        argument = node.args.get(name)
        if isinstance(node, exp.Anonymous) and name == "this":
            continue
        if isinstance(argument, list):
            operands += argument
        else:
            operands.append(argument or None)
    while operands and operands[-1] is None:
        operands.pop()
    return operands


def _call_of(record: ScalarFunction) -> SqlCall:
    assert isinstance(record.sql, SqlCall)
    return record.sql


def _first_names(spelling: str) -> list[str]:
    """YEAR, QUARTER, ...: what may follow a name, each by its first spelling."""
    calls = [_call_of(r) for name in CALLS if name.startswith(f"{spelling} ") for r in CALLS[name]]
    return list(dict.fromkeys(call.spellings[0].partition(" ")[2] for call in calls))


def _accepting(
    records: list[ScalarFunction], arguments: Sequence[Typed | None], name: str, node: exp.Expr
) -> ScalarFunction:
    """The first function that takes the operands; where none does, the first, whose conversion
    will say what is wrong."""
    fitting = [record for record in records if _has_arity(_call_of(record), arguments)]
    if not fitting:
        most = max(len(_call_of(record).parameters) for record in records)
        raise fault(
            TypingError,
            f"{name} takes {most} argument{'s'[: most > 1]}, not {len(arguments)}",
            node,
        )
    for record in fitting:
        parameters = _call_of(record).parameters
        if all(v is None or _accepts(p, v) for p, v in zip(parameters, arguments, strict=False)):
            return record
    return fitting[0]


def _has_arity(call: SqlCall, arguments: Sequence[Typed | None]) -> bool:
    missing = [
        p for i, p in enumerate(call.parameters) if i >= len(arguments) or arguments[i] is None
    ]
    return len(arguments) <= len(call.parameters) and all(
        p.default is not None or p.is_optional for p in missing
    )


_EXACT = frozenset((Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL))

_KINDS: Mapping[Accepts, frozenset[Kind]] = {
    Accepts.NUMBER: _EXACT | {Kind.DOUBLE},
    Accepts.EXACT: _EXACT,
    Accepts.DOUBLE: _EXACT | {Kind.DOUBLE},
    Accepts.INTEGER: frozenset((Kind.INTEGER, Kind.BIGINT)),
    Accepts.TEXT: frozenset((Kind.VARCHAR,)),
    Accepts.DATE: frozenset((Kind.DATE,)),
    Accepts.TIMESTAMP: frozenset((Kind.TIMESTAMP,)),
}

_CONVERSIONS: Mapping[Accepts, Callable[[Typed, exp.Expr, str], Typed]] = {
    Accepts.NUMBER: as_number,
    Accepts.EXACT: as_number,
    Accepts.DOUBLE: lambda value, node, what: to_double(as_number(value, node, what)),
    Accepts.INTEGER: as_integer,
    Accepts.TEXT: as_text,
    Accepts.DATE: as_moment,
    Accepts.TIMESTAMP: as_moment,
}


def _accepts(parameter: Parameter, value: Typed) -> bool:
    if value.type.kind is Kind.NULL or (
        parameter.accepts is Accepts.DATE and is_text_constant(value)
    ):
        return True
    return value.type.kind in _KINDS[parameter.accepts]


def _converted(parameter: Parameter, value: Typed, node: exp.Expr, what: str) -> Typed:
    if parameter.accepts is Accepts.DATE and is_text_constant(value):
        return text_as(value, DATE, node)
    return _CONVERSIONS[parameter.accepts](value, node, what)


GRAMMATICAL: Mapping[str, Callable[..., Typed]] = {
    **dict.fromkeys(("DATE_BIN", "TIME_BUCKET"), bucket),
    **dict.fromkeys(("DATE_FORMAT", "STRFTIME", "TO_CHAR"), formatted),
    "SPLIT_INDEX": split_index,
}
"""Calls that sqlglot has no node for and that need more than a record."""

FORMS: Mapping[type[exp.Expr], Callable[[exp.Expr], tuple[str, Operands]]] = {
    exp.Pad: lambda node: (
        "LPAD" if node.args.get("is_left") else "RPAD",
        _without_gaps(node.this, node.expression, node.args.get("fill_pattern")),
    ),
    exp.StrPosition: lambda node: ("STRPOS", [node.this, node.args["substr"]]),
    exp.Chr: lambda node: ("CHR", node.expressions),
    exp.SHA: lambda node: ("SHA1", [node.this]),
    exp.SHA2Digest: lambda node: ("SHA256", [node.this]),
    exp.Initcap: lambda node: _initcap(node),
    exp.Translate: lambda node: ("TRANSLATE", [node.this, node.args["from_"], node.args["to"]]),
}
"""By the node: what its record is called, and the arguments in their order."""

_DEFAULT_DELIMITERS = " \t\n\r\f\v!\"#$%&'()*+,\\-./:;<=>?@\\[\\]^_`{|}~"


def _initcap(node: exp.Expr) -> tuple[str, Operands]:
    """sqlglot gives the dialect's delimiters to a call without any."""
    default = node.expression is None or node.expression.name == _DEFAULT_DELIMITERS
    return "INITCAP", [node.this] if default else [node.this, node.expression]


def _without_gaps(*operands: exp.Expr | None) -> list[exp.Expr]:
    return [operand for operand in operands if operand is not None]


def _regular(node: exp.Expr) -> tuple[str, Operands, str]:
    """What a call with a regular expression is called, its arguments, and its flags"""
    options = next(
        (node.args[n] for n in ("modifiers", "flag", "options") if node.args.get(n)), None
    )
    flags = "" if options is None else options.name
    allowed = "gi" if isinstance(node, exp.RegexpReplace) else "i"
    if options is not None and (
        not isinstance(options, exp.Literal) or set(flags) - set(allowed + "c")
    ):
        names = " and ".join(allowed)
        raise fault(UnsupportedError, f"flags of regular expressions are {names}", node)
    if isinstance(node, exp.RegexpReplace):
        spelling = "REGEXP_REPLACE ALL" if "g" in flags else "REGEXP_REPLACE"
        return (
            spelling,
            _without_gaps(node.this, node.expression, node.args.get("replacement")),
            flags,
        )
    if isinstance(node, exp.RegexpExtract):
        operands = _without_gaps(node.this, node.expression, node.args.get("position"))
        return "REGEXP_EXTRACT", operands, flags
    if isinstance(node, exp.RegexpFullMatch):
        return "REGEXP_FULL_MATCH", [node.this, node.expression], flags
    ignores = "i" if isinstance(node, exp.RegexpILike) else ""
    return "REGEXP_LIKE", [node.this, node.expression], flags + ignores


FUNCTION_RULES: Mapping[type[exp.Expr], Callable[..., Typed]] = {
    **{exp.FUNCTION_BY_NAME[n]: Functions.call for n in CALLS if n in exp.FUNCTION_BY_NAME},
    exp.Date: Functions.date,
    exp.DateDiff: lambda self, node: date_diff(self.lower, node),
    exp.Extract: Functions.date_part,
    exp.TimestampTrunc: Functions.truncate,
    exp.DateTrunc: Functions.truncate,
    exp.Trim: Functions.trim,
    exp.ConcatWs: Functions.concatenated,
    **dict.fromkeys(FORMS, Functions.formed),
    **dict.fromkeys(
        (exp.RegexpLike, exp.RegexpILike, exp.RegexpFullMatch, exp.RegexpExtract),
        Functions.regular,
    ),
    exp.RegexpReplace: Functions.regular,
    exp.Log: Functions.logarithm,
}
"""By what sqlglot makes of a call. Names that it does not know are Anonymous there."""
