"""Columns of base tables that joins make one, and how many values and records they have.

    m[l_suppkey] over lineitem alone        class {lineitem.l_suppkey, supplier.s_suppkey}
                                            by another definition, which joins the two
    values of a class                       rows of the table whose key is in it
    records of m                            values of its keys, at most the rows of its tables

Rows come from statistics; without them from who refers to whom: a row of orders names one customer,
so there are at least as many orders as customers that matter. What nobody declared or measured is
taken to be large, with one exception (paper 000 section 6.2): a column beside a primary key that is
no part of one and refers to no other has few values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from viewlet.calculus.expr import Assign, Expr, MapRef, Nested, NestedValue, Rel, relations, walk
from viewlet.calculus.scope import Names, outputs
from viewlet.distributed.hints import Hints
from viewlet.functions.scalars import Apply, free_variables
from viewlet.program.ir import Map, Program
from viewlet.schema import Column as BaseColumn
from viewlet.schema import Kind, Relation

Column = tuple[str, str]
"""A relation and one of its columns."""

STATIC_ROWS = 30
FEW_VALUES = 30
"""What a column has that is no key, and a part of a date."""
NARROW_VALUES = {Kind.BOOLEAN: 3}
DATE_PARTS = frozenset({"date_year", "timestamp_year"})
ROWS_BY_DEPTH = (300_000, 3_000_000, 10_000_000)
"""Of tables without statistics, by the length of the chain of references that starts there."""


class ColumnClasses:
    """The classes of a program's columns, as its definitions join them."""

    def __init__(self, program: Program, hints: Hints) -> None:
        self._relations = {relation.name: relation for relation in program.relations}
        self._hints = hints
        self.hidden = frozenset(_summed_over(program))
        """The maps and key positions over which some nested aggregate of a trigger sums."""
        self._parents: dict[Column, Column] = {}
        for definition in definitions(program.maps):
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

    def tables(self, map: Map) -> set[str]:
        """The tables over which it is defined, without static ones."""
        tables = {t for definition in definitions((map,)) for t in relations(definition)}
        return {table for table in tables if not self._relations[table].static}

    def members(self, map: Map, key: str) -> list[tuple[Relation, str]]:
        """The columns of base tables in the class of one of a map's keys; none of what is computed.

        Each with its relation.
        """
        classes = {
            self._class(column)
            for definition in definitions((map,))
            for column, variable in self._uses(definition)
            if variable == key
        }
        columns = (column for group in sorted(classes) for column in self._members[group])
        return [(self._relations[table], column) for table, column in columns]

    def group(self, map: Map, key: str) -> Column:
        """One name for the keys that are partitioned alike: the class, else the key itself."""
        members = self.members(map, key)
        return (members[0][0].name, members[0][1]) if members else (map.name, key)

    # Sizes.

    @cached_property
    def has_all_sizes(self) -> bool:
        """Whether statistics have all tables: rows that are declared and guessed do not compare."""
        rows = self._hints.statistics
        return all(r.static or r.name in rows for r in self._relations.values())

    def rank(self, table: str) -> int:
        """A number by which tables are compared: rows, or the depth of references."""
        return self._hints.statistics.get(table, 0) if self.has_all_sizes else self._depths[table]

    def rows(self, table: str) -> int:
        """About how many rows a table has; a stream, in the views over it."""
        relation = self._relations[table]
        declared = self._hints.statistics.get(table)
        if declared is not None:
            return max(declared, 1)
        if relation.static:
            return STATIC_ROWS
        depth = self._depths[table] if relation.key else len(ROWS_BY_DEPTH) - 1
        return ROWS_BY_DEPTH[min(depth, len(ROWS_BY_DEPTH) - 1)]

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

    def column_values(self, table: str, name: str) -> int:
        """About how many values a column of a table has."""
        column = (table, name)
        members = self._members[self._class(column)] if column in self._parents else [column]
        return self._class_values([(self._relations[t], c) for t, c in members])

    def values(self, map: Map, key: str) -> int:
        """About how many values a key of a map has."""
        return self._values(map, key, frozenset())

    def _values(self, map: Map, key: str, above: frozenset[str]) -> int:
        members = self.members(map, key)
        if members:
            return self._class_values(members)
        sources, few = self._computed_from(map, key)
        bound = FEW_VALUES if few else max((self.rows(t) for t in self.tables(map)), default=1)
        product = 1
        for source in sources - above:
            product *= self._values(map, source, above | {key})
        return min(product, bound) if sources else bound

    def _class_values(self, members: list[tuple[Relation, str]]) -> int:
        """The rows of the table whose key it is; else few, or those of the tables without keys."""
        keys = [r for r, c in members if r.static or r.key == (c,)]
        parts = [r for r, c in members if c in r.key or not r.key]
        bound = min((self.rows(r.name) for r in keys or parts), default=FEW_VALUES)
        narrow = [self._narrow_values(r.column(c)) for r, c in members]
        return min([bound, *(values for values in narrow if values)])

    def _narrow_values(self, column: BaseColumn) -> int | None:
        if column.type.kind is Kind.VARCHAR and column.limit == 1:
            return FEW_VALUES
        return NARROW_VALUES.get(column.type.kind)

    def _computed_from(self, map: Map, key: str) -> tuple[Names, bool]:
        """The variables that decide a computed key; whether they leave it few values."""
        for definition in definitions((map,)):
            for node in walk(definition):
                if isinstance(node, Assign) and node.variable == key:
                    scalar = node.scalar
                    few = isinstance(scalar, Apply) and scalar.function in DATE_PARTS
                    return free_variables(scalar), few
                if isinstance(node, NestedValue) and node.variable == key:
                    return outputs(node.body) - {key}, False
        return frozenset(), False

    def is_small(self, map: Map) -> bool:
        """Whether a map may be kept where there is one of it for a node: known to be small.

        Measured or declared where `records` have it; else every key has few values by its type,
        its table's declared rows or the rule of tables with keys.
        """
        limit = self._hints.replicate_below
        if map.name in self._hints.records:
            return self._hints.records[map.name] < limit
        declared = [self._declared_rows(t) for t in sorted(self.tables(map))]
        if declared and all(rows is not None for rows in declared):
            product = 1
            for rows in declared:
                product *= rows or 1
            if product < limit:
                return True
        return all(self._is_few(map, key, frozenset()) for key in map.key_names) and (
            self._known_records(map) < limit
        )

    def _declared_rows(self, table: str) -> int | None:
        return self._hints.statistics.get(table)

    def is_few(self, map: Map, key: str) -> bool:
        """Whether a key of a map is known to have few values."""
        return self._is_few(map, key, frozenset())

    def _is_few(self, map: Map, key: str, above: frozenset[str]) -> bool:
        members = self.members(map, key)
        if members:
            return any(self._has_few(relation, column) for relation, column in members) and not any(
                self._is_large_key(relation, column) for relation, column in members
            )
        sources, few = self._computed_from(map, key)
        if few:
            return True
        if all(self._relations[table].key for table in self.tables(map)):
            return True
        others = sources - above - {key}
        return bool(sources) and all(self._is_few(map, s, above | {key}) for s in others)

    def _has_few(self, relation: Relation, name: str) -> bool:
        rows = self._declared_rows(relation.name)
        is_counted = rows is not None and rows < self._hints.replicate_below
        is_beside_key = bool(relation.key) and name not in relation.key
        column = relation.column(name)
        is_narrow = self._narrow_values(column) is not None
        return relation.static or is_counted or is_beside_key or is_narrow

    def _is_large_key(self, relation: Relation, name: str) -> bool:
        """A primary key of which nobody said that it is small; a reference has as many values."""
        rows = self._declared_rows(relation.name)
        is_counted = rows is not None and rows < self._hints.replicate_below
        return not relation.static and not is_counted and name in relation.key

    def records(self, map: Map) -> int:
        """About how many records a map has: what was measured or declared, else what its keys say.

        Keys that others of its keys decide add nothing: m[s_suppkey, s_name] has a record for each
        supplier.
        """
        declared = self._hints.records.get(map.name)
        return declared if declared is not None else self._known_records(map)

    def _known_records(self, map: Map) -> int:
        names = frozenset(map.key_names)
        decided: set[str] = set()
        for definition in definitions((map,)):
            for node in walk(definition):
                if isinstance(node, Rel) and (primary := self._relations[node.name].key):
                    columns = self._relations[node.name].names
                    own = {v for c, v in zip(columns, node.variables, strict=True) if c in primary}
                    if own <= names:
                        decided |= {*node.variables} - own
        for key in map.key_names:
            sources, _ = self._computed_from(map, key)
            if sources and sources <= names and not self.members(map, key):
                decided.add(key)
        records = 1
        for key in names - decided:
            records *= self.values(map, key)
        bound = max((self.rows(table) for table in self.tables(map)), default=STATIC_ROWS)
        return min(records, bound)


def definitions(maps: Iterable[Map]) -> Iterator[Expr]:
    """The definitions of the maps' columns."""
    for map in maps:
        for column in map.columns:
            if column.definition is not None:
                yield column.definition


def _summed_over(program: Program) -> Iterator[tuple[str, int]]:
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
