"""Imports point one way, and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "viewlet"
MODULES = sorted(SOURCE.rglob("*.py"))

BASE = {"errors", "extras", "schema", "functions", "names", "garbage", "ownership"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "extras": {"errors"},
    "names": set(),
    "garbage": set(),
    "ownership": set(),
    "schema": {"errors"},
    "functions": {"errors", "schema"},
    "calculus": BASE,
    "frontend": BASE | {"calculus"},
    "program": BASE | {"calculus"},
    "planner": BASE | {"calculus", "frontend", "program"},
    "distributed": BASE | {"calculus", "program"},
    "native": {"errors", "garbage", "ownership"},
    "storage": BASE | {"native"},
    "kernels": BASE | {"calculus", "program", "storage", "native"},
    "engine.values": BASE | {"calculus", "kernels", "storage", "engine"},
    "engine.host": BASE | {"calculus", "program", "kernels", "storage", "engine", "engine.values"},
    "engine.durable": {"errors"},
    "engine.partitions": {"errors", "extras", "ownership", "engine.durable"},
}
"""Package -> the packages that it may import, itself left out; the larger ones are built below."""

ENGINE = {"engine", "engine.values"}
LOWER = BASE | {"calculus", "program", "distributed", "storage", "kernels", "native"}
ALLOWED |= {
    "engine": LOWER | {"engine.values", "engine.durable"},
    "engine.local": LOWER | ENGINE | {"engine.host", "engine.durable"},
    "engine.spark": LOWER | ENGINE | {"engine.host", "engine.durable", "engine.partitions"},
    "linalg": BASE | {"storage", "engine.durable", "engine.partitions"},
    "signals": BASE | {"storage", "engine.durable", "engine.partitions"},
}
ROOMS = {package for package in ALLOWED if "." in package}
EVERYTHING = set(ALLOWED)
ALLOWED |= {
    "interfaces": EVERYTHING,
    "pipeline": EVERYTHING | {"interfaces"},
    "dbapi": EVERYTHING | {"interfaces"},
    "notebook": EVERYTHING | {"interfaces"},
    "server": EVERYTHING | {"interfaces"},
    "cli": EVERYTHING | {"interfaces", "pipeline", "server"},
}

LIBRARIES: dict[str, tuple[str, ...]] = {
    "sqlglot": ("frontend/", "pipeline/pipeline_text.py"),
    "numba": ("signals/kernels/",),
    "llvmlite": ("native/", "signals/kernels/"),
    "pyspark": (
        "engine/partitions/",
        "engine/spark/",
        "linalg/",
        "signals/",
        "interfaces/",
        "pipeline/",
    ),
    "duckdb": ("interfaces/",),
    "viewlet_bench": ("cli.py",),
}
"""Library -> where it may be imported."""

LAZY = {"pyspark", "duckdb", "pandas", "polars", "matplotlib"}
"""Libraries that are imported inside functions only, so that nobody pays who does not use them."""

EAGER = {"pandas": ("viewlet_bench/",)}
"""Where such a library is what the module is about, and nothing else imports the module."""


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module, and whether the import is at the top of the file.

    Imports under TYPE_CHECKING are for the type checker alone and do not count as run.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for scope in ast.walk(tree)
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) or is_type_checking(scope)
        for node in ast.walk(scope)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            if module == "viewlet":
                for alias in node.names:
                    yield f"viewlet.{alias.name}", id(node) not in inside
            else:
                yield module, id(node) not in inside


def is_type_checking(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def package_of(parts: Sequence[str]) -> str:
    """The package of a module below viewlet; the rooms of engine/ are packages of their own."""
    room = ".".join(parts[:2])
    return room if room in ROOMS else parts[0]


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_directions(path: Path) -> None:
    package = package_of(path.relative_to(SOURCE).with_suffix("").parts)
    if package == "__init__":
        return
    for module, _ in imports(path):
        parts = module.split(".")
        if parts[0] == "viewlet" and len(parts) > 1:
            wanted = package_of(parts[1:])
            assert wanted in ALLOWED[package] | {package}, f"{package} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_libraries(path: Path) -> None:
    for module, top in imports(path):
        library = module.split(".")[0]
        if library in LIBRARIES:
            assert name_of(path).startswith(LIBRARIES[library]), f"{module} does not belong here"
        if library in LAZY and not name_of(path).startswith(EAGER.get(library, ("\0",))):
            assert not top, f"{module} is imported at the top"


def test_import_is_light() -> None:
    """`import viewlet` loads none of the heavy libraries."""
    heavy = ("numpy", "numba", "pyarrow", "duckdb", "sqlglot", "pyspark", "pandas", "scipy")
    code = f"import sys, viewlet; print([m for m in {heavy!r} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    assert run.stdout.strip() == "[]"
