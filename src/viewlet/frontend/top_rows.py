"""The first rows of a query, in all spellings, as conditions on a position.

    SELECT .. ORDER BY o LIMIT 3 OFFSET 1
        -> .. QUALIFY ROW_NUMBER() OVER (ORDER BY o) <= 4 AND ROW_NUMBER() OVER (ORDER BY o) > 1
    SELECT .. ORDER BY o FETCH FIRST 3 ROWS WITH TIES
        -> .. QUALIFY RANK() OVER (ORDER BY o) <= 3
    SELECT DISTINCT ON (a) .. ORDER BY a, o
        -> .. QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY a, o) = 1
    (SELECT .., ROW_NUMBER() .. AS n ..) q WHERE q.n <= 3
        -> the same over (SELECT .. QUALIFY ROW_NUMBER() .. <= 3) q

These are changes of the syntax tree, before anything is lowered.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.syntax import conjuncts_of, fault, unwrapped, walk_level

_NUMBERS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_BOUNDS = (exp.LT, exp.LTE, exp.EQ)


def is_all(node: exp.Expr) -> bool:
    """LIMIT NULL and LIMIT ALL"""
    names = (exp.Column, exp.Var, exp.Identifier)
    return isinstance(node, exp.Null) or (isinstance(node, names) and node.name.lower() == "all")


def whole(node: exp.Expr | None, ordinal: exp.Expr, what: str) -> int:
    """The number of rows that a clause names."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    raise fault(TypingError, f"{what} needs a whole number", ordinal)


def limit_of(query: exp.Expr) -> tuple[int | None, int]:
    """LIMIT or FETCH, and OFFSET."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    count = None
    if isinstance(limit, exp.Fetch):
        count = whole(limit.args.get("count") or exp.Literal.number(1), limit, "FETCH")
    elif limit is not None and not is_all(limit.expression):
        count = whole(limit.expression, limit, "LIMIT")
    return count, whole(offset.expression, offset, "OFFSET") if offset is not None else 0


def has_ties(query: exp.Expr) -> bool:
    """FETCH FIRST n ROWS WITH TIES"""
    limit = query.args.get("limit")
    options = limit.args.get("limit_options") if limit is not None else None
    return options is not None and bool(options.args.get("with_ties"))


def without_limit(query: exp.Expr, partition: Sequence[exp.Expr] = ()) -> exp.Expr:
    """A query in which QUALIFY says what LIMIT and OFFSET did, for each partition by itself."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    if limit is None and offset is None:
        return query
    count, skipped = limit_of(query)
    query = query.copy()
    order = query.args.get("order")
    for clause in ("limit", "offset", "order"):
        query.set(clause, None)
    if count is None and not skipped:
        return query
    is_plain = isinstance(query, exp.Select) and not query.args.get("distinct")
    if not is_plain:
        # The rows are what is left after DISTINCT or the set operation.
        inner = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("rows")))
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner))
        query.meta.update(inner.this.meta)
        inner_names = list(inner.this.named_selects)
    assert isinstance(query, exp.Select)
    ordered = order.expressions if order is not None else []
    keys = [_over_items(key, query, None if is_plain else inner_names) for key in ordered]
    ties = has_ties_of(limit)
    if ties and not keys:
        raise fault(UnsupportedError, "WITH TIES needs ORDER BY", limit)
    function: exp.Expr = exp.Rank() if ties else exp.RowNumber()
    number = exp.Window(
        this=function,
        partition_by=[part.copy() for part in partition],
        order=exp.Order(expressions=keys) if keys else None,
        over="OVER",
    )
    tests: list[exp.Expr] = []
    if count is not None:
        tests.append(exp.LTE(this=number, expression=exp.Literal.number(skipped + count)))
    if skipped:
        tests.append(exp.GT(this=number.copy(), expression=exp.Literal.number(skipped)))
    return _qualified(query, tests)


def has_ties_of(limit: exp.Expr | None) -> bool:
    """Whether a LIMIT or FETCH is WITH TIES."""
    options = limit.args.get("limit_options") if limit is not None else None
    return options is not None and bool(options.args.get("with_ties"))


