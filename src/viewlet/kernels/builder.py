"""What all builders of loops share: names, buffers, indexes, types of weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from viewlet.calculus.expr import Expr
from viewlet.calculus.typing import variable_slots, weight_type
from viewlet.kernels.identifiers import LOCAL, identifier
from viewlet.kernels.loop_nodes import Block, Factors, Loops
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.program.ir import KeyColumn, Map, ValueColumn
from viewlet.schema import Physical, Relation
from viewlet.storage.columns import TREE, Index

Rest = Callable[[dict[str, Variable], Factors], Block]
"""What to do for each row, given the variables bound by then and the factors of its weight."""


class Builder:
    """Builds the loops of one trigger's expressions; indexes and buffers go into `loops`."""

    def __init__(self, loops: Loops, relation: Relation) -> None:
        self.loops = loops
        self.signatures = loops.program.signatures()
        self.names = loops.names.scope()
        # Rows that stand outermost have common names, so that their loops can be fused.
        self.row_names = {
            column: self.names.fresh(f"row_{identifier(column)}", LOCAL)
            for column in relation.names
        }
        self.uses: Counter[str] = Counter()
        # Records at hand at the current place: by map and key variables, their locals.
        self.at_hand: dict[tuple[str, tuple[str, ...]], str] = {}

    def rows(
        self,
        expr: Expr,
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """For every row of the expression, the rest. `needed` are variables that the rest uses."""
        raise NotImplementedError

    def product(
        self,
        members: tuple[Expr, ...],
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """The same for the product of some expressions, from left to right."""
        raise NotImplementedError

    def weight_type(self, expr: Expr, scope: Scope) -> Physical:
        """Whether the expression's weight is an int or a float, with these variables bound."""
        slots = {name: variable.slot for name, variable in scope.items()}
        return weight_type(expr, self.signatures, variable_slots(expr, self.signatures, slots))

    def index(self, map: str, index: Index) -> int:
        """The number of such an index of the map, which has one from now on."""
        found = self.loops.indexes.setdefault(map, [])
        if index not in found:
            found.append(index)
        return found.index(index)

    def tree(
        self, map: str, parts: tuple[int, ...], order: int, *sums: tuple[int, int]
    ) -> tuple[int, list[int]]:
        """The ordered index and the places of some sums in it; one index serves all sums."""
        found = self.loops.indexes.setdefault(map, [])
        places = [(index.kind, index.parts, index.order) for index in found]
        if (TREE, parts, order) not in places:
            places.append((TREE, parts, order))
            found.append(Index(TREE, parts, order))
        i = places.index((TREE, parts, order))
        kept = tuple(dict.fromkeys((*found[i].sums, *sums)))
        found[i] = Index(TREE, parts, order, kept)
        return i, [kept.index(sum) for sum in sums]

    def new_buffer(self, keys: tuple[KeyColumn, ...], columns: list[ValueColumn]) -> Map:
        """A map that lives within the trigger, under a name that nothing else has."""
        name = self.loops.map_names.fresh(f"buffer_{len(self.loops.maps)}")
        buffer = Map(name, keys, tuple(ValueColumn(c.name, c.physical) for c in columns), True)
        self.loops.maps[name] = buffer
        self.signatures[name] = buffer.signature
        return buffer

    def name(self, base: str) -> str:
        """A new local of the trigger."""
        return self.names.numbered(identifier(base), LOCAL)
