"""The terms of a FROM item that WHERE leaves: those that it rules out multiply no join.

FROM (SELECT 's' AS kind, ... UNION ALL SELECT 'w' AS kind, ...) t, u WHERE t.kind = 's'

t has two terms, of which the first is joined with u
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewlet.frontend.context import Lowering
from viewlet.frontend.joined import Joined
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.products import Branch
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import conjuncts_of
from viewlet.functions import Const


def possible_terms(
    lowering: Lowering, scope: Scope, item: Joined, where: exp.Expr | None
) -> Joined:
    """An item without the terms for which t.column = literal is never TRUE; one term is left at
    least. `scope` has the names of the item, `where` is asked again of the rows."""
    if where is None or len(item.branches) < 2:
        return item
    aliases = {source.alias for source in item.sources}
    scalars = RowScalars(lowering, scope)
    tests = [
        scalars.boolean(part, "WHERE").scalar
        for part in conjuncts_of(where)
        if isinstance(part, exp.EQ)
        and isinstance(part.left, exp.Column)
        and isinstance(part.right, exp.Literal)
        and part.left.table in aliases
    ]

    def may_pass(branch: Branch) -> bool:
        tested = map(branch.resolve, tests)
        return not any(isinstance(test, Const) and test.value is not True for test in tested)

    return replace(item, branches=tuple(filter(may_pass, item.branches)) or item.branches[:1])
