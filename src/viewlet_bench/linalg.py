"""`viewlet bench linalg`: re-evaluation, incremental and hybrid maintenance side by side.

Each workload follows a figure or table of thesis 6.6 at sizes that fit one machine. All contenders
of a workload live in one process and take turns, update by update, so that a noisy machine
disturbs them alike; the times are medians. `cpu_ms` and `cpu_ratio` are the same in processor time
of this process, which the load of others hardly changes. Every update changes one random row of an
input, as in the thesis. `reference` names what `ratio` is measured against: ratio 12 means twelve
times as fast.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import viewlet.linalg as la
from viewlet.linalg import arrays, cost
from viewlet.linalg.live import Live

Row = dict[str, Any]
Run = Callable[[], object]
OPTIONS = ("progress",)
PAUSE = 0.03  # between contenders: the idle threads of one BLAS must not disturb the next


@dataclass
class Contender:
    """Something that can take one update, and what is known about it."""

    name: str
    run: Run
    live: Live | None = None
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    moved: dict[str, int] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of its times, in seconds."""
        return float(np.median(self.times))


def run(
    quick: bool = False,
    *,
    only: Sequence[str] | None = None,
    spark: bool | None = None,
    plots: str | None = None,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """All workloads, or those named in `only`; Spark's too unless quick, or as `spark` says."""
    cost.machine_constants()
    sizes = QUICK if quick else FULL
    chosen = list(WORKLOADS) if only is None else list(only)
    if (quick if spark is None else not spark) and "spark" in chosen and only is None:
        chosen.remove("spark")
    rows: list[Row] = []
    for name in chosen:
        for row in WORKLOADS[name](sizes):
            rows.append(row)
            if progress is not None:
                progress(row)
    if plots is not None:
        from viewlet_bench.linalg_plots import draw

        draw(rows, Path(plots))
    return rows


@dataclass(frozen=True)
class Sizes:
    """How large the matrices of each experiment are."""

    n: int
    growth: tuple[int, ...]
    ks: tuple[int, ...]
    ps: tuple[int, ...]
    rounds: int
    batch: int
    zipf: tuple[float, ...]
    spark_n: int


QUICK = Sizes(400, (200, 400), (4, 16), (1, 64), 5, 200, (3.0, 1.0), 600)
FULL = Sizes(
    2000,
    (500, 1000, 2000, 4000),
    (4, 8, 16, 32, 64),
    (1, 16, 200, 1000),
    7,
    1000,
    (5.0, 4.0, 3.0, 2.0, 1.0, 0.0),
    4000,
)


def take_turns(contenders: Sequence[Contender], rounds: int, *, warm: bool = True) -> None:
    """One update each, in turn; slow contenders stop after three timed rounds."""
    for contender in contenders if warm else ():
        contender.run()
        time.sleep(PAUSE)
    for turn in range(rounds):
        for contender in contenders:
            if turn >= 3 and contender.median > 2.0:
                continue
            start, used = time.perf_counter(), time.process_time()
            contender.run()
            contender.times.append(time.perf_counter() - start)
            contender.cpu.append(time.process_time() - used)
            time.sleep(PAUSE)


def report(
    query: str, contenders: Sequence[Contender], reference: str, batch: int = 1, **extra: Any
) -> list[Row]:
    """A row for each contender, beside the reference."""
    by_name = {c.name: c for c in contenders}
    base = by_name[reference].median
    rows = []
    for c in contenders:
        matrices = None if c.live is None else {*c.live.plan.views.inputs, *c.live.plan.stored}
        rows.append(
            {
                "query": query,
                "engine": c.name,
                "batch": batch,
                "tuples_per_s": batch / c.median,
                "p50_ms": 1e3 * c.median,
                "p99_ms": 1e3 * float(np.quantile(c.times, 0.99)),
                "reference": reference,
                "ratio": base / c.median,
                "cpu_ms": 1e3 * float(np.median(c.cpu)),
                "cpu_ratio": float(np.median(by_name[reference].cpu) / np.median(c.cpu)),
                "maps": None if matrices is None else len(matrices),
                "memory_mb": None if matrices is None else cost.memory_bytes(matrices) / 2**20,
                **extra,
            }
        )
    return rows


def contracting(rng: np.random.Generator, n: int) -> arrays.Array:
    """A random matrix of spectral radius 0.9: its powers neither vanish nor overflow."""
    matrix: arrays.Array = 0.9 * rng.standard_normal((n, n)) / np.sqrt(n)
    return matrix


def row_update(
    live: Live, name: str, rng: np.random.Generator, scale: float, diagonal: float
) -> Run:
    """One random row anew; `diagonal` keeps a matrix that must be inverted well-conditioned."""
    rows, columns = live[name].shape

    def change() -> None:
        row = scale * rng.standard_normal(columns)
        at = int(rng.integers(rows))
        row[at] += diagonal
        live.set_rows(name, {at: row})

    return change


def start_all(
    program: la.Program,
    values: Mapping[str, arrays.Array],
    plans: Iterable[tuple[str, str]],
    changing: str,
    scale: float,
    diagonal: float = 0.0,
) -> list[Contender]:
    """The program under every strategy that is compared."""
    contenders = []
    for strategy, model in plans:
        live = program.start(values, strategy=strategy, model=model, changing=[changing])
        label = "auto" if strategy == "auto" else f"{strategy}/{model}"
        update = row_update(live, changing, np.random.default_rng(5), scale, diagonal)
        contenders.append(Contender(label, update, live))
    return contenders


def numpy_powers(a: arrays.Array, k: int) -> Run:
    """What a NumPy user does: A += u v^T, then square."""

    def again() -> arrays.Array:
        result = a
        for _ in range(k.bit_length() - 1):
            result = result @ result
        return result

    return again


def strategies(s: Sizes) -> list[Row]:
    """Figure 6.5a: A^16 by re-evaluation and maintenance in the three models."""
    rng = np.random.default_rng(0)
    a = contracting(rng, s.n)
    models = ("linear", "exponential", "skip-4")
    plans = [(t, m) for t in ("reevaluation", "incremental") for m in models]
    program = la.matrix_power(s.n, 16)
    contenders = start_all(program, {"A": a}, plans, "A", 0.9 / np.sqrt(s.n))
    contenders.append(Contender("numpy squaring", numpy_powers(a, 16)))
    take_turns(contenders, s.rounds)
    return report(f"A^16, n={s.n}", contenders, "numpy squaring", figure="6.5a", n=s.n, k=16)


def growth(s: Sizes) -> list[Row]:
    """Figures 6.5c and 6.6, Table 6.3: A^16 and I + ... + A^15 as n doubles."""
    rows: list[Row] = []
    for n in s.growth:
        for query, program, figure in (
            ("A^16", la.matrix_power(n, 16), "6.5c"),
            ("sum of powers to 15", la.sum_of_powers(n, 16), "6.6"),
        ):
            a = contracting(np.random.default_rng(0), n)
            plans = [("reevaluation", "exponential"), ("incremental", "exponential")]
            contenders = start_all(program, {"A": a}, plans, "A", 0.9 / np.sqrt(n))
            take_turns(contenders, s.rounds if n <= 2000 else 3)
            rows += report(
                f"{query}, n={n}", contenders, "reevaluation/exponential", figure=figure, n=n, k=16
            )
    return rows


def iterations(s: Sizes) -> list[Row]:
    """Figure 6.5e: A^k as k doubles."""
    rows: list[Row] = []
    n = s.n // 2
    for k in s.ks:
        a = contracting(np.random.default_rng(0), n)
        plans = [("reevaluation", "exponential"), ("incremental", "exponential")]
        contenders = start_all(la.matrix_power(n, k), {"A": a}, plans, "A", 0.9 / np.sqrt(n))
        take_turns(contenders, s.rounds)
        rows += report(
            f"A^{k}, n={n}", contenders, "reevaluation/exponential", figure="6.5e", n=n, k=k
        )
    return rows


def least_squares(s: Sizes) -> list[Row]:
    """Figure 6.3: ordinary least squares with one response as n grows."""
    rows: list[Row] = []
    for n in [n for n in s.growth if n <= s.n]:
        rng = np.random.default_rng(0)
        x_in, y_in = la.matrix("X", n, n), la.matrix("Y", n, 1)
        program = la.program(beta=la.inv(x_in.T @ x_in) @ x_in.T @ y_in)
        x = rng.standard_normal((n, n)) / np.sqrt(n) + 2.0 * np.eye(n)
        y = rng.standard_normal((n, 1))
        plans = [(t, "exponential") for t in ("reevaluation", "incremental", "hybrid")]
        contenders = start_all(program, {"X": x, "Y": y}, plans, "X", 1.0 / np.sqrt(n), 2.0)
        contenders.append(
            Contender("numpy solve", lambda x=x, y=y: np.linalg.solve(x.T @ x, x.T @ y))  # type: ignore[misc]
        )
        take_turns(contenders, s.rounds)
        rows += report(
            f"least squares, n={n}, p=1",
            contenders,
            "reevaluation/exponential",
            figure="6.3",
            n=n,
        )
    return rows


GENERAL = [
    *((t, m) for t in ("reevaluation", "incremental", "hybrid") for m in ("linear", "exponential")),
    ("incremental", "skip-2"),
    ("hybrid", "skip-2"),
    ("incremental", "skip-4"),
    ("hybrid", "skip-4"),
    ("reevaluation", "skip-4"),
]


def general(s: Sizes) -> list[Row]:
    """Figures 6.7 and 6.8: T <- A T and T <- A T + B over 16 steps, and what auto chooses."""
    rows: list[Row] = []
    n = s.n
    for constant, figure in ((False, "6.7"), (True, "6.8")):
        for p in s.ps:
            rng = np.random.default_rng(p)
            program = la.general_form(n, p, 16, constant=constant)
            values = {"A": contracting(rng, n), "T0": rng.standard_normal((n, p))}
            if constant:
                values["B"] = rng.standard_normal((n, p))
            # The contenders that an estimate puts far behind are left out, and named as such.
            estimates = program.plans("auto", "auto", changing=["A"])
            limit = 6.0 * estimates[0].seconds
            slow = {str(e.plan) for e in estimates if e.seconds > limit}
            plans = [w for w in GENERAL if f"{w[0]}/{w[1]}" not in slow]
            contenders = start_all(
                program, values, [*plans, ("auto", "auto")], "A", 0.9 / np.sqrt(n)
            )
            take_turns(contenders, 2 * s.rounds)
            best = min((c for c in contenders if c.name != "auto"), key=lambda c: c.median)
            plan_rows = report(
                f"T <- A T{' + B' if constant else ''}, n={n}, p={p}",
                contenders,
                best.name,
                figure=figure,
                n=n,
                p=p,
            )
            chosen = contenders[-1].live
            assert chosen is not None
            plan_rows[-1]["plan"] = str(chosen.plan)
            rows += plan_rows
    return rows


def batches(s: Sizes) -> list[Row]:
    """Table 6.4: one batch of row updates whose frequencies follow a Zipf distribution."""
    n = s.n // 2
    rows: list[Row] = []
    for factor in s.zipf:
        rng = np.random.default_rng(int(factor * 10))
        weights = 1.0 / np.arange(1, n + 1) ** factor
        weights /= weights.sum()
        program = la.matrix_power(n, 16)
        a = contracting(rng, n)
        contenders = []
        for strategy in ("incremental", "auto", "reevaluation"):
            live = program.start({"A": a}, strategy=strategy, model="exponential", changing=["A"])
            contenders.append(
                Contender(strategy, _zipf_batch(live, weights, s.batch, factor), live)
            )
        take_turns(contenders, 3)
        distinct = len(np.unique(rng.choice(n, s.batch, p=weights)))
        rows += report(
            f"A^16, n={n}, {s.batch} updates, Zipf {factor:g}",
            contenders,
            "reevaluation",
            batch=s.batch,
            figure="table 6.4",
            n=n,
            zipf=factor,
            distinct_rows=distinct,
        )
    return rows


def _zipf_batch(live: Live, weights: Any, count: int, factor: float) -> Run:
    rng = np.random.default_rng(int(factor * 10) + 1)
    n = len(weights)

    def change() -> None:
        with live.batch():
            for i in rng.choice(n, count, p=weights):
                unit = np.zeros(n)
                unit[i] = 1.0
                live.update("A", arrays.OneHot(np.array([i]), n), rng.standard_normal(n) * 1e-4)

    return change


def on_spark(s: Sizes) -> list[Row]:
    """Figure 6.5d at the size of one machine: A^16 maintained and re-evaluated on Spark."""
    from pyspark.sql import SparkSession

    from viewlet.engine.partitions.session import ensure_java, session_settings
    from viewlet.linalg.spark_engines import SparkMatrixEngine
    from viewlet.linalg.spark_peer import Moved, SparkReevaluation

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers: this interpreter's packages
    builder = SparkSession.builder.master("local[2]").appName("viewlet bench linalg")
    for key, value in {**session_settings(), "spark.driver.memory": "6g"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    n = s.spark_n
    a = contracting(np.random.default_rng(0), n)
    program = la.matrix_power(n, 16)
    rows: list[Row] = []
    contenders = []
    try:
        for strategy in ("reevaluation", "incremental"):
            live = program.start(
                {"A": a},
                engine="spark",
                spark=spark,
                partitions=2,
                strategy=strategy,
                model="exponential",
            )
            contenders.append(Contender(strategy, _rank_one(live, "A"), live))
        for contender in contenders:
            assert contender.live is not None
            engine = contender.live.engine
            assert isinstance(engine, SparkMatrixEngine | SparkReevaluation)
            engine.moved = Moved()
            contender.run()
            moved = engine.moved
            contender.moved = {
                "bytes_broadcast": moved.broadcast,
                "bytes_collected": moved.collected,
                "bytes_shuffled": moved.shuffled,
                "bytes_matrix": 8 * n * n,
                "jobs": moved.jobs,
            }
        take_turns(contenders, 3, warm=False)
        rows = report(f"Spark A^16, n={n}", contenders, "reevaluation", figure="6.5d", n=n, k=16)
        for row, contender in zip(rows, contenders, strict=True):
            row |= contender.moved
        first, second = (c.live for c in contenders)
        assert first is not None and second is not None
        rows[1]["difference"] = _relative_gap(second, first)
    finally:
        for contender in contenders:
            if contender.live is not None:
                contender.live.close()
        spark.stop()
    return rows


def _rank_one(live: Live, name: str) -> Run:
    """The same stream of rank-1 updates for every engine; each touches one row."""
    n = live.plan.views.inputs[0].shape[0]
    rng = np.random.default_rng(5)

    def change() -> None:
        unit = arrays.OneHot(np.array([int(rng.integers(n))]), n)
        live.update(name, unit, 0.1 * rng.standard_normal(n) / np.sqrt(n))

    return change


def _relative_gap(live: Live, other: Live) -> float:
    """How far two engines that saw the same updates are apart in their first output."""
    name = next(iter(live.plan.views.outputs))
    want = other[name]
    return float(np.linalg.norm(live[name] - want) / np.linalg.norm(want))


WORKLOADS: dict[str, Callable[[Sizes], list[Row]]] = {
    "strategies": strategies,
    "growth": growth,
    "iterations": iterations,
    "ols": least_squares,
    "general": general,
    "batches": batches,
    "spark": on_spark,
}


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    head = f"{'query':<44}{'engine':<28}{'p50 ms':>10}{'ratio':>9}{'cpu ratio':>11}{'MB':>9}"
    lines = [f"{head}  reference"]
    for row in rows:
        memory = "" if row["memory_mb"] is None else f"{row['memory_mb']:.0f}"
        plan = f"  [{row['plan']}]" if "plan" in row else ""
        lines.append(
            f"{row['query']:<44}{row['engine']:<28}{row['p50_ms']:>10.2f}{row['ratio']:>8.2f}x"
            f"{row['cpu_ratio']:>10.2f}x{memory:>9}  {row['reference']}{plan}"
        )
    return "\n".join(lines)


def main() -> None:
    """`python -m viewlet_bench.linalg [--quick] [--only W] [--json F] [--plots D]`"""
    import argparse

    parser = argparse.ArgumentParser(prog="viewlet bench linalg", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--json")
    parser.add_argument("--plots")
    options = parser.parse_args()
    rows = run(options.quick, only=options.only, plots=options.plots)
    print(table(rows))
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
