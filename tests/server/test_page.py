"""The live page in a real browser: what it shows, what is lit, and that it asks for little.

Its pictures are written to docs/images/serve/ when VIEWLET_SCREENSHOTS is set, else to a folder of
the test's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
from tests.server.browser import CHROMIUM, Page, browser
from tests.server.running import SHOP, Serving, serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")
ROOT = Path(__file__).parents[2]
NAMES = "document.querySelectorAll('#names li').length"
ROWS = "document.querySelectorAll('#rows tbody tr').length"
LIT = "document.querySelectorAll('#rows tbody tr.new').length"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return ROOT / "docs/images/serve" if os.environ.get("VIEWLET_SCREENSHOTS") else tmp_path


@pytest.fixture
def shop() -> Iterator[Serving]:
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        database.insert("sales", [{"id": n, "shop": f"s{n}", "price": n} for n in range(3)])
        with serving(database) as served:
            yield served


def write(page: Page, sql: str) -> None:
    """Into the editor, as if typed, and run it."""
    page.value(
        f"document.getElementById('text').value = {sql!r};"
        "document.getElementById('text').dispatchEvent(new Event('input'))"
    )
    page.click("#run")


@pytest.mark.slow
def test_rows_change_as_they_change_and_are_lit(page: Page, shop: Serving) -> None:
    page.open(shop.url + "/")
    page.wait(f"{ROWS} === 3 && document.getElementById('live').textContent === 'live'")
    assert page.value(LIT) == 0
    shop.database.insert("sales", [{"id": 9, "shop": "s1", "price": 5}])
    page.wait(f"{LIT} === 1")
    assert "6.00" in page.value("document.querySelector('#rows tr.new').innerText")
    page.wait("document.querySelector('#names li.changed')")
    assert page.problems == []


@pytest.mark.slow
def test_a_definition_from_elsewhere_appears(page: Page, shop: Serving) -> None:
    page.open(shop.url + "/")
    page.wait(f"{NAMES} === 4")
    shop.database.execute("CREATE MATERIALIZED VIEW late AS SELECT COUNT(*) AS n FROM sales")
    page.wait(f"{NAMES} === 5")
    shop.database.execute("DROP MATERIALIZED VIEW late")
    page.wait(f"{NAMES} === 4")


@pytest.mark.slow
def test_errors_of_sql_are_marked_in_the_text(page: Page, shop: Serving) -> None:
    page.open(shop.url + "/")
    page.wait(f"{NAMES} === 4")
    page.click("[data-tab=sql]")
    write(page, "SELECT shop,\n       totl FROM totals")
    page.wait("document.querySelector('#marks mark')")
    assert page.value("document.querySelector('#marks mark').textContent") == "totl"
    assert "line 2, column 8" in page.value("document.getElementById('problem').textContent")
    write(page, "INSERT INTO sales (id, shop) VALUES (77, NULL)")
    page.wait("!document.getElementById('problem').hidden")
    write(page, "SELECT shop, total FROM totals ORDER BY shop")
    page.wait("document.querySelectorAll('#answer tbody tr').length === 3")


@pytest.mark.slow
def test_two_hundred_views_and_one_of_a_million_rows(page: Page) -> None:
    with viewlet.connect() as database:
        database.execute("CREATE TABLE big (k INT PRIMARY KEY, v INT); CREATE TABLE r (a INT)")
        many = ";".join(f"CREATE VIEW v{n:03} AS SELECT COUNT(*) AS n FROM r" for n in range(199))
        database.execute(many + "; CREATE VIEW a_million AS SELECT k, v FROM big")
        database.insert("big", {"k": range(1_000_000), "v": range(1_000_000)})
        with serving(database) as served:
            page.open(served.url + "/#a_million")
            page.wait(f"{NAMES} === 202", 60)
            page.wait(f"{ROWS} === 100", 60)
            assert "1 to 100 of 1,000,000" in page.text()
            page.click("#last")
            page.wait("document.getElementById('page-text').textContent.startsWith('999,901')", 60)
            transferred = (
                "performance.getEntriesByType('resource')"
                ".filter(e => e.name.includes('a_million'))"
                ".reduce((bytes, e) => bytes + e.encodedBodySize, 0)"
            )
            assert page.value(transferred) < 100_000
            page.value("document.getElementById('filter').value = 'v19'")
            page.value("document.getElementById('filter').dispatchEvent(new Event('input'))")
            page.wait(f"{NAMES} === 9")
    assert page.problems == []


@pytest.mark.slow
def test_a_token_is_asked_for_once(page: Page) -> None:
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        with serving(database, token="a long token") as served:
            page.open(served.url + "/")
            page.wait("document.getElementById('login').open")
            page.value("document.getElementById('token').value = 'wrong'")
            page.click("#login button")
            page.wait("document.getElementById('login-problem').textContent")
            page.value("document.getElementById('token').value = 'a long token'")
            page.click("#login button")
            page.wait(f"{NAMES} === 4")


@pytest.mark.slow
def test_the_demo_in_pictures(page: Page, pictures: Path, tmp_path: Path) -> None:
    from viewlet_bench.demo.feeding import feeding

    with viewlet.connect() as database, feeding(database), serving(database) as served:
        page.open(served.url + "/")
        page.wait(f"{ROWS} > 2 && {LIT} > 0", 60)
        page.wait("performance.now() > 4000")
        page.screenshot(pictures / "rows.png")
        page.click("[data-pane=program]")
        page.wait("document.querySelector('#graph svg')")
        box = "document.querySelector('#graph svg').getAttribute('viewBox')"
        before = page.value(box)
        wheel = "new WheelEvent('wheel', {deltaY: -200, clientX: 700, clientY: 400, bubbles: true})"
        page.value(f"document.getElementById('graph').dispatchEvent({wheel})")
        assert page.value(box) != before
        page.value("document.getElementById('graph').dispatchEvent(new MouseEvent('dblclick'))")
        page.screenshot(pictures / "program.png")
        page.click("[data-pane=maintenance]")
        page.wait("document.getElementById('maintenance-text').textContent.includes('eager')")
        page.click("[data-tab=activity]")
        page.click("#theme")
        page.wait("document.querySelectorAll('#batches tbody tr').length > 5")
        page.wait("document.querySelectorAll('#plots figure').length === 5")
        database.checkpoint(str(tmp_path / "checkpoint"))
        page.wait("document.querySelectorAll('#checkpoints tbody tr').length === 1")
        page.screenshot(pictures / "activity.png")
        page.click("[data-tab=sql]")
        write(page, "SELECT segment, revenu FROM revenue\nORDER BY segment")
        page.wait("document.querySelector('#marks mark')")
        page.screenshot(pictures / "sql.png")
        page.click("[data-tab=views]")
        page.click("[data-pane=program]")
        page.wait("document.querySelector('#graph svg')")
        page.screenshot(pictures / "program-dark.png")
        page.click("#theme")
    assert [problem for problem in page.problems if "/query" not in problem] == []


@pytest.mark.slow
def test_the_time_of_statements_is_in_the_program(page: Page) -> None:
    with viewlet.connect() as database:
        database.execute(SHOP)
        with serving(database) as served:
            for number in range(10):
                database.insert("sales", [{"id": number, "shop": "s"}])
            page.open(served.url + "/#totals")
            page.click("[data-pane=program]")
            page.wait("document.querySelector('#graph path title')")
            tips = page.value(
                "[...document.querySelectorAll('#graph path title')].map(t => t.textContent)"
            )
    assert any("on sales:" in tip and "% of the time" in tip for tip in tips)


@pytest.mark.slow
def test_the_interface_has_a_page(page: Page, shop: Serving) -> None:
    page.open(shop.url + "/api")
    page.wait("document.querySelectorAll('#reference section').length > 10")
    text = page.text()
    assert "/tables/{name}/rows" in text
    assert "text/event-stream" in text
    assert page.problems == []
