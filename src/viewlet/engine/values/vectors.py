"""Scalar expressions over whole columns: the same values as functions.evaluate row by row.

How a function is computed is in its record; what has no form there, or would leave the range of
int64, raises NotColumnar, and the caller evaluates row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from viewlet.functions import FUNCTIONS, Apply, Const, Ref, ScalarExpr, fold
from viewlet.functions.vector_forms import NotColumnar, Vector, any_null
from viewlet.storage.columns import Array

__all__ = ["NotColumnar", "Vector", "evaluate_vector", "truths"]


def evaluate_vector(scalar: ScalarExpr, environment: Mapping[str, Vector], length: int) -> Vector:
    """The scalar for each row of the environment's columns."""

    def leaf(scalar: Const | Ref) -> Vector:
        if isinstance(scalar, Ref):
            return environment[scalar.name]
        return _constant(scalar, length)

    return fold(scalar, leaf, _computed)


def _computed(scalar: Apply, arguments: Sequence[Vector]) -> Vector:
    record = FUNCTIONS[scalar.function]
    with np.errstate(all="ignore"):
        result = record.vector(*arguments)
    if not record.nulls.is_strict:
        return result
    return Vector(result.values, any_null([*arguments, result]))


def truths(scalar: ScalarExpr, environment: Mapping[str, Vector], length: int) -> Array:
    """Where a condition is TRUE."""
    vector = evaluate_vector(scalar, environment, length)
    return np.asarray(vector.values.astype(bool) & ~vector.gaps())


def _constant(scalar: Const, length: int) -> Vector:
    value = scalar.value
    if value is None:
        return Vector(np.zeros(length, np.int64), np.ones(length, bool))
    if isinstance(value, str):
        texts = np.empty(length, object)
        texts[:] = value
        return Vector(texts)
    if isinstance(value, int) and abs(value) >= 2**63:
        raise NotColumnar("a large constant")
    return Vector(np.full(length, value))
