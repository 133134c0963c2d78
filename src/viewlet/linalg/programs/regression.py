"""Regressions over observations that come, go and are corrected (thesis 6.4.1, 6.6.4).

Observations are rows of X and Y. The matrices have spare rows of zeros, which add nothing to X^T X
and X^T Y: adding an observation fills one, removing it clears one, and both are rank-1 updates of
X and Y applied as one. An intercept is a last column of X, 1 where there is an observation.

Shapes are those of NumPy: from a vector y come vectors of coefficients and predictions, from a
table with a column for each response come tables.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from viewlet.errors import DataError, TypingError
from viewlet.linalg import expr as ex
from viewlet.linalg.arrays import Array, OneHot
from viewlet.linalg.errors import SingularMatrixError
from viewlet.linalg.expr import Expr
from viewlet.linalg.live import Live
from viewlet.linalg.program import Program, program
from viewlet.linalg.real_numbers import real_array, real_number

_OPTIONS = tuple(inspect.signature(Program.start).parameters)[2:]
"""What a model hands on to `Program.start`."""

_FIRST_ROWS = 16
"""Rows that a model without observations has room for at first."""


class _Observations:
    """Rows of X and Y under stable numbers, over a live program with inputs X and Y.

    The program starts with the first observations; begun empty, when somebody reads a result.
    """

    def __init__(
        self,
        x: Any = None,
        y: Any = None,
        *,
        features: int | None = None,
        responses: int | None = None,
        fit_intercept: bool = False,
        **options: Any,
    ) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise TypingError(
                    f"{type(self).__name__} has no option {name}",
                    hint=f"options are {', '.join(self._own_options() + _OPTIONS)}",
                )
        if not isinstance(fit_intercept, bool | np.bool_):
            raise TypingError(f"fit_intercept is True or False, got {fit_intercept!r}")
        if x is None and y is None:
            if features is None:
                raise TypingError(
                    f"{type(self).__name__} has neither observations nor a number of features",
                    hint=f"{type(self).__name__}(x, y), or {type(self).__name__}(features=3) "
                    "to start empty",
                )
            x = np.zeros((0, _count(features, "features")))
            y = np.zeros(0 if responses is None else (0, _count(responses, "responses")))
        elif x is None or y is None:
            raise TypingError(
                f"observations are X and y, {'X' if x is None else 'y'} is missing",
                hint=f"{type(self).__name__}(x, y)",
            )
        self._is_vector = np.ndim(y) == 1
        x, y = _table(x, "X"), _table(y, "Y")
        if len(x) != len(y):
            raise DataError(f"X has {len(x)} observations and Y has {len(y)}")
        self.features, self.responses = x.shape[1], y.shape[1]
        for stated, actual, what in (
            (features, self.features, "features"),
            (responses, self.responses, "responses"),
        ):
            if stated is not None and stated != actual:
                raise DataError(f"{what}={stated}, and the observations have {actual}")
        self.fit_intercept = bool(fit_intercept)
        self._options = options
        self._used = np.ones(len(x), dtype=bool)
        self._live: Live | None = None
        self._waiting = (self._with_ones(x), y)
        if len(x):
            self._start(*self._waiting, len(x))

    @classmethod
    def _own_options(cls) -> tuple[str, ...]:
        """The arguments of this model, which its errors list."""
        named = [*inspect.signature(cls).parameters, *inspect.signature(_Observations).parameters]
        return tuple(dict.fromkeys(n for n in named if n not in ("x", "y", "options")))

    def _program(self, capacity: int) -> Program:
        raise NotImplementedError

    @property
    def _width(self) -> int:
        """Columns of X: the features, and the intercept's."""
        return int(self.features) + self.fit_intercept

    def _with_ones(self, x: Array) -> Array:
        return np.column_stack([x, np.ones(len(x))]) if self.fit_intercept else x

    def _inputs(self, x: Array, y: Array) -> dict[str, Array]:
        return {"X": x, "Y": y}

    def _start(self, x: Array, y: Array, capacity: int) -> None:
        padded_x, padded_y = _padded(x, capacity), _padded(y, capacity)
        options = {"changing": ["X", "Y"], **self._options}
        live = self._program(capacity).start(self._inputs(padded_x, padded_y), **options)
        self._live = live
        self._used = _padded(self._used, capacity)

    @property
    def live(self) -> Live:
        """The running program; of a model that began empty, started now."""
        if self._live is None:
            self._check_determined()
            self._start(*self._waiting, max(len(self._used), _FIRST_ROWS))
        assert self._live is not None
        return self._live

    def _check_determined(self) -> None:
        """Raise while there are too few observations for coefficients."""

    def __len__(self) -> int:
        return int(self._used.sum())

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self._settings().items())
        several = "" if self._is_vector else f", {self.responses} responses"
        return (
            f"<{type(self).__name__}: {len(self):,} observations of {self.features} features"
            f"{several}{settings}>"
        )

    def _settings(self) -> dict[str, Any]:
        return {"fit_intercept": self.fit_intercept}

    def add(self, x: Any, y: Any) -> list[int]:
        """Add observations; the numbers under which they can be changed or removed later."""
        rows = self._with_ones(_rows(x, self.features, "x"))
        targets = _rows(y, self.responses, "y")
        if len(rows) != len(targets):
            raise DataError(f"{len(rows)} rows of predictors and {len(targets)} of responses")
        _check_finite(rows, targets)
        free = np.flatnonzero(~self._used)
        if len(free) < len(rows):
            capacity = max(len(self) + len(rows), 2 * len(self._used), _FIRST_ROWS)
            if self._live is None:
                self._waiting = (
                    _padded(self._waiting[0], capacity),
                    _padded(self._waiting[1], capacity),
                )
                self._used = _padded(self._used, capacity)
            else:
                self._start(self.live["X"], self.live["Y"], capacity)
            free = np.flatnonzero(~self._used)
        chosen = free[: len(rows)]
        if self._live is None:
            self._waiting[0][chosen], self._waiting[1][chosen] = rows, targets
        else:
            unit = OneHot(chosen, len(self._used))
            self._live.update({"X": (unit, rows.T), "Y": (unit, targets.T)})
        self._used[chosen] = True
        return [int(i) for i in chosen]

    def remove(self, observations: Iterable[int]) -> None:
        """Take observations out again."""
        chosen = self._observation_rows(observations)
        if self._live is None:
            self._waiting[0][chosen], self._waiting[1][chosen] = 0.0, 0.0
        else:
            unit = OneHot(chosen, len(self._used))
            x, y = self._live["X"][chosen], self._live["Y"][chosen]
            self._live.update({"X": (unit, -x.T), "Y": (unit, -y.T)})
        self._used[chosen] = False

    def correct(
        self,
        predictors: Mapping[int, Any] | None = None,
        responses: Mapping[int, Any] | None = None,
    ) -> None:
        """Give observations new predictors and responses, by their numbers, as one update."""
        changes = {"X": self._corrections(predictors, self.features, "predictors")}
        changes["Y"] = self._corrections(responses, self.responses, "responses")
        changes["X"] = {i: self._with_ones(row[None, :])[0] for i, row in changes["X"].items()}
        if self._live is None:
            for table, rows in zip(self._waiting, changes.values(), strict=True):
                for i, row in rows.items():
                    table[i] = row
            return
        with self._live.batch():
            for name, rows in changes.items():
                self._live.set_rows(name, rows)

    def _corrections(
        self, rows: Mapping[int, Any] | None, width: int, what: str
    ) -> dict[int, Array]:
        if rows is not None and not isinstance(rows, Mapping):
            raise TypingError(
                f"new {what} are a mapping from numbers of observations, got {type(rows).__name__}",
                hint=f"fit.correct({what}={{17: ...}})",
            )
        checked = {int(i): _rows(row, width, what)[0] for i, row in (rows or {}).items()}
        self._observation_rows(checked)
        _check_finite(*checked.values())
        return checked

    def _observation_rows(self, observations: Iterable[int]) -> Any:
        chosen = np.array(sorted({int(i) for i in observations}), dtype=np.intp)
        for i in chosen:
            if not 0 <= i < len(self._used) or not self._used[i]:
                raise DataError(f"there is no observation {i}")
        return chosen

    def predict(self, x: Any) -> Array:
        """Responses for new predictors: one for each row."""
        predicted: Array = self._with_ones(_rows(x, self.features, "x")) @ self.live["beta"]
        return predicted[:, 0] if self._is_vector else predicted

    @property
    def coefficients(self) -> Array:
        """One for each feature; with several responses a column for each of them."""
        coefficients: Array = self.live["beta"][: self.features]
        return coefficients[:, 0] if self._is_vector else coefficients

    @property
    def intercept(self) -> Any:
        """What is predicted where all predictors are 0: 0 without `fit_intercept`."""
        row = self.live["beta"][-1] if self.fit_intercept else np.zeros(self.responses)
        return float(row[0]) if self._is_vector else row

    def error(self) -> float:
        """The estimated relative error of the coefficients."""
        return self.live.error("beta")


