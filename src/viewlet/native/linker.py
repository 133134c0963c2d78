"""Object code -> functions of Python, in this process and for as long as it lives."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from viewlet.native.lowerings import ERRORS


class _MethodDef(ctypes.Structure):
    """What CPython wants to know of a function in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x0080


class Linker:
    """Takes object code in, unchecked: the caller vouches for it."""

    def __init__(self) -> None:
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self._objects, self._publish = binding.ObjectFileRef, binding.add_symbol
        # Of each its own, since both have code of the same names.
        self._engine, self._quick_engine = (
            binding.create_mcjit_compiler(
                binding.parse_assembly(""),
                binding.Target.from_default_triple().create_target_machine(),
            )
            for _ in range(2)
        )
        self._new: Any = ctypes.pythonapi.PyCFunction_NewEx
        self._new.restype = ctypes.py_object
        self._new.argtypes = (ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.c_void_p)
        self._definitions: dict[str, _MethodDef] = {}
        self.functions: dict[str, Callable[..., Any]] = {}
        """By their symbols: the same code is not taken in twice."""

    def function(self, symbol: str, code: bytes, *, quick: bool = False) -> Callable[..., Any]:
        """The function of this name in some object code.

        If there is one from quick code already, it is the same object of Python and runs this code
        from its next call on: CPython reads the address of the code at every call.
        """
        engine = self._quick_engine if quick else self._engine
        engine.add_object_file(self._objects.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(symbol)
        if symbol in self.functions:
            self._definitions[symbol].call = address
            return self.functions[symbol]
        definition = _MethodDef(symbol.encode(), address, _FASTCALL, None)
        self._definitions[symbol] = definition
        self.functions[symbol] = self._new(ctypes.byref(definition), _raise, None)
        return self.functions[symbol]

    def publish(self, symbol: str, *, quick: bool = False) -> None:
        """Let objects that come later find something of those that are there."""
        engine = self._quick_engine if quick else self._engine
        self._publish(symbol, engine.get_function_address(symbol))


@cache
def linker() -> Linker:
    """The one of this process. It is never freed: when the interpreter ends, what it drops last may
    be functions, and CPython looks at their definitions then."""
    instance = Linker()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(instance))
    return instance


def _raise(status: int) -> NoReturn:
    """Raise what machine code could not do."""
    kind, message = ERRORS[status]
    raise kind(message)
