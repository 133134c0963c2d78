"""Code is found again as long as nothing has changed that it follows from, and not afterwards."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from viewlet.errors import StateError
from viewlet.native.compiled import Compiled, compiled
from viewlet.native.generated import Generated
from viewlet.native.intrinsics import INTRINSICS, Intrinsic
from viewlet.native.lowerings import instruction
from viewlet.storage.memory import load

pytestmark = pytest.mark.skipif(
    not isinstance(compiled(abs), Compiled), reason="native code is off"
)

CALLEE = '''
"""A module of functions."""
from __future__ import annotations
from viewlet.native.compiled import compiled, outlined
from viewlet.native.intrinsics import intrinsic
from viewlet.native.lowerings import instruction

FACTOR = 3
UNUSED = 5

@intrinsic(instruction("add i64"))
def sum_of(a: int, b: int) -> int:
    return a + b

@compiled
def callee(a: int) -> int:
    """Some words."""
    return sum_of(a * FACTOR, 1)  # a comment

@compiled
def not_called(a: int) -> int:
    return a + 1

@outlined
def far(a: int) -> int:
    return a + 10
'''
CALLER = """
from __future__ import annotations
import {callee} as other
from viewlet.native.compiled import compiled
from {callee} import callee, far

@compiled
def caller(a: int) -> int:
    return callee(a) + 1

@compiled
def by_module(a: int) -> int:
    return other.callee(a) + 1

@compiled
def by_far(a: int) -> int:
    return far(a) + 1
"""

Make = Callable[[str, str], ModuleType]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Modules from text: under one name, again and again."""
    names: list[str] = []
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "cache"))

    def make(name: str, text: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        exec(compile(text, path, "exec"), module.__dict__)
        sys.modules[name] = module
        names.append(name)
        return module

    yield make
    for name in names:
        sys.modules.pop(name, None)


def symbols(make: Make, old: str = "", new: str = "") -> dict[str, str]:
    """The symbols of callers, after the callee's text has changed."""
    assert old in CALLEE
    make("callee_module", CALLEE.replace(old, new) if old else CALLEE)
    caller = make("caller_module", CALLER.format(callee="callee_module"))
    return {name: getattr(caller, name).symbol for name in ("caller", "by_module", "by_far")}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a comment", "# another comment"),
        ("Some words", "Other words"),
        ("FACTOR = 3\n", "\n\n\nFACTOR = 3\n"),
        ("return a + 1\n", "return a + 2\n"),
        ("UNUSED = 5", "UNUSED = 6"),
        ("    return a + b", "    return b + a"),
        ("return a + 10", "return a + 11"),
        ("A module", "The module"),
    ],
    ids=[
        "comment",
        "docstring",
        "lines above",
        "function that is not called",
        "constant that is not used",
        "Python of an intrinsic",
        "outlined function's body",
        "module's docstring",
    ],
)
def test_what_code_does_not_follow_from(make: Make, old: str, new: str) -> None:
    assert symbols(make) == symbols(make, old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum_of(a * FACTOR, 1)", "sum_of(a * FACTOR, 2)"),
        ("sum_of(a * FACTOR, 1)", "sum_of(FACTOR * a, 1)"),
        ("FACTOR = 3", "FACTOR = 4"),
        ("FACTOR = 3", "FACTOR = 3.0"),
        ('"add i64"', '"sub i64"'),
        ("def callee(a: int) -> int", "def callee(a: int) -> float"),
    ],
    ids=["number", "order", "constant", "kind", "lowering", "annotation"],
)
def test_what_code_follows_from(make: Make, old: str, new: str) -> None:
    before, after = symbols(make), symbols(make, old, new)
    assert before["caller"] != after["caller"]
    assert before["by_module"] != after["by_module"]
    assert before["by_far"] == after["by_far"]


def test_what_callers_of_outlined_functions_follow_from(make: Make) -> None:
    before, after = (
        symbols(make),
        symbols(make, "def far(a: int) -> int", "def far(a: float) -> int"),
    )
    assert before["by_far"] != after["by_far"] and before["caller"] == after["caller"]


def test_the_new_body_is_what_runs(make: Make) -> None:
    make("callee_module", CALLEE)
    assert make("caller_module", CALLER.format(callee="callee_module")).caller(2) == 8
    make("callee_module", CALLEE.replace("FACTOR = 3", "FACTOR = 5"))
    assert make("caller_module", CALLER.format(callee="callee_module")).caller(2) == 12


def test_a_file_that_was_changed_after_its_import_is_not_compiled(
    make: Make, tmp_path: Path
) -> None:
    """Else the new text's code would be kept under the old one's name."""
    module = make("edited_module", CALLEE)
    path = tmp_path / "edited_module.py"
    path.write_text(CALLEE.replace("FACTOR, 1", "FACTOR, 2"))
    with pytest.raises(StateError, match=r"edited_module\.py has changed"):
        module.callee(1)


TEXT = '''"""Kernels."""
from viewlet.storage.memory import load, store

@compiled
def helper_at_0(a):
    return load(a, 0)

@compiled
def on_r(state, control):
    # some words
    return helper_at_0(state) + load(control, 1)

@compiled
def on_s(state, control):
    return load(state, 2)
'''


def generated_symbols(text: str) -> list[str]:
    generated = Generated(text)
    return [generated.functions[name].symbol for name in ("on_r", "on_s")]


def test_generated_functions_follow_from_their_own_text(monkeypatch: pytest.MonkeyPatch) -> None:
    r, s = generated_symbols(TEXT)
    assert generated_symbols(TEXT.replace("# some words", "# other words")) == [r, s]
    other = generated_symbols(TEXT.replace("load(control, 1)", "load(control, 3)"))
    assert other[0] != r and other[1] == s
    other = generated_symbols(TEXT.replace("load(a, 0)", "load(a, 4)"))
    assert other[0] != r and other[1] == s
    assert Generated(TEXT).fingerprint != Generated(TEXT.replace("(a, 0)", "(a, 4)")).fingerprint


def test_compilers_and_processors_have_code_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from viewlet.native import fingerprint

    before = generated_symbols(TEXT)
    digest = Generated(TEXT).fingerprint
    monkeypatch.setattr(fingerprint, "foundation", lambda: b"another processor")
    assert not set(before) & set(generated_symbols(TEXT))
    assert Generated(TEXT).fingerprint == digest


def test_another_lowering_is_other_code() -> None:
    """Digests of intrinsics are read once, so that this one is replaced under a new function."""

    def first(a: int, b: int) -> int:
        return load(a, b)

    def second(a: int, b: int) -> int:
        return load(a, b)

    from viewlet.native.fingerprint import of_value

    for function, name in ((first, "add i64"), (second, "mul i64")):
        INTRINSICS[function] = Intrinsic("int", ("int", "int"), instruction(name))
    try:
        assert of_value(first) != of_value(second)
    finally:
        del INTRINSICS[first], INTRINSICS[second]