class Ridge(_Observations):
    """beta = (X^T X + alpha I)^-1 X^T Y, and the residual sums; an intercept has no penalty.

    >>> fit = la.Ridge(np.eye(2), np.array([1.0, 2.0]), alpha=1.0)
    >>> np.round(fit.coefficients, 3)
    array([0.5, 1. ])
    """

    def __init__(self, x: Any = None, y: Any = None, *, alpha: float = 1.0, **options: Any) -> None:
        if not isinstance(alpha, int | float | np.number) or not np.isfinite(alpha) or alpha < 0:
            raise TypingError(f"alpha, the penalty, is a number of at least 0, got {alpha!r}")
        self.alpha = float(alpha)
        super().__init__(x, y, **options)

    def _settings(self) -> dict[str, Any]:
        return {"alpha": self.alpha, **super()._settings()}

    def _penalty(self) -> Expr:
        """alpha I, with a last row and column of zeros for the intercept."""
        penalty = self.alpha * ex.eye(self.features)
        if not self.fit_intercept:
            return penalty
        side = ex.zeros(self.features, 1)
        return ex.block([[penalty, side], [side.T, ex.zeros(1, 1)]])

    def _program(self, capacity: int) -> Program:
        results: dict[str, Any] = dict(self._results(capacity))
        return program(**results)

    def _results(self, capacity: int) -> dict[str, Expr]:
        x = ex.matrix("X", capacity, self._width)
        y = ex.matrix("Y", capacity, self.responses)
        z = x.T @ x
        if self.alpha:
            z = z + self._penalty()
        c = x.T @ y
        beta = ex.inv(z) @ c
        # |Y - X beta|^2 = Y^T Y - C^T beta - beta^T P beta with the penalty P, as Z beta = C
        residual = y.T @ y - c.T @ beta
        if self.alpha:
            residual = residual - beta.T @ self._penalty() @ beta
        return {"beta": beta, "residual": residual}

    def _check_determined(self) -> None:
        needed = int(self.fit_intercept) if self.alpha else self._width
        if len(self) < needed:
            raise SingularMatrixError(
                f"{len(self)} observation{'' if len(self) == 1 else 's'} cannot determine "
                f"{needed} coefficient{'' if needed == 1 else 's'}",
                hint="add observations first, or use la.Ridge(alpha=...)",
            )

    @property
    def residual_sums(self) -> Array:
        """The residual sum of squares of each response."""
        return np.maximum(np.diag(self.live["residual"]), 0.0)

    @property
    def r2(self) -> Any:
        """The share of the responses' variance about their mean that the predictions explain.

        1 - residual sum / sum of (y - mean)^2, as scikit-learn has it; it reads the responses.
        """
        y = self.live["Y"][self._used]
        around = np.sum((y - y.mean(axis=0)) ** 2, axis=0) if len(y) else np.zeros(self.responses)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 1.0 - self.residual_sums / around
        share = np.where(around > 0.0, share, np.nan)
        return float(share[0]) if self._is_vector else share


