"""The rows with the greatest value of their group, written without a window, as the first by RANK.

    FROM t x WHERE x.p = (SELECT MAX(y.p) FROM t y WHERE y.g = x.g)
    FROM t x WHERE (x.g, x.p) IN (SELECT g, MAX(p) FROM t GROUP BY g)
    FROM t x WHERE NOT EXISTS (SELECT 1 FROM t y WHERE y.g = x.g AND y.p > x.p)
    FROM t x JOIN (SELECT g, MAX(p) AS m FROM t GROUP BY g) q ON q.g = x.g AND q.m = x.p
        -> FROM (SELECT * FROM t WHERE p IS NOT NULL AND g IS NOT NULL
                 QUALIFY RANK() OVER (PARTITION BY g ORDER BY p DESC) = 1) x ...

and the same with MIN and <. As they are written, a new maximum would be compared with every row of
its group; the first rows of a window are few. NOT EXISTS keeps rows where g or p is NULL beside
them; the join stays, over fewer rows. Other conditions come after, as they do in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import POSITION, conjuncts_of, position_of, unwrapped
from viewlet.schema import Catalog

_GREATEST = {exp.Max: True, exp.Min: False}


@dataclass(frozen=True)
class GreatestRows:
    """Rows of a table with the greatest or least value among those equal in some columns."""

    table: exp.Table
    group: tuple[str, ...]
    value: str
    is_greatest: bool
    keeps_nulls: bool = False


def with_greatest_rows(catalog: Catalog, select: exp.Select, scope: Scope | None) -> exp.Select:
    """The SELECT over the first rows of its tables, where it asks for no others."""
    tables = _plain_tables(catalog, select, scope)
    where = select.args.get("where")
    if not tables:
        return select
    matches: list[tuple[GreatestRows, exp.Expr | None]] = []
    taken: set[int] = set()
    for part in conjuncts_of(where.this) if where is not None else ():
        rows = _of_condition(part, tables)
        if rows is not None and id(rows.table) not in taken:
            taken.add(id(rows.table))
            matches.append((rows, part))
    for join in select.args.get("joins") or ():
        rows = _of_join(join, tables, where)
        if rows is not None and id(rows.table) not in taken:
            taken.add(id(rows.table))
            matches.append((rows, None))
    if not matches:
        return select
    paths = [(rows, part, _path_of(select, rows.table)) for rows, part in matches]
    remaining = [
        part.copy()
        for part in (conjuncts_of(where.this) if where is not None else ())
        if all(part is not test for _, test in matches)
    ]
    select = select.copy()
    for rows, _, path in paths:
        owner, argument = path
        node = select.args["from_"] if owner < 0 else select.args["joins"][owner]
        node.set(argument, _first_rows(catalog, rows))
    if where is not None:
        condition = remaining[0] if remaining else None
        for part in remaining[1:]:
            condition = exp.And(this=condition, expression=part)
        select.set("where", exp.Where(this=condition) if condition is not None else None)
    return select


def _plain_tables(
    catalog: Catalog, select: exp.Select, scope: Scope | None
) -> dict[str, exp.Table]:
    """The tables of FROM by their names, where none of them can be missing for another's rows."""
    from_ = select.args.get("from_")
    joins = select.args.get("joins") or []
    if from_ is None or any(j.side or j.method or j.kind in ("SEMI", "ANTI") for j in joins):
        return {}
    items = [from_.this, *(join.this for join in joins)]
    return {
        item.alias_or_name: item
        for item in items
        if isinstance(item, exp.Table)
        and isinstance(item.this, exp.Identifier)
        and item.name in catalog
        and not item.args.get("joins")
        and not _has_columns(item)
        and (scope is None or scope.common_table(item.name) is None)
    }


def _path_of(select: exp.Select, table: exp.Table) -> tuple[int, str]:
    """Where a table stands: -1 for FROM itself, else the number of its join."""
    for at, join in enumerate(select.args.get("joins") or ()):
        if join.this is table:
            return at, "this"
    return -1, "this"


def _has_columns(table: exp.Expr) -> bool:
    alias = table.args.get("alias")
    return alias is not None and bool(alias.args.get("columns"))


def _of_condition(part: exp.Expr, tables: dict[str, exp.Table]) -> GreatestRows | None:
    if isinstance(part, exp.EQ):
        for own, query in ((part.left, part.right), (part.right, part.left)):
            if isinstance(query, exp.Subquery) and isinstance(own, exp.Column):
                return _equal_to_extreme(own, query.this, tables)
    if isinstance(part, exp.In) and isinstance(part.args.get("query"), exp.Subquery):
        return _in_extremes(part.this, part.args["query"].this, tables)
    if isinstance(part, exp.Not) and isinstance(unwrapped(part.this), exp.Exists):
        return _none_greater(unwrapped(part.this).this, tables)
    return None


