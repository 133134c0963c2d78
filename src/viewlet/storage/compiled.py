"""Functions over int64 and float64 that run as machine code, which is kept on disk.

    @compiled
    def find(m: int, key: int) -> int: ...

The first call in a process looks for the function's code in the cache directory. Where it is, it
is linked into the process and called; where it is not, storage.translate writes it in LLVM's words
and storage.machine lets LLVM make it.

Arguments and results are numbers; arrays are passed as addresses (storage.memory). The GIL is free
while a function runs. Under NUMBA_DISABLE_JIT=1 functions stay as Python has them.

Code is found again by the function's name and file, and the sources of this package and
kernels.natives: functions may call what is there and in their own file.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function as machine code; other compiled functions may call it."""
    if _disabled():
        return function
    made: Any = Compiled(function)
    return made  # type: ignore[no-any-return]


def outlined(function: F) -> F:
    """The same for a large function: those that call it do not take its code into theirs.

    What every map needs and few call often is so compiled once, and not into every kernel. Its
    arguments and its result must be annotated. It may call functions that were outlined before it.
    """
    made: Any = compiled(function)
    if isinstance(made, Compiled):
        OUTLINED.append(made)
    return made  # type: ignore[no-any-return]


def _disabled() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def kept_code(module: str, name: str, source: str) -> Callable[..., Any] | None:
    """The machine code of a function in a module named after its source, if it is on disk.

    Python need not even read that source then: a tenth of a second for a large programme.
    """
    if _disabled():
        return None
    with _LOCK:
        if (module, name) not in _KEPT:
            symbol = _symbol(module, name, _digest(source.encode()))
            try:
                code = (cache_directory() / f"{symbol}.o").read_bytes()
            except FileNotFoundError:
                return None
            _KEPT[module, name] = _linked(symbol, code)
        return _KEPT[module, name]


_KEPT: dict[tuple[str, str], Callable[..., Any]] = {}


def code_of(function: F) -> F:
    """The machine code itself, made now: what to call where a call's own cost counts."""
    code: Any = function.entry() if isinstance(function, Compiled) else function
    return code  # type: ignore[no-any-return]


class Compiled:
    """A function and, from its first call on, its machine code.

    `body` names what other code calls, if the function is outlined: no entry, but the function
    itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.body = f"{function.__module__}.{function.__name__}.body"
        self._entry: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._entry or self.entry())(*arguments)

    def entry(self) -> Callable[..., Any]:
        """The machine code as a function of Python: calls cost half of those of this object."""
        with _LOCK:
            if self._entry is None:
                self._entry = _linked(self.symbol, self._code(), self)
                if self in OUTLINED:
                    _linker().publish(self.body)
        return self._entry

    @property
    def symbol(self) -> str:
        """The name of its code."""
        own = _file_digest(self.py_func.__code__.co_filename)
        return _symbol(self.py_func.__module__, self.__name__, own)

    def _path(self) -> Path:
        return cache_directory() / f"{self.symbol}.o"

    def _code(self) -> bytes:
        path = self._path()
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        from viewlet.storage.machine import machine_code

        made = machine_code(self)
        with contextlib.suppress(OSError):  # a full disk: the next process compiles again
            write(path, made)
        return made


OUTLINED: list[Compiled] = []
_LOCK = threading.RLock()


def _linked(symbol: str, code: bytes, itself: Compiled | None = None) -> Callable[..., Any]:
    """Code as a function, after the outlined functions that it calls."""
    for other in OUTLINED:
        if other is not itself and other.body.encode() in code:
            other.entry()
    return _linker().function(symbol, code)


# Linking.


class _MethodDef(ctypes.Structure):
    """What CPython wants to know of a function in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x0080


class _Linker:
    """Takes object code into this process, for as long as it lives."""

    def __init__(self) -> None:
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine()
        self._objects, self._publish = binding.ObjectFileRef, binding.add_symbol
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self._new: Any = ctypes.pythonapi.PyCFunction_NewEx
        self._new.restype = ctypes.py_object
        self._new.argtypes = (ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.c_void_p)
        self._definitions: list[_MethodDef] = []

    def function(self, symbol: str, code: bytes) -> Callable[..., Any]:
        self._engine.add_object_file(self._objects.from_data(code))
        self._engine.finalize_object()
        address = self._engine.get_function_address(symbol)
        definition = _MethodDef(symbol.encode(), address, _FASTCALL, None)
        self._definitions.append(definition)
        function: Callable[..., Any] = self._new(ctypes.byref(definition), _failed, None)
        return function

    def publish(self, symbol: str) -> None:
        """Let objects that come later find something of those that are there."""
        self._publish(symbol, self._engine.get_function_address(symbol))


@cache
def _linker() -> _Linker:
    """The one of this process. It is never freed: when the interpreter ends, what it drops last may
    be functions, and CPython looks at their definitions then."""
    linker = _Linker()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(linker))
    return linker


def _failed(status: int) -> NoReturn:
    """Raise what machine code could not do."""
    kind, message = _ERRORS[status]
    raise kind(message)


_ERRORS: dict[int, tuple[type[Exception], str]] = {
    0: (TypeError, "a compiled function was called with a wrong number of arguments"),
    1: (OverflowError, "a number left the range of 64-bit integers"),
    2: (ZeroDivisionError, "division by zero"),
}
"""By the statuses of storage.lowerings; 0 is for calls that were not even begun."""


# What is kept on disk.


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


def write(path: Path, content: bytes) -> None:
    """In one move, so that another process never reads half a file."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False, suffix=".tmp") as file:
        made = Path(file.name)
        try:
            file.write(content)
        except OSError:
            made.unlink()
            raise
    made.replace(path)


def digest(text: str) -> str:
    """A name for source that is compiled with all that it calls: the same on every machine."""
    return hashlib.sha256(f"{_sources()}{text}".encode()).hexdigest()[:24]


@cache
def _sources() -> str:
    """What compiled functions call, and by which layout they find things."""
    root = Path(__file__).parent.parent
    found = hashlib.sha256()
    for file in sorted([*(root / "storage").glob("*.py"), root / "kernels" / "natives.py"]):
        found.update(file.read_bytes())
    return found.hexdigest()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


@cache
def _file_digest(file: str) -> str:
    return _digest(Path(file).read_bytes())


def _symbol(module: str, name: str, own: str) -> str:
    """What the code of a function in a file with this digest is called: by that it is found."""
    return f"{module}.{name}-{own}{_foundation()}"


@cache
def _foundation() -> str:
    """What code depends on beside the function itself: what it calls, who made it, for what."""
    from llvmlite import binding

    made_by = (version("llvmlite"), sys.implementation.cache_tag)
    made_for = (binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
    return hashlib.sha256(repr((_sources(), made_by, made_for)).encode()).hexdigest()[:16]
