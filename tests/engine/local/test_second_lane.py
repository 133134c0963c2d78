"""Two threads for one batch: the same maps, errors that undo both, and which way is kept to."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from tests.kernels.harness import Pair
from tests.kernels.programs import EXTREMES, JOIN, RANGES

from viewlet.engine.local import trigger_engine as local
from viewlet.engine.local.second_lane import Pace, SecondThread, second_thread
from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.values.batching import make_batch
from viewlet.errors import RangeError
from viewlet.program.text import parse_program

SUMS = """
relation r(a: INTEGER not null, x: BIGINT not null)
map one[a: int](total: int)
map two[x: int, a: int](count: int)
on r:
  one[a] += Δr(a, x) | total: x
  two[x, a] += Δr(a, x) | count: 1
"""


@pytest.fixture
def in_two(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every batch in two threads; the list has one entry for each pair of lanes that ran."""
    ran: list[int] = []

    def both(self: SecondThread, here: object, there: object) -> None:
        ran.append(1)
        plain(self, here, there)  # type: ignore[arg-type]

    plain = SecondThread.both
    monkeypatch.setattr(SecondThread, "both", both)
    monkeypatch.setattr(local, "FEWEST_ROWS", 1)
    monkeypatch.setattr(local, "cores", lambda: 2)
    monkeypatch.setattr(Pace, "in_two", lambda self: True)
    yield ran


@pytest.mark.parametrize("text", [JOIN, RANGES, EXTREMES])
def test_two_lanes_give_the_maps_of_one(text: str, in_two: list[int]) -> None:
    """Pair compares every map with the interpreter's after every batch."""
    Pair(text).run(seed=3, batches=12)
    assert in_two


def test_maps_grow_in_both_lanes(in_two: list[int]) -> None:
    engine = LocalEngine(parse_program(SUMS))
    rows = [(i % 5000, i) for i in range(20_000)]
    engine.apply([("r", make_batch(engine.program.relation("r"), rows, 1))])
    assert in_two
    assert len(engine.reader.contents("two", "count")) == 20_000
    assert engine.reader.contents("one", "total")[(7,)] == sum(range(7, 20_000, 5000))


@pytest.mark.parametrize("lane", ["one", "two"])
def test_an_overflow_in_either_lane_undoes_both(lane: str, in_two: list[int]) -> None:
    engine = LocalEngine(parse_program(SUMS))
    relation = engine.program.relation("r")
    engine.apply([("r", make_batch(relation, [(1, 2**62), (2, 5)], 1))])
    maps = engine.reader
    before = maps.contents("one", "total"), maps.contents("two", "count")
    rows = make_batch(relation, [(3, 4), (1, 2**62) if lane == "one" else (2, 5)], 1)
    if lane == "two":
        rows.weights[:] = np.iinfo(np.int64).max
        rows.columns[1][:] = (0, 5)
    with pytest.raises(RangeError, match="undone"):
        engine.apply([("r", rows)])
    assert (
        engine.reader.contents("one", "total"),
        engine.reader.contents("two", "count"),
    ) == before


def test_the_second_thread_is_another_and_raises_here() -> None:
    names: list[str] = []
    second_thread().both(
        lambda: names.append(threading.current_thread().name),
        lambda: names.append(threading.current_thread().name),
    )
    assert len(set(names)) == 2

    def fail() -> None:
        raise ValueError("there")

    with pytest.raises(ValueError, match="there"):
        second_thread().both(lambda: None, fail)
    with pytest.raises(ValueError, match="there"):
        second_thread().both(fail, lambda: None)
    second_thread().both(lambda: None, lambda: None)


def test_work_is_done_here_while_the_thread_is_taken() -> None:
    done: list[str] = []

    def inner() -> None:
        second_thread().both(lambda: done.append("a"), lambda: done.append("b"))

    second_thread().both(inner, lambda: None)
    assert done == ["a", "b"]


def test_pace_keeps_to_the_faster_way_and_tries_the_other_again() -> None:
    pace = Pace()
    tried = []
    for _ in range(100):
        two = pace.in_two()
        tried.append(two)
        pace.took(two, 1.0 if two else 2.0, 1000)
    assert tried[0] is False and all(tried[1:30])
    assert 1 <= tried[2:].count(False) <= 4
    for _ in range(200):
        two = pace.in_two()
        pace.took(two, 3.0 if two else 2.0, 1000)
    assert not pace.in_two()
