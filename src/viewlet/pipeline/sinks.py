"""Where changes of views go: files, a terminal, a web server.

    changes    after every batch the rows that came (_weight = 1) and went (_weight = -1)
    snapshot   after every batch the whole view, in the place of the one before

`write` is called once for each batch that changed the view. After a crash a run goes on from its
last checkpoint and processes some batches again: `resume` makes a sink forget what it got after
that point. Files do so exactly. A terminal and a web server cannot: they get those batches again,
with their numbers.

`SINKS` has every format that a pipeline can name on any engine; one more is a class with the
methods of `Sink` and a line in it (docs/howto.md).
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from viewlet.errors import DataError, ViewletError
from viewlet.pipeline.pipeline_text import SinkOf

if TYPE_CHECKING:
    import pyarrow as pa

WEIGHT = "_weight"
"""The column of changes that says how often a row came (+n) or went (-n)."""

Snapshot = Callable[[], "pa.Table"]


class Sink(Protocol):
    """Takes what each batch did to one view."""

    def write(self, batch: int, changes: pa.Table, snapshot: Snapshot) -> None:
        """The changes of a batch; `snapshot` is the whole view after it, made if it is called."""
        ...

    def begin(self) -> None:
        """A new run: complain about what another one left."""
        ...

    def resume(self, batch: int) -> None:
        """Forget what came after this batch."""
        ...


# --- files ----------------------------------------------------------------------------------------


class ChangeFiles:
    """A folder with one file of changes for each batch: changes-000000012.parquet."""

    def __init__(self, path: str, format: str) -> None:
        self._folder = Path(path)
        self._format = format
        if self._folder.exists() and not self._folder.is_dir():
            raise DataError(
                f"{path} is a file, and changes go to a folder",
                hint="name a folder, or write WITH (mode = 'snapshot')",
            )

    def write(self, batch: int, changes: pa.Table, snapshot: Snapshot) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_file(changes, self._folder / f"changes-{batch:09d}.{self._format}", self._format)

    def begin(self) -> None:
        if self._written():
            raise DataError(
                f"{self._folder} has changes of another run",
                hint="name another folder, or run with --restart to have them removed",
            )

    def resume(self, batch: int) -> None:
        for number, path in self._written().items():
            if number > batch:
                path.unlink()

    def _written(self) -> dict[int, Path]:
        written = {}
        for path in self._folder.glob(f"changes-*.{self._format}"):
            number = path.stem.partition("-")[2]
            if number.isdigit():
                written[int(number)] = path
        return written


class SnapshotFile:
    """One file with the view as it is; readers see the old or the new one, never a part."""

    def __init__(self, path: str, format: str) -> None:
        self._path = Path(path)
        self._format = format
        if self._path.is_dir():
            raise DataError(
                f"{path} is a folder, and a snapshot is one file", hint="name a file in it"
            )

    def write(self, batch: int, changes: pa.Table, snapshot: Snapshot) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_file(snapshot(), self._path, self._format)

    def begin(self) -> None:
        """The first write replaces what is there."""

    def resume(self, batch: int) -> None:
        """The next write replaces it."""


def write_file(table: pa.Table, path: Path, format: str) -> None:
    """Write beside the path, then rename."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    unfinished = path.with_name(f"_{path.name}.tmp")
    if format == "parquet":
        parquet.write_table(table, unfinished)
    elif format == "csv":
        csv.write_csv(table, unfinished)
    elif format == "arrow":
        with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    else:
        lines = (json.dumps(plain(row)) for row in table.to_pylist())
        unfinished.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    unfinished.replace(path)


FILES = ("arrow", "csv", "json", "parquet")


