"""A pipeline with every kind of source and sink that viewlet reads and writes itself."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from viewlet.pipeline.sinks import WEIGHT

SHOPS = """
CREATE TABLE shop (id INT PRIMARY KEY, name VARCHAR NOT NULL)
  FROM csv 'shops.csv' WITH (static = true);
CREATE STREAM sales (shop INT NOT NULL, price DECIMAL(12,2) NOT NULL) FROM csv 'in';
CREATE MATERIALIZED VIEW totals AS
  SELECT shop.name, SUM(price) AS total, COUNT(*) AS n
  FROM sales JOIN shop ON shop.id = sales.shop GROUP BY shop.name;
INSERT INTO parquet 'out' SELECT * FROM totals;
"""
"""Sales by shop: a static table, a stream of files, and the changes of a view."""

FILES = ("arrow", "csv", "json", "parquet", "tbl")
SINKS = ("arrow", "csv", "json", "parquet")


def write_sources() -> None:
    """One folder of each format, each with two rows of its own kind."""
    for name in FILES:
        Path(f"in_{name}").mkdir()
    table = pa.table(
        {
            "kind": ["arrow", "arrow"],
            "price": pa.array([Decimal("1.10"), None], pa.decimal128(12, 2)),
        }
    )
    with pa.OSFile("in_arrow/a.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    parquet.write_table(
        table.set_column(0, "kind", pa.array(["parquet", "parquet"])), "in_parquet/a.parquet"
    )
    Path("in_csv/a.csv").write_text("price;kind;more\n1.10;csv;x\n;csv;y\n")
    Path("in_json/a.json").write_text('{"kind": "json", "price": 1.10}\n{"kind": "json"}\n')
    Path("in_tbl/a.tbl").write_text("tbl|1.10|\ntbl||\n")


def pipeline(port: int, url: str) -> str:
    """Every source into one view, and the view into every sink."""
    columns = "(kind VARCHAR NOT NULL, price DECIMAL(12,2))"
    sources = [f"CREATE STREAM s_{name} {columns} FROM {name} 'in_{name}'" for name in FILES]
    sources[1] += " WITH (header = true, delimiter = ';')"
    sources.append(f"CREATE STREAM s_socket {columns} FROM socket '127.0.0.1:{port}'")
    united = " UNION ALL ".join(f"SELECT * FROM s_{name}" for name in (*FILES, "socket"))
    view = (
        "CREATE MATERIALIZED VIEW v AS SELECT kind, SUM(price) AS total, COUNT(*) AS n "
        f"FROM ({united}) AS u GROUP BY kind"
    )
    sinks = [f"INSERT INTO {name} 'out_{name}' SELECT * FROM v" for name in SINKS]
    sinks += [
        f"INSERT INTO 'now.{name}' WITH (mode = 'snapshot') SELECT * FROM v" for name in SINKS
    ]
    sinks += [
        "INSERT INTO console WITH (rows = 50) SELECT * FROM v",
        f"INSERT INTO webhook '{url}' WITH (mode = 'snapshot') SELECT * FROM v",
    ]
    return ";\n".join([*sources, view, *sinks])


@contextmanager
def lines() -> Iterator[int]:
    """A server of two lines; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"socket,1.10\nsocket,\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@contextmanager
def hooks() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A web server's address, and what was posted to it."""
    posted: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to the terminal."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/changes", posted
        server.shutdown()
        thread.join()


EXPECTED = dict.fromkeys((*FILES, "socket"), ("1.10", 2))


def check_sinks(shown: str, posted: list[dict[str, Any]]) -> None:
    """All sinks have the view: changes add up to it, snapshots are it."""
    for name in SINKS:
        rows: dict[tuple[str, str, int], int] = {}
        for file in Path(f"out_{name}").iterdir():
            for row in read(file, name):
                key = (row["kind"], str(row["total"]), row["n"])
                rows[key] = rows.get(key, 0) + row[WEIGHT]
        groups = {kind: (total, n) for (kind, total, n), weight in rows.items() if weight}
        assert groups == EXPECTED, name
        now = read(Path(f"now.{name}"), name)
        assert {row["kind"]: (str(row["total"]), row["n"]) for row in now} == EXPECTED, name
    last = posted[-1]["rows"]
    assert {row["kind"]: (row["total"], row["n"]) for row in last} == EXPECTED
    for kind in EXPECTED:
        assert f"+ kind={kind}, total=1.10, n=2" in shown


def read(file: Path, format: str) -> list[dict[str, Any]]:
    if format == "json":
        return [json.loads(line) for line in file.read_text().splitlines()]
    if format == "csv":
        options = csv.ConvertOptions(column_types={"total": pa.decimal128(38, 2)})
        return csv.read_csv(file, convert_options=options).to_pylist()
    if format == "parquet":
        return parquet.read_table(file).to_pylist()
    with pa.OSFile(str(file)) as source:
        return pa.ipc.open_file(source).read_all().to_pylist()
