"""SESSION windows: rows of one key, each within a gap of the one before, are one window.

    SELECT k, SESSION_START(c, gap), COUNT(*) FROM t GROUP BY k, SESSION(c, gap)
    ->  SELECT k, MIN(c), COUNT(*)
        FROM (SELECT *, SUM(opens) OVER (PARTITION BY k ORDER BY c) AS session FROM
              (SELECT *, CASE WHEN c <= LAG(c) OVER (PARTITION BY k ORDER BY c) + gap
                         THEN 0 ELSE 1 END AS opens FROM t WHERE c IS NOT NULL) t) t
        GROUP BY k, session

Sessions are numbered along each key, so that windows over ordered maps keep them: a row at the
end costs O(log n), one that comes late what is behind it for its key. Windows that touch are one,
as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.syntax import POSITION, fault, sql_of
from viewlet.frontend.time_calls import stride_of

_STARTS, _ENDS = ("SESSION_START",), ("SESSION_END",)
_NUMBER, _OPENS = "session number", "session opens"
"""Names that no user's column has: they need quotes."""


def with_session_names(tokens: Sequence[Token]) -> list[Token]:
    """SESSION is a keyword of sqlglot's, before a parenthesis the name of a function."""
    named = list(tokens)
    for at, token in enumerate(named[:-1]):
        if token.text.upper() == "SESSION" and named[at + 1].text == "(":
            token.token_type = TokenType.VAR
    return named


def expand_sessions(tree: exp.Expr) -> None:
    """Put what it means in the place of GROUP BY ..., SESSION(c, gap)."""
    for select in list(tree.find_all(exp.Select)):
        group = select.args.get("group")
        nodes = group.expressions if group is not None else []
        calls = [node for node in nodes if _is_call(node, ("SESSION",))]
        if calls:
            _expand(select, calls)


def _is_call(node: exp.Expr, names: tuple[str, ...]) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in names


def _expand(select: exp.Select, calls: Sequence[exp.Expr]) -> None:
    group, call = select.args["group"], calls[0]
    if len(calls) > 1 or len(call.expressions) != 2:
        raise fault(TypingError, "a query has one SESSION(column, gap)", call)
    column, gap = call.expressions
    if not isinstance(column, exp.Column):
        raise fault(TypingError, f"SESSION needs a column, not {sql_of(column)}", column)
    width = stride_of(gap, "SESSION")
    keys = [node for node in group.expressions if node is not call]
    for key in keys:
        if not isinstance(key, exp.Column):
            raise fault(
                UnsupportedError,
                f"SESSION beside {sql_of(key)} in GROUP BY is not supported",
                key,
                "group by columns, and compute them in a subquery",
            )
    from_ = select.args.get("from_")
    if from_ is None or select.args.get("joins"):
        hint = "put the join into a subquery"
        raise fault(UnsupportedError, "SESSION needs one table in FROM", call, hint)
    source = from_.this
    alias = source.alias_or_name
    inner = source.copy()
    opening = _layer(inner, alias, _opens(column, keys, width), _OPENS)
    where = select.args.get("where")
    known = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
    condition = known if where is None else exp.and_(where.this.copy(), known, copy=False)
    opening.set("where", exp.Where(this=condition))
    select.set("where", None)
    numbered = _layer(_named(opening, alias), alias, _number(column, keys), _NUMBER)
    from_.set("this", _named(numbered, alias))
    call.replace(exp.column(_NUMBER, quoted=True))
    bounds = (
        (_STARTS, exp.Min(this=column.copy())),
        (_ENDS, _later(exp.Max(this=column.copy()), width)),
    )
    for node in list(select.find_all(exp.Anonymous)):
        for names, value in bounds:
            if _is_call(node, names):
                if [sql_of(e) for e in node.expressions] != [sql_of(column), sql_of(gap)]:
                    message = f"{sql_of(node)} is not of the SESSION in GROUP BY"
                    raise fault(TypingError, message, node)
                node.replace(value.copy())
    for part in select.walk():
        part.meta.setdefault(POSITION, call.meta.get(POSITION))


def _layer(source: exp.Expr, alias: str, value: exp.Expr, name: str) -> exp.Select:
    """SELECT alias.*, value AS name FROM source"""
    star = exp.Column(this=exp.Star(), table=exp.to_identifier(alias))
    named = exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
    return exp.Select(expressions=[star, named], from_=exp.From(this=source))


def _named(query: exp.Select, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _over(value: exp.Expr, column: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Window:
    order = exp.Order(expressions=[exp.Ordered(this=column.copy(), nulls_first=False)])
    return exp.Window(
        this=value, partition_by=[key.copy() for key in keys], order=order, over="OVER"
    )


def _opens(column: exp.Expr, keys: Sequence[exp.Expr], width: int) -> exp.Expr:
    """1 where no row of the key is within the gap before, 0 elsewhere"""
    before = _over(exp.Lag(this=column.copy()), column, keys)
    near = exp.LTE(this=column.copy(), expression=_later(before, width))
    zero, one = exp.Literal.number(0), exp.Literal.number(1)
    return exp.Case(ifs=[exp.If(this=near, true=zero)], default=one)


def _number(column: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Expr:
    """How many sessions of the key have begun"""
    return _over(exp.Sum(this=exp.column(_OPENS, quoted=True)), column, keys)


def _later(moment: exp.Expr, microseconds: int) -> exp.Expr:
    span = exp.Interval(this=exp.Literal.string(str(microseconds)), unit=exp.var("MICROSECOND"))
    return exp.Add(this=moment, expression=span)
