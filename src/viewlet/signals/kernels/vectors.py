"""Vector instructions for kernels: straight-line code over eight numbers at once.

Numba leaves it to the compiler to find vectors in loops, which it does not do where many pointers
or a transposition are involved. Here a piece of code is written with `Vector` values, whose
operators emit vector instructions, and becomes a function that kernels call (`emitted`). A
processor with shorter registers does the same in two or four steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WIDTH = 8
_NUMBER = ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, WIDTH)
_INDEX = ir.IntType(64)
_LANE = ir.IntType(32)
_FUSED = ("contract",)  # a * b + c may be one instruction; sums keep their order


class Vector:
    """Eight numbers in a register."""

    def __init__(self, builder: Any, value: Any) -> None:
        self._builder = builder
        self.value = value

    def __add__(self, other: Vector) -> Vector:
        return Vector(self._builder, self._builder.fadd(self.value, other.value, flags=_FUSED))

    def __sub__(self, other: Vector) -> Vector:
        return Vector(self._builder, self._builder.fsub(self.value, other.value, flags=_FUSED))

    def __mul__(self, other: Vector) -> Vector:
        return Vector(self._builder, self._builder.fmul(self.value, other.value, flags=_FUSED))

    def __neg__(self) -> Vector:
        return Vector(self._builder, self._builder.fneg(self.value))

    def mixed(self, other: Vector, lanes: Sequence[int]) -> Vector:
        """The chosen lanes of both: 0 to 7 are mine, 8 to 15 the other's."""
        mask = ir.Constant(ir.VectorType(_LANE, len(lanes)), list(lanes))
        return Vector(self._builder, self._builder.shuffle_vector(self.value, other.value, mask))


class VectorCode:
    """Where a piece of code reads and writes: pointers to numbers, and places counted from them."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def index(self, base: Any, step: Any = 0, scale: int = 1) -> Any:
        """base * scale + step."""
        base, step = (
            ir.Constant(_INDEX, operand) if isinstance(operand, int) else operand
            for operand in (base, step)
        )
        return self._builder.add(self._builder.mul(base, ir.Constant(_INDEX, scale)), step)

    def minus(self, a: Any, b: Any) -> Any:
        """a - b, of integers."""
        return self._builder.sub(a, b)

    def number(self, pointer: Any, index: Any) -> Any:
        """One number (an index, when the pointer is one to integers)."""
        return self._builder.load(self._builder.gep(pointer, [index]))

    def gathered(self, pointer: Any, indices: Sequence[Any]) -> Vector:
        """Eight numbers from anywhere."""
        vector = ir.Constant(_VECTOR, ir.Undefined)
        for lane, index in enumerate(indices):
            number = self.number(pointer, index)
            vector = self._builder.insert_element(vector, number, ir.Constant(_LANE, lane))
        return Vector(self._builder, vector)

    def everywhere(self, pointer: Any, index: Any) -> Vector:
        """The same number in all lanes."""
        vector = ir.Constant(_VECTOR, ir.Undefined)
        first = ir.Constant(_LANE, 0)
        vector = self._builder.insert_element(vector, self.number(pointer, index), first)
        mask = ir.Constant(ir.VectorType(_LANE, WIDTH), [0] * WIDTH)
        return Vector(self._builder, self._builder.shuffle_vector(vector, vector, mask))

    def constant(self, number: float) -> Vector:
        """The number in every lane."""
        return Vector(self._builder, ir.Constant(_VECTOR, [number] * WIDTH))

    def load(self, pointer: Any, index: Any) -> Vector:
        """The lanes that begin at an entry of an array."""
        address = self._builder.gep(pointer, [index])
        address = self._builder.bitcast(address, _VECTOR.as_pointer())
        return Vector(self._builder, self._builder.load(address, align=8))

    def store(self, vector: Vector, pointer: Any, index: Any) -> None:
        """Write the lanes to the entries of an array that begin at this one."""
        address = self._builder.gep(pointer, [index])
        address = self._builder.bitcast(address, vector.value.type.as_pointer())
        self._builder.store(vector.value, address, align=8)


def transposed(rows: Sequence[Vector]) -> list[Vector]:
    """Eight vectors -> those of their first numbers, their second numbers, ...

    Blocks of 1, 2 and 4 numbers change places across the diagonal.
    """
    out = list(rows)
    for d in (1, 2, 4):
        low = [lane if not lane & d else WIDTH + lane - d for lane in range(WIDTH)]
        high = [lane + d if not lane & d else WIDTH + lane for lane in range(WIDTH)]
        for i in range(WIDTH):
            if not i & d:
                a, b = out[i], out[i + d]
                out[i], out[i + d] = a.mixed(b, low), a.mixed(b, high)
    return out


def emitted(emit: Callable[..., None], **fixed: Any) -> Any:
    """emit(code, *given, **fixed) as a function that kernels call: given contiguous arrays and
    integers. What is fixed is known when the code is made.

    Arrays arrive as pointers to their first element. There are no checks of bounds.
    """
    signature_parameters = inspect.signature(emit).parameters.values()
    parameters = [parameter for parameter in signature_parameters if parameter.name not in fixed]

    def definition(typing: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = [
                context.make_array(kind)(context, builder, value).data
                if isinstance(kind, types.Array)
                else value
                for kind, value in zip(signature.args, arguments, strict=True)
            ]
            emit(VectorCode(builder), *values, **fixed)
            return context.get_dummy_value()

        kinds = (a if isinstance(a, types.Array) else types.int64 for a in arguments)
        return types.void(*kinds), generate

    definition.__name__ = emit.__name__
    definition.__doc__ = emit.__doc__
    typing = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    definition.__signature__ = inspect.Signature([typing, *parameters[1:]])  # type: ignore[attr-defined]
    return intrinsic(definition)