def _table_of(column: exp.Expr, tables: dict[str, exp.Table]) -> exp.Table | None:
    """The table that a column is of: the one that it names, or the only one."""
    if not isinstance(column, exp.Column):
        return None
    if column.table:
        return tables.get(column.table)
    return next(iter(tables.values())) if len(tables) == 1 else None


def _alone(query: exp.Expr, table: exp.Table) -> exp.Table | None:
    """The one table of a plain query over the same relation."""
    clauses = ("joins", "having", "qualify", "distinct", "limit", "offset", "with_", "windows")
    if not isinstance(query, exp.Select) or any(query.args.get(c) for c in clauses):
        return None
    from_ = query.args.get("from_")
    inner = from_.this if from_ is not None else None
    if not isinstance(inner, exp.Table) or _has_columns(inner) or inner.args.get("joins"):
        return None
    return inner if inner.name == table.name else None


def _extreme_of(query: exp.Expr, at: int, inner: exp.Table) -> tuple[str, bool] | None:
    """MAX(p) as an item of the query: the column, and whether it is the greatest."""
    node = query.expressions[at].unalias()
    column = node.this if type(node) in _GREATEST else None
    if not isinstance(column, exp.Column) or column.table not in ("", inner.alias_or_name):
        return None
    return column.name, _GREATEST[type(node)]


def _equal_to_extreme(
    own: exp.Column, query: exp.Expr, tables: dict[str, exp.Table]
) -> GreatestRows | None:
    table = _table_of(own, tables)
    inner = _alone(query, table) if table is not None else None
    if table is None or inner is None or query.args.get("group") or len(query.expressions) != 1:
        return None
    extreme = _extreme_of(query, 0, inner)
    where = query.args.get("where")
    group = _ties(conjuncts_of(where.this) if where is not None else (), inner, table)
    if extreme is None or extreme[0] != own.name or group is None:
        return None
    return GreatestRows(table, group, *extreme)


def _in_extremes(
    own: exp.Expr, query: exp.Expr, tables: dict[str, exp.Table]
) -> GreatestRows | None:
    columns = own.expressions if isinstance(own, exp.Tuple) else [own]
    table = _table_of(columns[0], tables)
    inner = _alone(query, table) if table is not None else None
    if table is None or inner is None or query.args.get("where"):
        return None
    if len(columns) != len(query.expressions):
        return None
    if not all(_table_of(column, tables) is table for column in columns):
        return None
    extreme = _extreme_of(query, len(columns) - 1, inner)
    keys = _grouped_columns(query, inner)
    names = [column.name for column in columns]
    items = [item.unalias().name for item in query.expressions[:-1]]
    if extreme is None or keys is None or names != [*items, extreme[0]] or set(keys) != set(items):
        return None
    return GreatestRows(table, tuple(items), *extreme)


def _grouped_columns(query: exp.Expr, inner: exp.Table) -> list[str] | None:
    """The columns of GROUP BY, if they are nothing else."""
    group = query.args.get("group")
    if group is None:
        return []
    if any(group.args.get(word) for word in ("all", "rollup", "cube", "grouping_sets")):
        return None
    nodes = group.expressions
    is_plain = all(
        isinstance(node, exp.Column) and node.table in ("", inner.alias_or_name) for node in nodes
    )
    return [node.name for node in nodes] if is_plain else None


def _none_greater(query: exp.Expr, tables: dict[str, exp.Table]) -> GreatestRows | None:
    """NOT EXISTS (SELECT 1 FROM t y WHERE y.g = x.g AND y.p > x.p)"""
    where = query.args.get("where") if isinstance(query, exp.Select) else None
    if where is None or query.args.get("group"):
        return None
    tests = conjuncts_of(where.this)
    order = [test for test in tests if isinstance(test, exp.GT | exp.LT)]
    if len(order) != 1:
        return None
    left, right = order[0].left, order[0].right
    if not (isinstance(left, exp.Column) and isinstance(right, exp.Column)):
        return None
    for own, other, turned in ((right, left, False), (left, right, True)):
        table = tables.get(own.table)
        inner = _alone(query, table) if table is not None else None
        if table is None or inner is None or inner.alias_or_name == table.alias_or_name:
            continue
        if other.table not in ("", inner.alias_or_name) or other.name != own.name:
            continue
        group = _ties([t for t in tests if t is not order[0]], inner, table)
        if group is not None:
            is_greatest = isinstance(order[0], exp.GT) != turned
            return GreatestRows(table, group, own.name, is_greatest, keeps_nulls=True)
    return None


