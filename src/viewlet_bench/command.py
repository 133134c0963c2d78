"""What `viewlet bench` does: one workload measured, shown, written down and compared."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewlet.errors import ResolutionError, ViewletError
from viewlet.extras import extras_of
from viewlet.interfaces.progress import measuring
from viewlet.native.optimizer import OPTIMIZER
from viewlet_bench.compare import compared, slower
from viewlet_bench.output import (
    Row,
    check_writable,
    print_table,
    progress_line,
    read_json,
    write_json,
    write_markdown,
)

OPTION_NAMES = {"batches": "batch"}
"""Argument of a workload -> its name on the command line, where they differ."""


@dataclass(frozen=True)
class BenchFiles:
    """Where rows are written, and the earlier figures that they are compared with."""

    json: Path | None = None
    markdown: Path | None = None
    compare: Path | None = None


def measure(workload: str, quick: bool, options: Mapping[str, Any], files: BenchFiles) -> None:
    """Run a workload with the options that were given; a run that is stopped keeps its rows."""
    OPTIMIZER.is_at_once = True  # what is measured is the code that lasts
    with extras_of(f"viewlet bench {workload}"):
        _measure(workload, quick, options, files)


def _measure(workload: str, quick: bool, options: Mapping[str, Any], files: BenchFiles) -> None:
    module = importlib.import_module(f"viewlet_bench.{workload}")
    accepted = getattr(module, "OPTIONS", ())
    for name in options:
        if name not in accepted:
            raise ResolutionError(
                f"workload {workload} does not take --{OPTION_NAMES.get(name, name)}",
                hint=f"viewlet bench {workload} --quick is a small run",
            )
    for file in (files.json, files.markdown):
        check_writable(file)
    earlier = None if files.compare is None else read_json(files.compare)
    columns = getattr(module, "COLUMNS", None)
    so_far: list[Row] = []

    def write(rows: list[Row]) -> None:
        if files.json is not None:
            write_json(rows, files.json)
        if files.markdown is not None:
            write_markdown(rows, files.markdown, columns)

    with measuring(f"bench {workload}") as show:

        def progress(row: Row) -> None:
            so_far.append(row)
            show(progress_line(row))
            write(so_far)

        watched = {"progress": progress} if "progress" in accepted else {}
        rows = module.run(quick=quick, **options, **watched)
    print_table(rows, columns)
    write(rows)
    if files.compare is not None and earlier is not None:
        _compare(rows, earlier, files.compare)


def _compare(rows: list[Row], earlier: list[Row], file: Path) -> None:
    comparisons = compared(rows, earlier)
    if not comparisons:
        raise ResolutionError(f"{file} has no figure of these measurements")
    print_table(comparisons)
    if worse := slower(comparisons):
        raise ViewletError(f"slower than {file}: {', '.join(worse)}")
