"""HTTP: pages of views, rows in, SQL, streams of changes, access and limits."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as websocket

import viewlet
from tests.pace import slack
from tests.server.running import SHOP, Serving, serving
from viewlet.errors import StateError
from viewlet.server import feeds, gateway
from viewlet.server.settings import ServeSettings

LINES = "application/x-ndjson"


@pytest.fixture
def shop() -> Iterator[Serving]:
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        database.insert("sales", [{"id": 1, "shop": "north", "price": "9.50", "paid": True}])
        with serving(database) as served:
            yield served


def rows_of(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


def test_what_there_is(shop: Serving) -> None:
    listed = shop.client.get("/views").json()
    assert [view["name"] for view in listed["views"]] == ["totals", "heavy"]
    assert [table["kind"] for table in listed["tables"]] == ["table", "stream"]
    assert shop.client.get("/healthz").json() == {"status": "ok"}
    paths = shop.client.get("/openapi.json").json()["paths"]
    assert "/views/{name}/events" in paths
    for path, operations in paths.items():
        for method in operations:
            answer = shop.client.request(method, path.replace("{name}", "nothing"))
            assert answer.status_code != 405, (method, path)


def test_a_view_in_every_format(shop: Serving) -> None:
    answer = shop.client.get("/views/totals")
    assert rows_of(answer) == [{"shop": "north", "total": "9.50", "n": 1}]
    assert answer.headers["x-viewlet-total"] == "1"
    arrow = shop.client.get("/views/totals", params={"format": "arrow"}).content
    table = pa.ipc.open_stream(arrow).read_all()
    assert table == shop.database.view("totals").to_arrow()
    read = parquet.read_table(io.BytesIO(shop.client.get("/views/totals?format=parquet").content))
    assert read == table
    assert (
        shop.client.get("/views/totals?format=csv").text == '"shop","total","n"\n"north",9.50,1\n'
    )


def test_pages_are_of_one_version(shop: Serving) -> None:
    shop.database.insert("sales", [{"id": n, "shop": f"s{n:03}"} for n in range(2, 30)])
    answer = shop.client.get("/views/totals", params={"limit": 10, "order": "-shop"})
    seen = rows_of(answer)
    shop.database.insert("sales", {"id": [99], "shop": ["new"]})
    while "next" in answer.links:
        answer = shop.client.get(answer.links["next"]["url"])
        seen += rows_of(answer)
    names = [row["shop"] for row in seen]
    assert names == sorted(names, reverse=True)
    assert len(names) == 29
    assert "new" not in names
    gone = shop.client.get("/views/totals", params={"version": 1})
    assert (gone.status_code, gone.json()["error"]["type"]) == (400, "DataError")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (LINES, b'{"id": 2, "shop": "s", "price": 1.25, "weight": "NaN"}\n[3, "s", "2.25"]\n'),
        (
            "application/json",
            b'[{"id": 2, "shop": "s", "price": 1.25}, {"id": 3, "shop": "s", "price": "2.25"}]',
        ),
        ("text/csv; charset=utf-8", b"id,shop,price\n2,s,1.25\n3,s,2.25\n"),
    ],
)
def test_rows_come_in(shop: Serving, kind: str, body: bytes) -> None:
    if b'[3, "s"' in body:
        body = body.replace(b'"2.25"]', b'"2.25", null, null, null, null]')
    answer = shop.client.post("/tables/sales/rows", content=body, headers={"content-type": kind})
    assert answer.json()["count"] == 2, answer.text
    assert str(shop.database.view("totals")["s"].total) == "3.50"
    again = shop.client.post("/tables/sales/rows", content=body, headers={"content-type": kind})
    assert again.status_code == 400
    assert "duplicate primary key" in again.json()["error"]["message"]


def test_arrow_rows_come_in_and_go(shop: Serving) -> None:
    table = pa.table({"shop": ["a", "b"], "n": [1, 2]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    answer = shop.client.post("/tables/clicks/rows", content=sink.getvalue(), headers=headers)
    assert answer.json()["count"] == 2
    gone = shop.client.request(
        "DELETE",
        "/tables/sales/rows",
        content=b'{"id": 1, "shop": "north", "price": "9.50", "paid": true}',
        headers={"content-type": LINES},
    )
    assert gone.json()["count"] == 1
    assert len(shop.database.view("totals")) == 0


def test_a_stream_is_applied_as_it_comes(shop: Serving) -> None:
    seen: list[int] = []

    def lines() -> Iterator[bytes]:
        for number in range(2, 42):
            if number in (12, 32):
                time.sleep(0.3)
                seen.append(shop.database.query("SELECT COUNT(*) AS n FROM sales")[0][0].as_py())
            yield json.dumps({"id": number, "shop": "s"}).encode() + b"\n"

    answer = shop.client.post(
        "/tables/sales/rows?batch=5", content=lines(), headers={"content-type": LINES}
    )
    assert answer.json()["count"] == 40
    assert seen[0] < seen[1] < 41
    bad = b'{"id": 50, "shop": "s"}\n{"id": 51}\n{"id": 52, "shop": "s"}\n'
    answer = shop.client.post(
        "/tables/sales/rows?batch=1", content=bad, headers={"content-type": LINES}
    )
    assert (answer.status_code, answer.json()["count"]) == (400, 1)


def test_sql(shop: Serving) -> None:
    text = "INSERT INTO sales (id, shop) VALUES (7, 'x');\nSELECT COUNT(*) AS n FROM sales"
    assert rows_of(shop.client.post("/query", json={"sql": text})) == [{"n": 2}]
    answer = shop.client.post("/query", content="SELECT 1;\n  SELECT nope FROM totals")
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (404, "ResolutionError") or error["line"] == 2
    answer = shop.client.post("/query", content="SELECT 1;\n  SELEC 2")
    assert (answer.json()["error"]["line"], answer.json()["error"]["column"]) == (2, 3)
    made = shop.client.post(
        "/query", content="CREATE VIEW w AS SELECT COUNT(*) AS n FROM sales; DROP VIEW heavy"
    )
    assert made.status_code == 200
    assert shop.database.views == ("totals", "w")


@pytest.mark.parametrize(
    "text",
    [
        "COPY sales FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "INSERT INTO sales (id, shop) SELECT 1, content FROM read_text('/etc/hostname')",
        "SELECT 1; COPY sales FROM '/etc/passwd' WITH (FORMAT csv)",
    ],
)
def test_no_file_is_read(shop: Serving, text: str) -> None:
    answer = shop.client.post("/query", content=text)
    assert answer.status_code in (400, 404)
    assert "root" not in answer.text


def test_limits() -> None:
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        with serving(database, max_body=1000, max_rows=5, max_seconds=0.3) as served:
            client = served.client
            rows = b"".join(b'{"id": %d, "shop": "s%d"}\n' % (n, n) for n in range(100))
            headers = {"content-type": LINES}
            answer = client.post("/tables/sales/rows", content=rows, headers=headers)
            assert answer.status_code == 413
            assert not len(database.view("totals"))
            answer = client.post("/tables/sales/rows?batch=10", content=rows, headers=headers)
            assert answer.json()["count"] == 100
            answer = client.post("/query", content="SELECT * FROM sales")
            assert "more than 5 rows" in answer.json()["error"]["message"]
            slow = "SELECT COUNT(*) FROM range(100000000) a, range(100000000) b"
            answer = client.post("/query", content=slow)
            assert "longer than 0.3 s" in answer.json()["error"]["message"]
            assert len(rows_of(client.get("/views/totals?limit=50"))) == 5
            assert client.get("/views/totals/events").status_code == 413
            assert client.post("/query", content=b"-" * 2**21).status_code == 413


def test_a_token() -> None:
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        with serving(database, token="correct-horse", read_only=True) as served:
            assert served.client.get("/views").status_code == 200
            with httpx.Client(base_url=served.url) as stranger:
                assert stranger.get("/views").status_code == 401
                assert stranger.get("/views/totals/events").status_code == 401
                wrong = {"authorization": "Bearer wrong-token"}
                assert stranger.get("/views", headers=wrong).status_code == 401
                assert stranger.get("/healthz").status_code == 200
                assert stranger.post("/login", content="wrong").status_code == 401
                assert stranger.post("/login", content="correct-horse").status_code == 200
                assert stranger.get("/views").status_code == 200
            with pytest.raises(InvalidStatus):
                websocket(f"ws://127.0.0.1:{served.port}/views/totals/ws")
            answer = served.client.post("/query", content="DROP VIEW heavy")
            assert "read-only" in answer.json()["error"]["message"]
            answer = served.client.post("/tables/sales/rows", content=b"")
            assert "read-only" in answer.json()["error"]["message"]


def test_pages_of_other_sites_are_refused(shop: Serving) -> None:
    assert shop.client.get("/views", headers={"origin": "http://evil.example"}).status_code == 403
    assert shop.client.get("/views", headers={"host": "evil.example"}).status_code == 403
    assert shop.client.get("/views", headers={"origin": shop.url}).status_code == 200


@pytest.mark.parametrize(
    "options", [{"host": "0.0.0.0"}, {"token": "short"}, {"certificate": "c.pem"}]
)
def test_settings_that_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        ServeSettings(**options).check()


def read_events(lines: Iterator[str]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    event, number = "", 0
    for line in lines:
        kind, _, text = line.partition(": ")
        if kind == "event":
            event = text
        elif kind == "id":
            number = int(text)
        elif kind == "data":
            yield event, number, json.loads(text)


class Mirror:
    """A view rebuilt from its messages."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.version = 0
        self.snapshots = 0

    def take(self, message: dict[str, Any]) -> None:
        assert message["version"] > self.version or message["snapshot"]
        if message["snapshot"]:
            self.rows.clear()
            self.snapshots += 1
        self.version = message["version"]
        self.rows.update(json.dumps(row) for row in message["inserted"])
        self.rows.subtract(json.dumps(row) for row in message["deleted"])
        self.rows += Counter()


