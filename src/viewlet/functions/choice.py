"""Functions that give one of their arguments: CASE, COALESCE, NULLIF, LEAST and GREATEST; and the
test that there is one row at most to take a value from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from viewlet.errors import RangeFailure
from viewlet.functions import kernel_forms as source
from viewlet.functions.comparison import less_vectors, same
from viewlet.functions.evaluation import JUMP, POP, UNLESS_NULL, UNLESS_TRUE, Item, Label
from viewlet.functions.kernel_forms import BOOL, Code, Source, expression
from viewlet.functions.record import (
    FIRST_NOT_NULL,
    SOMETIMES_NULL,
    STRICT,
    NullRule,
    ScalarFunction,
    define,
    widest,
)
from viewlet.functions.scalars import FALSE, NULL, TRUE, Apply, ScalarExpr
from viewlet.functions.sql_forms import Internal, SqlSyntax
from viewlet.functions.trends import COMPUTED_IN_DESCENTS, NOT_MONOTONE
from viewlet.functions.vector_forms import Array, NotColumnar, Vector, by_row, chosen, numbers
from viewlet.schema import Physical, Scalar, ordering
from viewlet.schema import same as same_value

_NESTED = 16
"""Branches of one choice in kernels, where each lies inside the one before."""

# case(test, value, test, value, ..., otherwise)


def _pairs(arguments: Sequence[Any]) -> list[tuple[Any, Any]]:
    *branches, _ = arguments
    return list(zip(branches[::2], branches[1::2], strict=True))


def _values(arguments: Sequence[Any]) -> list[Any]:
    return [*arguments[1:-1:2], arguments[-1]]


def _case(*arguments: Scalar) -> Scalar:
    return next((then for test, then in _pairs(arguments) if test is True), arguments[-1])


def _case_in_order(arguments: Sequence[ScalarExpr]) -> list[Item]:
    """Only the chosen branch is evaluated."""
    end = Label()
    items: list[Item] = []
    for test, then in _pairs(arguments):
        otherwise = Label()
        items += [test, (UNLESS_TRUE, otherwise, 0), then, (JUMP, end, 0), otherwise]
    return [*items, arguments[-1], end]


def _case_type(arguments: Sequence[ScalarExpr], types: Sequence[Physical]) -> Physical:
    return widest(_values(arguments), _values(types))


def _case_can_be_null(arguments: Sequence[ScalarExpr], nullable: Sequence[bool]) -> bool:
    return any(_values(nullable))


def _without_dead_branches(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    """Branches that are never taken go; a branch always taken ends the CASE."""
    otherwise = arguments[-1]
    branches: list[ScalarExpr] = []
    for test, then in _pairs(arguments):
        if test == TRUE:
            otherwise = then
            break
        if test not in (FALSE, NULL):
            branches += [test, then]
    if not branches:
        return otherwise
    folded = (*branches, otherwise)
    return Apply("case", folded) if folded != arguments else None


def _case_source(parts: Sequence[Code], physical: Physical) -> Code:
    last = parts[-1].as_kind(physical)
    value, null = last.value, last.null
    for test, branch in reversed(_pairs(parts)):
        condition, then = test.where_true, branch.as_kind(physical)
        value = f"({then.value} if {condition} else {value})"
        if null is not None or then.null is not None:
            null = f"({then.null or source.FALSE} if {condition} else {null or source.FALSE})"
    return Code(value, null, physical)


def _fewer_branches(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    """case(..., t16, v16, t17, v17, ..., e) -> case(..., t16, v16, case(t17, v17, ..., e))"""
    first = 2 * _NESTED
    if len(arguments) <= first + 1:
        return None
    return Apply("case", (*arguments[:first], Apply("case", arguments[first:])))


def _case_vectors(*arguments: Vector) -> Vector:
    import numpy as np

    otherwise = arguments[-1]
    values, gaps = otherwise.values, otherwise.gaps()
    for test, then in reversed(_pairs(arguments)):
        which = test.values.astype(bool) & ~test.gaps()
        values = chosen(which, then.values, values, then.gaps(), gaps)
        gaps = np.where(which, then.gaps(), gaps)
    return Vector(values, gaps if gaps.any() else None)


define(
    ScalarFunction(
        name="case",
        meaning=_case,
        result=_case_type,
        nulls=NullRule(False, _case_can_be_null),
        sql=SqlSyntax("CASE WHEN a THEN b ELSE c END, IF(a, b, c), NULLIF(a, b)"),
        kernel=Source(_case_source, accepts_text=True, split=_fewer_branches),
        vector=_case_vectors,
        monotone=COMPUTED_IN_DESCENTS,
        hint="",
        identity=_without_dead_branches,
        lazy=_case_in_order,
    )
)


def _coalesce(*arguments: Scalar) -> Scalar:
    return next((a for a in arguments if a is not None), None)


def _until_not_null(arguments: Sequence[ScalarExpr]) -> list[Item]:
    end = Label()
    items: list[Item] = [arguments[0]]
    for argument in arguments[1:]:
        items += [(UNLESS_NULL, end, 0), (POP, None, 0), argument]
    return [*items, end]


def _coalesce_source(parts: Sequence[Code], physical: Physical) -> Code:
    parts = [part.as_kind(physical) for part in parts]
    value, null = parts[-1].value, parts[-1].null
    for part in reversed(parts[:-1]):
        if part.null is None:
            value, null = part.value, None
        else:
            value = f"({value} if {part.null} else {part.value})"
            null = source.all_true(part.null, null) if null is not None else None
    return Code(value, null, physical)


def _fewer_to_coalesce(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    if len(arguments) <= _NESTED:
        return None
    tail = Apply("coalesce", arguments[_NESTED - 1 :])
    return Apply("coalesce", (*arguments[: _NESTED - 1], tail))


def _coalesce_vectors(*arguments: Vector) -> Vector:
    values, gaps = arguments[-1].values, arguments[-1].gaps()
    for vector in reversed(arguments[:-1]):
        own = vector.gaps()
        values = chosen(~own, vector.values, values, own, gaps)
        gaps = own & gaps
    return Vector(values, gaps if gaps.any() else None)


define(
    ScalarFunction(
        name="coalesce",
        meaning=_coalesce,
        result=widest,
        nulls=FIRST_NOT_NULL,
        sql=SqlSyntax("COALESCE(a, b, ...)"),
        kernel=Source(_coalesce_source, accepts_text=True, split=_fewer_to_coalesce),
        vector=_coalesce_vectors,
        monotone=NOT_MONOTONE,
        hint="",
        lazy=_until_not_null,
    )
)


def _nullif_source(parts: Sequence[Code], physical: Physical) -> Code:
    null = source.any_of(parts[0].null, same(parts, BOOL).value)
    return Code(parts[0].value, null, physical)


define(
    ScalarFunction(
        name="nullif",
        meaning=lambda a, b: None if same_value(a, b) else a,
        result=lambda arguments, types: types[0],
        nulls=SOMETIMES_NULL,
        sql=Internal("programs as text: SQL's NULLIF is a CASE"),
        kernel=Source(_nullif_source, accepts_text=True),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)


# LEAST and GREATEST: strict ones for counts, and SQL's, which look at what is not NULL.


def _extreme_vectors(is_better: Callable[[Array, Array], Array]) -> Callable[..., Vector]:
    def rule(*arguments: Vector) -> Vector:
        import numpy as np

        numbers(*arguments)
        if len({vector.values.dtype.kind for vector in arguments}) > 1:
            raise NotColumnar("mixed numbers")
        best = arguments[0].values
        for vector in arguments[1:]:
            best = np.where(is_better(vector.values, best), vector.values, best)
        return Vector(best)

    return rule


def _of_non_null(choose: Callable[..., Any]) -> Callable[..., Any]:
    def meaning(*arguments: Any) -> Any:
        non_null = [a for a in arguments if a is not None]
        return choose(non_null, key=ordering) if non_null else None

    return meaning


def lesser_known(a, a_null, b, b_null):  # type: ignore[no-untyped-def]
    """The lesser of two values of one kind, or the one that is not NULL."""
    if a_null:
        return b
    return b if not b_null and (b < a or a != a) else a


def greater_known(a, a_null, b, b_null):  # type: ignore[no-untyped-def]
    """The greater of two values of one kind, or the one that is not NULL."""
    if a_null:
        return b
    return b if not b_null and (b > a or b != b) else a


def _non_null_source(native: Callable[..., Any]) -> Source:
    """Of pairs, and of their betters, so that it is not as deep as there are arguments."""

    def write(parts: Sequence[Code], physical: Physical) -> Code:
        if len(parts) == 1:
            return parts[0].as_kind(physical)
        half = (len(parts) + 1) // 2
        first, other = write(parts[:half], physical), write(parts[half:], physical)
        operands = (
            part or source.FALSE for code in (first, other) for part in (code.value, code.null)
        )
        null = None
        if first.null is not None and other.null is not None:
            null = source.all_true(first.null, other.null)
        return Code(f"{native.__name__}({', '.join(operands)})", null, physical)

    return Source(write, natives=(native,))


def _strict_source(native: Callable[..., Any]) -> Source:
    """The same where one NULL makes the result NULL."""
    of_non_null = _non_null_source(native)

    def write(parts: Sequence[Code], physical: Physical) -> Code:
        code = of_non_null.write([Code(p.value, None, p.physical) for p in parts], physical)
        return Code(code.value, source.any_of(*(part.null for part in parts)), physical)

    return Source(write, natives=(native,))


for _name, _choose, _native, _is_better in (
    ("least", min, lesser_known, less_vectors),
    ("greatest", max, greater_known, lambda a, b: less_vectors(b, a)),
):
    define(
        ScalarFunction(
            name=_name,
            meaning=lambda *a, choose=_choose: choose(a, key=ordering),
            result=widest,
            nulls=STRICT,
            sql=Internal("counts and spreads, which are never NULL"),
            kernel=_strict_source(_native),
            vector=_extreme_vectors(_is_better),
            monotone=NOT_MONOTONE,
            hint="",
        )
    )
    define(
        ScalarFunction(
            name=f"{_name}_known",
            meaning=_of_non_null(_choose),
            result=widest,
            nulls=FIRST_NOT_NULL,
            sql=SqlSyntax(f"{_name.upper()}(a, b, ...)"),
            kernel=_non_null_source(_native),
            vector=by_row,
            monotone=NOT_MONOTONE,
            hint="",
        )
    )


# single(n)

_several_rows = RangeFailure(
    "a subquery that stands for a value has more than one row",
    "select MIN(...) or MAX(...), or add ORDER BY ... LIMIT 1 to the subquery",
)


def single(count: int) -> bool:
    """TRUE, or the error that PostgreSQL gives where a scalar subquery has several rows."""
    if count > 1:
        _several_rows()
    return True


define(
    ScalarFunction(
        name="single",
        meaning=single,
        result=Physical.BOOL,
        nulls=STRICT,
        sql=Internal("a query in parentheses that stands for a value"),
        kernel=expression("single({0})", natives=(single,)),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
        can_refuse=True,
    )
)
