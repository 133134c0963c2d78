"""A view in a notebook that follows its rows: a table or a plot; needs `viewlet[notebook]`.

import viewlet.notebook
viewlet.notebook.live(db, "v")                       # a table, what changed is lit
viewlet.notebook.live(db, "v", plot="line", x="day", y=["total"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from viewlet.notebook.contents import PlotKind

if TYPE_CHECKING:
    from viewlet.interfaces.database import Database
    from viewlet.notebook.widget import LiveView

__all__ = ["PlotKind", "live"]


def live(
    db: Database,
    view: str,
    *,
    rows: int | None = None,
    plot: PlotKind | None = None,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
) -> LiveView:
    """A widget with the first `rows` rows of a view, or a plot of them, that follows the view.

    A table (of 20 rows) lights what has changed. A plot (of 2,000) has the column `x` on its axis,
    the first if left out, and the columns `y` as lines or bars: all numbers if left out. Changes
    are shown about ten times a second at most, and reading the view takes a tenth of the time at
    most. `close()` ends it, and so does the end of the last reference.

    >>> widget = viewlet.notebook.live(db, "v", rows=10)
    >>> widget.contents["rows"]
    [[1, 5]]
    >>> widget.close()
    """
    from viewlet.extras import require

    require("anywidget", "viewlet.notebook.live")
    from viewlet.notebook.widget import LiveView

    return LiveView(db, view, rows, plot, x, y)
