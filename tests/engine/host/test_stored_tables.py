"""Tables in flat arrays do what the slow definition of a table does, refusals included."""

from __future__ import annotations

import math
import time
from random import Random

import numpy as np
import pytest
from tests.pace import slack

from viewlet.calculus.ring import Gmr
from viewlet.engine.host.stored_tables import StoredTable, put_all
from viewlet.engine.tables import Table
from viewlet.engine.values.batching import Batch, batch_of, weighted_rows
from viewlet.engine.values.strings import Dictionary, Translation
from viewlet.errors import DataError, RangeError, UnsupportedError
from viewlet.native.switch import is_enabled
from viewlet.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    VARCHAR,
    Column,
    Relation,
    Scalar,
)
from viewlet.storage.columns import MemoryArrays

Row = tuple[Scalar, ...]
COLUMNS = (
    Column("id", INTEGER, False),
    Column("x", DOUBLE),
    Column("s", VARCHAR),
    Column("b", BOOLEAN),
)
BAG = Relation("bag", COLUMNS)
KEYED = Relation("keyed", COLUMNS, key=("id", "s"))
WIDE = Relation("wide", tuple(Column(f"c{i}", INTEGER) for i in range(130)), key=("c0",))


def stored(relation: Relation) -> StoredTable:
    return StoredTable(relation, MemoryArrays(), Dictionary())


def put(table: StoredTable, changes: list[tuple[Row, int]]) -> None:
    batch = table.code(batch_of(table.relation, changes))
    put_all({table.relation.name: table}, [(table.relation.name, batch)])


def contents(table: StoredTable) -> Gmr:
    return Gmr(weighted_rows(table.relation, table.batch()))


def random_row(random: Random, keyed: bool) -> Row:
    text = random.choice(["", "a", "b"] if keyed else ["", "a", "b", None])
    number = random.choice([0.0, -0.0, 1.5, None])
    return random.randrange(6), number, text, random.choice([True, False, None])


