"""matplotlib, which only plots need: without a display, and the same picture from the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from viewlet.errors import UnsupportedError


def pyplot_for(folder: Path) -> Any:
    """matplotlib.pyplot, and the folder for its pictures."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        matplotlib.rcParams["svg.hashsalt"] = "viewlet"
        from matplotlib import pyplot
    except ImportError:
        raise UnsupportedError(
            "plots need matplotlib", hint="pip install 'viewlet[bench]'"
        ) from None
    folder.mkdir(parents=True, exist_ok=True)
    return pyplot
