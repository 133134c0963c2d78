"""Scalars made, simplified, typed and evaluated by the records of their functions.

An evaluation runs over steps, made once for each scalar and kept:

    case(a > 0, b, c)      load a, push 0, call >, unless TRUE go to 7, load b, go to 8, load c

so that only the branch that is chosen is computed, and depth costs no stack of Python's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from viewlet.errors import RangeError
from viewlet.functions.record import FUNCTIONS, ScalarFunction
from viewlet.functions.scalars import NULL, Apply, Const, Ref, ScalarExpr, fold, free_variables
from viewlet.schema import INT64, Physical, Scalar, normalized


def apply(function: str, *arguments: ScalarExpr) -> ScalarExpr:
    """The normalizing constructor: folds constants and the identities of the function.

    f(c1, c2)  -> the constant f(c1, c2)     unless that is out of range
    f(NULL, x) -> NULL                       f strict
    x and TRUE -> x,  x or FALSE -> x,  x + 0 -> x,  x * 1 -> x,  not(not(x)) -> x
    """
    record = FUNCTIONS[function]
    if all(isinstance(a, Const) for a in arguments):
        try:
            values = [argument.value for argument in arguments if isinstance(argument, Const)]
            return Const(normalized(record.call(*values)))
        except RangeError:
            return Apply(function, arguments)
    if record.nulls.is_strict and NULL in arguments:
        return NULL
    if record.identity is not None:
        simpler = record.identity(arguments)
        if simpler is not None:
            return simpler
    return Apply(function, arguments)


def substitute(scalar: ScalarExpr, replacement: Mapping[str, ScalarExpr]) -> ScalarExpr:
    """Replace variables by scalars, folding what becomes constant."""
    if free_variables(scalar).isdisjoint(replacement):
        return scalar

    def leaf(scalar: Const | Ref) -> ScalarExpr:
        return replacement.get(scalar.name, scalar) if isinstance(scalar, Ref) else scalar

    def leave(scalar: Apply, parts: Sequence[ScalarExpr]) -> ScalarExpr:
        return apply(scalar.function, *parts)

    return fold(scalar, leaf, leave)


def physical_type(scalar: ScalarExpr, environment: Mapping[str, Physical]) -> Physical:
    """The representation of a scalar's value where `environment` gives the variables'."""

    def leaf(scalar: Const | Ref) -> Physical:
        if isinstance(scalar, Ref):
            return environment[scalar.name]
        return _CONSTANT_TYPES[type(scalar.value)]

    return fold(scalar, leaf, result_type)


def result_type(scalar: Apply, types: Sequence[Physical]) -> Physical:
    """The representation of a function's value, from those of its arguments."""
    rule = FUNCTIONS[scalar.function].result
    return rule if isinstance(rule, Physical) else rule(scalar.arguments, types)


_CONSTANT_TYPES: Mapping[type, Physical] = {
    bool: Physical.BOOL,
    int: Physical.INT,
    float: Physical.FLOAT,
    str: Physical.STR,
    type(None): Physical.INT,
}


def can_be_null(scalar: ScalarExpr, nullable: Mapping[str, bool]) -> bool:
    """Whether a scalar can be NULL where `nullable` says which variables can."""

    def leaf(scalar: Const | Ref) -> bool:
        return nullable[scalar.name] if isinstance(scalar, Ref) else scalar.value is None

    def leave(scalar: Apply, parts: Sequence[bool]) -> bool:
        return FUNCTIONS[scalar.function].nulls.can_be_null(scalar.arguments, parts)

    return fold(scalar, leaf, leave)


def can_fail(scalar: ScalarExpr) -> bool:
    """Whether there are values of the variables for which evaluation is an error."""
    return any(r.can_refuse or r.counts_in_64_bits for r in _functions(scalar))


def can_refuse(scalar: ScalarExpr) -> bool:
    """The same, numbers that outgrow 64 bits left aside."""
    return any(record.can_refuse for record in _functions(scalar))