class LeastSquares(Ridge):
    """Ordinary least squares: beta = (X^T X)^-1 X^T Y (thesis Example 6.3.2, Example 6.3.3).

    >>> fit = la.LeastSquares(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([1.0, 3.0]))
    >>> np.round(fit.coefficients, 3)
    array([1., 2.])

    As numpy.linalg.lstsq it has no intercept unless asked; it may start empty:

    >>> fit = la.LeastSquares(features=1, fit_intercept=True)
    >>> numbers = fit.add([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    >>> np.round(fit.coefficients, 3), round(fit.intercept, 3)
    (array([2.]), 1.0)
    """

    def __init__(self, x: Any = None, y: Any = None, **options: Any) -> None:
        if "alpha" in options:
            raise TypingError("LeastSquares has no penalty", hint="la.Ridge(x, y, alpha=...)")
        super().__init__(x, y, alpha=0.0, **options)

    def _settings(self) -> dict[str, Any]:
        return {"fit_intercept": self.fit_intercept}

    def _results(self, capacity: int) -> dict[str, Expr]:
        x = ex.matrix("X", capacity, self._width)
        return {**super()._results(capacity), "inverse": ex.inv(x.T @ x)}

    @property
    def standard_errors(self) -> Array:
        """Of the coefficients, in their shape: sqrt(s^2 diag (X^T X)^-1).

        s^2 is the residual sum divided by the observations beyond the coefficients' number.
        """
        errors = self._errors()[: self.features]
        return errors[:, 0] if self._is_vector else errors

    @property
    def intercept_error(self) -> Any:
        """The standard error of the intercept."""
        if not self.fit_intercept:
            raise TypingError(
                "there is no intercept, and no error of it",
                hint="la.LeastSquares(x, y, fit_intercept=True)",
            )
        row = self._errors()[-1]
        return float(row[0]) if self._is_vector else row

    def _errors(self) -> Array:
        spare = len(self) - self._width
        if spare <= 0:
            raise DataError(
                f"standard errors need more observations than the {self._width} coefficients, "
                f"there are {len(self)}",
                hint="add observations first",
            )
        diagonal = np.maximum(np.diag(self.live["inverse"]), 0.0)
        errors: Array = np.sqrt(np.outer(diagonal, self.residual_sums / spare))
        return errors


