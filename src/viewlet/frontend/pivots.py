"""PIVOT and UNPIVOT in FROM, as the queries that they mean.

    t PIVOT (SUM(x) FOR o IN (1, 2))
        -> SELECT * EXCEPT (x, o), SUM(x) FILTER (WHERE o = 1) AS "1",
                                   SUM(x) FILTER (WHERE o = 2) AS "2" FROM t GROUP BY ALL
    t UNPIVOT (v FOR k IN (a, b))
        -> SELECT * EXCEPT (a, b), 'a' AS k, a AS v FROM t WHERE a IS NOT NULL UNION ALL ... b ...

The values of PIVOT are listed: columns of a view do not come with its rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from sqlglot import exp

from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.syntax import POSITION, fault, position_of, sql_of

_SOURCES = (exp.Table, exp.Subquery, exp.Values)


def expand_pivots(tree: exp.Expr) -> None:
    """Put the query that it means in the place of each PIVOT and UNPIVOT in FROM."""
    for source in list(tree.find_all(*_SOURCES)):
        pivots = source.args.get("pivots")
        if pivots:
            _expand(source, pivots)


def _expand(source: exp.Expr, pivots: Sequence[exp.Pivot]) -> None:
    joins = source.args.get("joins")
    inner = source.copy()
    inner.set("pivots", None)
    inner.set("joins", None)
    alias = source.args.get("alias")
    for pivot in pivots:
        query = _unpivoted(inner, pivot) if pivot.unpivot else _pivoted(inner, pivot)
        alias = pivot.args.get("alias") or alias
        if alias is None:
            name = source.name if isinstance(source, exp.Table) else "pivoted"
            alias = exp.TableAlias(this=exp.to_identifier(name))
        inner = exp.Subquery(this=query, alias=alias.copy())
    position = position_of(pivots[0]) or position_of(source)
    for node in inner.walk():
        node.meta.setdefault(POSITION, position)
    if joins:
        inner.set("joins", joins)
    source.replace(inner)


def _fields(pivot: exp.Pivot) -> list[exp.In]:
    fields = pivot.args.get("fields") or []
    for field in fields:
        values = field.expressions if isinstance(field, exp.In) else []
        is_list = bool(values) and (
            pivot.unpivot or not any(v.find(exp.Query, exp.Column) for v in values)
        )
        if not is_list:
            raise fault(
                UnsupportedError,
                "PIVOT needs its values in a list",
                pivot,
                "write FOR column IN (1, 2, 3)",
            )
    return list(fields)


def _pivoted(source: exp.Expr, pivot: exp.Pivot) -> exp.Select:
    fields, aggregates = _fields(pivot), pivot.expressions
    used = [*aggregates, *(field.this for field in fields)]
    names = dict.fromkeys(column.name for node in used for column in node.find_all(exp.Column))
    group = pivot.args.get("group")
    items: list[exp.Expr] = [_all_but(names)]
    if group is not None:
        items = [part.copy() for part in group.expressions]
    for values in itertools.product(*(field.expressions for field in fields)):
        tests = [
            exp.EQ(this=field.this.copy(), expression=_value(value).copy())
            for field, value in zip(fields, values, strict=True)
        ]
        label = "_".join(_label(value) for value in values)
        for aggregate in aggregates:
            name = label
            if isinstance(aggregate, exp.Alias):
                name = f"{label}_{aggregate.alias}"
            elif len(aggregates) > 1:
                name = f"{label}_{sql_of(aggregate).lower()}"
            filtered = _filtered(aggregate.unalias(), tests, pivot)
            items.append(exp.Alias(this=filtered, alias=exp.to_identifier(name, quoted=True)))
    grouping = exp.Group(all=True) if group is None else group.copy()
    return exp.Select(expressions=items, from_=exp.From(this=source), group=grouping)


def _filtered(aggregate: exp.Expr, tests: Sequence[exp.Expr], pivot: exp.Pivot) -> exp.Expr:
    """SUM(x) -> SUM(x) FILTER (WHERE o = 1)"""
    if isinstance(aggregate, exp.Filter) or not isinstance(aggregate, exp.AggFunc):
        raise fault(TypingError, f"PIVOT needs an aggregate, not {sql_of(aggregate)}", pivot)
    condition = tests[0]
    for test in tests[1:]:
        condition = exp.And(this=condition, expression=test)
    return exp.Filter(this=aggregate.copy(), expression=exp.Where(this=condition))


def _unpivoted(source: exp.Expr, pivot: exp.Pivot) -> exp.Query:
    (field, *more), values = _fields(pivot), pivot.expressions
    columns = [_value(part) for part in field.expressions]
    plain = all(isinstance(column, exp.Column) for column in columns)
    if more or len(values) != 1 or not plain:
        raise fault(
            UnsupportedError,
            "UNPIVOT into several columns of values is not supported",
            pivot,
            "write UNPIVOT (value FOR name IN (a, b)), or UNION ALL",
        )
    query: exp.Query | None = None
    for part, column in zip(field.expressions, columns, strict=True):
        label = exp.Literal.string(_label(part))
        where = exp.Where(this=exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null())))
        select = exp.Select(
            expressions=[
                _all_but(column.name for column in columns),
                exp.Alias(this=label, alias=exp.to_identifier(field.this.name)),
                exp.Alias(this=column.copy(), alias=exp.to_identifier(values[0].name)),
            ],
            from_=exp.From(this=source.copy()),
            where=None if pivot.args.get("include_nulls") else where,
        )
        query = (
            select if query is None else exp.Union(this=query, expression=select, distinct=False)
        )
    assert query is not None
    return query


def _all_but(names: Iterable[str]) -> exp.Star:
    return exp.Star(except_=[exp.to_identifier(name) for name in names])


def _value(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.PivotAlias | exp.Alias) else node


def _label(node: exp.Expr) -> str:
    """What the column of a value is called: its alias, a word as it is, anything else as text."""
    if isinstance(node, exp.PivotAlias | exp.Alias):
        return str(node.args["alias"].name)
    return node.name if isinstance(node, exp.Literal | exp.Column) else sql_of(node)
