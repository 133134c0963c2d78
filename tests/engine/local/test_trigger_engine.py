"""The local engine: atomic batches, changes, growth within a batch, saving."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tests.kernels.harness import Pair
from tests.kernels.programs import EXTREMES, JOIN, RANGES, STRINGS

from viewlet.calculus.expr import Value, constant
from viewlet.calculus.query import COUNT, Query, ViewKind
from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.values.batching import Batch, make_batch
from viewlet.errors import DataError, RangeError, StateError
from viewlet.program.ir import Program, View
from viewlet.program.text import parse_program
from viewlet.storage.columns import MemoryArrays

TOTALS = """
relation r(a: INTEGER not null, x: BIGINT not null, f: DOUBLE not null)
map q[a: int](count: int, total: int, real: float)
map other[x: int](count: int)
on r:
  other[x] += Δr(a, x, f) | count: 1
  q[a] += Δr(a, x, f) | count: 1, total: x, real: [f]
"""


def batch(program: Program, name: str, rows: list[tuple[object, ...]], weight: int = 1) -> Batch:
    return make_batch(program.relation(name), rows, weight)


def snapshot(engine: LocalEngine) -> dict[tuple[str, str], dict[tuple[object, ...], object]]:
    return {
        (map.name, column.name): engine.reader.contents(map.name, column.name)
        for map in engine.program.state
        for column in map.columns
    }


def view_of(map: str, *columns: str) -> View:
    components: tuple[tuple[str, Value], ...] = tuple((c, constant(1)) for c in columns)  # type: ignore[misc]
    query = Query(map, ViewKind.GROUP, ("a",), components, ())
    return View(query, tuple((c, map, c) for c in columns))


@pytest.fixture
def totals() -> LocalEngine:
    return LocalEngine(parse_program(TOTALS))


def test_overflow_undoes_the_whole_batch(totals: LocalEngine) -> None:
    program = totals.program
    totals.apply([("r", batch(program, "r", [(1, 2**62, 0.5), (2, 5, 1.5)]))])
    before = snapshot(totals)
    good = batch(program, "r", [(3, 7, 0.25), (2, -5, 2.0)])
    bad = batch(program, "r", [(4, 1, 1.0), (1, 2**62, 1.0)])
    with pytest.raises(RangeError, match="undone"):
        totals.apply([("r", good), ("r", bad)])
    assert snapshot(totals) == before
    totals.apply([("r", good)])
    assert totals.reader.contents("q", "total") == {(1,): 2**62, (3,): 7}
    assert totals.reader.contents("q", "count") == {(1,): 1, (2,): 2, (3,): 1}


@pytest.mark.parametrize("text", [JOIN, EXTREMES, RANGES, STRINGS])
def test_failure_between_relations_undoes_all(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails after some triggers ran, indexes included, is as if it had never begun."""
    pair = Pair(text)
    pair.run(seed=1, batches=4)
    run = pair.engine._run
    rng = random.Random(2)
    for _ in range(5):
        rows = {name: list(kept) for name, kept in pair.rows.items()}
        changes = pair.random_changes(rng, 12)
        before = snapshot(pair.engine)

        def fail(relation: str, given: Batch) -> None:
            run(relation, given)
            raise RuntimeError("a failure of the machine")

        monkeypatch.setattr(pair.engine, "_run", fail)
        with pytest.raises(RuntimeError):
            pair.apply(changes)
        monkeypatch.undo()
        assert snapshot(pair.engine) == before
        pair.rows = rows
        pair.apply(pair.random_changes(rng, 12))


@pytest.mark.parametrize("single", [False, True])
def test_growth_within_a_batch_repeats_nothing(single: bool) -> None:
    program = parse_program(JOIN)
    engine = LocalEngine(program, single=single)
    rows = [(a, a % 3, "1.50") for a in range(1500)]
    engine.apply([("r", batch(program, "r", rows))])
    # Each of these three rows makes 500 records: the map grows in the middle of a row.
    engine.apply([("s", batch(program, "s", [(b, "x") for b in range(3)]))])
    assert engine.reader.contents("q", "count") == {(a,): 1 for a in range(1500)}
    assert engine.reader.contents("q", "total") == {(a,): 150 for a in range(1500)}


PAIRS = """
relation r(k: INTEGER not null, a: BIGINT not null)
map q[k: int](n: int)
map m[k: int, p: int](n: int)
on r:
  q[k] += Δr(k, a) * Sum[k](m[k, p].n * {p < a}) | n: 1
  m[k, a] += Δr(k, a) | n: 1
"""


