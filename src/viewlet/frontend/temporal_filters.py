"""NOW() in WHERE: rows that are valid for a time that follows from their own values.

    FROM r WHERE ts > NOW() - INTERVAL '5' MINUTE  ->  FROM r@now... , valid until ts + 5 minutes

A comparison of NOW() with an expression of one table's columns says from when, or until when, each
row of that table counts. The table gives way to a relation of the rows that are valid now, which
the database changes as its clock goes (interfaces/valid_rows.py). For whatever reads it these are
ordinary changes, so that every engine keeps such a view as it keeps any other.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewlet.calculus.expr import Rel
from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.casts import cast
from viewlet.frontend.context import Lowering
from viewlet.frontend.intervals import DAY, interval_literal
from viewlet.frontend.joins import From
from viewlet.frontend.lower import lower_query
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.refusals import MOMENTS, refused_node
from viewlet.frontend.scope import Scope
from viewlet.frontend.statements import CreateView
from viewlet.frontend.syntax import conjuncts_of, fault, sql_of, unwrapped, walk_level
from viewlet.functions import ScalarExpr
from viewlet.schema import TIMESTAMP, Catalog, Relation

HINT = (
    "compare NOW() in WHERE with columns of one table, as in WHERE ts > NOW() - INTERVAL '5' MINUTE"
)


@dataclass(frozen=True)
class TimeBound:
    """When a row begins to count, or ends: `scalar` + `shift`, or the day after that begins."""

    scalar: ScalarExpr
    shift: int
    is_daily: bool
    is_end: bool


@dataclass(frozen=True)
class ValidRows:
    """The rows of a relation that count now: from the last of the begins, up to the first end.

    `variables` are the relation's columns in the bounds.
    """

    relation: Relation
    source: str
    variables: tuple[str, ...]
    bounds: tuple[TimeBound, ...]

    @property
    def waiting(self) -> Relation | None:
        """The relation of the rows that are to count later, where there can be some."""
        if all(bound.is_end for bound in self.bounds):
            return None
        return replace(self.relation, name=f"{self.relation.name}@wait")


@dataclass(frozen=True)
class _Comparison:
    """moment operator node + shift"""

    operator: type[exp.Expr]
    node: exp.Expr
    shift: int
    is_daily: bool


def with_valid_rows(
    statement: CreateView, catalog: Catalog
) -> tuple[CreateView, tuple[ValidRows, ...]]:
    """A view over the rows that are valid now, and which these are."""
    if statement.select.find(*MOMENTS) is None:
        return statement, ()
    tree = exp.Subquery(this=statement.select.copy())
    valid_rows: dict[str, ValidRows] = {}
    for select in list(tree.find_all(exp.Select)):
        if select.args.get("where") is not None:
            _read_select(select, catalog, statement.name, valid_rows)
    left = tree.find(*MOMENTS)
    if left is not None:
        raise refused_node(left)
    return replace(statement, select=tree.this), tuple(valid_rows.values())


def _read_select(
    select: exp.Select, catalog: Catalog, view: str, valid_rows: dict[str, ValidRows]
) -> None:
    """Take the comparisons with NOW() out of WHERE, and put valid rows in place of the tables."""
    where = select.args["where"]
    tables = _tables(select, catalog)
    parts: list[exp.Expr] = []
    bounds: dict[str, list[tuple[exp.Expr, _Comparison]]] = {}
    for part in conjuncts_of(where.this):
        if not any(isinstance(node, MOMENTS) for node in walk_level(part)):
            parts.append(part)
            continue
        for comparison in _comparisons(part):
            alias = _owner(comparison.node, tables, part)
            bounds.setdefault(alias, []).append((part, comparison))
            known = exp.Is(this=comparison.node.copy(), expression=exp.Null())
            parts.append(exp.Not(this=known))
    for alias, written in bounds.items():
        table = tables[alias]
        assert table is not None
        valid = _valid_rows(table, alias, written, catalog, view)
        valid_rows[valid.relation.name] = valid
        table.set("this", exp.to_identifier(valid.relation.name, quoted=True))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    if bounds:
        where.set("this", exp.and_(*parts, copy=False))


def _tables(select: exp.Select, catalog: Catalog) -> dict[str, exp.Table | None]:
    """What FROM names; None for what is no table or stream."""
    common = {cte.alias for cte in _common(select)}
    nodes = []
    if select.args.get("from_") is not None:
        nodes.append(select.args["from_"].this)
    nodes += [join.this for join in select.args.get("joins") or ()]
    tables: dict[str, exp.Table | None] = {}
    for node in nodes:
        is_table = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
        is_table = is_table and node.name not in common and node.name in catalog
        tables[node.alias_or_name] = node if is_table else None
    return tables


def _common(select: exp.Select) -> list[exp.CTE]:
    """The common tables that a SELECT can name."""
    known: list[exp.CTE] = []
    node: exp.Expr | None = select
    while node is not None:
        clause = node.args.get("with_")
        if clause is not None:
            known += clause.expressions
        node = node.parent
    return known


def _owner(node: exp.Expr, tables: Mapping[str, exp.Table | None], part: exp.Expr) -> str:
    """The one table that an expression is about."""
    owners = set()
    for column in node.find_all(exp.Column):
        if column.table:
            owners.add(column.table)
        elif len(tables) == 1:
            owners |= tables.keys()
        else:
            hint = f"write its table before {column.name}"
            raise fault(UnsupportedError, f"{column.name} is compared with NOW()", column, hint)
    if len(owners) != 1 or node.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        raise fault(
            UnsupportedError,
            f"{sql_of(part)} is no condition on the rows of one table",
            part,
            HINT,
        )
    (owner,) = owners
    if tables.get(owner) is None:
        raise fault(
            UnsupportedError,
            f"{sql_of(part)} is about {owner}, which is no table or stream in FROM",
            part,
            "put the condition into the query where the table is read",
        )
    return owner


# --- comparisons ----------------------------------------------------------------------------------

_MIRRORED: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


def _comparisons(part: exp.Expr) -> list[_Comparison]:
    """A conjunct as comparisons with the moment on the left: a BETWEEN is two, so is an equality"""
    if isinstance(part, exp.Between):
        low = exp.GTE(this=part.this, expression=part.args["low"])
        high = exp.LTE(this=part.this, expression=part.args["high"])
        return [c for side in (low, high) for c in _comparisons(side)]
    operator = type(part)
    if operator not in _MIRRORED or not isinstance(part, exp.Binary):
        raise fault(
            UnsupportedError,
            f"{sql_of(part)} does not say from when or until when a row counts",
            part,
            HINT + "; one of two conditions is a SELECT of its own in a UNION ALL",
        )
    left, right = part.left, part.right
    if not _has_moment(left):
        left, right, operator = right, left, _MIRRORED[operator]
    if _has_moment(right):
        raise fault(UnsupportedError, f"{sql_of(part)} compares NOW() with itself", part, HINT)
    moment, shift = _moment(left)
    is_daily = isinstance(moment, exp.CurrentDate)
    if operator is exp.EQ:
        return [_Comparison(side, right, -shift, is_daily) for side in (exp.GTE, exp.LTE)]
    return [_Comparison(operator, right, -shift, is_daily)]


def _has_moment(node: exp.Expr) -> bool:
    return node.find(*MOMENTS) is not None


def _moment(node: exp.Expr) -> tuple[exp.Expr, int]:
    """NOW() - INTERVAL '5' MINUTE -> NOW(), and the microseconds that are added to it"""
    node = unwrapped(node)
    if isinstance(node, MOMENTS):
        return node, 0
    if isinstance(node, exp.Cast) and isinstance(node.this, MOMENTS):
        target = node.to.this
        if target == exp.DataType.Type.DATE:
            return exp.CurrentDate(), 0
        if target in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ):
            return node.this, 0
    if isinstance(node, exp.Add | exp.Sub) and _has_moment(node.left):
        moment, shift = _moment(node.left)
        span = _span(node.expression, moment)
        return moment, shift + (span if isinstance(node, exp.Add) else -span)
    raise fault(
        UnsupportedError,
        f"{sql_of(node)} is not NOW() and a fixed time",
        node,
        "write what is computed beside the row's column: ts + INTERVAL '1' MONTH > NOW()",
    )


def _span(node: exp.Expr, moment: exp.Expr) -> int:
    node = unwrapped(node)
    if isinstance(node, exp.Interval):
        interval = interval_literal(node)
        if interval.months:
            raise fault(
                UnsupportedError,
                "months have no fixed length",
                node,
                "write the months beside the row's column: ts + INTERVAL '1' MONTH > NOW()",
            )
        return interval.length
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    if is_number and isinstance(moment, exp.CurrentDate):
        return int(node.name) * DAY
    raise fault(TypingError, f"{sql_of(node)} is not an INTERVAL", node, HINT)


# --- bounds ---------------------------------------------------------------------------------------


def _valid_rows(
    table: exp.Table,
    alias: str,
    written: Sequence[tuple[exp.Expr, _Comparison]],
    catalog: Catalog,
    view: str,
) -> ValidRows:
    source = catalog[table.name]
    lowering = Lowering(catalog, {}, lower_query)
    scope = Scope()
    # Without the alias, so that two views with one condition share the rows.
    branches = From(lowering, scope, None).lower(exp.to_table(f'"{source.name}"'), ())
    (relation,) = (factor for factor in branches[0].factors if isinstance(factor, Rel))
    scalars = RowScalars(lowering, scope)
    bounds = []
    for part, comparison in written:
        node = comparison.node.copy()
        for column in node.find_all(exp.Column):
            column.set("table", None)
        moment = cast(scalars.lower(node), TIMESTAMP, node)
        if scalars.take_prelude():
            raise fault(UnsupportedError, f"{sql_of(part)} needs other rows", part, HINT)
        bounds.append(_bound(moment.scalar, comparison))
    text = repr([view if source.is_stream else "", relation.variables, bounds])
    name = f"{source.name}@now{zlib.crc32(text.encode()):08x}"
    current = replace(source, name=name, is_stream=False, static=False)
    return ValidRows(current, source.name, relation.variables, tuple(bounds))


def _bound(scalar: ScalarExpr, comparison: _Comparison) -> TimeBound:
    """now < x: until x. now <= x: until the next microsecond. Of CURRENT_DATE: the next day."""
    is_end = comparison.operator in (exp.LT, exp.LTE)
    if comparison.is_daily:
        later = comparison.operator in (exp.LTE, exp.GT)
        shift = comparison.shift + (0 if later else -1)
    else:
        later = comparison.operator in (exp.LTE, exp.GT)
        shift = comparison.shift + (1 if later else 0)
    return TimeBound(scalar, shift, comparison.is_daily, is_end)
