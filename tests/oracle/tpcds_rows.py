"""Small random tables for a query of TPC-DS, of which its conditions choose some rows.

Names of columns are those of one table each, so that a query says by itself which values matter:
those that it compares a column with. Surrogate keys are few, and everything meets.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from decimal import Decimal
from typing import Any

from sqlglot import exp, parse_one

from viewlet.schema import Column, Kind, Relation

_COMPARISONS = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between)
_FEW = 4
"""Rows of a dimension."""
_START = dt.date(1998, 1, 1)

Row = tuple[Any, ...]


def compared_values(sql: str) -> dict[str, list[str]]:
    """Column -> the constants that a query compares it with, and neighbors of numbers."""
    values: dict[str, list[str]] = defaultdict(list)
    for node in parse_one(sql, dialect="duckdb").find_all(*_COMPARISONS):
        literals = [n for n in node.find_all(exp.Literal) if n.find_ancestor(*_COMPARISONS) is node]
        for column in node.find_all(exp.Column):
            if column.find_ancestor(*_COMPARISONS) is node:
                values[column.name] += [literal.name for literal in literals]
    return values


class Tables:
    """Rows of the tables that a query reads."""

    def __init__(self, sql: str, relations: list[Relation], seed: int) -> None:
        self.choose = random.Random(seed)
        self.values = compared_values(sql)
        self.relations = relations
        self.rows: dict[str, list[Row]] = {relation.name: [] for relation in relations}

    def change(self, relation: Relation, count: int) -> tuple[list[Row], list[Row]]:
        """Rows to insert and to delete, as far as keys allow."""
        rows = self.rows[relation.name]
        gone = [row for row in rows if self.choose.random() < 0.15]
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

    def _value(self, relation: Relation, column: Column) -> Any:
        pick, name = self.choose.choice, column.name
        if column.nullable and self.choose.random() < 0.03:
            return None
        kind = column.type.kind
        is_fact = relation.name.endswith(("_sales", "_returns", "inventory"))
        if name.endswith("_sk") and kind is Kind.INTEGER:
            return self.choose.randint(1, _FEW * (2 if name in relation.key and is_fact else 1))
        known = self.values.get(name) or ()
        if known and self.choose.random() < 0.85:
            value = _typed(pick(known), column)
            if value is not None:
                return value
        if kind is Kind.DATE:
            return _START + dt.timedelta(self.choose.randrange(1500))
        if kind is Kind.VARCHAR:
            return pick(("a", "b"))
        if kind is Kind.DECIMAL:
            return Decimal(self.choose.randint(-200, 9000)) / 100
        if kind is Kind.TIMESTAMP:
            return dt.datetime(2000, 1, 1)
        if name == "d_week_seq":
            return pick((1, 1, 54))
        if name == "d_month_seq":
            return pick((1200, 1200, 1200, 1201))
        return self.choose.randint(1, 5)


def _typed(text: str, column: Column) -> Any:
    """A constant as a value of a column, or None if it is none."""
    try:
        if column.type.kind is Kind.DATE:
            return dt.date.fromisoformat(text)
        if column.type.kind is Kind.DECIMAL:
            value = Decimal(text)
            return value if abs(value) < 1000 else None
        if column.type.kind is Kind.VARCHAR:
            return text.replace("%", "")[: column.limit or 60]
        return int(text)
    except (ValueError, ArithmeticError):
        return None
