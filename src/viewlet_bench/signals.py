"""`viewlet bench signals`: TrillDSP's experiments (thesis 7.5), side by side in one run.

Direct SciPy calls on already-shaped arrays for the pure tasks; pandas groupby plus SciPy and Spark
applyInPandas plus SciPy for the grouped queries; updates against recomputation for hopping windows;
growth with events and with groups. Contestants take turns, and the medians are compared.

ratio = time of the reference / time of viewlet (above 1: viewlet is faster). viewlet uses all
cores; SciPy and pandas use the one that they use when called as people call them. All have the
allocator as it comes, so memory that a contestant asks for anew is part of its time; viewlet keeps
memory of dropped results for its next run (signals/buffers.py), and is warm when it is measured.
Rows of growth compare processor time per event: 1 means that it is the same; peak memory is
measured in another process (signals_memory.py), where nothing is kept.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import fft as spectra
from scipy import signal as scipy_signal

import viewlet.signals as sg
from viewlet.errors import ResolutionError
from viewlet_bench import signals_memory
from viewlet_bench.signals_queries import (
    QUERIES,
    Array,
    Columns,
    correlate_group,
    correlation,
    interpolate_group,
    interpolation,
    overlap_add,
    overlap_group,
    pandas_one,
    pandas_two,
    readings,
    shuffled,
    two_signals,
)

Row = dict[str, Any]
SIZES = (64, 128, 256, 512, 1024, 2048)
GROUPS = (10, 100, 1_000, 10_000, 100_000)
OPTIONS = ("progress", "parts")
PARTS = ("pure", "grouped", "growth", "hopping", "spark")
COLUMNS = (
    "query",
    "batch",
    "tuples_per_s",
    "p50_ms",
    "p99_ms",
    "reference",
    "reference_ms",
    "ratio",
    "target",
    "cpu_ms",
    "reference_cpu_ms",
    "memory_mb",
    "ns_per_event",
    "cpu_ns_per_event",
    "reference_cpu_ns",
    "bytes_per_event",
    "load",
)


def run(
    quick: bool = False,
    events: int | None = None,
    parts: list[str] | None = None,
    repeats: int = 3,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """The parts (all if left out), row by row; quick is one small size of each, within 45 s.

    A part that fails gives a row that says so, and the others go on.
    """
    chosen = parts or list(PARTS)
    for name in chosen:
        if name not in PARTS:
            raise ResolutionError(f"there is no part {name}", hint=f"choose of {', '.join(PARTS)}")
    events = events or (400_000 if quick else 10_000_000)
    sizes = (64, 1024) if quick else SIZES
    groups = (10, 1_000) if quick else GROUPS
    # the whole number of events once; many groups with fewer, for it takes a millisecond each
    on_cluster = ((events // 4, 500),) if quick else ((events, 1_000), (events // 5, 10_000))
    makers: dict[str, Callable[[], Iterator[Row]]] = {
        "pure": lambda: pure(events, sizes, repeats),
        "grouped": lambda: grouped(events, groups, repeats),
        "growth": lambda: growth(events, groups, repeats),
        "hopping": lambda: hopping(min(events, 2_000_000), repeats),
        "spark": lambda: on_spark(on_cluster),
    }
    rows: list[Row] = []
    for name in PARTS:
        if name not in chosen:
            continue
        measure = makers[name]
        gc.collect()
        gc.freeze()  # modules and classes: to look at them before every turn would take seconds
        try:
            for measured in _guarded(name, measure):
                rows.append(measured)
                if progress is not None:
                    progress(measured)
        finally:
            gc.unfreeze()
    return rows


def _guarded(name: str, measure: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    try:
        yield from measure()
    except Exception as error:  # whatever it is, the figures of the other parts are worth having
        failed = dict.fromkeys(COLUMNS)
        yield {**failed, "query": f"{name} failed: {error}", "engine": "viewlet", "maps": 0}


# --- measuring -----------------------------------------------------------------------------------


class Times:
    """Wall-clock and processor seconds of repeated calls.

    On a machine that is busy with other things the wall clock says little and the processor time,
    summed over threads, still says how much work there was: both are reported.
    """

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def take(self, work: Callable[[], Any]) -> None:
        """Run the work once and note its wall and processor time."""
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


def turns(
    repeats: int, *contestants: Callable[[], Any], warm: int | None = None, slow: int | None = None
) -> list[Times]:
    """The contestants alternate, so that noise meets them alike; the first `warm` (default: all)
    are called once before, to compile and load. The second one stops after `slow` turns."""
    times = [Times() for _ in contestants]
    for contestant in contestants[:warm]:
        contestant()
    for turn in range(repeats):
        for number, (mine, contestant) in enumerate(zip(times, contestants, strict=True)):
            if number == 0 or slow is None or turn < slow:
                mine.take(contestant)
    return times


def row(
    query: str,
    events: int,
    times: Times,
    reference: str = "",
    theirs: Times | None = None,
    target: str = "",
    memory: float | None = None,
) -> Row:
    """One measurement, beside that of the reference."""
    p50 = float(np.median(times.wall))
    figures: Row = {
        "query": query,
        "engine": "viewlet",
        "batch": events,
        "tuples_per_s": round(events / p50),
        "p50_ms": round(1e3 * p50, 2),
        "p99_ms": round(1e3 * float(np.quantile(times.wall, 0.99)), 2),
        "reference": reference,
        "ratio": None,
        "maps": 0,
        "memory_mb": memory,
        "target": target,
        "cpu_ms": round(1e3 * float(np.median(times.cpu)), 2),
        "ns_per_event": round(1e9 * p50 / events, 2),
        "cpu_ns_per_event": round(1e9 * min(times.cpu) / events, 2),
        "reference_ms": None,
        "reference_cpu_ms": None,
        "load": round(os.getloadavg()[0], 1),
    }
    if theirs is not None:
        figures["reference_ms"] = round(1e3 * float(np.median(theirs.wall)), 2)
        figures["reference_cpu_ms"] = round(1e3 * float(np.median(theirs.cpu)), 2)
        figures["reference_cpu_ns"] = round(1e9 * min(theirs.cpu) / events, 2)
        figures["ratio"] = round(float(np.median(theirs.wall)) / p50, 2)
    return figures


# --- the parts -----------------------------------------------------------------------------------


def pure(events: int, sizes: tuple[int, ...], repeats: int) -> Iterator[Row]:
    """FFT over tumbling windows and FIR filters (thesis 7.5.1), against the direct SciPy call."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(events)
    table = {"t": np.arange(events), "v": x}
    source = sg.source(time="t", value="v").sample(1)
    for size in sizes:
        shaped = x[: events // size * size].reshape(-1, size)
        query = source.window(size).fft()
        mine, theirs = turns(
            repeats, partial(query.run, table), partial(spectra.fft, shaped, axis=1)
        )
        name = f"fft of tumbling windows, {size}"
        yield row(name, events, mine, "scipy.fft.fft", theirs, "ratio >= 0.77")
    for size in sizes:
        taps = rng.standard_normal(size)
        query = source.fir(taps)
        direct = _fastest_filter(size)
        mine, theirs = turns(repeats, partial(query.run, table), partial(direct, taps, x))
        name = f"fir filter, {size} taps"
        yield row(name, events, mine, direct.__name__, theirs, "ratio >= 0.77")


def _lfilter(taps: Array, x: Array) -> Any:
    return scipy_signal.lfilter(taps, 1.0, x)


def _oaconvolve(taps: Array, x: Array) -> Any:
    return scipy_signal.oaconvolve(x, taps)[: len(x)]


def _fastest_filter(size: int) -> Callable[[Array, Array], Any]:
    """SciPy has two ways; the reference is the one that is faster at this size."""
    x = np.random.default_rng(0).standard_normal(200_000)
    taps = np.ones(size)
    first, second = turns(3, lambda: _lfilter(taps, x), lambda: _oaconvolve(taps, x))
    return _lfilter if min(first.cpu) < min(second.cpu) else _oaconvolve


def grouped(events: int, groups: tuple[int, ...], repeats: int) -> Iterator[Row]:
    """The three grouped queries (thesis 7.5.2) against pandas groupby plus SciPy."""
    for count in groups:
        slow = repeats if count <= 1_000 else 1
        target = "ratio >= 10" if count >= 1_000 else ""
        table = readings(events, count)
        frame = pd.DataFrame(table)
        for name, query, work in (
            ("correlation", correlation(), correlate_group),
            ("overlap-and-add", overlap_add(), overlap_group),
        ):
            mine, theirs = turns(
                repeats,
                partial(query.run, table),
                partial(pandas_one, frame, work),
                warm=1,
                slow=slow,
            )
            label = f"{name}, {count} groups"
            yield row(label, events, mine, "pandas groupby + SciPy", theirs, target)
        if count == 1_000:
            table = shuffled(table, count)
            frame = pd.DataFrame(table)
            query = correlation()
            mine, theirs = turns(
                repeats,
                partial(query.run, table),
                partial(pandas_one, frame, correlate_group),
                warm=1,
            )
            label = f"correlation, {count} groups, shuffled"
            yield row(label, events, mine, "pandas groupby + SciPy", theirs, target)
        del table, frame
        left, right = two_signals(events, count)
        frames = pd.DataFrame(left), pd.DataFrame(right)
        query = interpolation()
        mine, theirs = turns(
            repeats,
            partial(query.run, left=left, right=right),
            partial(pandas_two, *frames),
            warm=1,
            slow=slow,
        )
        label = f"interpolation and filtering, {count} groups"
        yield row(label, events, mine, "pandas groupby + SciPy", theirs, target)


def growth(events: int, groups: tuple[int, ...], repeats: int) -> Iterator[Row]:
    """Time and memory as events grow fourfold, and as groups grow with the events fixed.

    ratio = processor time per event of the first of each kind / that of this row: flat is 1.
    """
    sizes = [
        *(("events", n, 1_000) for n in (events // 4, events // 2, events)),
        *(("groups", events, count) for count in groups),
    ]
    peaks = signals_memory.peaks(list(dict.fromkeys((n, count) for _, n, count in sizes)))
    for name, factory in QUERIES.items():
        base: dict[str, Row] = {}
        for kind, n, count in sizes:
            (times,) = turns(2 * repeats, factory(n, count))
            used = peaks.get((name, n, count))
            mega = None if used is None else round(used / 2**20, 1)
            figures = row(f"growth, {name}, {n} events, {count} groups", n, times, memory=mega)
            figures["bytes_per_event"] = None if used is None else round(used / n, 1)
            first = base.setdefault(kind, figures)
            figures["reference"] = f"processor time per event, {first['query']}"
            figures["ratio"] = round(first["cpu_ns_per_event"] / figures["cpu_ns_per_event"], 2)
            figures["target"] = "ratio about 1"
            yield figures


def energy(window: Any, out: Any) -> None:
    """The sum of squares of a window."""
    total = 0.0
    for x in window:
        total += x * x
    out[0] = total


def energy_update(old: Any, new: Any, out: Any) -> None:
    """The same from the sum of the window before."""
    total = out[0]
    for j in range(len(old)):
        total += new[j] * new[j] - old[j] * old[j]
    out[0] = total


def energy_again(old: Any, new: Any, out: Any) -> None:
    """Never called: renew=1 recomputes every window."""


def hopping(events: int, repeats: int) -> Iterator[Row]:
    """Windows with hop = size / 8: updated from the deltas against recomputed every time."""
    size = 512
    bins = tuple(range(16))
    table = {"t": np.arange(events), "v": np.random.default_rng(3).standard_normal(events)}
    frames = sg.source(time="t", value="v").sample(1).window(size, size // 8)
    updated = sg.PipelineOperator(1, energy, energy_update)
    anew = sg.PipelineOperator(1, energy, energy_again, renew=1)
    sliding = sg.sliding_dft(size, size // 8, bins)
    yield _versus(
        f"energy, window {size}, hop {size // 8}, update",
        events,
        repeats,
        frames.apply(updated),
        frames.apply(anew),
        "the same operator, recompute",
        table,
    )
    yield _versus(
        f"{len(bins)} bins of the DFT, window {size}, hop {size // 8}, update",
        events,
        repeats,
        frames.apply(sliding),
        frames.map(lambda a: spectra.rfft(a, axis=1)[:, : len(bins)]),
        "scipy.fft.rfft of every window",
        table,
    )
    small = events // 10
    short = {name: column[:small] for name, column in table.items()}
    dense = sg.source(time="t", value="v").sample(1).window(64, 1)
    yield _versus(
        "full DFT, window 64, hop 1, update",
        small,
        repeats,
        dense.sliding_dft(),
        dense.fft(),
        "scipy.fft.fft of every window",
        short,
    )


def _versus(
    name: str, events: int, repeats: int, a: sg.Query, b: sg.Query, reference: str, table: Columns
) -> Row:
    mine, theirs = turns(repeats, lambda: a.run(table), lambda: b.run(table))
    return row(name, events, mine, reference, theirs, "ratio > 1")


def on_spark(runs: tuple[tuple[int, int], ...]) -> Iterator[Row]:
    """The grouped queries in process against applyInPandas plus SciPy on the same cores."""
    import pyarrow as pa

    from viewlet.engine.partitions.session import spark_session

    spark = spark_session(cores=os.cpu_count() or 1)
    spark.sparkContext.setLogLevel("OFF")
    # the default of 200 partitions would start a hundred times more tasks than there are cores
    spark.conf.set("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))
    schema = "sensor long, t long, v double"

    def one(work: Callable[..., Any]) -> Callable[[pd.DataFrame], pd.DataFrame]:
        def apply(group: pd.DataFrame) -> pd.DataFrame:
            group = group.sort_values("t")
            t, v = work(group["v"].to_numpy(), group["t"].to_numpy())
            return pd.DataFrame({"sensor": group["sensor"].iloc[0], "t": t, "v": v})

        return apply

    def both(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        left, right = left.sort_values("t"), right.sort_values("t")
        t, v = interpolate_group(
            left["t"].to_numpy(), left["v"].to_numpy(), right["t"].to_numpy(), right["v"].to_numpy()
        )
        return pd.DataFrame({"sensor": left["sensor"].iloc[0], "t": t, "v": v})

    start = spark.createDataFrame(pa.table(readings(4_000, 20)))  # wakes the Python workers
    execute(start.groupBy("sensor").applyInPandas(one(correlate_group), schema))
    for events, count in runs:
        table = readings(events, count)
        frame = spark.createDataFrame(pa.table(table)).persist()
        frame.count()
        for name, query, work in (
            ("correlation", correlation(), correlate_group),
            ("overlap-and-add", overlap_add(), overlap_group),
        ):
            job = frame.groupBy("sensor").applyInPandas(one(work), schema)
            mine, theirs = turns(
                3,
                partial(query.run, table),
                partial(execute, job),
                warm=1,
                slow=1,
            )
            label = f"{name}, {count} groups"
            yield row(label, events, mine, "Spark applyInPandas + SciPy", theirs, "ratio >= 10")
        frame.unpersist()
        left, right = two_signals(events, count)
        frames = [spark.createDataFrame(pa.table(side)).persist() for side in (left, right)]
        for side in frames:
            side.count()
        job = (
            frames[0]
            .groupBy("sensor")
            .cogroup(frames[1].groupBy("sensor"))
            .applyInPandas(both, schema)
        )
        query = interpolation()
        mine, theirs = turns(
            3,
            partial(query.run, left=left, right=right),
            partial(execute, job),
            warm=1,
            slow=1,
        )
        label = f"interpolation and filtering, {count} groups"
        yield row(label, events, mine, "Spark applyInPandas + SciPy", theirs, "ratio >= 10")
        for side in frames:
            side.unpersist()
    spark.stop()


def execute(job: Any) -> None:
    """Run a DataFrame to its end and drop the result."""
    job.write.format("noop").mode("overwrite").save()
