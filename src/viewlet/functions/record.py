"""One record for each scalar function: everything that any stage knows about it.

    meaning     its value in Python, which is its definition
    result      the representation of its value
    nulls       where it is NULL
    sql         how SQL writes it, with the types of arguments and result
    kernel      how kernels compute it
    vector      how whole columns are computed
    monotone    how it moves with its arguments
    hint        what a user can do where a value does not fit

A record that lacks a part, or whose parts do not fit each other, is an error when this package is
imported. The parts that other packages use are here as data, so that a function is added in the
one file of its theme.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.functions.kernel_forms import KernelForm, Source
from viewlet.functions.scalars import NULL, Const, ScalarExpr
from viewlet.functions.sql_forms import SqlCall, SqlForm, SqlSyntax
from viewlet.functions.trends import Monotone
from viewlet.functions.vector_forms import VectorRule
from viewlet.schema import Physical, Scalar

ResultRule = Callable[[Sequence[ScalarExpr], Sequence[Physical]], Physical]
"""(arguments, their representations) -> the result's"""

IdentityRule = Callable[[tuple[ScalarExpr, ...]], ScalarExpr | None]
"""Arguments -> a simpler scalar that is the same, None where there is none."""


@dataclass(frozen=True)
class NullRule:
    """Where a function is NULL. `is_strict`: it is where an argument is, whatever the others are.

    `can_be_null` says from the arguments, and from which of them can be NULL, whether it can be.
    """

    is_strict: bool
    can_be_null: Callable[[Sequence[ScalarExpr], Sequence[bool]], bool]


def _where_any(arguments: Sequence[ScalarExpr], nullable: Sequence[bool]) -> bool:
    return any(nullable)


def _where_all(arguments: Sequence[ScalarExpr], nullable: Sequence[bool]) -> bool:
    return all(nullable)


def _unless_divisor_is_constant(arguments: Sequence[ScalarExpr], nullable: Sequence[bool]) -> bool:
    divisor = arguments[1]
    return any(nullable) or not (isinstance(divisor, Const) and bool(divisor.value))


STRICT = NullRule(True, _where_any)
"""NULL exactly where an argument is."""
STRICT_UNLESS_ZERO = NullRule(True, _unless_divisor_is_constant)
"""NULL where an argument is, and where the second is 0."""
LOOKS_AT_NULL = NullRule(False, _where_any)
"""Decides itself, and can be NULL where an argument is."""
FIRST_NOT_NULL = NullRule(False, _where_all)
"""NULL only where all arguments are."""
NEVER_NULL = NullRule(False, lambda arguments, nullable: False)
SOMETIMES_NULL = NullRule(False, lambda arguments, nullable: True)


COMPARISON_STRENGTH = 4
"""How tightly comparisons bind as text; they do not chain."""


@dataclass(frozen=True, kw_only=True)
class ScalarFunction:
    """A scalar function. Where `nulls` is strict, `meaning` never gets NULL; `call` may.

    `infix` is how tightly it binds, if it is written between its arguments.
    `counts_in_64_bits`: its value is a whole number that can outgrow 64 bits, which is an error.
    `can_refuse`: there are other arguments for which it is an error.
    `lazy` names the order of evaluation where not all arguments are looked at (evaluation.py).
    `settles`: applied to strings of its own again and again, it soon gives none that are new. Then
    its values may be kept for every string there is, those that it has made among them.
    `of_strings` computes it for an Arrow array of strings and constants, as an Arrow array.
    """

    name: str
    meaning: Callable[..., Any]
    result: Physical | ResultRule
    nulls: NullRule
    sql: SqlForm
    kernel: KernelForm
    vector: VectorRule
    monotone: Monotone
    hint: str
    identity: IdentityRule | None = None
    infix: int | None = None
    lazy: Callable[[Sequence[ScalarExpr]], list[Any]] | None = None
    counts_in_64_bits: bool = False
    can_refuse: bool = False
    settles: bool = False
    of_strings: Callable[..., Any] | None = None
    call: Callable[..., Scalar] = field(init=False, repr=False)
    fewest: int = field(init=False)
    most: int | None = field(init=False)

    def __post_init__(self) -> None:
        fewest, most = _arity(self.meaning)
        object.__setattr__(self, "fewest", fewest)
        object.__setattr__(self, "most", most)
        object.__setattr__(
            self, "call", _guarded(self.meaning) if self.nulls.is_strict else self.meaning
        )


def _guarded(meaning: Callable[..., Any]) -> Callable[..., Scalar]:
    def call(*arguments: Scalar) -> Scalar:
        return None if None in arguments else meaning(*arguments)

    return call


def _arity(meaning: Callable[..., Any]) -> tuple[int, int | None]:
    """How many arguments a function takes, at least and at most."""
    parameters = inspect.signature(meaning).parameters.values()
    single = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in single if p.default is p.empty]
    is_open = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return len(required), None if is_open else len(single)


FUNCTIONS: dict[str, ScalarFunction] = {}

CALLS: dict[str, list[ScalarFunction]] = {}
"""By what SQL calls a function: several records where the type of an argument decides."""

NATIVES: dict[str, Callable[..., Any]] = {}
"""Functions in the compiler's part of Python, by the name under which kernels call them."""


class IncompleteRecord(Exception):
    """A record that does not fit together: a mistake in this package."""


def define(function: ScalarFunction) -> ScalarFunction:
    """Take a function in, after a look at whether its parts fit."""
    if function.name in FUNCTIONS:
        raise IncompleteRecord(f"{function.name} is defined twice")
    _check_kernel(function)
    if isinstance(function.sql, SqlCall):
        _check_call(function, function.sql)
        for spelling in function.sql.spellings:
            CALLS.setdefault(spelling, []).append(function)
    FUNCTIONS[function.name] = function
    return function


def _check_kernel(function: ScalarFunction) -> None:
    if not isinstance(function.kernel, Source):
        return
    for native in function.kernel.natives:
        if NATIVES.setdefault(native.__name__, native) is not native:
            raise IncompleteRecord(f"{function.name}: there are two native {native.__name__}")
    unknown = function.kernel.unknown_names(NATIVES)
    if unknown:
        raise IncompleteRecord(f"{function.name}: its kernel calls {', '.join(sorted(unknown))}")


def _check_call(function: ScalarFunction, call: SqlCall) -> None:
    if call.scalar is None and (
        len(call.parameters) < function.fewest
        or (function.most is not None and len(call.parameters) > function.most)
    ):
        raise IncompleteRecord(f"{function.name} does not take {len(call.parameters)} arguments")
    if not call.spellings:
        raise IncompleteRecord(f"{function.name} has no name in SQL")
    for spelling in call.spellings:
        for other in CALLS.get(spelling, ()):
            assert isinstance(other.sql, SqlCall)
            if other.sql.parameters == call.parameters:
                raise IncompleteRecord(f"{function.name} and {other.name} are both {spelling}")


def duckdb_macros() -> list[str]:
    """What gives DuckDB's functions the meaning that ours have: `name(x) AS expression`."""
    forms = [record.sql for record in FUNCTIONS.values()]
    return [
        macro for form in forms if isinstance(form, SqlCall | SqlSyntax) for macro in form.duckdb
    ]


def widest(arguments: Sequence[ScalarExpr], types: Sequence[Physical]) -> Physical:
    """FLOAT if any argument is, else the representation of the first that is not NULL."""
    non_null = [type for argument, type in zip(arguments, types, strict=True) if argument != NULL]
    if Physical.FLOAT in non_null:
        return Physical.FLOAT
    return non_null[0] if non_null else Physical.INT
