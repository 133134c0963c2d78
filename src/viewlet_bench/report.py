"""Run the benchmarks that docs/benchmarks.md shows, and write the page from what they gave.

    python -m viewlet_bench.report                    all parts, then the page
    python -m viewlet_bench.report --only tpch,spark  these parts, then the page
    python -m viewlet_bench.report --page             page and plots of the figures in benchmarks/

Every part keeps its rows in benchmarks/<part>.json, row by row as they are measured.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import viewlet
from viewlet.errors import ResolutionError, ViewletError
from viewlet.interfaces.progress import measuring
from viewlet_bench.output import Row, progress_line, read_json, write_json, write_text
from viewlet_bench.page import page
from viewlet_bench.plots import FOLDER, draw

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Part:
    """A workload with the options that the page's tables need."""

    workload: str
    options: Mapping[str, Any] = field(default_factory=dict)


PARTS: dict[str, Part] = {
    "tpch": Part("tpch", {"against": "duckdb", "startup": True}),
    "tpch_growth": Part("tpch", {"growth": (0.1, 1.0)}),
    "tpcds": Part("tpcds", {"against": "duckdb", "batches": ("single", "1000", "100000")}),
    "finance": Part("finance", {"against": "duckdb", "batches": ("single", "1000")}),
    "finance_growth": Part("finance", {"growth": (0.1, 1.0)}),
    "spark": Part("spark"),
    "linalg": Part("linalg"),
    "signals": Part("signals"),
}


def run_part(name: str, folder: Path, extra: Mapping[str, Any]) -> None:
    """Measure one part; what is measured is kept even if a later query fails."""
    part = PARTS[name]
    module = importlib.import_module(f"viewlet_bench.{part.workload}")
    rows: list[Row] = []
    options = {name: value for name, value in extra.items() if name in module.OPTIONS}
    with measuring(name) as done:

        def keep(row: Row) -> None:
            rows.append(row)
            write_json(rows, folder / f"{name}.json")
            done(f"{name}: {progress_line(row)}")

        module.run(**{**part.options, **options}, progress=keep)
    write_json([machine()], folder / "machine.json")


def write_page(folder: Path, file: Path) -> None:
    """Page and pictures of all figures that there are."""
    rows = {name: read_json(path) for name in PARTS if (path := folder / f"{name}.json").exists()}
    about = folder / "machine.json"
    if not about.exists():
        write_json([machine()], about)
    draw(rows, file.parent / FOLDER)
    write_text(page(rows, read_json(about)[0]), file)


def machine() -> Row:
    """What the figures were measured on."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "viewlet": viewlet.__version__,
        **{name: version(name) for name in ("llvmlite", "numba", "duckdb", "pyspark")},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def main() -> None:
    """Measure what was asked for, then write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--sf", type=float, help="another scale than 1")
    parser.add_argument("--queries", type=lambda text: text.split(","))
    parser.add_argument("--seconds", type=float, help="limit of each measurement")
    parser.add_argument("--figures", type=Path, default=ROOT / "benchmarks")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks.md")
    arguments = parser.parse_args()
    extra = {n: v for n in ("sf", "queries", "seconds") if (v := getattr(arguments, n)) is not None}
    try:
        for name in arguments.only:
            if name not in PARTS:
                raise ResolutionError(f"no part {name}", hint=f"parts are {', '.join(PARTS)}")
        for name in () if arguments.page else arguments.only:
            run_part(name, arguments.figures, extra)
        write_page(arguments.figures, arguments.output)
    except ViewletError as error:
        sys.exit(f"bench: {error}")


if __name__ == "__main__":
    main()
