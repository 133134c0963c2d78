"""Distributed programs as kernels over partitions in directories: equal to the interpreter."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.distributed.streams import FINANCE, TPCH, database, program_of, stream
from tests.engine.directories import Directories

from viewlet.distributed import compile_all
from viewlet.distributed.location import node_of
from viewlet.engine.spark.chunks import Columns, Message, TextHashes, nodes_of, spread
from viewlet.engine.spark.conductor import Conductor
from viewlet.engine.spark.sql_program import SqlProgram
from viewlet.engine.spark.stages import staged
from viewlet.engine.values.batching import batch_of
from viewlet.engine.values.strings import Dictionary
from viewlet.errors import RangeError
from viewlet.native.code_cache import code_cache
from viewlet.program.interpret import Interpreter, defined_contents, relations_of
from viewlet.program.ir import Program
from viewlet.program.text import parse_program
from viewlet.schema import Column, Kind, Physical, Relation, Type
from viewlet.storage.columns import Array, KeyField, Layout

QUICK = ["tpch/q3", "tpch/q15", "finance/bsp"]


def conductor_of(program: Program, partitions: int, root: Path) -> Conductor:
    plan = staged(compile_all(program))
    traveled = pickle.loads(pickle.dumps(SqlProgram(plan, [], "test", code_cache().directory)))
    return Conductor(plan, [], Directories(traveled, partitions, root))


def compare(conductor: Conductor, reference: Interpreter, program: Program) -> None:
    contents = conductor.contents([m.name for m in program.state])
    for map in program.state:
        for column in map.columns:
            ours = contents[map.name].weights(column.name)
            assert ours == reference.store[map.name, column.name], (map.name, column.name)


@pytest.mark.parametrize(
    "query",
    [q if q in QUICK else pytest.param(q, marks=pytest.mark.slow) for q in TPCH + FINANCE],
)
def test_equal_to_the_interpreter(query: str, tmp_path: Path) -> None:
    program = program_of(query)
    conductor = conductor_of(program, 3, tmp_path)
    reference = Interpreter(program)
    static, events = database(query, 5)
    reference.load(static)
    conductor.scatter(defined_contents(program, relations_of(static)))
    relations = {relation.name: relation for relation in program.relations}
    for batch in stream(events, 5, 12):
        for name, delta in batch.items():
            reference.apply(name, delta)
        conductor.apply(
            [(name, batch_of(relations[name], delta.items())) for name, delta in batch.items()]
        )
        compare(conductor, reference, program)


def test_a_batch_that_fails_is_nowhere(tmp_path: Path) -> None:
    """An overflow on one partition takes the batch back on all of them and on the driver."""
    program = parse_program(
        "relation r(k: BIGINT not null, x: BIGINT not null) key (k)\n"
        "map m[k: int](count: int, x: int)\n"
        "  count := Sum[k](r(k, x))\n"
        "  x := Sum[k](r(k, x) * x)\n\n"
        "on r:\n  m[k] += Δr(k, x) | count: 1, x: x\n"
    )
    conductor = conductor_of(program, 2, tmp_path)
    relation = program.relations[0]
    rows = [((k, 2**62), 1) for k in range(8)]
    conductor.apply([("r", batch_of(relation, rows))])
    before = conductor.contents(["m"])["m"].weights("x")
    with pytest.raises(RangeError):
        conductor.apply([("r", batch_of(relation, [((3, 2**62), 1), ((4, 1), 1)]))])
    assert conductor.contents(["m"])["m"].weights("x") == before


def test_columns_go_where_values_go() -> None:
    """nodes_of and spread are node_of for whole columns."""
    strings = Dictionary(["a", "", "é"])
    layout = Layout(
        "m",
        (
            KeyField(Physical.INT, True),
            KeyField(Physical.STR, False),
            KeyField(Physical.FLOAT, False),
        ),
        (Physical.INT,),
    )
    rows = [(1, "a", 1.0), (None, "", -0.5), (-7, "é", 3e300), (2**40, None, 2.0)]
    words = np.zeros((len(rows), layout.row_width), np.int64)
    for at, (number, text, real) in enumerate(rows):
        words[at, :4] = [
            number or 0,
            number is None,
            strings.code(text),
            np.float64(real).view(np.int64),
        ]
    texts = TextHashes().of(strings)
    for by in [(0,), (1,), (2,), (0, 1, 2)]:
        for nodes in (1, 2, 5):
            vector = nodes_of(words, layout, by, nodes, texts).tolist()
            assert vector == [node_of([row[i] for i in by], nodes) for row in rows], (by, nodes)
    table = Relation("t", (Column("a", Type(Kind.BIGINT)), Column("s", Type(Kind.VARCHAR))), ("s",))
    numbers = (np.array([1, 2, 3, 0], np.int32), [None, "a", "", "é"])
    parts = spread(
        Columns("t", [np.arange(4), numbers], [None, None], np.ones(4, np.int64)), table, 3
    )
    for node, part in enumerate(parts):
        assert all(node_of([rows[a][1]], 3) == node for a in part.columns[0].tolist())
    assert sum(len(part.weights) for part in parts) == 4


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(0, np.int64),
        np.full(5, -7, np.int64),
        np.array([-128, 127], np.int64),
        np.array([-129, 127], np.int64),
        np.array([0, 2**31], np.int64),
        np.array([-(2**63), 2**63 - 1], np.int64),
        np.array([0.5, np.nan, -0.0]),
        np.array([0, 1, 1], np.uint8),
    ],
    ids=str,
)
def test_columns_arrive_as_they_were(values: Array) -> None:
    weights = np.ones(len(values), np.int64)
    numbers = np.arange(len(values), dtype=np.int32)
    texts = [None, *map(str, range(len(values)))]
    sent = Columns("t", [values, None, (numbers, texts)], [None, None, None], weights)
    (got,) = Message.unpack(Message(columns=[sent]).pack()).columns
    assert got.columns[0].dtype == values.dtype
    assert got.columns[0].tobytes() == values.tobytes()
    assert got.columns[1] is None
    assert got.columns[2][1] == texts
    assert got.columns[2][0].tobytes() == numbers.tobytes()
    assert got.weights.tobytes() == weights.tobytes()
