"""Which columns a name can mean, as in PostgreSQL.

A scope holds the FROM items of one SELECT and the scope around it. A column is looked up in the
nearest scope that knows it; where two items of one scope have it, the name is ambiguous, except
for the columns that USING or NATURAL merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    `merged` are columns of USING and NATURAL joins; they hide the columns they were made from,
    unless those are qualified. `view` changes what a found column means: a grouped query maps it
    to its group key or rejects it.
    """

    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Typed] = field(default_factory=dict)
    hidden: set[tuple[str, str]] = field(default_factory=set)
    common: Mapping[str, CommonTable] = field(default_factory=dict)
    view: Callable[[Typed, exp.Expr], Typed] | None = None

    def add(self, source: Source, node: exp.Expr) -> None:
        if any(known.alias == source.alias for known in self.sources):
            raise fault(
                ResolutionError,
                f"{source.alias} is in FROM more than once",
                node,
                f"give one of them another name, as in {source.alias} AS {source.alias}2",
            )
        self.sources.append(source)

    def common_table(self, name: str) -> CommonTable | None:
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
            found = scope._own(node)
            if found is not None:
                return scope.view(found, node) if scope.view is not None else found
            scope = scope.parent
        raise self._unknown(node)

    def owns(self, node: exp.Column) -> bool:
        return self._own(node) is not None

    def _own(self, node: exp.Column) -> Typed | None:
        name, table = node.name, node.table
        if not table and name in self.merged:
            return self.merged[name]
        sources = [s for s in self.sources if not table or s.alias == table]
        found = [typed for s in sources for typed in s.find(name)]
        if len(found) > 1:
            owners = list(dict.fromkeys(s.alias for s in sources if s.find(name)))
            where = f"{' and '.join(owners)} have it" if len(owners) > 1 else "it is there twice"
            raise fault(
                ResolutionError,
                f"column {name} is ambiguous: {where}",
                node,
                f"write {owners[0]}.{name}" if len(owners) > 1 else None,
            )
        if table and sources and not found:
            raise fault(
                ResolutionError,
                f"{table} has no column {name}",
                node,
                did_you_mean(name, (c for s in sources for c, _ in s.columns)),
            )
        return found[0] if found else None

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
        """The columns of * or table.*, merged ones first and once."""
        if table is None:
            if not self.sources:
                raise fault(ResolutionError, "* needs a FROM", node)
            rest = [
                (name, typed)
                for source in self.sources
                for name, typed in source.columns
                if (source.alias, name) not in self.hidden
            ]
            return [*self.merged.items(), *rest]
        for source in self.sources:
            if source.alias == table:
                return list(source.columns)
        aliases = (s.alias for s in self.sources)
        raise fault(
            ResolutionError, f"no table {table} in FROM", node, did_you_mean(table, aliases)
        )
