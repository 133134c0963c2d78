"""How long a new process needs until a view is there and its triggers have run once.

Each measurement is a process of its own: the first with an empty kernel cache, the second with what
the first has left there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from viewlet.errors import StateError
from viewlet.schema import Kind, Relation

_SOURCE = Path(__file__).parents[1]


def startup(workload: str, query: str) -> dict[str, Any]:
    """Seconds to import viewlet, and to create the view and run its triggers, cold and cached."""
    with tempfile.TemporaryDirectory() as empty:
        cold, cached = (_process(workload, query, empty) for _ in range(2))
    return {
        "import_s": min(cold["import_s"], cached["import_s"]),
        "cold_s": cold["ready_s"],
        "cold_cpu_s": cold["ready_cpu_s"],
        "cached_s": cached["ready_s"],
        "cached_cpu_s": cached["ready_cpu_s"],
    }


def _process(workload: str, query: str, cache: str) -> dict[str, float]:
    path = os.pathsep.join(filter(None, (str(_SOURCE), os.environ.get("PYTHONPATH"))))
    run = subprocess.run(
        [sys.executable, "-m", __name__, workload, query],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "VIEWLET_CACHE": cache, "PYTHONPATH": path},
    )
    if run.returncode:
        raise StateError(f"starting {workload} {query} failed: {run.stderr.strip()[-500:]}")
    return {name: float(value) for name, value in json.loads(run.stdout).items()}


def _any_row(relation: Relation) -> tuple[Any, ...]:
    """A row that fits; its values do not matter."""
    values = {Kind.VARCHAR: "x", Kind.DATE: "1995-01-01", Kind.BOOLEAN: True}
    return tuple(values.get(column.type.kind, 1) for column in relation.columns)


class _Clock:
    """Seconds that have passed and seconds of this process, while it runs."""

    def __init__(self) -> None:
        self.elapsed = self.used = 0.0
        self.start()

    def start(self) -> None:
        self._started, self._used = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        self.elapsed += time.perf_counter() - self._started
        self.used += time.process_time() - self._used


def main() -> None:
    """`python -m viewlet_bench.startup WORKLOAD QUERY`: the figures as JSON."""
    started = time.perf_counter()
    import viewlet

    viewlet.connect  # noqa: B018  a name of the package is imported when it is asked for
    imported = time.perf_counter() - started
    from viewlet_bench.workload import compiled, query_text, schema_text

    workload, query = sys.argv[1:]
    schema, view = schema_text(workload), query_text(workload, query)
    clock = _Clock()
    with viewlet.connect("local") as db:
        db.execute(schema)
        db.execute(view)
        clock.stop()
        relations = compiled(workload, query).program.relations
        rows = {r.name: _any_row(r) for r in relations if not r.static}
        clock.start()
        for name, row in rows.items():
            db.insert(name, row)
        clock.stop()
    ready, cpu = clock.elapsed, clock.used
    print(json.dumps({"import_s": imported, "ready_s": ready, "ready_cpu_s": cpu}))


if __name__ == "__main__":
    main()