class GradientDescent(_Observations):
    """Batch gradient descent: beta <- beta - rate X^T (X beta - Y), a fixed number of steps.

    In the general form A = I - rate X^T X and B = rate X^T Y (thesis 6.6.4).

    >>> fit = la.GradientDescent(np.eye(3), np.array([1.0, 2.0, 3.0]), steps=40, rate=0.5)
    >>> np.round(fit.coefficients, 3)
    array([1., 2., 3.])
    """

    def __init__(
        self,
        x: Any = None,
        y: Any = None,
        *,
        steps: int = 16,
        rate: float | None = None,
        start: Any = None,
        **options: Any,
    ) -> None:
        self.steps, self._first = steps, start
        if rate is None:
            if x is None or not np.size(x):
                raise TypingError(
                    "without observations there is nothing to choose the rate by",
                    hint="la.GradientDescent(features=..., rate=...)",
                )
            # 1 / |X|_F^2 is below 1 / |X^T X|, so the iteration contracts.
            table = _table(x, "X")
            ones = len(table) if options.get("fit_intercept") else 0
            rate = 1.0 / max(float(np.sum(table**2)) + ones, 1e-300)
        self.rate = real_number(rate, "rate")
        super().__init__(x, y, **options)

    def _settings(self) -> dict[str, Any]:
        return {"steps": self.steps, "rate": self.rate, **super()._settings()}

    def _program(self, capacity: int) -> Program:
        x = ex.matrix("X", capacity, self._width)
        y = ex.matrix("Y", capacity, self.responses)
        start = ex.matrix("start", self._width, self.responses)
        a = ex.eye(self._width) - self.rate * (x.T @ x)
        return program(beta=ex.iterate(a, start, self.steps, self.rate * (x.T @ y)))

    def _inputs(self, x: Array, y: Array) -> dict[str, Array]:
        shape = (self._width, self.responses)
        first = np.zeros(shape) if self._first is None else _table(self._first, "start")
        return {"X": x, "Y": y, "start": first}


def _count(number: Any, what: str) -> int:
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
        raise TypingError(f"{what} is a whole number of at least 1, got {number!r}")
    return int(number)


def _padded(table: Array, capacity: int) -> Array:
    """The same rows, and rows of zeros after them."""
    padded = np.zeros((capacity, *table.shape[1:]), table.dtype)
    padded[: len(table)] = table
    return padded


def _check_finite(*tables: Array) -> None:
    if not all(np.isfinite(table).all() for table in tables):
        raise DataError("an observation holds NaN or infinite values", hint="nothing was changed")


def _table(value: Any, what: str) -> Array:
    table = real_array(value, what)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2:
        raise DataError(f"{what} must have one row per observation")
    return table


def _rows(value: Any, width: int, what: str) -> Array:
    """One observation as a vector, or several as rows."""
    rows = real_array(value, what)
    if rows.ndim == 0 or (rows.ndim == 1 and (width > 1 or rows.size == 1)):
        rows = rows.reshape(1, -1)
    elif rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] != width:
        raise DataError(f"{what} has shape {np.shape(value)}, one row has {width} values")
    return rows
