"""What the parts of the lowering share: the database, the names, and the way back to SELECT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewlet.calculus.query import InnerView
from viewlet.frontend.products import Table, Variables
from viewlet.frontend.scope import Scope
from viewlet.frontend.statements import CreateView
from viewlet.schema import Catalog

Needed = frozenset[str] | None
"""The columns of a derived table that somebody reads; None means all."""


@dataclass
class Lowering:
    """One view being lowered.

    `query` lowers a query to a bag of rows, given the scope around it. It is handed in because
    subqueries stand inside scalars and scalars inside queries. `open_views` guards against views
    that use themselves. `inner` gathers joins that become views of their own.
    """

    catalog: Catalog
    views: Mapping[str, CreateView]
    query: Callable[[Lowering, exp.Expr, Scope | None, Needed], Table]
    variables: Variables = field(default_factory=Variables)
    open_views: tuple[str, ...] = ()
    inner: list[InnerView] = field(default_factory=list)

    def apart(self) -> Lowering:
        """For a query that is looked at and not kept: the views that it needs are not made."""
        return replace(self, inner=[])
