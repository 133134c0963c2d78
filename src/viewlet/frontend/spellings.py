"""Other spellings of a query, each put into the words that the lowering reads."""

from __future__ import annotations

from sqlglot import exp

from viewlet.errors import ResolutionError
from viewlet.frontend.asof_join import expand_asof_joins
from viewlet.frontend.pivots import expand_pivots
from viewlet.frontend.syntax import POSITION, fault, position_of

SCHEMAS = ("public", "main")
"""Schemas of PostgreSQL and DuckDB in which tables are that name no other; here all tables are."""

_QUANTILES = {"quantile_cont": exp.PercentileCont, "quantile_disc": exp.PercentileDisc}


def expand_spellings(tree: exp.Expr) -> None:
    """A tree in which joins, tables and aggregates are written in one way."""
    _drop_schemas(tree)
    expand_pivots(tree)
    expand_asof_joins(tree)
    _expand_quantiles(tree)
    _expand_corresponding(tree)


def _drop_schemas(tree: exp.Expr) -> None:
    """public.t -> t"""
    for node in tree.find_all(exp.Table, exp.Column):
        schema = node.args.get("db")
        if schema is not None and schema.name in SCHEMAS and node.args.get("catalog") is None:
            node.set("db", None)


def _expand_quantiles(tree: exp.Expr) -> None:
    """QUANTILE_CONT(x, 0.5) -> PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)"""
    for node in list(tree.find_all(exp.Anonymous)):
        kind = _QUANTILES.get(node.name.lower())
        if kind is not None and len(node.expressions) == 2:
            value, share = node.expressions
            order = exp.Order(expressions=[exp.Ordered(this=value.copy())])
            percentile = exp.WithinGroup(this=kind(this=share.copy()), expression=order)
            for part in percentile.walk():
                part.meta.setdefault(POSITION, position_of(node))
            node.replace(percentile)


def _expand_corresponding(tree: exp.Expr) -> None:
    """q UNION CORRESPONDING BY (a) r -> SELECT a FROM q UNION SELECT a FROM r"""
    for node in list(tree.find_all(exp.SetOperation)):
        if not node.args.get("by_name") or (node.args.get("kind") or "").upper() != "INNER":
            continue
        names = [column.name for column in node.args.get("on") or ()]
        if not names:
            left, right = node.this.named_selects, node.expression.named_selects
            if "*" in left or "*" in right:
                raise fault(
                    ResolutionError,
                    "CORRESPONDING needs the names of the columns",
                    node,
                    "list the columns, or write CORRESPONDING BY (a, b)",
                )
            names = [name for name in left if name in right]
        if not names:
            raise fault(ResolutionError, "CORRESPONDING finds no column of both sides", node)
        for side in ("this", "expression"):
            columns = [exp.column(name) for name in names]
            alias = exp.TableAlias(this=exp.to_identifier("side"))
            inner = exp.Subquery(this=node.args[side].copy(), alias=alias)
            query = exp.Select(expressions=columns, from_=exp.From(this=inner))
            for part in query.walk():
                part.meta.setdefault(POSITION, position_of(node))
            node.set(side, query)
        for argument in ("by_name", "on", "kind"):
            node.set(argument, None)
