"""The demo's loop: changes in, views refreshed, figures shown, and a rival asked now and then."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live

from viewlet.engine.contract import MapSize
from viewlet.errors import ViewletError
from viewlet.extras import require
from viewlet.interfaces.connect import connect
from viewlet.interfaces.database import Database
from viewlet.interfaces.dml import Change
from viewlet.interfaces.stopping import stopping
from viewlet_bench.demo.market import SCHEMA, Market, MarketDelta
from viewlet_bench.demo.rivals import DuckDB, RivalResult, SparkSQL, equal
from viewlet_bench.demo.screen import Figures, console, screen, summary
from viewlet_bench.demo.shown_views import VIEWS, Shown


@dataclass(frozen=True)
class DemoPace:
    """New orders (each of one to seven lines) and bids in a batch, and the history before it."""

    orders: int
    bids: int
    opening: int
    """How many batches are there before the clock starts."""
    opening_scale: int
    """How many times larger those are."""


PACES = {"spark": DemoPace(2_500, 1_500, 4, 10)}
LOCAL = DemoPace(250, 300, 40, 10)
"""Spark takes a tenth of a second for a batch of any size, so its batches are larger."""

BATCHES_PER_SECOND = 10.0
SHOWN_PER_SECOND = 4.0
RECOMPUTE_SECONDS = 1.5
RIVAL_SHARE = 1 / 3
"""At most this part of the time goes to the rival, however slow it is."""
PLAIN_SECONDS = 15.0
WEIGH_SECONDS = 5.0


class Rival(Protocol):
    """Who recomputes the views over the same rows."""

    name: str

    def take(self, changes: list[MarketDelta]) -> None: ...

    def recompute(self, view: Shown) -> RivalResult: ...

    def close(self) -> None: ...


def demo(engine: str = "spark", seconds: float = 60.0, seed: int = 7) -> Figures:
    """Run the demo and print it; the figures of the whole run."""
    if engine == "spark":
        require("pyspark", "viewlet demo", "say --engine local")
    out = console()
    with ExitStack() as opened:
        meanwhile = opened.enter_context(ExitStack())
        is_slow = engine == "spark" and out.is_terminal
        say = meanwhile.enter_context(locally(out, seed) if is_slow else _busy(out))
        say(f"starting the {engine} engine")
        database, rival = _open(engine, opened)
        show = Demo(database, rival, Market(seed), engine, out, PACES.get(engine, LOCAL))
        # Only now: a SparkContext takes SIGINT for itself when it is made.
        with stopping() as stop:
            try:
                with meanwhile:
                    show.prepare(say, stop.is_set)
                show.run(seconds, stop.is_set)
            except Exception:
                if not stop.is_set():
                    raise
                opened.pop_all()  # a signal to all processes has ended Spark's too
                out.print("stopped")
        if show.figures.batches:
            out.print(summary(show.figures))
        return show.figures


def _open(engine: str, opened: ExitStack) -> tuple[Database, Rival]:
    if engine != "spark":
        database = opened.enter_context(closing(connect(engine)))
        return database, opened.enter_context(closing(DuckDB()))
    from viewlet.engine.partitions.session import spark_session

    session = spark_session()
    opened.callback(session.stop)
    session.sparkContext.setLogLevel("ERROR")  # its warnings would tear the live tables apart
    database = opened.enter_context(closing(connect("spark", spark=session)))
    return database, opened.enter_context(closing(SparkSQL(session)))


@contextmanager
def _busy(out: Console) -> Iterator[Callable[[str], None]]:
    """What to call with the work at hand: a spinner on a terminal, a line each elsewhere."""
    if not out.is_terminal:
        yield out.print
        return
    with out.status("") as status:
        yield status.update


@contextmanager
def locally(out: Console, seed: int) -> Iterator[Callable[[str], None]]:
    """What to call with the work at hand, while the local engine shows the same views.

    Spark takes half a minute until its first numbers; those of the local engine are there at once.
    """
    over = threading.Event()
    show = Demo(connect("local"), DuckDB(), Market(seed), "local", out, LOCAL)

    def tell(text: str) -> None:
        show.note = f"{text}; until then the local engine"

    def run() -> None:
        with closing(show._database), closing(show._rival):
            with _busy(out) as say:
                show.prepare(say, over.is_set)
            show.run(math.inf, over.is_set)

    thread = threading.Thread(target=run, name="viewlet-demo-local")
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()


class Demo:
    """One database, one rival that gets the same rows, and the figures of both."""

    def __init__(
        self,
        database: Database,
        rival: Rival,
        market: Market,
        engine: str,
        out: Console,
        pace: DemoPace,
    ) -> None:
        self._pace = pace
        self._database = database
        self._rival = rival
        self._market = market
        self._out = out
        self._pending: list[MarketDelta] = []
        self._turn = 0
        self._weighed = float("-inf")
        self.figures = Figures(engine, rival.name)
        self.note = ""
        """A line above the tables; with one, the screen is gone in the end."""

    def prepare(self, say: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        """Views first, so that streams lose nothing; then customers and a history of orders.

        The clock starts after all this: the first batches compile, and warm the workers up.
        """
        self._database.execute(SCHEMA)
        self._database.execute(";".join(view.statement for view in VIEWS))
        pace, scale = self._pace, self._pace.opening_scale
        say("compiling four views into native code (kept for the next start)")
        self.figures.loaded += self._apply(self._market.opening())
        self.figures.loaded += self._apply(self._market.tick(pace.orders, pace.bids))
        for number in range(pace.opening):
            if stopped():
                return
            say(f"loading a history: part {number + 1} of {pace.opening}")
            changes = self._market.tick(scale * pace.orders, scale * pace.bids)
            self.figures.loaded += self._apply(changes)
        self._measure()

    def run(self, seconds: float, stopped: Callable[[], bool]) -> None:
        """Apply batches and show the views, until the time is over or someone stops it."""
        start = time.monotonic()
        shown = plain = float("-inf")
        compare_at = start + RECOMPUTE_SECONDS
        live = (
            Live(console=self._out, auto_refresh=False, transient=bool(self.note))
            if self._out.is_terminal
            else None
        )
        with live or nullcontext():
            while not stopped():
                began = time.monotonic()
                self.figures.seconds = began - start
                if self.figures.seconds >= seconds:
                    break
                self._batch()
                now = time.monotonic()
                if live is not None and now - shown > 1 / SHOWN_PER_SECOND:
                    self._measure()
                    live.update(self._screen(), refresh=True)
                    shown = now
                elif live is None and now - plain > PLAIN_SECONDS:
                    self._measure()
                    self._out.print(self._screen())
                    plain = now
                if (now := time.monotonic()) >= compare_at:
                    self._recompute()
                    took = time.monotonic() - now
                    compare_at = now + max(took + RECOMPUTE_SECONDS, took / RIVAL_SHARE)
                time.sleep(max(0.0, began + 1 / BATCHES_PER_SECOND - time.monotonic()))
            if stopped():
                return
            for view in VIEWS:  # a short demo has not come round to all of them
                if not self.figures.recomputed[view.name].seconds:
                    self._compare(view)
            self._measure()
            if live is not None:
                live.update(self._screen(), refresh=True)

    def _screen(self) -> RenderableType:
        shown = screen(self.figures, self._out.width)
        return Group(self.note, shown) if self.note else shown

    def _batch(self) -> None:
        changes = self._market.tick(self._pace.orders, self._pace.bids)
        start = time.perf_counter()
        rows = self._apply(changes)
        self.figures.applied(rows, time.perf_counter() - start)

    def _apply(self, changes: list[MarketDelta]) -> int:
        self._pending += changes
        return self._database.apply(
            [Change(change.relation, change.rows, change.weight) for change in changes]
        )

    def _recompute(self) -> None:
        """One view at a time, over exactly the rows that the view has seen."""
        self._compare(VIEWS[self._turn % len(VIEWS)])
        self._turn += 1

    def _compare(self, view: Shown) -> None:
        self._rival.take(self._pending)
        self._pending = []
        recomputed = self.figures.recomputed[view.name]
        if not recomputed.seconds:
            self._rival.recompute(view)  # the first time it also plans and compiles: not counted
        result = self._rival.recompute(view)
        mine = [tuple(row) for row in self._database.view(view.name).rows()]
        if not equal(mine, result.rows):
            raise ViewletError(
                f"view {view.name} is {mine}, and {self._rival.name} says {result.rows}",
                hint="please report this: it is an error in viewlet",
            )
        recomputed.seconds.append(result.seconds)
        recomputed.equal += 1

    def _measure(self) -> None:
        for view in VIEWS:
            live = self._database.view(view.name)
            self.figures.tables[view.name] = live.columns, live.rows()
        if time.monotonic() - self._weighed > WEIGH_SECONDS:
            self._weigh()
            self._weighed = time.monotonic()

    def _weigh(self) -> None:
        """How large the state is; on Spark this asks every partition, so it is not done often."""
        maps: dict[str, MapSize] = {}
        for view in VIEWS:
            maps.update(self._database.stats(view.name).maps)
        self.figures.state_rows = sum(size.records for size in maps.values())
        self.figures.state_bytes = sum(size.bytes for size in maps.values())
