"""The process that makes a snapshot beside a running database (durable_database.py).

python -m viewlet.interfaces.snapshot_process PATH NAME STOP ENGINE

It ends with the process that started it, whose end of the pipe is standard input here.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from viewlet.interfaces.connect import memory_database
from viewlet.interfaces.durable_database import write_snapshot_beside


def main() -> None:
    """Write PATH/NAME from the snapshot that CURRENT names and the segments before STOP."""
    path, name, stop, engine = sys.argv[1:]
    os.nice(10)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    write_snapshot_beside(Path(path), name, int(stop), memory_database(engine))


def _end_with_parent() -> None:
    """Nobody would adopt the snapshot of a database whose process was killed."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
