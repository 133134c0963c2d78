"""Live runs: progress, the order policy, checkpoints, atomic pushes, bad input, tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.signals import queries
from tests.signals.helpers import assert_same, concat, cuts, interval_events, pieces, point_events

import viewlet.signals as sg
from viewlet.errors import DataError, StateError, TypingError, ViewletError


@pytest.mark.parametrize("name", queries.POINT_QUERIES)
@settings(max_examples=3, deadline=None)
@given(events=point_events(), data=st.data())
def test_stopped_and_restored_anywhere(name, events, data, tmp_path_factory):
    query = queries.POINT_QUERIES[name]
    _stop_and_go(query, events, data, tmp_path_factory.mktemp("live"))


@pytest.mark.parametrize("name", queries.INTERVAL_QUERIES)
@settings(max_examples=3, deadline=None)
@given(events=interval_events(), data=st.data())
def test_intervals_stopped_and_restored(name, events, data, tmp_path_factory):
    query = queries.INTERVAL_QUERIES[name]
    _stop_and_go(query, events, data, tmp_path_factory.mktemp("live"))


def _stop_and_go(query, events, data, path):
    at = cuts(data, len(next(iter(events.values()))))
    live = query.start(lanes=1)
    outs = []
    for part in pieces(events, at):
        outs.append(live.push(part))
        live.save(path / "state")
        live = query.restore(path / "state")
    outs.append(live.flush())
    assert_same(query.run(events), concat(outs))


def test_text_keys_and_lanes_survive_a_checkpoint(tmp_path):
    events = {
        "k": np.array(["a", "b", "c", "a", "b", "c"] * 20),
        "t": np.repeat(np.arange(40), 3),
        "v": np.arange(120.0),
    }
    query = queries.points.sample(1).fir([1.0, 1.0, 1.0])
    live = query.start(lanes=2)
    outs = [live.push({n: c[:50] for n, c in events.items()})]
    live.save(tmp_path / "s")
    live.save(tmp_path / "s")
    live = query.restore(tmp_path / "s")
    outs.append(live.push({n: c[50:] for n, c in events.items()}))
    outs.append(live.flush())
    assert_same(query.run(events), concat(outs))
    assert live.stats() == {"events": 120, "late": 0, "reordered": 0, "keys": 3}


def test_a_checkpoint_belongs_to_its_query(tmp_path):
    live = queries.points.sample(1).fir([1.0]).start()
    live.push({"k": np.array([1]), "t": np.array([1]), "v": np.array([1.0])})
    live.save(tmp_path / "s")
    with pytest.raises(StateError, match="another query"):
        queries.points.sample(1).fir([2.0]).restore(tmp_path / "s")
    with pytest.raises(StateError, match="no saved stream"):
        queries.points.restore(tmp_path / "nothing")


def test_fingerprints_see_closed_over_values():
    def scaled(factor):
        return queries.points.select(lambda e: e.v * factor).explain()

    assert scaled(2.0) == scaled(2.0)
    assert scaled(2.0) != scaled(3.0)


def test_tuple_keys():
    events = {
        "site": np.array(["x", "x", "y", "y"] * 10),
        "n": np.array([1, 2, 1, 2] * 10),
        "t": np.repeat(np.arange(10), 4),
        "v": np.arange(40.0),
    }
    out = sg.source(key=["site", "n"], time="t", value="v").tumbling(100).sum().run(events)
    got = {(s, n): v for s, n, v in zip(out["site"], out["n"], out["sum"], strict=True)}
    assert got == {("x", 1): 180.0, ("x", 2): 190.0, ("y", 1): 200.0, ("y", 2): 210.0}


def test_sparse_integer_keys():
    keys = np.array([5, 10**15, -(10**14), 5, 10**15, 7])
    out = queries.points.tumbling(100).count().run({"k": keys, "t": np.arange(6), "v": np.ones(6)})
    assert dict(zip(out["k"].tolist(), out["count"].tolist(), strict=True)) == {
        5: 2,
        10**15: 2,
        -(10**14): 1,
        7: 1,
    }


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "columns"])
def test_tables_come_back_as_they_came(kind):
    columns = {
        "k": np.array([1, 1, 2, 2]),
        "t": np.array([0, 10, 0, 10]),
        "v": np.array([0.0, 1, 2, 3]),
    }
    table = {"arrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame, "columns": dict}[
        kind
    ](columns)
    query = queries.points.sample(5, 0, sg.linear(10))
    out = query.run(table)
    assert type(out) is type(table)
    assert list(np.asarray(out["v"])) == [0, 0.5, 1, 2, 2.5, 3]
    live = query.start()
    assert type(live.push(table)) is type(table)
    assert type(live.flush()) is type(table)
    spectra = queries.points.sample(10).window(2).fft().run(table)
    assert len(spectra["v"]) == 2


def test_arrow_spectra_are_lists_of_complex_structs():
    table = pa.table({"k": [1, 1], "t": [0, 1], "v": [1.0, 3.0]})
    out = queries.points.sample(1).window(2).fft().run(table)
    assert out["v"].to_pylist() == [[{"re": 4.0, "im": 0.0}, {"re": -2.0, "im": 0.0}]]


def test_timestamps_are_ticks_of_their_unit():
    t = np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:02"], "datetime64[ms]")
    out = (
        sg.source(time="t", value="v")
        .sample(1000, 0, sg.linear(5000))
        .run({"t": t, "v": np.array([1.0, 3.0])})
    )
    assert out["v"].tolist() == [1, 2, 3]
    assert (np.diff(out["t"]) == 1000).all()


# --- progress and order --------------------------------------------------------------------------


def test_results_come_as_soon_as_they_are_final():
    live = queries.points.tumbling(10).sum().start()
    push = lambda k, t, v: live.push(  # noqa: E731
        {"k": np.array([k]), "t": np.array([t]), "v": np.array([v])}
    )
    assert len(push(1, 3, 1.0)["t"]) == 0
    assert len(push(2, 15, 5.0)["t"]) == 0
    assert push(1, 12, 2.0)["sum"].tolist() == [1.0]
    assert live.advance(20)["sum"].tolist() == [2.0, 5.0]
    with pytest.raises(DataError, match="key 1 at time 19"):
        push(1, 19, 1.0)
    assert len(live.flush()["t"]) == 0
    with pytest.raises(StateError, match="has ended"):
        push(1, 30, 1.0)


def test_a_stream_clock_moves_all_keys():
    source = sg.source(key="k", time="t", value="v", clock="stream", reorder=2)
    live = source.tumbling(10).sum().start()
    events = {"k": np.array([1, 2, 2]), "t": np.array([3, 9, 12]), "v": np.array([1.0, 2, 3])}
    out = live.push(events)
    assert dict(zip(out["k"].tolist(), out["sum"].tolist(), strict=True)) == {1: 1.0, 2: 2.0}
    with pytest.raises(DataError, match="time 9"):
        live.push({"k": np.array([3]), "t": np.array([9]), "v": np.array([1.0])})


def test_late_events_are_dropped_and_counted():
    source = sg.source(key="k", time="t", value="v", reorder=3, late="drop")
    live = source.start()
    events = {
        "k": np.zeros(6, np.int64),
        "t": np.array([0, 10, 8, 6, 7, 12]),
        "v": np.arange(6.0),
    }
    out = [live.push(events), live.flush()]
    assert concat(out)["t"].tolist() == [0, 7, 8, 10, 12]
    assert live.stats() == {"events": 6, "late": 1, "reordered": 2, "keys": 1}


# --- bad input -----------------------------------------------------------------------------------


def one(k=1, t=1, v=1.0, **more):
    return {"k": np.array([k]), "t": np.array([t]), "v": np.array([v]), **more}


def test_a_failed_push_changes_nothing():
    """Whatever fails, and wherever: the same live run goes on as if the batch had not been."""
    events = {"k": np.tile([1, 2, 3], 30), "t": np.repeat(np.arange(30), 3), "v": np.arange(90.0)}
    poison = {"on": False}

    def explode(a):
        if poison["on"]:
            raise ValueError("user code")
        return a

    query = (
        sg.source(key="k", time="t", value="v", reorder=2)
        .sample(1, 0, sg.linear(4))
        .fir([1.0, 2.0, 3.0])
        .iir([0.5], [1.0, -0.5])
        .window(6, 2)
        .map(explode)
        .overlap_add()
    )
    live = query.start(lanes=2)
    outs = []
    for part in pieces(events, [10, 37, 60]):
        before = live.stats()
        poison["on"] = True
        with pytest.raises(ValueError, match="user code"):
            live.push(part)
        poison["on"] = False
        fresh_key = {
            n: np.append(c, x) for (n, c), x in zip(part.items(), (99, -50, 0), strict=True)
        }
        fresh_key["t"][-1] = part["t"][0]
        bad = {n: np.append(c, x) for (n, c), x in zip(part.items(), (1, -1000, 0), strict=True)}
        with pytest.raises(DataError, match="key 1 at time -1000"):
            live.push(bad)
        assert live.stats() == before
        outs.append(live.push(part))
    outs.append(live.flush())
    assert_same(query.run(events), concat(outs))


BAD = {
    "unsorted beyond the bound": (
        lambda: queries.points.run({"k": [1, 1], "t": [5, 4], "v": [0.0, 0.0]}),
        "event of key 1 at time 4 comes 1 after one at time 5, more than reorder=0",
    ),
    "overlapping events": (
        lambda: queries.intervals.signal().run(
            {"k": [7, 7], "start": [0, 5], "end": [6, 9], "v": [0.0, 0.0]}
        ),
        "two events of key 7 overlap at time 5",
    ),
    "two points at one time": (
        lambda: queries.points.sample(1).run({"k": ["a", "a"], "t": [3, 3], "v": [0.0, 0.0]}),
        "two events of key a overlap at time 3",
    ),
    "NaN time": (
        lambda: queries.points.run({"k": [1, 1], "t": [0.0, np.nan], "v": [0.0, 0.0]}),
        "row 1 has no time",
    ),
    "NaT time": (
        lambda: queries.points.run(
            {"k": [1], "t": np.array(["NaT"], "datetime64[ns]"), "v": [0.0]}
        ),
        "row 0 has no time",
    ),
    "fractional time": (
        lambda: queries.points.run({"k": [1], "t": [0.5], "v": [0.0]}),
        "time 0.5 in t .* is not a whole number",
    ),
    "zero period": (lambda: queries.points.sample(0), "a sampling period of 0"),
    "window of size 0": (lambda: queries.uniform.window(0), "a window of size 0"),
    "hop of 0": (lambda: queries.uniform.window(4, 0), "a hop of 0"),
    "time window of size 0": (lambda: queries.points.tumbling(0), "a window of size 0"),
    "hop that does not divide": (lambda: queries.points.hopping(10, 4), "hops by 4"),
    "empty filter": (lambda: queries.uniform.fir([]), "fir with coefficients"),
    "iir without a0": (lambda: queries.uniform.iir([1.0], [0.0, 1.0]), r"a\[0\] = 0"),
    "upsampling off the tick": (lambda: gap3().upsample(2), "a period of 3 upsampled by 2"),
    "missing column": (lambda: queries.points.run({"k": [1], "t": [1]}), "no column v"),
    "ragged columns": (
        lambda: queries.points.run({"k": [1], "t": [1], "v": [1.0, 2.0]}),
        "column v has 2 rows",
    ),
    "null key": (
        lambda: queries.points.run(
            {"k": np.array(["a", None], object), "t": [1, 2], "v": [1.0, 2]}
        ),
        "a key is missing",
    ),
    "float key": (lambda: queries.points.run({"k": [1.5], "t": [1], "v": [1.0]}), "key k is float"),
    "end before start": (
        lambda: queries.intervals.run({"k": [1], "start": [5], "end": [5], "v": [0.0]}),
        "row 0 ends at 5",
    ),
    "where without booleans": (
        lambda: queries.points.where(lambda e: e.v).run({"k": [1], "t": [1], "v": [1.0]}),
        "where got float64",
    ),
    "unknown column in a function": (
        lambda: queries.points.where(lambda e: e.nope > 0).run({"k": [1], "t": [1], "v": [1.0]}),
        "no column nope",
    ),
    "unknown aggregate": (
        lambda: queries.points.tumbling(5).aggregate(x="median"),
        "no aggregate is called 'median'",
    ),
    "not a table": (lambda: queries.points.run([1, 2, 3]), "cannot read events from list"),
    "text signal": (
        lambda: queries.points.sample(1).run({"k": [1], "t": [1], "v": ["x"]}),
        "a signal cannot carry",
    ),
    "wrong source name": (lambda: queries.points.start().push(other={}), "no source is named"),
    "delta operator after a map": (
        lambda: queries.uniform.window(4, 2).map(lambda a: a).sliding_dft(),
        "does not directly follow",
    ),
}


def gap3():
    return queries.points.sample(3)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gives_one_clear_error(name):
    act, message = BAD[name]
    with pytest.raises(ViewletError, match=message) as caught:
        act()
    assert caught.value.hint


def test_a_channel_keeps_its_type():
    live = queries.points.sample(1).fir([1.0, 1.0]).start()
    live.push(one(t=1))
    with pytest.raises(TypingError, match="a channel changed"):
        live.push(one(t=2, v=1j))
    assert live.push(one(t=2, v=5.0))["v"].tolist() == [6.0]


def test_explain_shows_the_plan():
    text = queries.POINT_QUERIES["spectral filter"].explain()
    assert "#0 source(name='input'" in text
    assert "uniform every 1 from 0 by k, linear(within=4)" in text
    assert "frames of 8 samples every 4 by k" in text
