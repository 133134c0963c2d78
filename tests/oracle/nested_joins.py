"""Random chains of joins over grouped derived tables, with correlated subqueries over them.

`generate.py` draws all of SQL and meets this corner seldom. Here every FROM is a chain of two to
four items, most of them grouped, under LEFT, RIGHT and FULL joins, and every select list may hold
subqueries that are tied to the chain by =, <> and <, to groups of it as well as to its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.generate import Col, Generator, Rel, Scope, columns_of

INTEGER = "INTEGER"
COMPARISONS = ("=", "=", "=", "<>", "<", ">=")


@dataclass
class NestedJoins(Generator):
    """All columns are integers, so that any two of them can be compared."""

    def schema(self) -> None:
        for name in ("r", "s", "t")[: self.r.randint(2, 3)]:
            columns = [Col(column, INTEGER, self.chance(60)) for column in ("k", "q")]
            if self.chance(40):
                columns.append(Col("v", INTEGER, self.chance(60)))
            relation = Rel(name, columns)
            if self.chance(25):
                relation.key = 0
                columns[0].nullable = False
            self.relations.append(relation)

    def query(self) -> str:
        text, scope = self.chain()
        shown = [f"{self.r.choice(scope)[0]} AS c{i}" for i in range(self.r.randint(1, 3))]
        where = f" WHERE {self.test(scope)}" if self.chance(35) else ""
        if self.chance(40):
            return self.grouped_chain(text, scope, where)
        if self.chance(40):
            shown.append(f"{self.correlated_value(scope)} AS sub")
        distinct = "DISTINCT " if self.chance(15) else ""
        return f"SELECT {distinct}{', '.join(shown)} FROM {text}{where}"

    def grouped_chain(self, text: str, scope: Scope, where: str) -> str:
        keys = list(dict.fromkeys(self.r.choice(scope)[0] for _ in range(self.r.randint(1, 2))))
        groups: Scope = [(key, Col("", INTEGER, True)) for key in keys]
        shown = [f"{key} AS c{i}" for i, key in enumerate(keys)]
        shown.append(f"{self.integer_aggregate(scope)} AS total")
        if self.chance(60):
            shown.append(f"{self.correlated_value(groups)} AS sub")
        having = ""
        if self.chance(25):
            having = f" HAVING {self.integer_aggregate(scope)} > {self.correlated_value(groups)}"
        return f"SELECT {', '.join(shown)} FROM {text}{where} GROUP BY {', '.join(keys)}{having}"

    def chain(self) -> tuple[str, Scope]:
        text, scope = self.chain_item()
        using = self.chance(20)
        for _ in range(self.r.choice((1, 1, 2, 2, 3))):
            right, more = self.chain_item()
            kind = self.r.choice(("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            if using:
                text = f"{text} {kind} {right} USING (k)"
                scope = [
                    ("k", Col("k", INTEGER, True)),
                    *((t, c) for t, c in (*scope, *more) if c.name != "k"),
                ]
                continue
            (left, _), (other, _) = self.r.choice(scope), self.r.choice(more)
            on = f"{left} = {other}"
            if self.chance(15):
                on += f" AND {self.test(scope + more)}"
            elif self.chance(8):
                on = f"{left} {self.r.choice(COMPARISONS)} {other}"
            text = f"{text} {kind} {right} ON {on}"
            scope = scope + more
        return text, scope

    def chain_item(self) -> tuple[str, Scope]:
        relation = self.r.choice(self.relations)
        alias = self.alias("x")
        shape = self.r.randint(1, 100)
        if shape <= 30:
            return f"{relation.name} AS {alias}", columns_of(alias, relation.columns)
        columns = [Col("k", INTEGER, True), Col("q", INTEGER, True)]
        scope = columns_of(alias, columns)
        if shape <= 80:
            inner: Scope = columns_of(relation.name, relation.columns)
            more = f", {self.integer_aggregate(inner)} AS n" if self.chance(30) else ""
            where = f" WHERE {self.test(inner)}" if self.chance(15) else ""
            having = " HAVING COUNT(*) > 1" if self.chance(15) else ""
            if more:
                scope.append((f"{alias}.n", Col("n", INTEGER, True)))
            aggregate = self.integer_aggregate(inner)
            return (
                f"(SELECT k, {aggregate} AS q{more} FROM {relation.name}{where} GROUP BY k{having})"
                f" AS {alias}",
                scope,
            )
        other = self.r.choice(self.relations)
        if shape <= 90:
            union = f"SELECT k, q FROM {relation.name} UNION ALL SELECT k, q FROM {other.name}"
            return f"({union}) AS {alias}", scope
        total = self.integer_aggregate(columns_of("y", other.columns))
        derived = (
            f"SELECT x.k, {total} AS q FROM {relation.name} x LEFT JOIN {other.name} y"
            f" ON x.k = y.k GROUP BY x.k"
        )
        return f"({derived}) AS {alias}", scope

    def integer_aggregate(self, scope: Scope) -> str:
        text, _ = self.r.choice(scope)
        kind = self.r.choice(("SUM", "SUM", "COUNT", "MIN", "MAX", "*", "DISTINCT"))
        if kind == "*":
            return "COUNT(*)"
        if kind == "DISTINCT":
            return f"COUNT(DISTINCT {text})"
        return f"{kind}({text})"

    def correlated_value(self, scope: Scope) -> str:
        source, inner = self.correlated_source(scope)
        return f"(SELECT {self.integer_aggregate(inner)} FROM {source})"

    def correlated_source(self, scope: Scope) -> tuple[str, Scope]:
        relation = self.r.choice(self.relations)
        alias = self.alias("y")
        inner = columns_of(alias, relation.columns)
        text = f"{relation.name} AS {alias}"
        if self.chance(25):
            text, inner = self.chain_item()
        tests = [
            f"{self.r.choice(inner)[0]} {self.r.choice(COMPARISONS)} {self.r.choice(scope)[0]}"
            for _ in range(self.r.choice((0, 1, 1, 2)))
        ]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"{text}{where}", inner

    def test(self, scope: Scope) -> str:
        text, _ = self.r.choice(scope)
        shape = self.r.randint(1, 100)
        if shape <= 30:
            return f"{text} {self.r.choice(COMPARISONS)} {self.r.randint(0, 2)}"
        if shape <= 40:
            return f"{text} IS {self.r.choice(('', 'NOT '))}NULL"
        if shape <= 55:
            return f"{text} {self.r.choice(COMPARISONS)} {self.r.choice(scope)[0]}"
        if shape <= 70:
            return f"{text} {self.r.choice(COMPARISONS)} {self.correlated_value(scope)}"
        source, inner = self.correlated_source(scope)
        if shape <= 80:
            return f"{self.r.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM {source})"
        grouped = f" GROUP BY {self.r.choice(scope + inner)[0]}" if shape <= 92 else ""
        return f"{text} IN (SELECT {self.integer_aggregate(inner)} FROM {source}{grouped})"
