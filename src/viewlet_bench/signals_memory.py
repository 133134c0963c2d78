"""Peak memory of the grouped queries, their result included and their input not.

    python -m viewlet_bench.signals_memory 2500000 1000 5000000 1000

A process that has worked before has memory that the allocator keeps, from which a run would take
without growing. So this is a process of its own, in which every large array comes from the system
and goes back to it; before each run what viewlet keeps is given back and the system's record of the
peak is set to what is in use now. Linux only: elsewhere nothing is measured.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

from viewlet.errors import StateError
from viewlet.signals import buffers
from viewlet_bench.signals_queries import QUERIES

Peaks = dict[tuple[str, int, int], int]

_SOURCE = Path(__file__).parents[1]
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_LARGE = 1 << 17  # bytes; glibc begins with this, and raises it as long as nobody sets it


def peaks(sizes: list[tuple[int, int]]) -> Peaks:
    """(query, events, groups) -> bytes, for all queries over (events, groups) each."""
    if not os.access(_RESET, os.W_OK):
        return {}
    path = os.pathsep.join(filter(None, (str(_SOURCE), os.environ.get("PYTHONPATH"))))
    run = subprocess.run(
        [sys.executable, "-m", __name__, *(str(number) for size in sizes for number in size)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": str(_LARGE), "PYTHONPATH": path},
    )
    if run.returncode:
        raise StateError(f"measuring memory failed: {run.stderr.strip()[-500:]}")
    return {(name, events, groups): used for name, events, groups, used in json.loads(run.stdout)}


def peak(name: str, events: int, groups: int) -> int:
    """Bytes of one run in this process, at its peak."""
    run = QUERIES[name](events, groups)
    gc.collect()
    buffers.release()
    with contextlib.suppress(AttributeError):  # of glibc alone
        ctypes.CDLL(None).malloc_trim(0)
    _RESET.write_text("5")
    before = _read("VmRSS")
    run()
    return _read("VmHWM") - before


def _read(field: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def main() -> None:
    """Peaks of memory for the sizes that are given, as JSON."""
    numbers = [int(number) for number in sys.argv[1:]]
    sizes = list(zip(numbers[::2], numbers[1::2], strict=True))
    for factory in QUERIES.values():
        factory(2_000, 10)()  # compiles, or loads what was compiled
        factory(200_000, 1_000)()
    peaks = [(name, *size, peak(name, *size)) for size in sizes for name in QUERIES]
    print(json.dumps(peaks))


if __name__ == "__main__":
    main()
