"""The text of a view whose tables get other columns: what it reads stays what it was.

FROM r       -> FROM (SELECT "a", "c" AS "b" FROM "r") AS "r"
FROM r AS x  -> FROM (SELECT "a", "c" AS "b" FROM "r") AS x
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from viewlet.frontend.duckdb_text import quoted
from viewlet.frontend.parse import SourceText, split, statement_of
from viewlet.frontend.statements import CreateView

Shown = Sequence[tuple[str, str]]
"""The columns of a table, each with the name by which a view knows it."""


def reads_table(view: CreateView, table: str) -> bool:
    """Whether a view's own text names a table."""
    return any(True for _ in _table_nodes(view.select, table))


def over_columns(view: CreateView, table: str, columns: Shown) -> CreateView:
    """The view, which sees these columns of a table and no others."""
    source = SourceText(view.text)
    (tokens,) = split(source)
    fresh = statement_of(source, tokens)
    assert isinstance(fresh, CreateView)
    listed = ", ".join(
        quoted(name) if name == shown else f"{quoted(name)} AS {quoted(shown)}"
        for name, shown in columns
    )
    text = view.text
    # PIVOT and UNPIVOT have become branches, each with a copy of what they read.
    nodes = {_start(node): node for node in _table_nodes(fresh.select, table)}
    for _, node in sorted(nodes.items(), reverse=True):
        alias = "" if node.args.get("alias") else f" AS {quoted(table)}"
        end = int(node.this.meta["end"]) + 1
        rows = f"(SELECT {listed} FROM {quoted(table)}){alias}"
        text = f"{text[: _start(node)]}{rows}{text[end:]}"
    source = SourceText(text)
    (tokens,) = split(source)
    made = statement_of(source, tokens)
    assert isinstance(made, CreateView)
    return made


def _start(node: exp.Table) -> int:
    return int(node.this.meta["start"])


def _table_nodes(select: exp.Expr, table: str) -> Iterator[exp.Table]:
    """Where a text says FROM table, and no WITH has the name for something else."""
    for node in select.find_all(exp.Table):
        is_named = isinstance(node.this, exp.Identifier) and node.name == table
        if is_named and not _is_hidden(node, table):
            yield node


def _is_hidden(node: exp.Expr, name: str) -> bool:
    """Whether one of the WITH around a node has this name where the node sees it."""
    inside = node
    while inside.parent is not None:
        around = inside.parent
        with_ = around.args.get("with_")
        known: list[exp.Expr] = []
        if isinstance(around, exp.With):
            known = around.expressions  # of which one sees those before it, if none is recursive
            if not around.args.get("recursive"):
                known = known[: [part is inside for part in known].index(True)]
        elif with_ is not None and with_ is not inside:
            known = with_.expressions
        if any(part.alias == name for part in known):
            return True
        inside = around
    return False


def mentioned(view: CreateView, names: Sequence[str]) -> list[str]:
    """Those of a table's columns that a view's text may mean: all, where it has * or NATURAL."""
    stars = (star for star in view.select.find_all(exp.Star))
    joins = view.select.find_all(exp.Join)
    is_all = any(not isinstance(star.parent, exp.Count) for star in stars)
    if is_all or any(str(join.args.get("method")).upper() == "NATURAL" for join in joins):
        return list(names)
    (tokens,) = split(SourceText(view.text))
    words = {token.text.lower() for token in tokens}
    return [name for name in names if name.lower() in words]
