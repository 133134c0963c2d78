"""What machine code follows from, as a digest: the name under which it is found again.

    fingerprint of a function = its own bytecode, its annotations, the numbers and intrinsics that
                                it names, and what it calls:
        a compiled function     that one's fingerprint, for its code is taken in
        an outlined function    its name and annotations, for its code stays where it is
    foundation                  who makes code and for whom: this compiler's source, LLVM, Python,
                                the processor

Bytecode rather than text: comments, docstrings and the lines around a function are no part of it,
and it is in memory already, so that a digest of all that a kernel calls takes about a millisecond.
"""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from viewlet.native.intrinsics import INTRINSICS

_SIZE = 16

_COMPILER = ("instructions", "lowerings", "intrinsics", "expressions", "translate", "machine")
"""The modules here that decide what code is made of a function."""


class Callee(ABC):
    """What compiled functions call."""

    @property
    @abstractmethod
    def digest_for_callers(self) -> bytes:
        """Of what code depends on that calls this."""


PLAIN: dict[Any, Callee] = {}
"""What compiled code calls for functions that a module has as Python: those that would be compiled
if native code were on, and those that are compiled apart from where they are defined."""


def digest_of(*parts: bytes) -> bytes:
    """One digest of several parts, which do not run into each other."""
    hasher = hashlib.blake2b(digest_size=_SIZE)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def of_function(function: Callable[..., Any], lookup: Callable[[str], Any]) -> bytes:
    """A Python function that is compiled; `lookup` says what a name in it means."""
    code = function.__code__
    names = (*code.co_names, *code.co_freevars)
    return digest_of(
        shape_of(code),
        repr(function.__annotations__).encode(),
        of_names(names, lookup),
    )


def shape_of(code: CodeType) -> bytes:
    """Of a function's own bytecode. The language has no strings: those in it are documentation."""
    numbers = [each for each in code.co_consts if not isinstance(each, str | CodeType)]
    names = (code.co_argcount, code.co_names, code.co_varnames, code.co_freevars)
    return digest_of(code.co_code, repr((names, numbers)).encode())


def of_names(names: Iterable[str], lookup: Callable[[str], Any]) -> bytes:
    """What some names mean, those that are read from modules among them."""
    names = sorted(set(names))
    parts: list[bytes] = []
    for name in names:
        value = lookup(name)
        parts += name.encode(), of_value(value)
        if isinstance(value, ModuleType):
            inside = (other for other in names if hasattr(value, other))
            parts += (of_value(getattr(value, other)) for other in inside)
    return digest_of(*parts)


def of_value(value: Any) -> bytes:
    """A number, something to call, or what cannot be translated anyway."""
    if isinstance(value, Callee):
        return value.digest_for_callers
    if isinstance(value, bool | int | float):
        return repr(value).encode()
    if callable(value):
        if value in INTRINSICS:
            return _of_intrinsic(value)
        if value in PLAIN:
            return PLAIN[value].digest_for_callers
    return type(value).__name__.encode()


@cache
def _of_intrinsic(function: Any) -> bytes:
    result, arguments, lower = INTRINSICS[function]
    return digest_of(repr((result, arguments)).encode(), _of_plain(lower, set()))


def _of_plain(value: Any, visited: set[int]) -> bytes:
    """Python that runs while code is written: with its texts, and what it calls in its module."""
    if isinstance(value, FunctionType):
        if id(value) in visited:
            return value.__qualname__.encode()
        visited.add(id(value))
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        around = [value.__globals__.get(name) for name in value.__code__.co_names]
        return digest_of(
            _of_plain(value.__code__, visited),
            *(_of_plain(each, visited) for each in (*cells, *around)),
        )
    if isinstance(value, CodeType):
        inside = (_of_plain(each, visited) for each in value.co_consts)
        names = (value.co_names, value.co_varnames, value.co_freevars)
        return digest_of(value.co_code, repr(names).encode(), *inside)
    if isinstance(value, bool | int | float | str | bytes | tuple | None):
        return repr(value).encode()
    return type(value).__name__.encode()


@cache
def foundation() -> bytes:
    """What all code of this process depends on."""
    from llvmlite import __version__, binding

    folder = Path(__file__).parent
    sources = [(folder / f"{name}.py").read_bytes() for name in _COMPILER]
    toolchain = (__version__, binding.llvm_version_info, sys.implementation.cache_tag)
    target = (binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
    return digest_of(*sources, repr((toolchain, target)).encode())
