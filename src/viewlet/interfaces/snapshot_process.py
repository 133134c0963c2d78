"""The process that makes a snapshot beside a running database (durable_database.py).

python -m viewlet.interfaces.snapshot_process PATH NAME STOP ENGINE
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from viewlet.interfaces.connect import memory_database
from viewlet.interfaces.durable_database import write_snapshot_beside


def main() -> None:
    """Write PATH/NAME from the snapshot that CURRENT names and the segments before STOP."""
    path, name, stop, engine = sys.argv[1:]
    os.nice(10)
    write_snapshot_beside(Path(path), name, int(stop), memory_database(engine))


if __name__ == "__main__":
    main()
