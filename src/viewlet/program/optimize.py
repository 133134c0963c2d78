"""Passes over programs, in order. Each takes and gives a program that `check` accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from viewlet.calculus.expr import (
    ONE,
    PRESENCE,
    ZERO,
    Cond,
    Exists,
    Expr,
    MapRef,
    Sum,
    exists_of,
    factors_of,
    is_buffer,
    is_constant,
    product_of,
    rebuild,
    starts_from_batch,
    sum_of,
    terms_of,
)
from viewlet.calculus.factorize import factorize, separate
from viewlet.calculus.rewrite import Canonical, canonical, census, is_scalar_sum, rename
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import inputs, outputs
from viewlet.calculus.typing import Signatures, variable_slots
from viewlet.program.batch_joins import join_batches
from viewlet.program.check import check
from viewlet.program.ir import KeyColumn, Map, Program, Refresh, Statement, Trigger, ValueColumn
from viewlet.program.keys import Keys
from viewlet.program.prune import drop_dead_maps, each_statement
from viewlet.schema import Physical

Pass = Callable[[Program], Program]


def optimize(program: Program) -> Program:
    """All passes, each checked."""
    for rule in PASSES:
        program = check(rule(program), since=program)
    return program


def split_terms(program: Program) -> Program:
    """M[k] += a + b  ->  M[k] += a; M[k] += b        M[k] := a + b  ->  M[k] := a; M[k] += b

    A statement sums over its loop anyway, so a Sum around a term goes too.
    """

    def rule(s: Statement) -> list[Statement]:
        (column, update), *more = s.updates
        if more or update != ONE:
            return [s]
        parts: list[Statement] = []
        for term in terms_of(s.loop):
            op = s.op if not parts else "+="
            parts.append(Statement(s.target, s.keys, op, _without_sum(term), ((column, ONE),)))
        return parts

    return each_statement(program, rule)


def _without_sum(term: Expr) -> Expr:
    """c * Sum[k](q) -> c * q"""
    parts = [f.body if isinstance(f, Sum) else f for f in factors_of(term)]
    loops = [f for f in factors_of(term) if isinstance(f, Sum)]
    return product_of(*parts) if len(loops) == 1 else term


def separate_loops(program: Program) -> Program:
    """M[] := a[x] * b[y]  ->  M[] := Sum[](a[x]) * Sum[](b[y]): scans instead of their product."""

    keys = Keys(program)

    def rule(s: Statement) -> list[Statement]:
        apart = separate(s.loop, frozenset(s.keys), costs=keys)
        # An equal loop stays the same node, with all that is remembered of it.
        loop = schedule(s.loop if apart == s.loop else apart, costs=keys)
        return [s if loop is s.loop else replace(s, loop=loop)]

    return each_statement(program, rule)


def fuse_statements(program: Program) -> Program:
    """M[k] += q * x; M[k] += q * y  ->  M[k] += q | c1: x, c2: y     (equal loops, other columns)
    M[k] += q * x; M[k] += q * y  ->  M[k] += q | c: x + y            (the same column)

    Values and lookups that bind nothing move behind the bar; what is left must be the same loop.
    Only a run of statements that update the same map fuses: they add up, so their order does not
    matter among themselves, except that a column is set before anything is added to it.
    """

    keys = Keys(program)

    def fused(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        done: list[_Fused] = []
        by_loop: dict[Expr, _Fused] = {}
        start = 0
        for statement in (_with_loop_apart(s, keys) for s in statements):
            if done and done[-1].statement.target != statement.target:
                start = len(done)
                by_loop.clear()
            new = _Fused(statement)
            candidates = done[_after_reset(statement, done, start) :]
            equal = by_loop.get(statement.loop)
            if equal is not None and equal in candidates:
                candidates.insert(0, equal)
            for other in candidates:
                if other.absorbs(new):
                    break
            else:
                done.append(new)
                by_loop.setdefault(statement.loop, new)
        return tuple(each.statement for each in done)

    triggers = (Trigger(t.relation, fused(t.statements)) for t in program.triggers)
    refreshes = (Refresh(r.view, fused(r.statements)) for r in program.refreshes)
    return replace(program, triggers=tuple(triggers), refreshes=tuple(refreshes))


def _after_reset(statement: Statement, done: list[_Fused], start: int) -> int:
    """Behind the last := of one of its columns: what is added before that would be lost."""
    columns = {column for column, _ in statement.updates}
    resets = [
        i
        for i, other in enumerate((each.statement for each in done[start:]), start=start + 1)
        if other.op == ":=" and columns & {column for column, _ in other.updates}
    ]
    return max(resets, default=start)


def _with_loop_apart(statement: Statement, keys: Keys) -> Statement:
    """Values, and lookups whose keys the loop binds before them, become the update.

    A map that the loop runs over stays as its records, M[k].*, with the column behind the bar, so
    that loops over different columns of one map are the same loop.
    """
    (column, update), *more = statement.updates
    if more:
        return statement
    loop = list(factors_of(schedule(statement.loop, costs=keys)))
    values: list[Expr] = [update]
    for factor in reversed(tuple(loop)):
        position = next(i for i, f in enumerate(loop) if f is factor)
        # What binds the keys must come first anyway: a loop that could do without this map would
        # run over all pairs of the others' records instead.
        if _is_value(factor) or (_is_lookup(factor) and _bound_by(factor, loop[:position])):
            del loop[position]
            values.insert(1, factor)
    for i, factor in enumerate(loop):
        if _is_column(factor) and isinstance(factor, MapRef):
            loop[i] = replace(factor, column=PRESENCE)
            values.append(factor)
    if not loop:
        return statement
    ordered = schedule(product_of(*loop), costs=keys)
    return replace(statement, loop=ordered, updates=((column, product_of(*values)),))


def _is_value(factor: Expr) -> bool:
    return is_constant(factor) or (is_scalar_sum(factor) and not isinstance(factor, Cond))


def _is_column(factor: Expr) -> bool:
    return isinstance(factor, MapRef) and factor.column != PRESENCE


def _is_lookup(factor: Expr) -> bool:
    """m[k].c, or a sum of such: the new value of a map that changes in the trigger."""
    return all(_is_column(term) for term in terms_of(factor)) and factor != ZERO


def _bound_by(factor: Expr, others: list[Expr]) -> bool:
    return outputs(factor) <= frozenset[str]().union(*(outputs(f) for f in others))


class _Fused:
    """A statement and those that were found to have the same loop."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement

    @cached_property
    def _form(self) -> Canonical:
        """The canonical form of the loop, which stays as it is."""
        return canonical(self.statement.loop, self.statement.keys)

    def absorbs(self, other: _Fused) -> bool:
        """Becomes one statement for both, where they differ in their columns and updates only."""
        left, right = self.statement, other.statement
        if left.target != right.target or left.op != right.op:
            return False
        if left.target in left.reads | right.reads:
            return False
        if left.op == ":=" and {c for c, _ in left.updates} & {c for c, _ in right.updates}:
            return False
        names = self._matching(other)
        if names is None:
            return False
        updates = dict(left.updates)
        for column, update in right.updates:
            own = rename(update, names)
            previous = updates.get(column)
            updates[column] = own if previous is None else factorize(sum_of(previous, own))
        self.statement = replace(left, updates=tuple(updates.items()))
        return True

    def _matching(self, other: _Fused) -> dict[str, str] | None:
        """Names under which the other loop is this one."""
        left, right = self.statement, other.statement
        if left.keys == right.keys and left.loop == right.loop:
            return {}
        if census(left.loop) != census(right.loop):
            return None
        a, b = self._form, other._form
        if a.text != b.text:
            return None
        if [a.names.get(k) for k in left.keys] != [b.names.get(k) for k in right.keys]:
            return None
        back = {short: name for name, short in a.names.items()}
        names = {name: back[short] for name, short in b.names.items()}
        free = {n for _, update in right.updates for n in inputs(update)}
        return names if free <= names.keys() else None


