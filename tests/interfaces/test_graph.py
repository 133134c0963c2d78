"""Pictures and tables: whole, readable, and about what is there."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
import viewlet_bench
from viewlet.errors import ViewletError
from viewlet.interfaces.database import Database
from viewlet.interfaces.graph import Drawing, draw
from viewlet.interfaces.layout import LayoutLine, LayoutNode, arrange, spread
from viewlet.pipeline.compile_file import compile_text

SVG = "{http://www.w3.org/2000/svg}"
QUERIES = Path(viewlet_bench.__file__).parent / "sql/tpch"


@pytest.fixture
def db() -> Database:
    db = viewlet.connect(engine="interpreter")
    db.execute(
        "CREATE TABLE r (a INT, b VARCHAR); CREATE STREAM s (b VARCHAR, c DECIMAL(12,2));"
        "CREATE VIEW v AS SELECT r.a, SUM(s.c) AS total FROM r JOIN s ON r.b = s.b GROUP BY r.a"
    )
    return db


def boxes(picture: str) -> dict[str, tuple[float, float, float, float]]:
    """Every box by the first line of its text: x, y, width, height."""
    sides_by_text = {}
    for group in ET.fromstring(picture).iter(f"{SVG}g"):
        rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        if rect is not None and text is not None:
            sides = (float(rect.get(side, "")) for side in ("x", "y", "width", "height"))
            sides_by_text["".join(text[0].itertext())] = tuple(sides)
    return sides_by_text  # type: ignore[return-value]


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
    rectangles = list(boxes(picture).values())
    assert len(rectangles) >= len(program.maps) + len(program.triggers) + len(program.views)
    for at, (x, y, w, h) in enumerate(rectangles):
        assert x >= 0 and x + w <= width and y >= 0 and y + h <= height
        for x2, y2, w2, h2 in rectangles[:at]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def points(path: str) -> Iterator[tuple[float, float]]:
    """Places along a path of M, H and C."""
    words = re.findall(r"[MHC]|-?[\d.]+", path)
    x = y = 0.0
    while words:
        command = words.pop(0)
        if command == "M":
            x, y = float(words.pop(0)), float(words.pop(0))
        elif command == "H":
            x = float(words.pop(0))
        else:
            (a, b, c, d, e, f), words = map(float, words[:6]), words[6:]
            for share in (0.1, 0.25, 0.5, 0.75, 0.9):
                complement = 1 - share
                yield (
                    complement**3 * x
                    + 3 * complement**2 * share * a
                    + 3 * complement * share**2 * c
                    + share**3 * e,
                    complement**3 * y
                    + 3 * complement**2 * share * b
                    + 3 * complement * share**2 * d
                    + share**3 * f,
                )
            x, y = e, f
        yield x, y


@pytest.mark.parametrize("name", ["q3", "q5", "q17", "q18"])
def test_lines_go_around_boxes(name: str) -> None:
    text = (QUERIES / "schema.sql").read_text() + (QUERIES / f"{name}.sql").read_text()
    _, program = compile_text(text)
    picture = draw(program)
    rectangles = boxes(picture)
    paths = [path.get("d", "") for path in ET.fromstring(picture).iter(f"{SVG}path")]
    assert len(paths) > len(program.maps)
    for path in paths:
        for x, y in points(path):
            behind = [
                box
                for box, (left, top, width, height) in rectangles.items()
                if left + 1 < x < left + width - 1 and top + 1 < y < top + height - 1
            ]
            assert not behind, path


def test_places_are_as_near_as_distances_allow() -> None:
    assert spread([0.0, 0.0], [10.0]) == [-5.0, 5.0]
    assert spread([0.0, 50.0, 51.0], [10.0, 10.0]) == [0.0, 45.5, 55.5]
    assert spread([5.0, 0.0, 0.0], [1.0, 1.0]) == pytest.approx([2 / 3, 5 / 3, 8 / 3])
    assert spread([], []) == []


def test_lines_back_and_within_a_layer() -> None:
    """Against the stream a line ends at the right side; within a layer it goes around the left."""
    left, right, below = LayoutNode(0, 40, 20), LayoutNode(2, 40, 20), LayoutNode(2, 40, 20)
    middle = LayoutNode(1, 40, 20)
    back, level, loop = (
        LayoutLine(right, left),
        LayoutLine(right, below),
        LayoutLine(middle, middle),
    )
    arrange([left, middle, right, below], [back, level, loop])
    assert back.end[0] == left.x + left.width
    assert len(back.chain) == 3
    assert level.end[0] == below.x
    assert min(x for x, _ in points(level.path)) < below.x
    assert loop.end == (middle.x + 14, middle.y)


def test_formats_that_do_not_exist(db: Database) -> None:
    with pytest.raises(ViewletError, match="there is no format png"):
        db.explain("v", format="png")
    with pytest.raises(ViewletError, match="show the stage program"):
        db.explain("v", "sql", format="svg")


def test_views_are_tables(db: Database) -> None:
    db.insert("r", [(n, "<x>") for n in range(30)] + [(None, "<x>")])
    db.insert("s", [("<x>", "1.50")])
    text = db.view("v")._repr_html_()
    table = ET.fromstring(text).find("table")
    assert table.findtext("caption") == "v: 31 rows, the first 20"
    assert len(table.findall("tbody/tr")) == 20
    heads = [(head.text, head.findtext("small")) for head in table.iter("th")]
    assert heads == [("a", "INTEGER"), ("total", "DECIMAL(38,2)")]
    assert "1.50" in text
    db.execute("CREATE VIEW w AS SELECT b, a FROM r")
    assert "&lt;x&gt;" in db.view("w")._repr_html_()


def test_databases_are_tables(db: Database) -> None:
    rows = [[cell.text for cell in row] for row in ET.fromstring(db._repr_html_()).iter("tr")]
    assert ["table", "r", "a INTEGER, b VARCHAR"] in rows
    assert ["stream", "s", "b VARCHAR, c DECIMAL(12,2)"] in rows
    assert ["view", "v", "a INTEGER, total DECIMAL(38,2)"] in rows
