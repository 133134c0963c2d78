"""What notebooks show: HTML, and a widget that follows a view, drawn by a real browser."""

from __future__ import annotations

import base64
import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.server.browser import CHROMIUM, browser

import viewlet
import viewlet.notebook
from viewlet.errors import ResolutionError, TypingError, ViewletError
from viewlet.interfaces.database import Database
from viewlet.notebook import widget as widgets


@pytest.fixture
def shop() -> Iterator[Database]:
    with viewlet.connect("interpreter") as db:
        db.execute("CREATE TABLE sales (day DATE, town VARCHAR, paid DECIMAL(12,2), n INT)")
        db.execute(
            """
            CREATE VIEW by_town AS
            SELECT town, SUM(paid) AS paid, SUM(n) AS n FROM sales GROUP BY town;
            CREATE VIEW by_day AS
            SELECT day, SUM(paid) AS paid, SUM(n) AS n FROM sales GROUP BY day
            """
        )
        db.insert("sales", [("2026-03-02", "Bern", "1234.50", 3), ("2026-03-01", "<b>", None, 4)])
        yield db


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_table_follows_its_view(shop: Database) -> None:
    live = viewlet.notebook.live(shop, "by_town", rows=2)
    first = live.contents
    assert [column["name"] for column in first["columns"]] == ["town", "paid", "n"]
    assert first["columns"][1] == {"name": "paid", "type": "DECIMAL(38,2)", "is_number": True}
    assert sorted(map(tuple, first["texts"]), key=str) == [
        ("<b>", None, "4"), ("Bern", "1,234.50", "3"),
    ]  # fmt: skip
    assert (first["key"], first["total"]) == ([0], 2)
    json.dumps(first)
    for n in range(50):
        shop.insert("sales", [("2026-03-02", "Bern", "1.00", 1), ("2026-03-03", str(n), "1", 1)])
    until(lambda: live.contents["total"] == 52)
    assert len(live.contents["rows"]) == 2
    assert live.contents["version"] == first["version"] + 50
    live.close()
    shop.insert("sales", ("2026-03-02", "Bern", "1.00", 1))
    time.sleep(0.3)
    assert live.contents["version"] == first["version"] + 50
    assert shop.stats("by_town").subscribers == 0


def test_a_plot_is_sorted_by_its_axis(shop: Database) -> None:
    live = viewlet.notebook.live(shop, "by_day", plot="line")
    assert live.contents["x"] == {"name": "day", "labels": ["2026-03-01", "2026-03-02"]}
    assert [one["name"] for one in live.contents["series"]] == ["paid", "n"]
    assert live.contents["series"][0]["values"] == [None, 1234.5]
    low, high = live.contents["positions"]
    assert high - low == 86_400_000
    live.close()


def test_nothing_is_left_of_a_forgotten_widget(shop: Database) -> None:
    before = threading.active_count()
    live = viewlet.notebook.live(shop, "by_town")
    live.comm = None  # what a kernel holds of it
    assert shop.stats("by_town").subscribers == 1
    widgets.LiveView.close_all()
    del live
    gc.collect()
    until(lambda: threading.active_count() <= before)
    assert shop.stats("by_town").subscribers == 0


