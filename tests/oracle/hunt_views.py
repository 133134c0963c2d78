"""The views of a hunt: random queries over the relations and over each other, in random modes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import duckdb
from tests.oracle.generate import TYPES, Col, Generator, Rel
from tests.oracle.running_oracle import tables_of

import viewlet
from viewlet.errors import UnsupportedError
from viewlet.interfaces.database import Database

MOST_VIEWS = 6
OVER_VIEWS = 0.25
MODES = {
    "auto": "maintenance = 'auto'",
    "eager": "maintenance = 'eager'",
    "split": "maintenance = 'split', refresh = 'on read'",
    "deferred": "maintenance = 'deferred'",
    "intermittent": "maintenance = 'intermittent'",
    "tight": "maintenance = 'intermittent', memory = '64 KB'",
}
DRAWN = ("auto", "eager", "eager", "split", "split", "deferred", "deferred", "intermittent")
"""How often each mode is: an intermittent view compiles whenever it keeps other maps."""


@dataclass
class HuntView:
    """`select` is what viewlet gets, `written_out` the same without the names of other views."""

    name: str
    select: str
    written_out: str
    mode: str
    reads: tuple[str, ...] = ()

    def definition(self) -> str:
        """The statement that creates it."""
        return f"CREATE MATERIALIZED VIEW {self.name} WITH ({MODES[self.mode]}) AS {self.select}"


def draw_mode(draw: Random) -> str:
    """A name of MODES; views with a budget are few."""
    mode = draw.choice(DRAWN)
    return "tight" if mode == "intermittent" and draw.random() < 0.4 else mode


class ViewDraw:
    """Queries that both systems take; over streams too, since all views come before all rows."""

    def __init__(self, generator: Generator, draw: Random, skipped: Counter[str]) -> None:
        self._generator, self._draw, self._skipped = generator, draw, skipped

    def views(self) -> list[HuntView]:
        """Some views, those that one of the systems refuses left out."""
        views: list[HuntView] = []
        count = self._draw.randint(2, MOST_VIEWS)
        with duckdb.connect() as duck:
            self._create(duck)
            for _ in range(count):
                view = self._view(duck, views)
                if view is not None:
                    views.append(view)
        if self._refusal(views) is None:
            return views
        accepted: list[HuntView] = []
        for view in views:
            known = {other.name for other in accepted}
            refusal = self._refusal([*accepted, view]) if known.issuperset(view.reads) else None
            if refusal is None and known.issuperset(view.reads):
                accepted.append(view)
            else:
                self._skipped[str(refusal).split(":")[0]] += 1
        return accepted

    def other_query(self, view: HuntView) -> HuntView | None:
        """The view with a query of tables alone, or None where one of the systems refuses that."""
        relations = self._generator.relations
        self._generator.relations = [relation for relation in relations if not relation.stream]
        select = self._generator.query()
        self._generator.relations = relations
        other = HuntView(view.name, select, select, view.mode)
        with duckdb.connect() as duck:
            self._create(duck)
            try:
                duck.execute(select)
            except duckdb.Error:
                return None
        return other if self._refusal([other]) is None else None

    def _create(self, duck: duckdb.DuckDBPyConnection) -> None:
        for relation in self._generator.relations:
            duck.execute(relation.sql().replace("CREATE STREAM", "CREATE TABLE"))

    def _view(self, duck: duckdb.DuckDBPyConnection, views: list[HuntView]) -> HuntView | None:
        relations = self._generator.relations
        over = {}
        for view in views:
            columns = _columns(duck, view.written_out)
            if columns and self._draw.random() < OVER_VIEWS:
                over[view.name] = Rel(view.name, columns)
        self._generator.relations = [*relations, *over.values()]
        select = self._generator.query()
        self._generator.relations = relations
        reads = tuple(view.name for view in views if view.name in tables_of(select))
        written_out = select
        for view in reversed([view for view in views if view.name in reads]):
            written_out = _with(view.name, view.written_out, written_out)
        try:
            duck.execute(written_out)
        except duckdb.Error as error:
            self._skipped[str(error).split(":")[0]] += 1
            return None
        mode = draw_mode(self._draw) if self._draw.random() < 0.5 else "eager"
        return HuntView(f"v{len(views)}", select, written_out, mode, reads)

    def _refusal(self, views: list[HuntView]) -> UnsupportedError | None:
        """What is said against one of the views, if anything is."""
        with viewlet.connect(engine="interpreter") as probe:
            try:
                for relation in self._generator.relations:
                    probe.execute(relation.sql())
                create_views(probe, views)
            except UnsupportedError as error:
                return error
        return None


def create_views(db: Database, views: list[HuntView], one_by_one: bool = False) -> None:
    """Mostly in one statement, which plans and compiles once: the time goes into batches."""
    texts = [view.definition() for view in views]
    for text in texts if one_by_one else [";\n".join(texts)]:
        db.execute(text)


def _with(name: str, query: str, select: str) -> str:
    """WITH name AS (query) select"""
    if select.startswith("WITH "):
        return f"WITH {name} AS ({query}), {select.removeprefix('WITH ')}"
    return f"WITH {name} AS ({query}) {select}"


def _columns(duck: duckdb.DuckDBPyConnection, select: str) -> list[Col]:
    """Those of a query whose types the generator has, if all have names of their own."""
    described = duck.execute(f"DESCRIBE {select}").fetchall()
    names = [name for name, *_ in described]
    if len(set(names)) < len(names):
        return []
    return [Col(name, kind, True) for name, kind, *_ in described if kind in TYPES]
