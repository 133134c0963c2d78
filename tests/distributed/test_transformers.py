"""Well-formed statements: paper 000 Example 4.1, pre-aggregation, replication, any shape."""

import pytest

from viewlet.calculus.ring import Gmr
from viewlet.distributed import (
    DistributedProgram,
    Hints,
    Level,
    SimulatedCluster,
    compile_distributed,
)
from viewlet.distributed.ir import Compute, Transfer, TransferKind
from viewlet.distributed.items import AtomLocations, items_of
from viewlet.distributed.location import LOCAL, RANDOM, REPLICATED, Dist, Location
from viewlet.distributed.placement import partition
from viewlet.distributed.text import operation_text
from viewlet.program.interpret import Interpreter
from viewlet.program.text import parse_program

EXAMPLE_4_1 = """
relation r(a: INTEGER not null)
map m[a: int](value: int)
map m1[a: int, b: int](value: int)
map m2[a: int, b: int](value: int)
on r:
  m[a] += m1[a, b] * m2[a, b]
"""
PLACES: dict[str, Location] = {"m": Dist(("a",)), "m1": Dist(("a",)), "m2": Dist(("b",))}


def compiled(
    text: str, places: dict[str, Location], level: Level = Level.FULL
) -> DistributedProgram:
    return compile_distributed(parse_program(text), Hints(maps=places), level=level)


def transfers(program: DistributedProgram) -> list[Transfer]:
    blocks = [block for trigger in program.triggers for block in trigger.blocks]
    return [o for block in blocks for o in block.operations if isinstance(o, Transfer)]


def statements(program: DistributedProgram) -> list[str]:
    blocks = [block for trigger in program.triggers for block in trigger.blocks]
    found = [o for block in blocks for o in block.operations if isinstance(o, Compute)]
    return [" ".join(operation_text(o).split()) for o in found]


def test_example_4_1_naively_needs_two_rounds() -> None:
    """M += Repart[A](Sum[A](Repart[B](M1) * M2))"""
    found = transfers(compiled(EXAMPLE_4_1, PLACES, Level.NAIVE))
    assert [(t.kind, t.to) for t in found] == [
        (TransferKind.REPART, Dist(("b",))),
        (TransferKind.REPART, Dist(("a",))),
    ]


def test_example_4_1_ends_with_one_repart() -> None:
    """M += Sum[A](M1 * Repart[A](M2)), and M2 itself is what is transferred."""
    program = compiled(EXAMPLE_4_1, PLACES)
    (repart,) = transfers(program)
    assert (repart.kind, repart.source, repart.to) == (TransferKind.REPART, "m2", Dist(("a",)))
    (statement,) = statements(program)
    assert statement == "m[a] += r_r_1[a, b].* * m1[a, b] | value: r_r_1[a, b]"


def test_equal_partitioning_needs_no_transfer() -> None:
    places = dict.fromkeys(("m", "m1", "m2"), Dist(("a",)))
    assert transfers(compiled(EXAMPLE_4_1, dict(places))) == []


JOIN = """
relation r(a: INTEGER not null, b: INTEGER not null, c: INTEGER not null)
map t[b: int](total: int)
map u[a: int](value: int)
map w[b: int, d: int](value: int)
map x[d: int](value: int)
on r:
  {statement}
"""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        # The batch is filtered, projected and added up before it is moved.
        (
            "t[b] += Δr(a, b, c) * {c > 3} | total: c",
            "s_r_1[b] += Δr(a, b, c) * {c > 3} | value: c",
        ),
        # Values are computed as early as their variables are there.
        (
            "t[b] += Δr(a, b, c) * u[a].* | total: c * u[a]",
            "s_r_1[a, b] += Δr(a, b, c) | value: c",
        ),
        # A group whose key the batch does not bind meets it replicated.
        (
            "x[d] += Δr(a, b, c) * w[b, d].* | value: w[b, d]",
            "s_r_1[b] += Δr(a, b, c)",
        ),
    ],
)
def test_deltas_are_aggregated_before_they_move(statement: str, expected: str) -> None:
    places: dict[str, Location] = {
        "t": Dist(("b",)),
        "u": Dist(("a",)),
        "w": Dist(("d",)),
        "x": Dist(("d",)),
    }
    program = compiled(JOIN.replace("{statement}", statement), places)
    assert statements(program)[0] == expected
    if "w" in statement:
        assert [t.to for t in transfers(program)] == [REPLICATED]


