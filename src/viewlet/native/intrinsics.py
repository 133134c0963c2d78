"""Functions of Python that compiled code does not call: it has a few instructions in their place.

    @intrinsic(loads("i64"))
    def load(address: int, index: int) -> int:
        return ctypes.c_int64.from_address(address + 8 * index).value

The body is what runs where kernels stay Python, and says what the instructions mean; a package that
needs an instruction registers it with its own function. The annotations, of int, float, bool and
None, are the kinds that arguments are brought to and that the result is of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from viewlet.native.instructions import ANNOTATED, BOOL, FLOAT, INT
from viewlet.native.lowerings import (
    Lowering,
    is_finite,
    nearest_int,
    of_floats,
)

F = TypeVar("F", bound=Callable[..., Any])


class Intrinsic(NamedTuple):
    """What is written in the place of a call."""

    result: str
    arguments: tuple[str, ...]
    lower: Lowering


def intrinsic(lower: Lowering) -> Callable[[F], F]:
    """Have calls of the function below become the instructions that `lower` writes."""

    def register(function: F) -> F:
        kinds = {name: ANNOTATED[text] for name, text in function.__annotations__.items()}
        result = kinds.pop("return")
        INTRINSICS[function] = Intrinsic(result, tuple(kinds.values()), lower)
        return function

    return register


_ONE, _TWO = (FLOAT,), (FLOAT, FLOAT)

INTRINSICS: dict[Any, Intrinsic] = {
    math.isfinite: Intrinsic(BOOL, _ONE, is_finite),
    # Python makes integers of these two; floats hold the same numbers, and the largest as well.
    math.floor: Intrinsic(FLOAT, _ONE, of_floats("llvm.floor.f64", 1)),
    math.ceil: Intrinsic(FLOAT, _ONE, of_floats("llvm.ceil.f64", 1)),
    math.copysign: Intrinsic(FLOAT, _TWO, of_floats("llvm.copysign.f64", 2)),
    math.sqrt: Intrinsic(FLOAT, _ONE, of_floats("llvm.sqrt.f64", 1)),
    math.exp: Intrinsic(FLOAT, _ONE, of_floats("exp", 1)),
    math.log: Intrinsic(FLOAT, _ONE, of_floats("log", 1)),
    math.fmod: Intrinsic(FLOAT, _TWO, of_floats("fmod", 2)),
    pow: Intrinsic(FLOAT, _TWO, of_floats("pow", 2)),
    round: Intrinsic(INT, _ONE, nearest_int),
}
"""By the called object; to the builtins and functions of `math` here, others add their own."""
