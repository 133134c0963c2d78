"""Memory of arrays that are gone is used again, that of arrays in use never is."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from viewlet.signals import buffers

SIZE = 1 << 20


@pytest.fixture(autouse=True)
def nothing_kept():
    gc.collect()
    buffers.release()
    yield
    buffers.release()


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_comes_back_with_the_last_view():
    first = buffers.empty(SIZE, np.float64)
    place, view = address(first), first[10:20]
    view[:] = 7.0
    del first
    second = buffers.empty(SIZE, np.float64)
    second[:] = 1.0
    assert address(second) != place
    assert (view == 7.0).all()
    del view
    third = buffers.empty((SIZE // 4, 2), np.complex128)
    assert address(third) == place
    assert third.shape == (SIZE // 4, 2)
    assert third.flags.c_contiguous and third.flags.writeable


def test_pieces_begin_at_a_line_and_small_ones_are_plain():
    for rows in (20_000, 300_000, 3_000_000):
        assert address(buffers.empty(rows, np.int64)) % 64 == 0
    assert buffers.empty(10, np.int64).base is None


def test_no_more_than_the_limit_is_kept(monkeypatch):
    monkeypatch.setattr(buffers, "LIMIT", 40 * SIZE)
    arrays = [buffers.empty((n + 1) * SIZE, np.float64) for n in range(4)]
    assert buffers.release() == 0
    del arrays
    buffers.empty(SIZE // 8, np.float64)
    assert 0 < buffers.release() <= 40 * SIZE + SIZE
    assert buffers.release() == 0
