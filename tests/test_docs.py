"""Every block in README and docs is run, and what pages show is what viewlet prints today.

python           executed, all blocks of a page in order and in one namespace
sql              compiled; "-- file: NAME" on its first line also writes it down for `sh`
sh               every line is run in the page's directory; `make` targets must exist. A server with
                 `&` behind it is there for the rest of the page
calculus, ...    in architecture.md: compared with the output of `viewlet explain --stage`
kernels          there, too: some lines of that output, in their order
yaml, ini, dockerfile    of deployments; test_cookbook.py runs what they start
text             what something prints, or a part of it: compared where a test below says so
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import viewlet
from tests import sql_tables
from viewlet.cli import app
from viewlet.engine.values.batching import make_batch
from viewlet.pipeline.compile_file import compile_text
from viewlet.program.fill_plan import fill_plan, fill_text

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ARCHITECTURE = ROOT / "docs/architecture.md"
STAGES = ("sql", "calculus", "program", "distributed")
SLOW = ("linalg.md", "signals.md", "spark-guide.md")
"""Pages whose blocks start Spark or compile long."""

ELSEWHERE = ("howto.md",)
"""Pages that add things to the library: test_howto.py runs them, and takes the things away."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


@contextmanager
def background(command: str, directory: Path) -> Iterator[int]:
    """A server that a line of shell starts; its port, once it listens there."""
    words = shlex.split(command.removesuffix("&"))
    port = int(words[words.index("--port") + 1])
    server = subprocess.Popen(
        words, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    )
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert server.poll() is None, command
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(30)


class Page:
    """Runs the blocks of one page in order."""

    def __init__(self, page: Path, directory: Path) -> None:
        self.page = page
        self.directory = directory
        self.names: dict[str, Any] = {"__name__": "docs"}
        self.output = ""
        self.servers = ExitStack()

    def run(self) -> None:
        with self.servers:
            self._run()

    def _run(self) -> None:
        for kind, text in blocks(self.page):
            if kind == "python":
                exec(compile(text, self.page.name, "exec", dont_inherit=True), self.names)
            elif kind == "sql":
                compile_text(text)
                named = re.match(r"-- file: (\S+)\n", text)
                if named:
                    (self.directory / named.group(1)).write_text(text)
            elif kind == "sh":
                for line in text.splitlines():
                    self.shell(line)
            else:
                known = ("text", "kernels", "yaml", "ini", "dockerfile", *STAGES)
                assert kind in known, f"{self.page.name}: nobody runs a {kind} block"

    def shell(self, line: str) -> None:
        command = line.partition("  #")[0].strip()
        if command.startswith("make "):
            target = command.split()[1]
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
            return
        if command.startswith("viewlet "):
            command = f"{sys.executable} -m viewlet.cli {command.partition(' ')[2]}"
        if command.endswith("&"):
            self.servers.enter_context(background(command, self.directory))
            return
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.directory,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        self.output += done.stdout


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page.name in SLOW else page
        for page in PAGES
        if page.name not in ELSEWHERE
    ],
    ids=lambda page: page.name,
)
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Page(page, tmp_path).run()


def test_quickstart_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Page(ROOT / "docs/quickstart.md", tmp_path)
    page.run()
    (shown,) = [text for kind, text in blocks(page.page) if kind == "text"]
    assert shown in page.output


@pytest.mark.parametrize("stage", STAGES)
def test_architecture_shows_the_real_stage(stage: str, tmp_path: Path) -> None:
    assert explained(stage, tmp_path).strip() == dict(blocks(ARCHITECTURE))[stage].strip()


def test_architecture_shows_the_real_fill_plan() -> None:
    db = viewlet.connect("interpreter")
    programs = [db._engine.program]
    texts = (
        dict(blocks(ARCHITECTURE))["sql"],
        "CREATE VIEW w AS SELECT b, COUNT(*) AS n FROM r GROUP BY b",
    )
    for text in texts:
        db.execute(text)
        programs.append(db._engine.program)
    plan = fill_text(fill_plan(*programs[-2:], ["r", "s"], {}))
    assert ("text", plan) in blocks(ARCHITECTURE)
    assert texts[1] in ARCHITECTURE.read_text()


def test_architecture_shows_lines_of_the_real_kernels(tmp_path: Path) -> None:
    printed = iter([line.strip() for line in explained("kernels", tmp_path).splitlines()])
    for line in dict(blocks(ARCHITECTURE))["kernels"].splitlines():
        assert line.strip() in printed, f"not there, or not in this order: {line}"


def test_architecture_shows_the_real_batch(tmp_path: Path) -> None:
    """The lines of the picture that say what a batch, a map or a view holds."""
    texts = [text for kind, text in blocks(ARCHITECTURE) if kind == "text"]
    picture = next(text for text in texts if text.startswith('db.insert("s", ['))
    lines = {line.split()[0]: line for line in picture.splitlines()}
    page = Page(ARCHITECTURE, tmp_path)
    page.run()
    database = page.names["db"]
    relation = database._state.definitions.relation("s")
    batch = make_batch(relation, [(2, "5.00"), (2, "0.50")])
    b, c = (", ".join(map(str, column)) for column in batch.columns)
    assert f"b: {b}    c: {c}    weights: 1, 1" in lines["batch"]
    weights = database._engine._engine.reader.weights
    for name, column, size in (("v", "sum", 2), ("m_s", "sum_s_c", 1)):
        totals = dict(weights(name, column).items())
        assert len(totals) == size
        for (key, *_), count in weights(name, "count").items():
            assert f"{name}[{key}]: (0, 0) -> ({count}, {totals[key,]})" in lines["maps"]
    assert all(f"+ ({row.a}, {row.total})" in lines["view"] for row in database.view("v").rows())


def explained(stage: str, directory: Path) -> str:
    """The view of the architecture page at a stage."""
    source = directory / "view.sql"
    source.write_text(dict(blocks(ARCHITECTURE))["sql"])
    result = CliRunner().invoke(app, ["explain", str(source), "--stage", stage])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_picture_is_of_the_view(tmp_path: Path) -> None:
    page = dict(blocks(ROOT / "docs/how-it-works.md"))
    drawn = CliRunner().invoke(
        app, ["explain", str(ROOT / "docs/how-it-works.sql"), "--format", "svg"]
    )
    assert drawn.output == (ROOT / "docs/images/program.svg").read_text()
    assert (ROOT / "docs/how-it-works.sql").read_text() in page["sql"]


def test_the_plan_is_of_the_view(tmp_path: Path) -> None:
    """The first view of the page on joins, its plan below it."""
    (_, sql), (_, plan), *_ = blocks(ROOT / "docs/joins.md")
    source = tmp_path / "films.sql"
    source.write_text(sql)
    shown = CliRunner().invoke(app, ["explain", str(source), "--stage", "plan"])
    assert shown.output == plan


def test_tables_are_those_of_the_tests() -> None:
    page = sql_tables.PAGE.read_text()
    assert sql_tables.with_tables(page) == page, "run python -m tests.sql_tables"


def test_nothing_that_a_page_needs_is_hidden() -> None:
    assert [
        page.name for page in PAGES if re.search(r"<!-- (python|sh|sql)", page.read_text())
    ] == []


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#\s]+)\)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
