"""A batch that meets itself is added up once, and looked up (thesis 3.4.3).

    q[] += ΔR(a, b) * ΔR(b, c)
->
    d_R_1[b] += ΔR(b, c)
    q[] += ΔR(a, b) * d_R_1[b]

The thesis pre-aggregates every batch in this way. Where the batch is met once that saves probes of
maps only if its rows fall together, and costs a buffer: measured, it gains little on one query of
TPC-H (Q19) and loses on others (Q3, Q10), so that it is not done here. A distributed program does
it before a batch moves, where it saves messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from viewlet.calculus.expr import (
    ONE,
    Delta,
    Expr,
    MapRef,
    factors_of,
    product_of,
)
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import Names, visible
from viewlet.calculus.typing import variable_slots, weight_type
from viewlet.names import FreshNames
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


def join_batches(program: Program) -> Program:
    """q[] += ΔR(a, b) * ΔR(b, c)  ->  d_R_1[b] += ΔR(b, c); q[] += ΔR(a, b) * d_R_1[b]

    A self-join meets the batch with itself. Looked up in a buffer, that costs the batch and its
    matches; as two loops it would cost the batch squared.
    """
    maps = list(program.maps)
    names = program.names()
    triggers = []
    for trigger in program.triggers:
        relation = program.relation(trigger.relation)
        gathered = _Gathered(program, relation, maps, names)
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
        self, program: Program, relation: Relation, maps: list[Map], names: FreshNames
    ) -> None:
        self._program = program
        self._names = names
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
            factors[place] = MapRef(buffer.name, buffer.column(ONE), keys, buffer=True)
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
            name = self._names.fresh(f"d_{self._relation.name}_batch_{number}")
            own = {short: name for name, short in form.names.items()}
            known = self._buffers[identity] = _Buffer(name, ordered, loop, own)
        return known, {name: known.own_names[short] for name, short in form.names.items()}


def _inverse(names: dict[str, str]) -> dict[str, str]:
    return {own: name for name, own in names.items()}
