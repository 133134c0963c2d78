"""Single transformer form (paper 000 section 4.3.2): at most one transformer in a statement.

    T[k] += C[x].* * h   with   C := Repart[x](Sum[x](q))

becomes three operations, with a buffer s for what is sent and a buffer r for what is received:

    s[x] += q          on the side where q is evaluated
    r := repart[x](s)
    T[k] += r[x].* * h
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from viewlet.calculus.expr import ONE, Delta, Expr, MapRef, transform
from viewlet.calculus.text import VALUE_COLUMN
from viewlet.calculus.typing import variable_slots, weight_type
from viewlet.distributed.ir import Compute, Mode, Operation, RelationBatch, Transfer, TransferKind
from viewlet.distributed.items import AtomCopy, AtomLocations
from viewlet.distributed.location import LOCAL, RANDOM, Dist, Local, Location, tag_of
from viewlet.distributed.redundancy import Buffers
from viewlet.distributed.transformers import Move, StatementPlan
from viewlet.program.ir import KeyColumn, Map, Statement, ValueColumn


class Emitter:
    """Turns the plans of one trigger into operations and names the buffers that they need."""

    def __init__(self, label: str, layout: AtomLocations) -> None:
        self._label = label
        self._layout = layout
        self._signatures = layout.program.signatures()
        self.buffers = Buffers()
        self.renamed: dict[str, Map] = {}
        self.operations: list[Operation] = []

    def emit(self, plan: StatementPlan) -> None:
        """The moves of a statement in order, then the statement over what they brought."""
        names: dict[str, str] = {}
        for move in plan.moves:
            names[move.name] = self._move(move, names)
        final = self._renamed(plan.final, names)
        for mode in plan.modes:
            self.operations.append(Compute(mode, final))

    def own_buffers(self, relation: str, statements: Iterable[Statement]) -> dict[str, str]:
        """Other names for the buffers that these statements fill.

        Where one batch changes several relations, each has its own: a buffer is empty when the
        relation's statements begin.
        """
        names: dict[str, str] = {}
        for statement in statements:
            map = self._layout.maps[statement.target]
            if map.buffer and map.name not in names:
                names[map.name] = self._layout.names.fresh(f"{map.name}_{relation}")
                twin = replace(map, name=names[map.name])
                self.renamed[twin.name] = self._layout.maps[twin.name] = twin
                self._signatures[twin.name] = twin.signature
                self._layout.locations[twin.name] = self._layout.locations[map.name]
                self._layout.batch_buffers.add(twin.name)
        return names

    def _move(self, move: Move, names: dict[str, str]) -> str:
        sent, received = self._names()
        statement = Statement(sent, move.keys, "+=", move.loop, move.updates)
        statement = self._renamed(statement, names)
        map = self._buffer(sent, statement)
        self._add(map, self._sent_location(move.mode, statement))
        self._add(replace(map, name=received), move.to)
        self.operations.append(Compute(move.mode, statement))
        self.operations.append(Transfer(_kind(move.mode, move.to), received, sent, move.to))
        return received

    def _sent_location(self, mode: Mode, statement: Statement) -> Location:
        """Partitioned where every column's result is and keeps its key; else partial sums."""
        if mode is Mode.LOCAL:
            return LOCAL
        tags = {tag_of(expr, self._layout.locate) for _, expr in statement.expressions()}
        tag = tags.pop()
        if not tags and isinstance(tag, Dist) and {*tag.columns} <= {*statement.keys}:
            return tag
        return RANDOM

    def _names(self) -> tuple[str, str]:
        """For what is sent and for what is received."""
        name = self._layout.names.numbered(self._label, ("s_{}", "r_{}"))
        return f"s_{name}", f"r_{name}"

    def _buffer(self, name: str, statement: Statement) -> Map:
        signatures = self._signatures
        slots = variable_slots(statement.loop, signatures)
        keys = tuple(KeyColumn(key, slots[key]) for key in statement.keys)
        columns = tuple(
            ValueColumn(column, weight_type(expr, signatures, slots))
            for column, expr in statement.expressions()
        )
        return Map(name, keys, columns, buffer=True)

    def _add(self, map: Map, location: Location) -> None:
        self.buffers.maps[map.name] = map
        self.buffers.locations[map.name] = location
        self._signatures[map.name] = map.signature
        self._layout.maps[map.name] = map
        self._layout.locations[map.name] = location

    def _renamed(self, statement: Statement, names: dict[str, str]) -> Statement:
        """Placeholders of moves and copies become the buffers that hold them."""

        def rule(node: Expr) -> Expr:
            if not isinstance(node, MapRef):
                return node
            if node.name in self._layout.copies and node.name not in names:
                names[node.name] = self._copy(self._layout.copies[node.name])
            return replace(node, name=names.get(node.name, node.name))

        return replace(
            statement,
            loop=transform(statement.loop, rule),
            updates=tuple((column, transform(e, rule)) for column, e in statement.updates),
        )

    def _copy(self, copy: AtomCopy) -> str:
        """The buffer with the contents that the map or the batch has at this moment."""
        sent, received = self._names()
        location = self._layout.source_location(copy.source)
        mode = Mode.LOCAL if isinstance(location, Local) else Mode.DISTRIBUTED
        if isinstance(copy.source, RelationBatch):
            columns = copy.map.key_names
            loop = Delta(copy.source.relation, columns)
            self._add(replace(copy.map, name=sent), location)
            self.operations.append(
                Compute(mode, Statement(sent, columns, "+=", loop, ((VALUE_COLUMN, ONE),)))
            )
        else:
            sent = copy.source
        self._add(replace(copy.map, name=received), copy.to)
        self.operations.append(Transfer(_kind(mode, copy.to), received, sent, copy.to))
        return received


def _kind(mode: Mode, to: Location) -> TransferKind:
    if mode is Mode.LOCAL:
        return TransferKind.SCATTER
    return TransferKind.GATHER if isinstance(to, Local) else TransferKind.REPART
