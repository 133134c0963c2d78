"""matplotlib, which only plots need: without a display, and the same picture from the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from viewlet.extras import require


def pyplot_for(folder: Path) -> Any:
    """matplotlib.pyplot, and the folder for its pictures."""
    matplotlib = require("matplotlib", "a plot")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "viewlet"
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    return pyplot
