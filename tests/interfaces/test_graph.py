"""Pictures and tables: whole, readable, and about what is there."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import viewlet
from viewlet.errors import ViewletError
from viewlet.interfaces.api import Database
from viewlet.interfaces.graph import Drawing, draw
from viewlet.interfaces.pipeline import compile_text

SVG = "{http://www.w3.org/2000/svg}"
QUERIES = Path(viewlet.__file__).parent / "interfaces/bench/sql/tpch"


@pytest.fixture
def db() -> Database:
    made = viewlet.connect(engine="interpreter")
    made.execute(
        "CREATE TABLE r (a INT, b VARCHAR); CREATE STREAM s (b VARCHAR, c DECIMAL(12,2));"
        "CREATE VIEW v AS SELECT r.a, SUM(s.c) AS total FROM r JOIN s ON r.b = s.b GROUP BY r.a"
    )
    return made


def boxes(picture: str) -> dict[str, tuple[float, float, float, float]]:
    """Every box by the first line of its text: x, y, width, height."""
    found = {}
    for group in ET.fromstring(picture).iter(f"{SVG}g"):
        rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        if rect is not None and text is not None:
            sides = (float(rect.get(side, "")) for side in ("x", "y", "width", "height"))
            found["".join(text[0].itertext())] = tuple(sides)
    return found  # type: ignore[return-value]


def test_every_map_batch_and_view_is_drawn(db: Database) -> None:
    picture = db.explain("v", format="svg")
    assert isinstance(picture, Drawing)
    assert picture._repr_svg_() == picture
    shown = boxes(picture)
    report = json.loads(db.explain("v", format="json"))
    for map in report["maps"]:
        assert any(name.startswith(f"{map['name']}[") for name in shown)
    assert {"Δr", "Δs", "view v"} <= set(shown)
    assert shown["Δr"][0] < min(x for name, (x, *_) in shown.items() if name[0] != "Δ")
    assert shown["view v"][0] == max(x for x, *_ in shown.values())


@pytest.mark.parametrize("name", ["q3", "q5", "q17", "q18"])
def test_boxes_do_not_overlap(name: str) -> None:
    text = (QUERIES / "schema.sql").read_text() + (QUERIES / f"{name}.sql").read_text()
    _, program = compile_text(text)
    picture = draw(program)
    root = ET.fromstring(picture)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    found = list(boxes(picture).values())
    assert len(found) >= len(program.maps) + len(program.triggers) + len(program.views)
    for at, (x, y, w, h) in enumerate(found):
        assert x >= 0 and x + w <= width and y >= 0 and y + h <= height
        for x2, y2, w2, h2 in found[:at]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_formats_that_do_not_exist(db: Database) -> None:
    with pytest.raises(ViewletError, match="there is no format png"):
        db.explain("v", format="png")
    with pytest.raises(ViewletError, match="show the stage program"):
        db.explain("v", "sql", format="svg")


def test_views_are_tables(db: Database) -> None:
    db.insert("r", [(n, "<x>") for n in range(30)] + [(None, "<x>")])
    db.insert("s", [("<x>", "1.50")])
    text = db.view("v")._repr_html_()
    table = ET.fromstring(text)
    assert table.findtext("caption") == "v: 31 rows, the first 20"
    assert len(table.findall("tbody/tr")) == 20
    assert "1.50" in text
    db.execute("CREATE VIEW w AS SELECT b, a FROM r")
    assert "&lt;x&gt;" in db.view("w")._repr_html_()


def test_databases_are_tables(db: Database) -> None:
    rows = [[cell.text for cell in row] for row in ET.fromstring(db._repr_html_()).iter("tr")]
    assert ["table", "r", "a INTEGER, b VARCHAR"] in rows
    assert ["stream", "s", "b VARCHAR, c DECIMAL(12,2)"] in rows
    assert ["view", "v", "a INTEGER, total DECIMAL(38,2)"] in rows
