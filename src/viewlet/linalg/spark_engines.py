"""The Spark engines: large matrices in partitions, low-rank factors on the wire (thesis 6.5).

`SparkMatrixEngine` maintains a plan. Its large matrices are the partition state of the stateful
service; the driver runs the trigger and holds everything thin. A product of a large matrix with a
factor is a read of all partitions; reads that do not depend on each other share one job. When all
factors are known, one atomic step broadcasts them and every partition adds them to its blocks: an
update happens whole or not at all, also when a task dies.

Its peer, which recomputes the views from block matrices on every update, is in `spark_peer`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.partitions.packing import unpack
from viewlet.engine.partitions.session import spark_session
from viewlet.errors import TypingError
from viewlet.linalg import arrays
from viewlet.linalg.array_engine import ArrayEngine, out_of_range
from viewlet.linalg.arrays import Array, Operator, Sparse, Value
from viewlet.linalg.delta import Delta, Dense, Factored
from viewlet.linalg.expr import Expr, Matrix
from viewlet.linalg.ops import Machine, OpList
from viewlet.linalg.plan import CompiledTrigger, MaintenancePlan
from viewlet.linalg.spark_blocks import BlockMachine, Blocks, ScatteredMatrix
from viewlet.linalg.spark_peer import LARGE, Moved, SparkReevaluation
from viewlet.linalg.spark_worker import MatrixBlocks, bounds, encode
from viewlet.linalg.updates import Change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUTS = ("auto", "rows", "both")
FEW_PARTITIONS = 16


def start_engine(
    plan: MaintenancePlan, inputs: Mapping[Matrix, Array | Sparse], **options: Any
) -> SparkMatrixEngine | SparkReevaluation:
    """The engine that the plan's strategy asks for."""
    if plan.strategy != "reevaluation":
        return SparkMatrixEngine(plan, inputs, **options)
    options.pop("layout", None)
    options.pop("checkpoint", None)  # nothing is kept that could not be computed again
    return SparkReevaluation(plan, inputs, **options)


class Remote(Operator):
    """A large matrix in the partitions, seen from the driver."""

    def __init__(self, engine: SparkMatrixEngine, matrix: Matrix) -> None:
        self.engine = engine
        self.matrix = matrix
        self.shape = matrix.shape

    def apply(self, y: Array, transposed: bool) -> Array:
        return self.engine.products([(self.matrix, transposed, y)])[0]

    def take_rows(self, indices: Any) -> Array:
        rows_by_position: dict[int, Array] = {}
        for part in self.engine.ask("rows", name=self.matrix.name, indices=[*map(int, indices)]):
            rows_by_position.update(part)
        return np.array([rows_by_position[at] for at in range(len(rows_by_position))])

    def take_columns(self, indices: Any) -> Array:
        return np.vstack(
            self.engine.ask("columns", name=self.matrix.name, indices=[*map(int, indices)])
        )

    def toarray(self) -> Array:
        return np.vstack([block for _, block in self.blocks()])

    def blocks(self) -> Iterator[tuple[int, Array]]:
        first = 0
        for block in self.engine.ask("block", name=self.matrix.name):
            yield first, block
            first += len(block)

    def frobenius(self) -> float:
        return math.sqrt(sum(self.engine.ask("norm", name=self.matrix.name)))

    def is_finite(self) -> bool:
        return math.isfinite(self.frobenius())


