"""Partition state: arrays grow, heads are believed only when whole, damage is found out."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from viewlet.engine.partitions.head import ARRAY_OFFSET, DamagedState
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.errors import StateError


def new_state(directory: Path) -> PartitionState:
    state = PartitionState.fresh(directory, 0, 1, "f")
    state.create("a", 3, np.int64)[:] = [1, 2, 3]
    state.create("m", (2, 3), np.float32)[:] = 7
    state.create("s", 1, np.dtype([("x", "<i4"), ("y", "<f8", (2,))]))["y"] = 5
    state.create("empty", 0, np.uint8)
    state.meta["n"] = 1
    state.stamp(4, "c4", 3)
    return state


def attached(directory: Path, cached: PartitionState | None = None) -> PartitionState:
    state = PartitionState.attach(directory, 0, 1, "f", cached)
    assert state is not None
    return state


def array_file(directory: Path, name: str) -> Path:
    return directory / attached(directory).head.arrays[name].file


def test_what_is_stamped_is_attached_again(tmp_path: Path) -> None:
    new_state(tmp_path)
    state = attached(tmp_path)
    assert state.names() == ["a", "m", "s", "empty"]
    assert state.array("a").tolist() == [1, 2, 3]
    assert state.array("m").shape == (2, 3)
    assert state.array("s")["y"].tolist() == [[5.0, 5.0]]
    assert state.array("empty").shape == (0,)
    assert (state.head.tick, state.head.chain, state.meta) == (4, "c4", {"n": 1})


def test_resize_keeps_contents_and_new_rows_are_zero(tmp_path: Path) -> None:
    state = new_state(tmp_path)
    assert state.resize("a", 2).tolist() == [1, 2]
    assert state.resize("a", 3).tolist() == [1, 2, 0]
    assert state.resize("empty", 1).tolist() == [0]
    grown = state.resize("m", 100)
    assert grown.shape == (100, 3)
    assert grown[:2].tolist() == [[7] * 3] * 2
    assert not grown[2:].any()
    state.stamp(5, "c5", 3)
    assert attached(tmp_path).array("m").shape == (100, 3)


def test_growth_is_amortized(tmp_path: Path) -> None:
    state = new_state(tmp_path)
    capacities = set()
    for length in range(4, 2000):
        state.resize("a", length)
        capacities.add(state.head.arrays["a"].capacity)
    assert len(capacities) < 20


def test_a_torn_state_has_old_meta_and_the_arrays_as_they_are(tmp_path: Path) -> None:
    state = new_state(tmp_path)
    state.begin(5, (0, 0))
    state.meta["n"] = 2
    state.resize("a", 50)[49] = 9
    again = attached(tmp_path)
    assert again.head.dirty == 5
    assert again.meta == {"n": 1}
    assert again.array("a")[49] == 9
    again.resize("a", 3)
    again.undone()
    assert attached(tmp_path).array("a").tolist() == [1, 2, 3]


def test_a_cached_mapping_follows_another_process(tmp_path: Path) -> None:
    first = new_state(tmp_path)
    first.array("a")
    second = attached(tmp_path)
    second.begin(5, (0, 0))
    second.resize("a", 5)[4] = 8
    second.create("new", 1, np.int8)
    second.stamp(5, "c5", 3)
    third = attached(tmp_path, cached=first)
    assert third.array("a").tolist() == [1, 2, 3, 0, 8]
    assert "new" in third.names()


def test_damage_is_found(tmp_path: Path) -> None:
    cached = new_state(tmp_path)
    path = array_file(tmp_path, "a")
    array_bytes = path.read_bytes()
    path.write_bytes(b"garbage" * 700)
    with pytest.raises(DamagedState, match="'a' is corrupted"):
        attached(tmp_path, cached)
    os.truncate(path, 10)
    with pytest.raises(DamagedState, match="'a' is cut short"):
        attached(tmp_path, cached)
    path.write_bytes(array_bytes[: ARRAY_OFFSET + 8])
    with pytest.raises(DamagedState, match="'a' has a wrong length"):
        attached(tmp_path)
    path.unlink()
    with pytest.raises(DamagedState, match="'a' is missing"):
        attached(tmp_path, cached)
    path.write_bytes(array_bytes)
    assert attached(tmp_path, cached).array("a").tolist() == [1, 2, 3]
    head = tmp_path / "head"
    data = bytearray(head.read_bytes())
    data[60] ^= 1
    head.write_bytes(bytes(data))
    with pytest.raises(DamagedState, match="head of the local state is corrupted"):
        attached(tmp_path)
    head.write_bytes(b"")
    with pytest.raises(DamagedState, match="cut short"):
        attached(tmp_path)
    head.unlink()
    assert PartitionState.attach(tmp_path, 0, 1, "f") is None


def test_state_of_another_boot_or_program_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_state(tmp_path)
    with pytest.raises(DamagedState, match="another program"):
        PartitionState.attach(tmp_path, 0, 1, "g")
    monkeypatch.setattr("viewlet.engine.partitions.partition_state.boot_id", lambda: "another")
    with pytest.raises(DamagedState, match="started again"):
        attached(tmp_path)


def test_mistakes_are_said(tmp_path: Path) -> None:
    state = new_state(tmp_path)
    with pytest.raises(StateError, match=r"no array 'b'\nhint: it has: a, m, s, empty"):
        state.array("b")
    with pytest.raises(StateError, match="Python objects"):
        state.create("o", 1, object)
    with pytest.raises(StateError, match="not the shape"):
        state.create("o", (-1,), int)
    with state.read_only():
        with pytest.raises(ValueError, match="read-only"):
            state.array("a")[0] = 1
        with pytest.raises(StateError, match="cannot change"):
            state.resize("a", 9)
    state.array("a")[0] = 10
    state.drop("m")
    assert "m" not in attached(tmp_path).names()
