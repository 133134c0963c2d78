"""A running program: inputs that change, results that are always current."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from viewlet.errors import DataError, ResolutionError
from viewlet.linalg import arrays, updates
from viewlet.linalg.array_engine import RefreshStats
from viewlet.linalg.arrays import Array, Operator, Sparse, Value
from viewlet.linalg.expr import Matrix
from viewlet.linalg.plan import Estimate, MaintenancePlan
from viewlet.linalg.updates import Change


class Engine(Protocol):
    """What a backend does; the local and the Spark engine are two of them."""

    plan: MaintenancePlan
    stats: RefreshStats
    tolerance: float

    def apply(self, changes: Mapping[Matrix, Change]) -> None: ...
    def replace(self, inputs: Mapping[Matrix, Array | Sparse]) -> None: ...
    def read(self, matrix: Matrix) -> Value: ...
    def rows(self, matrix: Matrix, indices: Any, axis: int = 0) -> Array: ...
    def error(self, matrix: Matrix) -> float: ...
    def check(self) -> dict[str, float]: ...
    def close(self) -> None: ...


class Live:
    """Results of a program under updates.

    `live["C"]` is a read-only array that follows later updates; copy it to keep a moment. Every
    method that changes an input is atomic: after an error nothing has changed.

    >>> live = la.program(C=la.power(la.matrix("A", 2, 2), 2)).start({"A": np.eye(2)})
    >>> live.update("A", np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    >>> np.array(live["C"])
    array([[1., 2.],
           [0., 1.]])
    """

    def __init__(self, engine: Engine, candidates: list[Estimate]) -> None:
        self.engine = engine
        self.candidates = candidates
        self._inputs = {m.name: m for m in engine.plan.views.inputs}
        self._queue: list[tuple[Matrix, Change]] | None = None

    @property
    def plan(self) -> MaintenancePlan:
        """How the views are maintained, and what that was estimated to cost."""
        return self.engine.plan

    @property
    def stats(self) -> RefreshStats:
        """How long refreshes took."""
        return self.engine.stats

    def __repr__(self) -> str:
        return f"<Live {', '.join(self.plan.views.outputs)} by {self.plan}>"

    def names(self) -> list[str]:
        """The matrices that can be read."""
        views = self.plan.views
        stored = [view.matrix.name for view in views.views if view.matrix in self.plan.stored]
        return list(dict.fromkeys([*self._inputs, *views.outputs, *stored]))

    def _matrix(self, name: str) -> Matrix:
        views = self.plan.views
        if name in self._inputs:
            return self._inputs[name]
        if name in views.outputs:
            return views.outputs[name]
        for view in views.views:
            if view.matrix.name == name and view.matrix in self.plan.stored:
                return view.matrix
        raise ResolutionError(
            f"this program has no matrix {name!r}", hint=f"known: {', '.join(self.names())}"
        )

    def _input(self, name: str) -> Matrix:
        if name in self._inputs:
            return self._inputs[name]
        self._matrix(name)
        raise ResolutionError(
            f"{name} is a result and cannot be changed",
            hint=f"change one of the inputs: {', '.join(self._inputs)}",
        )

    def __getitem__(self, name: str) -> Any:
        value = self.engine.read(self._matrix(name))
        if isinstance(value, Sparse):
            return value.toarray() if value.left.shape[1] else value.base.copy()
        shown = arrays.dense_of(value).view()
        shown.flags.writeable = False
        return shown

    def blocks(self, name: str) -> Iterator[tuple[int, Array]]:
        """The matrix as (first row, block of rows), as it is partitioned; one block locally."""
        value = self.engine.read(self._matrix(name))
        if isinstance(value, Operator):
            yield from value.blocks()
        else:
            yield 0, self[name]

    def error(self, name: str) -> float:
        """The estimated relative Frobenius error of a result (0 for an input)."""
        return self.engine.error(self._matrix(name))

    def check(self) -> dict[str, float]:
        """Probe all outputs now, and re-evaluate if one has passed the tolerance."""
        return self.engine.check()

    def update(
        self, name: str | Mapping[str, tuple[Any, Any]], u: Any = None, v: Any = None
    ) -> None:
        """A += u v^T with u (n,) or (n, k) and v (m,) or (m, k).

        `update({"X": (u, v), "Y": (s, t)})` changes several inputs as one.
        """
        if isinstance(name, str):
            if u is None or v is None:
                raise DataError("an update needs both u and v", hint="live.update('A', u, v)")
            name = {name: (u, v)}
        self._submit(
            [
                (matrix, updates.as_factors(matrix, left, right))
                for matrix, (left, right) in ((self._input(n), uv) for n, uv in name.items())
            ]
        )

    def set_rows(self, name: str, rows: Mapping[int, Any]) -> None:
        """Give whole rows new values."""
        matrix = self._input(name)
        if rows:
            change = updates.row_change(matrix, rows, lambda at: self._current(matrix, at, 0))
            self._submit([(matrix, change)])

    def set_columns(self, name: str, columns: Mapping[int, Any]) -> None:
        """Give whole columns new values."""
        matrix = self._input(name)
        if columns:
            change = updates.column_change(matrix, columns, lambda at: self._current(matrix, at, 1))
            self._submit([(matrix, change)])

    def set_entries(self, name: str, entries: Iterable[tuple[int, int, float]]) -> None:
        """Give single entries new values: (row, column, value)."""
        matrix = self._input(name)
        entries = list(entries)
        if entries:
            change = updates.entry_change(
                matrix, entries, lambda at, axis: self._current(matrix, at, axis)
            )
            self._submit([(matrix, change)])

    def replace(self, name: str | Mapping[str, Any], value: Any = None) -> None:
        """Give whole inputs new values; what depends on them is re-evaluated."""
        values = {name: value} if isinstance(name, str) else name
        fresh = {self._input(n): updates.as_input(self._input(n), x) for n, x in values.items()}
        if self._queue is not None:
            raise DataError("replace cannot be part of a batch", hint="call it outside batch()")
        self.engine.replace(fresh)

    @contextmanager
    def batch(self) -> Iterator[Live]:
        """Collect the updates made inside, merge them, and apply them as one."""
        if self._queue is not None:
            raise DataError("a batch is already open")
        self._queue = []
        try:
            yield self
            queued = self._queue
        finally:
            self._queue = None
        grouped: dict[Matrix, list[Change]] = {}
        for matrix, change in queued:
            grouped.setdefault(matrix, []).append(change)
        self._apply({m: updates.merge(changes) for m, changes in grouped.items()})

    def _submit(self, changes: list[tuple[Matrix, Change]]) -> None:
        if self._queue is not None:
            self._queue.extend(changes)
        else:
            self._apply(dict(changes))

    def _apply(self, changes: Mapping[Matrix, Change]) -> None:
        effective = {}
        for matrix, change in changes.items():
            nonzero = updates.without_zeros(change)
            if nonzero is not None:
                effective[matrix] = nonzero
        if effective:
            self.engine.apply(effective)

    def _current(self, matrix: Matrix, indices: Any, axis: int) -> Array:
        """Rows (axis 0) or columns (axis 1) as they will be after what an open batch holds."""
        now = np.array(self.engine.rows(matrix, indices, axis))
        for queued, (u, v) in self._queue or []:
            if queued is matrix:
                now += _part(u, v, indices) if axis == 0 else _part(v, u, indices).T
        return now

    def close(self) -> None:
        """Give back what the engine holds outside this process; a local one holds nothing."""
        self.engine.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def explain(self) -> str:
        """The plan in use, its triggers, and the estimate beside the measured time."""
        from viewlet.linalg.explain import explain_live

        return explain_live(self)


def _part(u: Value, v: Value, indices: Any) -> Array:
    """The given rows of u v^T."""
    part: Array = arrays.dense_of(u)[indices] @ arrays.dense_of(v).T
    return part
