"""Block matrices as plain RDDs: evaluation from scratch on Spark, the peer of maintenance.

A matrix is an RDD of (partition, block of rows). A product of two of them sends the rows of the
right factor to every partition, which for row blocks is the least that the simple parallel
algorithm can move (thesis 6.6); a product with a thin matrix broadcasts the thin one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.linalg import arrays
from viewlet.linalg.arrays import Array, Value
from viewlet.linalg.chain import Shape
from viewlet.linalg.expr import Expr
from viewlet.linalg.ops import Machine, Op, OpList
from viewlet.linalg.spark_worker import bounds
from viewlet.linalg.threads import limit_threads

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext


class ScatteredMatrix:
    """A large matrix as an RDD of (partition, rows)."""

    def __init__(self, rdd: RDD[tuple[int, Array]], shape: Shape, blocks: Blocks) -> None:
        self.rdd = rdd
        self.shape = shape
        self.blocks = blocks

    def persist(self) -> ScatteredMatrix:
        """Executors keep the blocks from the first time that they are computed."""
        self.rdd.persist()
        return self

    def collect(self) -> Array:
        """The whole matrix on the driver."""
        parts = dict(self.rdd.collect())
        return np.vstack([parts[p] for p in range(self.blocks.partitions)])

    def updated(self, u: Array, v: Array) -> ScatteredMatrix:
        """self + u v^T; the factors are broadcast."""
        shipped = self.blocks.sc.broadcast((u, v))
        rows, count = self.shape[0], self.blocks.partitions

        def change(item: tuple[int, Array]) -> tuple[int, Array]:
            partition, block = item
            left, right = shipped.value
            top, bottom = bounds(rows, partition, count)
            fresh = np.array(block)
            arrays.rank_update(fresh, left[top:bottom], right)
            return partition, fresh

        return ScatteredMatrix(
            self.rdd.map(change, preservesPartitioning=True), self.shape, self.blocks
        )


class Blocks:
    """Block matrices over one SparkContext and number of partitions."""

    def __init__(self, sc: SparkContext, partitions: int) -> None:
        self.sc = sc
        self.partitions = partitions
        self.shuffled: Accumulator[int] = sc.accumulator(0)

    def scatter(self, value: Array) -> ScatteredMatrix:
        """A matrix of the driver, cut into blocks of rows."""
        rows = value.shape[0]
        pieces = []
        for p in range(self.partitions):
            top, bottom = bounds(rows, p, self.partitions)
            pieces.append((p, np.ascontiguousarray(value[top:bottom])))
        rdd = self.sc.parallelize(pieces, self.partitions)
        return ScatteredMatrix(self._placed(rdd), (value.shape[0], value.shape[1]), self)

    def _placed(self, rdd: RDD[tuple[int, Any]]) -> RDD[tuple[int, Any]]:
        return rdd.partitionBy(self.partitions)  # an int is its own hash

    def spread(self, rows: ScatteredMatrix, side: str) -> RDD[tuple[int, tuple[int, Array]]]:
        """(source, block) for every partition: all rows, or for "columns" the columns it holds."""
        count, columns, shuffled = self.partitions, rows.shape[1], self.shuffled

        def send(item: tuple[int, Array]) -> Iterator[tuple[int, tuple[int, Array]]]:
            source, block = item
            for target in range(count):
                left, right = bounds(columns, target, count) if side == "columns" else (0, columns)
                part = np.ascontiguousarray(block[:, left:right])
                shuffled.add(part.nbytes)
                yield target, (source, part)

        return self._placed(rows.rdd.flatMap(send))

    def transposed(self, rows: ScatteredMatrix) -> ScatteredMatrix:
        """M^T: every block is cut into columns, which move to the block of their row."""

        def join(items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Array]]:
            blocks = list(items)
            parts = dict(piece for _, piece in blocks)
            stacked = np.vstack([parts[p] for p in sorted(parts)])
            yield blocks[0][0], np.ascontiguousarray(stacked.T)

        rdd = self.spread(rows, "columns").mapPartitions(join, preservesPartitioning=True)
        return ScatteredMatrix(rdd, (rows.shape[1], rows.shape[0]), self)

    def product(
        self, left: ScatteredMatrix, right: ScatteredMatrix, alpha: float
    ) -> ScatteredMatrix:
        """alpha * left * right: the blocks of right move to every block of left."""

        def multiply(items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Array]]:
            limit_threads(1)  # a task has one core
            own, parts = {}, {}
            for partition, (source, block) in items:
                if source is None:
                    own[partition] = block
                else:
                    parts[source] = block
            right_matrix = np.vstack([parts[p] for p in sorted(parts)])
            for partition, block in own.items():
                product = arrays.multiply(block, False, right_matrix, False, alpha)
                yield partition, np.ascontiguousarray(product)

        # A union of equally partitioned RDDs needs no shuffle; only the right factor moves.
        both = left.rdd.mapValues(_own).union(self.spread(right, "all"))
        rdd = both.mapPartitions(multiply, preservesPartitioning=True)
        return ScatteredMatrix(rdd, (left.shape[0], right.shape[1]), self)

    def times_thin(self, left: ScatteredMatrix, y: Array, alpha: float) -> Array:
        """left y with a thin y: broadcast y, collect the thin result."""
        shipped = self.sc.broadcast(y)
        parts = dict(
            left.rdd.mapValues(
                lambda block: arrays.multiply(block, False, shipped.value, False, alpha)
            ).collect()
        )
        return np.vstack([parts[p] for p in range(self.partitions)])

    def thin_sums(self, left: ScatteredMatrix, y: Array, alpha: float) -> Array:
        """left^T y with a thin y: a sum of one term per partition."""
        shipped = self.sc.broadcast(y)
        rows, count = left.shape[0], self.partitions

        def term(item: tuple[int, Array]) -> Array:
            partition, block = item
            top, bottom = bounds(rows, partition, count)
            return arrays.multiply(block, True, shipped.value[top:bottom], False, alpha)

        total: Array = left.rdd.map(term).reduce(lambda a, b: a + b)
        return total

    def add(self, terms: list[tuple[float, ScatteredMatrix | Array]]) -> ScatteredMatrix:
        """The sum of matrices, each times its coefficient; those of the driver are scattered."""
        shape = terms[0][1].shape
        scattered = [
            (c, t if isinstance(t, ScatteredMatrix) else self.scatter(t)) for c, t in terms
        ]

        def scaled(coefficient: float) -> Callable[[Array], Array]:
            return lambda block: coefficient * block

        def total(items: Iterable[tuple[int, Array]]) -> Iterator[tuple[int, Array]]:
            sums: dict[int, Array] = {}
            for partition, block in items:
                sums[partition] = sums[partition] + block if partition in sums else block
            yield from sums.items()

        coefficient, first = scattered[0]
        both = first.rdd.mapValues(scaled(coefficient))
        for coefficient, term in scattered[1:]:
            both = both.union(term.rdd.mapValues(scaled(coefficient)))
        rdd = both.mapPartitions(total, preservesPartitioning=True)
        return ScatteredMatrix(rdd, (shape[0], shape[1]), self)


def _own(block: Array) -> tuple[None, Array]:
    return None, block


class BlockMachine(Machine):
    """Runs code whose large values are Rows; everything else stays on the driver."""

    def __init__(self, blocks: Blocks, read: Callable[[Expr], Any], large: int) -> None:
        super().__init__(read)
        self.blocks = blocks
        self.large = large  # entries from which a matrix is distributed
        self.cached: list[ScatteredMatrix] = []

    def evaluate(self, code: OpList) -> dict[Expr, Any]:
        """All assigned symbols: Rows or arrays. Rows are cached, each is computed once."""
        slots: dict[int, Any] = {}
        for op in code.ops:
            result = self.execute(op, slots)
            if isinstance(result, ScatteredMatrix) and op.kind != "leaf":
                self.cached.append(result.persist())
            slots[op.out] = result
        return {symbol: self._read(slots, ref) for symbol, ref in code.results.items()}

    def release(self, keep: Collection[Any] = ()) -> None:
        """Drop what was cached on the way; `keep` names the results that stay."""
        for rows in self.cached:
            if not any(rows is value for value in keep):
                rows.rdd.unpersist()

    def _read(self, slots: Mapping[int, Any], ref: tuple[int, bool]) -> Any:
        value = slots[ref[0]]
        if not ref[1]:
            return value
        if isinstance(value, ScatteredMatrix):
            return self.blocks.transposed(value)
        return arrays.dense_of(value).T

    def execute(self, op: Op, slots: Mapping[int, Any]) -> Any:
        """Products and sums of scattered matrices on the executors, the rest on the driver."""
        args = [slots[slot] for slot, _ in op.args]
        if not any(isinstance(a, ScatteredMatrix) for a in args):
            result = super().execute(op, slots)
            entries = op.shape[0] * op.shape[1]
            if op.kind in ("mul", "inv", "add") and entries >= self.large:
                return self.blocks.scatter(arrays.dense_of(result))
            return result
        if op.kind == "mul":
            return self._multiply(op, slots)
        if op.kind == "add":
            read = [self._read(slots, ref) for ref in op.args]
            return self.blocks.add(list(zip(op.alpha, read, strict=True)))
        # An inverse and rarer shapes are made on the driver, at the start and for repairs only.
        local = {slot: _fetched(slots[slot]) for slot, _ in op.args}
        result = super().execute(op, local)
        large = op.shape[0] * op.shape[1] >= self.large
        return self.blocks.scatter(arrays.dense_of(result)) if large else result

    def _multiply(self, op: Op, slots: Mapping[int, Any]) -> Any:
        (x, tx), (y, ty) = ((slots[slot], t) for slot, t in op.args)
        alpha = op.alpha[0]
        if isinstance(x, ScatteredMatrix) and isinstance(y, ScatteredMatrix):
            left, right = self._read(slots, op.args[0]), self._read(slots, op.args[1])
            product = self.blocks.product(left, right, alpha)
            return product if op.shape[0] * op.shape[1] >= self.large else product.collect()
        if isinstance(x, ScatteredMatrix):
            thin = _thin(y, ty)
            if tx:
                return self.blocks.thin_sums(x, thin, alpha)
            return self.blocks.times_thin(x, thin, alpha)
        thin = _thin(x, not tx)
        if ty:
            return self.blocks.times_thin(y, thin, alpha).T
        return self.blocks.thin_sums(y, thin, alpha).T


def _thin(value: Value, transposed: bool) -> Array:
    dense = arrays.dense_of(value)
    return np.asfortranarray(dense.T if transposed else dense)


def _fetched(value: Any) -> Value:
    return value.collect() if isinstance(value, ScatteredMatrix) else value
