"""Data and queries of `viewlet bench signals`, and what people write today for the same result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import fft as spectra
from scipy import signal as scipy_signal

import viewlet.signals as sg

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]
WINDOW, HOP = 64, 32  # of the grouped overlap-and-add; fits 100 samples per group
PATTERN = np.random.default_rng(32).standard_normal(32)


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
    """The source that all queries begin with."""
    return sg.source(key="sensor", time="t", value="v", name=name)


def correlation() -> sg.Uniform:
    """Samples correlated with a pattern."""
    return sensors().sample(1).correlate(PATTERN)


def interpolation() -> Any:
    """Both signals extreme at once: l.Sample(5, 0, FirstOrder(20)).Plus(r).Where(...)."""
    left = sensors("left").sample(5, 0, sg.linear(20))
    return (left + sensors("right").sample(5)).where(lambda e: (e.v < 1e-4) | (e.v > 1.9999))


def overlap_add() -> Any:
    """Windows through a spectrum and back onto the time axis."""
    frames = sensors().sample(1).window(WINDOW, HOP)
    return frames.rfft().map(lambda spectrum: spectrum).irfft().overlap_add()


def correlate_group(v: Array, t: Array) -> tuple[Array, Array]:
    """The correlation of one group, by SciPy."""
    if len(v) < len(PATTERN):
        return t[:0], v[:0]
    # SciPy's direct method is np.correlate, chosen here as the fastest of its methods at 32 taps
    return t[len(PATTERN) - 1 :], scipy_signal.correlate(v, PATTERN, "valid", method="direct")


def interpolate_group(t1: Array, v1: Array, t2: Array, v2: np.ndarray) -> tuple[Array, Array]:
    """Two signals of one group interpolated, added and filtered, by NumPy."""
    t = np.arange(t1[0], t1[-1] + 1, 5)
    t, _, there = np.intersect1d(t, t2, assume_unique=True, return_indices=True)
    total = np.interp(t, t1, v1) + v2[there]
    extreme = (total < 1e-4) | (total > 1.9999)
    return t[extreme], total[extreme]


def overlap_group(v: Array, t: Array) -> tuple[Array, Array]:
    """Overlap-and-add of one group, by SciPy."""
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
    """A function over each group of a frame."""
    keys, moments, values = [], [], []
    for key, group in frame.groupby("sensor", sort=False):
        t, v = work(group["v"].to_numpy(), group["t"].to_numpy())
        keys.append(np.full(len(t), key))
        moments.append(t)
        values.append(v)
    return _frame(keys, moments, values)


def pandas_two(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """The interpolation over each group of two frames."""
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


def _one(query: sg.Query, events: int, groups: int) -> Callable[[], Any]:
    return partial(query.run, readings(events, groups))


def _two(query: sg.Query, events: int, groups: int) -> Callable[[], Any]:
    left, right = two_signals(events, groups)
    return partial(query.run, left=left, right=right)


QUERIES: dict[str, Callable[[int, int], Callable[[], Any]]] = {
    "correlation": lambda events, groups: _one(correlation(), events, groups),
    "overlap-and-add": lambda events, groups: _one(overlap_add(), events, groups),
    "interpolation and filtering": lambda events, groups: _two(interpolation(), events, groups),
}
"""The grouped queries: (events, groups) -> a run over that many, its input made."""
