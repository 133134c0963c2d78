"""Kernels as source, and where they are kept."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.kernels.programs import BORDERS, JOIN, RANGES

from viewlet.errors import ProgramError
from viewlet.kernels import jit
from viewlet.kernels.jit import compile_program, load_module, source
from viewlet.program.ir import Program
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


LONG = """
relation r(a: INTEGER not null, b: INTEGER not null)
""" + "".join(f"map m{i}[a: int](n: int)\nmap v{i}[b: int](n: int)\n" for i in range(12))


def long_program() -> Program:
    """Statements that read what the one before wrote: they cannot be fused."""
    steps = [
        f"  v{i}[b] += Δr(a, b) * m{i}[a].n | n: 1\n  m{i}[a] += Δr(a, b) | n: 1\n"
        for i in range(12)
    ]
    return parse_program(LONG + "on r:\n" + "".join(steps))


def test_a_long_trigger_is_divided() -> None:
    module = compile_program(long_program())
    parts = module.batch["r"]
    assert parts[0] == "on_r" and len(parts) > 1
    for name in parts:
        assert f"def {name}(state, control):" in module.source
    assert module.single["r"] == ["each_r"]


def test_another_process_helps_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever compiles a function, the other finds it; and no module is given two helpers."""
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    monkeypatch.setattr(jit, "_WORTH_HELP", 2)
    started: list[list[str]] = []
    popen = subprocess.Popen

    def watched(command: list[str], **options: Any) -> object:
        started.append(command[5:])
        return popen(command, **options)

    monkeypatch.setattr(subprocess, "Popen", watched)
    module = compile_program(long_program())
    jit.compile_kernels(module, ["r"])
    assert started == [module.batch["r"][::-1]]
    assert all(kernel.kept() for kernel in jit.kernels(module, "r"))
    jit.compile_kernels(module, ["r"])
    assert len(started) == 1


def test_only_the_newest_programme_has_a_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views that are made one after another are programmes that replace each other."""
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    monkeypatch.setattr(jit, "_WORTH_HELP", 2)
    monkeypatch.setattr(jit, "_HELPER", "import time; time.sleep(60)")
    monkeypatch.setattr(jit, "_BESIDE", [])
    monkeypatch.setattr(jit, "_HELPED", set())
    jit.begin_to_compile(compile_program(long_program()))
    (first,) = jit._BESIDE
    jit.begin_to_compile(compile_program(parse_program(RANGES)))
    (second,) = jit._BESIDE
    assert first is not second and first.returncode is not None
    jit._end_help()
    assert second.returncode is not None and not jit._BESIDE


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
