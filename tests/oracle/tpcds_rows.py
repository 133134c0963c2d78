"""Small random tables for a query of TPC-DS, of which its conditions choose some rows.

Names of columns are those of one table each, so that a query says by itself which values matter:
those that it compares a column with, under the column's name or another that it gives it. Surrogate
keys are few, and everything meets; how few they are in each dimension is drawn, since some queries
want many rows of one group and others many groups.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.optimizer.simplify import simplify

from viewlet.schema import Column, Kind, Relation

_COMPARISONS = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Like)
_START = dt.date(1998, 1, 1)
_DIMENSIONS = {"address_sk": "addr_sk", "demo_sk": "cdemo_sk", "hd_demo_sk": "hdemo_sk"}
"""What the key of a dimension is called where it is referred to, if not as in itself."""

Row = tuple[Any, ...]


def compared_values(sql: str) -> dict[str, list[str]]:
    """Column -> the constants that a query compares it with, and numbers beside them."""
    query = parse_one(sql, dialect="duckdb")
    named: dict[str, set[str]] = defaultdict(set)
    for alias in query.find_all(exp.Alias):
        if isinstance(alias.this, exp.Column):
            named[alias.alias].add(alias.this.name)
    values: dict[str, list[str]] = defaultdict(list)
    equal: list[list[str]] = []
    for written in query.find_all(*_COMPARISONS):
        node = _folded(written)
        columns = [
            column
            for column in node.find_all(exp.Column)
            if column.find_ancestor(*_COMPARISONS) in (node, None)
        ]
        literals = list(_literals(node, is_difference=len(columns) > 1))
        names = [[column.name, *sorted(named[column.name])] for column in columns]
        for name in (name for own in names for name in own):
            values[name] += literals
        if isinstance(node, exp.EQ) and len(names) > 1:
            equal.append([name for own in names for name in own])
    for group in equal:
        known = [value for name in group for value in values[name]]
        for name in group:
            values[name] = values[name] or known
    return values


def _folded(comparison: exp.Expression) -> exp.Expression:
    """x = 2001 + 1 -> x = 2002; what holds other queries is left as it is."""
    if comparison.find(exp.Query):
        return comparison
    folded = comparison.copy()
    for side in list(folded.iter_expressions()):
        side.replace(simplify(side.copy()))
    return folded


def _literals(node: exp.Expression, is_difference: bool) -> Iterator[str]:
    """The constants of a comparison; of week = other_week - 53 it is 1 and 54."""
    beside = isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE | exp.Between)
    for literal in node.find_all(exp.Literal):
        if literal.find_ancestor(*_COMPARISONS) not in (node, None):
            continue
        if literal.find_ancestor(exp.Substring):
            continue
        if literal.is_string:
            yield literal.name
            continue
        number = Decimal(literal.name) * (-1 if isinstance(literal.parent, exp.Neg) else 1)
        if isinstance(node, exp.EQ) and is_difference:
            yield from ("1", str(number + 1))
        else:
            yield from (str(number + step) for step in ((-1, 0, 1) if beside else (0,)))


class Tables:
    """Rows of the tables that a query reads."""

    def __init__(self, sql: str, relations: list[Relation], seed: int) -> None:
        self.choose = random.Random(seed)
        pick = self.choose.choice
        most = pick((1, 2, 4, 1000))
        self.values = {
            column: self.choose.sample(values, min(len(values), most)) + values[:1] * (most < 4)
            for column, values in compared_values(sql).items()
        }
        self.relations = relations
        self.rows: dict[str, list[Row]] = {relation.name: [] for relation in relations}
        self.fact_rows = pick((40, 60, 90, 150, 300))
        self._keys: dict[str, int] = {}
        self._most_keys = pick(((1, 2), (2, 4), (4,), (1, 2, 4, 20), (1, 4, 20)))
        self._asked = pick((0.85, 0.95, 1.0))
        self._prices = [Decimal(self.choose.randint(-200, 9000)) / 100 for _ in range(pick((2, 9)))]

    def fill(self) -> None:
        """Rows for all tables: facts are many, and dimensions have most of their keys."""
        for relation in self.relations:
            self.change(relation, self.fact_rows if _is_fact(relation) else 24)

    def change(self, relation: Relation, count: int) -> tuple[list[Row], list[Row]]:
        """Rows to insert and to delete, as far as keys allow."""
        rows = self.rows[relation.name]
        leaving = 0.15 if _is_fact(relation) else 0.04
        gone = [row for row in rows if self.choose.random() < leaving]
        for row in gone:
            rows.remove(row)
        positions = [relation.names.index(name) for name in relation.key]
        keys = {tuple(row[i] for i in positions) for row in rows}
        new = []
        for _ in range(count):
            row = tuple(self._value(relation, column) for column in relation.columns)
            key = tuple(row[i] for i in positions)
            if not positions or key not in keys:
                keys.add(key)
                new.append(row)
        rows += new
        return new, gone

    def _most_key(self, column: str) -> int:
        """How many keys a dimension has, whichever column refers to it."""
        words = column.split("_")
        dimension = "_".join(words[-2:])
        dimension = "hdemo_sk" if column == "hd_demo_sk" else _DIMENSIONS.get(dimension, dimension)
        if dimension not in self._keys:
            self._keys[dimension] = self.choose.choice(self._most_keys)
        return self._keys[dimension]

    def _value(self, relation: Relation, column: Column) -> Any:
        pick, name = self.choose.choice, column.name
        if column.nullable and self.choose.random() < 0.03:
            return None
        kind = column.type.kind
        if name.endswith("_sk") and kind is Kind.INTEGER:
            times = 2 if name in relation.key and _is_fact(relation) else 1
            return self.choose.randint(1, self._most_key(name) * times)
        known = self.values.get(name) or ()
        if known and self.choose.random() < self._asked:
            value = _typed(pick(known), column)
            if value is not None:
                return value
        if kind is Kind.DATE:
            return _START + dt.timedelta(self.choose.randrange(1500))
        if kind is Kind.VARCHAR:
            return pick(("a", "b"))
        if kind is Kind.DECIMAL:
            return pick(self._prices)
        if kind is Kind.TIMESTAMP:
            return dt.datetime(2000, 1, 1)
        if name == "d_week_seq":
            return pick((1, 1, 53, 54))
        if name == "d_month_seq":
            return pick((1200, 1200, 1200, 1201))
        return self.choose.randint(1, 5) if self.choose.random() < 0.9 else 900


def _is_fact(relation: Relation) -> bool:
    return relation.name.endswith(("_sales", "_returns", "inventory"))


def _typed(text: str, column: Column) -> Any:
    """A constant as a value of a column, or None if it is none."""
    try:
        if column.type.kind is Kind.DATE:
            return dt.date.fromisoformat(text)
        if column.type.kind is Kind.DECIMAL:
            value = Decimal(text)
            return value if abs(value) < 90_000 else None
        if column.type.kind is Kind.VARCHAR:
            return text.replace("%", "")[: column.limit or 60]
        return int(Decimal(text))
    except (ValueError, ArithmeticError):
        return None
