"""State on its way to the partitions of a new program: maps under other names, and tables.

    what a node has               what it sends                         how it travels
    its part of a map             rows to where the new map has them    in place, or by a shuffle
    a copy that all nodes have    only what is its own in the new map   in place
    its part of a table           all of it                             in place

*In place* means that a partition sends to the partition of its own number, which is at the same
executor. Rows for the driver's maps go to that partition too, which passes them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from viewlet.calculus.expr import MapRef
from viewlet.distributed.jobs import Route
from viewlet.engine.host.map_words import words_of_map
from viewlet.engine.partitions.partition_program import DRIVER
from viewlet.engine.spark.chunks import Columns, Message, Rows
from viewlet.engine.spark.node import SparkNode
from viewlet.engine.spark.opening_stage import routed_words
from viewlet.engine.spark.stages import StagedProgram, route_to
from viewlet.program.ir import Map
from viewlet.storage.columns import Array, Layout

FORWARDED = (-2, -2)
"""The origin of a message whose rows are for the driver."""


@dataclass(frozen=True)
class MapShipment:
    """Value columns of one map -> columns of another, whose rows look like `layout`.

    Key column order[i] of the source is the i-th of the target, and value column columns[j][1] of
    it is columns[j][0] there. `is_copy`: every node has the whole map and sends what is its own.
    """

    route: Route
    layout: Layout
    columns: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    is_copy: bool

    def sent(self, node: SparkNode, own: int, partitions: int) -> list[tuple[int, Rows]]:
        """The rows of a node by where they belong; `own` is its number, or DRIVER."""
        here, there = zip(*self.columns, strict=True)
        pool = node.pools[self.route.source]
        words = words_of_map(self.layout, here, pool, there, self.order, _same_codes)
        sent = routed_words(
            words, self.layout, self.route, partitions, node.dictionary, node.hashes
        )
        return [(to, rows) for to, rows in sent if to == own] if self.is_copy else sent


def _same_codes(codes: Array) -> Array:
    return codes


@dataclass(frozen=True)
class Shipment:
    """What partitions send, co-partitioned or not. Of tables these columns; None: all."""

    maps: tuple[MapShipment, ...] = ()
    tables: tuple[tuple[str, tuple[int, ...] | None], ...] = ()


def packed(
    node: SparkNode, shipment: Shipment, tables: Iterable[Columns], own: int, partitions: int
) -> list[tuple[int, bytes]]:
    """A partition's part of a shipment, for the partitions of the new program."""
    sent = {own: Message(columns=list(tables))}
    forwarded = Message(origin=FORWARDED)
    for map in shipment.maps:
        for target, rows in map.sent(node, own, partitions):
            message = forwarded if target == DRIVER else sent.setdefault(target, Message())
            message.rows.append(rows)
    chunks = [(target, m.pack()) for target, m in sent.items() if m.rows or m.columns]
    return [*chunks, (own, forwarded.pack())] if forwarded.rows else chunks


def shipments(
    copies: Sequence[tuple[Map, str, MapRef]], source: StagedProgram, target: StagedProgram
) -> list[MapShipment]:
    """Columns of the target's maps that are columns of the source's -> what has to be sent.

    Columns of one map travel together.
    """
    column_pairs: dict[tuple[str, str, tuple[int, ...]], list[tuple[int, int]]] = {}
    for map, column, reference in copies:
        order = tuple(reference.keys.index(name) for name in map.key_names)
        old = source.distributed.program.map(reference.name)
        pair = (_position(map, column), _position(old, reference.column))
        column_pairs.setdefault((map.name, reference.name, order), []).append(pair)
    homes = source.workers.homes
    return [
        MapShipment(
            route_to(old_name, name, target),
            target.layout(name),
            tuple(columns),
            order,
            is_copy=old_name in homes and homes[old_name] is None,
        )
        for (name, old_name, order), columns in column_pairs.items()
    ]


def _position(map: Map, column: str) -> int:
    return [c.name for c in map.columns].index(column)


def is_copartitioned(shipment: MapShipment, source: StagedProgram) -> bool:
    """Whether each partition sends only to its own number, if both programs have as many."""
    if shipment.is_copy:
        return True
    route = shipment.route
    by = source.workers.homes[route.source]
    assert by is not None
    same = [shipment.order[position] for position in route.by]
    return same == list(by) if route.by else not route.everywhere
