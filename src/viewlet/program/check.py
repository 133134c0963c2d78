"""The verifier that runs between passes: what every trigger program must be.

every atom names a map of the program, with its number of keys and one of its columns, and says
    rightly whether that is a buffer,
the only relation that a trigger mentions is its own, as ΔR,
every variable is bound before it is used, and every key of a target is bound,
a buffer is filled before it is read, and written with += only,
state maps are recomputed only after the last += statement,
the frontier: a trigger neither reads nor writes what refreshes write; a refresh mentions no batch,
    writes every map with := first, and reads of such maps only those that it has written;
    all that a view is made of is eager or in the view's own refresh
"""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.calculus.expr import PRESENCE, Delta, Expr, MapRef, Rel, walk
from viewlet.calculus.scope import check as check_scope
from viewlet.calculus.scope import outputs
from viewlet.errors import ProgramError
from viewlet.program.ir import Map, Program, Refresh, Statement, Trigger
from viewlet.program.prune import maps_of
from viewlet.program.text import statement_text


def check(program: Program, since: Program | None = None) -> Program:
    """The program itself, or ProgramError with the statement at fault.

    Statements that were there `since` a checked program, over maps that are still the same, are
    right by themselves and not looked at again; their order is.
    """
    known = _Known(since) if since is not None else None
    names = [m.name for m in program.maps]
    if len(set(names)) != len(names):
        raise ProgramError(f"map names are not unique: {', '.join(sorted(names))}")
    maps = {m.name: m for m in program.maps}
    for m in program.maps:
        if m.change_of is not None and not m.buffer:
            raise ProgramError(f"{m.name} holds the change of {m.change_of} and is no buffer")
    for definition in (c.definition for m in program.maps for c in m.columns):
        if definition is not None:
            check_scope(definition)
    for trigger in program.triggers:
        _check_trigger(trigger, program, maps, known)
    for refresh in program.refreshes:
        _check_refresh(refresh, program, maps, known)
    _check_frontier(program)
    for view in program.views:
        for component, map, column in view.sources:
            if map not in maps or column not in {c.name for c in maps[map].columns}:
                raise ProgramError(f"view {view.name}: no {map}.{column} for {component}")
    return program


class _Known:
    """The statements of a program that was checked, by identity."""

    def __init__(self, program: Program) -> None:
        self._maps = {m.name: m for m in program.maps}
        self._statements = {
            (id(statement), event)
            for event, statements in _events(program)
            for statement in statements
        }

    def has(self, statement: Statement, event: str, maps: dict[str, Map]) -> bool:
        """Whether the statement was checked in this event, over the same maps."""
        return (id(statement), event) in self._statements and all(
            self._maps.get(name) is maps.get(name) for name in (*statement.reads, statement.target)
        )


def _events(program: Program) -> Iterator[tuple[str, tuple[Statement, ...]]]:
    for trigger in program.triggers:
        yield f"on {trigger.relation}", trigger.statements
    for refresh in program.refreshes:
        yield f"on read {refresh.view}", refresh.statements


def _check_trigger(
    trigger: Trigger, program: Program, maps: dict[str, Map], known: _Known | None
) -> None:
    filled: set[str] = set()
    recomputing = False
    for statement in trigger.statements:
        try:
            if known is None or not known.has(statement, f"on {trigger.relation}", maps):
                _check_statement(statement, trigger.relation, program, maps)
        except ProgramError as error:
            raise _at(statement, trigger, error.message) from None
        for name in statement.reads:
            if maps[name].buffer and name not in filled:
                raise _at(statement, trigger, f"buffer {name} is read before it is filled")
        if maps[statement.target].buffer:
            filled.add(statement.target)
            if statement.op != "+=":
                raise _at(statement, trigger, "a buffer is written with += only")
        if statement.op == ":=":
            recomputing = True
        elif recomputing and not _continues(trigger, statement):
            raise _at(statement, trigger, "an update after a recomputation")


def _continues(trigger: Trigger, statement: Statement) -> bool:
    """+= to a map that this trigger has recomputed adds another part of its new contents."""
    return any(s.op == ":=" and s.target == statement.target for s in trigger.statements)


