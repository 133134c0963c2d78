"""Functions over int64 and float64 that run as machine code.

    @compiled
    def find(m: int, key: int) -> int: ...

The first call in a process looks for the function's code in the cache directory, under a name that
follows from all that the code depends on (native.fingerprint). Where it is, it is linked into the
process and called; where it is not, native.translate writes it in LLVM's words and native.machine
lets LLVM make it.

Arguments and results are numbers; arrays are passed as addresses. The GIL is free while a function
runs. Where native code is switched off (native.switch), functions stay as Python has them.
"""

from __future__ import annotations

import ast
import builtins
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from viewlet.native import fingerprint
from viewlet.native.code_cache import CodeCache, code_cache
from viewlet.native.linker import linker
from viewlet.native.optimizer import OPTIMIZER
from viewlet.native.switch import is_enabled

if TYPE_CHECKING:
    from viewlet.native.translate import Function, Kinds, Signature

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function as machine code; other compiled functions may call it."""
    return _registered(function, Compiled(function))


def compiled_apart(function: F) -> F:
    """The same, but the module keeps the Python function. Others that are compiled apart and call
    it there get calls of its machine code."""
    wrapper = Compiled(function)
    fingerprint.PLAIN[function] = wrapper
    return _registered(function, wrapper)


def outlined(function: F) -> F:
    """The same for a large function, whose code is not copied into the functions that call it.

    So what every map needs, and no kernel calls often, is compiled once and not into every kernel.
    Its arguments and its result must be annotated. It may call functions outlined before it.
    """
    wrapper = Compiled(function, is_outlined=True)
    OUTLINED[wrapper.body] = wrapper
    return _registered(function, wrapper)


def _registered(function: F, wrapper: Compiled) -> F:
    """What a module gets for a function: its machine code, or the function where that is off.

    The digests of kernels are the same either way, so it is entered as what it would have been.
    """
    if not is_enabled():
        fingerprint.PLAIN[function] = wrapper
        return function
    compiled_function: Any = wrapper
    return compiled_function  # type: ignore[no-any-return]


def code_of(function: F) -> F:
    """The machine code itself, made now: what to call where a call's own cost counts."""
    code: Any = function.entry() if isinstance(function, NativeFunction) else function
    return code  # type: ignore[no-any-return]


