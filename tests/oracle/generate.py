"""Random schemas, queries and change streams, as text and rows.

Everything is drawn from an object with the interface of `random.Random`: a seeded one for a long
hunt, Hypothesis' own for tests, which then shrink. Queries are well typed by construction. Values
come from small domains, so that joins meet, groups collide and duplicates occur; DOUBLE values are
quarters, so that sums are exact in both systems and comparisons of sums do not hang on rounding.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from tests.oracle.harness import Batch, Case, Row

NUMBERS = ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL(8,2)")
TYPES = (*NUMBERS, "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN")
WORDS = ("a", "b", "ab", "ba", "x%", "")
BATCH_SIZES = (1, 7, 100)


@dataclass
class Col:
    name: str
    type: str
    nullable: bool

    @property
    def is_number(self) -> bool:
        return self.type in NUMBERS


@dataclass
class Rel:
    name: str
    columns: list[Col]
    key: int | None = None
    stream: bool = False

    def sql(self) -> str:
        parts = [f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns]
        if self.key is not None:
            parts.append(f"PRIMARY KEY ({self.columns[self.key].name})")
        kind = "STREAM" if self.stream else "TABLE"
        return f"CREATE {kind} {self.name} ({', '.join(parts)})"


Scope = list[tuple[str, Col]]
"""What an expression may use: SQL text of the column and what it is."""


def columns_of(alias: str, columns: list[Col], nullable: bool = False) -> Scope:
    return [(f"{alias}.{c.name}", Col(c.name, c.type, c.nullable or nullable)) for c in columns]


def value(r: Random, type: str) -> Any:
    small = r.randint(0, 4)
    if type in ("INTEGER", "BIGINT"):
        return small - 1
    if type == "DOUBLE":
        return (small - 1) * 0.75
    if type.startswith("DECIMAL"):
        return Decimal(small * 35 - 35).scaleb(-2)
    if type == "VARCHAR":
        return r.choice(WORDS)
    if type == "DATE":
        return dt.date(2024, 1, 30) + dt.timedelta(days=small)
    if type == "TIMESTAMP":
        return dt.datetime(2024, 2, 28, 22) + dt.timedelta(hours=small)
    return bool(small % 2)


def literal(r: Random, type: str) -> str:
    found = value(r, type)
    if isinstance(found, bool):
        return str(found).upper()
    if type == "VARCHAR":
        return f"'{found}'"
    if type == "DATE":
        return f"DATE '{found}'"
    if type == "TIMESTAMP":
        return f"TIMESTAMP '{found}'"
    text = f"CAST({found} AS DOUBLE)" if type == "DOUBLE" else str(found)
    return f"({text})" if text.startswith("-") else text


@dataclass
class Generator:
    """Draws one case: schema and query from `r`, rows from `rows`. `fresh` numbers aliases."""

    r: Random
    rows: Random
    relations: list[Rel] = field(default_factory=list)
    fresh: int = 0

    def chance(self, percent: int) -> bool:
        return self.r.randint(1, 100) <= percent

    # Schema and rows.

    def schema(self) -> None:
        for index in range(self.r.randint(2, 3)):
            columns = []
            for number in range(self.r.randint(2, 4)):
                # Two INTEGER columns come first, so that most tables can be joined.
                type = "INTEGER" if number < 1 or self.chance(30) else self.r.choice(TYPES)
                columns.append(Col(f"{'abcd'[number]}", type, self.chance(50)))
            relation = Rel(f"t{index}", columns, stream=self.chance(15))
            if not relation.stream and self.chance(20):
                relation.key = 0
                columns[0].nullable = False
            self.relations.append(relation)

    def row(self, relation: Rel) -> Row:
        return tuple(
            None if c.nullable and self.rows.random() < 0.2 else value(self.rows, c.type)
            for c in relation.columns
        )

    def batches(self, size: int) -> list[Batch]:
        held: dict[str, list[Row]] = {relation.name: [] for relation in self.relations}
        count = {1: 12, 7: 6, 100: 3}[size]
        return [self.batch(size, held) for _ in range(count)]

    def batch(self, size: int, held: dict[str, list[Row]]) -> Batch:
        found: Batch = []
        for _ in range(size):
            relation = self.rows.choice(self.relations)
            rows = held[relation.name]
            if rows and self.rows.random() < 0.35:
                found.append((relation.name, rows.pop(self.rows.randrange(len(rows))), -1))
                continue
            row, key = self.row(relation), relation.key
            if key is None or all(other[key] != row[key] for other in rows):
                rows.append(row)
                found.append((relation.name, row, 1))
        return found

    def case(self, size: int | None = None) -> Case:
        self.schema()
        select = self.query()
        chosen = size or self.r.choice(BATCH_SIZES)
        return Case([relation.sql() for relation in self.relations], select, self.batches(chosen))

    # Queries.

    def query(self) -> str:
        if self.chance(15):
            return self.set_operation()
        if self.chance(10):
            return self.with_clause()
        if self.chance(8):
            return self.ordered()
        return self.select(2, [])[0]

    def ordered(self) -> str:
        """ORDER BY every column, so that only equal rows may change places, and LIMIT."""
        text, columns = self.select(1, [])
        order = ", ".join(
            f"{i} {self.r.choice(('ASC', 'DESC'))} NULLS {self.r.choice(('FIRST', 'LAST'))}"
            for i in range(1, len(columns) + 1)
        )
        return f"{text} ORDER BY {order} LIMIT {self.r.randint(1, 4)}"

    def set_operation(self) -> str:
        types = [self.r.choice(TYPES) for _ in range(self.r.randint(1, 2))]
        operation = self.r.choice(("UNION", "INTERSECT", "EXCEPT"))
        every = " ALL" if self.chance(50) else ""
        return f"{self.branch(types)} {operation}{every} {self.branch(types)}"

    def branch(self, types: list[str]) -> str:
        text, scope = self.sources(1, [])
        shown = ", ".join(f"{self.scalar(scope, type, 1)} AS c{i}" for i, type in enumerate(types))
        return f"SELECT {shown} FROM {text}{self.where(scope, 1)}"

    def with_clause(self) -> str:
        inner, columns = self.select(1, [])
        name = self.alias("w")
        self.relations.append(Rel(name, columns))
        text = self.select(1, [])[0]
        if self.chance(60):
            text = f"SELECT * FROM {name}{self.where(columns_of(name, columns), 1)}"
        self.relations.pop()
        return f"WITH {name} AS ({inner}) {text}"

    def alias(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def select(self, depth: int, outer: Scope) -> tuple[str, list[Col]]:
        """A SELECT of any shape, with its output columns."""
        text, scope = self.sources(depth, outer)
        where = self.where(scope, depth, outer)
        shape = self.r.randint(1, 100)
        if shape <= 30:
            distinct = "DISTINCT " if self.chance(25) else ""
            columns, shown = self.plain_columns(scope, depth)
            return f"SELECT {distinct}{shown} FROM {text}{where}", columns
        if shape <= 80:
            return self.grouped(text, scope, where, depth)
        columns, shown = self.aggregates(scope, depth, self.r.randint(1, 3))
        return f"SELECT {', '.join(shown)} FROM {text}{where}", columns

    def plain_columns(self, scope: Scope, depth: int) -> tuple[list[Col], str]:
        columns, shown = [], []
        for index in range(self.r.randint(1, 3)):
            if self.chance(65):
                text, column = self.r.choice(scope)
                type = column.type
            elif depth > 0 and self.chance(30):
                type, text = self.scalar_subquery(scope, depth)
            else:
                type = self.r.choice(TYPES)
                text = self.scalar(scope, type, depth)
            columns.append(Col(f"c{index}", type, True))
            shown.append(f"{text} AS c{index}")
        return columns, ", ".join(shown)

    def grouped(self, text: str, scope: Scope, where: str, depth: int) -> tuple[str, list[Col]]:
        keys = [self.r.choice(scope) for _ in range(self.r.randint(1, 2))]
        columns, shown, groups = [], [], []
        for index, (key, column) in enumerate(dict(keys).items()):
            if column.type == "INTEGER" and self.chance(15):
                key = f"{key} + 1"
            elif column.type == "DATE" and self.chance(30):
                key, column = (
                    f"CAST(EXTRACT(MONTH FROM {key}) AS INTEGER)",
                    Col("", "INTEGER", True),
                )
            groups.append(key)
            if self.chance(85):
                columns.append(Col(f"g{index}", column.type, True))
                shown.append(f"{key} AS g{index}")
        more, aggregates = self.aggregates(scope, depth, self.r.randint(1, 3))
        having = ""
        if self.chance(30):
            type, aggregate = self.aggregate(scope, 0, comparable=True)
            compared = self.r.choice(("<", ">", "<=", ">=", "=", "<>"))
            bound = literal(self.r, type)
            if depth > 0 and self.chance(30):
                type, bound = self.scalar_subquery([], depth)
                if type not in NUMBERS:
                    bound = f"(SELECT COUNT(*) FROM {self.relations[0].name})"
                aggregate = "COUNT(*)"
            having = f" HAVING {aggregate} {compared} {bound}"
        sql = f"SELECT {', '.join(shown + aggregates)} FROM {text}{where} GROUP BY "
        return sql + ", ".join(groups) + having, columns + more

    def aggregates(self, scope: Scope, depth: int, count: int) -> tuple[list[Col], list[str]]:
        columns, shown = [], []
        for index in range(count):
            type, text = self.aggregate(scope, depth)
            columns.append(Col(f"s{index}", type, True))
            shown.append(f"{text} AS s{index}")
        return columns, shown

    def aggregate(self, scope: Scope, depth: int, comparable: bool = False) -> tuple[str, str]:
        """An aggregate with its type; `comparable` leaves out those that round differently."""
        kind = self.r.choice(
            (
                "count*",
                "count",
                "sum",
                "sum",
                "min",
                "max",
                "avg",
                "distinct",
                "sumdistinct",
                "filter",
            )
            + (() if comparable else ("stddev",))
        )
        if kind == "count*":
            return "BIGINT", "COUNT(*)"
        type = self.r.choice([c.type for _, c in scope])
        if kind in ("sum", "avg", "stddev", "sumdistinct"):
            type = self.r.choice(NUMBERS)
        if kind in ("avg", "stddev") and (comparable or kind == "stddev"):
            type = self.r.choice(("INTEGER", "DOUBLE"))
        if kind in ("min", "max") and type == "BOOLEAN":
            type = "INTEGER"
        argument = self.scalar(scope, type, min(depth, 1))
        if kind == "count":
            return "BIGINT", f"COUNT({argument})"
        if kind == "distinct":
            return "BIGINT", f"COUNT(DISTINCT {argument})"
        if kind == "filter":
            return "BIGINT", f"COUNT(*) FILTER (WHERE {self.predicate(scope, 0, [])})"
        if kind in ("min", "max"):
            return type, f"{kind.upper()}({argument})"
        if kind == "avg":
            return "DOUBLE", f"AVG({argument})"
        if kind == "stddev":
            return "DOUBLE", f"{self.r.choice(('STDDEV', 'VARIANCE', 'VAR_POP'))}({argument})"
        distinct = "DISTINCT " if kind == "sumdistinct" else ""
        summed = {"INTEGER": "BIGINT", "BIGINT": "BIGINT"}.get(type, type)
        return summed, f"SUM({distinct}{argument})"

    # FROM.

    def sources(self, depth: int, outer: Scope) -> tuple[str, Scope]:
        text, scope = self.source(depth)
        for _ in range(self.r.choice((0, 0, 1, 1, 1, 2)) if depth > 0 else 0):
            right, more = self.source(depth)
            if " JOIN " not in text and self.chance(8):
                shared = self.shared_column(scope, more)
                if shared is not None:
                    kept = [(t, c) for t, c in more if c.name != shared]
                    scope = [(t, c) for t, c in scope if c.name != shared]
                    text = f"{text} JOIN {right} USING ({shared})"
                    scope = scope + kept or [("1", Col("one", "INTEGER", False))]
                    continue
            kind = self.r.choice(("JOIN", "JOIN", ",", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            on = self.join_condition(scope, more)
            if kind == ",":
                if "JOIN" in text or "," in text:
                    kind = "JOIN"
                else:
                    kind, on = "CROSS JOIN", ""
            if kind in ("LEFT JOIN", "FULL JOIN"):
                more = [(t, Col(c.name, c.type, True)) for t, c in more]
            if kind in ("RIGHT JOIN", "FULL JOIN"):
                scope = [(t, Col(c.name, c.type, True)) for t, c in scope]
            text = f"{text} {kind} {right}{' ON ' + on if on else ''}"
            scope = scope + more
        return text, scope

    def shared_column(self, left: Scope, right: Scope) -> str | None:
        """A name that both sides have with one type, for USING."""
        types = {c.name: c.type for _, c in left}
        names = sorted({c.name for _, c in right if types.get(c.name) == c.type})
        return self.r.choice(names) if names else None

    def source(self, depth: int) -> tuple[str, Scope]:
        if depth > 1 and self.chance(15):
            inner, columns = self.select(depth - 1, [])
            alias = self.alias("d")
            return f"({inner}) AS {alias}", columns_of(alias, columns)
        relation = self.r.choice(self.relations)
        alias = self.alias("x")
        return f"{relation.name} AS {alias}", columns_of(alias, relation.columns)

    def join_condition(self, left: Scope, right: Scope) -> str:
        pairs = [f"{a} = {b}" for a, ca in left for b, cb in right if ca.type == cb.type]
        parts = [self.r.choice(pairs)] if pairs else []
        if not parts or self.chance(20):
            parts.append(self.comparison(left + right, 0))
        return " AND ".join(parts)

    def where(self, scope: Scope, depth: int, outer: Scope | None = None) -> str:
        if not self.chance(60):
            return ""
        return f" WHERE {self.predicate(scope, depth, outer or [])}"

    # Conditions.

    def predicate(self, scope: Scope, depth: int, outer: Scope) -> str:
        kind = self.r.randint(1, 100)
        if kind <= 20 and depth > 0:
            joined = self.r.choice((" AND ", " OR ", " AND "))
            parts = [self.predicate(scope, depth - 1, outer) for _ in range(2)]
            return f"({joined.join(parts)})"
        if kind <= 28 and depth > 0:
            return f"NOT ({self.predicate(scope, depth - 1, outer)})"
        if kind <= 55 and depth > 0:
            return self.nested_predicate(scope + outer, depth)
        return self.comparison(scope + outer, depth)

    def comparison(self, scope: Scope, depth: int) -> str:
        text, column = self.r.choice(scope)
        kind = self.r.randint(1, 100)
        if kind <= 12:
            return f"{text} IS {self.r.choice(('', 'NOT '))}NULL"
        if kind <= 20:
            values = ", ".join(literal(self.r, column.type) for _ in range(2))
            return f"{text} {self.r.choice(('', 'NOT '))}IN ({values})"
        if kind <= 28 and column.type != "BOOLEAN":
            low, high = literal(self.r, column.type), literal(self.r, column.type)
            return f"{text} BETWEEN {low} AND {high}"
        if kind <= 34 and column.type == "VARCHAR":
            return f"{text} LIKE '{self.r.choice(('a%', '%b', '_', '%a%'))}'"
        if kind <= 38 and column.type == "BOOLEAN":
            return text
        compared = self.r.choice(("=", "<>", "<", "<=", ">", ">="))
        if kind <= 44:
            compared = self.r.choice(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
        return f"{text} {compared} {self.scalar(scope, column.type, min(depth, 1))}"

    def nested_source(self, scope: Scope, depth: int) -> tuple[str, Scope]:
        """FROM and WHERE of a subquery, correlated more often than not."""
        relation = self.r.choice(self.relations)
        alias = self.alias("n")
        inner = columns_of(alias, relation.columns)
        text = f"{relation.name} AS {alias}"
        if self.chance(20):
            other = self.r.choice(self.relations)
            second = self.alias("n")
            more = columns_of(second, other.columns)
            kind = self.r.choice(("JOIN", "JOIN", "LEFT JOIN"))
            text += f" {kind} {other.name} AS {second} ON {self.join_condition(inner, more)}"
            if kind == "LEFT JOIN":
                more = [(t, Col(c.name, c.type, True)) for t, c in more]
            inner = inner + more
        conditions = []
        if scope and self.chance(65):
            pairs = [f"{a} = {b}" for a, ca in inner for b, cb in scope if ca.type == cb.type]
            if pairs and self.chance(75):
                conditions.append(self.r.choice(pairs))
            else:
                conditions.append(self.comparison(inner + scope, 0))
        if self.chance(40):
            conditions.append(self.predicate(inner, depth - 1, scope))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"FROM {text}{where}", inner

    def scalar_subquery(self, scope: Scope, depth: int) -> tuple[str, str]:
        source, inner = self.nested_source(scope, depth)
        type, aggregate = self.aggregate(inner, 0, comparable=True)
        return type, f"(SELECT {aggregate} {source})"

    def nested_predicate(self, scope: Scope, depth: int) -> str:
        """A subquery in a condition."""
        kind = self.r.choice(("exists", "in", "scalar", "scalar", "quantified", "grouped"))
        if kind == "scalar":
            type, subquery = self.scalar_subquery(scope, depth)
            compared = self.r.choice(("=", "<", ">", "<=", ">=", "<>"))
            return f"{self.scalar(scope, type, 0)} {compared} {subquery}"
        source, inner = self.nested_source(scope, depth)
        negated = self.r.choice(("", "NOT "))
        shared = [(a, b) for a, ca in scope for b, cb in inner if ca.type == cb.type]
        if kind == "exists" or not shared:
            return f"{negated}EXISTS (SELECT 1 {source})"
        left, right = self.r.choice(shared)
        if kind == "in":
            return f"{left} {negated}IN (SELECT {right} {source})"
        if kind == "grouped":
            bound = self.r.randint(1, 2)
            having = f"GROUP BY {right} HAVING COUNT(*) {self.r.choice('<>=')} {bound}"
            return f"{left} {negated}IN (SELECT {right} {source} {having})"
        compared = self.r.choice(("=", "<>", "<", ">="))
        return f"{left} {compared} {self.r.choice(('ANY', 'ALL'))} (SELECT {right} {source})"

    # Scalars.

    def scalar(self, scope: Scope, type: str, depth: int) -> str:
        candidates = [text for text, column in scope if column.type == type]
        kind = self.r.randint(1, 100)
        if depth > 0 and kind <= 30:
            return self.composed(scope, type, depth - 1)
        if candidates and kind <= 90:
            return self.r.choice(candidates)
        return literal(self.r, type)

    def composed(self, scope: Scope, type: str, depth: int) -> str:
        def part() -> str:
            return self.scalar(scope, type, depth)

        kind = self.r.randint(1, 100)
        if kind <= 25:
            otherwise = f" ELSE {part()}" if self.chance(70) else ""
            return f"CASE WHEN {self.comparison(scope, 0)} THEN {part()}{otherwise} END"
        if kind <= 40:
            return f"COALESCE({part()}, {part()})"
        if kind <= 48:
            return f"NULLIF({part()}, {part()})"
        if kind <= 54 and type != "BOOLEAN":
            return f"{self.r.choice(('GREATEST', 'LEAST'))}({part()}, {part()})"
        if type in ("INTEGER", "BIGINT", "DOUBLE"):
            if type == "DOUBLE" and self.chance(30):
                return f"({part()} / {self.r.choice(('2', '4', '0'))})"
            return f"({part()} {self.r.choice('+-*')} {part()})"
        if type.startswith("DECIMAL"):
            return f"({part()} {self.r.choice('+-')} {part()})"
        if type == "VARCHAR":
            return self.r.choice(
                (f"({part()} || {part()})", f"UPPER({part()})", f"SUBSTRING({part()}, 1, 1)")
            )
        if type == "BOOLEAN":
            return f"({self.comparison(scope, 0)})"
        return part()
