"""Transfers that only feed one sum travel as one: paper 000 Figure 3, union, from right to left.

    T[k] += Gather(Q1); T[k] += Gather(Q2)   ->   T[k] += Gather(Q1 + Q2)

In single transformer form a chain is  s[k] += q; r := t(s); T[k] += r[k].*  with s and r used
nowhere else. Chains with the same transformer, target and sides become one with several statements
that fill its s, so that the parts are added up before they are moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from viewlet.calculus.expr import PRESENCE, Expr, MapRef
from viewlet.distributed.ir import Compute, Mode, Operation, Transfer, TransferKind
from viewlet.distributed.location import LOCAL, RANDOM, Location, in_variables
from viewlet.distributed.redundancy import Buffers
from viewlet.distributed.statement_blocks import commute
from viewlet.program.ir import Map, Statement, ValueColumn
from viewlet.schema import Physical

Identity = tuple[Mode, TransferKind, Location, Mode, str]


@dataclass(frozen=True)
class _Chain:
    """Positions of a send, its transfer and the statement that adds it to the target."""

    send: int
    transfer: int
    add: int
    order: tuple[int, ...]  # the position in s of each key of the target
    columns: tuple[tuple[str, str], ...]  # the target's columns and those of s


def unite(operations: list[Operation], buffers: Buffers) -> list[Operation]:
    """All chains that can be one, made one."""
    groups: dict[Identity, list[_Chain]] = {}
    for identity, chain in _chains(operations, buffers):
        groups.setdefault(identity, []).append(chain)
    done = list(operations)
    dropped: set[int] = set()
    for (_, _, to, _, _), chains in groups.items():
        chains = _movable(chains, operations)
        if len(chains) > 1:
            _join(chains, to, done, buffers)
            dropped |= {at for c in chains[:-1] for at in (c.transfer, c.add)}
    return [operation for at, operation in enumerate(done) if at not in dropped]


def _chains(operations: list[Operation], buffers: Buffers) -> Iterator[tuple[Identity, _Chain]]:
    for at, add in enumerate(operations):
        chain = _plain_addition(add, buffers)
        if chain is None or not isinstance(add, Compute):
            continue
        received, order, columns = chain
        transfer = _only(i for i, o in enumerate(operations) if _writes(o, received))
        if transfer is None or _readers(operations, received) != 1:
            continue
        moved = operations[transfer]
        assert isinstance(moved, Transfer)
        send = _only(i for i, o in enumerate(operations) if _writes(o, moved.source))
        if send is None or _readers(operations, moved.source) != 1:
            continue
        filled = operations[send]
        if not isinstance(filled, Compute) or moved.source not in buffers.maps:
            continue
        keys = buffers.maps[received].key_names
        numbers = {position: str(i) for i, position in enumerate(order)}
        named = tuple(numbers[position] for position in range(len(keys)))
        to = in_variables(moved.to, keys, named)
        identity = (filled.mode, moved.kind, to, add.mode, add.statement.target)
        yield identity, _Chain(send, transfer, at, order, columns)


def _plain_addition(
    operation: Operation, buffers: Buffers
) -> tuple[str, tuple[int, ...], tuple[tuple[str, str], ...]] | None:
    """T[k] += r[k].* | c: r[k].x  ->  r, the order of T's keys in r, the columns."""
    if not isinstance(operation, Compute) or operation.statement.op != "+=":
        return None
    statement, loop = operation.statement, operation.statement.loop
    if not isinstance(loop, MapRef) or loop.column != PRESENCE or loop.name not in buffers.maps:
        return None
    if sorted(loop.keys) != sorted(statement.keys) or len({*loop.keys}) < len(loop.keys):
        return None
    columns: list[tuple[str, str]] = []
    for column, update in statement.updates:
        if not isinstance(update, MapRef) or (update.name, update.keys) != (loop.name, loop.keys):
            return None
        columns.append((column, update.column))
    return loop.name, tuple(loop.keys.index(key) for key in statement.keys), tuple(columns)


def _writes(operation: Operation, name: str) -> bool:
    return any(written == name for _, written in operation.writes)


def _readers(operations: list[Operation], name: str) -> int:
    return sum(any(read == name for _, read in o.reads) for o in operations)


def _only(indices: Iterable[int]) -> int | None:
    candidates = list(indices)
    return candidates[0] if len(candidates) == 1 else None


def _movable(chains: list[_Chain], operations: list[Operation]) -> list[_Chain]:
    """Those whose parts are complete when the last one is moved, and whose additions may wait.

    An addition waits where it commutes with everything up to the last one's.
    """
    last = chains[-1]
    return [
        chain
        for chain in chains
        if chain.send <= last.send
        and all(commute(operations[chain.add], o) for o in operations[chain.add + 1 : last.add])
    ]


def _join(chains: list[_Chain], to: Location, done: list[Operation], buffers: Buffers) -> None:
    """Let the last chain's buffers hold the parts of all."""
    last = chains[-1]
    transfer, add = done[last.transfer], done[last.add]
    assert isinstance(transfer, Transfer) and isinstance(add, Compute)
    sent = buffers.maps[transfer.source]
    keys = tuple(sent.keys[position] for position in last.order)
    columns: dict[str, Physical] = {}
    for chain in chains:
        send = done[chain.send]
        assert isinstance(send, Compute)
        types = buffers.maps[send.statement.target]
        for name, own in chain.columns:
            physical = types.column(own).physical
            if columns.setdefault(name, physical) is Physical.INT:
                columns[name] = physical
        done[chain.send] = replace(send, statement=_retargeted(send.statement, chain, sent.name))
    values = tuple(ValueColumn(name, physical) for name, physical in columns.items())
    united = Map(sent.name, keys, values, buffer=True)
    location = in_variables(to, tuple(map(str, range(len(keys)))), united.key_names)
    buffers.maps[sent.name] = united
    buffers.maps[transfer.target] = replace(united, name=transfer.target)
    buffers.locations[sent.name] = LOCAL if transfer.kind is TransferKind.SCATTER else RANDOM
    buffers.locations[transfer.target] = location
    done[last.transfer] = replace(transfer, to=location)
    done[last.add] = replace(add, statement=_added(add.statement, transfer.target, columns))


def _retargeted(statement: Statement, chain: _Chain, target: str) -> Statement:
    """The send with the keys in the target's order and the target's columns."""
    values = dict(statement.updates)
    return replace(
        statement,
        target=target,
        keys=tuple(statement.keys[position] for position in chain.order),
        updates=tuple((name, values[own]) for name, own in chain.columns),
    )


def _added(statement: Statement, received: str, columns: Iterable[str]) -> Statement:
    keys = statement.keys
    record = MapRef(received, PRESENCE, keys, buffer=True)
    updates: tuple[tuple[str, Expr], ...] = tuple((c, replace(record, column=c)) for c in columns)
    return replace(statement, loop=record, updates=updates)
