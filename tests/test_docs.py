"""Every block in README and docs is run, and what pages show is what viewlet prints today.

python           executed, all blocks of a page in order and in one namespace
<!-- python      the same, for what a page needs and a reader does not
sql              compiled; "-- file: NAME" on its first line also writes it down for `sh`
sh               every line is run in the page's directory; `make` targets must exist
calculus, ...    in architecture.md: compared with the output of `viewlet explain --stage`
text             what something prints, or a part of it: compared where a test below says so
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests import sql_tables
from viewlet.interfaces.cli import app
from viewlet.interfaces.pipeline import compile_text

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ARCHITECTURE = ROOT / "docs/architecture.md"
STAGES = ("sql", "calculus", "program", "distributed")
SLOW = ("linalg.md", "signals.md", "spark-guide.md")
"""Pages whose blocks start Spark or compile long."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|^<!-- (python)\n(.*?)^-->$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(a or c, b or d) for a, b, c, d in BLOCK.findall(page.read_text())]


class Page:
    """Runs the blocks of one page in order."""

    def __init__(self, page: Path, directory: Path) -> None:
        self.page = page
        self.directory = directory
        self.names: dict[str, Any] = {"__name__": "docs"}
        self.output = ""

    def run(self) -> None:
        for kind, text in blocks(self.page):
            if kind == "python":
                exec(compile(text, self.page.name, "exec"), self.names)
            elif kind == "sql":
                compile_text(text)
                named = re.match(r"-- file: (\S+)\n", text)
                if named:
                    (self.directory / named.group(1)).write_text(text)
            elif kind == "sh":
                for line in text.splitlines():
                    self.shell(line)
            else:
                assert kind in ("text", *STAGES), f"{self.page.name}: nobody runs a {kind} block"

    def shell(self, line: str) -> None:
        command = line.partition("  #")[0].strip()
        if command.startswith("make "):
            target = command.split()[1]
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
            return
        if command.startswith("viewlet "):
            command = f"{sys.executable} -m viewlet.interfaces.cli {command.partition(' ')[2]}"
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
    [pytest.param(p, marks=pytest.mark.slow) if p.name in SLOW else p for p in PAGES],
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
    found = dict(blocks(ARCHITECTURE))
    source = tmp_path / "view.sql"
    source.write_text(found["sql"])
    result = CliRunner().invoke(app, ["explain", str(source), "--stage", stage])
    assert result.exit_code == 0, result.output
    assert result.output.strip() == found[stage].strip()


def test_the_picture_is_of_the_view(tmp_path: Path) -> None:
    page = dict(blocks(ROOT / "docs/how-it-works.md"))
    drawn = CliRunner().invoke(
        app, ["explain", str(ROOT / "docs/how-it-works.sql"), "--format", "svg"]
    )
    assert drawn.output == (ROOT / "docs/images/program.svg").read_text()
    assert (ROOT / "docs/how-it-works.sql").read_text() in page["sql"]


def test_tables_are_those_of_the_tests() -> None:
    page = sql_tables.PAGE.read_text()
    assert sql_tables.with_tables(page) == page, "run python -m tests.sql_tables"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
