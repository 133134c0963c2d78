"""Random SELECTs over the tables of test_features: joins of all kinds, subqueries, aggregates,
set operations. Every query is valid SQL for viewlet and DuckDB alike."""

from __future__ import annotations

import random

TABLES = {
    "r": {"a": "int", "b": "int", "c": "num", "e": "text"},
    "s": {"b": "int", "x": "num", "k": "text"},
    "t": {"id": "int", "a": "int", "f": "bool"},
    "u": {"b": "int", "n": "int"},
}

Columns = list[tuple[str, str]]
"""Qualified names with their sort: int, num, text or bool."""


class Maker:
    """Makes one query; `depth` bounds nesting."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.aliases = 0
        self.budget = 6

    def alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # FROM.

    def item(self, depth: int) -> tuple[str, Columns]:
        alias = self.alias()
        if depth and self.chance(0.25):
            text, sorts = self.query(depth - 1, ())
            names = [f"c{i}" for i in range(len(sorts))]
            columns = [(f"{alias}.{n}", sort) for n, sort in zip(names, sorts, strict=True)]
            return f"({text}) AS {alias}({', '.join(names)})", columns
        name = self.random.choice(list(TABLES))
        return f"{name} AS {alias}", [(f"{alias}.{c}", sort) for c, sort in TABLES[name].items()]

    def source(self, depth: int) -> tuple[str, Columns]:
        text, columns = self.item(depth)
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            other, more = self.item(depth)
            kind = self.random.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            # DuckDB takes only simple conditions for FULL JOIN.
            on = self.equality(columns, more)
            if kind != "FULL JOIN" and self.chance(0.3):
                on += f" AND {self.test(columns + more, 0, ())}"
            text, columns = f"{text} {kind} {other} ON {on}", columns + more
        return text, columns

    def equality(self, left: Columns, right: Columns) -> str:
        pairs = [(a, b) for a, s in left for b, z in right if s == z and s != "bool"]
        if not pairs:
            return "TRUE" if self.chance(0.5) else "1 = 1"
        a, b = self.random.choice(pairs)
        return f"{a} = {b}"

    # Scalars.

    def value(self, columns: Columns, sort: str) -> str:
        known = [c for c, s in columns if s == sort]
        constants = {"int": "1 2 3", "num": "1.5 2 0.25", "text": "'ab' 'k'", "bool": "TRUE FALSE"}
        if not known or self.chance(0.15):
            return self.random.choice(constants[sort].split())
        column = self.random.choice(known)
        if sort in ("int", "num") and self.chance(0.3):
            other = self.random.choice([*known, "1", "2"])
            shape = self.random.choice(
                [
                    "{a} + {b}",
                    "{a} * {b}",
                    "{a} - {b}",
                    "COALESCE({a}, {b})",
                    "NULLIF({a}, {b})",
                    "CASE WHEN {a} > {b} THEN {a} ELSE {b} END",
                    "CASE WHEN {a} = 1 THEN {b} END",
                ]
            )
            return "(" + shape.format(a=column, b=other) + ")"
        return column

    def key(self, columns: Columns, sort: str) -> str:
        """Something to group by: an expression over a column, never a constant."""
        for _ in range(5):
            value = self.value(columns, sort)
            if "." in value and not value[0].isdigit():
                return value
        column = columns[0][0]
        shapes = {"int": "LENGTH(CAST({} AS VARCHAR))", "num": "LENGTH(CAST({} AS VARCHAR)) * 0.5"}
        return shapes.get(sort, "CAST({} AS VARCHAR)").format(column)

    def test(self, columns: Columns, depth: int, outer: tuple[tuple[str, str], ...]) -> str:
        everything = [*columns, *outer]
        roll = self.random.random()
        if depth and roll < 0.35:
            return self.subquery_test(everything, depth - 1)
        if roll < 0.45 and self.budget > 0:
            self.budget -= 1
            a, b = (self.test(columns, depth, outer) for _ in range(2))
            return f"({a} {self.random.choice(['AND', 'OR'])} {b})"
        if roll < 0.5 and self.budget > 0:
            self.budget -= 1
            return f"NOT ({self.test(columns, depth, outer)})"
        sort = self.random.choice(["int", "int", "num", "text"])
        left = self.value(everything, sort)
        if roll < 0.6:
            return f"{left} IS {self.random.choice(['', 'NOT '])}NULL"
        if roll < 0.65 and sort == "int":
            return f"{left} {self.random.choice(['', 'NOT '])}IN (1, 3)"
        operator = self.random.choice(["=", "=", "<", ">=", "<>", "IS DISTINCT FROM"])
        return f"{left} {operator} {self.value(everything, sort)}"

    def subquery_test(self, columns: Columns, depth: int) -> str:
        outer = tuple(columns)
        roll = self.random.random()
        left = self.value(columns, "int")
        if roll < 0.35:
            text, _ = self.query(depth, outer, sorts=["int"])
            return f"{self.random.choice(['', 'NOT '])}EXISTS ({text})"
        if roll < 0.6:
            text, _ = self.query(depth, outer, sorts=["int"])
            return f"{left} {self.random.choice(['', 'NOT '])}IN ({text})"
        if roll < 0.7:
            text, _ = self.query(depth, (), sorts=["int"])
            operator, which = (
                self.random.choice(["<", ">=", "="]),
                self.random.choice(["ANY", "ALL"]),
            )
            return f"{left} {operator} {which} ({text})"
        return f"{left} {self.random.choice(['<', '=', '>'])} ({self.scalar_query(depth, outer)})"

    def scalar_query(self, depth: int, outer: tuple[tuple[str, str], ...]) -> str:
        text, columns = self.source(depth)
        aggregate = self.aggregate(columns)
        where = f" WHERE {self.where(columns, depth, outer)}" if self.chance(0.8) else ""
        return f"SELECT {aggregate} FROM {text}{where}"

    def aggregate(self, columns: Columns) -> str:
        function = self.random.choice(
            [
                "COUNT(*)",
                "COUNT({n})",
                "SUM({n})",
                "MIN({n})",
                "MAX({n})",
                "COUNT(DISTINCT {n})",
                "SUM({n}) FILTER (WHERE {n} > 1)",
                "SUM({n})",
            ]
        )
        return function.format(n=self.value(columns, self.random.choice(["int", "num"])))

    def where(self, columns: Columns, depth: int, outer: tuple[tuple[str, str], ...]) -> str:
        tests = [self.test(columns, depth, outer) for _ in range(self.random.choice([1, 1, 2]))]
        linked = [(a, b) for a, s in columns for b, z in outer if s == z == "int"]
        if linked and self.chance(0.7):
            a, b = self.random.choice(linked)
            tests.append(f"{a} = {b}")
        return " AND ".join(tests)

    # Queries.

    def query(
        self, depth: int, outer: tuple[tuple[str, str], ...], sorts: list[str] | None = None
    ) -> tuple[str, list[str]]:
        """A query and the sorts of its columns."""
        if sorts is None:
            sorts = self.random.choices(["int", "num", "text"], k=self.random.choice([1, 2, 2, 3]))
        if depth and not outer and self.chance(0.2):
            operator = self.random.choice(
                ["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]
            )
            sides = [self.select(depth - 1, outer, sorts) for _ in range(2)]
            return f"{sides[0]} {operator} {sides[1]}", sorts
        return self.select(depth, outer, sorts), sorts

    def select(self, depth: int, outer: tuple[tuple[str, str], ...], sorts: list[str]) -> str:
        text, columns = self.source(depth)
        where = f" WHERE {self.where(columns, depth, outer)}" if self.chance(0.7) else ""
        if self.chance(0.35):
            keys = [self.key(columns, sort) for sort in sorts]
            grouped = list(dict.fromkeys([*keys, columns[0][0]]))
            items = [
                f"{self.aggregate(columns)} AS g{i}"
                if sort != "text" and self.chance(0.6)
                else f"{key} AS g{i}"
                for i, (key, sort) in enumerate(zip(keys, sorts, strict=True))
            ]
            having = f" HAVING {self.aggregate(columns)} > 0" if self.chance(0.3) else ""
            groups = ", ".join(grouped)
            return f"SELECT {', '.join(items)} FROM {text}{where} GROUP BY {groups}{having}"
        values = [f"{self.value(columns, sort)} AS g{i}" for i, sort in enumerate(sorts)]
        distinct = "DISTINCT " if self.chance(0.15) else ""
        return f"SELECT {distinct}{', '.join(values)} FROM {text}{where}"


def random_query(seed: int, depth: int = 2) -> str:
    return Maker(seed).query(depth, ())[0]
