"""Small things that every part of the frontend asks of a syntax tree."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Iterator

from sqlglot import ErrorLevel, exp

from viewlet.errors import ParseError, Position, UnsupportedError, ViewletError

POSITION = "position"
"""Where parse.py leaves a node's Position in the node's `meta`."""


COMMA = "comma"
"""Whether parse.py saw a join that is a comma, in the join's `meta`."""

FEW = 8


def position_of(node: exp.Expr | None) -> Position | None:
    """The node's place, or the first place inside it: operators have none of their own."""
    if node is None:
        return None
    positions = [position for n in node.walk() if (position := n.meta_get(POSITION)) is not None]
    if not positions and node.parent is not None:
        return position_of(node.parent)
    return min(positions, key=lambda p: (p.line, p.column), default=None)


def fault(
    kind: type[ViewletError], message: str, node: exp.Expr | None, hint: str | None = None
) -> ViewletError:
    """An error at a node's place, to be raised by the caller."""
    return kind(message, position=position_of(node), hint=hint)


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """The closest known name, or all of them where they are few."""
    names = {candidate.casefold(): candidate for candidate in sorted(set(candidates))}
    close = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {names[close[0]]}?"
    return f"known are {', '.join(names.values())}" if 0 < len(names) <= FEW else None


def walk_level(node: exp.Expr) -> Iterator[exp.Expr]:
    """The node and what is below it, without going into subqueries."""
    pending = [node]
    while pending:
        part = pending.pop()
        yield part
        children = [c for c in part.iter_expressions() if not isinstance(c, exp.Query)]
        pending += reversed(children)


def sql_of(node: exp.Expr) -> str:
    """A short piece of SQL for messages."""
    text = node.sql(dialect="postgres", unsupported_level=ErrorLevel.IGNORE)
    return text if len(text) <= 60 else text[:57] + "..."


def conjuncts_of(node: exp.Expr) -> list[exp.Expr]:
    """a AND (b AND c) -> [a, b, c]"""
    conjuncts, pending = [], [node]
    while pending:
        part = unwrapped(pending.pop())
        if isinstance(part, exp.And):
            pending += [part.right, part.left]
        else:
            conjuncts.append(part)
    return conjuncts


def spine_of(node: exp.Expr, kinds: Container[type[exp.Expr]]) -> list[exp.Binary]:
    """a + b - c -> [a + b, a + b - c]: a chain of operators, the innermost first.

    Chains are lowered in a loop, because a thousand terms are a thousand levels.
    """
    spine: list[exp.Binary] = []
    while isinstance(node, exp.Binary) and type(node) in kinds:
        spine.append(node)
        node = node.left
    return spine[::-1]


def plain_name(table: exp.Expr) -> str:
    """A table's name without a schema in front."""
    if isinstance(table, exp.Table) and table.db:
        raise fault(
            UnsupportedError,
            f"schemas are not supported: {table.db}.{table.name}",
            table,
            f"write {table.name}",
        )
    return table.name


def plain_names(nodes: Iterable[exp.Expr]) -> tuple[str, ...]:
    """The names of columns in a list that has nothing but names."""
    names = []
    for node in nodes:
        if not isinstance(node, exp.Identifier):
            text = f"{sql_of(node)} is not a name of a column"
            raise fault(ParseError, text, node, "list the names alone")
        names.append(node.name)
    return tuple(names)


def unwrapped(node: exp.Expr) -> exp.Expr:
    """((x)) -> x"""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