def _ties(tests: Sequence[exp.Expr], inner: exp.Table, outer: exp.Table) -> tuple[str, ...] | None:
    """y.g = x.g AND y.h = x.h -> g, h; None where anything else is asked."""
    names = []
    if tests and inner.alias_or_name == outer.alias_or_name:
        return None
    for test in tests:
        if not isinstance(test, exp.EQ):
            return None
        columns = [side for side in (test.left, test.right) if isinstance(side, exp.Column)]
        owners = [column.table for column in columns]
        if len(columns) != 2 or columns[0].name != columns[1].name:
            return None
        own = [t for t in owners if t == outer.alias_or_name]
        if len(own) != 1 or not all(t in ("", inner.alias_or_name, own[0]) for t in owners):
            return None
        names.append(columns[0].name)
    return tuple(names)


def _of_join(
    join: exp.Join, tables: dict[str, exp.Table], where: exp.Where | None
) -> GreatestRows | None:
    """JOIN (SELECT g, MAX(p) AS m FROM t GROUP BY g) q ON q.g = x.g AND q.m = x.p"""
    query = join.this
    if not isinstance(query, exp.Subquery) or not isinstance(query.this, exp.Select):
        return None
    select, name = query.this, query.alias
    if select.args.get("where") or _has_columns(query) or not name:
        return None
    conditions = [join.args.get("on"), where.this if where is not None else None]
    tests = [test for node in conditions if node is not None for test in conjuncts_of(node)]
    pairs = [pair for test in tests if (pair := _pair(test, name)) is not None]
    for table in tables.values():
        inner = _alone(select, table)
        keys = _grouped_columns(select, inner) if inner is not None else None
        if inner is None or keys is None:
            continue
        items = {item.alias_or_name: at for at, item in enumerate(select.expressions)}
        matched: set[str] = set()
        best: tuple[str, bool] | None = None
        for theirs, own in pairs:
            if _table_of(own, tables) is not table or theirs not in items:
                continue
            node = select.expressions[items[theirs]].unalias()
            extreme = _extreme_of(select, items[theirs], inner)
            if extreme is not None and extreme[0] == own.name:
                best = extreme
            elif isinstance(node, exp.Column) and node.name == own.name:
                matched.add(own.name)
        if best is not None and matched >= set(keys):
            return GreatestRows(table, tuple(dict.fromkeys(keys)), *best)
    return None


def _pair(test: exp.Expr, name: str) -> tuple[str, exp.Column] | None:
    """q.a = x.b -> a, x.b"""
    if not isinstance(test, exp.EQ):
        return None
    for theirs, own in ((test.left, test.right), (test.right, test.left)):
        if not isinstance(theirs, exp.Column) or not isinstance(own, exp.Column):
            continue
        if theirs.table == name and own.table != name:
            return theirs.name, own
    return None


def _first_rows(catalog: Catalog, rows: GreatestRows) -> exp.Subquery:
    table = rows.table.copy()
    table.set("alias", None)
    alias = rows.table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
    relation = catalog[table.name]
    named = [name for name in (*rows.group, rows.value) if relation.column(name).nullable]
    absent = [exp.Is(this=exp.column(name), expression=exp.Null()) for name in named]
    order = exp.Ordered(this=exp.column(rows.value), desc=rows.is_greatest, nulls_first=False)
    rank = exp.Window(
        this=exp.Rank(),
        partition_by=[exp.column(name) for name in rows.group],
        order=exp.Order(expressions=[order]),
        over="OVER",
    )
    query: exp.Query = exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(this=table),
        where=exp.Where(this=_all([exp.Not(this=test) for test in absent])) if absent else None,
        qualify=exp.Qualify(this=exp.EQ(this=rank, expression=exp.Literal.number(1))),
    )
    if rows.keeps_nulls and absent:
        other = exp.Select(
            expressions=[exp.Star()],
            from_=exp.From(this=table.copy()),
            where=exp.Where(this=exp.Not(this=_all([exp.Not(this=t.copy()) for t in absent]))),
        )
        query = exp.Union(this=query, expression=other, distinct=False)
    subquery = exp.Subquery(this=query, alias=alias.copy())
    position = position_of(rows.table)
    for node in subquery.walk():
        node.meta.setdefault(POSITION, position)
    return subquery


def _all(tests: Sequence[exp.Expr]) -> exp.Expr:
    condition = tests[0]
    for test in tests[1:]:
        condition = exp.And(this=condition, expression=test)
    return condition
