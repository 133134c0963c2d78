"""The functions that scalars call in kernels, compiled: those that their records bring along.

The records have them as plain Python, so that whoever only compiles a view loads no compiler. Here
each is compiled with all that it calls; a function that names one of C's becomes a call of that.
Arguments are never NULL: the code around a call sees to that. Kernels import all names.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import Any

from viewlet.errors import RangeError, RangeFailure
from viewlet.functions import NATIVES
from viewlet.native.compiled import compiled_apart
from viewlet.native.instructions import NONE
from viewlet.native.intrinsics import INTRINSICS, Intrinsic, intrinsic
from viewlet.native.lowerings import of_floats, raises

__all__ = list(NATIVES)

_COMPILED: dict[Any, Any] = {}


def _compiled(function: Any) -> Any:
    """The function as kernels call it, after what it calls itself."""
    if function not in _COMPILED:
        symbol = getattr(function, "c_symbol", None)
        if symbol is not None:
            lowering = of_floats(symbol, function.__code__.co_argcount)
            _COMPILED[function] = intrinsic(lowering)(function)
        else:
            _COMPILED[function] = compiled_apart(function)
            for name in function.__code__.co_names:
                _prepare(function.__globals__.get(name))
    return _COMPILED[function]


def _prepare(called: Any) -> None:
    """See that compiled code can call what a function calls."""
    if isinstance(called, RangeFailure):
        if called not in INTRINSICS:
            error = partial(RangeError, hint=called.hint)
            INTRINSICS[called] = Intrinsic(NONE, (), raises(error, called.message))
    elif isinstance(called, FunctionType) and called not in INTRINSICS:
        _compiled(called)


globals().update({name: _compiled(function) for name, function in NATIVES.items()})
