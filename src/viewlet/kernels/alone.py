"""A trigger for one row at a time: without what a row alone cannot do.

    B[y] += ΔR(y, ...)
    M[k] += ΔR(x, k, ...) * B[y].* * {x > y}     nothing: with one row x and y are one value

A view that joins a relation with itself has terms in which the batch meets itself, through a
buffer. Where a row must differ from the one it meets, and there is only one, the term adds nothing;
a buffer that no other term reads is then not filled either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewlet.calculus.expr import Cond, Delta, Expr, MapRef, factors_of
from viewlet.calculus.scope import outputs
from viewlet.functions import Apply, Ref
from viewlet.program.ir import Program, Statement, Trigger
from viewlet.schema import Physical, Relation


def alone(trigger: Trigger, program: Program) -> Trigger:
    """The trigger for batches of one row."""
    buffers = {m.name for m in program.maps if m.buffer}
    copies = _copies(trigger, buffers)
    relation = program.relation(trigger.relation)
    statements = [s for s in trigger.statements if not _meets_itself(s, relation, copies)]
    if len(statements) == len(trigger.statements):
        return trigger
    while True:
        read = frozenset[str]().union(*(s.reads for s in statements))
        needed = [s for s in statements if s.target not in buffers or s.target in read]
        if len(needed) == len(statements):
            return replace(trigger, statements=tuple(statements))
        statements = needed


def meets_itself(trigger: Trigger, program: Program) -> bool:
    """Whether every row of a batch may meet many others of it.

    M[k] += ΔR(x, k, ...) * B[y, k].* * ...      B[y, k] += ΔR(y, k, ...), k is no key of R

    As a batch that takes rows times rows; one after the other, each row meets what is kept of those
    before it, by its indexes. But not where something is recomputed once for each batch.
    """
    buffers = {m.name for m in program.maps if m.buffer}
    relation = program.relation(trigger.relation)
    return all(s.op == "+=" or s.target in buffers for s in trigger.statements) and any(
        _meets_many(s, relation, buffers) for s in trigger.statements
    )


def _meets_many(statement: Statement, relation: Relation, buffers: set[str]) -> bool:
    """Whether a row of the batch goes through rows of a buffer that it does not tell apart."""
    first, *others = factors_of(statement.loop)
    if not isinstance(first, Delta) or first.name != relation.name:
        return False
    own = dict(zip(relation.names, first.variables, strict=True))
    key = {own[column] for column in relation.key}
    bound = set(first.variables)
    for factor in others:
        if isinstance(factor, MapRef) and factor.name in buffers:
            shared = set(factor.keys) & bound
            if len(shared) < len(factor.keys) and not (key and key <= shared):
                return True
        bound |= outputs(factor)
    return False


def _copies(trigger: Trigger, buffers: set[str]) -> dict[str, tuple[int, ...]]:
    """The buffers that hold columns of the batch as they came, and which."""
    copies: dict[str, tuple[int, ...]] = {}
    filled = [s.target for s in trigger.statements]
    for statement in trigger.statements:
        loop = factors_of(statement.loop)
        if statement.target not in buffers or filled.count(statement.target) > 1:
            continue
        deltas = [f for f in loop if isinstance(f, Delta) and f.name == trigger.relation]
        if len(deltas) == 1 and set(statement.keys) <= set(deltas[0].variables):
            variables = deltas[0].variables
            copies[statement.target] = tuple(variables.index(key) for key in statement.keys)
    return copies


def _meets_itself(
    statement: Statement, relation: Relation, copies: dict[str, tuple[int, ...]]
) -> bool:
    """Whether a statement joins two rows of the batch that must differ in a column."""
    loop = factors_of(statement.loop)
    deltas = [f for f in loop if isinstance(f, Delta) and f.name == relation.name]
    if len(deltas) != 1:
        return False
    same = {
        frozenset((key, deltas[0].variables[column])): relation.columns[column].type.physical
        for f in loop
        if isinstance(f, MapRef) and f.name in copies
        for key, column in zip(f.keys, copies[f.name], strict=True)
    }
    return any(_must_differ(f, same) for f in loop)


def _must_differ(factor: Expr, same: Mapping[frozenset[str], Physical]) -> bool:
    """Whether a condition cannot be met by two variables of the same value."""
    if not isinstance(factor, Cond) or not isinstance(factor.scalar, Apply):
        return False
    names = [a.name for a in factor.scalar.arguments if isinstance(a, Ref)]
    physical = same.get(frozenset(names)) if len(names) == 2 else None
    if physical is None:
        return False
    # NaN is different from itself.
    return factor.scalar.function in ("<", ">") or (
        factor.scalar.function == "<>" and physical is not Physical.FLOAT
    )
