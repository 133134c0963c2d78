"""The live widget: one state, sent when the view has changed and the page has had time to draw."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

import anywidget
import traitlets

from viewlet.errors import TypingError
from viewlet.interfaces.database import Database
from viewlet.interfaces.subscribe import Subscription
from viewlet.interfaces.view import moment_of
from viewlet.notebook.contents import PlotKind, check_plot, plot_contents, table_contents

_HERE = Path(__file__).parent
_TABLE_ROWS, _PLOT_ROWS = 20, 2_000
_PAUSE_SECONDS = 0.1
_SHARE = 0.1
"""Of the time, at most this much goes into reading the view: a large one is shown less often."""


class LiveView(anywidget.AnyWidget):
    """A table or a plot that follows a view; made by `viewlet.notebook.live`, which says how."""

    _esm = _HERE / "widget.js"
    _css = _HERE / "widget.css"
    contents = traitlets.Dict().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    _ended = True  # until it follows something

    def __init__(
        self,
        db: Database,
        view: str,
        rows: int | None,
        plot: PlotKind | None,
        x: str | None,
        y: str | Sequence[str] | None,
    ) -> None:
        self._view = db.view(view)
        if rows is not None and (not isinstance(rows, int) or rows is True or rows < 1):
            raise TypingError(f"rows={rows!r}", hint="use a whole number of at least 1")
        if plot is None and (x is not None or y is not None):
            raise TypingError("x and y are of a plot", hint='say plot="line" or plot="bar"')
        self._plot = None if plot is None else (plot, *check_plot(self._view, plot, x, y))
        self._limit = rows or (_TABLE_ROWS if plot is None else _PLOT_ROWS)
        self._changed = threading.Event()
        super().__init__(title=view)
        changed = self._changed
        self._subscription = db.subscribe(view, lambda batch: changed.set())
        self._ended = False
        self.refresh()
        follower = threading.Thread(target=_follow, args=(weakref.ref(self), changed), daemon=True)
        follower.start()
        weakref.finalize(self, _end, self._subscription, changed)

    def refresh(self) -> None:
        """Send the view as it is."""
        moment, types = moment_of(self._view, self._limit), self._view.types
        if self._plot is None:
            self.contents = table_contents(moment, types)
        else:
            self.contents = plot_contents(moment, types, *self._plot)

    def close(self) -> None:
        """Follow no longer."""
        if not self._ended:
            self._ended = True
            _end(self._subscription, self._changed)
        super().close()


def _end(subscription: Subscription, changed: threading.Event) -> None:
    """Nothing is followed any more: the thread wakes up, and ends."""
    subscription.close()
    changed.set()


def _follow(reference: weakref.ref[LiveView], changed: threading.Event) -> None:
    """Refresh after changes until the widget is closed or forgotten."""
    while True:
        changed.wait()
        changed.clear()
        widget = reference()
        if widget is None or widget._ended:
            return
        begin = time.perf_counter()
        try:
            widget.refresh()
        except Exception as problem:  # the database was closed, or the view dropped
            widget.title = f"{widget.title}: {str(problem).splitlines()[0]}"
            widget._ended = True
            return
        spent = time.perf_counter() - begin
        del widget
        time.sleep(max(_PAUSE_SECONDS, spent / _SHARE))
