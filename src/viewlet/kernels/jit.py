"""Kernels of a programme, compiled once and kept on disk.

The source of a programme is written to a module under the cache directory, named after a hash of
the source and of everything that it calls; the machine code of its functions is kept beside it
(storage.compiled). A second start with the same programme loads both.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from viewlet.kernels.emit import Module
from viewlet.kernels.loops import build_loops
from viewlet.program.ir import Program
from viewlet.storage.compiled import Compiled, cache_directory, digest, write


def compile_program(program: Program, *, keep_buffers: bool = False) -> Module:
    """The programme's kernels as source, with the frame that they need."""
    return Module(program, build_loops(program, keep_buffers=keep_buffers))


def source(program: Program) -> str:
    """What `explain --stage kernels` shows."""
    return compile_program(program).source


def load_module(module: Module) -> ModuleType:
    """The module of the kernels; functions compile when they are first called."""
    name = _name(module.source)
    known = sys.modules.get(name)
    if known is not None:
        return known
    path = cache_directory() / f"{name}.py"
    if not path.exists():
        write(path, module.source.encode())
    return load_file(path)


@lru_cache(64)
def _name(source: str) -> str:
    """Hashed once: on Spark every stage of a batch asks for its kernels."""
    return f"viewlet_{digest(source)}"


def load_file(path: Path) -> ModuleType:
    """The module in a file of the cache directory."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    sys.modules[path.stem] = loaded
    return loaded


def kernels(module: Module, trigger: str, *, single: bool = False) -> tuple[Any, ...]:
    """The functions of a trigger, to be called one after the other."""
    loaded = load_module(module)
    names = (module.single if single else module.batch)[trigger]
    return tuple(getattr(loaded, name) for name in names)


def begin_to_compile(module: Module) -> None:
    """Let another process compile the batch kernels, from the last on, before they are needed."""
    found = [kernel for trigger in module.batch for kernel in _compiled(module, trigger)]
    _compile_beside(load_module(module), found[::-1])


def compile_kernels(module: Module, triggers: Iterable[str]) -> None:
    """Compile the batch kernels of some triggers now, so that other processes find them."""
    wanted = [kernel for trigger in triggers for kernel in _compiled(module, trigger)]
    _compile_beside(load_module(module), wanted[::-1])
    for kernel in wanted:
        kernel.entry()


def _compiled(module: Module, trigger: str) -> list[Compiled]:
    """None where NUMBA_DISABLE_JIT is set."""
    return [kernel for kernel in kernels(module, trigger) if isinstance(kernel, Compiled)]


_WORTH_HELP = 4
"""Functions to compile from which on a second process is worth its start."""

_HELPER = """
import os, pathlib, sys
sys.path[:] = sys.argv[1].split(os.pathsep)
from viewlet.kernels.jit import load_file
loaded = load_file(pathlib.Path(sys.argv[2]))
for name in sys.argv[3:]:
    getattr(loaded, name).entry()
"""

_HELPED: set[str] = set()
"""The modules that were given a second process; none is given two."""

_BESIDE: list[subprocess.Popen[bytes]] = []
"""The process that helps with the newest module, if any: views that are made one after another are
programmes of which only the last will run."""


def _compile_beside(loaded: ModuleType, functions: list[Compiled]) -> None:
    """Let another process compile functions in this order, while this one begins at the other end.

    Each takes what the other has left in the cache; the compiler itself uses one core only.
    """
    names = [function.__name__ for function in functions if not function.kept()]
    path = loaded.__file__
    few = len(names) < _WORTH_HELP or (os.cpu_count() or 1) < 2
    if few or path is None or path in _HELPED:
        return
    _HELPED.add(path)
    _end_help()
    arguments = [os.pathsep.join(sys.path), path, *names]
    with contextlib.suppress(OSError):
        helper = subprocess.Popen(
            [sys.executable, "-c", _HELPER, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _BESIDE.append(helper)


@atexit.register
def _end_help() -> None:
    while _BESIDE:
        helper = _BESIDE.pop()
        helper.kill()
        helper.wait()
