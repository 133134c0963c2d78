"""ASOF JOIN: each row with the nearest row of the other side that is not beyond it.

    a ASOF JOIN b ON a.k = b.k AND a.t >= b.t
        -> a JOIN (SELECT DISTINCT ON (k, t) * FROM b) b
           ON a.k = b.k AND b.t = (SELECT MAX(b.t) FROM b WHERE a.k = b.k AND a.t >= b.t)

Of rows at the same time there is one, the first by the table's key or by its columns.
"""

from __future__ import annotations

from sqlglot import exp

from viewlet.errors import ParseError, UnsupportedError
from viewlet.frontend.syntax import POSITION, conjuncts_of, fault, position_of

_FROM_ABOVE = (exp.GTE, exp.GT)
_INEQUALITIES = (*_FROM_ABOVE, exp.LTE, exp.LT)


def expand_asof_joins(tree: exp.Expr) -> None:
    """Put the join that it means in the place of each ASOF JOIN."""
    for join in list(tree.find_all(exp.Join)):
        if (join.method or "").upper() == "ASOF":
            _expand(join)


def _expand(join: exp.Join) -> None:
    on = join.args.get("on")
    if on is None:
        raise fault(
            UnsupportedError,
            "ASOF JOIN needs ON",
            join,
            "write ON a.k = b.k AND a.t >= b.t",
        )
    if (join.side or "").upper() not in ("", "LEFT"):
        raise fault(ParseError, f"ASOF {join.side} JOIN is not a join", join, "exchange sides")
    right = join.this
    if not isinstance(right, exp.Table | exp.Subquery) or not right.alias_or_name:
        raise fault(UnsupportedError, "ASOF JOIN needs a table or a named subquery", join)
    name = right.alias_or_name
    tests = conjuncts_of(on)
    nearness = [test for test in tests if isinstance(test, _INEQUALITIES)]
    ties = [test for test in tests if isinstance(test, exp.EQ)]
    if len(nearness) != 1 or len(ties) + 1 != len(tests):
        raise fault(
            ParseError,
            "ASOF JOIN needs one inequality in ON, and else equalities",
            on,
            "write ON a.k = b.k AND a.t >= b.t",
        )
    (near,) = nearness
    own, other = near.right, near.left
    takes_last = isinstance(near, _FROM_ABOVE)
    if not _is_of(own, name):
        own, other, takes_last = near.left, near.right, not takes_last
    if not _is_of(own, name) or _is_of(other, name):
        raise fault(
            ParseError,
            "the inequality of ASOF JOIN is between a column of either side",
            near,
            f"name the column of {name} with the table before it",
        )
    keys = [own]
    for test in ties:
        sides = [side for side in (test.left, test.right) if _is_of(side, name)]
        if len(sides) != 1:
            raise fault(ParseError, f"ON of ASOF JOIN compares with a column of {name}", test)
        keys += sides
    position = position_of(join)
    first = exp.Select(
        expressions=[exp.Star()],
        distinct=exp.Distinct(on=exp.Tuple(expressions=[key.copy() for key in keys])),
        from_=exp.From(this=_source(right)),
    )
    nearest = exp.Select(
        expressions=[exp.Max(this=own.copy()) if takes_last else exp.Min(this=own.copy())],
        from_=exp.From(this=_source(right)),
        where=exp.Where(this=on.copy()),
    )
    condition: exp.Expr = exp.EQ(this=own.copy(), expression=exp.Subquery(this=nearest))
    for test in ties:
        condition = exp.And(this=test.copy(), expression=condition)
    alias = right.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
    rows = exp.Subquery(this=first, alias=alias.copy())
    for node in (*rows.walk(), *condition.walk()):
        node.meta.setdefault(POSITION, position)
    join.set("this", rows)
    join.set("on", condition)
    join.set("method", None)


def _source(right: exp.Expr) -> exp.Expr:
    source = right.copy()
    source.set("joins", None)
    return source


def _is_of(node: exp.Expr, name: str) -> bool:
    """Whether an expression reads columns of a table, and of no other."""
    columns = list(node.find_all(exp.Column))
    return bool(columns) and all(column.table == name for column in columns)
