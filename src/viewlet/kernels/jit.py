"""Kernels of a program: from its loops to source, and from source to functions that run.

Machine code is kept on disk by what each kernel says and calls (native.generated): a second start
with the same program, or another program with the same trigger, loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from viewlet.garbage import no_collection
from viewlet.kernels.emit import Module
from viewlet.kernels.loops import build_loops
from viewlet.kernels.refreshes import with_refresh_triggers
from viewlet.native.compiled import code_of
from viewlet.native.generated import Generated
from viewlet.native.instructions import Untranslatable
from viewlet.native.optimizer import OPTIMIZER
from viewlet.program.ir import Program

Kernel = Callable[[int, int], int]


@no_collection()
def compile_program(program: Program, *, keep_buffers: bool = False) -> Module:
    """The program's kernels as source, with the frame that they need."""
    lowered = with_refresh_triggers(program)
    return Module(lowered, build_loops(lowered, keep_buffers=keep_buffers))


def source(program: Program) -> str:
    """What `explain --stage kernels` shows."""
    return compile_program(program).source


@lru_cache(64)
def _generated(source: str) -> Generated:
    """Read once: on Spark every stage of a batch asks for its kernels."""
    return Generated(source)


def module_name(module: Module) -> str:
    """The same for programs whose kernels do the same, on every machine."""
    return f"viewlet_{_generated(module.source).fingerprint.hex()}"


def kernel(module: Module, trigger: str, *, single: bool = False) -> Kernel:
    """The function of a trigger: (state, control) -> 0, or 1 when a map is full."""
    name = (module.single if single else module.batch)[trigger]
    function: Kernel = _generated(module.source)[name]
    return function


def compile_kernels(module: Module, triggers: Iterable[str]) -> None:
    """Compile the batch kernels of some triggers now, so that other processes find them."""
    for trigger in triggers:
        code_of(kernel(module, trigger))
    OPTIMIZER.wait()


def check_kernels(module: Module, *, single: bool = False) -> None:
    """See that all kernels can be compiled, before anything is changed; UnsupportedError if not.

    They are translated to LLVM's words and no further, which takes milliseconds, and compiling them
    begins from there. Those that were translated before, in any process, are not looked at.
    """
    names = (module.single if single else module.batch).values()
    try:
        _generated(module.source).translate(names)
    except Untranslatable as error:
        raise Untranslatable(
            f"no native code can be made for a kernel: {error.message}", hint=_REPORT
        ) from error


_REPORT = 'connect(engine="interpreter") runs what native code cannot; please report the view'
