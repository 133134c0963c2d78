"""Errors for syntax that viewlet does not read: its name, its position, what to write instead.

`CLAUSES` and `CONSTRUCTS` give a name and a way out to what people do write. Whatever is in neither
is named after sqlglot's argument, or by its own text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from viewlet.errors import ParseError, ResolutionError, TypingError, UnsupportedError, ViewletError
from viewlet.frontend.syntax import did_you_mean, fault, sql_of
from viewlet.functions import CALLS

Refusal = tuple[str, str | None]
"""The name of what is not supported (with "are" where it is several), and what to write instead."""

AGGREGATES = (
    "aggregates are SUM, COUNT, AVG, MIN, MAX, STDDEV, VARIANCE, SKEWNESS, BOOL_AND, BOOL_OR"
)

_FUNCTION_NAMES = [
    *("sum", "count", "avg", "min", "max", "stddev", "variance"),
    *("coalesce", "nullif", "greatest", "least", "concat", "mod"),
    *(spelling.partition(" ")[0].lower() for spelling in CALLS),
]

MOMENTS = (exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentDate)
"""What moves with the clock of a database: temporal_filters.py says where it may stand."""

CHANGING = (exp.Rand, exp.Uuid, exp.CurrentUser, exp.CurrentTime, exp.Localtime, *MOMENTS)

_PLAIN_JOIN = "write a plain join"
_VERSIONS = "a view has the rows as they are now"
_BY_KEY = "select the rows in WHERE, by their key"
_MATCHED = ("columns of set operations matched by name are", "list the columns in one order")
_MERGED = "DELETE the rows with these keys first, or declare no key"

CLAUSES: Mapping[tuple[type[exp.Expr], str], Refusal] = {
    (exp.Create, "no_schema_binding"): ("WITH NO SCHEMA BINDING", None),
    (exp.Create, "clone"): ("CREATE ... CLONE", "use CREATE MATERIALIZED VIEW ... AS"),
    (exp.Create, "refresh"): ("OR REFRESH", "views are always current"),
    (exp.Insert, "with_"): ("WITH before INSERT", "write INSERT INTO ... WITH ... SELECT"),
    (exp.Insert, "by_name"): ("INSERT ... BY NAME", "list the columns: INSERT INTO t (a, b)"),
    (exp.Insert, "partition"): ("INSERT ... PARTITION", "put the value into the query"),
    (exp.Insert, "overwrite"): ("INSERT OVERWRITE", "use DELETE, and then INSERT INTO"),
    (exp.Insert, "alternative"): ("INSERT OR ...", _MERGED),
    (exp.Insert, "ignore"): ("INSERT IGNORE", _MERGED),
    (exp.Insert, "where"): ("INSERT ... REPLACE WHERE", "use DELETE, and then INSERT INTO"),
    (exp.Delete, "with_"): ("WITH before DELETE", "put the query into WHERE"),
    (exp.Delete, "tables"): ("DELETE t FROM ... JOIN", "write WHERE ... IN (SELECT ...)"),
    (exp.Delete, "limit"): ("DELETE ... LIMIT", _BY_KEY),
    (exp.Delete, "order"): ("DELETE ... ORDER BY", _BY_KEY),
    (exp.Update, "with_"): ("WITH before UPDATE", "put the query into SET or WHERE"),
    (exp.Update, "limit"): ("UPDATE ... LIMIT", _BY_KEY),
    (exp.Update, "order"): ("UPDATE ... ORDER BY", _BY_KEY),
    (exp.Drop, "cascade"): ("DROP ... CASCADE", "drop what depends on it first"),
    (exp.IndexParameters, "include"): ("INCLUDE", "leave it out"),
    (exp.PrimaryKeyColumnConstraint, "desc"): ("an order of a PRIMARY KEY", None),
    (exp.PrimaryKey, "expressions"): ("an order of a PRIMARY KEY", None),
    (exp.Select, "kind"): ("SELECT AS STRUCT or VALUE", "select the columns"),
    (exp.Select, "locks"): ("FOR UPDATE", None),
    (exp.Select, "laterals"): ("LATERAL", _PLAIN_JOIN),
    (exp.Select, "sample"): ("TABLESAMPLE", None),
    (exp.Select, "into"): ("SELECT INTO", "use CREATE MATERIALIZED VIEW"),
    (exp.Select, "connect"): ("CONNECT BY", "unroll it to the depth that you need, with joins"),
    (exp.Select, "distribute"): ("DISTRIBUTE BY", None),
    (exp.Select, "cluster"): ("CLUSTER BY", None),
    (exp.Select, "sort"): ("SORT BY", "use ORDER BY"),
    (exp.Select, "exclude"): ("* EXCLUDE", "list the columns"),
    (exp.Subquery, "lateral"): ("LATERAL", _PLAIN_JOIN),
    (exp.Star, "ilike"): ("* ILIKE", "list the columns"),
    (exp.Table, "this"): ("table functions are", None),
    (exp.Table, "catalog"): ("schemas are", None),
    (exp.Table, "sample"): ("TABLESAMPLE", None),
    (exp.Table, "partition"): ("PARTITION", "put the value into the query"),
    (exp.Table, "joins"): ("a JOIN in a change of rows", "write WHERE ... IN (SELECT ...)"),
    (exp.Table, "hints"): ("table hints like WITH (NOLOCK) are", None),
    (exp.Table, "version"): ("a version of a table (AS OF) is", _VERSIONS),
    (exp.Table, "when"): ("AT and BEFORE of a table are", _VERSIONS),
    (exp.Table, "system_time"): ("FOR SYSTEM_TIME", _VERSIONS),
    (exp.Table, "ordinality"): ("WITH ORDINALITY", None),
    (exp.TableAlias, "columns"): ("types of columns in FROM are", "use CAST in the select list"),
    (exp.TableAlias, "this"): ("a table elsewhere (t@link) is", None),
    (exp.CTE, "this"): ("a change of rows inside of WITH", "run it as a statement of its own"),
    (exp.With, "search"): ("SEARCH", None),
    (exp.With, "cycle"): ("CYCLE", None),
    (exp.Group, "totals"): ("WITH TOTALS", "use UNION ALL with the total"),
    (exp.Ordered, "with_fill"): ("WITH FILL", "join with a table that has all values"),
    (exp.Order, "this"): ("ORDER BY inside of a call", None),
    (exp.Order, "siblings"): ("ORDER SIBLINGS BY", None),
    (exp.Limit, "expressions"): ("LIMIT ... BY", None),
    (exp.Offset, "expressions"): ("LIMIT ... BY", None),
    (exp.LimitOptions, "percent"): ("LIMIT in percent", "write a number of rows"),
    (exp.Column, "db"): ("schemas are", "write the table's name alone"),
    (exp.Column, "join_mark"): ("(+)", "write LEFT JOIN"),
    (exp.Cast, "format"): ("CAST ... FORMAT", None),
    (exp.In, "unnest"): ("IN UNNEST(...)", "for a list of values write x IN (1, 2, 3)"),
    (exp.In, "field"): ("IN without parentheses", "write x IN (1, 2, 3) or x IN (SELECT ...)"),
    (exp.TimestampTrunc, "zone"): ("a time zone in DATE_TRUNC", None),
    (exp.Trim, "collation"): ("COLLATE", None),
    **{
        (node, argument): _MATCHED
        for node in (exp.Union, exp.Intersect, exp.Except)
        for argument in ("on", "kind", "side")
    },
    **dict.fromkeys(
        ((node, "pivots") for node in (exp.Select, exp.Table, exp.Subquery, exp.Join, exp.Values)),
        ("PIVOT", "use SUM(CASE WHEN ... END)"),
    ),
}

CONSTRUCTS: Mapping[type[exp.Expr], Refusal] = {
    exp.Parameter: ("a parameter here is", "write the value itself"),
    exp.TableSample: ("TABLESAMPLE", None),
    exp.Unnest: ("UNNEST in FROM", "write VALUES (1), (2)"),
    exp.Array: ("arrays are", "for a list of values write x IN (1, 2, 3)"),
    exp.TryCast: ("TRY_CAST", "use CAST, and WHERE or CASE for the rows that it cannot take"),
    exp.Final: ("FINAL", None),
    exp.Collate: ("COLLATE", "text is compared by code point"),
}


def refused_node(node: exp.Expr) -> ViewletError:
    """The error for a node that nobody reads."""
    for kind, (name, hint) in CONSTRUCTS.items():
        if isinstance(node, kind):
            return _unsupported(name, node, hint)
    if isinstance(node, exp.Anonymous):
        suggestion = did_you_mean(node.name.lower(), _FUNCTION_NAMES)
        return fault(ResolutionError, f"no function {node.name.lower()}", node, suggestion)
    if isinstance(node, MOMENTS):
        name = "CURRENT_DATE" if isinstance(node, exp.CurrentDate) else "NOW()"
        hint = "in a view compare it in WHERE with columns of one table, elsewhere give the value"
        return fault(
            UnsupportedError, f"{name} changes by itself, and cannot stand here", node, hint
        )
    if isinstance(node, CHANGING):
        return fault(
            UnsupportedError,
            f"{_written(node)} changes by itself, a view cannot follow it",
            node,
            "keep the value in a table and join it",
        )
    if isinstance(node, exp.AggFunc):
        name = f"aggregate {_written(node).partition('(')[0]}"
        return _unsupported(name, node, AGGREGATES)
    if isinstance(node, exp.Star):
        return fault(ParseError, "* cannot stand here", node)
    return _unsupported(_written(node), node, None)


def _written(node: exp.Expr) -> str:
    try:
        return sql_of(node) or _words(type(node).__name__)
    except Exception:
        # sqlglot cannot write every node that it reads, and fails in as many ways.
        return _words(type(node).__name__)


def refused_argument(node: exp.Expr, argument: str) -> ViewletError:
    """The error for an argument of a node that nobody reads."""
    value = node.args[argument]
    first = value[0] if isinstance(value, list) else value
    if isinstance(first, exp.Parameter) and isinstance(node, exp.Table):
        return refused_node(first)
    position_node = first if isinstance(first, exp.Expr) else node
    clause = CLAUSES.get((type(node), argument))
    if clause is not None:
        name, hint = clause
        return _unsupported(name, position_node, hint)
    if isinstance(node, exp.Any | exp.All):
        return fault(
            UnsupportedError,
            "ANY and ALL need a subquery",
            node,
            "for a list of values write x IN (1, 2, 3)",
        )
    if isinstance(node, exp.Join) and isinstance(value, str):
        return _unsupported(f"{value.upper().removesuffix('_JOIN')} JOIN", node, None)
    if isinstance(node, exp.AggFunc):
        return fault(TypingError, f"{node.sql_name()} takes one argument", node)
    if isinstance(node, exp.Func):
        return fault(TypingError, f"{_written(node)} has too many arguments", node)
    return _unsupported(
        f"{_words(type(node).__name__)} ... {_words(argument)}", position_node, None
    )


def _unsupported(name: str, node: exp.Expr, hint: str | None) -> ViewletError:
    subject = name if name.endswith((" is", " are")) else f"{name} is"
    return fault(UnsupportedError, f"{subject} not supported", node, hint)


def _words(name: str) -> str:
    """GroupingSets, system_time -> GROUPING SETS, SYSTEM TIME"""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name.rstrip("_")).upper()
