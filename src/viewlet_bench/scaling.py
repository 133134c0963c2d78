"""How long a batch takes on W workers: a model of measured costs (paper 000 section 6.2).

    T(W, N) =   jobs * job                                     start and end of a Spark job
              + stages * (stage + task * W)                    the driver starts every task
              + shuffles * block * W                           W blocks to and from every worker
              + fixed + per_row * N / W                        tasks: rows, Arrow, kernels
              + (moved * N / W + copied * N) / bandwidth       what a worker sends on
              + collected * W / bandwidth                      what the driver gathers

The first three lines are the machine's, measured with jobs in which nothing happens; the others are
the query's, measured with two workers in one process (local[2]) and checked against one and two
executors, processes of their own. Rows are on the workers before the batch begins, as in the
paper. Left out: stragglers (1.5 to 3 times a stage's time in the paper) and a network that is
slower than one worker's Python process, which moves fewer bytes than 10 Gbit/s. Weak scaling is
N = 100,000 * W; strong scaling is one N for all W.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewlet_bench.output import Row

WORKERS = (1, 2, 5, 10, 25, 50, 100, 200, 400, 600, 800, 1000)
PER_WORKER = 100_000
STRONG = (50_000_000, 100_000_000, 200_000_000, 400_000_000)
QUERIES = ("q6", "q17", "q3", "q7")

PAPER_WEAK: dict[str, dict[int, float]] = {
    "q6": {50: 0.065, 1000: 0.386},
    "q17": {50: 1.3, 800: 4.0},
    "q7": {50: 1.5, 800: 16.9},
}
"""Seconds of a batch by workers that the text beside paper 000 Figure 9 gives."""

PAPER_STRONG: dict[str, dict[int, float]] = {
    "q17": {50: 68.5, 800: 6.4},
    "q3": {25: 30.0, 400: 4.2},
}
"""The same beside paper 000 Figure 10, for batches of 400 million tuples."""


@dataclass(frozen=True)
class SparkCosts:
    """Seconds that Spark takes for itself; bytes per second that one worker moves."""

    job: float
    stage: float
    task: float
    block: float
    bandwidth: float


@dataclass(frozen=True)
class Work:
    """What one query asks of the workers; rows and bytes are of one batch."""

    query: str
    jobs: int
    stages: int
    fixed: float
    per_row: float
    moved: float
    copied: float
    collected: float

    @property
    def shuffles(self) -> int:
        """Stages that begin by fetching what others wrote."""
        return self.stages - self.jobs


def seconds(machine: SparkCosts, work: Work, workers: int, rows: float) -> float:
    """T(W, N) as the module's head says."""
    return (
        work.jobs * machine.job
        + work.stages * (machine.stage + machine.task * workers)
        + work.shuffles * machine.block * workers
        + work.fixed
        + work.per_row * rows / workers
        + (work.moved * rows / workers + work.copied * rows) / machine.bandwidth
        + work.collected * workers / machine.bandwidth
    )


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Least squares: the value at 0 and the slope, neither below 0."""
    count = len(points)
    middle = sum(x for x, _ in points) / count
    height = sum(y for _, y in points) / count
    spread = sum((x - middle) ** 2 for x, _ in points)
    slope = sum((x - middle) * (y - height) for x, y in points) / spread if spread else 0.0
    slope = max(0.0, slope)
    return max(0.0, height - slope * middle), slope


def predictions(machine: SparkCosts, works: Sequence[Work]) -> list[Row]:
    """Weak and strong scaling of every query to 1,000 workers, with the paper's points beside."""
    rows = []
    for work in works:
        for workers in WORKERS:
            batch = PER_WORKER * workers
            paper = PAPER_WEAK.get(work.query, {}).get(workers)
            rows.append(_row("weak", work.query, workers, batch, machine, work, paper))
        for batch in STRONG:
            paper_points = PAPER_STRONG.get(work.query, {}) if batch == STRONG[-1] else {}
            for workers in WORKERS:
                if workers >= 10:
                    paper = paper_points.get(workers)
                    rows.append(_row("strong", work.query, workers, batch, machine, work, paper))
    return rows


def _row(
    part: str,
    query: str,
    workers: int,
    batch: int,
    machine: SparkCosts,
    work: Work,
    paper: float | None,
) -> Row:
    elapsed = seconds(machine, work, workers, batch)
    return {
        "part": part,
        "query": query,
        "engine": "model",
        "batch": batch,
        "workers": workers,
        "tuples_per_s": batch / elapsed,
        "p50_ms": 1e3 * elapsed,
        "p99_ms": None,
        "reference": None if paper is None else "paper",
        "reference_ms": None if paper is None else 1e3 * paper,
        "ratio": None if paper is None else paper / elapsed,
        "maps": None,
        "memory_mb": None,
    }


def best_workers(rows: Sequence[Row], query: str) -> int:
    """Where the weak-scaling throughput of a query peaks."""
    mine = [row for row in rows if row["part"] == "weak" and row["query"] == query]
    return int(max(mine, key=lambda row: float(row["tuples_per_s"]))["workers"])
