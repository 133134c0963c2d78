"""`viewlet bench signals`: TrillDSP's experiments (thesis 7.5), side by side in one run.

Direct SciPy calls on already-shaped arrays for the pure tasks; pandas groupby plus SciPy and Spark
applyInPandas plus SciPy for the grouped queries; updates against recomputation for hopping windows;
growth with events and with groups. Contestants take turns, and the medians are compared.

ratio = time of the reference / time of viewlet (above 1: viewlet is faster). viewlet uses all
cores; SciPy and pandas use the one that they use when called as people call them. All have the
allocator as it comes, so memory that a contestant asks for anew is part of its time; viewlet keeps
memory of dropped results for its next run (signals/buffers.py), and is warm when it is measured.
Rows of growth compare processor time per event: 1 means that it is the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import fft as spectra
from scipy import signal as scipy_signal

import viewlet.signals as sg
from viewlet.errors import ResolutionError
from viewlet.signals import buffers

Row = dict[str, Any]
Array = np.ndarray[Any, Any]
Columns = dict[str, Array]
SIZES = (64, 128, 256, 512, 1024, 2048)
GROUPS = (10, 100, 1_000, 10_000, 100_000)
WINDOW, HOP = 64, 32  # of the grouped overlap-and-add; fits 100 samples per group
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
PATTERN = np.random.default_rng(32).standard_normal(32)


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
        "growth": lambda: growth(memory_of_growth(events, groups), repeats),
        "hopping": lambda: hopping(min(events, 2_000_000), repeats),
        "spark": lambda: on_spark(on_cluster),
    }
    rows: list[Row] = []
    for name in PARTS:
        if name not in chosen:
            continue
        made = makers[name]
        for found in _guarded(name, made):
            rows.append(found)
            if progress is not None:
                progress(found)
        gc.collect()
    return rows


def _guarded(name: str, made: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    try:
        yield from made()
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
        for place, (mine, contestant) in enumerate(zip(times, contestants, strict=True)):
            if place == 0 or slow is None or turn < slow:
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
    p50 = float(np.median(times.wall))
    made: Row = {
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
        made["reference_ms"] = round(1e3 * float(np.median(theirs.wall)), 2)
        made["reference_cpu_ms"] = round(1e3 * float(np.median(theirs.cpu)), 2)
        made["reference_cpu_ns"] = round(1e9 * min(theirs.cpu) / events, 2)
        made["ratio"] = round(float(np.median(theirs.wall)) / p50, 2)
    return made


@contextlib.contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Peak resident memory of the block beyond what there was before, in MB (Linux; else NaN)."""
    status = Path("/proc/self/status")

    def read(field: str) -> float:
        for line in status.read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        return float("nan")

    gc.collect()
    buffers.release()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # freed memory that stays resident would hide the growth
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    begin = read("VmRSS") if status.exists() else float("nan")
    yield lambda: round(read("VmHWM") - begin, 1) if status.exists() else float("nan")


# --- data and queries ----------------------------------------------------------------------------


