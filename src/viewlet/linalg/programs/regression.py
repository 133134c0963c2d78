"""Regressions over observations that come, go and are corrected (thesis 6.4.1, 6.6.4).

Observations are rows of X and Y. The matrices have spare rows of zeros, which add nothing to X^T X
and X^T Y: adding an observation fills one, removing it clears one, and both are rank-1 updates of
X and Y applied as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from viewlet.errors import DataError, TypingError
from viewlet.linalg import expr as ex
from viewlet.linalg.arrays import Array, OneHot
from viewlet.linalg.live import Live
from viewlet.linalg.program import Program, program


class _Observations:
    """Rows of X and Y under stable numbers, over a live program with inputs X and Y."""

    def __init__(self, x: Any, y: Any, **options: Any) -> None:
        x, y = _table(x, "X"), _table(y, "Y")
        if len(x) != len(y):
            raise DataError(f"X has {len(x)} observations and Y has {len(y)}")
        self.features, self.responses = x.shape[1], y.shape[1]
        self._options = options
        self._used = np.ones(len(x), dtype=bool)
        self._start(x, y, len(x))

    def _program(self, capacity: int) -> Program:
        raise NotImplementedError

    def _inputs(self, x: Array, y: Array) -> dict[str, Array]:
        return {"X": x, "Y": y}

    def _start(self, x: Array, y: Array, capacity: int) -> None:
        padded_x = np.zeros((capacity, self.features))
        padded_y = np.zeros((capacity, self.responses))
        padded_x[: len(x)], padded_y[: len(y)] = x, y
        used = np.zeros(capacity, dtype=bool)
        used[: len(self._used)] = self._used
        options = {"changing": ["X", "Y"], **self._options}
        live = self._program(capacity).start(self._inputs(padded_x, padded_y), **options)
        self.live: Live = live
        self._used = used

    def __len__(self) -> int:
        return int(self._used.sum())

    def add(self, x: Any, y: Any) -> list[int]:
        """Add observations; the numbers under which they can be changed or removed later."""
        rows, targets = _rows(x, self.features, "x"), _rows(y, self.responses, "y")
        if len(rows) != len(targets):
            raise DataError(f"{len(rows)} rows of predictors and {len(targets)} of responses")
        free = np.flatnonzero(~self._used)
        if len(free) < len(rows):
            needed = len(self) + len(rows)
            self._start(self.live["X"], self.live["Y"], max(needed, 2 * len(self._used)))
            free = np.flatnonzero(~self._used)
        chosen = free[: len(rows)]
        unit = OneHot(chosen, len(self._used))
        self.live.update({"X": (unit, rows.T), "Y": (unit, targets.T)})
        self._used[chosen] = True
        return [int(i) for i in chosen]

    def remove(self, observations: Iterable[int]) -> None:
        """Take observations out again."""
        chosen = self._observation_rows(observations)
        unit = OneHot(chosen, len(self._used))
        x, y = self.live["X"][chosen], self.live["Y"][chosen]
        self.live.update({"X": (unit, -x.T), "Y": (unit, -y.T)})
        self._used[chosen] = False

    def correct(self, predictors: Mapping[int, Any], responses: Mapping[int, Any]) -> None:
        """Give observations new predictors and responses, as one update."""
        self._observation_rows(predictors)
        self._observation_rows(responses)
        with self.live.batch():
            self.live.set_rows("X", predictors)
            self.live.set_rows("Y", responses)

    def _observation_rows(self, observations: Iterable[int]) -> Any:
        chosen = np.array(sorted({int(i) for i in observations}), dtype=np.intp)
        for i in chosen:
            if not 0 <= i < len(self._used) or not self._used[i]:
                raise DataError(f"there is no observation {i}")
        return chosen

    def predict(self, x: Any) -> Array:
        """Responses for new predictors."""
        predicted: Array = _rows(x, self.features, "x") @ self.coefficients
        return predicted

    @property
    def coefficients(self) -> Array:
        coefficients: Array = self.live["beta"]
        return coefficients

    def error(self) -> float:
        """The estimated relative error of the coefficients."""
        return self.live.error("beta")


class Ridge(_Observations):
    """beta = (X^T X + penalty I)^-1 X^T Y, and the residual sums.

    >>> fit = la.Ridge(np.eye(2), np.array([1.0, 2.0]), penalty=1.0)
    >>> np.round(fit.coefficients.ravel(), 3)
    array([0.5, 1. ])
    """

    def __init__(self, x: Any, y: Any, *, penalty: float = 1.0, **options: Any) -> None:
        if not np.isfinite(penalty) or penalty < 0:
            raise TypingError(f"the penalty must be a number of at least 0, got {penalty}")
        self.penalty = float(penalty)
        super().__init__(x, y, **options)

    def _program(self, capacity: int) -> Program:
        x = ex.matrix("X", capacity, self.features)
        y = ex.matrix("Y", capacity, self.responses)
        z = x.T @ x + self.penalty * ex.eye(self.features)
        c = x.T @ y
        beta = ex.inv(z) @ c
        # |Y - X beta|^2 = Y^T Y - C^T beta - penalty beta^T beta, because Z beta = C
        residual = y.T @ y - c.T @ beta - self.penalty * (beta.T @ beta)
        return program(beta=beta, residual=residual)

    @property
    def residual_sums(self) -> Array:
        """The residual sum of squares of each response."""
        return np.maximum(np.diag(self.live["residual"]), 0.0)


class LeastSquares(Ridge):
    """Ordinary least squares: beta = (X^T X)^-1 X^T Y (thesis Example 6.3.2, Example 6.3.3).

    >>> fit = la.LeastSquares(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([1.0, 3.0]))
    >>> np.round(fit.coefficients.ravel(), 3)
    array([1., 2.])
    """

    def __init__(self, x: Any, y: Any, **options: Any) -> None:
        super().__init__(x, y, penalty=0.0, **options)


class GradientDescent(_Observations):
    """Batch gradient descent: beta <- beta - rate X^T (X beta - Y), a fixed number of steps.

    In the general form A = I - rate X^T X and B = rate X^T Y (thesis 6.6.4).

    >>> fit = la.GradientDescent(np.eye(3), np.array([1.0, 2.0, 3.0]), steps=40, rate=0.5)
    >>> np.round(fit.coefficients.ravel(), 3)
    array([1., 2., 3.])
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        *,
        steps: int = 16,
        rate: float | None = None,
        start: Any = None,
        **options: Any,
    ) -> None:
        table = _table(x, "X")
        # 1 / |X|_F^2 is below 1 / |X^T X|, so the iteration contracts.
        self.rate = float(rate) if rate is not None else 1.0 / max(float(np.sum(table**2)), 1e-300)
        self.steps = steps
        shape = (table.shape[1], _table(y, "Y").shape[1])
        self._first = np.zeros(shape) if start is None else _table(start, "start")
        super().__init__(x, y, **options)

    def _program(self, capacity: int) -> Program:
        x = ex.matrix("X", capacity, self.features)
        y = ex.matrix("Y", capacity, self.responses)
        start = ex.matrix("start", self.features, self.responses)
        a = ex.eye(self.features) - self.rate * (x.T @ x)
        return program(beta=ex.iterate(a, start, self.steps, self.rate * (x.T @ y)))

    def _inputs(self, x: Array, y: Array) -> dict[str, Array]:
        return {"X": x, "Y": y, "start": self._first}


def _table(value: Any, what: str) -> Array:
    try:
        table = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} is not a table of real numbers") from None
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2:
        raise DataError(f"{what} must have one row per observation")
    return table


def _rows(value: Any, width: int, what: str) -> Array:
    """One observation as a vector, or several as rows."""
    try:
        rows = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} is not made of real numbers") from None
    if rows.ndim == 0 or (rows.ndim == 1 and (width > 1 or rows.size == 1)):
        rows = rows.reshape(1, -1)
    elif rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] != width:
        raise DataError(f"{what} has shape {np.shape(value)}, one row has {width} values")
    return rows
