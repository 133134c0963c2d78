"""Every function of odd arguments (empty, NULL, negative, Unicode): views and db.query agree."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from tests.functions.test_sql import is_same

import viewlet
from viewlet.errors import ViewletError
from viewlet.functions import FUNCTIONS, SqlCall
from viewlet.functions.sql_forms import Accepts, Parameter

TEXTS = ("", " ", "a", "ab  ", "  ab", "ß", "straße", "É", "İ", "aé𝄞", "%", "a\\%b", "_", "\\", "'")
NUMBERS = (0, 1, -1, 2, -3, 17, 2**31 - 1, -(2**31))
DOUBLES = (0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 1e-300, 1e300, -1e300, math.inf, -math.inf, math.nan)
DECIMALS = tuple(map(Decimal, ("0.00", "0.01", "-0.01", "0.05", "-2.50", "12345.67")))
DATES = tuple(map(dt.date.fromisoformat, ("0001-01-01", "1969-12-31", "2000-02-29", "9999-12-31")))
MOMENTS = tuple(dt.datetime(d.year, d.month, d.day, 23, 59, 59, 999_999) for d in DATES)

COLUMNS: dict[Accepts, tuple[str, str, tuple[Any, ...]]] = {
    Accepts.TEXT: ("t", "VARCHAR", TEXTS),
    Accepts.INTEGER: ("i", "INTEGER", NUMBERS),
    Accepts.NUMBER: ("x", "DOUBLE", DOUBLES),
    Accepts.DOUBLE: ("x", "DOUBLE", DOUBLES),
    Accepts.EXACT: ("e", "DECIMAL(12,2)", DECIMALS),
    Accepts.DATE: ("d", "DATE", DATES),
    Accepts.TIMESTAMP: ("m", "TIMESTAMP", MOMENTS),
}
KINDS = {name: (kind, values) for name, kind, values in COLUMNS.values()}
CONSTANTS = ("0", "2", "-1", "NULL")

SYNTAX = {
    "LIKE": [
        f"t1 {negated}{operator} {pattern}"
        for negated in ("", "NOT ")
        for operator in ("LIKE", "ILIKE")
        for pattern in (
            *("t2", "'a\\%b'", "'%'", "''", "NULL", "'a%' ESCAPE ''", "'a~%b' ESCAPE '~'"),
            *("NULL ESCAPE '~'", "'a' ESCAPE NULL"),
        )
    ],
    "CONCAT": ["t1 || t2", "CONCAT(t1, t2, NULL)", "t1 || NULL", "CONCAT(t1, i1)"],
    "CHOICE": [
        *("COALESCE(NULL, t1, t2)", "NULLIF(t1, t2)", "NULLIF(x1, x2)", "NULLIF(i1, NULL)"),
        *("GREATEST(x1, x2)", "LEAST(t1, t2)", "GREATEST(i1, NULL, i2)", "LEAST(d1, d2)"),
    ],
    "COMPARISON": [
        *("t1 < t2", "t1 = t2", "x1 < x2", "x1 = x2", "i1 < x1", "e1 = x1", "d1 < m1"),
        *("t1 BETWEEN t2 AND t3", "t1 IN ('', NULL, 'ß')", "i1 NOT IN (0, NULL)"),
        *("x1 IS DISTINCT FROM x2", "(i1 > 0) IS NOT TRUE"),
    ],
    "ARITHMETIC": ["i1 / i2", "i1 % i2", "x1 / x2", "e1 / e2", "e1 * e2", "-e1", "x1 - x1", "-x1"],
    "CAST": [
        *("CAST(t1 AS VARCHAR)", "CAST(i1 AS VARCHAR)"),
        *("CAST(e1 AS INTEGER)", "CAST(e1 AS VARCHAR)", "CAST(d1 AS VARCHAR)", "CAST(m1 AS DATE)"),
        *("CAST(d1 AS TIMESTAMP)", "CAST(i1 AS BOOLEAN)", "CAST(i1 > 0 AS INTEGER)"),
        *("CAST(i1 > 0 AS VARCHAR)", "CAST(e1 AS DECIMAL(12,1))", "CAST(i1 AS DECIMAL(12,2))"),
    ],
}  # fmt: skip


def arguments(parameters: tuple[Parameter, ...], constant: str) -> list[str]:
    return [
        constant if parameter.constant else f"{COLUMNS[parameter.accepts][0]}{number}"
        for number, parameter in enumerate(parameters, 1)
    ]


def calls_of(call: SqlCall) -> list[str]:
    """The call with all arguments and with as few as it takes, written as SQL does."""
    found = []
    needed = [p for p in call.parameters if p.default is None and not p.is_optional]
    for spelling in call.spellings:
        name, _, keyword = spelling.partition(" ")
        for count in range(len(needed), len(call.parameters) + 1):
            for constant in CONSTANTS:
                given = ", ".join(arguments(call.parameters[:count], constant))
                if not given:
                    continue
                if name in ("EXTRACT", "TRIM"):
                    given = f"{keyword} FROM {given}"
                elif keyword:
                    given = f"'{keyword.lower()}', {given}"
                found.append(f"{name}({given})")
    if "SUBSTRING(t1)" in found:  # what may be left out is FROM, where FOR is there
        found += ["SUBSTRING(t1 FROM i2)", "SUBSTRING(t1 FOR i3)"]
    return [sql for sql in dict.fromkeys(found) if sql not in ("SUBSTRING(t1)", "SUBSTR(t1)")]


CASES = {
    **{name: calls_of(f.sql) for name, f in FUNCTIONS.items() if isinstance(f.sql, SqlCall)},
    **SYNTAX,
}


def odd_rows(count: int) -> list[dict[str, Any]]:
    """Each value with others beside it, and NULL beside each."""
    rows = []
    for place in range(count):
        row: dict[str, Any] = {"id": place}
        for step, (name, (_, values)) in enumerate(sorted(KINDS.items()), 1):
            for number in (1, 2, 3):
                at = (place * (1 + step * (number - 1)) + number) % (len(values) + 1)
                row[f"{name}{number}"] = values[at] if at < len(values) else None
        rows.append(row)
    return rows


def agree(left: Any, right: Any) -> bool:
    """A DATE is the same as its midnight: DATE_TRUNC of a DATE is one in views only."""
    if type(left) is dt.date and type(right) is dt.datetime:
        left = dt.datetime(left.year, left.month, left.day)
    return is_same(left, right)


TABLE = ", ".join(f"{name}{k} {kind}" for name, (kind, _) in KINDS.items() for k in (1, 2, 3))
ROWS = odd_rows(40)


@pytest.mark.parametrize("name", sorted(CASES))
def test_views_are_as_queries(name: str) -> None:
    for sql in CASES[name]:
        with viewlet.connect("interpreter") as db:
            db.execute(f"CREATE TABLE r (id INT PRIMARY KEY, {TABLE})")
            query = f"SELECT id, {sql} AS z FROM r"
            try:
                db.execute(f"CREATE VIEW v AS {query}")
            except ViewletError as error:
                assert error.position is not None, sql
                continue
            for row in ROWS:
                try:
                    db.insert("r", [row])
                except ViewletError:
                    continue  # out of the result's range, which ends a query as well
            ours = dict(tuple(row) for row in db.view("v").rows())
            theirs = {row["id"]: row["z"] for row in db.query(query).to_pylist()}
            assert ours.keys() == theirs.keys()
            wrong = [(k, ours[k], theirs[k]) for k in ours if not agree(ours[k], theirs[k])]
            assert not wrong, f"{sql}: {[(ROWS[k], a, b) for k, a, b in wrong[:2]]}"
