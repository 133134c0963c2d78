"""Inputs and comparisons shared by the tests of signals."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

import viewlet.signals as sg

Columns = dict[str, np.ndarray]


@st.composite
def point_events(
    draw: st.DrawFn, keys: int = 4, rows: int = 60, max_gap: int = 9, channels: int = 1
) -> Columns:
    """Point events of interleaved keys: strictly rising times per key, with gaps."""
    seed = draw(st.integers(0, 2**32 - 1))
    n = draw(st.integers(0, rows))
    tight = draw(st.booleans())
    rng = np.random.default_rng(seed)
    key = rng.integers(0, keys, n)
    time = np.zeros(n, np.int64)
    for k in range(keys):
        mine = np.flatnonzero(key == k)
        steps = rng.integers(1, 3 if tight else max_gap + 1, len(mine))
        time[mine] = rng.integers(-20, 20) + np.cumsum(steps)
    columns = {"k": key, "t": time}
    for c in range(channels):
        columns["vwxyz"[c]] = np.round(rng.normal(0, 10, n), 3)
    return columns


@st.composite
def interval_events(draw: st.DrawFn, keys: int = 3, rows: int = 40) -> Columns:
    """Events with lifetimes; per key they start in order and may touch but not overlap."""
    points = draw(point_events(keys, rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    end = points["t"] + 1
    for k in range(keys):
        mine = np.flatnonzero(points["k"] == k)
        following = np.append(points["t"][mine][1:], points["t"][mine][-1:] + 7)
        end[mine] = points["t"][mine] + 1 + rng.integers(0, following - points["t"][mine])
    return {"k": points["k"], "start": points["t"], "end": end, "v": points["v"]}


def cuts(draw_or_data: Any, rows: int) -> list[int]:
    return sorted(draw_or_data.draw(st.lists(st.integers(0, rows), max_size=6), label="cuts"))


def pieces(columns: Columns, at: list[int]) -> list[Columns]:
    edges = [0, *at, len(next(iter(columns.values())))]
    return [{name: column[a:b] for name, column in columns.items()} for a, b in pairwise(edges)]


def concat(parts: list[Columns]) -> Columns:
    filled = [p for p in parts if p and len(next(iter(p.values())))] or parts[:1]
    return {name: np.concatenate([p[name] for p in filled]) for name in filled[0]}


def canonical(columns: Columns, key: str = "k") -> Columns:
    """Rows by key; within a key the order of delivery is part of the result."""
    if key not in columns:
        return columns
    order = np.argsort(columns[key], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def assert_same(a: Columns, b: Columns, key: str = "k", tolerance: float = 1e-12) -> None:
    rows = len(next(iter(a.values()))) if a else 0
    assert rows == (len(next(iter(b.values()))) if b else 0)
    if not rows:
        return
    assert list(a) == list(b)
    a, b = canonical(a, key), canonical(b, key)
    for name in a:
        if a[name].dtype.kind in "fc":
            scale = max(1.0, float(np.nan_to_num(np.abs(a[name])).max()))
            np.testing.assert_allclose(a[name], b[name], rtol=0, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(a[name], b[name])


def stream(query: sg.Query, parts: list[Columns], lanes: int = 1) -> Columns:
    """The outputs of a live run, batch after batch, and its flush."""
    live = query.start(lanes=lanes)
    outs = [live.push(part) for part in parts]
    outs.append(live.flush())
    return concat(outs)


def of_key(columns: Columns, key: int) -> Columns:
    mine = columns["k"] == key
    return {name: column[mine] for name, column in columns.items()}