def contents(client: httpx.Client, view: str) -> Counter[str]:
    return Counter(json.dumps(row) for row in client.get(f"/views/{view}").json()["rows"])


def write(served: Serving, first: int, count: int) -> None:
    for number in range(first, first + count):
        served.database.insert("sales", {"id": [number], "shop": [f"s{number % 7}"]})


def test_events_have_no_gap(shop: Serving) -> None:
    mirror = Mirror()
    writer = threading.Thread(target=write, args=(shop, 100, 200))
    last = shop.database._state.version + 200
    with shop.client.stream("GET", "/views/totals/events") as answer:
        writer.start()
        for event, number, message in read_events(answer.iter_lines()):
            assert (event == "snapshot") == message["snapshot"]
            assert number == message["version"]
            mirror.take(message)
            if number >= last:
                break
    writer.join()
    assert mirror.rows == contents(shop.client, "totals")
    assert mirror.snapshots == 1


def test_a_client_that_comes_back_goes_on(shop: Serving) -> None:
    with (
        shop.client.stream("GET", "/views/totals/events") as stays,
        httpx.Client(base_url=shop.url, timeout=30) as other,
    ):
        events = read_events(stays.iter_lines())
        _, version, _ = next(events)
        write(shop, 100, 3)
        with other.stream(
            "GET", "/views/totals/events", headers={"last-event-id": str(version)}
        ) as answer:
            events = read_events(answer.iter_lines())
            found = [message for _, _, message in islice(events, 3)]
        assert [message["snapshot"] for message in found] == [False] * 3
        assert found[0]["version"] == version + 1
        with other.stream("GET", "/views/totals/events?after=1") as answer:
            event, _, _ = next(read_events(answer.iter_lines()))
        assert event == "snapshot"