def settles(scalar: ScalarExpr) -> bool:
    """Whether all strings that it makes soon are strings that it has made before."""
    return all(r.settles or r.result is not Physical.STR for r in _functions(scalar))


def demands_one_row(scalar: ScalarExpr) -> bool:
    """Whether it is an error for a subquery of the scalar to have several rows."""
    return any(record.name == "single" for record in _functions(scalar))


def _functions(scalar: ScalarExpr) -> Iterator[ScalarFunction]:
    pending = [scalar]
    while pending:
        part = pending.pop()
        if isinstance(part, Apply):
            yield FUNCTIONS[part.function]
            pending += part.arguments


# Evaluation.

PUSH, LOAD, CALL, COUNT, POP, JUMP, UNLESS_TRUE, IF_FALSE, IF_TRUE, UNLESS_NULL = range(10)
"""Steps. COUNT is a call whose value must fit in 64 bits. Only UNLESS_TRUE takes its value away;
the other jumps leave it for where they go, and a POP takes it where they do not."""


class Label:
    """Where a jump goes."""


Step = tuple[int, Any, int]
"""What to do, with what, and with how many values."""

Item = ScalarExpr | tuple[int, Any, int] | Label


def evaluate(
    scalar: ScalarExpr, environment: Mapping[str, Scalar], *, is_wide: bool = False
) -> Scalar:
    """The value of a scalar where `environment` gives the variables.

    Whole numbers have 64 bits, and a RangeError ends what would not fit. `is_wide` is for rows that
    are made of a view's sums, which may have more.
    """
    if isinstance(scalar, Ref):
        return environment[scalar.name]
    if isinstance(scalar, Const):
        return scalar.value
    steps = _steps(scalar)
    stack: list[Any] = []
    at, end = 0, len(steps)
    while at < end:
        kind, operand, count = steps[at]
        at += 1
        if kind == LOAD:
            stack.append(environment[operand])
        elif kind == PUSH:
            stack.append(operand)
        elif kind in (CALL, COUNT):
            first = len(stack) - count
            value = operand.call(*stack[first:])
            del stack[first:]
            if type(value) is float:
                value = normalized(value)
            elif kind == COUNT and not is_wide:
                _check_64_bits(operand, value)
            stack.append(value)
        elif kind == POP:
            stack.pop()
        elif kind == UNLESS_TRUE:
            if stack.pop() is not True:
                at = operand
        elif kind == JUMP or _JUMPS[kind](stack[-1]):
            at = operand
    return stack.pop()  # type: ignore[no-any-return]


_JUMPS = {
    IF_FALSE: lambda value: value is False,
    IF_TRUE: lambda value: value is True,
    UNLESS_NULL: lambda value: value is not None,
}


def _check_64_bits(function: ScalarFunction, value: Scalar) -> None:
    if type(value) is int and not INT64[0] <= value <= INT64[1]:
        raise RangeError(
            f"{function.name} gives {value}, which is beyond 64-bit integers",
            hint=function.hint or None,
        )


@lru_cache(4096)
def _steps(scalar: Apply) -> tuple[Step, ...]:
    steps: list[Step] = []
    labels: dict[Label, int] = {}
    pending: list[Item] = [scalar]
    while pending:
        item = pending.pop()
        if isinstance(item, Label):
            labels[item] = len(steps)
        elif isinstance(item, tuple):
            steps.append(item)
        elif isinstance(item, Const):
            steps.append((PUSH, item.value, 0))
        elif isinstance(item, Ref):
            steps.append((LOAD, item.name, 0))
        else:
            pending.extend(reversed(_in_order(item)))
    return tuple((k, labels[o] if isinstance(o, Label) else o, n) for k, o, n in steps)


def _in_order(scalar: Apply) -> list[Item]:
    """The arguments of a function and its call, in the order in which they are evaluated."""
    record = FUNCTIONS[scalar.function]
    if record.lazy is not None:
        return record.lazy(scalar.arguments)
    kind = COUNT if record.counts_in_64_bits else CALL
    return [*scalar.arguments, (kind, record, len(scalar.arguments))]
