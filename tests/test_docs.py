"""The texts in docs/architecture.md are what viewlet prints today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from viewlet.interfaces.cli import app

PAGE = Path(__file__).parents[1] / "docs/architecture.md"


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize("stage", ["sql", "calculus", "program"])
def test_architecture_shows_the_real_stage(stage: str, tmp_path: Path) -> None:
    source = tmp_path / "view.sql"
    source.write_text(block("sql"))
    result = CliRunner().invoke(app, ["explain", str(source), "--stage", stage])
    assert result.exit_code == 0, result.output
    assert result.output.strip() == block(stage).strip()


def test_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (PAGE.parents[1] / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert "Decimal('9.50')" in capsys.readouterr().out
