"""The rows that windows are over, and those rows with the windows' values beside them.

    W[row]          := Sum[row](FROM and WHERE, or the groups)
    N[row, p]       := Sum[row, p](Exists(W) * (b := rows before) * (n := W) * (i := up to n)
                                   * (p := b + i))                     only where positions count
    D[row, values]  := Sum[row, values](W * (v := sum over other rows of W) * ...)

Each is an inner view that is made from the one before. When W changes, the rows of D in the
partitions that changed are replaced, or those of them that are not before the first change, where
the values look at nothing that comes later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from viewlet.calculus.expr import (
    PRESENCE,
    Atom,
    Cond,
    Each,
    Expr,
    MapRef,
    NestedValue,
    assign,
    cond,
    exists_of,
    extreme,
    lift,
    product_of,
    sum_of,
    sum_over,
    walk,
)
from viewlet.calculus.query import COUNT, InnerView
from viewlet.calculus.rewrite import rename
from viewlet.calculus.scope import all_names, inputs
from viewlet.frontend.context import Lowering
from viewlet.frontend.products import Branch, Variables, product
from viewlet.frontend.types import Typed
from viewlet.functions import Apply, Const, Ref, ScalarExpr, apply
from viewlet.schema import BIGINT, BOOLEAN, Kind, Type


@dataclass(frozen=True)
class OrderKey:
    """A variable that orders rows, never NULL."""

    variable: str
    descending: bool = False

    @property
    def before(self) -> str:
        """other OPERATOR this: what rows before have."""
        return ">" if self.descending else "<"


@dataclass(frozen=True)
class Narrowed:
    """Rows before the first change stay: those whose variable is past the edge are replaced.

    `reach`: how far before the edge values look ahead.
    """

    key: OrderKey
    reach: int = 0


@dataclass(frozen=True)
class Rows:
    """Rows under the names of their columns: an inner view, or an expression where they depend on
    what is outside and cannot be one."""

    keys: tuple[str, ...]
    expr: Expr
    name: str | None

    def copy(self, variables: Variables, same: Collection[str]) -> tuple[Expr, dict[str, str]]:
        """Other rows of the same kind, under fresh names but for those that are the same."""
        named = all_names(self.expr).union(self.keys)  # an expression that is 0 names nothing
        local = named - inputs(self.expr) - frozenset(same)
        names = {
            name: variables.fresh(
                name,
                nullable=variables.nullable.get(name, False),
                double=name in variables.doubles,
            )
            for name in sorted(local)
        }
        return rename(self.expr, names), names

    def branch(
        self, variables: Variables, same: Collection[str], *factors: Expr
    ) -> tuple[Branch, dict[str, str]]:
        """A copy as a branch in which the rows' names mean those of the copy."""
        expr, names = self.copy(variables, same)
        bindings: dict[str, ScalarExpr] = {old: Ref(new) for old, new in names.items()}
        return Branch((expr, *factors), bindings), names


def inner_rows(lowering: Lowering, keys: tuple[str, ...], body: Expr) -> Rows:
    """The rows of a body as an inner view, if they can be one."""
    if inputs(body) or not any(isinstance(node, Atom) for node in walk(body)):
        return Rows(keys, body, None)
    view = InnerView(f"rows_{len(lowering.inner) + 1}", keys, body)
    lowering.inner.append(view)
    return Rows(keys, MapRef(view.name, COUNT, keys), view.name)


def made_rows(
    lowering: Lowering,
    source: Rows,
    partition: Sequence[str],
    factors: Iterable[Expr],
    values: Sequence[str],
    narrowed: Narrowed | None,
    *,
    is_once: bool = False,
    recomputed: str = "",
    touched: Expr | None = None,
) -> Rows:
    """Rows with further values; `is_once`: the factors say how often, and not the source."""
    keys = (*source.keys, *dict.fromkeys(values))
    rows = exists_of(source.expr) if is_once else source.expr
    body = product((rows, *factors))
    return made_from(lowering, source, partition, keys, body, narrowed, recomputed, touched)