def test_a_copy_that_changes_is_joined_after_the_move() -> None:
    """So that the first stage reads the batch alone, and can run where its rows are."""
    text = """
relation r(a: INTEGER not null, b: INTEGER not null)
relation s(b: INTEGER not null, c: INTEGER not null)
map t[a: int, c: int](value: int)
map w[a: int](value: int)
map x[b: int, c: int](value: int)
on r:
  t[a, c] += Δr(a, b) * x[b, c].* | value: x[b, c] * w[a]
on s:
  x[b, c] += Δs(b, c)
"""
    by_a = Dist(("a",))
    program = compiled(text, {"t": by_a, "w": by_a, "x": REPLICATED})
    first, second, *_ = statements(program)
    assert first == "s_r_1[a, b] += Δr(a, b)"
    assert second.startswith("t[a, c] += r_r_1[a, b].* * x[b, c].* * w[a].*")


@pytest.mark.parametrize(
    "statement",
    [
        "t[b] += Δr(a, b, c) * Δr(b, d, e) * w[b, d].* | total: w[b, d]",
        "t[b] += Δr(a, b, c) * (s := Sum[b](w[b, d])) | total: s",
    ],
)
def test_the_driver_can_do_it_alone(statement: str) -> None:
    """The last resort gathers every map; only the first batch is moved as a delta."""
    source = parse_program(JOIN.replace("{statement}", statement))
    hints = Hints(maps={"t": LOCAL, "w": Dist(("d",))})
    layout = AtomLocations(source, partition(source, hints), RANDOM)
    (original,) = source.triggers[0].statements
    items = items_of(original, layout, on_driver=True)
    assert [item.tag for item in items].count(RANDOM) == 1
    assert all(item.tag in (RANDOM, LOCAL, REPLICATED) for item in items)
    assert all(copy.to == LOCAL for copy in layout.copies.values())


def test_a_delta_moves_twice_before_a_view_moves_once() -> None:
    """d_t is where t is; w's place is visited and left again, because w grows and d_t does not."""
    text = """
relation r(a: INTEGER not null, b: INTEGER not null)
map t[a: int, b: int](value: int)
map w[a: int, b: int](value: int)
map x[a: int, b: int](value: int)
buffer d_t[a: int, b: int](value: int) of t
on r:
  d_t[a, b] += Δr(a, b)
  x[a, b] += d_t[a, b].* | value: d_t[a, b] * w[a, b]
  t[a, b] += d_t[a, b].* | value: d_t[a, b]
"""
    by_a, by_b = Dist(("a",)), Dist(("b",))
    program = compiled(text, {"t": by_a, "x": by_a, "w": by_b})
    assert [(t.source, t.to) for t in transfers(program)][1:] == [("d_t", by_b), ("s_r_3", by_a)]


@pytest.mark.parametrize(
    "place", [LOCAL, REPLICATED, Dist(("b",)), Dist(("d",)), Dist(("b", "d"))], ids=str
)
@pytest.mark.parametrize("target", [LOCAL, REPLICATED, Dist(("b",))], ids=str)
@pytest.mark.parametrize(
    "statement",
    [
        "t[b] += Δr(a, b, c) * (s := Sum[b](w[b, d])) * {s > 2} | total: c",
        "t[b] += Δr(a, b, c) * (s := max d in w[b, d]) * {s > 2} | total: 1",
        "t[b] += Δr(a, b, c) * Exists(Sum[b](w[b, d] * x[d])) | total: c",
        "t[b] += (s := Sum[](w[p, d])) * Δr(a, b, c) | total: s * c",
        "t[b] += Δr(a, b, c) * (s := Sum[](Δr(a, p, q) * q)) | total: s",
        "t[b] += Δr(a, b, c) * Δr(b, d, e) | total: d * (x[d] + 1)",
        "t[b] := w[b, d].* * x[d] | total: w[b, d]",
        "t[b] := u[b].* * (s := Sum[](x[d])) | total: s",
    ],
)
def test_every_shape_in_every_place(statement: str, target: Location, place: Location) -> None:
    """Nested, correlated, uncorrelated, self-joined and recomputed, against the reference."""
    text = JOIN.replace("{statement}", statement)
    places: dict[str, Location] = {"t": target, "w": place, "u": Dist(("a",)), "x": Dist(("d",))}
    source = parse_program(text)
    state = {
        "u": {(a,): a + 1 for a in range(4)},
        "w": {(b, d): b + 2 * d + 1 for b in range(4) for d in range(4)},
        "x": {(d,): d + 5 for d in range(3)},
    }
    batch = Gmr(((a, b, a + b), 1 if a else -1) for a in range(4) for b in range(4))
    reference = Interpreter(source)
    program = compiled(text, places)
    cluster = SimulatedCluster(program, 3)
    for name, rows in state.items():
        for key, weight in rows.items():
            reference.store[name, "value"].add(key, weight)
        cluster.put(name, "value", rows.items())
    for _ in range(2):
        reference.apply("r", batch)
        cluster.apply("r", batch)
        assert cluster.column("t", "total") == reference.store["t", "total"]
    assert len(reference.store["t", "total"]) > 0
