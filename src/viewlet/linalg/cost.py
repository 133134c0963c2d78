"""What an update costs: Table 6.2 with the constants of this machine.

Table 6.2 gives orders of growth, n^2 k for the incremental exponential model and so on. The same
counts arise here by adding up the operations of the compiled trigger, each priced by a constant
that was measured on this machine, so the estimate is in seconds and holds for any program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from viewlet.linalg import arrays
from viewlet.linalg.delta import Factored, Trigger
from viewlet.linalg.expr import Expr, Matrix
from viewlet.linalg.models import Model
from viewlet.linalg.ops import Op, OpList

Sizes = Mapping[Matrix, arrays.Array | arrays.Operator]

WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class CostConstants:
    """Seconds per unit of work; the per-width tables hold one entry for each of WIDTHS."""

    apply: tuple[float, ...]  # per entry of a large matrix that meets a factor of that width
    update: tuple[float, ...]  # per entry of a large matrix that takes an update of that rank
    gemm: float  # per multiply-add of a large product
    inverse: float  # per n^3
    stream: float  # per entry of an elementwise pass
    sparse: float  # per stored entry and column
    overhead: float  # per operation

    def by_width(self, table: tuple[float, ...], width: int) -> float:
        """Seconds at a width between the measured ones; beyond the largest they grow with it."""
        if width >= WIDTHS[-1]:
            return table[-1] * width / WIDTHS[-1]
        return float(np.interp(width, WIDTHS, table))


@lru_cache(maxsize=1)
def machine_constants() -> CostConstants:
    """Measure this machine once per process, in about half a second."""
    n = 1200  # 11 MB each: the matrices in turn do not stay in cache
    rng = np.random.default_rng(0)
    pool = [rng.standard_normal((n, n)) for _ in range(6)]
    turn = 0

    def next_matrix() -> arrays.Array:
        nonlocal turn
        turn = (turn + 1) % len(pool)
        return pool[turn]

    apply, update = [], []
    for width in WIDTHS:
        u = np.asfortranarray(rng.standard_normal((n, width)) * 1e-9)
        apply.append(_seconds(lambda u=u: arrays.multiply(next_matrix(), False, u, False)) / n**2)  # type: ignore[misc]
        update.append(_seconds(lambda u=u: arrays.rank_update(next_matrix(), u, u)) / n**2)  # type: ignore[misc]
    small = rng.standard_normal((600, 600)) + 60.0 * np.eye(600)
    graph = arrays.Sparse(np.where(rng.random((n, n)) < 0.02, 1.0, 0.0))
    column = rng.standard_normal((n, 1))
    tiny = np.ones((4, 4))
    return CostConstants(
        apply=_by_width(apply),
        update=_by_width(update),
        gemm=_seconds(lambda: arrays.multiply(pool[0], False, pool[1], False), 2) / n**3,
        inverse=_seconds(lambda: arrays.inverse(small, False, "a matrix"), 2) / 600**3,
        stream=_seconds(lambda: arrays.add([(1.0, next_matrix(), False)])) / n**2,
        sparse=_seconds(lambda: graph.apply(column, False)) / graph.nnz,
        overhead=_seconds(lambda: arrays.multiply(tiny, False, tiny, False)) * 3,
    )


def _by_width(measured: list[float]) -> tuple[float, ...]:
    """No factor costs more than a wider one: other work on the machine only adds to a time."""
    return tuple(np.minimum.accumulate(measured[::-1])[::-1].tolist())


def _seconds(run: Callable[[], object], repeats: int = 4) -> float:
    run()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def code_seconds(code: OpList, c: CostConstants, sizes: Sizes | None = None) -> float:
    """The estimated time of straight-line code."""
    shapes = {op.out: op.shape for op in code.ops}
    stored: dict[int, int] = {}
    for op in code.ops:
        value = sizes.get(op.leaf) if sizes and isinstance(op.leaf, Matrix) else None
        if isinstance(value, arrays.Sparse):
            stored[op.out] = value.nnz
    return sum(_op_seconds(op, shapes, stored, c) for op in code.ops if op.kind != "leaf")


def _op_seconds(
    op: Op, shapes: Mapping[int, tuple[int, int]], stored: Mapping[int, int], c: CostConstants
) -> float:
    m, n = op.shape
    match op.kind:
        case "mul":
            (x, tx), (y, _) = op.args
            k = shapes[x][0] if tx else shapes[x][1]
            if x in stored:
                return c.overhead + stored[x] * n * c.sparse
            if y in stored:
                return c.overhead + stored[y] * m * c.sparse
            return c.overhead + product_seconds(m, k, n, c)
        case "fused":
            (x, tx), *_ = op.args
            k = shapes[x][0] if tx else shapes[x][1]
            if x in stored:
                return c.overhead + stored[x] * n * c.sparse
            return c.overhead + product_seconds(m, k, n, c) + k * n * c.stream
        case "part":
            return 0.0
        case "add":
            return c.overhead + len(op.args) * m * n * c.stream
        case "inv":
            return c.overhead + m**3 * c.inverse
        case "woodbury":
            return 4 * c.overhead + product_seconds(n, m, n, c) + product_seconds(m, n, n, c)
        case _:
            return c.overhead + m * n * c.stream


def product_seconds(m: int, k: int, n: int, c: CostConstants) -> float:
    """The time of a product of an (m, k) with a (k, n) matrix."""
    narrow = min(m, k, n)
    if narrow >= WIDTHS[-1]:
        return m * k * n * c.gemm
    large = m * k * n // narrow
    if narrow == k and k < min(m, n):
        return large * (c.by_width(c.update, narrow) + c.stream)
    return large * c.by_width(c.apply, narrow)


def trigger_seconds(
    trigger: Trigger, code: OpList, c: CostConstants, sizes: Sizes | None = None
) -> float:
    """Evaluating the factors of a trigger and applying them to every affected matrix."""
    total = code_seconds(code, c, sizes)
    for matrix, change in trigger.updates():
        value = sizes.get(matrix) if sizes else None
        entries = matrix.shape[0] * matrix.shape[1]
        if isinstance(value, arrays.Sparse):
            total += c.overhead + value.nnz * c.stream
        elif isinstance(change, Factored):
            total += c.overhead + entries * c.by_width(c.update, change.rank)
        else:
            total += c.overhead + entries * c.stream
    return total


def memory_bytes(stored: Iterable[Expr]) -> int:
    """The state of a plan, all of it dense."""
    return sum(8 * m.shape[0] * m.shape[1] for m in stored)


_TABLE = {
    ("powers", "reevaluation"): ("n^g k", "n^g log k", "n^g (log s + k/s)"),
    ("powers", "incremental"): ("n^2 k^2", "n^2 k", "n^2 k^2/s"),
    ("general", "reevaluation"): (
        "p n^2 k",
        "(n^g + p n^2) log k",
        "n^g log s + p n^2 (log s + k/s)",
    ),
    ("general", "incremental"): ("(n^2 + p n) k^2", "(n^2 + p n) k", "(n^2 + n p) k^2/s"),
    ("general", "hybrid"): (
        "p n^2 k",
        "p n^2 log k + n^2 k",
        "p n^2 (log s + k/s) + n^2 s",
    ),
}


def table_6_2(form: str, strategy: str, model: Model) -> str:
    """The order of growth that Table 6.2 gives; form is 'powers' or 'general'."""
    row = _TABLE.get((form, strategy))
    if row is None:
        return ""
    return row[("linear", "exponential", "skip").index(model.kind)]
