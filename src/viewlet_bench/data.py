"""TPC-H and TPC-DS rows as Parquet files, made once per scale factor by tpcgen-cli.

They are kept in `data` under VIEWLET_CACHE, or in ~/.cache/viewlet/data.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from viewlet.errors import StateError
from viewlet.extras import missing

if TYPE_CHECKING:
    import pyarrow as pa

GENERATOR = "tpcgen-cli"


def data_directory() -> Path:
    """Where generated rows are, for all scale factors."""
    chosen = os.environ.get("VIEWLET_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(chosen) / "data" if chosen else Path(base) / "viewlet" / "data"


def generated(workload: str, sf: float, tables: Sequence[str]) -> Path:
    """The directory with <table>.parquet of a workload at a scale factor; missing ones are made."""
    directory = data_directory() / f"{workload}-sf{sf:g}"
    missing = [table for table in tables if not (directory / f"{table}.parquet").exists()]
    if missing:
        _generate(workload, sf, missing, directory)
    return directory


def read(directory: Path, table: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of a generated table."""
    import pyarrow.parquet as pq

    return pq.read_table(directory / f"{table}.parquet", columns=list(columns))


def _generate(workload: str, sf: float, tables: Sequence[str], directory: Path) -> None:
    """Files appear in one move each: an interrupted run leaves none that is half written."""
    program = shutil.which(GENERATOR) or shutil.which(
        GENERATOR, path=str(Path(sys.executable).parent)
    )
    if program is None:
        raise missing(GENERATOR, f"viewlet bench {workload}")
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as output:
        command = [program, workload, "parquet", "--scale-factor", f"{sf:g}"]
        command += ["--output-dir", output]
        command += ["--tables", ",".join(tables), "--quiet", "--no-progress"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        files = list(Path(output).glob("*.parquet"))
        if run.returncode or not files:
            reason = (run.stderr or run.stdout).strip() or "it wrote nothing"
            raise StateError(f"{GENERATOR} made no {workload} rows at scale {sf:g}: {reason}")
        for file in files:
            file.replace(directory / file.name)
