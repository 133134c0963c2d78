"""Expressions as loops: each row of a right-hand side, and what to do for it.

The builder walks an expression from left to right with the variables bound so far and decides each
access from that alone (paper 000, section 5.2; thesis 4.2):

    all keys of a map bound        Get      one probe of the unique index
    those bound that determine it  Run      neighbors in the unique index, mostly one record
    some bound                     Slice    a chain of the slice index over the bound columns
    none bound                     Scan     all records
    Sum(M[g, p].c * {p < x})       Range    subtree sums of the index by g, ordered by p (ranged)
    (x := min p in M[g, p].c ...)  Walk     the same index from its end (extremes)

Loops are in continuation style: the body of a loop is everything to the right of it, and nothing is
materialized in between. Only Exists and extremes of sums that several rows make up need a buffer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from viewlet.calculus.expr import (
    ONE,
    PRESENCE,
    Add,
    Assign,
    Cond,
    Delta,
    Exists,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    NestedValue,
    Rel,
    Sum,
    Value,
    factors_of,
    product_of,
    terms_of,
    walk,
)
from viewlet.calculus.scope import NONE, all_names, outputs
from viewlet.calculus.text import to_text
from viewlet.calculus.typing import Slot, scalar_slot, variable_slots
from viewlet.errors import ProgramError
from viewlet.functions import Apply, Ref, apply
from viewlet.kernels.builder import Rest
from viewlet.kernels.extremes import ExtremeBuilder
from viewlet.kernels.loop_nodes import (
    AddTo,
    BindKey,
    Block,
    Change,
    ClearBuffer,
    Column,
    Factors,
    Get,
    If,
    IfTotal,
    Let,
    LetTotal,
    MatchKey,
    Named,
    Present,
    Pure,
    Rows,
    Run,
    Scan,
    Slice,
    Total,
    Turn,
    Update,
)
from viewlet.kernels.ranged import RangeBuilder
from viewlet.kernels.recognize import (
    change_of,
    column_position,
    meets_once,
    narrowed,
    next_factor,
    turn_of,
)
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.program.ir import KeyColumn, ValueColumn
from viewlet.schema import Physical
from viewlet.storage.columns import CHAIN, Index

_MOST_TESTS = 16
"""Conditions that stand one inside of the other; more are one condition."""


def _all_of(tests: Sequence[Expr]) -> Expr:
    """{a} * {b} -> {a and b}, which calculus.expr.cond would take apart again"""
    return Cond(apply("and", *(test.scalar for test in tests if isinstance(test, Cond))))


class RowBuilder(ExtremeBuilder, RangeBuilder):
    """Builds the loops of expressions."""

    # Weights.

    def weight(self, expr: Expr, scope: Scope) -> tuple[Block, Factors]:
        """The weight of an expression whose variables are bound, summed out ones aside."""
        if all(isinstance(node, Value | Add | Mul) for node in walk(expr)):
            if expr == ONE:
                return [], ()
            return [], (Pure(expr, dict(scope), self.weight_type(expr, scope)),)
        if isinstance(expr, Mul):
            pure = [f for f in expr.factors if isinstance(f, Value)]
            rest = [f for f in expr.factors if not isinstance(f, Value)]
            free = outputs(product_of(*rest)) - scope.keys()
            if pure and not any(free & all_names(f) for f in pure):
                block, factors = self.weight(product_of(*rest), scope)
                return block, (*self.weight(product_of(*pure), scope)[1], *factors)
        physical = self.weight_type(expr, scope)
        name = self.name("total")
        return [Total(name, physical, self.accumulate(expr, scope, name, physical))], (
            Named(name, physical),
        )

    def accumulate(self, expr: Expr, scope: Scope, name: str, physical: Physical) -> Block:
        def add(inner: dict[str, Variable], factors: Factors) -> Block:
            return [AddTo(name, physical, factors)]

        block: Block = []
        for term in terms_of(expr):
            # Where all keys are bound a projection is just the sum that is being made.
            while isinstance(term, Sum) and frozenset(term.keys) <= scope.keys():
                term = term.body
            if isinstance(term, Add):
                block += self.accumulate(term, scope, name, physical)
            else:
                block += self.rows(term, dict(scope), frozenset(), (), add)
        return block

    # Rows.

    def rows(
        self,
        expr: Expr,
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """For every row of the expression, the rest. `needed` are variables that the rest uses."""
        if isinstance(expr, Value):
            return self._with_weight(expr, scope, factors, rest)
        if isinstance(expr, Cond):
            return [If(expr.scalar, dict(scope), rest(scope, factors))]
        if isinstance(expr, Assign):
            slots = {name: variable.slot for name, variable in scope.items()}
            return self.bind(
                expr.variable,
                scalar_slot(expr.scalar, slots),
                scope,
                lambda variable: [Let(variable, expr.scalar, dict(scope))],
                lambda inner: rest(inner, factors),
            )
        if isinstance(expr, Delta):
            return self._delta(expr, scope, needed, factors, rest)
        if isinstance(expr, MapRef):
            return self.atom(expr, scope, factors, rest)
        if isinstance(expr, Mul):
            return self.product(expr.factors, scope, needed, factors, rest)
        if isinstance(expr, Rel):
            raise ProgramError(f"a trigger reads base relation {expr.name}")
        if not outputs(expr) - scope.keys() and isinstance(expr, Add | Sum):
            turn = turn_of(expr)
            if turn is not None:
                return self._turn(*turn, scope, factors, rest)
            return self._with_weight(expr, scope, factors, rest)
        if isinstance(expr, Add):
            change = change_of(expr)
            if change is not None:
                return self._change(*change, scope, factors, rest)
            # Each term has its own loops; what follows is repeated in each.
            return [n for t in expr.terms for n in self.rows(t, dict(scope), needed, factors, rest)]
        if isinstance(expr, Sum):
            return self._sum(expr, scope, needed, factors, rest)
        if isinstance(expr, Lift):
            return self._lift(expr, scope, factors, rest)
        if isinstance(expr, Exists):
            return self._exists(expr, scope, factors, rest)
        if isinstance(expr, Extreme):
            return self.extreme(expr, scope, factors, rest)
        raise ProgramError(f"no loops for {to_text(expr)}")

    def _with_weight(
        self, expr: Expr, scope: dict[str, Variable], factors: Factors, rest: Rest
    ) -> Block:
        if isinstance(expr, Sum) and not isinstance(expr.body, Value):
            expr = expr.body
        block, weight = self.weight(expr, scope)
        return [*block, *rest(scope, (*factors, *weight))]

    def bind(
        self,
        name: str,
        slot: Slot,
        scope: dict[str, Variable],
        define: Callable[[Variable], Block],
        rest: Callable[[dict[str, Variable]], Block],
    ) -> Block:
        """Bind a name to what `define` computes, or compare where it is bound already."""
        variable = Variable(self.name(name), slot)
        block = define(variable)
        if name not in scope:
            return [*block, *rest({**scope, name: variable})]
        both = {"old": scope[name], "new": variable}
        return [*block, If(_SAME, both, rest(scope))]

    def product(
        self,
        members: tuple[Expr, ...],
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """The factors one inside of the other; values that are only computed stand in one row."""
        before: Block = []
        while members and isinstance(members[0], Assign) and members[0].variable not in scope:
            value, members = members[0], members[1:]
            slots = {name: variable.slot for name, variable in scope.items()}
            made = Variable(self.name(value.variable), scalar_slot(value.scalar, slots))
            before.append(Let(made, value.scalar, dict(scope)))
            scope = {**scope, value.variable: made}
        if before:
            return [*before, *self.product(members, scope, needed, factors, rest)]
        if not members:
            return rest(scope, factors)
        tests = tuple(itertools.takewhile(lambda member: isinstance(member, Cond), members))
        if len(tests) > _MOST_TESTS:
            members = (_all_of(tests), *members[len(tests) :])
        first, others = next_factor(members, scope)
        if isinstance(first, MapRef):
            ranged = self.range_sum(first, others, scope, needed)
            if ranged is not None:
                before, weight, remaining = ranged
                after = self.product(remaining, scope, needed, (*factors, weight), rest)
                return [*before, *after]
        later = needed.union(*(all_names(other) for other in others))
        return self.rows(
            first,
            scope,
            later,
            factors,
            lambda inner, found: self.product(others, inner, needed, found, rest),
        )

    def _delta(
        self,
        expr: Delta,
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        inner = dict(scope)
        binds: list[tuple[Variable, int]] = []
        equal: list[tuple[Variable, int]] = []
        for i, (name, slot) in enumerate(
            zip(expr.variables, self.signatures[expr.name].keys, strict=True)
        ):
            if name in inner:
                equal.append((inner[name], i))
                inner[name] = narrowed(inner[name], slot)
            elif self.uses[name] > 1 or name in needed:
                column = self.loops.program.relation(expr.name).columns[i].name
                local = self.row_names[column] if not scope else self.name(name)
                inner[name] = Variable(local, slot)
                binds.append((inner[name], i))
            else:
                continue
            self.loops.columns[expr.name].add(i)
        weight = "weight" if not scope else self.name("weight")
        body = rest(inner, (*factors, Named(weight, Physical.INT)))
        return [Rows(binds, equal, weight, body)]

    def atom(self, expr: MapRef, scope: dict[str, Variable], factors: Factors, rest: Rest) -> Block:
        map = self.loops.maps[expr.name]
        bound = [i for i, name in enumerate(expr.keys) if name in scope]
        key = [scope[expr.keys[i]] for i in bound]
        whole = len(bound) == len(expr.keys)
        known = self.at_hand.get((map.name, tuple(v.name for v in key))) if whole else None
        record = known or self.name("at")
        inner = dict(scope)
        for i in bound:
            inner[expr.keys[i]] = narrowed(scope[expr.keys[i]], map.keys[i].slot)
        binds: Block = []
        matches: list[tuple[Variable, int]] = []
        for i, name in enumerate(expr.keys):
            if i in bound:
                continue
            if name in inner:
                matches.append((inner[name], i))
            else:
                inner[name] = Variable(self.name(name), map.keys[i].slot)
                binds.append(BindKey(inner[name], map.name, i, record))
        body = self._with_record(expr, record, inner, binds, matches, factors, rest)
        if known:
            return body
        if whole:
            self.loops.probed.add(map.name)
            return [Get(map.name, record, key, body)]
        if bound and self.loops.determines(map.name, frozenset(map.key_names[i] for i in bound)):
            return [Run(map.name, tuple(bound), record, key, body)]
        if bound:
            index = self.index(map.name, Index(CHAIN, tuple(bound)))
            return [Slice(map.name, index, record, key, body)]
        return [Scan(map.name, record, body)]

    def _with_record(
        self,
        expr: MapRef,
        record: str,
        scope: dict[str, Variable],
        binds: Block,
        matches: list[tuple[Variable, int]],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """The rest for one record of a map, under the tests that its keys and value must pass."""
        map = self.loops.maps[expr.name]
        place = (map.name, tuple(scope[name].name for name in expr.keys))
        before = self.at_hand.get(place)
        self.at_hand[place] = record
        weight = self.name("w")
        present = expr.column == PRESENCE
        column = None if present else column_position(map, expr.column)
        if column is not None:
            factors = (*factors, Named(weight, map.columns[column].physical))
        body = rest(scope, factors)
        if before is None:
            del self.at_hand[place]
        else:
            self.at_hand[place] = before
        for variable, i in reversed(matches):
            body = [MatchKey(variable, map.name, i, record, body)]
        if column is None:
            return [Present(map.name, record, [*binds, *body])]
        return [Column(weight, map.name, column, record, [*binds, *body])]

    def _sum(
        self,
        expr: Sum,
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """Weights are linear, so a projection is its body with the summed-out variables hidden."""

        def shown(inner: dict[str, Variable], found: Factors) -> Block:
            return rest({n: v for n, v in inner.items() if n in scope or n in expr.keys}, found)

        return self.rows(expr.body, dict(scope), needed & frozenset(expr.keys), factors, shown)

    def _lift(self, expr: Lift, scope: dict[str, Variable], factors: Factors, rest: Rest) -> Block:
        loose = outputs(expr.body) - scope.keys()
        if loose:
            raise ProgramError(f"lift over unbound {', '.join(sorted(loose))}: {to_text(expr)}")
        physical = self.weight_type(expr.body, scope)
        name = self.name("total")
        total = Total(name, physical, self.accumulate(expr.body, scope, name, physical))
        bound = self.bind(
            expr.variable,
            Slot(physical),
            scope,
            lambda variable: [LetTotal(variable, name)],
            lambda inner: rest(inner, factors),
        )
        return [total, *bound]

    def _change(
        self,
        new: NestedValue,
        old: NestedValue,
        scope: dict[str, Variable],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """(x := new) + -1 * (x := old): both are computed, then the rest is done for each."""
        values: list[Variable] = []

        def keep(inner: dict[str, Variable], _: Factors) -> Block:
            values.append(inner[new.variable])
            return []

        block = self.rows(new, scope, NONE, (), keep) + self.rows(old, scope, NONE, (), keep)
        first, second = values
        variable, weight = Variable(self.name(new.variable), first.slot), self.name("w")
        body = rest({**scope, new.variable: variable}, (*factors, Named(weight, Physical.INT)))
        return [*block, Change(variable, weight, first, second, body)]

    def _turn(
        self, new: Expr, old: Expr, scope: dict[str, Variable], factors: Factors, rest: Rest
    ) -> Block:
        """new + -1 * old, which are tests: the rest is done where one of them is met."""
        block: Block = []
        names: list[str] = []
        for side in (new, old):
            if isinstance(side, Exists):
                side = side.body
            physical, name = self.weight_type(side, scope), self.name("total")
            block.append(Total(name, physical, self.accumulate(side, scope, name, physical)))
            names.append(name)
        weight = self.name("w")
        body = rest(scope, (*factors, Named(weight, Physical.INT)))
        return [*block, Turn(weight, names[0], names[1], body)]

    def _exists(
        self, expr: Exists, scope: dict[str, Variable], factors: Factors, rest: Rest
    ) -> Block:
        free = tuple(sorted(outputs(expr.body) - scope.keys()))
        if not free:
            physical = self.weight_type(expr.body, scope)
            name = self.name("total")
            total = Total(name, physical, self.accumulate(expr.body, scope, name, physical))
            return [total, IfTotal(name, physical, rest(scope, factors))]
        if isinstance(expr.body, MapRef):
            # One row for each key: the weight is known not to be zero, and dropped.
            return self.atom(expr.body, scope, (), lambda inner, _: rest(inner, factors))
        if meets_once(expr.body, scope) and self.weight_type(expr.body, scope) is Physical.INT:
            members = factors_of(expr.body)
            return self.product(members, scope, NONE, (), lambda inner, _: rest(inner, factors))
        return self.grouped(expr.body, free, scope, lambda inner: rest(inner, factors))

    def grouped(
        self,
        body: Expr,
        free: tuple[str, ...],
        scope: dict[str, Variable],
        rest: Callable[[dict[str, Variable]], Block],
    ) -> Block:
        """Every key of `body` over the free variables once, where its total weight is not 0."""
        slots = variable_slots(body, self.signatures, {n: v.slot for n, v in scope.items()})
        physical = self.weight_type(body, scope)
        keys = tuple(KeyColumn(name, slots[name]) for name in free)
        buffer = self.new_buffer(keys, [ValueColumn("value", physical)])

        def add(inner: dict[str, Variable], factors: Factors) -> Block:
            return [Update(buffer.name, [inner[n] for n in free], [(0, physical, factors)])]

        fill = [
            node
            for term in terms_of(body)
            for node in self.rows(term, dict(scope), frozenset(free), (), add)
        ]
        read = self.atom(
            MapRef(buffer.name, "value", free, buffer=True), scope, (), lambda inner, _: rest(inner)
        )
        return [ClearBuffer(buffer.name), *fill, *read]


_SAME = Apply("==", (Ref("old"), Ref("new")))
