"""Any split of the input into batches gives the output of one batch, to 1e-12."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.signals import queries
from tests.signals.helpers import (
    assert_same,
    concat,
    cuts,
    interval_events,
    pieces,
    point_events,
    stream,
)

import viewlet.signals as sg


@pytest.mark.parametrize("name", queries.POINT_QUERIES)
@settings(max_examples=7, deadline=None)
@given(events=point_events(), data=st.data())
def test_points(name, events, data):
    query = queries.POINT_QUERIES[name]
    parts = pieces(events, cuts(data, len(events["t"])))
    assert_same(query.run(events), stream(query, parts))


@pytest.mark.parametrize("name", queries.INTERVAL_QUERIES)
@settings(max_examples=7, deadline=None)
@given(events=interval_events(), data=st.data())
def test_intervals(name, events, data):
    query = queries.INTERVAL_QUERIES[name]
    parts = pieces(events, cuts(data, len(events["start"])))
    assert_same(query.run(events), stream(query, parts))


@settings(max_examples=15, deadline=None)
@given(events=point_events(), data=st.data())
def test_two_sources_in_any_interleaving(events, data):
    left = sg.source(key="k", time="t", value="v", name="left").lifetime(4)
    right = sg.source(key="k", time="t", value="v", name="right").lifetime(3)
    query = left.join(right, combine=lambda a, b: {"d": a.v - b.v})
    other = {**events, "v": events["v"][::-1].copy()}
    whole = query.run(left=events, right=other)
    live = query.start()
    outs = []
    for part in pieces(events, cuts(data, len(events["t"]))):
        outs.append(live.push(left=part))
    for part in pieces(other, cuts(data, len(events["t"]))):
        outs.append(live.push(right=part))
    outs.append(live.flush())
    assert_same(whole, concat(outs))


STEPS = {
    "where": lambda q: q.where(lambda e: e.v > -8),
    "scale": lambda q: q.scale(0.5),
    "shift": lambda q: q.shift(3),
    "upsample": lambda q: q.resample(max(1, q.schema.period // 2), 0, sg.linear(9)),
    "downsample": lambda q: q.downsample(2),
    "fir": lambda q: q.fir([0.5, 0.25, 0.25]),
    "fir invalid": lambda q: q.fir([1.0, -1.0], missing="invalid"),
    "iir": lambda q: q.iir([0.4], [1.0, -0.6]),
    "add": lambda q: q + q.shift(q.schema.period),
    "sum": lambda q: q.aggregate(4, 2, v="sum"),
    "window": lambda q: (
        q.window(4, 2).fft().map(lambda a: a.conj()).ifft().map(np.real).overlap_add()
    ),
    "events": lambda q: q.events().sample(2, 0, sg.step(8)),
}


@settings(max_examples=30, deadline=None)
@given(
    events=point_events(rows=80),
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
    data=st.data(),
)
def test_random_pipelines(events, steps, data):
    query = queries.points.sample(2, 0, sg.linear(6))
    for step in steps:
        query = STEPS[step](query)
    parts = pieces(events, cuts(data, len(events["t"])))
    whole = query.run(events)
    assert_same(whole, stream(query, parts))
    assert_same(whole, stream(query, parts, lanes=2))


@settings(max_examples=15, deadline=None)
@given(events=point_events(keys=3), data=st.data())
def test_reordered_input_gives_the_sorted_result(events, data):
    """Events shuffled within the bound come out as if they had arrived in order."""
    bound = 9
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    order = np.argsort(events["t"] + rng.integers(0, bound + 1, len(events["t"])), kind="stable")
    shuffled = {name: column[order] for name, column in events.items()}
    for clock in ("key", "stream"):
        source = sg.source(key="k", time="t", value="v", reorder=bound, clock=clock)
        query = source.sample(1, 0, sg.linear(6)).fir([1.0, 0.5])
        expected = queries.points.sample(1, 0, sg.linear(6)).fir([1.0, 0.5]).run(events)
        parts = pieces(shuffled, cuts(data, len(order)))
        live = query.start()
        outs = [live.push(part) for part in parts]
        outs.append(live.flush())
        assert_same(expected, concat(outs))
        assert live.stats()["late"] == 0


@pytest.mark.parametrize("cut", [[], [1], [777, 778, 3000], [4999]])
def test_long_filters_by_transform(cut):
    """200 taps go through overlap-save blocks or directly, as the batch is long or short."""
    rng = np.random.default_rng(1)
    events = {"k": np.zeros(5000, np.int64), "t": np.arange(5000), "v": rng.normal(size=5000)}
    query = queries.points.sample(1).fir(rng.normal(size=200))
    assert_same(query.run(events), stream(query, pieces(events, cut)))


@pytest.mark.parametrize("groups", [3, 4000])
def test_offline_blocks_and_lanes(groups):
    """A table of several blocks, over any number of lanes, gives what one batch gives."""
    rows = 300_000
    rng = np.random.default_rng(2)
    ticks = rows // groups
    events = {
        "k": np.tile(rng.permutation(groups), ticks),
        "t": np.repeat(np.arange(ticks) * 4, groups),
        "v": rng.normal(size=ticks * groups),
    }
    left = queries.points.sample(2, 0, sg.linear(4))
    query = (left + queries.points.sample(4)).window(8, 4).rfft().irfft().overlap_add()
    expected = stream(query, [events])
    for lanes in (1, 2, 4):
        assert_same(expected, query.run(events, lanes=lanes))
