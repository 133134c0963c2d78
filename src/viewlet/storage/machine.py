"""Compiled functions -> object code, by Numba. Imported where code is not kept on disk yet.

Numba types and optimises the function and all that it calls; of what it makes, only the function
itself is used. Its own entry from Python needs Numba in the process, so this module writes another:

    entry(self, arguments, count)       as CPython calls functions in C (METH_FASTCALL)

It reads the numbers, frees the GIL, calls, and gives the result as an object of Python; where the
function raises, it calls `self` with the address of what Numba says about it. Functions that are
outlined have a second name, the same for every version, by which other code calls them.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import compiler, typed_passes, untyped_passes
from numba.core.cgutils import get_or_insert_function
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.registry import cpu_target
from numba.core.typing.templates import Signature, make_concrete_template
from numba.extending import lower_builtin, typeof_impl

from viewlet.storage import lowerings  # noqa: F401  Numba must know them
from viewlet.storage.compiled import OUTLINED, Compiled

_INT = ir.IntType(64)
_OBJECT = ir.IntType(8).as_pointer()
_DOUBLE = ir.DoubleType()


_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NoPythonSupportedFeatureValidation,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)
"""What Numba does to loops over numbers. Its others are for arrays, closures and containers; each
would go over every function again and take a sixth of the time in all."""


class _Compiler(compiler.CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes: Any = PassManager("numbers")
        for each in _PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


@typeof_impl.register(Compiled)
def _typeof(function: Compiled, context: Any) -> Any:
    """Where compiled code calls a compiled function, Numba compiles and links that one."""
    if function in OUTLINED:
        return _outside(function)
    if function.dispatcher is None:
        linked: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        function.dispatcher = njit(cache=True, pipeline_class=_Compiler, **linked)(function.py_func)
    return types.Dispatcher(function.dispatcher)


@cache
def _outside(function: Compiled) -> Any:
    """The type of an outlined function; code that calls it names its body."""
    result = types.none if _annotated(function, "return", None) else types.int64
    arguments = _arguments(function)
    key = function.py_func

    @lower_builtin(key, *arguments)  # type: ignore[untyped-decorator]
    def _lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(result, arguments)
        callee = get_or_insert_function(builder.module, kind, function.body)
        status, found = convention.call_function(builder, callee, result, arguments, values)
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return found

    return types.Function(
        make_concrete_template(key.__name__, key, [Signature(result, arguments, None)])
    )


def machine_code(function: Compiled) -> tuple[bytes, bool]:
    """The function's object code, and whether it runs in a process that has no Numba."""
    with global_compiler_lock:
        # Numba links what it kept of other functions, and must find what that calls.
        for other in OUTLINED[: OUTLINED.index(function) if function in OUTLINED else None]:
            other.entry()
        made = _compile(function)
        _write_entry(function.symbol, made)
        if function in OUTLINED:
            _write_body(function.body, made)
        made.library.finalize()
        _, _, (code, _) = made.library.serialize_using_object_code()
        return code, _is_complete(made.library)


def _compile(function: Compiled) -> Any:
    """Numba's result, not linked yet and with no entry of its own."""
    flags: Any = compiler.Flags()
    cpu_target.options.parse_as_flags(flags, {"nopython": True})
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    contexts = (cpu_target.typing_context, cpu_target.target_context)
    arguments = _arguments(function)
    return compiler.compile_extra(
        *contexts, function.py_func, arguments, None, flags, {}, pipeline_class=_Compiler
    )


def _arguments(function: Compiled) -> tuple[Any, ...]:
    """Their types, as annotated; all arguments of kernels are addresses."""
    code = function.py_func.__code__
    names = code.co_varnames[: code.co_argcount]
    return tuple(
        types.float64 if _annotated(function, name, float) else types.int64 for name in names
    )


def _annotated(function: Compiled, name: str, kind: type | None) -> bool:
    text = "None" if kind is None else kind.__name__
    return function.py_func.__annotations__.get(name, int) in (kind, text)


def _is_complete(library: Any) -> bool:
    """Whether all that the code calls is there without Numba: in the process or its libraries."""
    process = ctypes.CDLL(None)
    published = {function.body for function in OUTLINED}
    return all(
        function.name in published or hasattr(process, function.name)
        for function in library._final_module.functions
        if function.is_declaration and not function.name.startswith("llvm.")
    )


