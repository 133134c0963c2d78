"""Queries as text, and back.

view v[a] : group plan tree
  inner j[a, b] := r(a, b) * s(b)
  count := Sum[a](r(a, b))
  let (x := Sum[](s(c)))
  having count > x
  select a : INTEGER not null := a
  sort INTEGER not null := count
  order by 1 desc nulls first
  limit 10 offset 5
"""

from __future__ import annotations

from dataclasses import replace

from viewlet.calculus.expr import Expr, NestedValue
from viewlet.calculus.query import InnerView, OrderItem, OutputColumn, Plan, Query, ViewKind
from viewlet.calculus.text import Parser, to_lines, to_text
from viewlet.functions import ScalarExpr, format_constant, format_scalar
from viewlet.schema import DECIMAL, Column, Kind, Relation, Type


def query_text(query: Query) -> str:
    """The definition as `explain --stage calculus` prints it."""
    plan = f" plan {query.plan.value}" if query.plan is not None else ""
    group = f" by ({', '.join(query.group)})" if query.group is not None else ""
    lines = [f"view {query.name}[{', '.join(query.keys)}] : {query.kind.value}{group}{plan}"]
    for view in query.inner:
        lines.append(definition_text(f"inner {view.name}[{', '.join(view.keys)}]", view.body))
        if view.made_from is not None:
            head = f"touched {view.name} by {view.change} of {view.made_from}"
            lines.append(definition_text(head, view.touched))
        if view.recomputed:
            lines.append(f"  recomputed {view.name} {format_constant(view.recomputed)}")
    lines += [definition_text(name, component) for name, component in query.components]
    lines += [f"  let {to_text(let)}" for let in query.lets]
    if query.having is not None:
        lines.append(f"  having {format_scalar(query.having)}")
    for column in query.columns:
        null = "" if column.nullable else " not null"
        scalar = format_scalar(column.scalar)
        name = column.name if column.name.isidentifier() else format_constant(column.name)
        lines.append(f"  select {name} : {column.type}{null} := {scalar}")
    for column in query.sorts:
        null = "" if column.nullable else " not null"
        lines.append(f"  sort {column.type}{null} := {format_scalar(column.scalar)}")
    for item in query.order:
        direction = "desc" if item.descending else "asc"
        nulls = "first" if item.nulls_first else "last"
        lines.append(f"  order by {item.column + 1} {direction} nulls {nulls}")
    if query.limit is not None or query.offset:
        count = "all" if query.limit is None else query.limit
        lines.append(f"  limit {count} offset {query.offset}")
    return "\n".join(lines)


def definition_text(name: str, definition: Expr) -> str:
    """`name := expr` on one line if it fits, else with the expression below."""
    line = f"  {name} := {to_text(definition)}"
    return line if len(line) <= 100 else f"  {name} :=\n{to_lines(definition, 4)}"


def relation_text(relation: Relation) -> str:
    """relation r(a: INTEGER not null, b: DATE) key (a) static"""
    columns = ", ".join(
        f"{c.name}: {c.type}{'' if c.nullable else ' not null'}" for c in relation.columns
    )
    key = f" key ({', '.join(relation.key)})" if relation.key else ""
    flags = " stream" * relation.is_stream + " static" * relation.static
    if relation.original is not None:
        flags += f" later {relation.original}"
    return f"relation {relation.name}({columns}){key}{flags}"