def made_from(
    lowering: Lowering,
    source: Rows,
    partition: Sequence[str],
    keys: tuple[str, ...],
    body: Expr,
    narrowed: Narrowed | None = None,
    recomputed: str = "",
    touched: Expr | None = None,
) -> Rows:
    """What a body over the rows of a source gives; a change of those touches their partitions, if
    nothing else is said."""
    body = sum_over(keys, body)
    if source.name is None:
        return Rows(keys, body, None)
    change = f"change_of_{source.name}"
    if touched is None:
        touched = _touched(lowering.variables, source, change, partition, narrowed)
    name = f"window_{len(lowering.inner) + 1}"
    lowering.inner.append(InnerView(name, keys, body, source.name, change, touched, recomputed))
    return Rows(keys, MapRef(name, COUNT, keys), name)


def _touched(
    variables: Variables,
    source: Rows,
    change: str,
    partition: Sequence[str],
    narrowed: Narrowed | None,
) -> Expr:
    """Exists(Sum[g](ΔW)) * (edge := min o in Sum[g, o](ΔW)) * {o >= edge}"""
    rows, names = source.copy(variables, partition)
    assert isinstance(rows, MapRef)
    rows = MapRef(change, PRESENCE, rows.keys)
    changed = exists_of(sum_over(partition, rows))
    if narrowed is None:
        return changed
    key = narrowed.key
    rows, names = source.copy(variables, partition)
    assert isinstance(rows, MapRef)
    rows = MapRef(change, PRESENCE, rows.keys)
    edge, target = variables.fresh("edge", nullable=True), names[key.variable]
    kind, operator = ("max", "<=") if key.descending else ("min", ">=")
    first = extreme(edge, kind, target, sum_over((*partition, target), rows))
    bound: ScalarExpr = Ref(edge)
    if narrowed.reach:
        bound = apply("+" if key.descending else "-", bound, Const(narrowed.reach))
    return product_of(changed, first, cond(apply(operator, Ref(key.variable), bound)))


def others(
    variables: Variables, source: Rows, partition: Sequence[str], order: Sequence[OrderKey]
) -> list[Branch]:
    """Rows before: equal in some order keys, before in the next one, a branch for each."""
    branches = []
    for at, key in enumerate(order):
        same = (*partition, *(k.variable for k in order[:at]))
        branch, names = source.branch(variables, same)
        test = Apply(key.before, (Ref(names[key.variable]), Ref(key.variable)))
        branches.append(Branch((*branch.factors, Cond(test)), branch.bindings))
    return branches


def peers(
    variables: Variables, source: Rows, partition: Sequence[str], order: Sequence[OrderKey]
) -> Branch:
    """Rows that are equal in all order keys."""
    return source.branch(variables, (*partition, *(k.variable for k in order)))[0]


def counted(partition: Sequence[str], shown: Iterable[str], branches: Iterable[Branch]) -> Expr:
    """How many rows some branches have."""
    keys = (*partition, *shown)
    return sum_of(*(sum_over(keys, product(branch.factors)) for branch in branches))


def numbered(
    lowering: Lowering,
    source: Rows,
    partition: Sequence[str],
    orders: Sequence[tuple[str, Sequence[OrderKey]]],
    ties: Sequence[str],
    most: dict[str, int],
    extra: Sequence[Expr] = (),
    extra_values: Sequence[str] = (),
    narrowed: Narrowed | None = None,
    *,
    is_unique: bool,
    recomputed: str = "",
) -> Rows:
    """Rows with their positions in some orders, equal ones after each other.

    `ties` decide between rows that are equal in an order, and leave none but copies of one row.
    `most`: the positions up to which rows are wanted.
    """
    variables = lowering.variables
    factors: list[Expr] = []
    copy = variables.fresh("copy")
    if not is_unique:
        count = variables.fresh("copies")
        factors += [lift(count, source.expr), Each(copy, Ref(count))]
    for position, order in orders:
        keys, rest = _with_first_tie(variables, order, [t for t in ties if t not in partition])
        branches = others(variables, source, partition, keys)
        if rest:
            branch, names = source.branch(variables, (*partition, *(key.variable for key in keys)))
            test = _lexically_before(variables, rest, names)
            branches.append(Branch((*branch.factors, Cond(test)), branch.bindings))
        if position in most and keys:
            factors += at_most_before(variables, source, partition, keys[0], most[position])
        before = variables.fresh("before")
        factors.append(lift(before, counted(partition, (key.variable for key in keys), branches)))
        if position in most:
            factors.append(cond(apply("<", Ref(before), Const(most[position]))))
        step: ScalarExpr = Const(1) if is_unique else Ref(copy)
        factors.append(assign(position, apply("+", Ref(before), step)))
        if position in most and not is_unique:
            factors.append(cond(apply("<=", Ref(position), Const(most[position]))))
    values = [position for position, _ in orders] + list(extra_values)
    return made_rows(
        lowering,
        source,
        partition,
        [*factors, *extra],
        values,
        narrowed,
        is_once=not is_unique,
        recomputed=recomputed,
    )