def _write_body(symbol: str, made: Any) -> None:
    """Add a second name for the function itself."""
    context = cpu_target.target_context
    module = made.library.create_ir_module("body")
    callee = context.declare_function(module, made.fndesc)
    body = ir.Function(module, callee.function_type, name=symbol)
    builder = ir.IRBuilder(body.append_basic_block())
    builder.ret(builder.call(callee, body.args))
    made.library.add_ir_module(module)


def _write_entry(symbol: str, made: Any) -> None:
    """Add the entry to the library of a function."""
    context = cpu_target.target_context
    module = made.library.create_ir_module("entry")
    kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), _INT])
    entry = ir.Function(module, kind, name=symbol)
    python = _Python(module, ir.IRBuilder(entry.append_basic_block()))
    builder = python.builder
    itself, arguments, count = entry.args
    wanted = made.signature.args
    with builder.if_then(builder.icmp_signed("!=", count, _INT(len(wanted))), likely=False):
        builder.ret(python.fail(itself, _INT(0)))
    values = [
        python.number(builder.load(builder.gep(arguments, [_INT(i)])), wanted[i])
        for i in range(len(wanted))
    ]
    thread = python.call("PyEval_SaveThread", _OBJECT)
    callee = context.declare_function(module, made.fndesc)
    status, result = context.call_conv.call_function(
        builder, callee, made.signature.return_type, wanted, values
    )
    python.call("PyEval_RestoreThread", ir.VoidType(), thread)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(python.fail(itself, builder.ptrtoint(status.excinfoptr, _INT)))
    builder.ret(python.object(context, made.signature.return_type, result))
    made.library.add_ir_module(module)


class _Python:
    """Calls of CPython's C API."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder) -> None:
        self.module = module
        self.builder = builder

    def call(self, name: str, result: Any, *arguments: Any, various: bool = False) -> Any:
        """`various`: C's rules for a function of any number of arguments after the first."""
        function = self.module.globals.get(name)
        if function is None:
            given = [argument.type for argument in arguments]
            kind = ir.FunctionType(result, given[:1] if various else given, var_arg=various)
            function = ir.Function(self.module, kind, name=name)
        return self.builder.call(function, arguments)

    def number(self, value: Any, kind: Any) -> Any:
        """An argument as int64 or float64; leaves the entry where it is none."""
        if kind == types.float64:
            number = self.call("PyFloat_AsDouble", _DOUBLE, value)
            suspect = self.builder.fcmp_ordered("==", number, _DOUBLE(-1.0))
        else:
            number = self.call("PyLong_AsLongLong", _INT, value)
            suspect = self.builder.icmp_signed("==", number, _INT(-1))
        with self.builder.if_then(suspect, likely=False):
            error = self.call("PyErr_Occurred", _OBJECT)
            with self.builder.if_then(self.builder.icmp_signed("!=", error, _OBJECT(None))):
                self.builder.ret(_OBJECT(None))
        return number

    def object(self, context: Any, kind: Any, value: Any) -> Any:
        """A result as an object of Python: a number, a tuple of numbers or None."""
        if isinstance(kind, types.UniTuple | types.Tuple):
            fields = [
                (part, self.builder.extract_value(value, i)) for i, part in enumerate(kind.types)
            ]
            form, values = "({})", [self._field(context, *field) for field in fields]
        elif kind == types.none:
            form, values = "", []
        else:
            form, values = "{}", [self._field(context, kind, value)]
        letters = "".join("d" if found.type == _DOUBLE else "L" for found in values)
        if letters == "L" and form == "{}":
            return self.call("PyLong_FromLongLong", _OBJECT, *values)
        text = self._text(form.format(letters))
        return self.call("Py_BuildValue", _OBJECT, text, *values, various=True)

    def _field(self, context: Any, kind: Any, value: Any) -> Any:
        if kind == types.float64:
            return value
        if not isinstance(kind, types.Integer | types.Boolean):
            raise TypeError(f"a compiled function gives {kind}, which is no number")
        return context.cast(self.builder, value, kind, types.int64)

    def fail(self, itself: Any, failure: Any) -> Any:
        number = self.call("PyLong_FromLongLong", _OBJECT, failure)
        end = _OBJECT(None)
        return self.call("PyObject_CallFunctionObjArgs", _OBJECT, itself, number, end, various=True)

    def _text(self, text: str) -> Any:
        content = bytearray(text.encode() + b"\0")
        constant = ir.Constant(ir.ArrayType(ir.IntType(8), len(content)), content)
        place = ir.GlobalVariable(self.module, constant.type, name=".form")
        place.initializer, place.linkage, place.global_constant = constant, "internal", True
        return self.builder.bitcast(place, _OBJECT)