def readings(events: int, groups: int, period: int = 1, seed: int = 0) -> Columns:
    """Interleaved uniform signals in time order; the order within a tick is random but fixed."""
    rng = np.random.default_rng(seed)
    ticks = max(1, events // groups)
    sensor = np.tile(rng.permutation(groups), ticks)
    moment = np.repeat(np.arange(ticks) * period, groups)
    return {"sensor": sensor, "t": moment, "v": rng.random(ticks * groups)}


def shuffled(table: Columns, groups: int) -> Columns:
    """The same rows, with the sensors of every tick in another order."""
    rng = np.random.default_rng(7)
    ticks = len(table["t"]) // groups
    # a few hundred orders, taken by random ticks: as good as one for each, and made in no time
    orders = np.stack([rng.permutation(groups) for _ in range(min(ticks, 256))])
    order = orders[rng.integers(0, len(orders), ticks)]
    rows = (order + np.arange(ticks)[:, None] * groups).reshape(-1)
    return {name: column[rows] for name, column in table.items()}


def sensors(name: str = "input") -> sg.Stream:
    return sg.source(key="sensor", time="t", value="v", name=name)


def correlation() -> sg.Uniform:
    return sensors().sample(1).correlate(PATTERN)


def interpolation() -> Any:
    """Both signals extreme at once: l.Sample(5, 0, FirstOrder(20)).Plus(r).Where(...)."""
    left = sensors("left").sample(5, 0, sg.linear(20))
    return (left + sensors("right").sample(5)).where(lambda e: (e.v < 1e-4) | (e.v > 1.9999))


def overlap_add() -> Any:
    frames = sensors().sample(1).window(WINDOW, HOP)
    return frames.rfft().map(lambda spectrum: spectrum).irfft().overlap_add()


def correlate_group(v: Array, t: Array) -> tuple[Array, Array]:
    if len(v) < len(PATTERN):
        return t[:0], v[:0]
    # SciPy's direct method is np.correlate, chosen here as the fastest of its methods at 32 taps
    return t[len(PATTERN) - 1 :], scipy_signal.correlate(v, PATTERN, "valid", method="direct")


def interpolate_group(t1: Array, v1: Array, t2: Array, v2: np.ndarray) -> tuple[Array, Array]:
    t = np.arange(t1[0], t1[-1] + 1, 5)
    t, _, there = np.intersect1d(t, t2, assume_unique=True, return_indices=True)
    total = np.interp(t, t1, v1) + v2[there]
    extreme = (total < 1e-4) | (total > 1.9999)
    return t[extreme], total[extreme]


def overlap_group(v: Array, t: Array) -> tuple[Array, Array]:
    if len(v) < WINDOW:
        return t[:0], v[:0]
    frames = np.lib.stride_tricks.sliding_window_view(v, WINDOW)[::HOP]
    smooth = spectra.irfft(spectra.rfft(frames, axis=1), WINDOW, axis=1)
    out = np.zeros((len(frames) - 1) * HOP + WINDOW)
    for part in range(WINDOW // HOP):
        span = out[part * HOP : part * HOP + len(frames) * HOP]
        span += smooth[:, part * HOP : (part + 1) * HOP].reshape(-1)
    return t[: len(out)], out


def pandas_one(frame: pd.DataFrame, work: Callable[..., Any]) -> pd.DataFrame:
    keys, moments, values = [], [], []
    for key, group in frame.groupby("sensor", sort=False):
        t, v = work(group["v"].to_numpy(), group["t"].to_numpy())
        keys.append(np.full(len(t), key))
        moments.append(t)
        values.append(v)
    return _frame(keys, moments, values)


def pandas_two(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    others = dict(iter(right.groupby("sensor", sort=False)))
    keys, moments, values = [], [], []
    for key, group in left.groupby("sensor", sort=False):
        other = others[key]
        t, v = interpolate_group(
            group["t"].to_numpy(),
            group["v"].to_numpy(),
            other["t"].to_numpy(),
            other["v"].to_numpy(),
        )
        keys.append(np.full(len(t), key))
        moments.append(t)
        values.append(v)
    return _frame(keys, moments, values)


def _frame(keys: list[Any], moments: list[Any], values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(
        {"sensor": np.concatenate(keys), "t": np.concatenate(moments), "v": np.concatenate(values)}
    )


def two_signals(events: int, groups: int) -> tuple[Columns, Columns]:
    """Periods 20 and 5 over the same span: one fifth and four fifths of the events."""
    return readings(events // 5, groups, 20, 1), readings(events // 5 * 4, groups, 5, 2)


# --- the parts -----------------------------------------------------------------------------------


def pure(events: int, sizes: tuple[int, ...], repeats: int) -> Iterator[Row]:
    """FFT over tumbling windows and FIR filters (7.5.1), against the direct SciPy call."""
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
    """The three grouped queries (7.5.2) against pandas groupby plus SciPy."""
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


def memory_of_growth(events: int, groups: tuple[int, ...]) -> list[tuple[int, int, float]]:
    """(events, groups, MB beyond the input at the peak) as each of the two grows."""
    query = correlation()
    query.run(readings(1_000, 10))
    found = []
    for n, count in (
        *((n, 1_000) for n in (events // 4, events // 2, events)),
        *((events, count) for count in groups),
    ):
        table = readings(n, count)
        with peak_memory() as peak:
            query.run(table)
            found.append((n, count, peak()))
        del table
    return found


def growth(grown: list[tuple[int, int, float]], repeats: int) -> Iterator[Row]:
    """Time and memory as events grow fourfold, and as groups grow with the events fixed.

    ratio = processor time per event of the first of each kind / that of this row: flat is 1.
    """
    query = correlation()
    base: dict[str, Row] = {}
    for place, (events, groups, used) in enumerate(grown):
        kind = "events" if place < 3 else "groups"
        table = readings(events, groups)
        (times,) = turns(2 * repeats, partial(query.run, table))
        made = row(f"growth, {events} events, {groups} groups", events, times, memory=used)
        made["bytes_per_event"] = round(used * 2**20 / events, 1)
        first = base.setdefault(kind, made)
        made["reference"] = f"processor time per event, {first['query']}"
        made["ratio"] = round(first["cpu_ns_per_event"] / made["cpu_ns_per_event"], 2)
        made["target"] = "ratio about 1"
        yield made


def energy(window: Any, out: Any) -> None:
    total = 0.0
    for x in window:
        total += x * x
    out[0] = total


def energy_update(old: Any, new: Any, out: Any) -> None:
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

    from viewlet.runtime.session import spark_session

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
