"""Makes a failing query small: take parts out of its syntax tree while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError
from tests.oracle.harness import Case, shrink

Fails = Callable[[Case], bool]


def reduce_case(case: Case, fails: Fails) -> Case:
    """Smaller query first, then fewer rows, then tables that nobody needs."""
    changed = True
    while changed:
        changed = False
        for text in _smaller(case.select):
            candidate = Case(case.tables, text, case.batches, case.note)
            if len(text) < len(case.select) and fails(candidate):
                case, changed = candidate, True
                break
    case = shrink(case, fails)
    for table in list(case.tables):
        name = table.split()[2]
        tables = [other for other in case.tables if other != table]
        batches = [[change for change in batch if change[0] != name] for batch in case.batches]
        candidate = Case(tables, case.select, batches, case.note)
        if fails(candidate):
            case = candidate
    return case


def _smaller(text: str) -> Iterator[str]:
    """Every query with one part left out or replaced by a part of itself."""
    count = len(list(sqlglot.parse_one(text, dialect="duckdb").walk()))
    for index in range(count):
        for edit in range(6):
            tree = sqlglot.parse_one(text, dialect="duckdb")
            node = list(tree.walk())[index]
            if _edit(tree, node, edit):
                smaller = tree.sql(dialect="duckdb")
                with suppress(ParseError):  # OVER needs a call before it, for example
                    sqlglot.parse_one(smaller, dialect="duckdb")
                    yield smaller


def _edit(tree: exp.Expr, node: exp.Expr, edit: int) -> bool:
    """Change the tree in place; False if this edit does not apply to the node."""
    if edit == 0 and isinstance(node, exp.Where | exp.Having | exp.Join | exp.Order | exp.Limit):
        node.pop()
        return True
    if edit == 1 and isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        if len(node.parent.expressions) > 1:
            node.pop()
            return True
        return False
    parts = list(node.iter_expressions())
    logical = isinstance(node, exp.Binary | exp.Not | exp.Paren | exp.Func | exp.Case)
    if edit in (2, 3, 4) and logical and node is not tree and len(parts) > edit - 2:
        node.replace(parts[edit - 2].copy())
        return True
    if edit == 5 and isinstance(node.parent, exp.Group) and len(node.parent.expressions) > 1:
        node.pop()
        return True
    return False
