"""Which columns a name can mean, as in PostgreSQL.

A scope holds the FROM items of one SELECT and the scope around it. A column is looked up in the
nearest scope that knows it; where two items of one scope have it, the name is ambiguous, except
for the columns that USING or NATURAL made one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from viewlet.errors import ResolutionError
from viewlet.frontend.syntax import did_you_mean, fault
from viewlet.frontend.types import Typed


@dataclass(frozen=True)
class Source:
    """A FROM item: its name and its columns. `key` names the columns of a declared key."""

    alias: str
    columns: tuple[tuple[str, Typed], ...]
    key: tuple[str, ...] = ()

    def find(self, name: str) -> list[Typed]:
        return [typed for column, typed in self.columns if column == name]


@dataclass(frozen=True)
class CommonTable:
    """WITH name [(columns)] AS (query), to be lowered afresh at each use."""

    query: exp.Expr
    columns: tuple[str, ...]
    scope: Scope | None


@dataclass
class Scope:
    """The names visible in one SELECT.

    `columns` is what a name without a table and * mean, in order: a column that USING or NATURAL
    merged stands there once, while `sources` have it under each of its tables. `view` changes what
    a column means: a grouped query maps it to its group key or rejects it.
    """

    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    columns: list[tuple[str, Typed]] = field(default_factory=list)
    common: Mapping[str, CommonTable] = field(default_factory=dict)
    view: Callable[[Typed, exp.Expr], Typed] | None = None

    def common_table(self, name: str) -> CommonTable | None:
        """The WITH table of this name, the innermost if there are several."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.common:
                return scope.common[name]
            scope = scope.parent
        return None

    def resolve(self, node: exp.Column) -> Typed:
        """The scalar that a column reference stands for."""
        scope: Scope | None = self
        while scope is not None:
            column = scope._own(node)
            if column is not None:
                return scope.view(column, node) if scope.view is not None else column
            scope = scope.parent
        raise self._unknown(node)

    def owns(self, node: exp.Column) -> bool:
        """Whether a column is of this query, and not of one around it."""
        return self._own(node) is not None

    def _own(self, node: exp.Column) -> Typed | None:
        name, table = node.name, node.table
        sources = [s for s in self.sources if not table or s.alias == table]
        if table:
            matches = [typed for s in sources for typed in s.find(name)]
        else:
            matches = [typed for column, typed in self.columns if column == name]
        if len(matches) > 1:
            owners = list(dict.fromkeys(s.alias for s in sources if s.find(name)))
            where = f"{' and '.join(owners)} have it" if len(owners) > 1 else "it is there twice"
            raise fault(
                ResolutionError,
                f"column {name} is ambiguous: {where}",
                node,
                f"write {owners[0]}.{name}" if len(owners) > 1 else None,
            )
        if table and sources and not matches:
            raise fault(
                ResolutionError,
                f"{table} has no column {name}",
                node,
                did_you_mean(name, (c for s in sources for c, _ in s.columns)),
            )
        return matches[0] if matches else None

    def _unknown(self, node: exp.Column) -> Exception:
        names: list[str] = []
        aliases: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            names += [c for s in scope.sources for c, _ in s.columns]
            aliases += [s.alias for s in scope.sources]
            scope = scope.parent
        if node.table:
            return fault(
                ResolutionError,
                f"no table {node.table} in FROM",
                node,
                did_you_mean(node.table, aliases),
            )
        return fault(
            ResolutionError, f"no column {node.name}", node, did_you_mean(node.name, names)
        )

    def star(self, table: str | None, node: exp.Expr) -> list[tuple[str, Typed]]:
        """The columns of * or table.*"""
        if table is None:
            if not self.sources:
                raise fault(ResolutionError, "* needs a FROM", node)
            return list(self.columns)
        for source in self.sources:
            if source.alias == table:
                return list(source.columns)
        aliases = (s.alias for s in self.sources)
        raise fault(
            ResolutionError, f"no table {table} in FROM", node, did_you_mean(table, aliases)
        )


def numbered(names: Iterable[str]) -> list[str]:
    """a, a, b, a -> a, a_1, b, a_2"""
    result: list[str] = []
    counts: dict[str, int] = {}
    all_names = list(names)
    taken = set(all_names)
    for name in all_names:
        chosen = name
        while chosen in counts or (chosen != name and chosen in taken):
            counts[name] = counts.get(name, 0) + 1
            chosen = f"{name}_{counts[name]}"
        counts.setdefault(chosen, 0)
        result.append(chosen)
    return result


def unnumbered(names: Iterable[str]) -> frozenset[str]:
    """The names, and those that they may be a number of: a_1 -> a_1, a"""
    all_names = frozenset(names)
    return all_names | {re.sub(r"_\d+$", "", name) for name in all_names}
