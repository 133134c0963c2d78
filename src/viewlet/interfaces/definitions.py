"""What a database has been told to keep: relations, views, and which rows of a stream a view sees.

A view over a stream sees the rows that arrive after the view was made, yet views share their
auxiliary maps. Both hold because programs know a stream as several relations, one for each epoch:

    epoch 0    every view made before the first row of s     called s
    epoch 1    views made after those rows, and so on        called s@1, or what is free

Each row of s is fed to all of its epochs in use. Views made at different times read different
relations, so nothing of them is shared by mistake; views made together share everything.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from viewlet.calculus.expr import Expr, Rel, relations, transform
from viewlet.calculus.query import Query, expressions, with_expressions
from viewlet.errors import Position, ResolutionError, UnsupportedError, ViewletError
from viewlet.frontend.constraints import Constraint, ForeignKey, UniqueKey
from viewlet.frontend.lower import lower_view
from viewlet.frontend.maintenance_options import (
    NO_OPTIONS,
    AlterView,
    Complete,
    MaintenanceOptions,
    with_options,
)
from viewlet.frontend.read_constraints import target_of
from viewlet.frontend.statements import CreateRelation, CreateView, Drop
from viewlet.frontend.temporal_filters import ValidRows, with_valid_rows
from viewlet.frontend.view_text import reads_table
from viewlet.interfaces.arguments import name_of
from viewlet.names import FreshNames
from viewlet.schema import BOOLEAN, TIMESTAMP, Catalog, Column, Relation, folded_name

CLOCK = Relation("now@clock", (Column("now", TIMESTAMP, False), Column("is_set", BOOLEAN, False)))
"""Where a database keeps its time, with the rows that depend on it: one row."""


@dataclass(frozen=True)
class ViewDefinition:
    """A view with its query over the epochs of streams, and the views that its text names."""

    statement: CreateView
    query: Query
    depends: frozenset[str]
    options: MaintenanceOptions = NO_OPTIONS
    valid_rows: tuple[ValidRows, ...] = ()
    """What it reads instead of tables and streams whose rows it compares with NOW()."""

    @cached_property
    def reads(self) -> frozenset[str]:
        """The relations, by epoch, that the view's rows come from."""
        return query_relations(self.query)


