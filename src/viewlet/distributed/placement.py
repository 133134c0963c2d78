"""Where every map is kept: the primary-key heuristic (paper 000 section 6.2), hints, replication.

    partition a map on a primary key of a base table in its schema,
    on that of the largest table where there are several,
    keep it on the driver where there is none: its domain is small.

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from viewlet.calculus.expr import (
    Delta,
    Expr,
    MapRef,
    Nested,
    Rel,
    relations,
    walk,
)
from viewlet.calculus.scope import Names, outputs
from viewlet.distributed.location import (
    LOCAL,
    REPLICATED,
    Dist,
    Local,
    Location,
    in_variables,
    location_of,
)
from viewlet.errors import ResolutionError
from viewlet.program.ir import Map, Program

Column = tuple[str, str]
"""A relation and one of its columns."""


@dataclass(frozen=True)
class Hints:
    """What the user knows better.

    `maps`         a map's or view's location, also as explain writes it: dist(a), replicated, local
    `tables`       the column by which maps that have it are partitioned first, for each table
    `statistics`   about how many rows each table has or will have
    `replicate_below`   tables with fewer rows than this are copied to every node where it saves a
                        stage

    >>> hints = viewlet.Hints(statistics={"supplier": 10_000, "orders": 1_500_000})
    >>> hints.small
    ['supplier']
    """

    maps: Mapping[str, Location | str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    statistics: Mapping[str, int] = field(default_factory=dict)
    replicate_below: int = 200_000

    @property
    def small(self) -> list[str]:
        """The tables that are known to be small, smallest first.

        >>> viewlet.Hints(statistics={"part": 400, "nation": 25}, replicate_below=100).small
        ['nation']
        """
        rows = sorted((rows, table) for table, rows in self.statistics.items())
        return [table for size, table in rows if size < self.replicate_below]

    def place(self, name: str) -> Location | None:
        """The location that a map was given.

        >>> viewlet.Hints(maps={"m": "dist(a, b)"}).place("m")
        Dist(columns=('a', 'b'))
        """
        location = self.maps.get(name)
        return location_of(location) if isinstance(location, str) else location

    def plain(self) -> dict[str, Any]:
        """The arguments that make this again, as JSON has them.

        >>> viewlet.Hints(statistics={"supplier": 10_000}).plain()["statistics"]
        {'supplier': 10000}
        """
        return asdict(self) | {
            "maps": {name: str(location) for name, location in self.maps.items()}
        }


def hints_about(program: Program, hints: Hints) -> Hints:
    """Without the hints for maps and tables that the program does not have, or not yet."""
    maps = {m.name for m in program.maps}
    tables = {relation.name for relation in program.relations}
    return replace(
        hints,
        maps={name: location for name, location in hints.maps.items() if name in maps},
        tables={name: column for name, column in hints.tables.items() if name in tables},
    )


def partition(
    program: Program, hints: Hints | None = None, copied: frozenset[str] = frozenset()
) -> dict[str, Location]:
    """A location for every map and buffer of the program; of `copied` tables on every node."""
    hints = hints or Hints()
    _check(program, hints)
    columns = _Columns(program, hints)
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
            locations[map.name] = columns.locate(map)
    for map in program.maps:
        if map.buffer:
            locations[map.name] = _buffer_location(map, program, locations)
    _replicate_shared(program, locations, hints)
    return locations


def _check(program: Program, hints: Hints) -> None:
    maps = {m.name: m for m in program.maps}
    for name in hints.maps:
        if name not in maps:
            raise ResolutionError(f"a partitioning hint names {name}, which is not kept")
        location = hints.place(name)
        if isinstance(location, Dist) and not {*location.columns} <= {*maps[name].key_names}:
            raise ResolutionError(
                f"{name} cannot be partitioned by {', '.join(location.columns)}",
                hint=f"its key is ({', '.join(maps[name].key_names)})",
            )
    relations = {relation.name: relation for relation in program.relations}
    for name, column in hints.tables.items():
        if name not in relations:
            raise ResolutionError(f"a partitioning hint names table {name}, which is unknown")
        relations[name].column(column)


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


class _Columns:
    """Columns of base tables that joins make one, and which of them are keys."""

    def __init__(self, program: Program, hints: Hints) -> None:
        self._relations = {relation.name: relation for relation in program.relations}
        self._hints = hints
        self._summed = frozenset(_summed_over(program))
        self._parents: dict[Column, Column] = {}
        for definition in _definitions(program.maps):
            shared: dict[str, Column] = {}
            for column, variable in self._uses(definition):
                self._parents.setdefault(column, column)
                first = shared.setdefault(variable, column)
                self._parents[self._class(column)] = self._class(first)

    def _uses(self, definition: Expr) -> Iterator[tuple[Column, str]]:
        for node in walk(definition):
            if isinstance(node, Rel):
                names = self._relations[node.name].names
                for name, variable in zip(names, node.variables, strict=True):
                    yield (node.name, name), variable

    def _class(self, column: Column) -> Column:
        while self._parents[column] != column:
            column = self._parents[column]
        return column

    @cached_property
    def _members(self) -> dict[Column, list[Column]]:
        members: dict[Column, list[Column]] = {}
        for column in sorted(self._parents):
            members.setdefault(self._class(column), []).append(column)
        return members

    def locate(self, map: Map) -> Location:
        """Dist on the best key column, else Local."""
        ranked: list[tuple[tuple[bool, bool, bool, int, int], str]] = []
        for position, key in enumerate(map.key_names):
            visible = (map.name, position) not in self._summed
            for hinted, covers_key, size in self._ranks(map, key):
                ranked.append(((hinted, visible, covers_key, size, -position), key))
        return Dist((max(ranked)[1],)) if ranked else LOCAL

    def tables(self, map: Map) -> set[str]:
        """The tables over which it is defined, without static ones."""
        tables = {t for definition in _definitions((map,)) for t in relations(definition)}
        return {table for table in tables if not self._relations[table].static}

    def _ranks(self, map: Map, key: str) -> Iterator[tuple[bool, bool, int]]:
        """Whether the column is hinted, whether it is a whole primary key; the table's size."""
        uses = {
            self._class(column)
            for definition in _definitions((map,))
            for column, variable in self._uses(definition)
            if variable == key
        }
        for group in uses:
            for table, column in self._members[group]:
                relation = self._relations[table]
                hinted = self._hints.tables.get(table) == column
                if hinted or (not relation.static and column in relation.key):
                    yield hinted, relation.key == (column,), self._size(table)

    def _size(self, table: str) -> int:
        """Rows where the hints have them for all streams, else a depth: the two do not compare."""
        rows = self._hints.statistics
        has_all_sizes = all(r.static or r.name in rows for r in self._relations.values())
        return rows.get(table, 0) if has_all_sizes else self._depths[table]

    @cached_property
    def _depths(self) -> dict[str, int]:
        """How long a chain of references starts at each table: customer < orders < lineitem."""
        refers: dict[str, set[str]] = {name: set() for name in self._relations}
        for members in self._members.values():
            for table, column in members:
                relation = self._relations[table]
                if relation.key == (column,) and not relation.static:
                    for other, _ in members:
                        refers[other] |= {table} - {other}

        def depth(table: str, above: frozenset[str]) -> int:
            below = refers[table] - above
            return 1 + max((depth(t, above | {table}) for t in below), default=-1)

        return {name: depth(name, frozenset()) for name in refers}


def _summed_over(program: Program) -> Iterator[tuple[str, int]]:
    """The maps and key positions over which some nested aggregate of a trigger sums."""
    for trigger in program.triggers:
        for statement in trigger.statements:
            for _, expr in statement.expressions():
                yield from _hidden(expr, outputs(expr))


def _hidden(expr: Expr, visible: Names) -> Iterator[tuple[str, int]]:
    for node in walk(expr):
        if isinstance(node, Nested):
            shown = visible | outputs(node.body)
            for atom in walk(node.body):
                if isinstance(atom, MapRef):
                    for position, key in enumerate(atom.keys):
                        if key not in shown:
                            yield atom.name, position


def _definitions(maps: Iterable[Map]) -> Iterator[Expr]:
    for map in maps:
        for column in map.columns:
            if column.definition is not None:
                yield column.definition
