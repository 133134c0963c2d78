"""The cookbook's files start what they say: the unit, the container, Grafana's source."""

from __future__ import annotations

import configparser
import shlex
import sys
import tomllib
import urllib.request
from pathlib import Path

import yaml

from tests.test_docs import ROOT, background, blocks

FILES = dict(blocks(ROOT / "docs/cookbook.md"))


def answers(command: list[str], directory: Path) -> str:
    """What a server that is started so says of its health, on loopback and on other ports."""
    exchanged = {"8080": "8767", "5433": "5767", "0.0.0.0": "127.0.0.1"}
    line = shlex.join([exchanged.get(word, word) for word in command])
    with background(f"{line} &", directory) as port:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read().decode()


def as_module(command: list[str]) -> list[str]:
    assert Path(command[0]).name == "viewlet"
    return [sys.executable, "-m", "viewlet.cli", *command[1:]]


def test_the_unit_starts_a_server(tmp_path: Path) -> None:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(FILES["ini"])
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    command = as_module(shlex.split(unit["Service"]["ExecStart"]))
    assert "ok" in answers(command, tmp_path)
    assert (tmp_path / "shop.viewlet").is_dir()


def test_the_container_starts_a_server(tmp_path: Path) -> None:
    lines = FILES["dockerfile"].splitlines()
    words = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}
    extra = words["RUN"].partition("viewlet[")[2].partition("]")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"]
    minor = int(words["FROM"].partition("python:3.")[2].partition("-")[0])
    assert f"3.{minor + 1}" in project["requires-python"]
    assert "ok" in answers(as_module(yaml.safe_load(words["CMD"])), tmp_path)


def test_the_source_of_grafana_is_the_wire() -> None:
    (source,) = yaml.safe_load(FILES["yaml"])["datasources"]
    assert source["type"] == "postgres"
    (line,) = [line for line in FILES["sh"].splitlines() if "--pg-port" in line]
    assert f"--pg-port {source['url'].rpartition(':')[2]}" in line