def _check_frontier(program: Program) -> None:
    for trigger in program.triggers:
        for statement in trigger.statements:
            later = sorted((statement.reads | {statement.target}) & program.on_read)
            if later:
                message = f"{', '.join(later)} is refreshed on read, and a batch needs it"
                raise _at(statement, trigger, message)
    for view in program.views:
        refresh = program.refresh(view.name)
        own = {s.target for s in refresh.statements} if refresh is not None else set()
        missing = sorted((maps_of(view) & program.on_read) - own)
        if missing:
            raise ProgramError(f"view {view.name}: no refresh of {', '.join(missing)} before it")


def _check_refresh(
    refresh: Refresh, program: Program, maps: dict[str, Map], known: _Known | None
) -> None:
    if refresh.view not in {view.name for view in program.views}:
        raise ProgramError(f"a refresh of {refresh.view}, which is no view")
    reset: set[tuple[str, str]] = set()
    written: set[str] = set()
    for statement in refresh.statements:
        try:
            if known is None or not known.has(statement, f"on read {refresh.view}", maps):
                _check_statement(statement, None, program, maps)
        except ProgramError as error:
            raise _at(statement, refresh, error.message) from None
        unwritten = sorted(statement.reads & program.on_read - written)
        if unwritten:
            raise _at(statement, refresh, f"{', '.join(unwritten)} is read before it is computed")
        columns = {(statement.target, column) for column, _ in statement.updates}
        if statement.op == ":=":
            reset |= columns
        elif not columns <= reset and not maps[statement.target].buffer:
            raise _at(statement, refresh, "an update of what the refresh has not computed")
        written.add(statement.target)


def _check_statement(
    statement: Statement, relation: str | None, program: Program, maps: dict[str, Map]
) -> None:
    target = maps.get(statement.target)
    if target is None:
        raise ProgramError(f"unknown map {statement.target}")
    if len(statement.keys) != len(target.keys):
        raise ProgramError(f"{target.name} has {len(target.keys)} keys")
    column_names = {column.name for column in target.columns}
    if statement.op not in ("+=", ":="):
        raise ProgramError(f"unknown operator {statement.op}")
    for column, _ in statement.updates:
        if column not in column_names:
            raise ProgramError(f"{target.name} has no column {column}")
    bound = outputs(statement.loop)
    _check_nodes(statement.loop, relation, program, maps)
    check_scope(statement.loop)
    for _, update in statement.updates:
        _check_nodes(update, relation, program, maps)
        check_scope(update, bound)
        unbound = frozenset(statement.keys) - bound - outputs(update)
        if unbound:
            raise ProgramError(f"keys {', '.join(sorted(unbound))} are not bound")


def _check_nodes(expr: Expr, relation: str | None, program: Program, maps: dict[str, Map]) -> None:
    for node in walk(expr):
        if isinstance(node, Rel):
            raise ProgramError(f"base relation {node.name} in a trigger")
        if isinstance(node, Delta):
            _check_delta(node, relation, program)
        if isinstance(node, MapRef):
            _check_reference(node, maps)


def _check_delta(node: Delta, relation: str | None, program: Program) -> None:
    if relation is None:
        raise ProgramError(f"Δ{node.name} in a refresh")
    if node.name != relation:
        raise ProgramError(f"Δ{node.name} in a trigger on {relation}")
    if len(node.variables) != len(program.relation(relation).columns):
        raise ProgramError(f"Δ{node.name} with {len(node.variables)} variables")


def _check_reference(node: MapRef, maps: dict[str, Map]) -> None:
    map = maps.get(node.name)
    if map is None:
        raise ProgramError(f"unknown map {node.name}")
    if len(node.keys) != len(map.keys):
        raise ProgramError(f"{map.name} has {len(map.keys)} keys, not {len(node.keys)}")
    if node.buffer != map.buffer:
        raise ProgramError(f"{map.name} is {'a' if map.buffer else 'no'} buffer")
    if node.column != PRESENCE and node.column not in {c.name for c in map.columns}:
        raise ProgramError(f"{map.name} has no column {node.column}")


def _at(statement: Statement, event: Trigger | Refresh, message: str) -> ProgramError:
    if isinstance(event, Refresh):
        where = f"refresh of {event.view}"
    else:
        where = f"trigger on {event.relation}"
    return ProgramError(f"{message}\nin the {where}:\n{statement_text(statement)}")
