"""Re-evaluation on Spark: what maintenance is measured against (thesis 6.6, REEVAL)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewlet.engine.partitions.session import spark_session
from viewlet.linalg import arrays
from viewlet.linalg.array_engine import RefreshStats
from viewlet.linalg.arrays import Array, Sparse, Value
from viewlet.linalg.expr import Matrix
from viewlet.linalg.plan import MaintenancePlan
from viewlet.linalg.spark_blocks import BlockMachine, Blocks, ScatteredMatrix
from viewlet.linalg.updates import Change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = 1 << 18  # entries (2 MB) from which a matrix is worth distributing


@dataclass
class Moved:
    """Bytes that crossed between driver and partitions, or between partitions."""

    broadcast: int = 0
    collected: int = 0
    shuffled: int = 0
    jobs: int = 0

    @property
    def total(self) -> int:
        """Bytes that crossed the network in any direction."""
        return self.broadcast + self.collected + self.shuffled


class SparkReevaluation:
    """Recomputes a plan's views on Spark after every update; the same interface."""

    def __init__(
        self,
        plan: MaintenancePlan,
        inputs: Mapping[Matrix, Array | Sparse],
        *,
        tolerance: float,
        spark: SparkSession | None = None,
        partitions: int | None = None,
        large: int = LARGE,
    ) -> None:
        self.plan = plan
        self.tolerance = tolerance
        self.stats = RefreshStats()
        self.spark = spark_session(spark)
        self.large = large
        cores = int(self.spark.sparkContext.defaultParallelism)
        self.blocks = Blocks(self.spark.sparkContext, partitions or cores)
        self.moved = Moved()
        self.values: dict[Matrix, Any] = {}
        for matrix, value in inputs.items():
            self.values[matrix] = self._placed(matrix, value)
        self._refresh(None)

    def _placed(self, matrix: Matrix, value: Array | Sparse) -> Any:
        if isinstance(value, Sparse) or matrix.shape[0] * matrix.shape[1] < self.large:
            return value
        return self.blocks.scatter(value).persist()

    def _refresh(self, changed: frozenset[Matrix] | None) -> None:
        before = self.blocks.shuffled.value
        machine = BlockMachine(self.blocks, lambda leaf: self.values[leaf], self.large)  # type: ignore[index]
        values = machine.evaluate(self.plan.evaluation(changed))
        fresh = {m: v for m, v in values.items() if isinstance(m, Matrix) and m in self.plan.stored}
        for value in fresh.values():
            if isinstance(value, ScatteredMatrix):
                value.persist().rdd.count()
        machine.release(keep=fresh.values())
        for matrix in fresh:
            old = self.values.get(matrix)
            if isinstance(old, ScatteredMatrix):
                old.rdd.unpersist()
        self.values |= fresh
        self.moved.shuffled += int(self.blocks.shuffled.value - before)
        self.stats.reevaluations += 1

    def apply(self, changes: Mapping[Matrix, Change]) -> None:
        for matrix, (u, v) in changes.items():
            current = self.values[matrix]
            if isinstance(current, ScatteredMatrix):
                left, right = arrays.dense_of(u), arrays.dense_of(v)
                fresh = current.updated(left, right).persist()
                fresh.rdd.count()
                current.rdd.unpersist()
                self.values[matrix] = fresh
                self.moved.broadcast += left.nbytes + right.nbytes
            else:
                arrays.rank_update(current, u, v)
        self._refresh(frozenset(changes))
        self.stats.updates += 1

    def replace(self, inputs: Mapping[Matrix, Array | Sparse]) -> None:
        for matrix, value in inputs.items():
            self.values[matrix] = self._placed(matrix, value)
        self._refresh(frozenset(inputs))

    def read(self, matrix: Matrix) -> Value:
        value = self.values[matrix]
        return value.collect() if isinstance(value, ScatteredMatrix) else value

    def rows(self, matrix: Matrix, indices: Any, axis: int = 0) -> Array:
        value = arrays.dense_of(self.read(matrix))
        part: Array = value[indices] if axis == 0 else value[:, indices]
        return part

    def error(self, matrix: Matrix) -> float:
        """Re-evaluated results carry the rounding of one evaluation."""
        return arrays.EPS * max(matrix.shape)

    def check(self) -> dict[str, float]:
        return {name: self.error(m) for name, m in self.plan.views.outputs.items()}

    def close(self) -> None:
        for value in self.values.values():
            if isinstance(value, ScatteredMatrix):
                value.rdd.unpersist()
