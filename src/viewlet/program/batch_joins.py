"""A batch that meets itself is added up once, and looked up (thesis 3.4.3).

    q[] += ΔR(a, b) * ΔR(b, c)
->
    d_R_1[b] += ΔR(b, c)
    q[] += ΔR(a, b) * d_R_1[b]

The thesis pre-aggregates every batch in this way. Where the batch is met once that saves probes of
maps only if its rows fall together, and costs a buffer: measured, it gains little on one query of
TPC-H (Q19) and loses on others (Q3, Q10), so that it is not done here. A distributed program does
it before a batch moves, where it saves messages (`distributed/transformers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from viewlet.calculus.expr import (
    ONE,
    Delta,
    MapRef,
    factors_of,
    product_of,
)
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import Names, visible
from viewlet.calculus.typing import variable_slots
from viewlet.names import FreshNames
from viewlet.program.ir import (
    KeyColumn,
    Map,
    Program,
    Statement,
    Trigger,
    ValueColumn,
)
from viewlet.schema import Physical

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
        buffers = _BatchBuffers(program, trigger.relation, names)
        lookups = [buffers.look_up_later_deltas(s) for s in trigger.statements]
        maps.extend(buffers.maps())
        triggers.append(Trigger(trigger.relation, (*buffers.statements(), *lookups)))
    return replace(program, maps=tuple(maps), triggers=tuple(triggers))


@dataclass(frozen=True)
class _Buffer:
    """How often each combination of some columns is in the batch."""

    name: str
    keys: tuple[str, ...]
    delta: Delta

    def map(self, program: Program) -> Map:
        slots = variable_slots(self.delta, program.signatures())
        keys = tuple(KeyColumn(key, slots[key]) for key in self.keys)
        return Map(self.name, keys, (ValueColumn(COUNT, Physical.INT),), buffer=True)

    def statement(self) -> Statement:
        return Statement(self.name, self.keys, "+=", self.delta, ((COUNT, ONE),))


class _BatchBuffers:
    """The buffers of one trigger, shared by its statements."""

    def __init__(self, program: Program, relation: str, names: FreshNames) -> None:
        self._program = program
        self._relation = relation
        self._names = names
        self._buffers: dict[str, tuple[_Buffer, dict[str, str]]] = {}

    def maps(self) -> Iterator[Map]:
        for buffer, _ in self._buffers.values():
            yield buffer.map(self._program)

    def statements(self) -> Iterator[Statement]:
        for buffer, _ in self._buffers.values():
            yield buffer.statement()

    def look_up_later_deltas(self, statement: Statement) -> Statement:
        """The loop with every ΔR but the first as a lookup in a buffer of the batch."""
        factors = list(factors_of(statement.loop))
        positions = [i for i, factor in enumerate(factors) if isinstance(factor, Delta)]
        if len(positions) < 2:
            return statement
        for position in positions[1:]:
            delta = factors[position]
            assert isinstance(delta, Delta)
            others = [factor for i, factor in enumerate(factors) if i != position]
            used = frozenset(statement.keys).union(
                *(visible(factor) for factor in others),
                *(visible(update) for _, update in statement.updates),
            )
            factors[position] = self._lookup(delta, frozenset(delta.variables) & used)
        return replace(statement, loop=schedule(product_of(*factors)))

    def _lookup(self, delta: Delta, used: Names) -> MapRef:
        """ΔR(b, c) of which only b is used  ->  d_R_1[b], for all statements that ask alike"""
        form = canonical(delta, used)
        ordered = sorted(used, key=lambda name: int(form.names[name][1:]))
        identity = f"{[form.names[name] for name in ordered]} {form.text}"
        if identity not in self._buffers:
            number = len(self._buffers) + 1
            name = self._names.fresh(f"d_{self._relation}_batch_{number}")
            canonical_names = {short: variable for variable, short in form.names.items()}
            self._buffers[identity] = _Buffer(name, tuple(ordered), delta), canonical_names
        buffer, canonical_names = self._buffers[identity]
        variables = {canonical_names[short]: name for name, short in form.names.items()}
        keys = tuple(variables[key] for key in buffer.keys)
        return MapRef(buffer.name, COUNT, keys, buffer=True)
