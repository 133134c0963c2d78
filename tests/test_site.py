"""The pages as a site: built strictly, with nothing that a browser would fetch from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]

FETCHED = re.compile(
    r"""<(?:script|img|iframe|audio|video|source)\b[^>]*\bsrc=["']?(https?:)?//"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon)["']?[^>]*href=["']?(https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(https?:)?//|url\(["']?(https?:)?//"""
)
"""What a browser asks others for; links that a reader clicks on are none."""


def test_the_site_is_whole_and_alone(tmp_path: Path) -> None:
    """Strict: a link, an anchor or a page of the menu that is not there ends the build."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    pages = {page.name for page in tmp_path.glob("*.html")} - {"404.html"}
    assert pages == {f"{page.stem}.html" for page in (ROOT / "docs").glob("*.md")}
    asked = [
        f"{file.relative_to(tmp_path)}: {match[0]}"
        for kind in ("*.html", "*.css")
        for file in tmp_path.rglob(kind)
        for match in FETCHED.finditer(file.read_text())
    ]
    assert asked == []


def test_every_page_is_in_the_menu() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    text = str(menu)
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in text] == []