@pytest.mark.parametrize("single", [False, True])
def test_ordered_indexes_grow_within_a_batch(single: bool) -> None:
    program = parse_program(PAIRS)
    engine = LocalEngine(program, single=single)
    rows = 3000
    engine.apply([("r", batch(program, "r", [(a % 2, a) for a in range(rows)]))])
    half = rows // 2
    met = half * (half - 1) // 2 if single else 0
    assert engine.reader.contents("q", "n") == ({(0,): met, (1,): met} if met else {})
    engine.apply([("r", batch(program, "r", [(0, 10 * rows), (1, 0)]))])
    assert engine.reader.contents("q", "n") == {(0,): met + half, **({(1,): met} if met else {})}


def test_changed_gives_old_and_new(totals: LocalEngine) -> None:
    program = totals.program
    totals.apply([("r", batch(program, "r", [(1, 10, 0.5), (2, 20, 1.5)]))])
    totals.apply([("r", batch(program, "r", [(1, 10, 0.5)], -1))])
    found = totals.reader.changed(view_of("q", COUNT, "total", "real"))
    assert [key.tolist() for key in found.keys] == [[1]]
    assert {name: v.tolist() for name, v in found.old.items()} == {
        "count": [1],
        "total": [10],
        "real": [0.5],
    }
    assert all(not values.any() for values in found.new.values())


def test_records_of_a_view(totals: LocalEngine) -> None:
    totals.apply([("r", batch(totals.program, "r", [(1, 10, 0.5), (2, 20, 1.5), (2, -20, 1.0)]))])
    found = totals.reader.records(view_of("q", COUNT, "total", "real"))
    rows = zip(
        found.keys[0].tolist(), *(c.tolist() for c in found.components.values()), strict=True
    )
    assert sorted(rows) == [(1, 1, 10, 0.5), (2, 2, 0, 2.5)]


def test_double_sums_come_back() -> None:
    program = parse_program(TOTALS)
    engine = LocalEngine(program)
    rng = np.random.default_rng(1)
    count = 20_000
    columns = [np.ones(count, np.int64), np.zeros(count, np.int64), rng.uniform(-1e6, 1e6, count)]
    kept = Batch(
        [np.ones(1, np.int64), np.zeros(1, np.int64), np.array([0.1])],
        [None] * 3,
        np.ones(1, np.int64),
    )
    engine.apply([("r", kept)])
    engine.apply([("r", Batch(columns, [None] * 3, np.ones(count, np.int64)))])
    order = rng.permutation(count)
    back = Batch([c[order] for c in columns], [None] * 3, np.full(count, -1, np.int64))
    engine.apply([("r", back)])
    # n * S * 2**-102 with n = 40,000 and S = 2e10, the bound of storage.arithmetic.
    assert abs(engine.reader.contents("q", "real")[1,] - 0.1) <= 40_000 * 2e10 * 2.0**-102 + 2e-17


@pytest.mark.parametrize("text", [STRINGS, RANGES], ids=["strings", "ranges"])
def test_save_and_restore(tmp_path: Path, text: str) -> None:
    pair = Pair(text)
    pair.run(seed=3, batches=4)
    pair.engine.save(tmp_path / "state")
    restored = LocalEngine.restored(tmp_path / "state")
    assert restored is not None
    assert restored.program == pair.program
    pair.engine = restored
    pair.check()
    pair.run(seed=4, batches=4)


def test_state_in_arrays_is_taken_up(tmp_path: Path) -> None:
    """What a worker does with memory-mapped arrays: another engine goes on where one stopped."""
    pair = Pair(EXTREMES)
    pair.run(seed=5, batches=3)
    first = pair.engine
    moved = MemoryArrays({n: first.arrays.array(n).copy() for n in first.arrays.names()})
    pair.engine = LocalEngine(pair.program, arrays=moved, dictionary=first.dictionary)
    pair.check()
    pair.run(seed=6, batches=3)
    with pytest.raises(StateError, match="another program"):
        LocalEngine(parse_program(TOTALS), arrays=moved)


def test_unknown_relations_and_wrong_widths_are_refused(totals: LocalEngine) -> None:
    with pytest.raises(DataError, match="no relation"):
        totals.apply([("zz", batch(totals.program, "r", [(1, 2, 0.5)]))])
    narrow = Batch([np.ones(1, np.int64)], [None], np.ones(1, np.int64))
    with pytest.raises(DataError, match="3 columns"):
        totals.apply([("r", narrow)])
