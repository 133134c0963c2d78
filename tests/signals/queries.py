"""One query per operator, for the properties that hold for all of them."""

from __future__ import annotations

import numpy as np
from scipy import signal

import viewlet.signals as sg

points = sg.source(key="k", time="t", value="v")
intervals = sg.source(key="k", start="start", end="end", value="v")
two_channels = sg.source(key="k", time="t", value=["v", "w"])


def add(state, values):
    state[0] += values[0]
    state[1] += 1.0


def take(state, values):
    state[0] -= values[0]
    state[1] -= 1.0


def median3(forward, backward):
    a, b, c = forward[0], forward[1], forward[2]
    return max(min(a, b), min(max(a, b), c))


def leaky(forward, backward):
    return 0.5 * forward[1] + 0.25 * forward[0] + 0.25 * backward[1] - 0.1 * backward[0]


def energy(window, out):
    out[0] = 0.0
    for x in window:
        out[0] += x * x


def energy_update(old, new, out):
    for x in old:
        out[0] -= x * x
    for x in new:
        out[0] += x * x


def nearest(t, times, values):
    late = t - times[:, 0] > times[:, 1] - t
    return np.where(late, values[:, 1], values[:, 0])


uniform = points.sample(1, 0, sg.linear(4))
gappy = points.sample(2, 1)
taps = np.array([0.5, -1.0, 0.25, 2.0, 1.0])
mean_of = sg.Aggregate((0.0, 0.0), add, take, lambda s: s[:, 0] / s[:, 1])
sum_anew = sg.Aggregate((0.0, 0.0), add)

