"""Native code is on unless somebody says otherwise, and the answers are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from viewlet.errors import StateError
from viewlet.native.switch import is_enabled


@pytest.fixture(autouse=True)
def _read_again() -> Iterator[None]:
    is_enabled.cache_clear()
    yield
    is_enabled.cache_clear()


@pytest.mark.parametrize(
    ("native", "numba", "enabled"),
    [
        (None, None, True),
        ("", "", True),
        (None, "0", True),
        (None, "1", False),
        ("0", None, False),
        ("1", None, True),
        ("0", "0", False),
        ("1", "1", True),
        ("", "1", False),
    ],
)
def test_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, native: str | None, numba: str | None, enabled: bool
) -> None:
    for name, value in (("VIEWLET_NATIVE", native), ("NUMBA_DISABLE_JIT", numba)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert is_enabled() is enabled


def test_other_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_NATIVE", "off")
    with pytest.raises(StateError, match="VIEWLET_NATIVE is 'off'\nhint: 0 runs kernels as Python"):
        is_enabled()


PROGRAM = """
import sys, viewlet
from viewlet.kernels.jit import compile_program, module_name
from viewlet.native.compiled import NativeFunction
from viewlet.storage.hashmap import find
with viewlet.connect() as db:
    db.execute("CREATE TABLE r (a INT, b DOUBLE, c VARCHAR)")
    db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS s, MAX(c) AS m FROM r GROUP BY a")
    db.insert("r", [(1, 0.1, 'x'), (1, 0.2, 'y'), (2, None, None), (None, 1e300, 'z')])
    db.delete("r", [(1, 0.1, 'x')])
    print(sorted(map(tuple, db.view("v").rows()), key=repr))
    print(module_name(db._engine._engine.module))
print(isinstance(find, NativeFunction), "llvmlite" in sys.modules)
"""


@pytest.mark.parametrize("switch", ["VIEWLET_NATIVE=0", "NUMBA_DISABLE_JIT=1"])
def test_answers_and_programs_are_the_same(switch: str) -> None:
    name, value = switch.split("=")
    clean = {k: v for k, v in os.environ.items() if k not in ("VIEWLET_NATIVE", name)}
    clean |= {"PYTHONPATH": os.pathsep.join(sys.path)}
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for env in (clean | {"VIEWLET_NATIVE": "1"}, clean | {name: value})
    ]
    on, off = printed
    assert on[:2] == off[:2]
    assert (on[2], off[2]) == ("True True", "False False")