def share_domains(program: Program) -> Program:
    """m[a] += Exists(Sum[a](Exists(d[a, b])) + Exists(e[a])) * n[a]
    ->
    d_domain[a] += Exists(d[a, b])
    d_domain[a] += Exists(e[a])
    m[a] += d_domain[a].* * n[a]

    The domain of a nested change, computed once for all statements of the trigger that start from
    it: those up to one that changes a map which the domain reads. A domain that is one buffer
    already stays as it is.
    """
    buffers: dict[str, Map] = {}
    names = program.names()
    triggers = []
    costs, signatures = Keys(program), program.signatures()
    for trigger in program.triggers:
        statements: list[Statement] = []
        fillings: dict[str, list[Statement]] = {}
        domain_count = 0
        for statement in trigger.statements:
            loop: list[Expr] = []
            for factor in factors_of(statement.loop):
                keys = tuple(sorted(outputs(factor)))
                if not isinstance(factor, Exists) or not starts_from_batch(factor) or not keys:
                    loop.append(factor)
                    continue
                # In its place it may have relied on what stands to the left of it.
                factor = schedule(_by_presence(factor), costs=costs)
                form = canonical(factor, keys)
                text = f"{[form.names[k] for k in keys]} {form.text}"
                if text not in fillings:
                    domain_count += 1
                    name = names.fresh(f"d_{trigger.relation}_domain_{domain_count}")
                    buffers[name] = _domain_buffer(name, keys, factor, signatures)
                    fillings[text] = [
                        Statement(name, keys, "+=", part, ((COUNT, ONE),))
                        for part in _counted(factor)
                    ]
                    statements += fillings[text]
                loop.append(MapRef(fillings[text][0].target, PRESENCE, keys, buffer=True))
            if any(
                new is not old for new, old in zip(loop, factors_of(statement.loop), strict=True)
            ):
                statement = replace(statement, loop=product_of(*loop))
            statements.append(statement)
            fillings = {
                text: filling
                for text, filling in fillings.items()
                if not any(statement.target in s.reads for s in filling)
            }
        triggers.append(Trigger(trigger.relation, tuple(statements)))
    maps = (*program.maps, *buffers.values())
    return replace(program, maps=maps, triggers=tuple(triggers))


