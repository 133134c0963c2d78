"""Random queries with what joins and groups alone do not have.

Windows, first rows, LATERAL, grouping sets, aggregates by order and of pairs, functions of text and
of time. Only forms whose answer does not hang on the order of equal rows: positions are counted
over all columns that are shown, and at most one column of a query depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.oracle.generate import NUMBERS, Col, Generator, Scope, columns_of, literal

SUMMED = {"INTEGER": "BIGINT", "BIGINT": "BIGINT"}
PATTERNS = ("a", "^a", "b$", "[ab]{2}", "^(a|x)", "a.*b", "^$")


@dataclass
class RecentGenerator(Generator):
    """A share of all queries, and some derived tables, are of the newer constructs."""

    recent_percent: int = 40

    def query(self) -> str:
        """A query of the plain generator or of a construct of this module."""
        return self.recent(1)[0] if self.chance(self.recent_percent) else super().query()

    def source(self, depth: int) -> tuple[str, Scope]:
        """Some derived tables are of these constructs as well."""
        if depth > 1 and self.chance(self.recent_percent // 6):
            inner, columns = self.recent(0)
            alias = self.alias("d")
            return f"({inner}) AS {alias}", columns_of(alias, columns)
        return super().source(depth)

    def recent(self, depth: int) -> tuple[str, list[Col]]:
        """One of the constructs, with its columns."""
        makes = (
            self.windows,
            self.windows,
            self.first_rows,
            self.distinct_on,
            self.lateral,
            self.grouping_sets,
            self.by_order,
            self.of_pairs,
            self.over_groups,
            self.looked_up,
        )
        return self.r.choice(makes)(depth)

    # Windows and first rows.

    def shown(self, scope: Scope, least: int = 1) -> tuple[list[str], list[Col]]:
        """Some columns of the scope, each once, with their names in the output."""
        count = min(len(scope), self.r.randint(least, 3))
        texts, columns = [], []
        pool = list(scope)
        for index in range(count):
            text, column = pool.pop(self.r.randint(0, len(pool) - 1))
            texts.append(text)
            columns.append(Col(f"c{index}", column.type, True))
        return texts, columns

    def direction(self) -> str:
        return f"{self.r.choice(('ASC', 'DESC'))} NULLS {self.r.choice(('FIRST', 'LAST'))}"

    def order(self, texts: list[str]) -> str:
        return ", ".join(f"{text} {self.direction()}" for text in texts)

    def partition(self, texts: list[str]) -> str:
        return f"PARTITION BY {self.r.choice(texts)} " if self.chance(65) else ""

    def windows(self, depth: int) -> tuple[str, list[Col]]:
        """SELECT c, RANK() OVER (...), one call that counts positions, perhaps QUALIFY"""
        text, scope = self.sources(depth, [])
        texts, columns = self.shown(scope)
        calls = [self.window_of_peers(texts, columns) for _ in range(self.r.randint(0, 2))]
        qualify = ""
        if self.chance(50) or not calls:
            calls.append(self.window_of_positions(texts, columns))
        elif self.chance(40):
            ranked = self.r.choice(("RANK", "DENSE_RANK", "ROW_NUMBER"))
            window = f"{self.partition(texts)}ORDER BY {self.order(texts)}"
            qualify = f" QUALIFY {ranked}() OVER ({window}) <= {self.r.randint(1, 3)}"
        parts = [f"{t} AS {c.name}" for t, c in zip(texts, columns, strict=True)]
        parts += [f"{call} AS w{index}" for index, (_, call) in enumerate(calls)]
        columns = columns + [Col(f"w{i}", type, True) for i, (type, _) in enumerate(calls)]
        sql = f"SELECT {', '.join(parts)} FROM {text}{self.where(scope, min(depth, 1))}"
        return sql + qualify, columns

    def window_of_peers(self, texts: list[str], columns: list[Col]) -> tuple[str, str]:
        """A call that gives equal rows the same."""
        window = self.partition(texts)
        kind = self.r.choice(("RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "sum", "sum"))
        if kind != "sum":
            order = self.order(self.r.choice((texts, texts[:1])))
            type = "BIGINT" if kind in ("RANK", "DENSE_RANK") else "DOUBLE"
            return type, f"{kind}() OVER ({window}ORDER BY {order})"
        if self.chance(60):
            window += f"ORDER BY {self.order([self.r.choice(texts)])}"
        type, call = self.summed(texts, columns)
        return type, f"{call} OVER ({window.strip()})"

    def summed(self, texts: list[str], columns: list[Col]) -> tuple[str, str]:
        """An aggregate of one of the columns."""
        index = self.r.randint(0, len(texts) - 1)
        text, type = texts[index], columns[index].type
        if self.chance(20):
            return "BIGINT", "COUNT(*)"
        if type in NUMBERS and self.chance(60):
            if type != "DECIMAL(8,2)" and self.chance(30):
                return "DOUBLE", f"AVG({text})"
            return SUMMED.get(type, type), f"SUM({text})"
        if type != "BOOLEAN" and self.chance(60):
            return type, f"{self.r.choice(('MIN', 'MAX'))}({text})"
        return "BIGINT", f"COUNT({text})"

    def window_of_positions(self, texts: list[str], columns: list[Col]) -> tuple[str, str]:
        """A call that tells equal rows apart: over an order of all columns."""
        window = f"{self.partition(texts)}ORDER BY {self.order(texts)}"
        index = self.r.randint(0, len(texts) - 1)
        text, type = texts[index], columns[index].type
        kind = self.r.choice(("ROW_NUMBER", "NTILE", "LAG", "LEAD", "rows", "rows", "value"))
        if kind == "ROW_NUMBER":
            return "BIGINT", f"ROW_NUMBER() OVER ({window})"
        if kind == "NTILE":
            return "BIGINT", f"NTILE({self.r.randint(1, 3)}) OVER ({window})"
        if kind in ("LAG", "LEAD"):
            default = f", {literal(self.r, type)}" if self.chance(20) else ""
            return type, f"{kind}({text}, {self.r.randint(1, 2)}{default}) OVER ({window})"
        if kind == "value":
            call = self.r.choice((f"FIRST_VALUE({text})", f"LAST_VALUE({text})"))
            return type, f"{call} OVER ({window} {self.frame()})"
        type, call = self.summed(texts, columns)
        return type, f"{call} OVER ({window} {self.frame()})"

    def frame(self) -> str:
        start = self.r.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW"))
        end = self.r.choice(("CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING"))
        return f"ROWS BETWEEN {start} AND {end}"

    def limited(self, texts: list[str], source: str) -> str:
        """Names c0, c1, ... of the first rows in an order of all that is shown."""
        parts = ", ".join(f"{text} AS c{index}" for index, text in enumerate(texts))
        offset = f" OFFSET {self.r.randint(1, 2)}" if self.chance(30) else ""
        limit = f"LIMIT {self.r.randint(1, 4)}{offset}"
        return f"SELECT {parts} FROM {source} ORDER BY {self.order(texts)} {limit}"

    def first_rows(self, depth: int) -> tuple[str, list[Col]]:
        """SELECT ... FROM (SELECT ... ORDER BY ... LIMIT n) q"""
        text, scope = self.sources(depth, [])
        texts, columns = self.shown(scope)
        inner = self.limited(texts, text + self.where(scope, min(depth, 1)))
        alias = self.alias("q")
        outer = columns_of(alias, columns)
        if self.chance(50):
            names = ", ".join(f"{t} AS {c.name}" for t, c in outer)
            return f"SELECT {names} FROM ({inner}) AS {alias}{self.where(outer, 0)}", columns
        more, aggregates = self.aggregates(outer, 0, 1)
        return f"SELECT {', '.join(aggregates)} FROM ({inner}) AS {alias}", more

    def distinct_on(self, depth: int) -> tuple[str, list[Col]]:
        """SELECT DISTINCT ON (c) c, d ... ORDER BY c, d"""
        text, scope = self.sources(depth, [])
        texts, columns = self.shown(scope, least=2)
        parts = ", ".join(f"{t} AS {c.name}" for t, c in zip(texts, columns, strict=True))
        sql = f"SELECT DISTINCT ON ({texts[0]}) {parts} FROM {text}"
        return f"{sql}{self.where(scope, 0)} ORDER BY {self.order(texts)}", columns

    def lateral(self, depth: int) -> tuple[str, list[Col]]:
        """FROM t x, LATERAL (first rows or an aggregate of those that belong to x)"""
        outer_text, outer = self.sources(0, [])
        relation = self.r.choice(self.relations)
        alias, name = self.alias("n"), self.alias("l")
        inner = columns_of(alias, relation.columns)
        pairs = [f"{a} = {b}" for a, ca in inner for b, cb in outer if ca.type == cb.type]
        condition = f" WHERE {self.r.choice(pairs)}" if pairs else ""
        source = f"{relation.name} AS {alias}{condition}"
        if self.chance(60):
            texts, columns = self.shown(inner)
            query = self.limited(texts, source)
        else:
            columns, aggregates = self.aggregates(inner, 0, 1)
            query = f"SELECT {', '.join(aggregates)} FROM {source}"
        joined = f"{outer_text}, LATERAL ({query}) AS {name}"
        if self.chance(40):
            joined = f"{outer_text} LEFT JOIN LATERAL ({query}) AS {name} ON TRUE"
        texts, shown = self.shown(outer)
        texts += [f"{name}.{column.name}" for column in columns]
        shown += [Col(f"l{i}", column.type, True) for i, column in enumerate(columns)]
        parts = ", ".join(f"{t} AS {c.name}" for t, c in zip(texts, shown, strict=True))
        return f"SELECT {parts} FROM {joined}", shown

    def looked_up(self, depth: int) -> tuple[str, list[Col]]:
        """SELECT c, (SELECT d FROM u WHERE u.k = c ORDER BY d LIMIT 1)"""
        text, scope = self.sources(min(depth, 1), [])
        texts, columns = self.shown(scope)
        relation = self.r.choice(self.relations)
        alias = self.alias("n")
        inner = columns_of(alias, relation.columns)
        pairs = [f"{a} = {b}" for a, ca in inner for b, cb in scope if ca.type == cb.type]
        condition = f" WHERE {self.r.choice(pairs)}" if pairs else ""
        value, column = self.r.choice(inner)
        order = f"ORDER BY {value} {self.direction()} LIMIT 1"
        texts.append(f"(SELECT {value} FROM {relation.name} AS {alias}{condition} {order})")
        columns.append(Col("u", column.type, True))
        parts = ", ".join(f"{t} AS {c.name}" for t, c in zip(texts, columns, strict=True))
        return f"SELECT {parts} FROM {text}{self.where(scope, 0)}", columns

    # Groups.

    def grouping_sets(self, depth: int) -> tuple[str, list[Col]]:
        """GROUP BY ROLLUP, CUBE or GROUPING SETS"""
        text, scope = self.sources(depth, [])
        texts, columns = self.shown(scope, least=2)
        keys = ", ".join(texts)
        sets = self.r.choice(
            (
                f"ROLLUP ({keys})",
                f"CUBE ({keys})",
                f"GROUPING SETS (({keys}), ({texts[-1]}), ())",
                f"GROUPING SETS (({texts[0]}), ({texts[-1]}))",
                f"{texts[0]}, ROLLUP ({', '.join(texts[1:]) or texts[0]})",
            )
        )
        more, aggregates = self.aggregates(scope, 0, self.r.randint(1, 2))
        parts = [f"{t} AS {c.name}" for t, c in zip(texts, columns, strict=True)] + aggregates
        columns = columns + more
        if self.chance(40):
            parts.append(f"GROUPING({texts[0]}) AS of")
            columns = [*columns, Col("of", "BIGINT", False)]
        having = " HAVING COUNT(*) > 1" if self.chance(20) else ""
        where = self.where(scope, min(depth, 1))
        return f"SELECT {', '.join(parts)} FROM {text}{where} GROUP BY {sets}{having}", columns

    def by_groups(self, depth: int, calls: list[tuple[str, str]], source: str, scope: Scope) -> str:
        parts = [f"{call} AS s{index}" for index, (_, call) in enumerate(calls)]
        where = self.where(scope, 0)
        if not self.chance(75):
            return f"SELECT {', '.join(parts)} FROM {source}{where}"
        key = self.r.choice(scope)[0]
        return f"SELECT {key} AS g, {', '.join(parts)} FROM {source}{where} GROUP BY {key}"

    def by_order(self, depth: int) -> tuple[str, list[Col]]:
        """MEDIAN, percentiles, FIRST and LAST with an order"""
        text, scope = self.sources(depth, [])
        calls = []
        for _ in range(self.r.randint(1, 2)):
            value, column = self.r.choice(scope)
            numbers = [t for t, c in scope if c.type in ("INTEGER", "BIGINT", "DOUBLE")]
            kind = self.r.choice(("MEDIAN", "CONT", "DISC", "FIRST", "LAST"))
            number = self.r.choice(numbers) if numbers else "1"
            share = self.r.choice(("0.25", "0.5", "0.9", "0", "1"))
            if kind == "MEDIAN":
                calls.append(("DOUBLE", f"MEDIAN({number})"))
            elif kind == "CONT":
                within = f"WITHIN GROUP (ORDER BY {number})"
                calls.append(("DOUBLE", f"PERCENTILE_CONT({share}) {within}"))
            elif kind == "DISC" and column.type != "BOOLEAN":
                within = f"WITHIN GROUP (ORDER BY {value})"
                calls.append((column.type, f"PERCENTILE_DISC({share}) {within}"))
            else:
                order = self.order([self.r.choice(scope)[0], value])
                first = "FIRST" if kind == "DISC" else kind
                if not self.chance(50):
                    first = {"CONT": "FIRST", "MEDIAN": "FIRST"}.get(first, first)
                calls.append((column.type, f"{first}({value} ORDER BY {order})"))
        columns = [Col(f"s{i}", type, True) for i, (type, _) in enumerate(calls)]
        return self.by_groups(depth, calls, text, scope), columns

    def of_pairs(self, depth: int) -> tuple[str, list[Col]]:
        """CORR, COVAR, REGR of two numbers; BOOL_AND and its like"""
        text, scope = self.sources(depth, [])
        numbers = [t for t, c in scope if c.type in ("INTEGER", "DOUBLE")] or ["1"]
        calls = []
        for _ in range(self.r.randint(1, 2)):
            pair = f"({self.r.choice(numbers)}, {self.r.choice(numbers)})"
            name = self.r.choice(
                ("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_COUNT", "BOOL_AND", "IF")
            )
            if name == "BOOL_AND":
                call = self.r.choice(("BOOL_AND", "BOOL_OR"))
                calls.append(("BOOLEAN", f"{call}({self.comparison(scope, 0)})"))
            elif name == "IF":  # of nothing it is NULL in DuckDB
                counted = f"COUNT_IF({self.comparison(scope, 0)})"
                calls.append(("BIGINT", f"COALESCE({counted}, 0)"))
            else:
                calls.append(("BIGINT" if name == "REGR_COUNT" else "DOUBLE", name + pair))
        columns = [Col(f"s{i}", type, True) for i, (type, _) in enumerate(calls)]
        return self.by_groups(depth, calls, text, scope), columns

    def over_groups(self, depth: int) -> tuple[str, list[Col]]:
        """A window over groups: RANK() OVER (ORDER BY SUM(...))"""
        text, scope = self.sources(depth, [])
        key, column = self.r.choice(scope)
        type, aggregate = self.aggregate(scope, 0, comparable=True)
        call = self.r.choice((f"RANK() OVER (ORDER BY {aggregate} {self.direction()})",) * 2)
        result = "BIGINT"
        if self.chance(40):
            call = "SUM(COUNT(*)) OVER ()"
        parts = f"{key} AS g, {aggregate} AS s, {call} AS w"
        sql = f"SELECT {parts} FROM {text}{self.where(scope, 0)} GROUP BY {key}"
        return sql, [Col("g", column.type, True), Col("s", type, True), Col("w", result, True)]

    # Scalars and conditions.

    def composed(self, scope: Scope, type: str, depth: int) -> str:
        """Functions of text and of time among those of the plain generator."""
        if not self.chance(30):
            return super().composed(scope, type, depth)
        text = self.scalar(scope, "VARCHAR", depth)
        if type == "VARCHAR":
            return self.r.choice(
                (
                    f"REGEXP_REPLACE({text}, '{self.r.choice(PATTERNS)}', 'z', 'g')",
                    f"REGEXP_EXTRACT({text}, '{self.r.choice(PATTERNS)}')",
                    f"REPLACE({text}, 'a', 'bb')",
                    f"TRIM({text})",
                    f"LEFT({text}, {self.r.randint(0, 2)})",
                    f"RIGHT({text}, {self.r.randint(0, 2)})",
                    f"LPAD({text}, 3, '*')",
                    f"REVERSE({text})",
                    f"LOWER({text})",
                    f"SPLIT_PART({text}, 'a', {self.r.randint(1, 2)})",
                )
            )
        if type == "INTEGER":
            moment, other = (self.scalar(scope, "TIMESTAMP", depth) for _ in range(2))
            return self.r.choice(
                (
                    f"CAST(LENGTH({text}) AS INTEGER)",
                    f"CAST(STRPOS({text}, 'b') AS INTEGER)",
                    f"CAST(EXTRACT(HOUR FROM {moment}) AS INTEGER)",
                    f"CAST(DATE_DIFF('day', {moment}, {other}) AS INTEGER)",
                    f"(ABS({self.scalar(scope, 'INTEGER', depth)}) % 3)",
                )
            )
        if type == "TIMESTAMP":
            moment = self.scalar(scope, "TIMESTAMP", depth)
            return self.r.choice(
                (
                    f"DATE_TRUNC('{self.r.choice(('hour', 'day', 'month'))}', {moment})",
                    f"TIME_BUCKET(INTERVAL '{self.r.choice(('2 hours', '90 minutes'))}', {moment})",
                    f"({moment} + INTERVAL '{self.r.choice(('1 day', '3 hours', '1 month'))}')",
                )
            )
        return super().composed(scope, type, depth)

    def comparison(self, scope: Scope, depth: int) -> str:
        """Patterns of text among the comparisons of the plain generator."""
        texts = [text for text, column in scope if column.type == "VARCHAR"]
        if not texts or not self.chance(12):
            return super().comparison(scope, depth)
        text = self.r.choice(texts)
        return self.r.choice(
            (
                f"REGEXP_MATCHES({text}, '{self.r.choice(PATTERNS)}')",
                f"STARTS_WITH({text}, 'a')",
                f"{text} ILIKE 'A%'",
                f"LENGTH({text}) > {self.r.randint(0, 2)}",
            )
        )


def recent(seed: int) -> RecentGenerator:
    """The generator of a seed, for a case on its own."""
    return RecentGenerator(Random(seed), Random(seed))