class SparkMatrixEngine(ArrayEngine):
    """Maintains the views of one plan with its large matrices in Spark partitions."""

    def __init__(
        self,
        plan: MaintenancePlan,
        inputs: Mapping[Matrix, Array | Sparse],
        *,
        tolerance: float,
        spark: SparkSession | None = None,
        partitions: int | None = None,
        layout: str = "auto",
        checkpoint: str | None = None,
        large: int = LARGE,
    ) -> None:
        if layout not in LAYOUTS:
            raise TypingError(f"unknown layout {layout!r}", hint="use 'auto', 'rows' or 'both'")
        self.spark = spark_session(spark)
        self.large = large
        large_matrices = {
            m for m in {*plan.views.inputs, *plan.stored} if self._is_large(m, inputs)
        }
        if layout == "auto":
            layout = choose_layout(
                partitions or choose_partitions(self.spark, large_matrices, "rows")
            )
        self.layout = layout
        self.partitions = partitions or choose_partitions(self.spark, large_matrices, layout)
        shapes = {m.name: m.shape for m in large_matrices}
        self.cluster = Cluster(
            self.spark,
            MatrixBlocks(shapes, self.layout),
            self.partitions,
            checkpoint=checkpoint,
            snapshot_every=200,
        )
        self.blocks = Blocks(self.spark.sparkContext, self.partitions)
        self.moved = Moved()
        self.remote: dict[Matrix, Remote] = {m: Remote(self, m) for m in large_matrices}
        self._sources = dict(inputs)
        super().__init__(plan, inputs, tolerance=tolerance)
        self._sources = {}

    def _is_large(self, matrix: Matrix, inputs: Mapping[Matrix, Array | Sparse]) -> bool:
        if isinstance(inputs.get(matrix), Sparse):
            return False  # a sparse input is small enough for the driver
        return matrix.shape[0] * matrix.shape[1] >= self.large

    def ask(self, what: str, **details: Any) -> list[Any]:
        """One read of all partitions."""
        request = encode({"what": what, **details})
        replies = self.cluster.read(request)
        self.moved.jobs += 1
        self.moved.broadcast += len(request)
        self.moved.collected += sum(map(len, replies))
        return [unpack(reply) for reply in replies]

    def products(self, requests: list[tuple[Matrix, bool, Array]]) -> list[Array]:
        """op(M) y for several at once, in one job."""
        sent = [(m.name, transposed, np.asfortranarray(y)) for m, transposed, y in requests]
        replies = self.ask("products", products=sent)
        results = []
        for at, (_, transposed, _) in enumerate(requests):
            parts = [reply[at] for reply in replies]
            if transposed and self.layout == "rows":
                results.append(np.asfortranarray(sum(parts[1:], parts[0])))
            else:
                results.append(np.asfortranarray(np.vstack(parts)))
        return results

    def step(self, inputs: Any = None, broadcast: bytes = b"", *, commit: bool = True) -> None:
        """One step of the cluster, and what it moved is counted."""
        self.cluster.step(inputs, broadcast, commit=commit)
        metrics = self.cluster.metrics()
        self.moved.jobs += 1
        self.moved.broadcast += metrics.bytes_broadcast + metrics.bytes_scattered
        self.moved.collected += metrics.bytes_collected
        self.moved.shuffled += metrics.bytes_shuffled

    # -- evaluation from scratch: the start, replacements and repairs -----------------------------

    def _evaluate(self, changed: frozenset[Matrix] | None) -> dict[Matrix, Any]:
        """New values: Rows for large views, arrays for the others."""
        code = self.plan.evaluation(changed)
        machine = BlockMachine(self.blocks, self._source, self.large)
        fresh: dict[Matrix, Any] = {}
        for symbol, value in machine.evaluate(code).items():
            assert isinstance(symbol, Matrix)
            if symbol not in self.plan.stored:
                continue
            if symbol not in self.remote and not arrays.is_finite(value):
                raise out_of_range(symbol)
            fresh[symbol] = value
        fresh |= {m: self._source(m) for m in self._sources if m in self.remote}
        try:
            return self._load(fresh)
        finally:
            machine.release()

    def _source(self, leaf: Expr) -> Any:
        assert isinstance(leaf, Matrix)
        value: Any = self._sources.get(leaf)
        if value is None:
            value = self.values[leaf]
        if leaf in self.remote:
            return self.blocks.scatter(arrays.dense_of(value)).persist()
        return value

    def _load(self, fresh: dict[Matrix, Any]) -> dict[Matrix, Any]:
        """Move large values into the partitions, all or none; the rest stays on the driver."""
        local: dict[Matrix, Any] = {}
        try:
            for matrix, value in fresh.items():
                if matrix not in self.remote:
                    local[matrix] = np.ascontiguousarray(arrays.dense_of(value))
                    continue
                rows = value if isinstance(value, ScatteredMatrix) else self.blocks.scatter(value)
                self.step(_pieces(self.blocks, rows, matrix.name, self.layout), commit=False)
                rows.rdd.unpersist()
                local[matrix] = self.remote[matrix]
                if not self.remote[matrix].is_finite():
                    raise out_of_range(matrix)
        except Exception:
            self.cluster.abort()
            raise
        self.step()
        return local

    def _store(self, fresh: Mapping[Matrix, Any]) -> None:
        for matrix, value in fresh.items():
            self.values[matrix] = value
            if matrix in self.plan.stored:
                self.running.reset(matrix, arrays.EPS, arrays.norm(value))

    def replace(self, inputs: Mapping[Matrix, Array | Sparse]) -> None:
        self._sources = dict(inputs)
        try:
            fresh = self._evaluate(frozenset(inputs))
        finally:
            self._sources = {}
        for matrix, value in inputs.items():
            self.values[matrix] = self.remote.get(matrix, value)
        self._store(fresh)
        self.stats.reevaluations += 1

    def _reevaluate(self, changes: Mapping[Matrix, Change]) -> None:
        """Re-evaluate from changed copies of the inputs; the old state stays until all is new."""
        fresh: dict[Matrix, Array | Sparse] = {}
        for matrix, (u, v) in changes.items():
            current = self.values[matrix]
            value = (
                current.copy()
                if isinstance(current, Sparse)
                else np.array(arrays.dense_of(current))
            )
            arrays.rank_update(value, u, v)
            if not arrays.is_finite(value):
                raise out_of_range(matrix)
            fresh[matrix] = value
        self.replace(fresh)

    # -- maintenance ------------------------------------------------------------------------------

    def _code(self, compiled: CompiledTrigger) -> OpList:
        """Waves share a job already, and say better than a fused product what moves."""
        return compiled.code

    def _machine(self, read: Callable[[Expr], Value]) -> Machine:
        return _WaveMachine(self, read)

    def _recompressions(self, compiled: CompiledTrigger) -> dict[int, Any]:
        """None: waves run operations as soon as they can, also before a delta is complete.

        A wider factor costs bytes on the wire but no further job.
        """
        return {}

    def _write(self, updates: Iterator[tuple[Matrix, Delta]], factors: dict[Expr, Value]) -> None:
        """One step for all partitions; the driver's own arrays follow when it is committed."""
        large: dict[str, tuple[Array, Array]] = {}
        local: list[tuple[Matrix, Delta]] = []
        for matrix, delta in updates:
            if matrix in self.remote:
                large[matrix.name] = _as_factors(delta, factors)
            else:
                local.append((matrix, delta))
        if large:
            self.step(broadcast=encode({"updates": large}))
        super()._write(iter(local), factors)

    def close(self) -> None:
        self.cluster.close()


