"""The user's directory for state and launchers below the temporary ones, which nobody else writes.

Everybody may make a directory there under any name. One that is not ours, or that others can write
to, could bring a program of theirs to run as us: it is refused, never used.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from viewlet.errors import StateError
from viewlet.ownership import objection_to


def own_directory() -> Path:
    """/tmp -> /tmp/viewlet-UID, made if need be; StateError where it is not safe."""
    return _below(tempfile.gettempdir())


@cache
def _below(parent: str) -> Path:
    directory = Path(parent) / f"viewlet-{os.getuid()}"
    with suppress(OSError):  # what cannot be made is not there, which is said below
        directory.mkdir(mode=0o700, exist_ok=True)
    objection = objection_to(directory)
    if objection is not None:
        raise StateError(
            f"the directory {directory} {objection}",
            hint="remove it, name another one in TMPDIR (for executors spark.executorEnv.TMPDIR), "
            "or say connect(state_dir=...)",
        )
    return directory
