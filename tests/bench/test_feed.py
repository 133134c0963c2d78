"""Streams: round-robin batches, rows that are there before, and how long a replay may take."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewlet.engine.values.batching import Batch
from viewlet.errors import MissingLibraryError
from viewlet.kernels.calibration import probes_per_s
from viewlet_bench import data
from viewlet_bench import replay as replay_module
from viewlet_bench.feed import Book, GeneratedTables, RowFeed, make_feed, round_robin
from viewlet_bench.orderbook import order_book
from viewlet_bench.replay import Replay, prepared, replay, state
from viewlet_bench.workload import compiled


def test_round_robin() -> None:
    spans = list(round_robin({"a": 5, "b": 2, "c": 7}, 3, {"a": 0, "b": 0, "c": 4}))
    assert spans == [[("a", 0, 3)], [("b", 0, 2)], [("c", 4, 7)], [("a", 3, 5)]]
    assert list(round_robin({}, 3, {})) == []


@pytest.fixture(scope="module")
def bsv() -> RowFeed:
    return make_feed(compiled("finance", "bsv"), Book(order_book(300, 2000)))


def test_only_used_columns_are_kept(bsv: RowFeed) -> None:
    assert list(bsv.rows) == ["bids"]
    names = bsv.compiled.program.relation("bids").names
    used = {n for n, c in zip(names, bsv.rows["bids"].columns, strict=True) if len(c)}
    assert used == {"broker_id", "volume", "price"}


def test_single_tuples_and_batches_end_alike(bsv: RowFeed) -> None:
    """The state that large batches built is taken up by the engine that takes single tuples."""
    contents = []
    for single in (False, True):
        engine = prepared(bsv, single)
        assert engine is not None
        assert engine.single is single
        done = replay(bsv, engine, 97)
        assert done.complete
        assert done.done == bsv.lengths
        assert done.total == bsv.lengths["bids"] - bsv.begin()["bids"]
        assert len(done.seconds) == len(done.rows) == -(-done.total // 97)
        assert done.position(bsv, 0.0) == bsv.begin()
        assert done.position(bsv, 1.0) == bsv.lengths
        contents.append(engine.reader.weights("bsv", "count"))
        assert state(engine)["maps"] == len(bsv.compiled.program.state)
        assert state(engine)["memory_mb"] > state(engine)["raw_mb"] > 0
    assert contents[0] == contents[1]


def test_the_limit_cuts_a_stream_short(bsv: RowFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = prepared(bsv)
    assert engine is not None
    apply = engine.apply

    def slow(changes: list[tuple[str, Batch]]) -> None:
        time.sleep(0.02)
        apply(changes)

    monkeypatch.setattr(engine, "apply", slow)
    done = replay(bsv, engine, 10, limit=0.1)
    assert not done.complete
    assert 3 <= len(done.seconds) <= 6
    assert done.total == 10 * len(done.seconds)
    assert done.done["bids"] == bsv.begin()["bids"] + done.total
    assert done.quantile_ms(0.5, single=False) >= 20
    assert done.quantile_ms(0.5, single=True) == pytest.approx(
        done.quantile_ms(0.5, single=False) / 10
    )


def test_filling_the_state_may_take_too_long(bsv: RowFeed) -> None:
    assert prepared(bsv, limit=-1.0) is None


def test_rows_are_made_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = GeneratedTables("tpch", 0.001, ("orders", "region"), {"orders": 100})
    assert source.begin({"orders": 1500, "region": 5}) == {"orders": 1400, "region": 5}
    assert source.table("orders", ["o_orderkey"]).num_rows == 1500
    files = {path: path.stat().st_mtime_ns for path in cache.rglob("*.parquet")}
    monkeypatch.setattr(data, "_generate", None)
    GeneratedTables("tpch", 0.001, ("orders",))
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.parquet")} == files


def test_without_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data.shutil, "which", lambda *_, **__: None)
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    assert data.data_directory() == tmp_path / "data"
    with pytest.raises(MissingLibraryError, match="needs tpcgen-cli"):
        data.generated("tpch", 0.001, ["orders"])
    assert list(tmp_path.iterdir()) == []


def test_calibration_is_a_rate() -> None:
    rates = [probes_per_s(0.02) for _ in range(3)]
    assert min(rates) > 1e6
    assert np.median(rates) < 1e10


def test_a_short_stream_is_replayed_while_time_is_left(
    bsv: RowFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[float] = []
    once = replay_module.replay

    def slower_first(*arguments: Any, **options: Any) -> Replay:
        done = once(*arguments, **options)
        done.seconds = [0.4 if not passes else 0.2, *([0.0] * (len(done.rows) - 1))]
        passes.append(done.tuples_per_s)
        return done

    monkeypatch.setattr(replay_module, "replay", slower_first)
    done = replay_module.fastest(bsv, False, 100, 1.0)
    assert len(passes) == 3 and done.tuples_per_s == max(passes)
    passes.clear()
    replay_module.fastest(bsv, False, 100, 1e9)  # not as often as such streams fit into the time
    assert len(passes) == 5