class QueryParser(Parser):
    """Reads relations and views."""

    def relation(self) -> Relation:
        """relation NAME(COLUMN, ...) [key (NAME, ...)] [stream] [static] [later NAME]"""
        self.expect("relation")
        name = self.name()
        self.expect("(")
        columns = tuple(self.separated(self.column, ")"))
        key: tuple[str, ...] = ()
        if self.accept("key"):
            self.expect("(")
            key = self.names(")")
        stream = self.accept("stream")
        static = self.accept("static")
        original = self.name() if self.accept("later") else None
        return Relation(name, columns, key, stream, static, original)

    def column(self) -> Column:
        """NAME: TYPE [not null]"""
        name = self.name()
        self.expect(":")
        return Column(name, self.type(), self.nullable())

    def nullable(self) -> bool:
        """[not null]: False if it is there."""
        if self.accept("not"):
            self.expect("null")
            return False
        return True

    def type(self) -> Type:
        """INTEGER, DECIMAL(12, 2) and the other types of SQL."""
        kind = self.name()
        if kind == "DECIMAL":
            self.expect("(")
            precision = int(self.number())
            self.expect(",")
            scale = int(self.number())
            self.expect(")")
            return DECIMAL(precision, scale)
        try:
            return Type(Kind(kind))
        except ValueError:
            raise self.error(f"unknown type {kind}") from None

    def query(self) -> Query:
        """view NAME[KEYS] : KIND [by (NAMES)], then its inner views, components, lets, columns."""
        self.expect("view")
        name = self.name()
        self.expect("[")
        keys = self.names("]")
        self.expect(":")
        kind = ViewKind(self.name())
        group: tuple[str, ...] | None = None
        if not self.peek(":=", 1) and self.accept("by"):
            self.expect("(")
            group = self.names(")")
        has_plan = not self.peek(":=", 1) and self.accept("plan")
        plan = Plan(self.name()) if has_plan else None
        inner = []
        while self.next.text == "inner" and not self.peek(":=", 1):
            inner.append(self.inner_view())
        components = tuple(self.definitions().items())
        lets = []
        while self.accept("let"):
            lets.append(self.let())
        having: ScalarExpr | None = self.scalar() if self.accept("having") else None
        columns = []
        while self.accept("select"):
            columns.append(self.output_column())
        sorts = []
        while self.accept("sort"):
            sorts.append(self.value_of_column("sort"))
        order = []
        while self.accept("order"):
            order.append(self.order_item())
        limit, offset = self.limit() if self.accept("limit") else (None, 0)
        return Query(
            name,
            kind,
            keys,
            components,
            tuple(columns),
            tuple(lets),
            having,
            tuple(order),
            limit,
            offset,
            tuple(inner),
            plan,
            tuple(sorts),
            group,
        )

    def inner_view(self) -> InnerView:
        """inner NAME[KEYS] := EXPR"""
        self.expect("inner")
        name = self.name()
        self.expect("[")
        keys = self.names("]")
        self.expect(":=")
        view = InnerView(name, keys, self.expr())
        if self.next.text != "touched" or self.peek(":=", 1):
            return view
        self.expect("touched")
        self.expect(name)
        self.expect("by")
        change = self.name()
        self.expect("of")
        made_from = self.name()
        self.expect(":=")
        view = replace(view, made_from=made_from, change=change, touched=self.expr())
        if self.next.text != "recomputed" or self.peek(":=", 1):
            return view
        self.expect("recomputed")
        self.expect(name)
        return replace(view, recomputed=self.column_name())

    def definitions(self) -> dict[str, Expr]:
        """`name := expr`, as many as there are."""
        definitions: dict[str, Expr] = {}
        while self.next.kind == "name" and self.peek(":=", 1):
            name = self.name()
            self.expect(":=")
            definitions[name] = self.expr()
        return definitions

    def let(self) -> NestedValue:
        """(x := q): a lift or an extreme, and nothing else."""
        factor = self.factor()
        if not isinstance(factor, NestedValue):
            raise self.error("expected a lift")
        return factor

    def output_column(self) -> OutputColumn:
        """NAME : TYPE [not null] := SCALAR"""
        name = self.column_name()
        self.expect(":")
        return self.value_of_column(name)

    def value_of_column(self, name: str) -> OutputColumn:
        """TYPE [not null] := SCALAR"""
        type = self.type()
        nullable = self.nullable()
        self.expect(":=")
        return OutputColumn(name, type, nullable, self.scalar())

    def column_name(self) -> str:
        """Any name that SQL may give a column; odd ones are in quotes."""
        if self.next.kind == "string":
            self.at += 1
            return self.tokens[self.at - 1].text[1:-1].replace("''", "'")
        return self.name()

    def order_item(self) -> OrderItem:
        """by COLUMN asc|desc nulls first|last, columns counted from 1."""
        self.expect("by")
        column = int(self.number()) - 1
        descending = self.name() == "desc"
        self.expect("nulls")
        return OrderItem(column, descending, self.name() == "first")

    def limit(self) -> tuple[int | None, int]:
        """COUNT|all offset NUMBER"""
        count = None if self.accept("all") else int(self.number())
        self.expect("offset")
        return count, int(self.number())


def parse_query(text: str) -> Query:
    """The query that a text stands for."""
    parser = QueryParser(text)
    query = parser.query()
    if parser.next.kind != "end":
        raise parser.error("expected the end")
    return query