POINT_QUERIES: dict[str, sg.Query] = {
    "source": points,
    "reorder": sg.source(key="k", time="t", value="v", reorder=6),
    "where": points.where(lambda e: e.v > 0),
    "select": points.select(lambda e: e.v * 2 + e.t),
    "select named": points.select(a=lambda e: e.v, b=lambda e: -e.v),
    "group": points.group(lambda e: {"k": e.k % 2}, "k").tumbling(10).sum(),
    "shift": points.shift(7),
    "lifetime": points.lifetime(5),
    "signal": points.signal(),
    "tumbling": points.tumbling(10).aggregate(
        s="sum", c="count", a="avg", lo="min", hi="max", e="energy", p="power"
    ),
    "hopping": points.hopping(12, 4, 1).aggregate(s="sum", lo="min"),
    "session": points.session(5).aggregate(s="sum", c="count"),
    "user aggregate": points.hopping(12, 4).aggregate(mine=mean_of),
    "user aggregate anew": points.hopping(12, 4).aggregate(mine=sum_anew),
    "aggregated signal": points.tumbling(8).mean().sample(3, 1, sg.step(20)),
    "self join": points.lifetime(6).join(points.lifetime(4).select(lambda e: -e.v)),
    "asof": points.asof_join(points.shift(3).select(w=lambda e: e.v), within=5),
    "asof left": points.asof_join(points.shift(3).select(w=lambda e: e.v), 5, "left"),
    "union": points.union(points.shift(2)),
    "sample": gappy,
    "sample constant": points.sample(2, 1, sg.constant(7.5, 6)),
    "sample last": points.sample(2, 1, sg.last(5)),
    "sample last unlimited": points.sample(2, 1, sg.last()),
    "sample step": points.sample(2, 0, sg.step(6)),
    "sample linear": points.sample(3, 1, sg.linear(8)),
    "sample quadratic": points.sample(2, 0, sg.quadratic(12)),
    "sample user": points.sample(2, 0, sg.interpolation(nearest, 2, 8)),
    "where uniform": uniform.where(lambda e: e.v > 0),
    "select uniform": uniform.select(lambda e: e.v + e.t),
    "upsample": points.sample(4, 0, sg.linear(12)).upsample(2),
    "downsample": uniform.downsample(3),
    "resample": points.sample(4, 0, sg.linear(12)).resample(3, 1, sg.step(9)),
    "scale": uniform.scale(1 - 2j),
    "shift uniform": gappy.shift(5),
    "add": uniform + gappy,
    "subtract shifted": points.sample(2, 0) - points.sample(2, 1),
    "multiply signals": points.lifetime(3).where(lambda e: e.t % 3 == 0).signal() * points.signal(),
    "sum of samples": uniform.sum(4, 2),
    "energy": gappy.energy(6, 3),
    "power": gappy.power(4),
    "mean": uniform.scale(1j).mean(4, 1),
    "fir": uniform.fir(taps),
    "fir invalid": gappy.fir(taps, missing="invalid"),
    "fir gaps": gappy.fir(taps),
    "convolve complex": gappy.convolve(taps * 1j),
    "correlate": uniform.correlate(taps[:3]),
    "iir": gappy.iir(*signal.butter(3, 0.2)),
    "iir invalid": gappy.iir(*signal.butter(2, 0.3), missing="invalid"),
    "user filter": uniform.filter(median3, 3),
    "user filter feedback": gappy.filter(leaky, 2, 2),
    "user filter invalid": gappy.filter(leaky, 2, 2, missing="invalid"),
    "window": uniform.window(6, 2),
    "window gaps": gappy.window(4, 3),
    "window invalid": gappy.window(3, 2, missing="invalid"),
    "window sparse": gappy.window(2, 5),
    "window by time": gappy.window(4, 2, align="time"),
    "window padded": gappy.window(5, 2, pad=True),
    "fft": uniform.window(8, 4).fft(),
    "spectrum and back": uniform.window(8, 4).rfft().irfft().overlap_add(),
    "taper": uniform.window(6, 3).taper("hann"),
    "autocorrelate": uniform.window(5, 2).autocorrelate(),
    "crosscorrelate": uniform.window(5, 2).crosscorrelate([1.0, 2.0, 3.0]),
    "crosscorrelate windows": uniform.window(4, 2).crosscorrelate(uniform.scale(2.0).window(4, 2)),
    "product of windows": uniform.window(4, 4).multiply(uniform.window(4, 4)),
    "map to numbers": uniform.window(6, 3).map(lambda a: a.sum(axis=1), size=0),
    "numbers as signal": uniform.window(6, 3).map(lambda a: a.max(axis=1), size=0).signal(),
    "update": uniform.window(8, 2).apply(sg.PipelineOperator(1, energy, energy_update, renew=4)),
    "sliding dft": uniform.window(8, 1).sliding_dft(),
    "sliding dft bins": gappy.window(6, 2).sliding_dft([0, 1, 4]),
    "overlap add": gappy.window(6, 2).overlap_add(),
    "overlap mean": uniform.window(6, 4).overlap_add("mean"),
    "overlap min": uniform.window(6, 2, pad=True).overlap_add("min"),
    "overlap max": uniform.window(6, 2).overlap_add("max"),
    "overlap last": uniform.window(6, 2, missing="invalid").overlap_add("last"),
    "spectral filter": uniform.window(8, 4)
    .fft()
    .map(lambda a: np.where(np.abs(a) > 5, a, 0))
    .ifft()
    .overlap_add(),
    "homogeneous function": points.lifetime(3)
    .where(lambda e: e.t % 4 == 0)
    .signal()
    .function(lambda t, e: np.sin(t / 7.0) * e.v)
    .sample(1),
}

INTERVAL_QUERIES: dict[str, sg.Query] = {
    "source": intervals,
    "signal": intervals.signal(),
    "sample": intervals.sample(2, 1),
    "sample linear": intervals.sample(2, 0, sg.linear(8)),
    "sample quadratic": intervals.sample(1, 0, sg.quadratic(12)),
    "sample last": intervals.sample(3, 0, sg.last(6)),
    "self join": intervals.join(intervals.shift(4)),
    "product": intervals.signal() * intervals.signal().shift(3),
    "function": intervals.signal().function(lambda t, e: e.v + 0.5 * t).sample(2, 0, sg.linear(7)),
    "functions added": (
        intervals.signal().function(lambda t, e: e.v * np.cos(t))
        + intervals.signal().shift(2).scale(3.0)
    ).sample(1),
    "non-uniform times uniform": intervals.signal() * intervals.sample(3, 1, sg.step(9)),
}
