"""Least and greatest keys as loops: a walk from one end of an ordered index where there is one."""

from __future__ import annotations

from viewlet.calculus.expr import (
    PRESENCE,
    Cond,
    Extreme,
    Lift,
    MapRef,
    Sum,
    factors_of,
    terms_of,
)
from viewlet.calculus.scope import NONE, outputs
from viewlet.calculus.text import to_text
from viewlet.calculus.typing import Slot, scalar_slot, variable_slots
from viewlet.errors import ProgramError
from viewlet.functions import Apply, Ref, ScalarExpr, free_variables
from viewlet.kernels.atoms import build_atom
from viewlet.kernels.builder import Builder, Cursor, NodeBuilders, bind
from viewlet.kernels.loop_nodes import (
    BindKey,
    Block,
    IfMonotone,
    IfTotal,
    Let,
    NotNull,
    StartExtreme,
    TakeBorder,
    TakeNearer,
    Walk,
)
from viewlet.kernels.nested_values import build_groups
from viewlet.kernels.range_nodes import border_node
from viewlet.kernels.ranges import Beyond, range_sum_of
from viewlet.kernels.recognize import column_position, only_atom, ranges_over
from viewlet.kernels.scalar_source import Variable
from viewlet.kernels.totals import build_total
from viewlet.schema import Physical
from viewlet.storage.columns import COUNT, NEGATIVES


def build_extreme(builder: Builder, expr: Extreme, cursor: Cursor) -> Block:
    """(x := min p in q): the candidates one after the other, then the rest with the best."""
    inner = {name: v for name, v in cursor.scope.items() if name != expr.target}
    free = outputs(expr.body) - inner.keys() - {expr.target}
    if free:
        raise ProgramError(f"extreme over unbound {', '.join(sorted(free))}: {to_text(expr)}")
    slots = variable_slots(expr.body, builder.signatures, {n: v.slot for n, v in inner.items()})
    slot = Slot(slots[expr.target].physical, nullable=True)

    def search(best: Variable) -> Block:
        choice = _first_beyond(builder, expr, inner, best)
        return [StartExtreme(best), *(choice or _candidates(builder, expr, inner, best))]

    return bind(builder, expr.variable, slot, cursor, search)


def _first_beyond(
    builder: Builder, expr: Extreme, scope: dict[str, Variable], best: Variable
) -> Block | None:
    """(x := min p in M[g, p].c * (n := Sum[](M[g, q].c * {q <= p})) * {n >= k}) by one descent

    The least key up to which there are k: a percentile. None where the body is something else.
    """
    body, bound = expr.body, frozenset(scope)
    while isinstance(body, Sum):
        body = body.body
    factors = factors_of(body)
    atoms = [f for f in factors if isinstance(f, MapRef)]
    lifts = [f for f in factors if isinstance(f, Lift)]
    tests = [f for f in factors if isinstance(f, Cond)]
    if expr.kind != "min" or [len(atoms), len(lifts), len(tests), len(factors)] != [1, 1, 1, 3]:
        return None
    (atom,), (lift,), (test,) = atoms, lifts, tests
    sum = range_sum_of(lift, frozenset((expr.target,)), bound, builder.loops.maps)
    if sum is None:
        return None
    same = tuple(expr.target if key == sum.order else key for key in sum.atom.keys)
    is_same = (sum.atom.name, sum.atom.column, same) == (atom.name, atom.column, atom.keys)
    map = builder.loops.maps[atom.name]
    slot = map.keys[atom.keys.index(expr.target)].slot
    is_number = slot.physical in (Physical.INT, Physical.FLOAT)
    if sum.operator != "<=" or not is_same or not is_number:
        return None
    compared = _compared(test.scalar, lift.variable)
    if compared is None or not free_variables(compared) <= bound:
        return None
    slots = {name: variable.slot for name, variable in scope.items()}
    needed_count = Variable(builder.name("wanted"), scalar_slot(compared, slots))
    inner = {**scope, needed_count.name: needed_count}
    beyond = Beyond(
        sum.atom.name,
        sum.atom.keys,
        sum.order,
        sum.operator,
        ((lift.variable, sum.atom.column),),
        (Apply(">=", (Ref(lift.variable), Ref(needed_count.name))),),
        True,
    )
    border = border_node(builder, beyond, inner)
    slow = _candidates(builder, expr, scope, best)
    fast: Block = [
        Let(needed_count, compared, dict(scope)),
        border,
        TakeBorder(best, border.name, slow),
    ]
    column = column_position(map, atom.column)
    order = sum.atom.keys.index(sum.order)
    parts = tuple(i for i in range(len(sum.atom.keys)) if i != order)
    index, positions = builder.tree(map.name, parts, order, (column, NEGATIVES))
    key = [scope[sum.atom.keys[i]] for i in parts]
    return [IfMonotone(map.name, index, key, positions, fast, slow)]


def _compared(test: ScalarExpr, variable: str) -> ScalarExpr | None:
    """n >= k, k <= n  ->  k"""
    if not isinstance(test, Apply) or test.function not in (">=", "<="):
        return None
    left, right = test.arguments if test.function == ">=" else test.arguments[::-1]
    return right if left == Ref(variable) and variable not in free_variables(right) else None


def _candidates(
    builder: Builder, expr: Extreme, scope: dict[str, Variable], best: Variable
) -> Block:
    atoms = [only_atom(term) for term in terms_of(expr.body)]
    if not all(ranges_over(atom, expr.target, scope) for atom in atoms):
        return build_groups(
            builder,
            expr.body,
            (expr.target,),
            scope,
            lambda inner: _better(best, inner[expr.target], expr, None),
        )
    block: Block = []
    for atom in atoms:
        assert atom is not None
        block += _candidates_of(builder, atom, expr, scope, best, is_only=len(atoms) == 1)
    return block


def _candidates_of(
    builder: Builder,
    atom: MapRef,
    expr: Extreme,
    scope: dict[str, Variable],
    best: Variable,
    *,
    is_only: bool,
) -> Block:
    """The keys of one map, those whose weights add up to zero over all terms left out."""
    map = builder.loops.maps[atom.name]
    position = atom.keys.index(expr.target)
    is_ordered = not map.buffer and not map.keys[position].slot.nullable and atom.column != PRESENCE
    stop = builder.name("stop") if is_ordered else None

    def check(inner: dict[str, Variable]) -> Block:
        block = _better(best, inner[expr.target], expr, stop)
        if is_only:
            return block
        total = build_total(builder, expr.body, inner)
        return [total, IfTotal(total.name, total.physical, block)]

    if stop is None:
        return build_atom(builder, atom, Cursor(scope, NONE, (), lambda inner, _: check(inner)))
    parts = tuple(i for i in range(len(atom.keys)) if i != position)
    column = column_position(map, atom.column)
    index, (count_position,) = builder.tree(map.name, parts, position, (column, COUNT))
    record = builder.name("at")
    target = Variable(builder.name(expr.target), map.keys[position].slot)
    inner = {**scope, expr.target: target}
    key = [scope[atom.keys[i]] for i in parts]
    body: Block = [BindKey(target, map.name, position, record), *check(inner)]
    greatest = expr.kind == "max"
    return [Walk(map.name, index, count_position, record, key, greatest, stop, body)]


def _better(best: Variable, candidate: Variable, expr: Extreme, stop: str | None) -> Block:
    block: Block = [TakeNearer(best, candidate, expr.kind == "max", stop)]
    return [NotNull(candidate, block)] if candidate.slot.nullable else block


BUILDERS: NodeBuilders = {Extreme: build_extreme}
