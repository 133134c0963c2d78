"""Whole columns give the values that single rows give."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import viewlet
from viewlet.calculus.expr import ONE
from viewlet.calculus.query import COUNT, OrderItem, OutputColumn, Query, ViewKind, sort_rows
from viewlet.engine.values import reading
from viewlet.engine.values.batching import plain_values
from viewlet.engine.values.reading import rows_of, vector_of, visible
from viewlet.engine.values.vectors import NotColumnar, Vector, evaluate_vector, truths
from viewlet.functions import Apply, Const, Ref, ScalarExpr, evaluate
from viewlet.schema import BIGINT, DOUBLE, VARCHAR

INTS: list[int | None] = [0, 3, None, -7, 2**40, 0]
FLOATS: list[float | None] = [0.0, -1.5, 2.0, None, 1e300, 4.0]
TRUTHS: list[bool | None] = [True, False, None, True, False, None]
TEXTS: list[str | None] = ["a", None, "b", "c", "a", ""]
ENVIRONMENT = {
    "i": vector_of(INTS, BIGINT),
    "f": vector_of(FLOATS, DOUBLE),
    "t": Vector(np.array([bool(t) for t in TRUTHS]), np.array([t is None for t in TRUTHS])),
    "s": vector_of(TEXTS, VARCHAR),
}


def app(function: str, *arguments: ScalarExpr) -> Apply:
    return Apply(function, arguments)


N, F, T, S = Ref("i"), Ref("f"), Ref("t"), Ref("s")
SCALARS = [
    N,
    S,
    Const(None),
    Const("x"),
    app("+", N, N),
    app("-", N, F),
    app("*", N, Const(3)),
    app("/", N, F),
    app("/", F, N),
    app("=", N, Const(0)),
    app("<", F, N),
    app("case", app("=", N, Const(0)), Const(None), N),
    app("case", T, S, Const("other")),
    app("case", T, Const(1), app(">", N, Const(1)), F, Const(None)),
    app("and", T, app(">", N, Const(0))),
    app("or", T, app(">", N, Const(0))),
    app("not", T),
    app("is_null", S),
    app("is_true", T),
    app("coalesce", N, Const(9)),
    app("coalesce", S, Const("none")),
    app("to_float", N),
    app("sqrt", F),
    app("greatest", F, Const(1.0)),
    app("least", N, Const(1)),
]


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_columns_equal_rows(scalar: ScalarExpr) -> None:
    found = evaluate_vector(scalar, ENVIRONMENT, 6)
    rows = zip(INTS, FLOATS, TRUTHS, TEXTS, strict=True)
    expected = [evaluate(scalar, dict(zip("ifts", row, strict=True))) for row in rows]
    for ours, theirs in zip(plain_values(found.values, found.nulls), expected, strict=True):
        assert (ours is None) == (theirs is None)
        if isinstance(theirs, float) and isinstance(ours, float):
            assert math.isclose(ours, theirs, rel_tol=1e-15) or (ours != ours and theirs != theirs)
        else:
            assert ours == theirs


@pytest.mark.parametrize(
    "scalar",
    [app("*", app("*", N, N), N), app("upper", S), app("<", S, Const("b")), Const(2**70)],
    ids=str,
)
def test_what_is_left_to_rows(scalar: ScalarExpr) -> None:
    with pytest.raises(NotColumnar):
        evaluate_vector(scalar, ENVIRONMENT, 6)


def test_conditions_are_true_and_nothing_else() -> None:
    assert truths(T, ENVIRONMENT, 6).tolist() == [True, False, False, True, False, False]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("limit", [None, 0, 5])
def test_order_and_limit(descending: bool, nulls_first: bool, limit: int | None) -> None:
    random = Random(f"{descending}{nulls_first}{limit}")
    rows = [(random.choice([None, "a", "b"]), random.choice([None, 1, 2]), i) for i in range(30)]
    counts = [random.choice([1, 1, 2]) for _ in rows]
    columns = tuple(
        OutputColumn(n, t, True, Ref(n)) for n, t in (("s", VARCHAR), ("i", BIGINT), ("n", BIGINT))
    )
    order = (OrderItem(0, descending, nulls_first), OrderItem(1, not descending, nulls_first))
    query = Query(
        "q", ViewKind.BAG, (), ((COUNT, ONE),), columns, order=order, limit=limit, offset=2
    )
    vectors = [vector_of([row[i] for row in rows], c.type) for i, c in enumerate(columns)]
    batch = visible(query, vectors, np.array(counts))
    assert rows_of(batch) == sort_rows(query, list(zip(rows, counts, strict=True)))


def test_a_subquery_that_is_the_same_for_all_rows_is_computed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TPC-H Q11 asks each of 30,000 groups whether it is large enough."""
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.execute(
        "CREATE MATERIALIZED VIEW large AS SELECT a, SUM(b) AS total FROM t GROUP BY a "
        "HAVING SUM(b) > (SELECT AVG(b) FROM t)"
    )
    asked: list[object] = []
    evaluate = reading.rows
    monkeypatch.setattr(reading, "rows", lambda *args: asked.append(args) or evaluate(*args))
    assert db.view("large").to_arrow().num_rows == 0
    db.insert("t", [(1, 1), (2, 2), (2, 7), (3, None)])
    asked.clear()
    assert db.view("large").to_arrow().to_pylist() == [{"a": 2, "total": 9}]
    assert len(asked) == 1
    db.delete("t", [(2, 7)])
    assert db.view("large").to_arrow().to_pylist() == [{"a": 2, "total": 2}]
    db.delete("t", [(1, 1), (2, 2)])
    assert db.view("large").to_arrow().num_rows == 0


def test_a_subquery_that_depends_on_the_row_is_computed_for_each() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE u (a INT, c INT)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS total FROM t GROUP BY a "
        "HAVING SUM(b) > (SELECT SUM(c) FROM u WHERE u.a = t.a)"
    )
    db.insert("t", [(1, 5), (2, 5), (3, 5)])
    db.insert("u", [(1, 4), (2, 6)])
    assert db.view("v").to_arrow().to_pylist() == [{"a": 1, "total": 5}]


def test_a_few_rows_of_many_are_those_of_the_whole_order() -> None:
    """Ties in the first column of ORDER BY are decided by the others."""
    random = Random(4)
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t ORDER BY a DESC NULLS LAST LIMIT 7"
    )
    rows = [(random.choice([None, 1, 2, 3]), random.randrange(50)) for _ in range(300)]
    db.insert("t", rows)
    best = sorted(((a, b) for a, b in rows if a is not None), key=lambda r: (-r[0], r[1]))
    assert [tuple(row.values()) for row in db.view("v").to_arrow().to_pylist()] == best[:7]
