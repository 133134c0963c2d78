"""The text of a view whose tables get other columns: what it reads stays what it was.

FROM r       -> FROM (SELECT "a", "c" AS "b" FROM "r") AS "r"
FROM r AS x  -> FROM (SELECT "a", "c" AS "b" FROM "r") AS x

A list that is there already gets the other names in its place, so that a text does not grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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
    names = {shown: name for name, shown in columns}
    edits: list[_Edit] = []
    for node in _own_nodes(view, table):
        listing = _listing(node)
        if listing is not None and all(name in names for name, _ in listing.columns):
            again = _list_text([(names[name], shown) for name, shown in listing.columns])
            edits.append(_Edit(listing.start, listing.end, again))
            continue
        alias = "" if node.args.get("alias") else f" AS {quoted(table)}"
        rows = f"(SELECT {_list_text(columns)} FROM {quoted(table)}){alias}"
        edits.append(_Edit(_start(node), int(node.this.meta["end"]) + 1, rows))
    return _edited(view, edits)


def without_column(view: CreateView, table: str, column: str) -> CreateView:
    """The view, whose lists of a table's columns leave one out, unless they have no other.

    FROM (SELECT "a", "c" AS "b" FROM "r") AS x  ->  FROM (SELECT "a" FROM "r") AS x
    """
    edits: list[_Edit] = []
    for node in _own_nodes(view, table):
        listing = _listing(node)
        if listing is not None:
            others = [(name, shown) for name, shown in listing.columns if name != column]
            text = _list_text(others or listing.columns)
            edits.append(_Edit(listing.start, listing.end, text))
    return _edited(view, edits)


@dataclass(frozen=True)
class _Edit:
    """Other words for a part of a text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class _Listing:
    """The columns in SELECT "a", "c" AS "b" FROM "r", and the place of their list in the text."""

    columns: Shown
    start: int
    end: int


def _listing(node: exp.Table) -> _Listing | None:
    """The list of a table's columns around its name, if the query has nothing else."""
    select = node.parent.parent if isinstance(node.parent, exp.From) else None
    if not isinstance(select, exp.Select) or node.args.get("alias"):
        return None
    if any(part for name, part in select.args.items() if name not in ("expressions", "from_")):
        return None
    columns: list[tuple[str, str]] = []
    for item in select.expressions:
        column = item.this if isinstance(item, exp.Alias) else item
        name = column.this if isinstance(column, exp.Column) else None
        if not isinstance(name, exp.Identifier) or not name.quoted or len(column.parts) > 1:
            return None
        columns.append((name.name, item.alias_or_name))
    words = [word.meta for item in select.expressions for word in item.find_all(exp.Identifier)]
    return _Listing(columns, min(w["start"] for w in words), max(w["end"] for w in words) + 1)


def _list_text(columns: Shown) -> str:
    return ", ".join(
        quoted(name) if name == shown else f"{quoted(name)} AS {quoted(shown)}"
        for name, shown in columns
    )


def _own_nodes(view: CreateView, table: str) -> list[exp.Table]:
    """Where a view's text says FROM table, with places in the text."""
    return list(_table_nodes(_parsed(view.text).select, table))


def _edited(view: CreateView, edits: Iterable[_Edit]) -> CreateView:
    """Each edit once: PIVOT and UNPIVOT have become branches, with copies of what they read."""
    text = view.text
    for edit in sorted(set(edits), key=lambda edit: edit.start, reverse=True):
        text = f"{text[: edit.start]}{edit.text}{text[edit.end :]}"
    return _parsed(text)


def _parsed(text: str) -> CreateView:
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
