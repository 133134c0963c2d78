"""Kernels of a programme, compiled once and kept on disk.

The source of a programme is written to a module under the cache directory, named after a hash of
the source and of everything that it calls; the machine code of its functions is kept beside it
(storage.compiled). A second start with the same programme loads both.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from viewlet.kernels.emit import Module
from viewlet.kernels.loops import build_loops
from viewlet.program.ir import Program
from viewlet.storage.compiled import cache_directory, code_of, digest, kept_code, write

Kernel = Callable[[int, int], int]


def compile_program(program: Program, *, keep_buffers: bool = False) -> Module:
    """The programme's kernels as source, with the frame that they need."""
    return Module(program, build_loops(program, keep_buffers=keep_buffers))


def source(program: Program) -> str:
    """What `explain --stage kernels` shows."""
    return compile_program(program).source


def load_module(module: Module) -> ModuleType:
    """The module of the kernels; functions compile when they are first called."""
    name = module_name(module)
    known = sys.modules.get(name)
    if known is not None:
        return known
    path = cache_directory() / f"{name}.py"
    if not path.exists():
        write(path, module.source.encode())
    return load_file(path)


def module_name(module: Module) -> str:
    """The same for equal programmes and the same version of what they call."""
    return _name(module.source)


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


def kernel(module: Module, trigger: str, *, single: bool = False) -> Kernel:
    """The function of a trigger: (state, control) -> 0, or 1 when a map is full."""
    own, name = module_name(module), (module.single if single else module.batch)[trigger]
    found: Kernel | None = kept_code(own, name, module.source) if own not in sys.modules else None
    return found or getattr(load_module(module), name)


def compile_kernels(module: Module, triggers: Iterable[str]) -> None:
    """Compile the batch kernels of some triggers now, so that other processes find them."""
    for trigger in triggers:
        code_of(kernel(module, trigger))