def plain(value: Any) -> Any:
    """A value as JSON has it; DECIMAL as text, which keeps every digit."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date | datetime) else value


# --- a terminal -----------------------------------------------------------------------------------


class Console:
    """Changes as lines, + for rows that came and - for rows that went; snapshots as a table."""

    def __init__(self, view: str, mode: str, out: TextIO, limit: int) -> None:
        self._view = view
        self._mode = mode
        self._out = out
        self._limit = limit

    def write(self, batch: int, changes: pa.Table, snapshot: Snapshot) -> None:
        table = snapshot() if self._mode == "snapshot" else changes
        lines = [f"{self._view} after batch {batch}: {table.num_rows:,} rows"]
        if self._mode == "changes":
            lines[0] = f"{self._view} in batch {batch}: {table.num_rows:,} changes"
        for row in table.slice(0, self._limit).to_pylist():
            weight = row.pop(WEIGHT, None)
            sign = " " if weight is None else "+" if weight > 0 else "-"
            times = f"  x{abs(weight)}" if weight is not None and abs(weight) > 1 else ""
            shown = ", ".join(f"{name}={_cell(value)}" for name, value in row.items())
            lines.append(f"  {sign} {shown}{times}")
        if table.num_rows > self._limit:
            lines.append(f"    ... and {table.num_rows - self._limit:,} more")
        self._out.write("\n".join(lines) + "\n")
        self._out.flush()

    def begin(self) -> None:
        """Nothing to check."""

    def resume(self, batch: int) -> None:
        """What was printed stays printed."""


def _cell(value: Any) -> str:
    return "NULL" if value is None else str(value)


# --- a web server ---------------------------------------------------------------------------------


class Webhook:
    """POSTs {"view", "batch", "rows": [...]} as JSON; tried again twice before the run stops.

    A server that must not act twice remembers the highest batch number that it has seen.
    """

    def __init__(self, view: str, mode: str, url: str, headers: Mapping[str, str]) -> None:
        if not url.startswith(("http://", "https://")):
            raise DataError(f"{url!r} is not a web address", hint="write webhook 'https://...'")
        self._view = view
        self._mode = mode
        self._url = url
        self._headers = {"Content-Type": "application/json", **headers}

    def write(self, batch: int, changes: pa.Table, snapshot: Snapshot) -> None:
        table = snapshot() if self._mode == "snapshot" else changes
        body = {"view": self._view, "batch": batch, "mode": self._mode}
        rows = [plain(row) for row in table.to_pylist()]
        data = json.dumps({**body, "rows": rows}).encode()
        for attempt in range(3):
            try:
                request = urllib.request.Request(self._url, data, self._headers)
                with urllib.request.urlopen(request, timeout=10):
                    return
            except (OSError, urllib.error.URLError) as error:
                if attempt == 2:
                    raise ViewletError(
                        f"batch {batch} of {self._view} could not be sent to {self._url}: {error}",
                        hint="the batch is sent again by the next run",
                    ) from None
                time.sleep(0.5 * 2**attempt)

    def begin(self) -> None:
        """Nothing to check."""

    def resume(self, batch: int) -> None:
        """What was sent stays sent."""


# --- formats by name ------------------------------------------------------------------------------

MODES = ("changes", "snapshot")


@dataclass(frozen=True)
class SinkFormat:
    """A format that viewlet writes itself: how it is made, and the options that it has."""

    make: Callable[[SinkOf, str, TextIO], Sink]
    """Of what view and where, which of MODES, and where a terminal would be."""
    options: Sequence[str] | None
    """None: any."""
    needs_path: bool = True


def _make_files(sink: SinkOf, mode: str, out: TextIO) -> Sink:
    make = SnapshotFile if mode == "snapshot" else ChangeFiles
    return make(str(sink.endpoint.path), sink.endpoint.format)


def _make_console(sink: SinkOf, mode: str, out: TextIO) -> Sink:
    return Console(sink.view, mode, out, sink.endpoint.integer_option("rows", 20))


def _make_webhook(sink: SinkOf, mode: str, out: TextIO) -> Sink:
    return Webhook(sink.view, mode, str(sink.endpoint.path), sink.endpoint.without("mode"))


SINKS: dict[str, SinkFormat] = {
    **{name: SinkFormat(_make_files, ("mode",)) for name in FILES},
    "console": SinkFormat(_make_console, ("mode", "rows"), needs_path=False),
    "webhook": SinkFormat(_make_webhook, None),
}
"""Name in INSERT INTO -> the format; every other name is for Spark to know."""
