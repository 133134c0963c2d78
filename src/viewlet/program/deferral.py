"""Deferred views in a program: what they read has a name of its own, and gets its rows later.

    relation r(a: INTEGER)                      views that are kept with every batch
    relation r@v(a: INTEGER) later r            the deferred view v, whose changes are collected

A trigger gives the same state however rows are cut into batches, so that deferring is nothing but
feeding: r@v gets the rows of r as one batch, whenever that is. Maps at different points of time
cannot be shared, and are not, because they are defined over different relations.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

from viewlet.calculus.expr import Delta, Expr, Rel, transform
from viewlet.program.ir import Map, Program, Statement, Trigger


def deferred_relations(program: Program) -> dict[str, str]:
    """r@v -> r for each relation that is given its rows later."""
    return {r.name: r.original for r in program.relations if r.original is not None}


def at_once(program: Program, later: Container[str] = ()) -> Program:
    """r@v -> r: the program as if nothing were deferred. With nothing pending both hold the same.

    on r: S; on r@v: T  ->  on r: S; T        S and T write different maps

    Relations that are to stay as they are, with what is pending of them, are in `later`.
    """
    deferred = deferred_relations(program)
    originals = {name: original for name, original in deferred.items() if name not in later}
    if not originals:
        return program

    def rule(node: Expr) -> Expr:
        if isinstance(node, Rel | Delta) and node.name in originals:
            return replace(node, name=originals[node.name])
        return node

    def renamed(statement: Statement) -> Statement:
        updates = tuple((column, transform(e, rule)) for column, e in statement.updates)
        return replace(statement, loop=transform(statement.loop, rule), updates=updates)

    relations = {}
    for relation in program.relations:
        name = originals.get(relation.name, relation.name)
        relations[name] = replace(relation, name=name, original=deferred.get(name))
    triggers: dict[str, list[Statement]] = {}
    for trigger in program.triggers:
        name = originals.get(trigger.relation, trigger.relation)
        triggers.setdefault(name, []).extend(map(renamed, trigger.statements))
    return replace(
        program,
        relations=tuple(relations.values()),
        maps=tuple(_over(map, rule) for map in program.maps),
        triggers=tuple(Trigger(name, _in_order(made)) for name, made in triggers.items()),
    )


def _in_order(statements: list[Statement]) -> tuple[Statement, ...]:
    """What is computed anew, and what is added to that, comes after all that is updated."""
    anew = {s.target for s in statements if s.op == ":="}
    return tuple(sorted(statements, key=lambda s: s.target in anew))


def _over(map: Map, rule: Callable[[Expr], Expr]) -> Map:
    columns = tuple(
        replace(c, definition=None if c.definition is None else transform(c.definition, rule))
        for c in map.columns
    )
    return replace(map, columns=columns)
