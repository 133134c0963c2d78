"""Programs as text, and back.

relation r(a: INTEGER not null, b: VARCHAR) key (a) static
map m[a: int, b: str?](count: int, total: float)
  count := Sum[a, b](r(a, b))
buffer d[a: int](count: int)
buffer e[a: int, b: str?](count: int, total: float) of m
on r:
  d[a] += Δr(a, b)
  m[a, b] += Δr(a, b) * {a < 3} | count: 1, total: a
on read v:
  w[a] := m[a, b].* | count: m[a, b].count
view v[a, b] : group
  ...                          as in calculus.query_text
  count from m.count
"""

from __future__ import annotations

from collections.abc import Set

from viewlet.calculus.expr import ONE, Binder, Expr, MapRef, Nested, factors_of, walk
from viewlet.calculus.query import Plan
from viewlet.calculus.query_text import QueryParser, definition_text, query_text, relation_text
from viewlet.calculus.text import VALUE_COLUMN, to_lines, to_text
from viewlet.calculus.typing import Slot
from viewlet.program.ir import (
    KeyColumn,
    Map,
    Program,
    Refresh,
    Statement,
    Trigger,
    ValueColumn,
    View,
)
from viewlet.schema import Physical, Relation


def program_text(program: Program) -> str:
    """A program as text that parses back."""
    blocks = ["\n".join(relation_text(r) for r in program.relations)]
    blocks.append("\n".join(map_text(m) for m in program.maps))
    asked = {m for v in program.views if v.query.plan is Plan.REEVALUATED for _, m, _ in v.sources}
    blocks += [trigger_text(t, asked) for t in program.triggers]
    blocks += [refresh_text(r) for r in program.refreshes]
    blocks += [view_text(v) for v in program.views]
    return "\n\n".join(block for block in blocks if block) + "\n"


def map_text(map: Map) -> str:
    """map m[k: int](count: int), with the definition of each column below."""
    keys = ", ".join(f"{key.name}: {key.slot}" for key in map.keys)
    columns = ", ".join(f"{column.name}: {column.physical.value}" for column in map.columns)
    of = f" of {map.change_of}" if map.change_of is not None else ""
    lines = [f"{'buffer' if map.buffer else 'map'} {map.name}[{keys}]({columns}){of}"]
    lines += [
        definition_text(column.name, column.definition)
        for column in map.columns
        if column.definition is not None
    ]
    return "\n".join(lines)


def trigger_text(trigger: Trigger, asked: Set[str] = frozenset()) -> str:
    """The statements in order, with a remark wherever a map is computed anew.

    Of the maps that are `asked` for that is what their view's plan says.
    """
    lines = [f"on {trigger.relation}:"]
    written: set[str] = set()
    for statement in trigger.statements:
        if statement.op == ":=":
            is_asked = statement.target in asked
            reason = _AS_ASKED if is_asked else why_recomputed(statement, written)
            lines.append(f"  # recomputed: {reason}")
        lines.append(statement_text(statement))
        written.add(statement.target)
    return "\n".join(lines)


_AS_ASKED = f"plan = '{Plan.REEVALUATED.value}'"


def refresh_text(refresh: Refresh) -> str:
    """on read v: and the statements in order."""
    return "\n".join([f"on read {refresh.view}:", *map(statement_text, refresh.statements)])


def why_recomputed(statement: Statement, written: set[str]) -> str:
    """The reason for := instead of +=, from what the trigger has written before the statement."""
    values = [
        factor.variable if isinstance(factor, Binder) else "an EXISTS"
        for factor in factors_of(statement.loop)
        if isinstance(factor, Nested)
        and any(isinstance(node, MapRef) and node.name in written for node in walk(factor))
    ]
    if values:
        names = ", ".join(dict.fromkeys(values))
        return f"no equality ties {names} to the rows that changed"
    sources = ", ".join(sorted(statement.reads & written))
    return f"it is made from {sources}, which is recomputed"


def statement_text(statement: Statement) -> str:
    """m[k] += loop | column: value"""
    head = f"  {statement.target}[{', '.join(statement.keys)}] {statement.op} "
    updates = ""
    if statement.updates != ((VALUE_COLUMN, ONE),):
        updates = " | " + ", ".join(f"{name}: {to_text(e)}" for name, e in statement.updates)
    line = head + to_text(statement.loop) + updates
    if len(line) <= 100:
        return line
    return f"{head.rstrip()}\n{to_lines(statement.loop, 6)}" + (
        f"\n    {updates.strip()}" if updates else ""
    )


