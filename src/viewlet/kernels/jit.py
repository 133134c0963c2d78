"""Kernels of a programme, compiled once and kept on disk.

The source of a programme is written to a module under the cache directory, named after a hash of
the source and of everything that it calls; Numba keeps the machine code beside it. A second start
with the same programme loads both. VIEWLET_CACHE names another directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numba

from viewlet.kernels.emit import Module
from viewlet.kernels.loops import build_loops
from viewlet.program.ir import Program


def compile_program(program: Program, *, keep_buffers: bool = False) -> Module:
    """The programme's kernels as source, with the frame that they need."""
    return Module(program, build_loops(program, keep_buffers=keep_buffers))


def source(program: Program) -> str:
    """What `explain --stage kernels` shows."""
    return compile_program(program).source


def load_module(module: Module) -> ModuleType:
    """The module of the kernels; functions compile when they are first called."""
    name = f"viewlet_{_digest(module.source)}"
    known = sys.modules.get(name)
    if known is not None:
        return known
    path = cache_directory() / f"{name}.py"
    if not path.exists():
        _write(path, module.source)
    return load_file(path)


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


def compile_kernels(module: Module, triggers: Iterable[str]) -> None:
    """Compile the batch kernels of some triggers now, so that other processes find them."""
    loaded = load_module(module)
    names = [
        name
        for trigger in triggers
        for name in module.batch[trigger]
        if hasattr(getattr(loaded, name), "compile")  # not where NUMBA_DISABLE_JIT is set
    ]
    helper = _compile_beside(loaded, [name for name in names if not _is_cached(loaded, name)])
    try:
        for name in names:
            compile_one(getattr(loaded, name))
    finally:
        if helper is not None:
            helper.kill()
            helper.wait()


def compile_one(kernel: Any) -> None:
    kernel.compile((numba.int64, numba.int64))


_WORTH_HELP = 4
"""Functions to compile from which on a second process is worth its start."""

_HELPER = """
import os, pathlib, sys
sys.path[:] = sys.argv[1].split(os.pathsep)
from viewlet.kernels.jit import compile_one, load_file
loaded = load_file(pathlib.Path(sys.argv[2]))
for name in sys.argv[3:]:
    compile_one(getattr(loaded, name))
"""


def _compile_beside(loaded: ModuleType, names: list[str]) -> subprocess.Popen[bytes] | None:
    """Let another process compile, from the last function on, while this one begins at the first.

    Each takes what the other has left in the cache; the compiler itself uses one core only.
    """
    if len(names) < _WORTH_HELP or (os.cpu_count() or 1) < 2 or loaded.__file__ is None:
        return None
    arguments = [os.pathsep.join(sys.path), loaded.__file__, *reversed(names)]
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            [sys.executable, "-c", _HELPER, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return None


def _is_cached(loaded: ModuleType, name: str) -> bool:
    assert loaded.__file__ is not None
    path = Path(loaded.__file__)
    return any(path.parent.glob(f"__pycache__/{path.stem}.{name}-*.nbi"))


def cache_directory() -> Path:
    """VIEWLET_CACHE, or viewlet/kernels in the user's cache; a temporary one where that fails."""
    chosen = os.environ.get("VIEWLET_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    place = Path(chosen) if chosen else Path(base) / "viewlet" / "kernels"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if os.access(place, os.W_OK):
            return place
    except OSError:
        pass
    return _temporary()


@cache
def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="viewlet-kernels-"))


def _write(path: Path, text: str) -> None:
    """In one move, so that another process never reads half a module."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, delete=False, suffix=".tmp", encoding="utf-8"
    ) as file:
        file.write(text)
    Path(file.name).replace(path)


@lru_cache(64)
def _digest(text: str) -> str:
    return hashlib.sha256(f"{_foundation()}{text}".encode()).hexdigest()[:24]


@cache
def _foundation() -> str:
    """Numba does not see that a function which a cached one calls has changed; so we look."""
    root = Path(__file__).parent.parent
    files = sorted([*(root / "storage").glob("*.py"), Path(__file__).parent / "natives.py"])
    digest = hashlib.sha256(numba.__version__.encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
