"""Arrays that grow where they are, and the tables over them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from viewlet.schema import Physical
from viewlet.storage import columns
from viewlet.storage.absorb import absorb
from viewlet.storage.columns import CHAIN, Index, KeyField, Layout, MemoryArrays
from viewlet.storage.pool import Pool

LARGE = 1 << 20


def test_growth_keeps_values_and_zeros_the_rest() -> None:
    arrays = MemoryArrays()
    arrays.create("x", (10, 2), np.int64)[:] = 7
    for length in (20, LARGE, 4 * LARGE, 50, 3 * LARGE):
        grown = arrays.resize("x", length)
        assert grown.shape == (length, 2)
        assert (grown[:10] == 7).all()
        assert not grown[10:].any()
        grown[10:] = 1 if length != 50 else 0
        arrays.resize("x", 10)


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are reserved on Linux only")
def test_a_large_array_stays_where_it_is() -> None:
    arrays = MemoryArrays()
    arrays.create("x", 10, np.int64)
    before = arrays.resize("x", LARGE)
    before[-1] = 5
    after = arrays.resize("x", 8 * LARGE)
    assert after.ctypes.data == before.ctypes.data
    after[0] = 9
    assert before[0] == 9 and after[LARGE - 1] == 5


def test_without_reserved_addresses_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "reserve", lambda: None)
    arrays = MemoryArrays()
    arrays.create("x", 10, np.int64)[:] = 7
    assert (arrays.resize("x", LARGE)[:10] == 7).all()
    assert arrays.resize("x", 2 * LARGE)[10:].sum() == 0


def pool_of(groups: int, records: int) -> Pool:
    key = KeyField(Physical.INT, False)
    layout = Layout("m", (key, key), (Physical.INT,), (Index(CHAIN, (0,)),))
    pool = Pool(layout, MemoryArrays(), np.zeros(layout.descriptor_words, np.int64), False)
    pool.create()
    rows = np.zeros((records, 3), np.int64)
    rows[:, 0] = np.arange(records) % groups
    rows[:, 1] = np.arange(records)
    rows[:, 2] = 1
    absorb(pool, rows)
    return pool


@pytest.mark.parametrize("groups", [1, 7, 30_000])
def test_every_record_is_found_among_tags(groups: int) -> None:
    pool = pool_of(groups, 30_000)
    full = pool.full_keys(pool.live())
    assert (pool.find(full) == np.arange(30_000)).all()
    full[:, 2] += 30_000
    assert (pool.find(full) == -1).all()
