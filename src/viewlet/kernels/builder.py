"""What building loops needs: the state of one trigger, and the table of what builds each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from viewlet.calculus.expr import Expr
from viewlet.calculus.nodes import NODES
from viewlet.calculus.text import to_text
from viewlet.calculus.typing import Slot, variable_slots, weight_type
from viewlet.errors import ProgramError
from viewlet.functions import Apply, Ref
from viewlet.kernels.identifiers import LOCAL, identifier
from viewlet.kernels.loop_nodes import Block, Factors, If, Loops
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.program.ir import KeyColumn, Map, ValueColumn
from viewlet.schema import Physical, Relation
from viewlet.storage.columns import TREE, Index

Continuation = Callable[[dict[str, Variable], Factors], Block]
"""What to do for each row, given the variables bound by then and the factors of its weight."""


class Builder:
    """The state of one trigger while its loops are built; indexes and buffers go into `loops`."""

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
        self.edges: frozenset[str] = frozenset()
        """The first or last keys of the batch, where a statement restricts a map's rows to those
        beyond them."""
        """How often each variable stands in the current statement."""
        self.records: dict[tuple[str, tuple[str, ...]], str] = {}
        """Locals with records that are known where the builder stands, by map and key locals."""

    def name(self, base: str) -> str:
        """A new local of the trigger."""
        return self.names.numbered(identifier(base), LOCAL)

    def weight_type(self, expr: Expr, scope: Scope) -> Physical:
        """The type of an expression's weight."""
        slots = {name: variable.slot for name, variable in scope.items()}
        return weight_type(expr, self.signatures, variable_slots(expr, self.signatures, slots))

    def index(self, map: str, index: Index) -> int:
        """The number of an index among those of a map, which gets it if it has not."""
        indexes = self.loops.indexes.setdefault(map, [])
        if index not in indexes:
            indexes.append(index)
        return indexes.index(index)

    def tree(
        self, map: str, parts: tuple[int, ...], order: int, *sums: tuple[int, int]
    ) -> tuple[int, list[int]]:
        """The ordered index and the positions of some sums in it; one index serves all sums."""
        indexes = self.loops.indexes.setdefault(map, [])
        kinds = [(index.kind, index.parts, index.order) for index in indexes]
        if (TREE, parts, order) not in kinds:
            kinds.append((TREE, parts, order))
            indexes.append(Index(TREE, parts, order))
        number = kinds.index((TREE, parts, order))
        all_sums = tuple(dict.fromkeys((*indexes[number].sums, *sums)))
        indexes[number] = Index(TREE, parts, order, all_sums)
        return number, [all_sums.index(sum) for sum in sums]

    def new_buffer(self, keys: tuple[KeyColumn, ...], columns: list[ValueColumn]) -> Map:
        """A map for what several rows add up to, while a trigger runs."""
        name = self.loops.map_names.fresh(f"buffer_{len(self.loops.maps)}")
        buffer = Map(name, keys, tuple(ValueColumn(c.name, c.physical) for c in columns), True)
        self.loops.maps[name] = buffer
        self.signatures[name] = buffer.signature
        return buffer


@dataclass(frozen=True)
class Cursor:
    """Where the builder stands: a row as far as it is made, and what to do when it is.

    `needed` are the variables that the rest uses.
    """

    scope: dict[str, Variable]
    needed: frozenset[str]
    factors: Factors
    continuation: Continuation

    def finish(self) -> Block:
        """The rest, for a row that is made."""
        return self.continuation(self.scope, self.factors)

    def without_weight(self) -> Cursor:
        """The same for rows of which only the variables count."""
        return replace(
            self, factors=(), continuation=lambda scope, _: self.continuation(scope, self.factors)
        )


NodeBuilders = Mapping[type[Expr], Callable[[Builder, Any, Cursor], Block]]
"""node class -> the function that builds the loops over its rows"""

_BUILDERS: dict[type[Expr], Callable[[Builder, Any, Cursor], Block]] = {}


def register_builders(*tables: NodeBuilders) -> None:
    """Say what builds each node; TypeError for a node of the calculus that no table has."""
    builders = dict(_BUILDERS)
    for table in tables:
        builders.update(table)
    missing = {node.kind.__name__ for node in NODES if node.kind not in builders}
    if missing:
        raise TypeError(f"no loops for nodes of the calculus: {', '.join(sorted(missing))}")
    _BUILDERS.update(builders)


def build_rows(builder: Builder, expr: Expr, cursor: Cursor) -> Block:
    """For every row of the expression, the rest."""
    build = _BUILDERS.get(type(expr))
    if build is None:
        raise ProgramError(f"no loops for {to_text(expr)}")
    return build(builder, expr, cursor)


def bind(
    builder: Builder, name: str, slot: Slot, cursor: Cursor, define: Callable[[Variable], Block]
) -> Block:
    """Bind a name to what `define` computes, or compare where it is bound already."""
    variable = Variable(builder.name(name), slot)
    block = define(variable)
    if name not in cursor.scope:
        return [*block, *cursor.continuation({**cursor.scope, name: variable}, cursor.factors)]
    both = {"old": cursor.scope[name], "new": variable}
    return [*block, If(_SAME, both, cursor.finish())]


_SAME = Apply("==", (Ref("old"), Ref("new")))
