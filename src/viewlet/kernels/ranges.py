"""Sums over a map in which the order of one key decides what counts, recognized.

    M[g, p].c * {p < x}                                  a bound on the key
    M[g, p].c * {x - p > 7}                              a test that turns once as p rises
    M[g, p].c * {x - p > 7 or p - x > 7}                 what is left outside a range
    M[g, p].c * (s := Sum[](N[h, q].d * {q > p})) * {s < x}
                                                         a test of a sum over the keys beyond p

The last one is the shape of VWAP: while p rises, s falls, if no weight of N is negative. So the
condition holds for a range of keys, and its border is where the running sum of N passes x: an
index on the aggregate itself, as in relative partial aggregate indexes. All of these cost
O(log n) in an ordered index with subtree sums. A kernel looks at the number of negative weights,
which the index keeps, and loops over M where there are some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.calculus.expr import PRESENCE, Cond, Expr, Lift, MapRef, Sum, factors_of
from viewlet.calculus.scope import all_names
from viewlet.functions import Apply, Ref, ScalarExpr, free_variables
from viewlet.kernels.monotone import CONSTANT, RISES, Test, arithmetic, tests_of
from viewlet.kernels.recognize import bound_of
from viewlet.program.ir import Map
from viewlet.schema import Physical

Names = frozenset[str]


@dataclass(frozen=True)
class Bound:
    """key operator scalar"""

    operator: str
    scalar: ScalarExpr

    @property
    def upper(self) -> bool:
        """Whether it bounds the key from above."""
        return self.operator[0] == "<"


@dataclass(frozen=True)
class KeyTest:
    """A test of the key `variable` that holds up to some key (`upper`) or from some key on.

    `holds` is False where the test must not be true.
    """

    scalar: ScalarExpr
    variable: str
    upper: bool
    holds: bool = True


@dataclass(frozen=True)
class Beyond:
    """Sums of a map over the keys beyond p, and tests of them that turn at the same border.

    `sums` are variables with the value columns that they add up, `order` is q, `operator` what
    stands between q and p. `rises`: the tests hold where the sums are large.
    """

    map: str
    keys: tuple[str, ...]
    order: str
    operator: str
    sums: tuple[tuple[str, str], ...]
    tests: tuple[ScalarExpr, ...]
    rises: bool

    @property
    def upper(self) -> bool:
        """Whether the tests hold up to some key: large sums lie before it for q > p."""
        return self.rises == (self.operator[0] == ">")

    @property
    def inputs(self) -> Names:
        """What must be bound before the border can be keys."""
        keys = frozenset(self.keys) - {self.order}
        return keys.union(*map(free_variables, self.tests)) - {name for name, _ in self.sums}


@dataclass(frozen=True)
class RangeShape:
    """M[g, p] over a range of p; `used` are the factors that say which."""

    order: str
    bounds: tuple[Bound | KeyTest | Beyond, ...]
    outside: bool
    used: tuple[Expr, ...]
    remaining: tuple[Expr, ...]


def range_shape(
    atom: MapRef, others: tuple[Expr, ...], bound: Names, needed: Names, maps: Mapping[str, Map]
) -> RangeShape | None:
    """How the factors beside an atom restrict it to a range of one of its unbound keys.

    None where they do not, or where something else needs the keys or the nested sums.
    """
    free = frozenset(atom.keys) - bound
    if maps[atom.name].buffer or not free or free & needed:
        return None
    if len(set(atom.keys)) < len(atom.keys):
        return None
    lifts: dict[str, RangeSum] = {}
    conditions: list[ScalarExpr] = []
    used: list[Expr] = []
    remaining: list[Expr] = []
    for other in others:
        if not all_names(other) & (free | lifts.keys()):
            remaining.append(other)
            continue
        used.append(other)
        if isinstance(other, Cond):
            conditions.append(other.scalar)
            continue
        nested = range_sum_of(other, free, bound, maps) if isinstance(other, Lift) else None
        if nested is None or not isinstance(other, Lift) or other.variable in needed | bound:
            return None
        lifts[other.variable] = nested
    if not conditions:
        return None
    restriction = _bounds(conditions, free, lifts, bound)
    if restriction is None:
        return None
    orders, bounds, outside = restriction
    if len(orders) != 1 or len({b.upper for b in bounds}) < len(bounds):
        return None
    order = orders.pop()
    slot = maps[atom.name].keys[atom.keys.index(order)].slot
    if slot.nullable or not all(_comparable(b, slot.physical, maps) for b in bounds):
        return None
    return RangeShape(order, bounds, outside, tuple(used), tuple(remaining))


@dataclass(frozen=True)
class RangeSum:
    """Sum[](N[h, q].d * {q > p})"""

    atom: MapRef
    order: str
    operator: str
    beyond: str


def range_sum_of(lift: Lift, free: Names, bound: Names, maps: Mapping[str, Map]) -> RangeSum | None:
    """(s := Sum[](N[h, q].d * {q > p})) -> what it sums up, where p is one of the free variables"""
    body = lift.body
    while isinstance(body, Sum) and frozenset(body.keys) <= bound | free:
        body = body.body
    atoms = [f for f in factors_of(body) if isinstance(f, MapRef)]
    conditions = [f for f in factors_of(body) if isinstance(f, Cond)]
    if len(atoms) != 1 or len(conditions) != 1 or len(factors_of(body)) != 2:
        return None
    (atom,), (condition,) = atoms, conditions
    inner = frozenset(atom.keys) - bound
    if len(inner) != 1 or inner & free or len(set(atom.keys)) < len(atom.keys):
        return None
    key_bound = bound_of(condition, set(inner))
    map = maps[atom.name]
    if key_bound is None or map.buffer or atom.column == PRESENCE:
        return None
    order, operator, scalar = key_bound
    if not isinstance(scalar, Ref) or scalar.name not in free:
        return None
    if map.keys[atom.keys.index(order)].slot.nullable:
        return None
    return RangeSum(atom, order, operator, scalar.name)


def _bounds(
    conditions: list[ScalarExpr], free: Names, lifts: Mapping[str, RangeSum], bound: Names
) -> tuple[set[str], tuple[Bound | KeyTest | Beyond, ...], bool] | None:
    """The keys that are restricted (one, if this is to work), and how."""
    orders: set[str] = set()
    bounds: list[Bound | KeyTest | Beyond] = []
    tests: list[Test] = []
    outside = False
    for condition in conditions:
        names = free_variables(condition)
        if not names <= bound | free | lifts.keys():
            return None
        if names & lifts.keys():
            parts = tests_of(condition, frozenset(lifts), counts=True)
            if parts is None or names & free:
                return None
            tests += parts
            continue
        orders |= names & free
        simple = bound_of(Cond(condition), set(free))
        if simple is not None:
            bounds.append(Bound(simple[1], simple[2]))
            continue
        gap = _gap(condition, names & free)
        if gap is not None and len(conditions) == 1:
            outside = True
            bounds += gap
            continue
        turns = tests_of(condition, names & free)
        if turns is None or len(names & free) != 1:
            return None
        (order,) = names & free
        bounds += [KeyTest(t.scalar, order, t.trend != RISES) for t in turns]
    if lifts:
        beyond = _beyond(tests, lifts)
        if beyond is None:
            return None
        bounds += beyond
        orders |= {nested.beyond for nested in lifts.values()}
    return orders, tuple(bounds), outside


def _gap(condition: ScalarExpr, names: Names) -> list[KeyTest] | None:
    """{p below a border or above another} -> the tests that both fail in between"""
    if not isinstance(condition, Apply) or condition.function != "or" or len(names) != 1:
        return None
    (order,) = names
    borders = []
    for part in condition.arguments:
        tests = tests_of(part, names)
        if tests is None or len(tests) != 1 or tests[0].trend == CONSTANT:
            return None
        borders.append(KeyTest(part, order, upper=tests[0].trend == RISES, holds=False))
    return borders if len({test.upper for test in borders}) == len(borders) == 2 else None


def _beyond(tests: list[Test], lifts: Mapping[str, RangeSum]) -> list[Beyond] | None:
    """Tests by the tree that answers them and the way in which they turn."""
    groups: dict[bool, list[ScalarExpr]] = {}
    for test in tests:
        # A test without a nested sum holds everywhere or nowhere, so it may go with any other.
        groups.setdefault(test.trend == RISES, []).append(test.scalar)
    beyonds = []
    for rises, scalars in groups.items():
        names = frozenset[str]().union(*map(free_variables, scalars))
        sums = [(name, nested) for name, nested in lifts.items() if name in names]
        if not sums:
            return None
        first = sums[0][1]
        if any(_range_of(n) != _range_of(first) for _, n in sums):
            return None
        beyonds.append(
            Beyond(
                first.atom.name,
                first.atom.keys,
                first.order,
                first.operator,
                tuple((name, nested.atom.column) for name, nested in sums),
                tuple(scalars),
                rises,
            )
        )
    return beyonds


def _range_of(nested: RangeSum) -> tuple[object, ...]:
    """What is summed over which range, whatever the order variable is called."""
    keys = tuple("" if key == nested.order else key for key in nested.atom.keys)
    return nested.atom.name, keys, nested.operator, nested.beyond


def _comparable(
    bound: Bound | KeyTest | Beyond, physical: Physical, maps: Mapping[str, Map]
) -> bool:
    if isinstance(bound, KeyTest):
        return physical in (Physical.INT, Physical.FLOAT) and arithmetic(bound.scalar)
    if isinstance(bound, Beyond):
        if not all(map(arithmetic, bound.tests)):
            return False
        slot = maps[bound.map].keys[bound.keys.index(bound.order)].slot
        return slot.physical is physical
    return True
