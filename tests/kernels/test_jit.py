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
from viewlet.kernels.jit import compile_program, kernel, module_name, source
from viewlet.program.text import parse_program


def test_source_has_both_shapes_and_the_statements() -> None:
    text = source(parse_program(JOIN))
    for name in ("on_r", "each_r", "on_s", "each_s"):
        assert f"def {name}(state, control):" in text
    assert "# ms[b] += Δs(b, d) * {like(d, 'x%')} | count: 1" in text
    compile(text, "kernels", "exec")


def test_a_range_is_a_descent_in_the_ordered_index() -> None:
    """No loop over the records of m or g is left in what a row does.

    fl has DOUBLE keys: where one of them is not finite, and only there, is its loop.
    """
    text = source(parse_program(RANGES)).split("# near[v] +=")[1].split("# clear")[0]
    assert "while r" in text
    assert "range(load(map_m," not in text and "range(load(map_g," not in text


def test_where_weights_may_be_negative_there_is_a_loop_beside_the_descent() -> None:
    text = source(parse_program(BORDERS)).split("# signs[] :=")[1].split("# clear")[0]
    loop = text.index("range(load(map_m, 0))")
    assert (
        "if negatives" in text[:loop]
        and "border_" in text[:loop]
        and " for " not in text[: loop - 12]
    )


def test_programs_are_known_by_what_they_do() -> None:
    text = "relation r(a: INTEGER not null)\nmap m[a: int](n: int)\non r:\n"
    first, again, other = (
        compile_program(parse_program(text + f"  m[a] += Δr(a) | n: {n}")) for n in (1, 1, 2)
    )
    assert module_name(first) == module_name(again) != module_name(other)
    assert kernel(first, "r") is kernel(again, "r") is not kernel(other, "r")


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
    (path,) = tmp_path.glob("kernels.*.o")
    assert path.name.startswith(f"kernels.{module.batch['r']}-")


AGAIN = """
import ast, sys
from viewlet.kernels.jit import compile_program, kernel
from viewlet.program.text import parse_program
from viewlet.native.compiled import code_of
from viewlet.native.optimizer import OPTIMIZER
module = compile_program(parse_program(sys.argv[1]))
parsed, parse = [], ast.parse
ast.parse = lambda *given, **more: parsed.append(given[0]) or parse(*given, **more)
code_of(kernel(module, "r"))
OPTIMIZER.wait()
print(any("def on_r" in text for text in parsed))
"""


def test_kernels_that_have_code_are_not_read_by_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("VIEWLET_NATIVE", "1")
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