def test_a_slow_client_begins_anew(shop: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "RING_MESSAGES", 10)
    monkeypatch.setattr(feeds, "QUEUED_BATCHES", 20)
    mirror = Mirror()
    last = shop.database._state.version + 400
    with websocket(f"ws://127.0.0.1:{shop.port}/views/totals/ws") as socket:
        mirror.take(json.loads(socket.recv(10)))
        write(shop, 100, 400)
        while mirror.version < last:
            mirror.take(json.loads(socket.recv(10)))
    assert mirror.rows == contents(shop.client, "totals")
    assert mirror.snapshots > 1


def test_a_view_that_is_dropped_ends_its_streams(
    shop: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewlet.server.http_app.PING_SECONDS", 0.2)
    with websocket(f"ws://127.0.0.1:{shop.port}/views/heavy/ws") as socket:
        socket.recv(10)
        shop.database.execute("DROP VIEW heavy")
        with pytest.raises(ConnectionClosed):
            socket.recv(10)


def test_metrics(shop: Serving) -> None:
    shop.client.get("/views")
    time.sleep(1.5)
    shop.database.insert("sales", {"id": [5], "shop": ["x"]})
    time.sleep(1.5)
    text = shop.client.get("/metrics").text
    assert 'viewlet_view_refreshes_total{view="totals"} 2.0' in text
    assert 'viewlet_requests_total{protocol="http",status="200"}' in text
    assert 'viewlet_view_mode{mode="eager",view="totals"} 1.0' in text
    assert 'viewlet_view_errors_total{view="totals"} 0.0' in text
    bad = shop.client.post("/query", content="INSERT INTO sales (id, shop) VALUES (5, 'twice')")
    assert bad.status_code == 400
    time.sleep(1.2)
    assert 'viewlet_view_errors_total{view="totals"} 1.0' in shop.client.get("/metrics").text
    figures = shop.client.get("/figures").json()
    assert figures["views"]["totals"]["refreshes"] == 2
    assert figures["samples"][-1]["bytes"] >= 0
    assert shop.client.get("/views/totals/explain?format=svg").text.startswith("<svg")
    assert shop.client.get("/views/totals/maps").json()["rows"] == 2


def test_json_over_many_lines(shop: Serving) -> None:
    headers = {"content-type": "application/json"}
    rows = [{"shop": "a", "n": 1}, {"shop": "b", "n": 2}]
    for value, count in ((rows, 2), (rows[0], 1), ([], 0), ([["c", 3]], 1)):
        content = json.dumps(value, indent=2)
        answer = shop.client.post("/tables/clicks/rows", content=content, headers=headers)
        assert (answer.status_code, answer.json().get("count")) == (200, count), answer.text


@contextmanager
def stalled(shop: Serving, count: int, path: str) -> Iterator[None]:
    """Clients that say that they send rows, and then send none."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{shop.port}\r\n"
        "Content-Type: application/x-ndjson\r\nContent-Length: 1000000\r\n\r\n{"
    )
    clients = [socket.create_connection(("127.0.0.1", shop.port)) for _ in range(count)]
    try:
        for client in clients:
            client.sendall(head.encode())
        yield
    finally:
        for client in clients:
            client.close()


ONE_CLICK = b'{"shop": "a", "n": 1}'


@pytest.mark.parametrize("path", ["/tables/clicks/rows", "/tables/clicks/rows?batch=10"])
def test_bodies_that_do_not_come_hold_nobody_up(shop: Serving, path: str) -> None:
    with stalled(shop, 150, path):
        began = time.monotonic()
        answer = shop.client.post(path, content=ONE_CLICK, headers={"content-type": LINES})
        assert answer.json()["count"] == 1
        assert time.monotonic() - began < 10 * slack()


def test_streams_have_a_limit(shop: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused at once, until another one ends."""
    monkeypatch.setattr(gateway, "STREAMS", 2)
    path, headers = "/tables/clicks/rows?batch=10", {"content-type": LINES}
    with stalled(shop, 2, path):
        while shop.gateway.streams < 2:
            time.sleep(0.01)
        answer = shop.client.post(path, content=ONE_CLICK, headers=headers)
        assert answer.status_code == 503
        assert "2 streams of batches are open" in answer.json()["error"]["message"]
        whole = shop.client.post("/tables/clicks/rows", content=ONE_CLICK, headers=headers)
        assert whole.json()["count"] == 1
    while shop.gateway.streams:
        time.sleep(0.01)
    assert shop.client.post(path, content=ONE_CLICK, headers=headers).json()["count"] == 1
