"""Every scalar function in a kernel has the value that its meaning gives it, or NULL."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from tests.functions.calls import BUILT_IN, CALLS, COLUMNS, VALUES
from tests.kernels.harness import Pair, Row

from viewlet.calculus.text import parse_scalar
from viewlet.functions import physical_type
from viewlet.kernels.jit import check_kernels, compile_program
from viewlet.program.text import parse_program
from viewlet.schema import Physical

TYPES = {
    name: parse_program(f"relation r(x: {type})\nmap y[](n: int)\non r:\n")
    .relation("r")
    .columns[0]
    .type.physical
    for name, type in COLUMNS.items()
}
ALL_CALLS = [call for calls in CALLS.values() for call in calls.scalars]
PARTS = 6


def random_rows(seed: int, count: int) -> list[Row]:
    rng = random.Random(seed)
    return [
        tuple(None if rng.random() < 0.15 else rng.choice(domain) for domain in VALUES.values())
        for _ in range(count)
    ]


def program(calls: list[str]) -> str:
    """One map for each call, whose keys are the call's values. One NaN is as good as another."""
    columns = ", ".join(f"{name}: {type}" for name, type in COLUMNS.items())
    types = [physical_type(parse_scalar(call), TYPES) for call in calls]
    maps = [f"map m{i}[y: {type.value}?](n: int)" for i, type in enumerate(types)]
    statements = [
        f"  m{i}[y] += Δr({', '.join(COLUMNS)}) * (y := [{call}]) | n: 1"
        for i, call in enumerate(calls)
    ]
    return "\n".join([f"relation r({columns})", *maps, "on r:", *statements])


def test_every_function_has_a_line() -> None:
    assert set(CALLS) == set(BUILT_IN)


def test_every_kernel_translates() -> None:
    check_kernels(compile_program(parse_program(program(ALL_CALLS))))


@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_agree_with_interpreter(part: int) -> None:
    pair = Pair(program(ALL_CALLS[part::PARTS]))
    rows = random_rows(part, 60)
    pair.apply([("r", [(row, 1) for row in rows[:40]])])
    pair.apply([("r", [*((row, 1) for row in rows[40:]), *((row, -1) for row in rows[:20])])])


def test_columns_agree_with_rows() -> None:
    from viewlet.engine.values.batching import plain_values
    from viewlet.engine.values.reading import vector_of
    from viewlet.engine.values.vectors import NotColumnar, evaluate_vector
    from viewlet.functions import evaluate
    from viewlet.schema import encode

    relation = parse_program(program(["i + j"])).relation("r")
    rows = [
        tuple(encode(value, column) for value, column in zip(row, relation.columns, strict=True))
        for row in random_rows(7, 80)
    ]
    columns = {
        column.name: vector_of([row[k] for row in rows], column.type)
        for k, column in enumerate(relation.columns)
    }
    computed = 0
    for call in ALL_CALLS:
        scalar = parse_scalar(call)
        expected = [evaluate(scalar, dict(zip(COLUMNS, row, strict=True))) for row in rows]
        try:
            vector = evaluate_vector(scalar, columns, len(rows))
        except NotColumnar:
            continue
        computed += 1
        for ours, theirs in zip(plain_values(vector.values, vector.nulls), expected, strict=True):
            assert _is_same(ours, theirs), (call, ours, theirs)
    assert computed > 20


def _is_same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-15) or (ours != ours and theirs != theirs)
    return (ours is None) == (theirs is None) and ours == theirs


def test_types_are_what_values_are() -> None:
    assert {TYPES[name] for name in ("i", "d", "m", "e")} == {Physical.INT}
