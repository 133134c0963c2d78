"""Writing columns of results past the cache.

A store normally fetches its line into the cache first. Key and time columns of a result are written
once, line after line, and not read again soon: written past the cache they cost less than half of
the time and leave the block that is being worked on where it is.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_WIDTH = 8  # numbers of 8 bytes in a line of the cache
_LINE = 64


def _store(typing: Any, array: Any, index: Any, first: Any, step: Any) -> Any:
    """array[index + i] = first + i step for the eight i of a line, which must begin there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        line = ir.VectorType(ir.IntType(64), _WIDTH)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), line.as_pointer())

        def everywhere(value: Any) -> Any:
            vector = ir.Constant(line, ir.Undefined)
            for lane in range(_WIDTH):
                vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), lane))
            return vector

        numbers = ir.Constant(line, list(range(_WIDTH)))
        values = builder.add(
            everywhere(arguments[2]), builder.mul(everywhere(arguments[3]), numbers)
        )
        store = builder.store(values, address, align=_LINE)
        hint = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        store.set_metadata("nontemporal", hint)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64, types.int64), generate


def _fence(typing: Any) -> Any:
    """Other threads see the lines written so far before anything that is written after."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


# compiled code calls them without the argument `typing`
_store_line: Any = intrinsic(_store)
settle: Any = intrinsic(_fence)


@njit(cache=True, nogil=True)
def ramp(out: Any, first: int, step: int) -> None:
    """out[i] = first + i step, for a contiguous array of int64; call `settle` after the last."""
    count = len(out)
    head = min(count, (-out.ctypes.data % _LINE) // _WIDTH)
    for i in range(head):
        out[i] = first + i * step
    at = head
    while at + _WIDTH <= count:
        _store_line(out, at, first + at * step, step)
        at += _WIDTH
    for i in range(at, count):
        out[i] = first + i * step