@dataclass
class Definitions:
    """Statements change a copy, which replaces the original once the engine has accepted it."""

    relations: dict[str, CreateRelation] = field(default_factory=dict)
    views: dict[str, ViewDefinition] = field(default_factory=dict)
    epochs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What programs call each epoch of a relation, in order: a new view reads the last. A table
    has one."""
    complete: frozenset[str] = frozenset()
    """The relations of which no more rows will come."""

    def copy(self) -> Definitions:
        """The same definitions, for a statement to change before it is known to succeed."""
        return Definitions(dict(self.relations), dict(self.views), dict(self.epochs), self.complete)

    # What is there.

    def relation(self, name: str) -> Relation:
        """A table or stream, or an error that names those that there are."""
        name = name_of(name, "table or stream")
        if name not in self.relations:
            raise unknown("table or stream", name, self.relations)
        return self.relations[name].relation

    def view(self, name: str) -> ViewDefinition:
        """The definition of a view, or an error that names those that there are."""
        name = name_of(name, "view")
        if name not in self.views:
            raise unknown("view", name, self.views)
        return self.views[name]

    def tables(self) -> list[Relation]:
        """The relations whose rows are kept."""
        relations = [statement.relation for statement in self.relations.values()]
        return [relation for relation in relations if not relation.is_stream]

    def valid_rows(self) -> dict[str, ValidRows]:
        """The relations of rows that are valid now, by what programs call them."""
        return {
            valid.relation.name: valid
            for definition in self.views.values()
            for valid in definition.valid_rows
        }

    def internal(self) -> list[Relation]:
        """The tables that the database keeps for itself: valid rows, and those that wait."""
        tables = []
        for valid in self.valid_rows().values():
            tables.append(valid.relation)
            if valid.waiting is not None:
                tables.append(valid.waiting)
        return [*tables, CLOCK] if tables else []

    def stored_tables(self) -> list[Relation]:
        """All relations whose rows an engine keeps."""
        return [*self.tables(), *self.internal()]

    def recorded(self, name: str) -> Relation:
        """A relation of a log, those that the database keeps for itself among them."""
        internal = {relation.name: relation for relation in self.internal()}
        return internal.get(name) or self.relation(name)

    def users_of(self, relation: str) -> list[str]:
        """The views whose rows come from a relation."""
        valid = {name for name, rows in self.valid_rows().items() if rows.source == relation}
        names = {*self.instances(relation), *valid}
        return [view for view, definition in self.views.items() if definition.reads & names]

    def instances(self, relation: str) -> list[str]:
        """The epochs of a relation that views read, by what programs call them."""
        used = frozenset[str]().union(*(view.reads for view in self.views.values()))
        return [name for name in self.epochs_of(relation) if name in used]

    def epochs_of(self, relation: str) -> tuple[str, ...]:
        """What programs call each epoch of a relation, in order."""
        return self.epochs.get(relation, (relation,))

    def ended(self) -> dict[str, str]:
        """The epochs that are over, each with its stream: rows have come, and were not kept."""
        return {name: stream for stream, names in self.epochs.items() for name in names[:-1]}

    def epochs_read(self, view: str) -> dict[str, int]:
        """The number of the epoch that a view reads of each relation."""
        return {
            relation: number
            for relation, names in self.epochs.items()
            for number, name in enumerate(names)
            if name in self.views[view].reads
        }

    def overview(self) -> Iterator[tuple[str, str, str]]:
        """Kind, name and columns of everything."""
        for name, declaration in self.relations.items():
            relation = declaration.relation
            kind = (
                "stream" if relation.is_stream else "static table" if relation.static else "table"
            )
            yield kind, name, ", ".join(f"{c.name} {c.type}" for c in relation.columns)
        for name, view in self.views.items():
            yield "view", name, ", ".join(f"{c.name} {c.type}" for c in view.query.columns)

    def catalog(self) -> Catalog:
        """The tables and streams as the frontend looks them up."""
        return Catalog({name: declaration.relation for name, declaration in self.relations.items()})

    def planning_catalog(self) -> Catalog:
        """The relations as programs know them: a stream for each of its epochs."""
        catalog = Catalog()
        for name, declaration in self.relations.items():
            for instance in self.instances(name):
                catalog.add(replace(declaration.relation, name=instance))
        for relation in self.internal():
            if self.instances(relation.name):
                catalog.add(relation)
        return catalog

    def queries(self) -> list[Query]:
        """The views' queries, in the order in which they were created."""
        return [definition.query for definition in self.views.values()]

    # Changes.

    def add_relation(self, statement: CreateRelation) -> bool:
        """False if it was there already and the statement says IF NOT EXISTS."""
        name = statement.relation.name
        if name in self.relations and statement.if_not_exists:
            return False
        if name in self.relations and statement.replace:
            self._reject_users(name, self.users_of(name), "replaced")
            self._reject_referring(name, "replaced")
        else:
            self._check_free(name, statement)
        self.relations[name] = self.with_targets(statement)
        self.epochs[name] = (name,)
        self.complete -= {name}
        return True

    def add_view(self, statement: CreateView, epochs: Mapping[str, int] | None = None) -> None:
        """Lower the view and fix its epochs: those given, those of views it reads, or the newest.

        A view that reads a stream through other views sees the rows that they see.
        """
        name = statement.name
        if name in self.views and statement.if_not_exists:
            return
        if name in self.views and statement.replace:
            if self._dependents(name):
                self.replace_view(statement, statement.maintenance)
                return
            del self.views[name]
        self._check_free(name, statement)
        self.views[name] = self.definition(statement, self.views, statement.maintenance, epochs)

    def definition(
        self,
        statement: CreateView,
        views: Mapping[str, ViewDefinition],
        options: MaintenanceOptions,
        epochs: Mapping[str, int] | None = None,
    ) -> ViewDefinition:
        """A view that may read these other views, with its epochs; nothing is added."""
        texts = _Lookups({view: definition.statement for view, definition in views.items()})
        catalog = self.catalog()
        timed, valid_rows = with_valid_rows(statement, catalog)
        known = [valid for view in views.values() for valid in view.valid_rows]
        for valid in (*known, *valid_rows):
            catalog.relations[valid.relation.name] = valid.relation
        query = lower_view(timed, catalog, texts)
        numbers = {relation: len(names) - 1 for relation, names in self.epochs.items()}
        for view in sorted(texts.relations):
            numbers |= self.epochs_read(view)
        numbers |= epochs or {}
        chosen = {relation: self.epochs[relation][number] for relation, number in numbers.items()}
        if statement.strict:
            self._reject_recomputations(catalog, statement, query)
        for view in texts.relations:
            valid_rows += views[view].valid_rows
        return ViewDefinition(
            timed, with_relations(query, chosen), frozenset(texts.relations), options, valid_rows
        )

    def replace_view(
        self, statement: CreateView, options: MaintenanceOptions | None = None
    ) -> list[str]:
        """Another query for a view, which sees of streams what it saw; the views that change.

        Views that read it follow, and keep their columns.
        """
        name = statement.name
        if name not in self.views:
            raise unknown("view", name, self.views, statement.position)
        old, behind = self.views[name], self._behind(name)
        before = {view: d for view, d in self.views.items() if view not in behind}
        del before[name]
        circle = next((view for view in behind if reads_table(statement, view)), None)
        if circle is not None:
            raise ResolutionError(
                f"{name} cannot read {circle}, which reads {name}",
                position=statement.position,
                hint="read what both are made of",
            )
        made = self.definition(
            statement, before, old.options if options is None else options, self.epochs_read(name)
        )
        after = {**before, name: made}
        for view in behind:
            after[view] = self._following(view, name, after, statement)
        self.views = after
        return [name, *behind]

    def _following(
        self, view: str, changed: str, views: Mapping[str, ViewDefinition], statement: CreateView
    ) -> ViewDefinition:
        """A view after one that it reads got another query."""
        old, why = self.views[view], "its columns would be others"
        try:
            made = self.definition(old.statement, views, old.options, self.epochs_read(view))
        except ViewletError as error:
            why = error.message
        else:
            columns = [
                [(column.name, column.type) for column in query.columns]
                for query in (old.query, made.query)
            ]
            if columns[0] == columns[1]:
                return made
        raise UnsupportedError(
            f"{changed} cannot be changed so while {view} reads it: {why}",
            position=statement.position,
            hint=f"keep the columns of {changed} that {view} reads, or first drop {view}",
        )

    def alter_view(self, statement: AlterView) -> None:
        """Other options for a view. Those that are not named stay, unless the mode is another."""
        if statement.name not in self.views:
            raise unknown("view", statement.name, self.views, statement.position)
        old = self.views[statement.name]
        is_new_mode = any(option.name == "maintenance" for option in statement.options)
        base = NO_OPTIONS if is_new_mode else old.options
        options = with_options(base, statement.options)
        self.views[statement.name] = replace(old, options=options)

    def drop(self, statement: Drop) -> bool:
        """False if it was not there and the statement says IF EXISTS."""
        name = statement.name
        if statement.kind == "view":
            if name not in self.views:
                if statement.if_exists:
                    return False
                raise unknown("view", name, self.views, statement.position)
            self._reject_users(name, self._dependents(name), "dropped")
            del self.views[name]
            return True
        if name not in self.relations:
            if statement.if_exists:
                return False
            raise unknown(statement.kind, name, self.relations, statement.position)
        is_stream = self.relation(name).is_stream
        if is_stream != (statement.kind == "stream"):
            kind = "stream" if is_stream else "table"
            raise ResolutionError(
                f"{name} is a {kind}",
                position=statement.position,
                hint=f"write DROP {kind.upper()}",
            )
        self._reject_users(name, self.users_of(name), "dropped")
        self._reject_referring(name, "dropped")
        del self.relations[name], self.epochs[name]
        self.complete -= {name}
        return True

    def end_changes(self, statement: Complete) -> None:
        """No more rows of a relation will come."""
        name = statement.name
        if name not in self.relations:
            raise unknown("table or stream", name, self.relations, statement.position)
        is_stream = self.relations[name].relation.is_stream
        if is_stream != (statement.kind == "STREAM"):
            kind = "STREAM" if is_stream else "TABLE"
            raise ResolutionError(
                f"{name} is a {kind.lower()}",
                position=statement.position,
                hint=f"write ALTER {kind} {name} COMPLETE",
            )
        self.complete |= {name}

    def saw_rows(self, streams: Iterable[str]) -> None:
        """From now on new views of these streams belong to a later epoch."""
        for stream in streams:
            names = self.epochs[stream]
            if names[-1] in self.instances(stream):
                used = FreshNames((*self.relations, *self.views, *self._epoch_names()))
                self.epochs[stream] = (*names, used.fresh(f"{stream}@{len(names)}"))

    def _reject_recomputations(self, catalog: Catalog, statement: CreateView, query: Query) -> None:
        """WITH (strict = true)"""
        from viewlet.planner.viewlets import recomputations

        reasons = recomputations(catalog, query)
        if reasons:
            raise UnsupportedError(
                f"view {statement.name} is strict and would recompute {reasons[0]}",
                position=statement.position,
                hint="leave strict = true out, or compute this in a view of its own",
            )

    def _epoch_names(self) -> set[str]:
        return {name for names in self.epochs.values() for name in names}

    def _dependents(self, view: str) -> list[str]:
        return [name for name, definition in self.views.items() if view in definition.depends]

    def _behind(self, view: str) -> list[str]:
        """The views that read a view, or read one that does, each after those that it reads."""
        behind: list[str] = []
        for name, definition in self.views.items():
            if not definition.depends.isdisjoint((view, *behind)):
                behind.append(name)
        return behind

    def referring(self, table: str) -> list[str]:
        """The other tables that have foreign keys to a table."""
        return [
            name
            for name, statement in self.relations.items()
            if name != table
            and any(isinstance(c, ForeignKey) and c.table == table for c in statement.constraints)
        ]

    def _reject_referring(self, table: str, verb: str) -> None:
        referring = self.referring(table)
        if referring:
            shown = ", ".join(referring)
            raise UnsupportedError(
                f"{table} cannot be {verb} while foreign keys refer to it: those of {shown}",
                hint=f"first drop {shown}",
            )

    def with_targets(self, statement: CreateRelation) -> CreateRelation:
        """Its foreign keys with the columns that they refer to."""
        own = statement.relation
        constraints: list[Constraint] = []
        for constraint in statement.constraints:
            if isinstance(constraint, ForeignKey):
                target = statement if constraint.table == own.name else None
                target = target or self.relations.get(constraint.table)
                if target is None:
                    tables = [own.name, *(table.name for table in self.tables())]
                    raise unknown("table", constraint.table, tables, constraint.position)
                unique = [c for c in target.constraints if isinstance(c, UniqueKey)]
                constraint = target_of(constraint, own, target.relation, unique)
            constraints.append(constraint)
        return replace(statement, constraints=tuple(constraints))

    def _check_free(self, name: str, statement: CreateRelation | CreateView) -> None:
        names = {*self.relations, *self.views, *self._epoch_names()}
        taken = next((n for n in names if folded_name(n) == folded_name(name)), None)
        if taken is not None:
            kind = "view" if taken in self.views else "relation"
            raise ResolutionError(
                f"{kind} {taken} already exists",
                position=statement.position,
                hint="choose another name, drop it first, or write IF NOT EXISTS",
            )

    def _reject_users(self, name: str, users: Sequence[str], verb: str) -> None:
        if users:
            shown = ", ".join(users)
            raise UnsupportedError(
                f"{name} cannot be {verb} while views use it: {shown}", hint=f"first drop {shown}"
            )


