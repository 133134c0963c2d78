"""How whole columns are computed: the same values as row by row.

A vector is an array with a mask of NULLs (None: no NULLs). What has no form here, or might leave
what int64 holds, raises NotColumnar, and the caller evaluates row by row. NumPy is imported when a
column is computed: whoever compiles a view only does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Array = Any


class NotColumnar(Exception):
    """This scalar is for the row-by-row evaluator."""


@dataclass(frozen=True)
class Vector:
    """A column: its values, and where they are NULL."""

    values: Array
    nulls: Array | None = None

    def gaps(self) -> Array:
        """A mask of the NULLs, for every row."""
        import numpy as np

        return np.zeros(len(self.values), bool) if self.nulls is None else self.nulls.astype(bool)

    def take(self, row_numbers: Array) -> Vector:
        """The rows with these numbers."""
        return Vector(
            self.values[row_numbers], None if self.nulls is None else self.nulls[row_numbers]
        )

    @property
    def is_float(self) -> bool:
        """Whether the values are doubles; integers and truths are not."""
        return bool(self.values.dtype.kind == "f")


VectorRule = Callable[..., Vector]
"""Vectors -> a vector. For strict functions it need not look at NULLs of the arguments."""


def by_row(*arguments: Vector) -> Vector:
    """The rule of functions without a form over columns."""
    raise NotColumnar


def ufunc_of_doubles(name: str) -> VectorRule:
    """NumPy's function of doubles, to which integers are converted."""

    def rule(*arguments: Vector) -> Vector:
        import numpy as np

        numbers(*arguments)
        return Vector(getattr(np, name)(*(v.values.astype(np.float64) for v in arguments)))

    return rule


def integer_ufunc(name: str, bound: Callable[[float, float], float]) -> VectorRule:
    """NumPy's function; `bound` says how large the result can be where the arguments are so large.

    Integers are exact: what might leave int64 is for Python's own.
    """

    def rule(a: Vector, b: Vector) -> Vector:
        import numpy as np

        numbers(a, b)
        operation = getattr(np, name)
        if a.is_float or b.is_float:
            return Vector(operation(a.values, b.values))
        if bound(reach(a), reach(b)) >= 2.0**62:
            raise NotColumnar("large numbers")
        return Vector(operation(a.values.astype(np.int64), b.values.astype(np.int64)))

    return rule


def numbers(*vectors: Vector) -> None:
    """NotColumnar where strings, or integers beyond int64, are among the arguments."""
    if any(vector.values.dtype == object for vector in vectors):
        raise NotColumnar("strings")


def reach(vector: Vector) -> float:
    """The largest magnitude in a vector of numbers."""
    import numpy as np

    return float(np.abs(vector.values.astype(np.float64)).max(initial=0.0))


def chosen(
    which: np.ndarray, then: Array, other: Array, then_gaps: Array, other_gaps: Array
) -> Array:
    """`then` where `which` holds, else `other`; what is NULL throughout has no representation."""
    import numpy as np

    if then_gaps.all():
        return other
    if other_gaps.all():
        return then
    if (then.dtype == object) != (other.dtype == object):
        raise NotColumnar("mixed branches")
    return np.where(which, then, other)


def any_null(vectors: list[Vector]) -> Array | None:
    """Where one of the vectors is NULL."""
    import numpy as np

    masks = [vector.gaps() for vector in vectors if vector.nulls is not None]
    return np.logical_or.reduce(masks) if masks else None