def view_text(view: View) -> str:
    """A view's query, and the map and column of each component."""
    sources = "\n".join(f"  {name} from {map}.{column}" for name, map, column in view.sources)
    return f"{query_text(view.query)}\n{sources}"


# --- parsing --------------------------------------------------------------------------------------


class ProgramParser(QueryParser):
    """Reads what `program_text` writes."""

    def program(self) -> Program:
        """A whole program, as program_text prints it."""
        relations: list[Relation] = []
        maps: list[Map] = []
        triggers: list[Trigger] = []
        refreshes: list[Refresh] = []
        views: list[View] = []
        while self.next.kind != "end":
            if self.accept("on"):
                if self.peek("read") and not self.peek(":", 1):
                    refreshes.append(self.refresh())
                else:
                    triggers.append(self.trigger())
            elif not self.declaration(relations, maps, views):
                raise self.error("expected relation, map, buffer, on or view")
        return Program(
            tuple(relations), tuple(maps), tuple(triggers), tuple(views), tuple(refreshes)
        )

    def declaration(self, relations: list[Relation], maps: list[Map], views: list[View]) -> bool:
        """Read a relation, a map, a buffer or a view if one is next, and say whether it was."""
        if self.peek("relation"):
            relations.append(self.relation())
        elif self.peek("map") or self.peek("buffer"):
            maps.append(self.map())
        elif self.peek("view"):
            views.append(self.view())
        else:
            return False
        return True

    def view(self) -> View:
        """A query, and from which map's column each of its components is read."""
        query = self.query()
        sources = []
        while self.next.kind == "name" and self.peek("from", 1):
            component = self.name()
            self.expect("from")
            map = self.name()
            self.expect(".")
            sources.append((component, map, self.name()))
        return View(query, tuple(sources))

    def map(self) -> Map:
        """map|buffer NAME[KEY, ...](COLUMN, ...), and the definitions of its columns."""
        buffer = self.name() == "buffer"
        name = self.name()
        if buffer:
            self.buffers.add(name)
        self.expect("[")
        keys = tuple(self.separated(self.key, "]"))
        self.expect("(")
        columns = self.separated(self.value_column, ")")
        change_of = self.name() if buffer and self.accept("of") else None
        definitions = self.definitions()
        return Map(
            name,
            keys,
            tuple(ValueColumn(c.name, c.physical, definitions.get(c.name)) for c in columns),
            buffer,
            change_of,
        )

    def key(self) -> KeyColumn:
        """NAME: int|float|string, with a ? if it may be NULL"""
        name = self.name()
        self.expect(":")
        physical = self.physical()
        return KeyColumn(name, Slot(physical, nullable=self.accept("?")))

    def value_column(self) -> ValueColumn:
        """NAME: int|float"""
        name = self.name()
        self.expect(":")
        return ValueColumn(name, self.physical())

    def physical(self) -> Physical:
        """int, float or string"""
        name = self.name()
        try:
            return Physical(name)
        except ValueError:
            raise self.error(f"unknown representation {name}") from None

    def trigger(self) -> Trigger:
        """RELATION: and then its statements"""
        relation = self.name()
        return Trigger(relation, self.statements())

    def refresh(self) -> Refresh:
        """read VIEW: and then its statements"""
        self.expect("read")
        view = self.name()
        return Refresh(view, self.statements())

    def statements(self) -> tuple[Statement, ...]:
        """: and statements in order"""
        self.expect(":")
        statements = []
        while self.next.kind == "name" and self.peek("[", 1):
            statements.append(self.statement())
        return tuple(statements)

    def statement(self) -> Statement:
        """TARGET[KEYS] += LOOP | COLUMN: EXPR, ...; or the same with :="""
        target = self.name()
        self.expect("[")
        keys = self.names("]")
        op = self.next.text
        if op not in ("+=", ":="):
            raise self.error("expected += or :=")
        self.at += 1
        loop = self.expr()
        updates: list[tuple[str, Expr]] = []
        if self.accept("|"):
            updates.append(self.update())
            while self.accept(","):
                updates.append(self.update())
        return Statement(target, keys, op, loop, tuple(updates) or ((VALUE_COLUMN, ONE),))

    def update(self) -> tuple[str, Expr]:
        """COLUMN: EXPR"""
        name = self.name()
        self.expect(":")
        return name, self.expr()


def parse_program(text: str) -> Program:
    """The text of a program -> the program."""
    return ProgramParser(text).program()
