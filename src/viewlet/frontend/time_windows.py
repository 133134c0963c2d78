"""TUMBLE and HOP in FROM: each row in its windows of time, in RisingWave's and Flink's spelling.

    TUMBLE(t, c, size)      -> SELECT *, DATE_BIN(size, c) AS window_start, ... + size AS window_end
                               FROM t WHERE c IS NOT NULL
    HOP(t, c, slide, size)  -> UNION ALL of size / slide of these, each one slide earlier

Flink's TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), size)) loses its words before it is parsed. A last
argument is an offset: where windows begin, counted from 1970.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.intervals import interval_literal
from viewlet.frontend.syntax import POSITION, fault, sql_of, unwrapped
from viewlet.frontend.time_calls import stride_of

WINDOWS = {"TUMBLE": 3, "HOP": 4}
"""Functions of windows, and how many arguments they have without an offset."""

MOST = 200
"""Windows that a row can be in: each is a query of its own."""


def without_flink_words(tokens: Sequence[Token]) -> list[Token]:
    """TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), size)) -> TUMBLE(t, c, size)"""
    plain = list(tokens)
    at = 0
    while at + 3 < len(plain):
        words = [token.text.upper() for token in plain[at : at + 4]]
        if words[0] == "TABLE" and words[1] == "(" and words[2] in WINDOWS and words[3] == "(":
            end = _closing(plain, at + 1)
            plain[at : end + 1] = _plain(plain[at + 2 : end])
        at += 1
    return plain


def _plain(call: Sequence[Token]) -> list[Token]:
    """TUMBLE(TABLE t, DESCRIPTOR(c), size) -> TUMBLE(t, c, size)"""
    plain: list[Token] = []
    at = 0
    while at < len(call):
        word = call[at].text.upper()
        if word == "DESCRIPTOR" and at + 1 < len(call) and call[at + 1].text == "(":
            end = _closing(call, at + 1)
            plain += call[at + 2 : end]
            at = end
        elif word != "TABLE":
            plain.append(call[at])
        at += 1
    return plain


def _closing(tokens: Sequence[Token], at: int) -> int:
    """Where the parenthesis that opens here is closed; the end where it is not."""
    depth = 0
    for end in range(at, len(tokens)):
        kind = tokens[end].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if not depth:
            return end
    return len(tokens)


def expand_time_windows(tree: exp.Expr) -> None:
    """Put the query that it means in the place of each TUMBLE and HOP in FROM."""
    for table in list(tree.find_all(exp.Table)):
        call = table.this
        if isinstance(call, exp.Anonymous) and call.name.upper() in WINDOWS:
            _expand(table, call)


def _expand(table: exp.Table, call: exp.Anonymous) -> None:
    name = call.name.upper()
    count = WINDOWS[name]
    if len(call.expressions) not in (count, count + 1):
        arguments = (
            "a table, a column, a slide and a size"
            if name == "HOP"
            else ("a table, a column and a size")
        )
        raise fault(TypingError, f"{name} takes {arguments}", call)
    source, column, *strides = call.expressions
    offset = strides.pop() if len(call.expressions) > count else None
    alias = table.args.get("alias") or _alias(source)
    if not isinstance(column, exp.Column):
        raise fault(TypingError, f"{name} needs a column, not {sql_of(column)}", column)
    widths = [stride_of(stride, name) for stride in strides]
    slide, size = widths[0], widths[-1]
    if size % slide:
        message = "HOP needs a size that is a multiple of the slide"
        raise fault(UnsupportedError, message, strides[-1])
    if size // slide > MOST:
        message = f"{size // slide} windows of HOP overlap, at most {MOST} can"
        raise fault(UnsupportedError, message, strides[-1], "take a longer slide")
    origin = _origin(offset, name)
    query: exp.Query | None = None
    for back in range(0, size, slide):
        windows = _windows(_source(source, name), column, slide, size, back, origin)
        query = (
            windows if query is None else exp.Union(this=query, expression=windows, distinct=False)
        )
    expanded = exp.Subquery(this=query, alias=alias)
    if table.args.get("joins"):
        expanded.set("joins", table.args["joins"])
    for node in expanded.walk():
        node.meta.setdefault(POSITION, call.meta.get(POSITION))
    table.replace(expanded)


def _alias(source: exp.Expr) -> exp.TableAlias | None:
    """The windows of a table have its name, if they are given none."""
    if not isinstance(source, exp.Column):
        return None
    return exp.TableAlias(this=source.this.copy())


def _source(source: exp.Expr, name: str) -> exp.Expr:
    if isinstance(source, exp.Column) and not source.table:
        return exp.Table(this=source.this.copy(), alias=_alias(source))
    if isinstance(unwrapped(source), exp.Subquery):
        query = unwrapped(source).copy()
        query.set("alias", exp.TableAlias(this=exp.to_identifier("windowed")))
        return query
    raise fault(TypingError, f"{name} needs a table, not {sql_of(source)}", source)


def _origin(offset: exp.Expr | None, name: str) -> exp.Expr:
    """Where windows begin: 1970, and the offset"""
    epoch = exp.Cast(
        this=exp.Literal.string("1970-01-01 00:00:00"), to=exp.DataType.build("timestamp")
    )
    if offset is None:
        return epoch
    if not isinstance(offset, exp.Interval) or interval_literal(offset).months:
        raise fault(TypingError, f"{name} needs an INTERVAL as offset", offset)
    return _later(epoch, interval_literal(offset).length)


def _later(moment: exp.Expr, microseconds: int) -> exp.Expr:
    span = exp.Interval(this=exp.Literal.string(str(microseconds)), unit=exp.var("MICROSECOND"))
    return exp.Add(this=moment, expression=span)


def _windows(
    source: exp.Expr, column: exp.Column, slide: int, size: int, back: int, origin: exp.Expr
) -> exp.Select:
    """The rows with the window that began `back` before the last one did."""

    def bucket() -> exp.Expr:
        stride = exp.Interval(this=exp.Literal.string(str(slide)), unit=exp.var("MICROSECOND"))
        return exp.Anonymous(this="DATE_BIN", expressions=[stride, column.copy(), origin.copy()])

    start = _later(bucket(), -back) if back else bucket()
    end = _later(bucket(), size - back)
    known = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
    return exp.Select(
        expressions=[
            exp.Star(),
            exp.Alias(this=start, alias=exp.to_identifier("window_start")),
            exp.Alias(this=end, alias=exp.to_identifier("window_end")),
        ],
        from_=exp.From(this=source),
        where=exp.Where(this=known),
    )