class _WaveMachine(Machine):
    """Runs a trigger on the driver; products with remote matrices that are ready share a job."""

    def __init__(self, engine: SparkMatrixEngine, read: Callable[[Expr], Value]) -> None:
        super().__init__(read)
        self.engine = engine

    def run(self, code: OpList, keep: Any = None, after: Any = None) -> dict[Expr, Value]:
        slots: dict[int, Value] = {}
        waiting = list(code.ops)
        while waiting:
            remote, blocked = [], []
            for op in waiting:
                if any(slot not in slots for slot, _ in op.args):
                    blocked.append(op)
                elif op.kind == "mul" and sum(_is_remote(slots[s]) for s, _ in op.args) == 1:
                    remote.append(op)
                else:
                    slots[op.out] = self.execute(op, slots)
            if remote:
                requests = [_remote_product(op.args, slots) for op in remote]
                products = self.engine.products([(m, t, y) for m, t, y, _ in requests])
                for op, (*_, flipped), product in zip(remote, requests, products, strict=True):
                    scaled = product if op.alpha[0] == 1.0 else op.alpha[0] * product
                    slots[op.out] = scaled.T if flipped else scaled
            waiting = blocked
        values: dict[Expr, Value] = {}
        for symbol, (slot, transposed) in code.results.items():
            value = slots[slot]
            values[symbol] = arrays.dense_of(value).T if transposed else value
        return values