def _over_items(key: exp.Ordered, select: exp.Select, names: Sequence[str] | None) -> exp.Ordered:
    """ORDER BY 2 and ORDER BY an output name -> the expression of the select list"""
    key, node = key.copy(), key.this
    if names is not None:
        if isinstance(node, exp.Literal) and node.name.isdigit() and int(node.name) <= len(names):
            key.set("this", exp.column(names[int(node.name) - 1]))
        return key
    items = select.expressions
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(items):
        key.set("this", items[int(node.name) - 1].unalias().copy())
    elif isinstance(node, exp.Column) and not node.table:
        named = [item for item in items if isinstance(item, exp.Alias) and item.alias == node.name]
        if len(named) == 1:
            key.set("this", named[0].this.copy())
    return key


def without_distinct_on(query: exp.Expr) -> exp.Expr:
    """DISTINCT ON (a) -> the first row of each a, by ORDER BY"""
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    if on is None or not isinstance(query, exp.Select):
        return query
    query = query.copy()
    query.set("distinct", None)
    order = query.args.get("order")
    keys = [_over_items(key, query, None) for key in (order.expressions if order else ())]
    parts = [_over_items(exp.Ordered(this=part), query, None).this for part in on.expressions]
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=parts,
        order=exp.Order(expressions=keys) if keys else None,
        over="OVER",
    )
    return _qualified(query, [exp.EQ(this=number, expression=exp.Literal.number(1))])


def _qualified(query: exp.Select, tests: Sequence[exp.Expr]) -> exp.Select:
    """The query with further conditions in QUALIFY."""
    known = query.args.get("qualify")
    parts = [*([known.this] if known is not None else []), *tests]
    if known is not None:
        # A limit counts the rows that QUALIFY has left.
        inner = query
        names = list(inner.named_selects)
        raise fault(
            UnsupportedError,
            "LIMIT and DISTINCT ON beside QUALIFY are not supported",
            known,
            f"put the query with QUALIFY into a subquery of its own ({', '.join(names)})",
        )
    condition = parts[0]
    for part in parts[1:]:
        condition = exp.And(this=condition, expression=part)
    query.set("qualify", exp.Qualify(this=condition))
    return query


def with_bounds_inside(select: exp.Select) -> exp.Select:
    """(SELECT .., ROW_NUMBER() .. AS n) q WHERE q.n <= 3: the same condition inside, as QUALIFY."""
    source = select.args.get("from_")
    where = select.args.get("where")
    if source is None or where is None:
        return select
    items = [source.this, *(j.this for j in select.args.get("joins") or () if not j.side)]
    tables = [item for item in items if isinstance(item, exp.Subquery)]
    if not any(isinstance(t.this, exp.Select) and _numbers(t.this) for t in tables):
        return select
    select = select.copy()
    source = select.args["from_"]
    items = [source.this, *(j.this for j in select.args.get("joins") or () if not j.side)]
    for item in items:
        inner = item.this if isinstance(item, exp.Subquery) else None
        if not isinstance(inner, exp.Select) or inner.args.get("qualify") is not None:
            continue
        if inner.args.get("distinct") is not None or inner.args.get("limit") is not None:
            continue
        numbers = _numbers(inner)
        tests = []
        for part in conjuncts_of(select.args["where"].this):
            name = _bounded(part, item.alias, len(items) == 1)
            if name in numbers:
                test = part.copy()
                test.set("this", numbers[name].copy())
                tests.append(test)
        if tests:
            _qualified(inner, tests)
    return select


def _numbers(select: exp.Select) -> dict[str, exp.Expr]:
    """The columns of a query that are ROW_NUMBER, RANK or DENSE_RANK."""
    return {
        item.alias: item.this
        for item in select.expressions
        if isinstance(item, exp.Alias)
        and isinstance(item.this, exp.Window)
        and isinstance(item.this.this, _NUMBERS)
    }


def _bounded(test: exp.Expr, table: str, is_only: bool) -> str:
    """The column that a condition bounds from above by a constant."""
    if not isinstance(test, _BOUNDS) or not isinstance(test.expression, exp.Literal):
        return ""
    column = unwrapped(test.this)
    if not isinstance(column, exp.Column):
        return ""
    return column.name if column.table == table or (not column.table and is_only) else ""


def mentions(node: exp.Expr, tables: frozenset[str]) -> bool:
    """Whether an expression names a column of one of the tables."""
    return any(isinstance(p, exp.Column) and p.table in tables for p in walk_level(node))
