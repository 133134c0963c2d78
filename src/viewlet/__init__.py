"""viewlet keeps answers fresh: incremental views, matrices and signals.

Nothing heavy is imported until it is used: `import viewlet` takes milliseconds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from viewlet import errors
from viewlet.errors import ViewletError

if TYPE_CHECKING:
    from viewlet.distributed.hints import Hints
    from viewlet.engine.partitions.session import spark_session
    from viewlet.interfaces.connect import connect, restore
    from viewlet.interfaces.database import Database
    from viewlet.interfaces.dml import Change
    from viewlet.interfaces.events import EventLoop
    from viewlet.interfaces.subscribe import ViewBatch
    from viewlet.interfaces.view import View

__all__ = [
    "Change",
    "Database",
    "EventLoop",
    "Hints",
    "View",
    "ViewBatch",
    "ViewletError",
    "connect",
    "errors",
    "restore",
    "spark_session",
]
__version__ = "0.1.0"

_HOMES = {
    "Change": "viewlet.interfaces.dml",
    "Database": "viewlet.interfaces.database",
    "EventLoop": "viewlet.interfaces.events",
    "Hints": "viewlet.distributed.placement",
    "View": "viewlet.interfaces.view",
    "ViewBatch": "viewlet.interfaces.subscribe",
    "connect": "viewlet.interfaces.connect",
    "restore": "viewlet.interfaces.connect",
    "spark_session": "viewlet.engine.partitions.session",
}

_PACKAGES = ("dbapi", "linalg", "notebook", "signals")
"""What is public beside the names: each is imported by its own name."""


def __getattr__(name: str) -> Any:
    """Import a public name from its home at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'viewlet' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES, *(name for name in globals() if name.endswith("__"))])
