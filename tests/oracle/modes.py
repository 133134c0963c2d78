"""Cases of the oracle in every maintenance mode: fixed, or another one between any two batches.

A view that is refreshed on read equals DuckDB's answer whenever it is read; one that is refreshed
by hand equals the answer at its last refresh, whatever has happened since.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

from tests.oracle.harness import Case, DuckOracle, Row, compare, is_ordered, new_database

import viewlet
from viewlet.errors import StateError, ViewletError
from viewlet.interfaces.database import Database
from viewlet.interfaces.mode_choice import Strategy

MODES = {
    "eager": "maintenance = 'eager'",
    "split": "maintenance = 'split', refresh = 'on read'",
    "deferred": "maintenance = 'deferred'",
    "manual": "maintenance = 'deferred', refresh = 'manual'",
    "rows": "maintenance = 'deferred', refresh = 'every 9 rows'",
    "auto": "maintenance = 'auto'",
    "leaves": "maintenance = 'auto'",
    "intermittent": "maintenance = 'intermittent'",
    "tight": "maintenance = 'intermittent', refresh = 'on read'",
}
"""Views in auto and leaves are moved by what measurements would say: anywhere, or to their leaves.
Those in tight may keep an amount of memory that is drawn for every choice."""
VIEW = "the_view"


class ModeRun:
    """A database with one view whose mode changes, and the answer that it must have."""

    def __init__(self, case: Case, engine: str, draw: Random, folder: Path | None = None) -> None:
        self._case = case
        self._draw = draw
        self._folder = folder
        self.database = new_database(engine)
        self._tighten()
        for text in case.tables:
            self.database.execute(text)
        self._select = case.select
        self._mode = "eager"
        self._answer: list[Row] = []
        self._subscription = None
        self._has_twin = False
        self._number = 0

    def create(self, mode: str, answer: list[Row]) -> None:
        """The view in a mode, before any row."""
        self._mode, self._answer = mode, answer
        options = MODES[mode]
        self.database.execute(f"CREATE MATERIALIZED VIEW {VIEW} WITH ({options}) AS {self._select}")
        self._choose()

    def _tighten(self) -> None:
        """Another budget at every choice: maps go and come back."""
        draw = self._draw
        self.database._maintenance.intermittent.budget = lambda _: (
            draw.choice((0, 6_000, 12_000, 40_000)) if self._mode == "tight" else None
        )

    def _choose(self) -> None:
        """As if measurements had chosen another way, for a view that leaves it to them."""
        if self._mode not in ("auto", "leaves") or self._subscription is not None:
            return
        way = self._draw.choice(list(Strategy)) if self._mode == "auto" else Strategy.LEAVES
        maintenance = self.database._maintenance
        before = maintenance.modes(self.database._state.definitions)[VIEW]
        try:
            maintenance.choose(VIEW, way.view_mode("drawn"))
        except ViewletError:
            assert _has_streams(self._case)
            maintenance.remember(VIEW, before)

    def alter(self, mode: str, now: list[Row]) -> None:
        """Another mode: the view is current when that begins."""
        try:
            self.database.execute(f"ALTER MATERIALIZED VIEW {VIEW} SET ({MODES[mode]})")
        except StateError:
            assert _has_streams(self._case)  # whose rows may not be in the maps of another mode
            return
        self._mode, self._answer = mode, now
        self._choose()

    def disturb(self, now: list[Row]) -> None:
        """Something that must change no answer."""
        event = self._draw.randrange(9)
        if event == 0:
            self.alter(self._draw.choice(list(MODES)), now)
        elif event == 1:
            self.database.execute(f"REFRESH MATERIALIZED VIEW {VIEW}")
            self._answer = now
        elif event == 2:
            self._toggle_subscriber(now)
        elif event == 3:
            self._toggle_twin()
        elif event == 5:
            self._choose()
        elif event == 6:
            relation = self._draw.choice(self._case.relations())
            self.database.expect(relation.name, rows=self._draw.choice((0, 3, 500)))
        elif event == 4 and self._folder is not None and self._subscription is None:
            self._restart()

    def _toggle_subscriber(self, now: list[Row]) -> None:
        if self._subscription is None:
            try:
                self._subscription = self.database.subscribe(VIEW, lambda _: None)
            except StateError:
                assert _has_streams(self._case)
                return
        else:
            self._subscription.close()
            self._subscription = None
        self._answer = now  # whoever is heard of is eager

    def _toggle_twin(self) -> None:
        """Another view of the same rows, whose maps are shared as far as they can be."""
        if self._has_twin:
            self.database.execute("DROP VIEW the_twin")
        else:
            options = MODES[self._draw.choice(["eager", "split", "deferred"])]
            self.database.execute(
                f"CREATE MATERIALIZED VIEW the_twin WITH ({options}) AS {self._select}"
            )
        self._has_twin = not self._has_twin

    def _restart(self) -> None:
        assert self._folder is not None
        self._number += 1
        saved = str(self._folder / f"saved-{self._number}")
        self.database.checkpoint(saved)
        self.database.close()
        self.database = viewlet.restore(saved)
        self._tighten()

    def check(self, now: list[Row], number: int) -> None:
        """Read the view, or not: what is not read is behind for longer."""
        is_manual = self._mode == "manual" and self._subscription is None
        if not is_manual:
            self._answer = now
        if self._draw.random() < 0.6 or is_manual:
            if self._mode == "rows":
                self.database.refresh(VIEW)
            ordered = is_ordered(self._select)
            rows = self.database.view(VIEW).rows()
            compare(rows, self._answer, self._case, number, ordered)
        if self._has_twin and self._draw.random() < 0.4 and not _has_streams(self._case):
            compare(self.database.view("the_twin").rows(), now, self._case, number)

    def close(self) -> None:
        self.database.close()


def _has_streams(case: Case) -> bool:
    """A view over a stream sees no rows that came before it."""
    return any(relation.is_stream for relation in case.relations())


def run_in_mode(case: Case, engine: str, mode: str) -> None:
    """The case as it is, in one mode."""
    with closing(DuckOracle(case.relations())) as oracle, ExitStack() as opened:
        run = opened.enter_context(closing(ModeRun(case, engine, Random(1))))
        for number, batch in enumerate([[], *case.batches]):
            oracle.apply(batch)
            now = oracle.answer(case.select)
            if number:
                _apply(run.database, batch)
            else:
                run.create(mode, now)
            run.check(now, number)


def run_switching(case: Case, engine: str, seed: int, folder: Path | None = None) -> None:
    """The case with other modes, subscribers, twins and restarts between its batches."""
    draw = Random(seed)
    with closing(DuckOracle(case.relations())) as oracle, ExitStack() as opened:
        run = opened.enter_context(closing(ModeRun(case, engine, draw, folder)))
        for number, batch in enumerate([[], *case.batches]):
            oracle.apply(batch)
            now = oracle.answer(case.select)
            if number:
                _apply(run.database, batch)
            else:
                run.create(draw.choice(list(MODES)), now)
            run.check(now, number)
            run.disturb(now)


def _apply(database: Database, batch: list) -> None:
    if len(batch) == 1:
        ((name, row, weight),) = batch
        if weight in (1, -1):
            (database.insert if weight == 1 else database.delete)(name, row)
            return
    database.apply(viewlet.Change(name, [row], weight) for name, row, weight in batch)
