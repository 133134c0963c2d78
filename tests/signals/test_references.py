"""Offline results against SciPy and NumPy, written without viewlet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import signal
from tests.signals import queries
from tests.signals.helpers import of_key

import viewlet.signals as sg

RNG = np.random.default_rng(7)
KEYS, LENGTH = 5, 700
UNIFORM = {
    "k": np.tile(np.arange(KEYS), LENGTH),
    "t": np.repeat(np.arange(LENGTH), KEYS),
    "v": RNG.normal(size=KEYS * LENGTH),
}
grid = queries.points.sample(1)


def of(query: sg.Query, key: int, events=None):
    return of_key(query.run(events or UNIFORM), key)


def x_of(key: int) -> np.ndarray:
    return UNIFORM["v"][UNIFORM["k"] == key]


@pytest.mark.parametrize("size", [1, 2, 33, 100, 161, 600])
def test_fir_is_lfilter(size):
    taps = RNG.normal(size=size)
    for key in range(KEYS):
        out = of(grid.fir(taps), key)
        np.testing.assert_allclose(out["v"], signal.lfilter(taps, 1, x_of(key)), atol=1e-11)
        np.testing.assert_array_equal(out["t"], np.arange(LENGTH))


def test_long_fir_by_blocks_on_one_long_signal():
    x = RNG.normal(size=50_000)
    taps = RNG.normal(size=500)
    out = sg.source(time="t", value="v").sample(1).fir(taps).run({"t": np.arange(len(x)), "v": x})
    np.testing.assert_allclose(out["v"], signal.lfilter(taps, 1, x), atol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_iir_is_lfilter(order):
    b, a = signal.butter(order, 0.15)
    for key in range(KEYS):
        np.testing.assert_allclose(
            of(grid.iir(b, a), key)["v"], signal.lfilter(b, a, x_of(key)), atol=1e-12
        )


def test_iir_over_gaps_is_lfilter_over_zeros():
    rng = np.random.default_rng(3)
    t = np.sort(rng.choice(4000, 200, replace=False)) * 2
    t[100:] += 100_000
    v = rng.normal(size=len(t))
    b, a = signal.butter(3, 0.1)
    dense = np.zeros(t[-1] - t[0] + 1)
    dense[t - t[0]] = v
    expected = signal.lfilter(b, a, dense)[t - t[0]]
    out = sg.source(time="t", value="v").sample(1).iir(b, a).run({"t": t, "v": v})
    np.testing.assert_allclose(out["v"], expected, atol=1e-12)


def test_correlate_is_numpy():
    pattern = RNG.normal(size=32)
    for key in range(KEYS):
        out = of(grid.correlate(pattern), key)
        np.testing.assert_allclose(out["v"], np.correlate(x_of(key), pattern, "valid"), atol=1e-12)
        np.testing.assert_array_equal(out["t"], np.arange(31, LENGTH))


def test_complex_signals():
    taps = RNG.normal(size=7) + 1j * RNG.normal(size=7)
    events = {**UNIFORM, "v": UNIFORM["v"] * (1 + 2j)}
    out = of(grid.fir(taps), 2, events)
    np.testing.assert_allclose(out["v"], signal.lfilter(taps, 1, x_of(2) * (1 + 2j)), atol=1e-12)
    corr = of(grid.correlate(taps), 2, events)
    np.testing.assert_allclose(
        corr["v"], np.correlate(x_of(2) * (1 + 2j), taps, "valid"), atol=1e-12
    )


def frames_of(x, size, hop):
    return np.lib.stride_tricks.sliding_window_view(x, size)[::hop]


@pytest.mark.parametrize(("size", "hop"), [(64, 64), (64, 16), (50, 7), (8, 30)])
def test_windows_and_transforms(size, hop):
    for key in range(KEYS):
        x = frames_of(x_of(key), size, hop)
        out = of(grid.window(size, hop), key)
        np.testing.assert_array_equal(out["v"], x)
        np.testing.assert_array_equal(out["t"], np.arange(len(x)) * hop + size - 1)
        np.testing.assert_allclose(
            of(grid.window(size, hop).fft(), key)["v"], np.fft.fft(x), atol=1e-12
        )
        np.testing.assert_allclose(
            of(grid.window(size, hop).rfft().irfft(), key)["v"], x, atol=1e-12
        )
        np.testing.assert_allclose(
            of(grid.window(size, hop).taper("hann"), key)["v"], x * signal.get_window("hann", size)
        )


def test_correlations_of_windows():
    other = RNG.normal(size=5)
    for key in range(KEYS):
        x = frames_of(x_of(key), 12, 6)
        auto = of(grid.window(12, 6).autocorrelate(), key)["v"]
        np.testing.assert_allclose(auto, [np.correlate(w, w, "full") for w in x], atol=1e-12)
        cross = of(grid.window(12, 6).crosscorrelate(other), key)["v"]
        np.testing.assert_allclose(cross, [np.correlate(w, other, "full") for w in x], atol=1e-12)


@pytest.mark.parametrize("hop", [1, 3, 8])
def test_sliding_dft_is_the_dft(hop):
    for key in range(KEYS):
        out = of(grid.window(32, hop).sliding_dft(), key)["v"]
        np.testing.assert_allclose(out, np.fft.fft(frames_of(x_of(key), 32, hop)), atol=1e-11)


@pytest.mark.parametrize("merge", ["sum", "mean", "min", "max", "last"])
def test_overlap_add(merge):
    size, hop = 16, 6
    for key in range(KEYS):
        x = frames_of(x_of(key), size, hop) * signal.get_window("hann", size)
        total = [[] for _ in range((len(x) - 1) * hop + size)]
        for number, window in enumerate(x):
            for j, value in enumerate(window):
                total[number * hop + j].append(value)
        reduce = {"sum": sum, "mean": np.mean, "min": min, "max": max, "last": lambda c: c[-1]}
        out = of(grid.window(size, hop).taper("hann").overlap_add(merge), key)
        np.testing.assert_allclose(out["v"], [reduce[merge](c) for c in total], atol=1e-12)
        np.testing.assert_array_equal(out["t"], np.arange(len(total)))


def test_padding_covers_every_sample():
    """With pad, windows reach beyond the end until no sample is left; periodic Hann sums to 1."""
    hann = signal.get_window("hann", 16)
    for key in range(KEYS):
        out = of(grid.window(16, 8, pad=True).taper(hann).overlap_add(), key)
        np.testing.assert_allclose(out["v"][8:LENGTH], x_of(key)[8:], atol=1e-12)


def test_figure_7_4():
    """Events of different lifetimes, in-between and missing ones; Sample(30, 0, FirstOrder(60)).

    [0, 31) is active at beats 0 and 30; the beat 60 lies on the line between 30 and 70; between 100
    and 190 the points are more than 60 apart, so 120, 150 and 180 stay missing.
    """
    events = {
        "start": np.array([0, 70, 95, 190, 215]),
        "end": np.array([31, 75, 101, 191, 241]),
        "v": np.array([1.0, 5.0, 3.0, 2.0, 4.0]),
    }
    query = sg.source(start="start", end="end", value="v").sample(30, 0, sg.linear(60))
    out = query.run(events)
    np.testing.assert_array_equal(out["start"], [0, 30, 60, 90, 210, 240])
    expected = [
        1.0,
        1.0,
        1 + 4 * 30 / 40,
        5 - 2 * (90 - 74) / (95 - 74),
        2 + 2 * (210 - 190) / (215 - 190),
        4.0,
    ]
    np.testing.assert_allclose(out["v"], expected, rtol=1e-15)


def test_figure_7_4_zero_order_resampling():
    events = {"t": np.array([0, 30, 60, 90, 210, 240]), "v": np.arange(6.0)}
    base = sg.source(time="t", value="v").sample(30, 0, sg.linear(60))
    out = base.resample(15, 0, sg.step(120)).run(events)
    assert dict(zip(out["t"].tolist(), out["v"].tolist(), strict=True)) == {
        **{t: t // 30 for t in range(0, 90, 15)},
        **dict.fromkeys(range(90, 210, 15), 3.0),
        210: 4.0,
        225: 4.0,
        240: 5.0,
    }


def test_linear_and_quadratic_interpolation():
    rng = np.random.default_rng(11)
    t = np.cumsum(rng.integers(1, 20, 300))
    v = rng.normal(size=300)
    source = sg.source(time="t", value="v")
    out = source.sample(5, 0, sg.linear()).run({"t": t, "v": v})
    beats = np.arange(-(-t[0] // 5) * 5, t[-1] + 1, 5)
    np.testing.assert_array_equal(out["t"], beats)
    np.testing.assert_allclose(out["v"], np.interp(beats, t, v), atol=1e-12)

    curve = 3.0 - 0.5 * t + 0.01 * t**2
    out = source.sample(5, 0, sg.quadratic()).run({"t": t, "v": curve})
    np.testing.assert_allclose(out["v"], 3 - 0.5 * out["t"] + 0.01 * out["t"] ** 2, atol=1e-9)
    on_beat = np.isin(t[:2], beats)
    assert len(out["t"]) == on_beat.sum() + (beats > t[1]).sum()


def test_last_and_constant():
    t, v = np.array([0, 3, 20]), np.array([1.0, 2.0, 3.0])
    source = sg.source(time="t", value="v")
    out = source.sample(2, 0, sg.last(5)).run({"t": t, "v": v})
    assert out["t"].tolist() == [0, 2, 4, 6, 8, 20, 22, 24]
    assert out["v"].tolist() == [1, 1, 2, 2, 2, 3, 3, 3]
    out = source.sample(2, 0, sg.constant(-1.0, 5)).run({"t": t, "v": v})
    assert out["t"].tolist() == [0, 2, 20]
    assert out["v"].tolist() == [1, -1, 3]


def test_missing_samples_in_windows():
    t = np.array([0, 1, 2, 3, 5, 6, 7, 40, 41, 42, 43])
    events = {"t": t, "v": t + 1.0}
    base = sg.source(time="t", value="v").sample(1)
    zero = base.window(4, 2).run(events)
    dense = np.zeros(44)
    dense[t] = t + 1.0
    ends = [e for e in range(3, 44, 2) if dense[e - 3 : e + 1].any()]
    assert zero["t"].tolist() == ends
    np.testing.assert_array_equal(zero["v"], [dense[e - 3 : e + 1] for e in ends])
    valid = base.window(4, 2, missing="invalid").run(events)
    assert valid["t"].tolist() == [3, 43]


def test_fir_with_missing_samples():
    t = np.array([0, 1, 2, 5, 6, 7, 8])
    events = {"t": t, "v": t + 1.0}
    base = sg.source(time="t", value="v").sample(1)
    dense = np.zeros(9)
    dense[t] = t + 1.0
    taps = [1.0, 10.0, 100.0]
    out = base.fir(taps).run(events)
    np.testing.assert_allclose(out["v"], signal.lfilter(taps, 1, dense)[t])
    out = base.fir(taps, missing="invalid").run(events)
    assert out["t"].tolist() == [2, 7, 8]


def test_aggregates_are_pandas():
    rng = np.random.default_rng(5)
    t = np.cumsum(rng.integers(0, 4, 500))
    v = rng.normal(size=500)
    key = rng.integers(0, 3, 500)
    query = queries.points.tumbling(10).aggregate(s="sum", c="count", a="avg", lo="min", hi="max")
    out = pd.DataFrame(query.run({"k": key, "t": t, "v": v}))
    frame = pd.DataFrame({"k": key, "t": t // 10 * 10, "v": v})
    expected = frame.groupby(["k", "t"])["v"].agg(["sum", "count", "mean", "min", "max"])
    got = out.sort_values(["k", "t"])
    np.testing.assert_array_equal(got[["k", "t"]].to_numpy(), np.array(expected.index.to_list()))
    np.testing.assert_allclose(got[["s", "c", "a", "lo", "hi"]], expected.to_numpy())
    np.testing.assert_array_equal(got["end"], got["t"] + 10)


def test_hopping_windows_and_user_aggregates():
    rng = np.random.default_rng(6)
    t = np.cumsum(rng.integers(1, 5, 200))
    v = rng.normal(size=200)
    source = sg.source(time="t", value="v")
    out = source.hopping(12, 4).aggregate(s="sum", hi="max").run({"t": t, "v": v})
    mine = source.hopping(12, 4).aggregate(m=queries.mean_of).run({"t": t, "v": v})
    expected = []
    for b in range(0, int(t[-1]) + 12, 4):
        inside = v[(t >= b + 4 - 12) & (t < b + 4)]
        if len(inside):
            expected.append((b, inside.sum(), inside.max(), inside.mean()))
    np.testing.assert_array_equal(out["t"], [row[0] for row in expected])
    np.testing.assert_allclose(out["s"], [row[1] for row in expected], atol=1e-12)
    np.testing.assert_allclose(out["hi"], [row[2] for row in expected])
    np.testing.assert_allclose(mine["m"], [row[3] for row in expected], atol=1e-12)


def test_sessions():
    t = np.array([0, 3, 5, 20, 21, 40])
    out = (
        sg.source(time="t", value="v")
        .session(5)
        .aggregate(c="count", s="sum")
        .run({"t": t, "v": t * 1.0})
    )
    assert list(zip(*(out[n].tolist() for n in ("t", "end", "c", "s")), strict=True)) == [
        (0, 10, 3, 8.0),
        (20, 26, 2, 41.0),
        (40, 45, 1, 40.0),
    ]


def test_temporal_join():
    rng = np.random.default_rng(8)
    sides = []
    for n in (60, 50):
        start = np.sort(rng.integers(0, 100, n))
        sides.append(
            {
                "k": rng.integers(0, 3, n),
                "start": start,
                "end": start + rng.integers(1, 12, n),
                "v": rng.normal(size=n),
                "site": rng.integers(0, 2, n),
            }
        )
    a, b = (
        sg.source(key="k", start="start", end="end", value=["v", "site"], name=name)
        for name in ("a", "b")
    )
    for on in ((), ("site",)):
        out = a.join(b, on=on).run(a=sides[0], b=sides[1])
        expected = set()
        for i in range(60):
            for j in range(50):
                low = max(sides[0]["start"][i], sides[1]["start"][j])
                high = min(sides[0]["end"][i], sides[1]["end"][j])
                same = sides[0]["k"][i] == sides[1]["k"][j]
                if on:
                    same &= sides[0]["site"][i] == sides[1]["site"][j]
                if same and low < high:
                    expected.add((low, high, sides[0]["v"][i], sides[1]["v"][j]))
        names = ("start", "end", "left.v", "right.v")
        assert set(zip(*(out[n].tolist() for n in names), strict=True)) == expected
        assert len(out["start"]) == len(expected)


def test_asof_join_is_pandas():
    rng = np.random.default_rng(9)
    left = {"t": np.sort(rng.integers(0, 500, 80)), "v": rng.normal(size=80)}
    right = {"t": np.sort(rng.choice(500, 60, replace=False)), "w": rng.normal(size=60)}
    a = sg.source(time="t", value="v", name="a")
    b = sg.source(time="t", value="w", name="b")
    out = a.asof_join(b, within=9, how="left").run(a=left, b=right)
    expected = pd.merge_asof(pd.DataFrame(left), pd.DataFrame(right), on="t", tolerance=9)
    np.testing.assert_array_equal(out["t"], expected["t"])
    np.testing.assert_array_equal(out["right.w"], expected["w"])


def test_signal_arithmetic_aligns_grids():
    """Periods differ: the slower signal is resampled linearly on the faster grid."""
    slow = {"t": np.arange(0, 200, 20), "v": np.arange(10.0)}
    fast = {"t": np.arange(0, 200, 5), "v": np.ones(40)}
    a = sg.source(time="t", value="v", name="a").sample(20, 0, sg.linear(20))
    b = sg.source(time="t", value="v", name="b").sample(5)
    out = (a + b).run(a=slow, b=fast)
    np.testing.assert_array_equal(out["t"], np.arange(0, 181, 5))
    np.testing.assert_allclose(out["v"], np.arange(0, 181, 5) / 20 + 1)
    # the same period, another offset: the right signal is shifted onto the left grid
    shifted = {"t": fast["t"] + 2, "v": fast["v"] * 3}
    out = (b - sg.source(time="t", value="v", name="c").sample(5, 2)).run(b=fast, c=shifted)
    np.testing.assert_array_equal(out["t"], fast["t"])
    np.testing.assert_array_equal(out["v"], np.full(40, -2.0))


def test_functional_payloads():
    """Figure 7.3b: one function per event, and amplitude modulation by a carrier."""
    pieces = {
        "start": np.array([0, 40, 90]),
        "end": np.array([40, 80, 100]),
        "shape": np.array(["flat", "sine", "ramp"]),
    }
    table = {
        "flat": lambda t: np.full(len(t), 2.0),
        "sine": lambda t: np.sin(2 * np.pi * t / 40),
        "ramp": lambda t: t / 10.0,
    }
    signal_ = sg.source(start="start", end="end", value="shape").signal().functions(table, "shape")
    out = signal_.sample(10).run(pieces)
    assert out["start"].tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 90]
    expected = [2, 2, 2, 2, *np.sin(2 * np.pi * np.arange(40, 80, 10) / 40), 9.0]
    np.testing.assert_allclose(out["shape"] if "shape" in out else out["value"], expected)

    carrier = sg.source(start="a", end="b", value=["freq", "phase"], name="carrier").signal()
    carrier = carrier.function(lambda t, e: np.sin(2 * np.pi * t / e.freq + e.phase))
    message = sg.source(time="t", value="v", name="message").sample(5)
    out = (message * carrier).run(
        message={"t": np.arange(0, 100, 5), "v": np.arange(20.0)},
        carrier={
            "a": np.array([0]),
            "b": np.array([80]),
            "freq": np.array([50.0]),
            "phase": np.array([0.1]),
        },
    )
    t = np.arange(0, 80, 5)
    np.testing.assert_array_equal(out["t"], t)
    np.testing.assert_allclose(out["v"], t / 5 * np.sin(2 * np.pi * t / 50 + 0.1))


def test_user_defined_filter_and_operator():
    x = x_of(1)
    out = of(grid.filter(queries.median3, 3), 1)["v"]
    padded = np.concatenate([[0, 0], x])
    np.testing.assert_array_equal(
        out, np.median(np.lib.stride_tricks.sliding_window_view(padded, 3), axis=1)
    )
    operator = sg.PipelineOperator(1, queries.energy, queries.energy_update, renew=16)
    out = of(grid.window(40, 5).apply(operator), 1)["v"][:, 0]
    np.testing.assert_allclose(out, (frames_of(x, 40, 5) ** 2).sum(axis=1), rtol=1e-12)


def test_sample_aggregates():
    x = x_of(0)
    out = of(grid.power(8, 4), 0)
    assert out["t"].tolist() == list(range(0, LENGTH + 4, 4))
    padded = np.concatenate([np.zeros(4), x, np.zeros(4)])
    energy = (np.lib.stride_tricks.sliding_window_view(padded, 8)[::4] ** 2).sum(axis=1)
    present = np.full(len(energy), 8)
    present[[0, -1]] = 4
    np.testing.assert_allclose(out["power"], energy / present, atol=1e-12)
