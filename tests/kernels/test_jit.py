"""Kernels as source, and where they are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernels.programs import BORDERS, JOIN, RANGES

from viewlet.errors import ProgramError
from viewlet.kernels import jit
from viewlet.kernels.jit import compile_program, load_module, source
from viewlet.program.text import parse_program


def test_source_has_both_shapes_and_the_statements() -> None:
    text = source(parse_program(JOIN))
    for name in ("on_r", "each_r", "on_s", "each_s"):
        assert f"def {name}(state, control):" in text
    assert "# ms[b] += Δs(b, d) * {like(d, 'x%')} | count: 1" in text
    compile(text, "kernels", "exec")


def test_a_range_is_a_descent_in_the_ordered_index() -> None:
    """No loop over the records of m, fl or g is left in what a row does."""
    text = source(parse_program(RANGES)).split("# near[v] +=")[1].split("# clear")[0]
    assert "while r" in text and "range(load(map_" not in text


def test_where_weights_may_be_negative_there_is_a_loop_beside_the_descent() -> None:
    text = source(parse_program(BORDERS)).split("# signs[] :=")[1].split("# clear")[0]
    loop = text.index("range(load(map_m, 0))")
    assert (
        "if negatives" in text[:loop]
        and "border_" in text[:loop]
        and " for " not in text[: loop - 12]
    )


def test_modules_are_kept_by_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    text = "relation r(a: INTEGER not null)\nmap kept_here[a: int](n: int)\non r:\n"
    first = load_module(compile_program(parse_program(text + "  kept_here[a] += Δr(a) | n: 1")))
    again = load_module(compile_program(parse_program(text + "  kept_here[a] += Δr(a) | n: 1")))
    other = load_module(compile_program(parse_program(text + "  kept_here[a] += Δr(a) | n: 2")))
    assert first is again and first is not other
    assert {p.name for p in tmp_path.glob("*.py")} == {
        f"{first.__name__}.py",
        f"{other.__name__}.py",
    }


def test_base_relations_are_refused() -> None:
    program = parse_program(
        "relation r(a: INTEGER not null)\nmap m[a: int](n: int)\non r:\n  m[a] += r(a) | n: 1"
    )
    with pytest.raises(ProgramError, match="base relation r"):
        source(program)


def test_kernels_are_compiled_ahead_of_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    module = compile_program(parse_program(JOIN.replace("ms", "ahead")))
    jit.compile_kernels(module, ["r"])
    assert [path.name.split("-")[0].split(".")[1] for path in tmp_path.glob("viewlet_*.o")] == [
        module.batch["r"]
    ]


AGAIN = """
import sys
from viewlet.kernels.jit import compile_program, kernel
from viewlet.program.text import parse_program
from viewlet.storage.compiled import code_of
module = compile_program(parse_program(sys.argv[1]))
code_of(kernel(module, "r"))
print(any(name.startswith("viewlet_") for name in sys.modules))
"""


def test_kernels_that_are_kept_are_not_read_by_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    read = [
        subprocess.run(
            [sys.executable, "-c", AGAIN, JOIN], capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert read == ["True", "False"]


def test_keys_that_are_probed_by_more_than_they_hash_are_scattered() -> None:
    """Dense keys lie side by side: a search for (1, other) would pass through all of them."""
    text = """
relation r(a: INTEGER not null, b: INTEGER not null) key (a)
relation s(a: INTEGER not null, b: INTEGER not null)
map m[a: int, b: int](n: int)
  n := Sum[a, b](r(a, b))
map v[b: int](n: int)
  n := Sum[b](s(a, b) * r(a, b))
on r:
  m[a, b] += Δr(a, b) | n: 1
on s:
  v[b] += Δs(a, b) * m[a, b].n | n: 1
"""
    loops = compile_program(parse_program(text)).loops
    assert loops.hash_parts("m") == (0, 0)