class NativeFunction(fingerprint.Callee):
    """A function and, from its first call on, its machine code.

    `body` names what other code calls, if the function is outlined: no entry, but the function
    itself. `translations` are the function in LLVM's words, for each combination of kinds that it
    has been called with.
    """

    is_outlined = False
    signature: Signature | None = None

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.__name__ = name
        self.body = f"{module}.{name}.body"
        self.translations: dict[Kinds, Function | None] = {}
        self._entry: Callable[..., Any] | None = None
        self._digest: bytes | None = None
        self._symbol: str | None = None
        self._optimized_in: CodeCache | None = None

    @property
    def is_quick(self) -> bool:
        """Whether it runs code that is not optimized yet."""
        return self._optimized_in is not None

    def __call__(self, *arguments: Any) -> Any:
        return (self._entry or self.entry())(*arguments)

    def entry(self) -> Callable[..., Any]:
        """The machine code as a function of Python: calls cost half of those of this object."""
        with CODE_TIME.counting(), _LOCK:
            if self._entry is None:
                self._entry = linker().functions.get(self.symbol) or self._loaded()
        return self._entry

    def _loaded(self) -> Callable[..., Any]:
        cache = code_cache()
        code = cache.read(self.symbol)
        quick = code is None and not OPTIMIZER.is_at_once
        symbol = f"quick.{self.symbol}" if quick else self.symbol
        if quick:
            code = cache.read(symbol)
        if code is None:
            from viewlet.native.machine import machine_code

            code = machine_code(self, quick=quick)
            cache.write(symbol, code)
        for body in code.needs:
            OUTLINED[body].entry()
        entry = linker().function(self.symbol, code.binary, quick=quick)
        if self.is_outlined:
            linker().publish(self.body, quick=quick)
        if quick:
            self._optimized_in = cache
            OPTIMIZER.add(self)
        return entry

    def optimize(self) -> None:
        """Let a function that runs unoptimized code run better code from its next call on.

        What takes long, LLVM's work, is done without the lock.
        """
        cache = self._optimized_in
        if cache is None:
            return
        code = cache.read(self.symbol)
        if code is None:
            from viewlet.native.machine import machine_code
            from viewlet.native.translate import translate_entry

            with _LOCK:
                translate_entry(self)
            code = machine_code(self)
            cache.write(self.symbol, code)
            cache.remove(f"quick.{self.symbol}")
        for body in code.needs:
            OUTLINED[body].optimize()
        with _LOCK:
            linker().function(self.symbol, code.binary)
            if self.is_outlined:
                linker().publish(self.body)
            self._optimized_in = None

    def parts(self) -> list[NativeFunction]:
        """Functions that were written for this one, the first before those that call it."""
        return []

    @property
    def symbol(self) -> str:
        """The name of its code."""
        if self._symbol is None:
            own = fingerprint.digest_of(self.fingerprint, fingerprint.foundation())
            self._symbol = f"{self.module}.{self.__name__}-{own.hex()}"
        return self._symbol

    @property
    def fingerprint(self) -> bytes:
        """Of the function with all that it calls; the same on every machine."""
        with _LOCK:
            if self._digest is None:
                # Where it calls itself, which is refused when it is translated.
                self._digest = self.__name__.encode()
                self._digest = self._fingerprint()
        return self._digest

    @property
    def digest_for_callers(self) -> bytes:
        return self.fingerprint

    @abstractmethod
    def _fingerprint(self) -> bytes:
        """Of its own text and of what the names in it mean."""

    @property
    @abstractmethod
    def definition(self) -> ast.FunctionDef:
        """The function's text, parsed."""

    @abstractmethod
    def outside(self, name: str) -> Any:
        """What a name means that is no variable of the function."""

    @abstractmethod
    def position(self, line: int) -> str:
        """A line of the definition as people find it."""


class Compiled(NativeFunction):
    """A function of a Python module."""

    def __init__(self, function: Callable[..., Any], *, is_outlined: bool = False) -> None:
        super().__init__(function.__module__, function.__name__)
        self.py_func = function
        self.__doc__ = function.__doc__
        self.is_outlined = is_outlined

    @property
    def definition(self) -> ast.FunctionDef:
        from viewlet.native.function_text import definition_of

        return definition_of(self.py_func)

    def outside(self, name: str) -> Any:
        function = self.py_func
        names = function.__code__.co_freevars
        if name in names:
            return (function.__closure__ or ())[names.index(name)].cell_contents
        inside = function.__globals__
        return inside[name] if name in inside else getattr(builtins, name, None)

    def position(self, line: int) -> str:
        return f"{self.py_func.__code__.co_filename}, line {line}, {self.__name__}"

    def _fingerprint(self) -> bytes:
        return fingerprint.of_function(self.py_func, self.outside)

    @property
    def digest_for_callers(self) -> bytes:
        if not self.is_outlined:
            return self.fingerprint
        return fingerprint.digest_of(
            self.body.encode(), repr(self.py_func.__annotations__).encode()
        )


class CodeTime(threading.local):
    """Seconds that this thread has spent on making and loading machine code, or waiting for it.

    Code that needs other code makes it on its way: the time of both is counted once. Of each thread
    apart, so that no call is told the time that another one spent.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the time inside."""
        started = time.perf_counter()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.seconds += time.perf_counter() - started


CODE_TIME = CodeTime()

OUTLINED: dict[str, Compiled] = {}
"""By the names of their bodies."""

_LOCK = threading.RLock()
