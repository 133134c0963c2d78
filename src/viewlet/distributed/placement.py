"""Where every map is kept: the primary-key heuristic (paper 000 section 6.2), hints, replication.

    partition a map on a primary key of a base table in its schema,
    on that of the largest table where there are several,
    keep it on the driver where there is none: its domain is small.

That rule is for tables with primary keys. A column of a stream or table without one has a domain of
which nothing is known: a map is partitioned by such a column too, one that is joined rather than
one that is not, and is on the driver only where it is known to be small (column_classes.py).

A column counts as a primary key where some definition joins it with one: m[l_suppkey] is by
supplier's key although lineitem alone stands in m. Parts of a compound key come second. Which
table is largest is known from statistics; without them, from who refers to whom: a row of orders
names one customer, so there are at least as many orders as customers that matter. A column that a
nested aggregate sums over comes last: partitioned by it, the aggregate would need all nodes.

Two additions to the paper's rule keep rounds away. Maps over static tables are replicated, and maps
over small tables where that saves a stage (`compile` finds out). A map without a key that is read
together with partitioned ones is replicated instead of local: a driver in the middle of a batch
would cost a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from viewlet.calculus.expr import Delta, MapRef, walk
from viewlet.distributed.column_classes import ColumnClasses
from viewlet.distributed.hints import Hints, check_hints
from viewlet.distributed.location import (
    LOCAL,
    REPLICATED,
    Dist,
    Local,
    Location,
    in_variables,
)
from viewlet.program.ir import Map, Program


def partition(
    program: Program, hints: Hints | None = None, copied: frozenset[str] = frozenset()
) -> dict[str, Location]:
    """A location for every map and buffer of the program; of `copied` tables on every node."""
    hints = hints or Hints()
    check_hints(program, hints)
    columns = ColumnClasses(program, hints)
    constants = {m.name for m in program.constants}
    locations: dict[str, Location] = {}
    for map in program.maps:
        if map.buffer:
            continue
        hinted = hints.place(map.name)
        if hinted is not None:
            locations[map.name] = hinted
        elif map.name in constants or columns.tables(map) <= copied:
            locations[map.name] = REPLICATED
        else:
            locations[map.name] = _by_keys(map, columns, hints)
    locations = buffer_locations(program, locations)
    _replicate_shared(program, locations, hints)
    return locations


def buffer_locations(program: Program, locations: Mapping[str, Location]) -> dict[str, Location]:
    """The locations of maps, and of the program's buffers beside them."""
    every = dict(locations)
    for map in program.maps:
        if map.buffer:
            every[map.name] = _buffer_location(map, program, every)
    return every


def _buffer_location(buffer: Map, program: Program, locations: Mapping[str, Location]) -> Location:
    """The change of a map is kept where the map is, another buffer where its readers are.

    Those vote with the partitioning variables of the maps beside it that the buffer has too; where
    only the batch stands beside it, with the variables that both have.
    """
    name = buffer.change_of
    if name is not None and name in locations:
        return in_variables(locations[name], program.map(name).key_names, buffer.key_names)
    votes: Counter[tuple[str, ...]] = Counter()
    joined: Counter[tuple[str, ...]] = Counter()
    for own, others in _co_factors(buffer.name, program):
        columns = dict(zip(own, buffer.key_names, strict=True))
        for atom in others:
            if isinstance(atom, Delta):
                joined.update((columns[v],) for v in atom.variables if v in columns)
            elif isinstance(location := locations.get(atom.name), Dist):
                there = in_variables(location, program.map(atom.name).key_names, atom.keys)
                assert isinstance(there, Dist)
                if {*there.columns} <= columns.keys():
                    votes[tuple(columns[v] for v in there.columns)] += 1
    chosen = votes or joined
    return Dist(chosen.most_common(1)[0][0]) if chosen else LOCAL


def _co_factors(
    name: str, program: Program
) -> Iterator[tuple[tuple[str, ...], list[MapRef | Delta]]]:
    """The buffer's keys in each statement that reads or fills it, with the other atoms there."""
    for trigger in program.triggers:
        for statement in trigger.statements:
            parts = [node for _, expr in statement.expressions() for node in walk(expr)]
            atoms = [node for node in parts if isinstance(node, MapRef | Delta)]
            others = [atom for atom in atoms if atom.name != name]
            if statement.target == name:
                yield statement.keys, others
            for atom in atoms:
                if isinstance(atom, MapRef) and atom.name == name:
                    yield atom.keys, others


def _replicate_shared(program: Program, locations: dict[str, Location], hints: Hints) -> None:
    """Local maps that stand beside partitioned ones in a statement become replicated.

    A map and its buffer go together, so that they can still be added up.
    """
    changed = {m.name: m.change_of or m.name for m in program.maps}
    for trigger in program.triggers:
        for statement in trigger.statements:
            maps_used = {statement.target, *statement.reads}
            if not any(isinstance(locations[name], Dist) for name in maps_used):
                continue
            for name in statement.reads:
                base = changed[name]
                if locations[name] != LOCAL or isinstance(hints.place(base), Local):
                    continue
                for twin in (twin for twin, of in changed.items() if of == base):
                    locations[twin] = REPLICATED


def _by_keys(map: Map, columns: ColumnClasses, hints: Hints) -> Location:
    """Dist on the best key column, else Local."""
    if map.name in hints.records and columns.is_small(map):
        return LOCAL
    is_large = map.name in hints.records
    ranked: list[tuple[tuple[bool, bool, bool, bool, int, int, int, int], str]] = []
    for position, key in enumerate(map.key_names):
        is_visible = (map.name, position) not in columns.hidden
        members = columns.members(map, key)
        for relation, column in members:
            is_hinted = hints.tables.get(relation.name) == column
            is_key = not relation.static and column in relation.key
            covers_key = is_key and relation.key == (column,)
            if is_hinted or is_key:
                rank = columns.rank(relation.name)
                order = (is_hinted, is_visible, True, covers_key, rank, 0, 0, -position)
                ranked.append((order, key))
        if is_large or (is_visible and not columns.is_few(map, key)):
            values = columns.values(map, key)
            order = (False, is_visible, False, False, 0, len(members), values, -position)
            ranked.append((order, key))
    return Dist((max(ranked)[1],)) if ranked else LOCAL