def at_most_before(
    variables: Variables, source: Rows, partition: Sequence[str], key: OrderKey, most: int
) -> list[Expr]:
    """(n := rows before by the first order key alone) * {n < most}, by which a loop in its order
    ends."""
    ahead = variables.fresh("ahead")
    branches = others(variables, source, partition, [key])
    body = counted(partition, (key.variable,), branches)
    return [lift(ahead, body), cond(apply("<", Ref(ahead), Const(most)))]


def _with_first_tie(
    variables: Variables, order: Sequence[OrderKey], ties: Sequence[str]
) -> tuple[list[OrderKey], list[str]]:
    """The first tie that cannot be NULL orders too, so that equal rows are found by a key."""
    known = {key.variable for key in order}
    rest = [name for name in ties if name not in known]
    first = next((n for n in rest if not variables.nullable.get(n, True)), None)
    if first is None:
        return list(order), rest
    rest.remove(first)
    return [*order, OrderKey(first)], rest


def _lexically_before(
    variables: Variables, ties: Sequence[str], names: dict[str, str]
) -> ScalarExpr:
    """(a', b') < (a, b), NULL last"""
    test: ScalarExpr | None = None
    for name in reversed(ties):
        other, own = Ref(names[name]), Ref(name)
        less = apply("is_true", apply("<", other, own))
        if variables.nullable.get(name, True) or name in variables.nulled:
            later = apply("and", apply("is_null", own), apply("not", apply("is_null", other)))
            less = apply("or", less, later)
        else:
            less = apply("<", other, own)
        if test is not None:
            less = apply("or", less, apply("and", apply("==", other, own), test))
        test = less
    assert test is not None
    return test


def lifted(factors: Iterable[Expr]) -> list[str]:
    """The variables that nested values bind."""
    return [factor.variable for factor in factors if isinstance(factor, NestedValue)]


def as_columns(names: Iterable[str]) -> list[tuple[str, Typed]]:
    """Variables as columns; of them only the values count, so that their type is that of none."""
    return [(name, Typed(Ref(name), BOOLEAN)) for name in names]


_EMPTY: Mapping[Kind, ScalarExpr] = {
    Kind.VARCHAR: Const(""),
    Kind.DOUBLE: Const(0.0),
    Kind.BOOLEAN: Const(False),
}
"""What an order key is where it is NULL and another key says so."""

_SMALL_DIGITS = 18


def order_keys(
    variables: Variables,
    value: Typed,
    descending: bool,
    nulls_first: bool,
    *,
    is_shifted: bool = False,
) -> list[tuple[str, Typed, bool]]:
    """An order as keys that are never NULL, each with its direction.

    NULL is a number beyond all others where the type has one, unless the key is added to; else a
    key of its own says so.
    """
    if not variables.can_be_null(value.scalar):
        return [("order_key", value, descending)]
    if _is_small(value.type) and not is_shifted:
        edge = 2**62 if nulls_first == descending else -(2**62)
        known = apply("coalesce", value.scalar, Const(edge))
        return [("order_key", Typed(known, BIGINT), descending)]
    absent = apply("case", apply("is_null", value.scalar), Const(1), Const(0))
    return [
        ("is_absent", Typed(absent, BIGINT), nulls_first),
        ("order_key", Typed(never_null(value), value.type), descending),
    ]


def never_null(value: Typed) -> ScalarExpr:
    """The value, and some other one where it is NULL."""
    return apply("coalesce", value.scalar, _EMPTY.get(value.type.kind, Const(0)))


def _is_small(type: Type) -> bool:
    """Whether no value is as large as 2**62."""
    if type.kind is Kind.DECIMAL:
        return type.precision <= _SMALL_DIGITS
    return type.kind in (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP)