COUNT = "count"


def _by_presence(domain: Exists) -> Expr:
    """Exists(Exists(d[a].x * m[b]) + Exists(d[a].y * m[b]))  ->  Exists(d[a].* * m[b])

    Where other columns of d have records the domain grows, which does no harm: outside of what
    changes, new and old are the same. Terms that stay apart keep their columns.
    """
    terms = terms_of(domain.body)
    merged = dict.fromkeys(map(_present_factors, terms))
    return domain if len(merged) == len(terms) else exists_of(sum_of(*merged))


def _present_factors(term: Expr) -> Expr:
    """Exists(d[a].x * m[b])  ->  Exists(d[a].* * m[b])

    Only what is a factor itself: within a sum weights of 1 might cancel where the column's do not,
    and what a lift or a comparison computes with is the column.
    """
    if isinstance(term, Sum):
        return rebuild(term, (_present_factors(term.body),))
    if not isinstance(term, Exists):
        return term
    factors = [
        replace(factor, column=PRESENCE)
        if isinstance(factor, MapRef) and is_buffer(factor)
        else factor
        for factor in factors_of(term.body)
    ]
    return exists_of(product_of(*factors))


def _counted(domain: Expr) -> list[Expr]:
    """Exists(Sum[a](Exists(d[a, b])) + Exists(e[a]))  ->  Exists(d[a, b]), Exists(e[a])

    The buffer is asked for presence only, and weights of 1 never cancel: it may as well count them.
    As one sum they are first brought together in another buffer. Exists of a product would need one
    of its own in each term, so a domain with such a term stays as it is.
    """
    body = domain.body if isinstance(domain, Exists) else domain
    terms = [term.body if isinstance(term, Sum) else term for term in terms_of(body)]
    if all(isinstance(term, Exists) and isinstance(term.body, MapRef) for term in terms):
        return terms
    return [domain]


def _domain_buffer(name: str, keys: tuple[str, ...], domain: Expr, signatures: Signatures) -> Map:
    slots = variable_slots(domain, signatures)
    columns = tuple(KeyColumn(key, slots[key]) for key in keys)
    return Map(name, columns, (ValueColumn(COUNT, Physical.INT),), buffer=True)


PASSES: tuple[Pass, ...] = (
    split_terms,
    join_batches,
    separate_loops,
    share_domains,
    fuse_statements,
    drop_dead_maps,
)
