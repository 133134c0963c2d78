"""Least and greatest keys as loops: a walk from one end of an ordered index where there is one."""

from __future__ import annotations

from collections.abc import Callable

from viewlet.calculus.expr import PRESENCE, Expr, Extreme, MapRef, terms_of
from viewlet.calculus.scope import outputs
from viewlet.calculus.text import to_text
from viewlet.calculus.typing import Slot, variable_slots
from viewlet.errors import ProgramError
from viewlet.kernels.builder import Builder, Rest
from viewlet.kernels.loop_nodes import (
    Better,
    BindKey,
    Block,
    Factors,
    IfTotal,
    NoBest,
    NotNull,
    Total,
    Walk,
)
from viewlet.kernels.recognize import column_position, only_atom, ranges_over
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.schema import Physical
from viewlet.storage.columns import COUNT


class ExtremeBuilder(Builder):
    """Builds (x := min p in ...) and (x := max p in ...)."""

    def accumulate(self, expr: Expr, scope: Scope, name: str, physical: Physical) -> Block:
        """Add the weight of an expression to a total."""
        raise NotImplementedError

    def atom(self, expr: MapRef, scope: dict[str, Variable], factors: Factors, rest: Rest) -> Block:
        """For every record of a map under the bound keys, the rest."""
        raise NotImplementedError

    def grouped(
        self,
        body: Expr,
        free: tuple[str, ...],
        scope: dict[str, Variable],
        rest: Callable[[dict[str, Variable]], Block],
    ) -> Block:
        """Every key of `body` over the free variables once, where its total weight is not 0."""
        raise NotImplementedError

    def bind(
        self,
        name: str,
        slot: Slot,
        scope: dict[str, Variable],
        define: Callable[[Variable], Block],
        rest: Callable[[dict[str, Variable]], Block],
    ) -> Block:
        """Bind a name to what `define` computes, or compare where it is bound already."""
        raise NotImplementedError

    def extreme(
        self, expr: Extreme, scope: dict[str, Variable], factors: Factors, rest: Rest
    ) -> Block:
        """(x := min y in q): a walk of an ordered index where one serves, else a loop over q."""
        inner = {name: v for name, v in scope.items() if name != expr.target}
        free = outputs(expr.body) - inner.keys() - {expr.target}
        if free:
            raise ProgramError(f"extreme over unbound {', '.join(sorted(free))}: {to_text(expr)}")
        slots = variable_slots(expr.body, self.signatures, {n: v.slot for n, v in inner.items()})
        slot = Slot(slots[expr.target].physical, nullable=True)

        def search(best: Variable) -> Block:
            return [NoBest(best), *self._candidates(expr, inner, best)]

        return self.bind(expr.variable, slot, scope, search, lambda found: rest(found, factors))

    def _candidates(self, expr: Extreme, scope: dict[str, Variable], best: Variable) -> Block:
        greatest = expr.kind == "max"
        terms = terms_of(expr.body)
        atoms = [only_atom(term) for term in terms]
        if not all(ranges_over(atom, expr.target, scope) for atom in atoms):
            return self.grouped(
                expr.body,
                (expr.target,),
                scope,
                lambda inner: _better(best, inner[expr.target], greatest, None),
            )
        block: Block = []
        for atom in atoms:
            assert atom is not None
            block += self._candidates_of(atom, expr, scope, best, greatest, len(atoms) == 1)
        return block

    def _candidates_of(
        self,
        atom: MapRef,
        expr: Extreme,
        scope: dict[str, Variable],
        best: Variable,
        greatest: bool,
        alone: bool,
    ) -> Block:
        """The keys of one map, those whose weights add up to zero over all terms left out."""
        map = self.loops.maps[atom.name]
        position = atom.keys.index(expr.target)
        ordered = (
            not map.buffer and not map.keys[position].slot.nullable and atom.column != PRESENCE
        )
        stop = self.name("stop") if ordered else None

        def check(inner: dict[str, Variable]) -> Block:
            found = _better(best, inner[expr.target], greatest, stop)
            if alone:
                return found
            physical = self.weight_type(expr.body, inner)
            name = self.name("total")
            total = Total(name, physical, self.accumulate(expr.body, inner, name, physical))
            return [total, IfTotal(name, physical, found)]

        if stop is None:
            return self.atom(atom, scope, (), lambda inner, _: check(inner))
        parts = tuple(i for i in range(len(atom.keys)) if i != position)
        column = column_position(map, atom.column)
        index, (place,) = self.tree(map.name, parts, position, (column, COUNT))
        record = self.name("at")
        target = Variable(self.name(expr.target), map.keys[position].slot)
        inner = {**scope, expr.target: target}
        key = [scope[atom.keys[i]] for i in parts]
        body: Block = [BindKey(target, map.name, position, record), *check(inner)]
        return [Walk(map.name, index, place, record, key, greatest, stop, body)]


def _better(best: Variable, candidate: Variable, greatest: bool, stop: str | None) -> Block:
    found: Block = [Better(best, candidate, greatest, stop)]
    return [NotNull(candidate, found)] if candidate.slot.nullable else found
