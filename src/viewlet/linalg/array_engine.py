"""The local engine: state in NumPy and SciPy arrays of this process.

Contract: the engine owns its arrays. An update either completes or leaves every array as it was:
factors are computed and checked before the first array is written, and re-evaluation writes only
after all new values exist.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.errors import RangeError
from viewlet.linalg import arrays
from viewlet.linalg.accuracy import Probe, Running
from viewlet.linalg.arrays import Array, OneHot, Operator, Sparse, Value
from viewlet.linalg.delta import Delta, Dense, Factored
from viewlet.linalg.errors import IllConditioned
from viewlet.linalg.expr import Expr, Factor, Matrix
from viewlet.linalg.ops import Machine, OpList
from viewlet.linalg.plan import CompiledTrigger, MaintenancePlan
from viewlet.linalg.updates import Change

RECOMPRESS_FROM = 32  # below this rank a QR costs more than the columns it could save
PROBE_SHARE = 0.05  # of the refresh time may go into routine probes


@dataclass
class RefreshStats:
    """What has happened since the start."""

    updates: int = 0
    incremental: int = 0
    reevaluations: int = 0
    repairs: int = 0  # re-evaluations because of an error estimate or an ill-conditioned delta
    recompressions: int = 0
    seconds: dict[tuple[str, ...], list[float]] = field(default_factory=dict)

    def record(self, names: tuple[str, ...], seconds: float) -> None:
        """One refresh after updates of these inputs; the last 200 of each kind are kept."""
        times = self.seconds.setdefault(names, [])
        times.append(seconds)
        del times[:-200]

    def median(self, names: tuple[str, ...]) -> float | None:
        """The median time of a refresh after updates of these inputs; None if there was none."""
        times = self.seconds.get(names)
        return float(np.median(times)) if times else None


class ArrayEngine:
    """Maintains the views of one plan."""

    def __init__(
        self,
        plan: MaintenancePlan,
        inputs: Mapping[Matrix, Array | Sparse],
        *,
        tolerance: float,
        adaptive: bool = False,
    ) -> None:
        self.plan = plan
        self.tolerance = tolerance
        self.adaptive = adaptive  # may re-evaluate a batch whose rank is too high
        self.values: dict[Matrix, Array | Operator] = dict(inputs)
        self.stats = RefreshStats()
        self.running = Running()
        self._accepted: dict[Matrix, float] = {}
        self._since_probe = 0
        self._refresh_time = self._probe_time = 0.0
        self._barren: dict[Matrix, int] = {}  # recompressions to skip after one that gained nothing
        self._hooks: dict[CompiledTrigger, dict[int, Callable[[dict[int, Value]], None]]] = {}
        for matrix, value in self._evaluate(None).items():
            self.values[matrix] = value
        for matrix in plan.stored:
            self.running.reset(matrix, arrays.EPS, arrays.norm(self.values[matrix]))

    def read(self, matrix: Matrix) -> Value:
        """The current value of an input or a view."""
        return self.values[matrix]

    def rows(self, matrix: Matrix, indices: Any, axis: int = 0) -> Array:
        """Some rows, or with axis 1 some columns, of a current value."""
        value = self.values[matrix]
        if isinstance(value, Operator):
            return value.take_rows(indices) if axis == 0 else value.take_columns(indices)
        part: Array = value[indices] if axis == 0 else value[:, indices]
        return part

    def apply(self, changes: Mapping[Matrix, Change]) -> None:
        """One atomic update of one or more inputs."""
        start = time.perf_counter()
        if self._prefers_reevaluation(changes):
            self._reevaluate(changes)
        else:
            try:
                self._maintain(changes)
            except IllConditioned:
                self._reevaluate(changes)
                self.stats.repairs += 1
        spent = time.perf_counter() - start
        self.stats.updates += 1
        self.stats.record(tuple(sorted(m.name for m in changes)), spent)
        self._refresh_time += spent
        self._watch()

    def replace(self, inputs: Mapping[Matrix, Array | Sparse]) -> None:
        """New values for whole inputs; everything that depends on them is recomputed."""
        before = {m: self.values[m] for m in inputs}
        self.values.update(inputs)
        try:
            fresh = self._evaluate(frozenset(inputs))
        except Exception:
            self.values.update(before)
            raise
        self._store(fresh)
        self.stats.reevaluations += 1

    def _prefers_reevaluation(self, changes: Mapping[Matrix, Change]) -> bool:
        if self.plan.strategy == "reevaluation":
            return True
        ranks = {m: u.shape[1] for m, (u, _) in changes.items()}
        if not self.adaptive or max(ranks.values()) == 1:
            return False
        return self.plan.trigger_seconds(ranks, self.values) > self.plan.reevaluation_seconds(
            frozenset(ranks), self.values
        )

    def _evaluate(self, changed: frozenset[Matrix] | None) -> dict[Matrix, Array]:
        code = self.plan.evaluation(changed)
        results = Machine(self._leaf({})).run(code, keep=self.plan.stored)
        fresh = {}
        for symbol, value in results.items():
            assert isinstance(symbol, Matrix)
            dense = arrays.dense_of(value)
            if not arrays.is_finite(dense):
                raise out_of_range(symbol)
            shared = any(np.shares_memory(dense, v) for v in self.values.values() if _dense(v))
            fresh[symbol] = dense.copy() if shared else np.ascontiguousarray(dense)
        return fresh

    def _leaf(self, factors: Mapping[Expr, Value]) -> Callable[[Expr], Value]:
        def read(leaf: Expr) -> Value:
            if isinstance(leaf, Factor):
                return factors[leaf]
            assert isinstance(leaf, Matrix)
            return self.values[leaf]

        return read

    def _store(self, fresh: Mapping[Matrix, Array]) -> None:
        """Write into the arrays that readers already hold."""
        for matrix, value in fresh.items():
            current = self.values.get(matrix)
            if isinstance(current, np.ndarray) and current.shape == value.shape:
                np.copyto(current, value)
            else:
                self.values[matrix] = value
            self.running.reset(matrix, arrays.EPS, arrays.norm(value))

    def _reevaluate(self, changes: Mapping[Matrix, Change]) -> None:
        undo: list[Callable[[], None]] = []
        try:
            for matrix, (u, v) in changes.items():
                undo.append(self._change_input(matrix, u, v))
            fresh = self._evaluate(frozenset(changes))
        except Exception:
            for restore in undo:
                restore()
            raise
        self._store(fresh)
        self.stats.reevaluations += 1

    def _change_input(self, matrix: Matrix, u: Value, v: Value) -> Callable[[], None]:
        """Apply u v^T to an input; the result puts the old value back, bit for bit."""
        value = self.values[matrix]
        if isinstance(value, np.ndarray):
            where: Any = ...
            if isinstance(u, OneHot):
                where = u.indices
            elif isinstance(v, OneHot):
                where = (slice(None), v.indices)
            old = value[where].copy()
            with np.errstate(all="ignore"):
                arrays.rank_update(value, u, v)

            def restore() -> None:
                value[where] = old

            if not arrays.is_finite(value[where]):
                restore()
                raise out_of_range(matrix)
            return restore
        assert isinstance(value, Sparse)
        changed = value.copy()
        arrays.rank_update(value, u, v)

        def restore_sparse() -> None:
            self.values[matrix] = changed

        return restore_sparse

    def _maintain(self, changes: Mapping[Matrix, Change]) -> None:
        """Run the trigger: factors first, then the += of every affected matrix."""
        compiled = self.plan.trigger({m: u.shape[1] for m, (u, _) in changes.items()})
        factors: dict[Expr, Value] = {}
        for matrix, (u, v) in changes.items():
            change = compiled.trigger.deltas[matrix]
            assert isinstance(change, Factored)
            factors[change.u], factors[change.v] = u, v
        machine = self._machine(self._leaf(factors))
        if compiled not in self._hooks:
            self._hooks[compiled] = self._recompressions(compiled)
        factors |= machine.run(self._code(compiled), after=self._hooks[compiled])
        if not arrays.all_finite(factors.values()):
            raise IllConditioned("a delta leaves the range of double precision")
        amplification = max(machine.amplifications, default=1.0)
        self._write(compiled.trigger.updates(), factors)
        for matrix, delta in compiled.trigger.updates():
            if matrix in self.plan.stored:
                if isinstance(delta, Dense):
                    size = arrays.norm(factors[delta.d])
                else:
                    size = arrays.product_norm(factors[delta.u], factors[delta.v])
                self._track(matrix, size, amplification)
        self.stats.incremental += 1

    def _code(self, compiled: CompiledTrigger) -> OpList:
        return compiled.fused

    def _machine(self, read: Callable[[Expr], Value]) -> Machine:
        return Machine(read)

    def _write(self, updates: Iterator[tuple[Matrix, Delta]], factors: dict[Expr, Value]) -> None:
        """The += of every affected matrix; no number can make it fail half-way."""
        for matrix, delta in updates:
            target = self.values[matrix]
            assert isinstance(target, np.ndarray | Sparse)
            if isinstance(delta, Dense):
                assert isinstance(target, np.ndarray)
                target += arrays.dense_of(factors[delta.d])
            else:
                arrays.rank_update(target, factors[delta.u], factors[delta.v])

    def _track(self, matrix: Matrix, change: float, amplification: float) -> None:
        self.running.advance(matrix, change, amplification)
        if change > 0.5 * self.running.norms[matrix]:
            self.running.rescale(matrix, arrays.norm(self.values[matrix]))

    def _recompressions(
        self, compiled: CompiledTrigger
    ) -> dict[int, Callable[[dict[int, Value]], None]]:
        """Where a factored delta may be made narrower: as soon as both its factors exist."""
        code = self._code(compiled)
        results, owned = code.results, code.owned
        position_of = {op.out: position for position, op in enumerate(code.ops)}
        used: dict[int, int] = {}
        for position, op in enumerate(code.ops):
            for slot, _ in op.args:
                used.setdefault(slot, position)
        factored = {m: d for m, d in compiled.trigger.deltas.items() if isinstance(d, Factored)}
        uses = Counter(
            symbol
            for d in compiled.trigger.deltas.values()
            for symbol in ((d.u, d.v) if isinstance(d, Factored) else (d.d,))
        )
        hooks: dict[int, Callable[[dict[int, Value]], None]] = {}
        for matrix, delta in factored.items():
            if (
                delta.u not in results
                or delta.v not in results
                or uses[delta.u] + uses[delta.v] > 2
            ):
                continue  # a factor that belongs to two deltas must fit the other one too
            left, right = results[delta.u][0], results[delta.v][0]
            if left not in owned or right not in owned:
                continue  # something else reads it under another name
            last = max(left, right, key=lambda slot: position_of[slot])
            if min(used.get(s, len(position_of)) for s in (left, right)) <= position_of[last]:
                continue  # the first factor is read before the second exists
            if delta.rank >= min(RECOMPRESS_FROM, min(matrix.shape)):
                hooks[last] = self._recompression(matrix, left, right)
        return hooks

    def _recompression(
        self, matrix: Matrix, left: int, right: int
    ) -> Callable[[dict[int, Value]], None]:
        def narrow(slots: dict[int, Value]) -> None:
            u, v = arrays.dense_of(slots[left]), arrays.dense_of(slots[right])
            rank = u.shape[1]
            if rank >= min(matrix.shape):
                # The factored form holds more numbers than the delta: one factor is enough.
                if matrix.shape[1] <= matrix.shape[0]:
                    u, v = arrays.multiply(u, False, v, True), np.eye(matrix.shape[1])
                else:
                    u, v = np.eye(matrix.shape[0]), arrays.multiply(v, False, u, True)
            elif rank < RECOMPRESS_FROM or self._barren.get(matrix, 0) > 0:
                self._barren[matrix] = self._barren.get(matrix, 1) - 1
                return
            elif np.isfinite(u).all() and np.isfinite(v).all():
                u, v = arrays.recompress(u, v)
                self.stats.recompressions += 1
                if u.shape[1] > 0.75 * rank:
                    self._barren[matrix] = 16
            slots[left], slots[right] = u, v

        return narrow

    def error(self, matrix: Matrix) -> float:
        """The estimated relative error of a view, probed now."""
        if matrix not in self.plan.stored:
            return 0.0
        return Probe(self.plan.views, self._probe_read).relative_error(matrix)

    def _probe_read(self, matrix: Matrix) -> Value:
        if matrix not in self.values:  # re-evaluation keeps no inverse: make it for the probe
            code = self.plan.evaluation(None)
            result = Machine(self._leaf({})).run(code, keep={matrix})[matrix]
            self.values[matrix] = arrays.dense_of(result)
            try:
                return self.values[matrix]
            finally:
                del self.values[matrix]
        return self.values[matrix]

    def _watch(self) -> None:
        """Probe when the running estimate asks for it, or when a routine probe is affordable."""
        self._since_probe += 1
        if self.plan.strategy == "reevaluation":
            return
        worst = self.running.worst()
        early = worst > 0.01 * self.tolerance and self._since_probe >= 8
        routine = self._since_probe >= 64 and self._probe_time < PROBE_SHARE * self._refresh_time
        if worst > self.tolerance or early or routine:
            self.check()

    def close(self) -> None:
        """The arrays go with the engine."""

    def check(self) -> dict[str, float]:
        """Probe every view that is kept; re-evaluate all when one passes the tolerance."""
        start = time.perf_counter()
        self._since_probe = 0
        probe = Probe(self.plan.views, self._probe_read)
        errors: dict[str, float] = {}
        repair = False
        outputs = set(self.plan.views.outputs.values()) & self.plan.stored
        for matrix in sorted(outputs, key=lambda m: m.name):
            measured, floor = probe.measure(matrix)
            errors[matrix.name] = measured + floor
            # What re-evaluation itself could not improve must not be repaired again and again.
            limit = max(self.tolerance, 10.0 * floor, 10.0 * self._accepted.get(matrix, 0.0))
            repair = repair or not measured <= limit
        if repair:
            self._store(self._evaluate(None))
            self.stats.repairs += 1
            again = Probe(self.plan.views, self._probe_read)
            for matrix in outputs:
                measured, floor = again.measure(matrix)
                self._accepted[matrix] = measured if np.isfinite(measured) else float("inf")
                errors[matrix.name] = measured + floor
        else:
            for matrix in self.plan.stored:
                size = arrays.norm(self.values[matrix])
                worst = max(errors.values(), default=arrays.EPS)
                self.running.reset(matrix, min(worst, 0.001 * self.tolerance), size)
        self._probe_time += time.perf_counter() - start
        return errors


def out_of_range(matrix: Matrix) -> RangeError:
    """The error of a result that no float can hold."""
    return RangeError(
        f"{matrix.name} leaves the range of double precision",
        hint="nothing was changed; scale the inputs down",
    )


def _dense(value: Value) -> bool:
    return isinstance(value, np.ndarray)
