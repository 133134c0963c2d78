"""Truths with NULL as the third: AND, OR, NOT, the IS tests, and IN."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewlet.functions import kernel_forms as source
from viewlet.functions.comparison import NEGATED
from viewlet.functions.evaluation import CALL, IF_FALSE, IF_TRUE, Item, Label, apply
from viewlet.functions.kernel_forms import BOOL, Code, Rewritten, Source, expression
from viewlet.functions.record import (
    FUNCTIONS,
    LOOKS_AT_NULL,
    NEVER_NULL,
    STRICT,
    IdentityRule,
    ScalarFunction,
    define,
)
from viewlet.functions.scalars import FALSE, NULL, TRUE, Apply, Const, ScalarExpr
from viewlet.functions.sql_forms import SqlSyntax
from viewlet.functions.trends import COMPUTED_IN_DESCENTS, NOT_MONOTONE
from viewlet.functions.vector_forms import Vector, by_row
from viewlet.schema import Physical, Scalar, same

# AND and OR take any number of arguments, so that a thousand terms are not a thousand levels.


def _flat(name: str, decisive: Const, neutral: Const) -> IdentityRule:
    """x or (y or z) -> x or y or z,  x or TRUE -> TRUE,  x or FALSE -> x

    NULL or x or NULL -> NULL or x: once is as unknown as twice, and a text reads back as it was.
    """

    def rule(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
        terms: list[ScalarExpr] = []
        for argument in arguments:
            parts: tuple[ScalarExpr, ...] = (argument,)
            if isinstance(argument, Apply) and argument.function == name:
                parts = argument.arguments
            for term in parts:
                if term == decisive:
                    return decisive
                if term != neutral and not (term == NULL and NULL in terms):
                    terms.append(term)
        if len(terms) < 2:
            return terms[0] if terms else neutral
        return None if tuple(terms) == arguments else Apply(name, tuple(terms))

    return rule


def _stopping(name: str, jump: int) -> Callable[[Sequence[ScalarExpr]], list[Item]]:
    """One argument after the other, until one decides."""

    def lazy(arguments: Sequence[ScalarExpr]) -> list[Item]:
        end = Label()
        items: list[Item] = [arguments[0]]
        for argument in arguments[1:]:
            items += [(jump, end, 0), argument, (CALL, FUNCTIONS[name], 2)]
        return [*items, end]

    return lazy


def _and(*arguments: Scalar) -> Scalar:
    if False in arguments:
        return False
    return None if None in arguments else True


def _and_source(parts: Sequence[Code], physical: Physical) -> Code:
    """FALSE wins over NULL."""
    value = source.all_true(*(part.where_true for part in parts))
    null = source.any_of(*(part.null for part in parts))
    if null is not None:
        decided = source.any_true(*(part.where_false for part in parts))
        null = source.all_true(null, source.inverse(decided))
    return Code(value, null, BOOL, truth=value)


def _and_vectors(*arguments: Vector) -> Vector:
    import numpy as np

    false = np.logical_or.reduce([~v.values.astype(bool) & ~v.gaps() for v in arguments])
    unknown = np.logical_or.reduce([v.gaps() for v in arguments]) & ~false
    return Vector(~false & ~unknown, unknown if unknown.any() else None)


define(
    ScalarFunction(
        name="and",
        meaning=_and,
        result=Physical.BOOL,
        nulls=LOOKS_AT_NULL,
        sql=SqlSyntax("a AND b"),
        kernel=Source(_and_source, accepts_text=True),
        vector=_and_vectors,
        monotone=COMPUTED_IN_DESCENTS,
        hint="",
        identity=_flat("and", FALSE, TRUE),
        infix=2,
        lazy=_stopping("and", IF_FALSE),
    )
)


def _or(*arguments: Scalar) -> Scalar:
    if True in arguments:
        return True
    return None if None in arguments else False


def _or_source(parts: Sequence[Code], physical: Physical) -> Code:
    """TRUE wins over NULL."""
    value = source.any_true(*(part.where_true for part in parts))
    null = source.any_of(*(part.null for part in parts))
    if null is not None:
        null = source.all_true(null, source.inverse(value))
    return Code(value, null, BOOL, truth=value)


def _or_vectors(*arguments: Vector) -> Vector:
    import numpy as np

    true = np.logical_or.reduce([v.values.astype(bool) & ~v.gaps() for v in arguments])
    unknown = np.logical_or.reduce([v.gaps() for v in arguments]) & ~true
    return Vector(true, unknown if unknown.any() else None)


define(
    ScalarFunction(
        name="or",
        meaning=_or,
        result=Physical.BOOL,
        nulls=LOOKS_AT_NULL,
        sql=SqlSyntax("a OR b"),
        kernel=Source(_or_source, accepts_text=True),
        vector=_or_vectors,
        monotone=COMPUTED_IN_DESCENTS,
        hint="",
        identity=_flat("or", TRUE, FALSE),
        infix=1,
        lazy=_stopping("or", IF_TRUE),
    )
)


def _negated(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    """not(not(x)) -> x and not(a < b) -> a >= b, which is as true, false or NULL as before.

    NaN is the one value for which the second does not hold; viewlet orders NaN as equal to itself
    and above all numbers, as PostgreSQL does, so it is a total order here.
    """
    (inner,) = arguments
    if isinstance(inner, Apply):
        if inner.function == "not":
            return inner.arguments[0]
        if inner.function in NEGATED:
            return apply(NEGATED[inner.function], *inner.arguments)
    return None


def _not_vector(a: Vector) -> Vector:
    return Vector(~a.values.astype(bool))


define(
    ScalarFunction(
        name="not",
        meaning=lambda a: not a,
        result=Physical.BOOL,
        nulls=STRICT,
        sql=SqlSyntax("NOT a"),
        kernel=expression("(not {0})"),
        vector=_not_vector,
        monotone=COMPUTED_IN_DESCENTS,
        hint="",
        identity=_negated,
    )
)


def _null_test(parts: Sequence[Code], physical: Physical) -> Code:
    return Code(parts[0].null or source.FALSE, None, BOOL)


define(
    ScalarFunction(
        name="is_null",
        meaning=lambda a: a is None,
        result=Physical.BOOL,
        nulls=NEVER_NULL,
        sql=SqlSyntax("a IS NULL"),
        kernel=Source(_null_test, accepts_text=True),
        vector=lambda a: Vector(a.gaps()),
        monotone=NOT_MONOTONE,
        hint="",
    )
)


def _truth_test(parts: Sequence[Code], physical: Physical) -> Code:
    return Code(parts[0].where_true, None, BOOL)


define(
    ScalarFunction(
        name="is_true",
        meaning=lambda a: a is True,
        result=Physical.BOOL,
        nulls=NEVER_NULL,
        sql=SqlSyntax("a IS TRUE"),
        kernel=Source(_truth_test, accepts_text=True),
        vector=lambda a: Vector(a.values.astype(bool) & ~a.gaps()),
        monotone=NOT_MONOTONE,
        hint="",
    )
)


def _in(value: Scalar, *candidates: Scalar) -> Scalar:
    """NULL where the answer depends on a NULL."""
    if value is None:
        return None
    if any(same(value, c) for c in candidates if c is not None):
        return True
    return None if None in candidates else False


def _any_equal(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr:
    """a in (b, c) -> a = b or a = c"""
    value, *candidates = arguments
    tests = tuple(Apply("=", (value, candidate)) for candidate in candidates)
    return tests[0] if len(tests) == 1 else Apply("or", tests)


define(
    ScalarFunction(
        name="in",
        meaning=_in,
        result=Physical.BOOL,
        nulls=LOOKS_AT_NULL,
        sql=SqlSyntax("a IN (b, ...)"),
        kernel=Rewritten(_any_equal),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)