class _Lookups(Mapping[str, CreateView]):
    """Remembers which views the frontend looked up."""

    def __init__(self, views: Mapping[str, CreateView]) -> None:
        self._views = views
        self.relations: set[str] = set()

    def __getitem__(self, name: str) -> CreateView:
        view = self._views[name]
        self.relations.add(name)
        return view

    def __contains__(self, name: object) -> bool:
        return name in self._views

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


def query_relations(query: Query) -> frozenset[str]:
    """The relations that a view reads, those of its nested queries included."""
    return frozenset[str]().union(*(relations(expr) for expr in expressions(query)))


def with_relations(query: Query, names: Mapping[str, str]) -> Query:
    """R(x) -> names[R](x) everywhere in the query."""
    if all(names.get(name, name) == name for name in query_relations(query)):
        return query

    def rename(node: Expr) -> Expr:
        return (
            Rel(names.get(node.name, node.name), node.variables) if isinstance(node, Rel) else node
        )

    return with_expressions(query, lambda expr: transform(expr, rename))


def unknown(
    kind: str, name: str, candidates: Iterable[str], position: Position | None = None
) -> ResolutionError:
    """No such name: the error, with the name that was probably meant or those that there are."""
    names = sorted(candidates)
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]}?" if close else None
    if hint is None:
        hint = f"there are: {', '.join(names)}" if names else f"create the {kind} first"
    return ResolutionError(f"there is no {kind} {name}", position=position, hint=hint)
