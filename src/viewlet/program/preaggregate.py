"""Batch pre-aggregation: what a statement needs of the batch, added up once (thesis 3.4.3).

    m[a] += ΔR(a, b, c) * {b > 3} * n[a, d] | total: c
->
    d_R[a] += ΔR(a, b, c) * {b > 3} | total: c
    m[a] += d_R[a].* * n[a, d] | total: d_R[a].total

It pays where rows of the batch fall together, so that maps are probed once for many rows, and never
for a statement that only writes. A relation's declared key tells: rows fall together when the
columns that are left are a part of the key, or none of it. Single-tuple triggers have nothing to
add up and are made from the programme as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from viewlet.calculus.expr import (
    BUFFER,
    ONE,
    PRESENCE,
    Assign,
    Cond,
    Delta,
    Exists,
    Expr,
    MapRef,
    factors_of,
    product_of,
    walk,
)
from viewlet.calculus.rewrite import canonical, is_scalar_sum, rename
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import Names, inputs, visible
from viewlet.calculus.typing import variable_slots, weight_type
from viewlet.program.check import check
from viewlet.program.ir import (
    KeyColumn,
    Map,
    Program,
    Statement,
    Trigger,
    ValueColumn,
)
from viewlet.schema import Relation

COUNT = "count"


def preaggregate(program: Program) -> Program:
    """The programme with a buffer before every statement that gains from one."""
    maps = list(program.maps)
    triggers = []
    for trigger in program.triggers:
        gathered = _Gathered(program, program.relation(trigger.relation), maps)
        rewritten = [gathered.rewrite(statement) for statement in trigger.statements]
        triggers.append(Trigger(trigger.relation, (*gathered.statements(), *rewritten)))
    return check(replace(program, maps=tuple(maps), triggers=tuple(triggers)))


def join_batches(program: Program) -> Program:
    """q[] += ΔR(a, b) * ΔR(b, c)  ->  d_R_1[b] += ΔR(b, c); q[] += ΔR(a, b) * d_R_1[b]

    A self-join meets the batch with itself. Looked up in a buffer, that costs the batch and its
    matches; as two loops it would cost the batch squared.
    """
    maps = list(program.maps)
    triggers = []
    for trigger in program.triggers:
        gathered = _Gathered(program, program.relation(trigger.relation), maps, "batch_")
        rewritten = [gathered.look_up_later_deltas(s) for s in trigger.statements]
        triggers.append(Trigger(trigger.relation, (*gathered.statements(), *rewritten)))
    return replace(program, maps=tuple(maps), triggers=tuple(triggers))


@dataclass
class _Buffer:
    """One buffer of a trigger: its loop over the batch and the columns that it adds up."""

    name: str
    keys: tuple[str, ...]
    loop: Expr
    own_names: dict[str, str]
    columns: dict[str, Expr] = field(default_factory=dict)

    def column(self, value: Expr) -> str:
        for name, known in self.columns.items():
            if known == value:
                return name
        name = COUNT if not factors_of(value) else f"sum_{len(self.columns) + 1}"
        self.columns[name] = value
        return name


class _Gathered:
    """The buffers of one trigger, shared by its statements."""

    def __init__(
        self, program: Program, relation: Relation, maps: list[Map], stem: str = ""
    ) -> None:
        self._program = program
        self._stem = stem
        self._relation = relation
        self._maps = maps
        self._buffers: dict[str, _Buffer] = {}

    def statements(self) -> Iterable[Statement]:
        signatures = self._program.signatures()
        for buffer in self._buffers.values():
            slots = variable_slots(buffer.loop, signatures)
            columns = tuple(
                ValueColumn(name, weight_type(value, signatures, slots))
                for name, value in buffer.columns.items()
            )
            keys = tuple(KeyColumn(key, slots[key]) for key in buffer.keys)
            self._maps.append(Map(buffer.name, keys, columns, buffer=True))
            updates = tuple(buffer.columns.items())
            yield Statement(buffer.name, buffer.keys, "+=", buffer.loop, updates)

    def rewrite(self, statement: Statement) -> Statement:
        factors = factors_of(statement.loop)
        deltas = [f for f in factors if isinstance(f, Delta)]
        if len(deltas) != 1 or _uses_batch_elsewhere(statement, deltas[0]):
            return statement
        own = frozenset(deltas[0].variables)
        filters = [f for f in factors if _is_filter(f, own)]
        rest = [f for f in factors if f is not deltas[0] and f not in filters]
        if not _probes(rest, statement):
            return statement
        values = {c: _split(update, own) for c, update in statement.updates}
        needed = _needed(statement, rest, values.values(), own)
        if not self._falls_together(needed, deltas[0]):
            return statement
        buffer, names = self._buffer(product_of(deltas[0], *filters), needed)
        keys = tuple(_inverse(names)[key] for key in buffer.keys)
        updates = tuple(
            (
                column,
                product_of(MapRef(buffer.name, buffer.column(rename(inner, names)), keys), outer),
            )
            for column, (inner, outer) in values.items()
        )
        loop = schedule(product_of(MapRef(buffer.name, PRESENCE, keys), *rest))
        return replace(statement, loop=loop, updates=updates)

    def look_up_later_deltas(self, statement: Statement) -> Statement:
        """The loop with every ΔR but the first as a lookup in a buffer of the batch."""
        factors = list(factors_of(statement.loop))
        deltas = [f for f in factors if isinstance(f, Delta)]
        for delta in deltas[1:]:
            own = frozenset(delta.variables)
            rest = [f for f in factors if f is not delta]
            elsewhere = frozenset(statement.keys).union(
                *(visible(f) for f in rest), *(visible(u) for _, u in statement.updates)
            )
            buffer, names = self._buffer(delta, own & elsewhere)
            keys = tuple(_inverse(names)[key] for key in buffer.keys)
            place = next(i for i, f in enumerate(factors) if f is delta)
            factors[place] = MapRef(buffer.name, buffer.column(ONE), keys)
        if len(deltas) < 2:
            return statement
        return replace(statement, loop=schedule(product_of(*factors)))

    def _buffer(self, loop: Expr, needed: Names) -> tuple[_Buffer, dict[str, str]]:
        """The buffer over this part of the batch, and its names for the statement's variables."""
        form = canonical(loop, needed)
        ordered = tuple(sorted(needed, key=lambda name: int(form.names[name][1:])))
        identity = f"{[form.names[name] for name in ordered]} {form.text}"
        known = self._buffers.get(identity)
        if known is None:
            number = len(self._buffers) + 1
            name = f"{BUFFER}{self._relation.name}_{self._stem}{number}"
            own = {short: name for name, short in form.names.items()}
            known = self._buffers[identity] = _Buffer(name, ordered, loop, own)
        return known, {name: known.own_names[short] for name, short in form.names.items()}

    def _falls_together(self, needed: Names, delta: Delta) -> bool:
        columns = {
            column
            for column, name in zip(self._relation.names, delta.variables, strict=True)
            if name in needed
        }
        key = set(self._relation.key)
        if not key:
            return len(columns) < len(self._relation.columns)
        return columns < key or not columns & key


