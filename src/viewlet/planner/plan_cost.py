"""What a program is expected to cost: the records that one changed row of each relation touches.

A statement's loop is followed from left to right, as the kernels run it. ΔR is one row, a buffer
has as many records as the statements before it put there, a lookup meets one record and a slice
some, by the guesses of statistics.py. Both plans of a view are measured by the same rule, and their
sum is weighted by how often each relation changes. What is recomputed is left out, being the same
in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.calculus.expr import (
    Add,
    Cond,
    Delta,
    Expr,
    Extreme,
    MapRef,
    Nested,
    NestedValue,
    Sum,
    factors_of,
    is_buffer,
    terms_of,
    walk,
)
from viewlet.calculus.scope import NONE, Names, outputs
from viewlet.planner.statistics import FAN_OUT, LARGEST, LEAST_SELECTIVITY, SELECTIVITY
from viewlet.program.ir import Program, Statement
from viewlet.program.keys import Keys

PER_EXTREME = 4.0
"""The way down an ordered index."""
PER_STATEMENT = 0.1
"""A statement costs a little even where it touches nothing."""


@dataclass(frozen=True)
class PlanEstimate:
    """Maps and statements of a program, and the records that one row of each relation touches."""

    maps: int
    statements: int
    touched: Mapping[str, float]
    total: float
    """The sum over relations, each weighted by its rate."""


def estimate(program: Program, rates: Mapping[str, float]) -> PlanEstimate:
    """Costs of a program whose relations change at given rates."""
    keys = Keys(program)
    touched = {}
    for trigger in program.triggers:
        walker = RecordCounter(keys)
        touched[trigger.relation] = sum(walker.statement(s) for s in trigger.statements)
    weights = {name: rates.get(name, 1.0) for name in touched}
    total_weight = sum(weights.values()) or 1.0
    total = sum(weights[name] * count for name, count in touched.items()) / total_weight
    statements = sum(len(trigger.statements) for trigger in program.triggers)
    return PlanEstimate(len(program.state), statements, touched, total)


class RecordCounter:
    """Counts the records of one trigger; buffers grow as its statements run."""

    def __init__(self, keys: Keys, sizes: Mapping[str, float] | None = None) -> None:
        """`sizes`: the records of maps, where they are known."""
        self._keys = keys
        self._sizes = sizes
        self._buffers: dict[str, float] = {}

    def statement(self, statement: Statement) -> float:
        """The records that one run of a statement touches."""
        if statement.op == ":=" and self._sizes is None:
            return PER_STATEMENT
        touched, rows = self._loop(statement.loop, NONE)
        for _, update in statement.updates:
            touched += rows * self._lookups(update)
        self._buffers[statement.target] = self._buffers.get(statement.target, 0.0) + rows
        return PER_STATEMENT + touched + rows

    def _lookups(self, update: Expr) -> float:
        return float(len({(n.name, n.keys) for n in walk(update) if isinstance(n, MapRef)}))

    def _loop(self, loop: Expr, bound: Names) -> tuple[float, float]:
        """(records touched, rows that come out)"""
        touched, rows = 0.0, 1.0
        for factor in factors_of(loop):
            matched_rows, out = self._factor(factor, bound)
            touched += rows * matched_rows
            rows *= out
            bound |= outputs(factor)
        return touched, rows

    def _factor(self, factor: Expr, bound: Names) -> tuple[float, float]:
        """(records touched, rows that come out) for each row that comes in."""
        if isinstance(factor, Cond):
            return 0.0, SELECTIVITY
        if isinstance(factor, Delta):
            return 1.0, 1.0
        if isinstance(factor, MapRef):
            matched_rows = self._matched_rows(factor, bound)
            return matched_rows, matched_rows * max(
                LEAST_SELECTIVITY, SELECTIVITY ** self._keys.filters(factor)
            )
        if isinstance(factor, Add):
            parts = [self._loop(term, bound) for term in terms_of(factor)]
            rows = max(part[1] for part in parts) if outputs(factor) - bound else 1.0
            return sum(part[0] for part in parts), rows
        if isinstance(factor, Extreme):
            return PER_EXTREME, 1.0
        if isinstance(factor, Sum | Nested):
            touched, rows = self._loop(factor.body, bound)
            single = isinstance(factor, NestedValue) or outputs(factor) <= bound
            return touched, 1.0 if single else rows
        return 0.0, 1.0

    def _matched_rows(self, factor: MapRef, bound: Names) -> float:
        if outputs(factor) <= bound:
            return 1.0
        if is_buffer(factor) and not outputs(factor) & bound:
            return self._buffers.get(factor.name, 1.0)
        if self._keys.is_single(factor, bound):
            return 1.0
        size = LARGEST if self._sizes is None else self._sizes.get(factor.name, LARGEST)
        if outputs(factor) & bound:
            return FAN_OUT if self._sizes is None else min(FAN_OUT, max(size, 1.0))
        return size if factor.keys else 1.0