def test_a_closed_database_ends_the_widget(shop: Database) -> None:
    live = viewlet.notebook.live(shop, "by_town")
    shop.execute("DROP VIEW by_town")
    live._changed.set()
    until(lambda: "by_town: " in live.title)
    live.close()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rows": 0}, TypingError, "rows=0"),
        ({"plot": "pie"}, ResolutionError, "no plot .pie"),
        ({"x": "town"}, TypingError, "of a plot"),
        ({"plot": "bar", "y": "nothing"}, ResolutionError, "no column nothing"),
        ({"plot": "bar", "x": "n", "y": ["town"]}, TypingError, "is VARCHAR"),
    ],
)
def test_wrong_calls(shop: Database, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        viewlet.notebook.live(shop, "by_town", **options)
    with pytest.raises(ViewletError, match="nothing"):
        viewlet.notebook.live(shop, "nothing")
    assert shop.stats("by_town").subscribers == 0


# --- drawn ----------------------------------------------------------------------------------------

PAGE = """
<!doctype html><meta charset="utf-8"><style>%(css)s body { color-scheme: light dark; }</style>
<div id="cell"></div>
<script type="module">
const module = await import("data:text/javascript;base64,%(script)s");
const heard = {};
window.state = %(state)s;
const model = { get: (name) => window.state[name], off: () => {},
  on: (name, call) => { (heard[name] ??= []).push(call); } };
module.default.render({ model, el: document.getElementById("cell") });
window.change = (contents) => {
  window.state.contents = contents;
  heard["change:contents"].forEach((f) => f());
};
window.ready = true;
</script>
"""


def drawn(live: Any, directory: Path) -> str:
    """The address of a page that holds the widget as a notebook would."""
    script = base64.b64encode(Path(widgets._HERE / "widget.js").read_bytes()).decode()
    state = json.dumps({"contents": live.contents, "title": live.title}).replace("</", "<\\/")
    page = directory / "cell.html"
    css = Path(widgets._HERE / "widget.css").read_text()
    page.write_text(PAGE % {"css": css, "script": script, "state": state})
    return page.as_uri()


@pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")
def test_a_browser_draws_what_is_sent(shop: Database, tmp_path: Path) -> None:
    with browser() as page:
        live = viewlet.notebook.live(shop, "by_town")
        page.open(drawn(live, tmp_path))
        page.wait("window.ready === true")
        text = page.value("document.querySelector('.viewlet-live').innerText")
        assert "by_town" in text
        assert "2 rows" in text
        assert "1,234.50" in text
        assert "<b>" in text
        assert "DECIMAL(38,2)" in text
        lit = "Array.from(document.querySelectorAll('td.lit')).map((cell) => cell.innerText)"
        assert page.value(lit) == []
        shop.insert("sales", [("2026-03-02", "Bern", "0.50", 0), ("2026-03-02", "Chur", "7", 1)])
        until(lambda: live.contents["total"] == 3)
        page.value(f"window.change({json.dumps(live.contents)})")
        assert sorted(page.value(lit)) == ["1", "1,235.00", "7.00", "Chur"]
        live.close()
        for kind, shapes in (("line", "svg path"), ("bar", "svg rect")):
            live = viewlet.notebook.live(shop, "by_day", plot=kind)
            page.open(drawn(live, tmp_path))
            page.wait("window.ready === true")
            assert page.value(f"document.querySelectorAll('{shapes}').length") >= 2
            labels = page.value(
                "Array.from(document.querySelectorAll('svg text')).map((t) => t.textContent)"
            )
            assert "2026-03-02" in labels
            assert "500" in labels or "1,000" in labels
            assert page.value("document.querySelector('.legend').innerText").split() == [
                "paid", "n", "by", "day",
            ]  # fmt: skip
            live.close()
        assert page.problems == []


# --- HTML -----------------------------------------------------------------------------------------


def test_figures_and_stages_are_html(shop: Database) -> None:
    root = ET.fromstring(shop.stats("by_town")._repr_html_())
    figures = {row[0].text: row[1].text for row in root.findall("table")[0].iter("tr")}
    assert figures["rows"] == "2"
    assert {"p50 ms", "code s", "maintenance"} <= set(figures)
    maps = [[cell.text for cell in row] for row in root.findall("table")[1].findall("tbody/tr")]
    assert maps[0][0] == "by_town"
    text = shop.explain("by_town")
    assert isinstance(text, str)
    shown = ET.fromstring(text._repr_html_()).find("pre")
    assert "".join(shown.itertext()) == str(text)
    assert len(shown.findall("b")) > 2
    html = shop.view("by_town")._repr_html_()
    assert "1,234.50" in html
    assert "px;" not in html.partition("</style>")[0].replace("font-size: 13px;", "").replace(
        "margin: 2px 0 8px;", ""
    ).replace("padding: 3px 10px;", "")  # no width in pixels


FIRST_CELL = """
import builtins, sys, time, warnings
warnings.simplefilter("error")
class ZMQInteractiveShell: pass
ZMQInteractiveShell.__module__ = "ipykernel.zmqshell"
builtins.get_ipython = lambda: ZMQInteractiveShell()
builtins.__IPYTHON__ = True
sys.modules["ipywidgets"] = None
import viewlet
from viewlet.interfaces import progress
progress.PATIENCE_SECONDS = 0.0
with viewlet.connect() as db:
    db.execute("CREATE TABLE r (a INT)")
    db.execute("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM r GROUP BY a")
    with progress.waiting("compiling"):
        time.sleep(0.3)
    db.insert("r", [(1,)])
    print(db.view("v").rows(), len(db.view("v")._repr_html_()) > 100)
"""


def test_the_first_cell_warns_of_nothing() -> None:
    """Without ipywidgets rich would ask for it as soon as a bar comes."""
    done = subprocess.run([sys.executable, "-c", FIRST_CELL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[V(a=1,", "n=1)]", "True"]
    assert done.stderr == ""
