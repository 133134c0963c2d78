"""A finished table in blocks of keys gives what one batch in one block gives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.signals.helpers import assert_same, stream

import viewlet.signals as sg
from viewlet.errors import DataError
from viewlet.signals import key_blocks as blocks
from viewlet.signals import offline
from viewlet.signals.executor import OperatorPlan


def events(rows: int, keys: np.ndarray, even: bool, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of random keys in time order; even: every key counts its own events as time."""
    rng = np.random.default_rng(seed)
    chosen = keys[rng.integers(0, len(keys), rows)]
    time = np.cumsum(rng.integers(1, 4, rows))
    if even:
        order = np.argsort(chosen, kind="stable")
        begin = np.r_[True, chosen[order][1:] != chosen[order][:-1]]
        place = np.arange(rows) - np.maximum.accumulate(np.where(begin, np.arange(rows), 0))
        time = np.empty(rows, np.int64)
        time[order] = place
    return {"k": chosen, "t": time, "v": rng.random(rows)}


KEYS = {
    "narrow": np.arange(300) * 3 - 200,
    "wide": np.random.default_rng(1).integers(-(2**62), 2**62, 300),  # hashed, not in a table
    "text": np.array([f"sensor {i}" for i in range(300)]),
    "dates": np.arange(300).astype("datetime64[D]"),
}


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK_ROWS", 500)
    monkeypatch.setattr(blocks, "_HEAD", 200)  # most keys are met by the threads
    monkeypatch.setattr(blocks, "_MOST_KEYS", 50)
    monkeypatch.setattr(offline, "_THREADS_FROM", 1)


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("kind", KEYS)
def test_blocks_give_what_one_batch_gives(small_blocks, kind, even, lanes):
    query = sg.source(key="k", time="t", value="v").sample(1).fir([0.5, 0.3, 0.2])
    table = events(6_000, KEYS[kind], even)
    assert_same(stream(query, [table]), query.run(table, lanes=lanes))


@pytest.mark.parametrize("rest", [0, 1, 77])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("kind", KEYS)
def test_keys_in_turn_are_not_dealt(small_blocks, monkeypatch, kind, even, rest):
    """Rows that go round all keys, with a last round that is cut off."""
    monkeypatch.setattr(blocks, "_HEAD", 300)
    rows = 300 * 21 + rest
    table = {"k": np.resize(np.random.default_rng(3).permutation(KEYS[kind]), rows)}
    round_ = np.arange(rows) // 300
    table["t"] = 2 * round_ + np.arange(rows) % 300 if even else round_**2 + 5
    table["v"] = np.random.default_rng(4).random(rows)
    table["day"] = np.arange(rows).astype("datetime64[D]")
    stream_ = sg.source(key="k", time="t", value=["v", "day"])
    query = stream_.select(lambda e: {"v": e.v, "w": e.day.astype(np.int64)}).sample(1)
    expected = stream(query, [table])
    monkeypatch.setattr(blocks.SourceRows, "_dealt", None)  # would fail
    assert_same(expected, query.run(table, lanes=2))


@pytest.mark.parametrize("change", ["swap", "skip", "order"])
def test_keys_almost_in_turn_are_dealt(small_blocks, change):
    rows = 300 * 20
    keys = np.resize(KEYS["narrow"], rows)
    if change == "swap":
        keys[[4_000, 4_001]] = keys[[4_001, 4_000]]
    elif change == "skip":
        keys = np.delete(keys, 5_000)
    else:
        keys[300:] = np.resize(KEYS["narrow"][::-1], rows - 300)
    table = {"k": keys, "t": np.arange(len(keys)), "v": np.random.default_rng(5).random(len(keys))}
    query = sg.source(key="k", time="t", value="v").sample(1, 0, sg.last(400)).fir([0.5, 0.5])
    assert_same(stream(query, [table]), query.run(table, lanes=2))


def test_two_sources_in_turn_with_other_keys(small_blocks):
    """The larger source numbers the keys; the other one has a different order and fewer keys."""
    rng = np.random.default_rng(6)
    many, few = rng.permutation(300), rng.permutation(250)
    tables = {}
    for name, keys, rounds in (("a", many, 20), ("b", few, 20)):
        rows = rounds * len(keys)
        moment = np.repeat(np.arange(rounds), len(keys))
        tables[name] = {"k": np.tile(keys, rounds), "t": moment, "v": rng.random(rows)}
    a, b = (sg.source(key="k", time="t", value="v", name=name).sample(1) for name in "ab")
    live = (a + b).start()
    parts = [live.push(**tables), live.flush()]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    assert_same(whole, (a + b).run(**tables, lanes=2))


def test_text_and_interval_columns_are_dealt_too(small_blocks):
    query = sg.source(key="k", start="t", end="e", value=["v", "label"]).where(lambda e: e.v > 0.2)
    table = events(5_000, KEYS["narrow"], even=False)
    table["e"] = table["t"] + 1 + np.arange(5_000) % 3
    table["label"] = np.array([f"{i % 7}" for i in range(5_000)])
    out = query.run(table, lanes=2)
    kept = table["v"] > 0.2
    order = np.lexsort((table["t"][kept], table["k"][kept]))
    found = np.lexsort((out["t"], out["k"]))
    for name in table:
        assert (np.asarray(out[name])[found] == table[name][kept][order]).all(), name


def test_a_key_of_its_own_may_fill_several_blocks(small_blocks):
    """Blocks follow the rows: one busy key and many quiet ones."""
    table = events(4_000, np.r_[np.zeros(900, np.int64), np.arange(1, 100)], even=True)
    counts = np.bincount(table["k"], minlength=100)
    edges = blocks.split(counts, False)
    assert len(edges) > 3
    assert edges[0] == 0
    assert edges[-1] == 100
    assert (np.diff(edges) > 0).all()
    query = sg.source(key="k", time="t", value="v").sample(1)
    out = query.run(table, lanes=2)
    assert (np.bincount(out["k"], minlength=100) == counts).all()


def test_keys_of_one_source_only(small_blocks):
    """Sources share the numbers of keys: the second may bring keys that the first has not."""
    left = sg.source(key="k", time="t", value="v", name="left").sample(1)
    right = sg.source(key="k", time="t", value="v", name="right").sample(1)
    a = events(3_000, np.arange(100), even=True, seed=1)
    b = events(3_000, np.arange(50, 300), even=True, seed=2)
    out = (left + right).run(left=a, right=b, lanes=2)
    assert set(np.unique(out["k"])) == set(range(50, 100))
    values = {(k, t): v for k, t, v in zip(a["k"], a["t"], a["v"], strict=True)}
    for k, t, v in zip(b["k"], b["t"], b["v"], strict=True):
        if (k, t) in values:
            values[k, t] += v
    for k, t, v in zip(out["k"], out["t"], out["v"], strict=True):
        assert values[k, t] == pytest.approx(v)


def test_an_error_in_one_block_ends_the_run(small_blocks):
    table = events(6_000, np.arange(300), even=False)
    row = int(np.flatnonzero(table["k"] == 150)[-1])
    table["t"][row] = -5
    with pytest.raises(DataError, match="of key 150"):
        sg.source(key="k", time="t", value="v").sample(1).run(table, lanes=2)


def test_blocks_without_rows_still_have_columns(small_blocks):
    query = sg.source(key="k", time="t", value="v").where(lambda e: e.v > 2)
    out = offline.run(
        OperatorPlan(query.node), {"input": events(5_000, np.arange(300), even=True)}, 2
    )
    assert {name: len(column) for name, column in out.items()} == {"k": 0, "t": 0, "v": 0}
