"""Kernels of a programme, compiled once and kept on disk.

The source of a programme is written to a module under the cache directory, named after a hash of
the source and of everything that it calls; Numba keeps the machine code beside it. A second start
with the same programme loads both. VIEWLET_CACHE names another directory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

import numba

from viewlet.kernels.blocks import identifier
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
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    sys.modules[name] = loaded
    return loaded


def compile_kernels(module: Module, triggers: Iterable[str]) -> None:
    """Compile the batch kernels of some triggers now, so that other processes find them."""
    loaded = load_module(module)
    for trigger in triggers:
        kernel = getattr(loaded, f"on_{identifier(trigger)}")
        if hasattr(kernel, "compile"):  # not where NUMBA_DISABLE_JIT is set
            kernel.compile((numba.int64, numba.int64))


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
