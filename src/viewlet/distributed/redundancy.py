"""Common subexpressions and dead code, by where they are computed (paper 000 section 4.3.2).

Two buffers with equal loops on one side are one buffer, with the columns of both; two equal
transfers of it are one transfer. That merges what statements send, so the rows of a batch cross the
network once for each place, with every column that any statement needs there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from viewlet.calculus.expr import PRESENCE, Expr, MapRef, factors_of, transform
from viewlet.calculus.rewrite import canonical, rename
from viewlet.calculus.text import to_text
from viewlet.distributed.ir import Compute, Mode, Operation, Resource, Transfer
from viewlet.distributed.location import Location, in_variables
from viewlet.program.ir import Map, Statement, ValueColumn


@dataclass(frozen=True)
class _Alias:
    """Another buffer that holds a buffer's contents, and the names of its columns there."""

    name: str
    columns: dict[str, str]


@dataclass
class Buffers:
    """The buffers that transfers need, by name; elimination changes their columns.

    Each is filled by one statement or one transfer.
    """

    maps: dict[str, Map] = field(default_factory=dict)
    locations: dict[str, Location] = field(default_factory=dict)


def eliminate_common(operations: Iterable[Operation], buffers: Buffers) -> list[Operation]:
    """s1[k] += q | v1: x; ...; s2[l] += q' | v1: y   ->   s1[k] += q | v1: x, v2: y

    where q' is q under other names and nothing that s2 reads is written in between.
    """
    eliminator = _Eliminator(buffers)
    for operation in operations:
        eliminator.add(operation)
    return eliminator.done


class _Eliminator:
    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._aliases: dict[str, _Alias] = {}
        self._computed: dict[tuple[Mode, str, tuple[str, ...]], list[int]] = {}
        self.done: list[Operation] = []

    def add(self, operation: Operation) -> None:
        if isinstance(operation, Transfer):
            self._add_transfer(operation)
            return
        statement = self._rewritten(operation.statement)
        operation = replace(operation, statement=statement)
        if statement.target not in self._buffers.maps or statement.op != "+=":
            self.done.append(operation)
            return
        form = canonical(statement.loop, statement.keys)
        key = operation.mode, form.text, tuple(form.names[k] for k in statement.keys)
        for at in self._computed.get(key, ()):
            if not self._written_since(at, operation.reads):
                self._merge(at, statement)
                return
        self._computed.setdefault(key, []).append(len(self.done))
        self.done.append(operation)

    def _written_since(self, at: int, reads: frozenset[Resource]) -> bool:
        return any(operation.writes & reads for operation in self.done[at:])

    def _merge(self, at: int, statement: Statement) -> None:
        """Let the buffer at `at` hold the statement's columns as well."""
        earlier = self.done[at]
        assert isinstance(earlier, Compute)
        original = earlier.statement
        names = _correspondence(statement, original)
        updates = list(original.updates)
        columns: dict[str, str] = {}
        for column, expr in statement.updates:
            renamed_expr = rename(expr, names)
            same = next(
                (c for c, e in updates if _product_text(e) == _product_text(renamed_expr)), None
            )
            if same is None:
                same = _fresh({c for c, _ in updates})
                updates.append((same, renamed_expr))
                physical = self._buffers.maps[statement.target].column(column).physical
                self._widen(original.target, ValueColumn(same, physical))
            columns[column] = same
        self.done[at] = replace(earlier, statement=replace(original, updates=tuple(updates)))
        self._aliases[statement.target] = _Alias(original.target, columns)

    def _widen(self, sent: str, column: ValueColumn) -> None:
        """A new column for a buffer and for those that it is transferred to."""
        received = [o.target for o in self.done if isinstance(o, Transfer) and o.source == sent]
        for name in (sent, *received):
            map = self._buffers.maps[name]
            self._buffers.maps[name] = replace(map, columns=(*map.columns, column))

    def _add_transfer(self, transfer: Transfer) -> None:
        alias = self._aliases.get(transfer.source)
        if alias is not None:
            transfer = replace(transfer, source=alias.name)
            self._aliases[transfer.target] = _Alias(transfer.target, alias.columns)
            columns = self._buffers.maps[alias.name].columns
            target = self._buffers.maps[transfer.target]
            self._buffers.maps[transfer.target] = replace(target, columns=columns)
        for at, twin in enumerate(self.done):
            if isinstance(twin, Transfer) and self._is_twin(at, twin, transfer):
                own = self._buffers.maps[transfer.target].columns
                there = self._buffers.maps[twin.target].columns
                same = {a.name: b.name for a, b in zip(own, there, strict=True)}
                old = alias.columns if alias is not None else {name: name for name in same}
                names = {name: same[column] for name, column in old.items()}
                self._aliases[transfer.target] = _Alias(twin.target, names)
                return
        self.done.append(transfer)

    def _is_twin(self, at: int, twin: Transfer, transfer: Transfer) -> bool:
        return (
            (twin.kind, twin.source) == (transfer.kind, transfer.source)
            and self._positions(twin) == self._positions(transfer)
            and not self._written_since(at, transfer.reads)
        )

    def _positions(self, transfer: Transfer) -> Location:
        """The place over positions instead of column names."""
        keys = self._buffers.maps[transfer.target].key_names
        return in_variables(transfer.to, keys, tuple(map(str, range(len(keys)))))

    def _rewritten(self, statement: Statement) -> Statement:
        def rule(node: Expr) -> Expr:
            if not isinstance(node, MapRef) or node.name not in self._aliases:
                return node
            alias = self._aliases[node.name]
            column = node.column if node.column == PRESENCE else alias.columns[node.column]
            return replace(node, name=alias.name, column=column)

        return replace(
            statement,
            loop=transform(statement.loop, rule),
            updates=tuple((column, transform(e, rule)) for column, e in statement.updates),
        )


def _correspondence(statement: Statement, original: Statement) -> dict[str, str]:
    """Variable of the statement -> its name in the loop of the original."""
    theirs = canonical(statement.loop, statement.keys).names
    ours = {short: name for name, short in canonical(original.loop, original.keys).names.items()}
    return {name: ours[short] for name, short in theirs.items()}


def _product_text(expr: Expr) -> tuple[str, ...]:
    return tuple(sorted(to_text(factor) for factor in factors_of(expr)))


def _fresh(names: set[str]) -> str:
    return next(f"v{n}" for n in range(1, len(names) + 2) if f"v{n}" not in names)


def eliminate_dead(operations: list[Operation], buffers: Buffers) -> list[Operation]:
    """Drop what fills a transfer buffer that nothing reads afterwards."""
    live: set[Resource] = set()
    needed_operations: list[Operation] = []
    for operation in reversed(operations):
        names = {name for _, name in operation.writes}
        if names <= buffers.maps.keys() and not operation.writes & live:
            continue
        live |= operation.reads
        needed_operations.append(operation)
    return needed_operations[::-1]