def _is_filter(factor: Expr, own: Names) -> bool:
    return isinstance(factor, Cond) and inputs(factor) <= own


def _probes(rest: list[Expr], statement: Statement) -> bool:
    """The statement looks into maps, for its loop or for its values."""
    parts = (*rest, *(update for _, update in statement.updates))
    return any(isinstance(node, MapRef) for part in parts for node in walk(part))


def _uses_batch_elsewhere(statement: Statement, delta: Delta) -> bool:
    parts = (statement.loop, *(update for _, update in statement.updates))
    found = [n for part in parts for n in walk(part) if isinstance(n, Delta)]
    nested = any(isinstance(f, Exists) for f in factors_of(statement.loop) if delta in walk(f))
    return len(found) != 1 or nested


def _split(update: Expr, own: Names) -> tuple[Expr, Expr]:
    """The part of an update that needs the batch's own columns only, and the rest."""
    factors = factors_of(update)
    inner = [f for f in factors if is_scalar_sum(f) and inputs(f) and inputs(f) <= own]
    outer = [f for f in factors if f not in inner]
    return product_of(*inner), product_of(*outer)


def _needed(
    statement: Statement, rest: list[Expr], values: Iterable[tuple[Expr, Expr]], own: Names
) -> Names:
    """The batch's columns that are used outside of its filters and values."""
    used = frozenset(statement.keys).union(*(visible(f) for f in rest))
    for factor in rest:
        if isinstance(factor, Assign):
            used |= inputs(factor)
    for _, outer in values:
        used |= visible(outer)
    return used & own


def _inverse(names: dict[str, str]) -> dict[str, str]:
    return {own: name for name, own in names.items()}
