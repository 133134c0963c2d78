"""Random queries with neighbors in an order, greatest rows of groups, pivots, nearest rows, bits.

Beside those of recent_constructs: rows of one relation with its key, for which positions need not
be kept, and spellings that are put into other words before they are lowered.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.generate import Col, Rel, columns_of, literal
from tests.oracle.recent_constructs import RecentGenerator

WHOLE = ("INTEGER", "BIGINT")


@dataclass
class NewerGenerator(RecentGenerator):
    """A share of the recent constructs are those of this module."""

    newer_percent: int = 35

    def recent(self, depth: int) -> tuple[str, list[Col]]:
        """One of the constructs, with its columns."""
        if not self.chance(self.newer_percent):
            return super().recent(depth)
        makes = (
            self.neighbors,
            self.neighbors,
            self.excluded,
            self.greatest,
            self.pivot,
            self.unpivot,
            self.nearest,
            self.bits,
            self.corresponding,
        )
        return self.r.choice(makes)()

    def relation(self) -> Rel:
        """A relation, one with a key where there is one."""
        keyed = [relation for relation in self.relations if relation.key is not None]
        return self.r.choice(keyed or self.relations)

    def neighbors(self) -> tuple[str, list[Col]]:
        """LAG, LEAD and short frames over an order that ends with the key"""
        relation = self.relation()
        alias = self.alias("k")
        scope = columns_of(alias, relation.columns)
        texts = [text for text, _ in scope]
        order = self.order([self.r.choice(texts), *texts])
        window = f"{self.partition(texts)}ORDER BY {order}"
        calls: list[tuple[str, str]] = []
        for _ in range(self.r.randint(1, 2)):
            text, column = self.r.choice(scope)
            kind = self.r.choice(("LAG", "LEAD", "frame", "frame", "value"))
            start, end = self.r.choice(
                ((-2, 0), (-1, 1), (0, 1), (-3, -1), (1, 2), (0, 0), (-1, -1))
            )
            frame = f"ROWS BETWEEN {_bound(start)} AND {_bound(end)}"
            if self.chance(25):
                frame += f" EXCLUDE {self.r.choice(('CURRENT ROW', 'GROUP', 'TIES'))}"
            if kind in ("LAG", "LEAD"):
                default = f", {literal(self.r, column.type)}" if self.chance(30) else ""
                call = f"{kind}({text}, {self.r.randint(1, 3)}{default}) OVER ({window})"
                calls.append((column.type, call))
            elif kind == "value":
                name = self.r.choice(("FIRST_VALUE", "LAST_VALUE"))
                calls.append((column.type, f"{name}({text}) OVER ({window} {frame})"))
            else:
                type, call = self.summed(texts, [c for _, c in scope])
                calls.append((type, f"{call} OVER ({window} {frame})"))
        parts = [f"{t} AS c{i}" for i, t in enumerate(texts)]
        parts += [f"{call} AS w{i}" for i, (_, call) in enumerate(calls)]
        columns = [Col(f"c{i}", c.type, True) for i, (_, c) in enumerate(scope)]
        columns += [Col(f"w{i}", type, True) for i, (type, _) in enumerate(calls)]
        source = f"{relation.name} AS {alias}"
        return f"SELECT {', '.join(parts)} FROM {source}{self.where(scope, 0)}", columns

    def excluded(self) -> tuple[str, list[Col]]:
        """RANGE with offsets and EXCLUDE over a whole number"""
        relation = self.relation()
        alias = self.alias("k")
        scope = columns_of(alias, relation.columns)
        numbers = [text for text, column in scope if column.type in WHOLE]
        if not numbers:
            return self.neighbors()
        texts = [text for text, _ in scope]
        key = self.r.choice(numbers)
        start = self.r.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW", "1 FOLLOWING"))
        ends = ("2 FOLLOWING", "UNBOUNDED FOLLOWING")
        if start != "1 FOLLOWING":
            ends = ("CURRENT ROW", *ends)
        frame = f"RANGE BETWEEN {start} AND {self.r.choice(ends)}"
        if self.chance(40):
            # Rows that are left out by their place need an order that tells all apart.
            frame += " EXCLUDE GROUP"
        type, call = self.summed(texts, [column for _, column in scope])
        over = f"({self.partition(texts)}ORDER BY {self.order([key])} {frame})"
        parts = [f"{t} AS c{i}" for i, t in enumerate(texts)]
        columns = [Col(f"c{i}", c.type, True) for i, (_, c) in enumerate(scope)]
        sql = f"SELECT {', '.join(parts)}, {call} OVER {over} AS w FROM {relation.name} AS {alias}"
        return sql, [*columns, Col("w", type, True)]

    def greatest(self) -> tuple[str, list[Col]]:
        """The rows with the greatest or least value of their group, in four spellings"""
        relation = self.relation()
        alias = self.alias("k")
        comparable = [c.name for c in relation.columns if c.type != "BOOLEAN"]
        value = self.r.choice(comparable)
        group = self.r.choice([c.name for c in relation.columns if c.name != value] or [""])
        extreme, sign = self.r.choice((("MAX", ">"), ("MIN", "<")))
        name, grouped = relation.name, bool(group) and self.chance(80)
        tie = f" WHERE i.{group} = {alias}.{group}" if grouped else ""
        spelling = self.r.choice(("equal", "none", "join", "in"))
        columns = [Col(f"c{i}", c.type, True) for i, c in enumerate(relation.columns)]
        parts = ", ".join(f"{alias}.{c.name} AS c{i}" for i, c in enumerate(relation.columns))
        head = f"SELECT {parts} FROM {name} AS {alias}"
        if spelling == "equal":
            query = f"(SELECT {extreme}(i.{value}) FROM {name} AS i{tie})"
            return f"{head} WHERE {alias}.{value} = {query}", columns
        if spelling == "none":
            test = f"{tie} AND" if tie else " WHERE"
            query = f"(SELECT 1 FROM {name} AS i{test} i.{value} {sign} {alias}.{value})"
            return f"{head} WHERE NOT EXISTS {query}", columns
        if not grouped:
            query = f"(SELECT {extreme}({value}) FROM {name})"
            return f"{head} WHERE {alias}.{value} IN {query}", columns
        query = f"(SELECT {group} AS g, {extreme}({value}) AS m FROM {name} GROUP BY {group})"
        if spelling == "join":
            condition = f"q.g = {alias}.{group} AND q.m = {alias}.{value}"
            return f"{head} JOIN {query} AS q ON {condition}", columns
        query = f"(SELECT {group}, {extreme}({value}) FROM {name} GROUP BY {group})"
        return f"{head} WHERE ({alias}.{group}, {alias}.{value}) IN {query}", columns

    def pivot(self) -> tuple[str, list[Col]]:
        """FROM (...) PIVOT (SUM(x) FOR k IN (1, 2))"""
        relation = self.relation()
        numbers = [c for c in relation.columns if c.type in (*WHOLE, "DECIMAL(8,2)")]
        keys = [c for c in relation.columns if c.type in WHOLE]
        if not numbers or not keys:
            return self.neighbors()
        value, key = self.r.choice(numbers), self.r.choice(keys)
        group = self.r.choice(relation.columns)
        call = self.r.choice(("MAX", "MIN", "COUNT"))
        inner = f"SELECT {group.name} AS g, {key.name} AS k, {value.name} AS x FROM {relation.name}"
        sql = f"SELECT * FROM ({inner}) PIVOT ({call}(x) FOR k IN (1 AS a, 2 AS b))"
        type = "BIGINT" if call == "COUNT" else value.type
        return sql, [Col("g", group.type, True), Col("a", type, True), Col("b", type, True)]

    def unpivot(self) -> tuple[str, list[Col]]:
        """FROM (...) UNPIVOT (v FOR k IN (a, b))"""
        relation = self.relation()
        numbers = [c for c in relation.columns if c.type in WHOLE]
        if not numbers:
            return self.neighbors()
        one, other, group = (
            self.r.choice(numbers),
            self.r.choice(numbers),
            self.r.choice(relation.columns),
        )
        inner = f"SELECT {group.name} AS g, {one.name} AS a, {other.name} AS b FROM {relation.name}"
        nulls = self.r.choice(("", " INCLUDE NULLS"))
        sql = f"SELECT * FROM ({inner}) UNPIVOT{nulls} (v FOR k IN (a, b))"
        columns = [Col("g", group.type, True), Col("k", "VARCHAR", False), Col("v", "BIGINT", True)]
        return sql, columns

    def nearest(self) -> tuple[str, list[Col]]:
        """ASOF JOIN; of the nearest rows, which may be several, the key alone is shown"""
        left, right = self.relation(), self.r.choice(self.relations)
        lefts = [c.name for c in left.columns if c.type in WHOLE]
        rights = [c.name for c in right.columns if c.type in WHOLE]
        if not lefts or not rights:
            return self.neighbors()
        a, b = self.alias("k"), self.alias("k")
        own, other = self.r.choice(lefts), self.r.choice(rights)
        tests = [f"{a}.{own} {self.r.choice(('>=', '>', '<=', '<'))} {b}.{other}"]
        if self.chance(60):
            tests.insert(0, f"{a}.{self.r.choice(lefts)} = {b}.{self.r.choice(rights)}")
        side = self.r.choice(("", "LEFT "))
        parts = ", ".join(f"{a}.{c.name} AS c{i}" for i, c in enumerate(left.columns))
        join = f"{left.name} AS {a} ASOF {side}JOIN {right.name} AS {b} ON {' AND '.join(tests)}"
        columns = [Col(f"c{i}", c.type, True) for i, c in enumerate(left.columns)]
        return f"SELECT {parts}, {b}.{other} AS n FROM {join}", [*columns, Col("n", "BIGINT", True)]

    def bits(self) -> tuple[str, list[Col]]:
        """BIT_AND, BIT_OR, BIT_XOR, and COUNT(DISTINCT (a, b))"""
        text, scope = self.sources(0, [])
        numbers = [t for t, c in scope if c.type in WHOLE] or ["1"]
        names = ("BIT_AND", "BIT_OR", "BIT_XOR")
        call = f"{self.r.choice(names)}({self.r.choice(numbers)})"
        if self.chance(30):
            pair = f"{self.r.choice(scope)[0]}, {self.r.choice(scope)[0]}"
            call = f"COUNT(DISTINCT ({pair}))"
        return self.by_groups(0, [("BIGINT", call)], text, scope), [Col("s0", "BIGINT", True)]

    def corresponding(self) -> tuple[str, list[Col]]:
        """UNION of two queries by names"""
        one, other = self.relation(), self.r.choice(self.relations)
        for first in one.columns:
            twin = next((c for c in other.columns if c.type == first.type), None)
            if twin is not None:
                word = self.r.choice(("UNION", "UNION ALL"))
                left = f"SELECT {first.name} AS u FROM {one.name}"
                right = f"SELECT {twin.name} AS u FROM {other.name}"
                return f"{left} {word} BY NAME {right}", [Col("u", first.type, True)]
        return self.neighbors()


def _bound(distance: int) -> str:
    if distance == 0:
        return "CURRENT ROW"
    return f"{abs(distance)} {'PRECEDING' if distance < 0 else 'FOLLOWING'}"
