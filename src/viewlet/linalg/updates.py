"""Updates as users give them, turned into validated low-rank factors.

A row update is e_i d^T with d = new - old, a column update d e_j^T, and a set of entries is grouped
by rows or by columns, whichever are fewer. A batch is merged before it is applied: updates of the
same row add up, so that a batch over r distinct rows has rank r however many updates it held
(thesis 6.6.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from viewlet.errors import DataError
from viewlet.linalg import arrays
from viewlet.linalg.arrays import Array, OneHot, Sparse, Value
from viewlet.linalg.expr import Matrix
from viewlet.linalg.expr import matrix as declare

Change = tuple[Value, Value]  # u, v with dA = u v^T


def as_input(matrix: Matrix, value: Any) -> Array | Sparse:
    """A private copy of the initial value of an input."""
    if sparse.issparse(value):
        if value.shape != matrix.shape:
            raise _wrong_shape(matrix.name, value.shape, matrix.shape)
        matrix_copy = Sparse(value.copy())
        if not arrays.is_finite(matrix_copy):
            raise _not_finite(matrix.name)
        return matrix_copy
    dense = _numbers(matrix.name, value)
    if dense.ndim == 1 and matrix.shape[1] == 1:
        dense = dense[:, None]
    if dense.shape != matrix.shape:
        raise _wrong_shape(matrix.name, dense.shape, matrix.shape)
    if not np.isfinite(dense).all():
        raise _not_finite(matrix.name)
    return np.array(dense, dtype=np.float64, order="C")


def as_factors(matrix: Matrix, u: Any, v: Any) -> Change:
    """u and v as n x k and m x k arrays for dA = u v^T."""
    left = _factor(matrix, u, 0)
    right = _factor(matrix, v, 1)
    if left.shape[1] != right.shape[1]:
        raise DataError(
            f"the update of {matrix.name} has {left.shape[1]} columns in u and "
            f"{right.shape[1]} in v",
            hint="u and v need the same number of columns, the rank of the update",
        )
    return left, right


def _factor(matrix: Matrix, value: Any, axis: int) -> Value:
    name = "uv"[axis]
    if isinstance(value, OneHot):
        dense: Value = value
    else:
        array = _numbers(f"{name} of the update of {matrix.name}", value)
        dense = np.asfortranarray(array[:, None] if array.ndim == 1 else array)
    if len(dense.shape) != 2 or dense.shape[0] != matrix.shape[axis]:
        raise DataError(
            f"{name} has shape {tuple(np.shape(value))}, but {matrix.name} is "
            f"{matrix.shape[0]} x {matrix.shape[1]}",
            hint=f"{name} must be ({matrix.shape[axis]},) or ({matrix.shape[axis]}, k)",
        )
    if not arrays.is_finite(dense):
        raise _not_finite(f"{name} of the update of {matrix.name}")
    return dense


def _numbers(what: str, value: Any) -> Array:
    if sparse.issparse(value):
        value = value.toarray()
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} is not an array of real numbers") from None


def _wrong_shape(name: str, got: Sequence[int], want: Sequence[int]) -> DataError:
    return DataError(
        f"{name} has shape {tuple(got)}, the program declares {tuple(want)}",
        hint="nothing was changed; check the dimensions given to la.matrix",
    )


def _not_finite(what: str) -> DataError:
    return DataError(f"{what} holds NaN or infinite values", hint="nothing was changed")


def row_change(matrix: Matrix, rows: Mapping[int, Any], old: Any) -> Change:
    """Set whole rows; old(indices) gives the present ones."""
    indices = _indices(matrix, list(rows), 0)
    width = matrix.shape[1]
    new = np.empty((len(indices), width))
    for at, value in enumerate(rows.values()):
        row = _numbers(f"row {indices[at]} of {matrix.name}", value).reshape(-1)
        if row.shape != (width,):
            raise DataError(
                f"row {indices[at]} has {row.size} values, {matrix.name} has {width} columns"
            )
        new[at] = row
    if not np.isfinite(new).all():
        raise _not_finite(f"a row of {matrix.name}")
    return OneHot(indices, matrix.shape[0]), np.asfortranarray((new - old(indices)).T)


def entry_change(matrix: Matrix, entries: Iterable[tuple[int, int, float]], old: Any) -> Change:
    """Set single entries; the last of several values for one entry counts."""
    latest = {(int(i), int(j)): float(x) for i, j, x in entries}
    rows = _indices(matrix, [i for i, _ in latest], 0, distinct=False)
    columns = _indices(matrix, [j for _, j in latest], 1, distinct=False)
    values = np.fromiter(latest.values(), dtype=np.float64, count=len(latest))
    if not np.isfinite(values).all():
        raise _not_finite(f"an entry of {matrix.name}")
    by_row, row_at = np.unique(rows, return_inverse=True)
    by_column, column_at = np.unique(columns, return_inverse=True)
    if len(by_row) <= len(by_column):
        delta = np.zeros((len(by_row), matrix.shape[1]))
        present = old(by_row, 0)
        delta[row_at, columns] = values - present[row_at, columns]
        return OneHot(by_row, matrix.shape[0]), np.asfortranarray(delta.T)
    delta = np.zeros((matrix.shape[0], len(by_column)), order="F")
    present = old(by_column, 1)
    delta[rows, column_at] = values - present[rows, column_at]
    return delta, OneHot(by_column, matrix.shape[1])


def column_change(matrix: Matrix, columns: Mapping[int, Any], old: Any) -> Change:
    """Set whole columns; old(indices) gives the present ones."""
    flipped = declare(matrix.name, matrix.shape[1], matrix.shape[0])
    left, right = row_change(flipped, columns, lambda at: old(at).T)
    return right, left


def _indices(matrix: Matrix, indices: Sequence[int], axis: int, *, distinct: bool = True) -> Any:
    n = matrix.shape[axis]
    kind = ("row", "column")[axis]
    for index in indices:
        if isinstance(index, bool) or not hasattr(index, "__index__") or not -n <= index < n:
            raise DataError(f"{matrix.name} has no {kind} {index!r}; it has {n} {kind}s")
    wrapped = np.array([int(i) % n for i in indices], dtype=np.intp)
    if distinct and len(np.unique(wrapped)) != len(wrapped):
        raise DataError(f"the same {kind} of {matrix.name} is given twice")
    return wrapped


def merge(changes: Sequence[Change]) -> Change:
    """One change equal to the sum of several; row updates to the same row add up."""
    if len(changes) == 1:
        return changes[0]
    for side in (0, 1):
        if all(isinstance(change[side], OneHot) for change in changes):
            return _merge_units(changes, side)
    u = np.hstack([arrays.dense_of(left) for left, _ in changes])
    v = np.hstack([arrays.dense_of(right) for _, right in changes])
    return arrays.recompress(u, v)


def _merge_units(changes: Sequence[Change], side: int) -> Change:
    units: list[OneHot] = [change[side] for change in changes]  # type: ignore[misc]
    others = np.hstack([arrays.dense_of(change[1 - side]) for change in changes])
    indices, where = np.unique(
        np.concatenate([unit.indices for unit in units]), return_inverse=True
    )
    total = np.zeros((others.shape[0], len(indices)), order="F")
    np.add.at(total.T, where, others.T)
    unit = OneHot(indices, units[0].n)
    return (unit, total) if side == 0 else (total, unit)


def without_zeros(change: Change) -> Change | None:
    """Drop columns that change nothing; None when nothing is left."""
    u, v = change
    alive = np.ones(u.shape[1], dtype=bool)
    for part in (u, v):
        if isinstance(part, np.ndarray):
            alive &= part.any(axis=0)
    if alive.all():
        return change if u.shape[1] else None
    if not alive.any():
        return None
    return _columns(u, alive), _columns(v, alive)


def _columns(part: Value, alive: Any) -> Value:
    if isinstance(part, OneHot):
        return OneHot(part.indices[alive], part.n)
    assert isinstance(part, np.ndarray)
    return np.asfortranarray(part[:, alive])