@pytest.mark.parametrize("relation", [BAG, KEYED], ids=lambda r: r.name)
def test_random_batches(relation: Relation) -> None:
    random = Random(relation.name)
    table, model = stored(relation), Table(relation)
    refused = 0
    for _ in range(400):
        size = random.choice([1, 2, 5, 40])
        held = [row for row, _ in model.rows.items()]
        changes = []
        for _ in range(size):
            if held and random.random() < 0.55:
                changes.append((random.choice(held), random.choice([-1, -1, -2])))
            else:
                changes.append((random_row(random, bool(relation.key)), 1))
        if random.random() < 0.3:
            changes += [(row, -weight) for row, weight in changes[: len(changes) // 2]]
        delta = Gmr(changes)
        try:
            model.check(delta)
        except DataError as error:
            refused += 1
            with pytest.raises(DataError) as caught:
                put(table, changes)
            assert (
                caught.value.message.split(":")[0].split("(")[0]
                == (error.message.split(":")[0].split("(")[0])
            )
        else:
            put(table, changes)
            if random.random() < 0.2:
                table.rows.undo()
            else:
                model.apply(delta)
        assert contents(table) == model.rows
    assert 40 < refused < 360


def test_errors_name_the_row_and_the_key() -> None:
    table = stored(KEYED)
    put(table, [((1, None, "a", True), 1)])
    with pytest.raises(DataError, match=r"row \(id=2, x=None, s='q', b=None\) is not there"):
        put(table, [((2, None, "q", None), -1)])
    with pytest.raises(DataError, match=r"row \(id=1, .*\) is only 1 times there"):
        put(table, [((1, None, "a", True), -2)])
    with pytest.raises(DataError, match=r"duplicate primary key \(id=1, s='a'\) in table keyed"):
        put(table, [((1, 2.5, "a", True), 1)])
    assert contents(table) == Gmr([((1, None, "a", True), 1)])


def test_a_key_that_moves_many_times_in_one_batch() -> None:
    table = stored(Relation("k", (Column("id", INTEGER, False), Column("v", INTEGER)), ("id",)))
    changes: list[tuple[Row, int]] = [((1, 0), 1)]
    for i in range(20_000):
        changes += [((1, i), -1), ((1, i + 1), 1)]
    put(table, changes)
    assert contents(table) == Gmr([((1, 20_000), 1)])
    assert len(table.rows) == 1


HOT = Relation(
    "hot",
    (Column("v", INTEGER), Column("id", INTEGER, False), Column("s", VARCHAR)),
    key=("id",),
)


def test_a_refused_batch_that_moves_keys_many_times_says_what_is_wrong() -> None:
    table = stored(HOT)
    put(table, [((0, 1, "a"), 1), ((0, 2, "a"), 1)])
    before = contents(table)
    moves: list[tuple[Row, int]] = [((i, 1, "a"), 1) for i in range(2_000)]
    with pytest.raises(DataError, match=r"duplicate primary key \(id=1\) in table hot"):
        put(table, moves)
    with pytest.raises(DataError, match=r"row \(v=7, id=2, s='b'\) is not there"):
        put(table, [((7, 2, "b"), -1), *moves])
    with pytest.raises(DataError, match=r"row \(v=0, id=2, s='a'\) is only 1 times there"):
        put(table, [((0, 2, "a"), -2), *moves])
    assert contents(table) == before
    put(table, [((0, 1, "a"), -1), *moves, *((row, -1) for row, _ in moves[:-1])])
    assert contents(table) == Gmr([(moves[-1][0], 1), ((0, 2, "a"), 1)])


def test_changes_of_a_key_in_several_batches_of_one_step() -> None:
    table = stored(HOT)
    put(table, [((0, 1, "a"), 1)])
    steps = [
        table.code(batch_of(HOT, [((i, 1, "a"), -1), ((i + 1, 1, "a"), 1)])) for i in range(300)
    ]
    put_all({"hot": table}, [("hot", step) for step in steps])
    assert contents(table) == Gmr([((300, 1, "a"), 1)])
    table.rows.undo()
    assert contents(table) == Gmr([((0, 1, "a"), 1)])


@pytest.mark.parametrize("columns", range(1, 21))
def test_any_number_of_halves_and_words(columns: int) -> None:
    types = [INTEGER, BIGINT, VARCHAR, DOUBLE, DATE, BOOLEAN]
    relation = Relation(
        "t",
        tuple(
            Column(f"c{i}", types[(i + columns) % 6], i % 3 != 0 and i < 3) for i in range(columns)
        ),
        key=() if columns % 2 else ("c0",),
    )
    values: dict[str, list[Scalar]] = {
        "INTEGER": [-(2**31), -1, 0, 2**31 - 1],
        "BIGINT": [-(2**62), -1, 0, 2**62],
        "VARCHAR": ["", "a", "b", "c"],
        "DOUBLE": [-math.inf, -0.5, 0.0, 1e300],
        "DATE": [-719_162, -1, 0, 2_932_896],
        "BOOLEAN": [False, True, False, True],
    }
    rows = [
        tuple(values[str(column.type)][(row + i) % 4] for i, column in enumerate(relation.columns))
        for row in range(2 if columns == 2 else 4)
    ]
    model = Gmr((row, 1) for row in rows)
    if relation.key and any(row[0] in [r[0] for r in rows[:i]] for i, row in enumerate(rows)):
        rows = rows[:2]
        model = Gmr((row, 1) for row in rows)
    table = stored(relation)
    put(table, [(row, 1) for row in rows])
    assert contents(table) == model
    if relation.key:
        is_there, old = table.by_key(batch_of(relation, [(row, 1) for row in rows]))
        assert is_there.all() and Gmr(weighted_rows(relation, old)) == model
    put(table, [(row, -1) for row in rows])
    assert len(table) == 0


def test_packed_numbers_do_not_crowd_the_index() -> None:
    pairs = Relation("pairs", (Column("a", INTEGER, False), Column("b", INTEGER, False)))
    table = stored(pairs)
    side = np.arange(300)
    a, b = (np.ascontiguousarray(each.ravel()) for each in np.meshgrid(side, side))
    batch = Batch([a, b], [None, None], np.ones(len(a), np.int64), coded=True)
    # Python runs each row in some 70 us; with pairs of one sum in one slot it would be ten times.
    limit = (0.5 if is_enabled() else 15) * slack()
    started = time.process_time()
    put_all({"pairs": table}, [("pairs", batch)])
    assert len(table) == 90_000
    assert time.process_time() - started < limit


def test_numbers_beyond_their_column_are_refused() -> None:
    table = stored(HOT)
    ids = np.array([1, 2**31], np.int64)
    batch = Batch([ids, ids, np.zeros(2, np.int64)], [None] * 3, np.ones(2, np.int64), coded=True)
    with pytest.raises(RangeError, match="a number for table hot is out of its column's range"):
        put_all({"hot": table}, [("hot", batch)])
    assert len(table) == 0


def test_null_bits_of_many_columns() -> None:
    table = stored(WIDE)
    rows: list[tuple[Row, int]] = [
        (tuple(None if i and (i + k) % 3 == 0 else i for i in range(130)), 1) for k in range(3)
    ]
    rows = [((k, *row[1:]), n) for k, (row, n) in enumerate(rows)]
    put(table, rows)
    assert contents(table) == Gmr(rows)
    with pytest.raises(UnsupportedError, match="primary key of wide has 20 columns"):
        stored(Relation("wide", WIDE.columns, tuple(f"c{i}" for i in range(20))))


def test_growth_and_copies() -> None:
    table = stored(BAG)
    rows: list[tuple[Row, int]] = [((i, i / 2, f"s{i % 7}", None), 1 + i % 2) for i in range(5000)]
    for start in range(0, 5000, 700):
        put(table, rows[start : start + 700])
    assert contents(table) == Gmr(rows)
    twin = StoredTable(BAG, MemoryArrays(), table.dictionary)
    batch = table.coded(range(len(COLUMNS)))
    put_all({"bag": twin}, [("bag", batch)])
    assert contents(twin) == Gmr(rows)
    put(twin, [(row, -n) for row, n in rows])
    assert len(twin.rows) == 0
    used = twin.rows.nbytes()
    put(twin, rows)
    assert twin.rows.nbytes() <= 1.5 * used, "freed records are used again"


def test_arrays_that_hold_a_table_are_taken_up() -> None:
    arrays, strings = MemoryArrays(), Dictionary()
    table = StoredTable(BAG, arrays, strings)
    put(table, [((1, 0.5, "a", True), 2)])
    again = StoredTable(BAG, arrays, strings)
    put(again, [((1, 0.5, "a", True), -1)])
    assert contents(again) == Gmr([((1, 0.5, "a", True), 1)])


def test_translation_gives_codes_when_asked() -> None:
    source, target = Dictionary(["a", "b", "c"]), Dictionary()
    translate = Translation(source, target)
    codes = np.array([0, 3, 1, 3])
    assert target.decode(translate(codes)).tolist() == [None, "c", "a", "c"]
    assert len(target) == 3
    assert translate.one(2) == target.codes["b"]


def test_wide_rows_that_differ_in_their_last_column_only() -> None:
    """One after the other and all at once; a run of equal first columns costs nothing."""
    relation = Relation("w", tuple(Column(f"c{i}", INTEGER) for i in range(30)))
    table = stored(relation)
    rows: list[tuple[Row, int]] = [((*[7] * 29, i), 1) for i in range(20_000)]
    put(table, rows)
    assert contents(table) == Gmr(rows)
    with pytest.raises(DataError, match="c29=20000"):
        put(table, [((*[7] * 29, 20_000), -1)])
    put(table, [(row, -1) for row, _ in rows])
    assert len(table.rows) == 0