def _is_remote(value: Value) -> bool:
    return isinstance(value, Remote)


def _remote_product(
    args: tuple[tuple[int, bool], ...], slots: Mapping[int, Value]
) -> tuple[Matrix, bool, Array, bool]:
    """op(M) op(y), or op(y) op(M) as the transpose of op(M)^T op(y)^T."""
    (x, tx), (y, ty) = ((slots[slot], t) for slot, t in args)
    if isinstance(x, Remote):
        dense = arrays.dense_of(y)
        return x.matrix, tx, dense.T if ty else dense, False
    assert isinstance(y, Remote)
    dense = arrays.dense_of(x)
    return y.matrix, not ty, dense if tx else dense.T, True


def _as_factors(delta: Delta, factors: Mapping[Expr, Value]) -> tuple[Array, Array]:
    if isinstance(delta, Factored):
        u, v = arrays.dense_of(factors[delta.u]), arrays.dense_of(factors[delta.v])
        return np.asfortranarray(u), np.asfortranarray(v)
    assert isinstance(delta, Dense)
    dense = arrays.dense_of(factors[delta.d])
    return np.asfortranarray(dense), np.eye(dense.shape[1])


def _pieces(blocks: Blocks, rows: ScatteredMatrix, name: str, layout: str) -> Any:
    """A matrix as inputs of a load step: each partition's rows, and its columns piece by piece."""
    height, count = rows.shape[0], blocks.partitions

    def own(item: tuple[int, Array]) -> tuple[int, bytes]:
        partition, block = item
        return partition, encode({"side": "rows", "name": name, "block": block})

    pieces = rows.rdd.map(own, preservesPartitioning=True)
    if layout == "both":

        def part(item: tuple[int, tuple[int, Array]]) -> tuple[int, bytes]:
            target, (source, block) = item
            first = bounds(height, source, count)[0]
            piece = {"side": "columns", "name": name, "block": block, "first": first}
            return target, encode(piece)

        pieces = pieces.union(blocks.spread(rows, "columns").map(part, preservesPartitioning=True))
    return pieces


def choose_layout(partitions: int) -> str:
    """Rows alone while few partitions add up M^T V on the driver; rows and columns beyond.

    With rows alone a transposed product returns one n x r summand per partition. The second copy
    (thesis 6.5) returns n x r once, for twice the memory and twice the writes of every update.
    """
    return "rows" if partitions <= FEW_PARTITIONS else "both"


def choose_partitions(spark: SparkSession, large: set[Matrix], layout: str) -> int:
    """As many as there are cores, and more if a partition would outgrow an executor's share."""
    cores = int(spark.sparkContext.defaultParallelism)
    conf = spark.sparkContext.getConf()
    memory = _bytes(conf.get("spark.executor.memory", "1g") or "1g")
    per_core = memory // max(int(conf.get("spark.executor.cores", "1") or "1"), 1)
    total = sum(8 * m.shape[0] * m.shape[1] for m in large) * (2 if layout == "both" else 1)
    return max(cores, -(-total // per_core))


def _bytes(text: str) -> int:
    """'4g' -> bytes, as Spark writes memory sizes."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    text = text.strip().lower().removesuffix("b")
    return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)
