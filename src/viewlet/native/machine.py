"""Compiled functions -> object code, by LLVM. Imported only where there is none yet.

A function and all that it calls become one unit (native.translate), with an entry by which Python
calls it:

    entry(self, arguments, count)       as CPython calls functions in C (METH_FASTCALL)

It reads the numbers, frees the GIL, calls, and gives the result as an object of Python; where the
function raises, it calls `self` with the status that tells why. Outlined functions are code of
their own, which other code finds by the name of their body.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import binding

from viewlet.native.code_cache import ObjectCode
from viewlet.native.compiled import NativeFunction
from viewlet.native.instructions import (
    FLOAT,
    INT,
    NONE,
    TYPES,
    Kind,
    Untranslatable,
    Value,
    Writer,
)
from viewlet.native.translate import Function, in_order, translate_entry, unit


def machine_code(function: NativeFunction, *, quick: bool = False) -> ObjectCode:
    """The function's object code; `quick` leaves it as it was translated, which is soon done."""
    translated = translate_entry(function)
    target = _target(0 if quick else 3)
    module = parsed(function)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    if not quick:
        options = binding.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        passes = binding.create_pass_builder(target, options)
        passes.getModulePassManager().run(module, passes)
    needs = dict.fromkeys(each.symbol for each in in_order(translated) if each.is_outside)
    return ObjectCode(tuple(needs), target.emit_object(module))


def parsed(function: NativeFunction) -> Any:
    """The function with its entry as LLVM reads them, before anything is made of them."""
    translated = translate_entry(function)
    return binding.parse_assembly(f"{unit(translated)}\n{_entry(function.symbol, translated)}")


@cache
def _target(level: int) -> Any:
    """Code for this processor, to be linked into a process anywhere in memory."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=level,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )


# The entry from Python.

_PYTHON = """
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @Py_BuildValue(ptr, ...)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
"""


def _entry(symbol: str, function: Function) -> str:
    writer = Writer()
    wrong = writer.label()
    well = writer.label()
    count = len(function.arguments)
    writer.branch(writer.take(f"icmp ne i64 %count, {count}"), wrong, well)
    writer.begin(wrong)
    _fail(writer, "0")
    writer.begin(well)
    values = [_number(writer, i, kind) for i, kind in enumerate(function.arguments)]
    thread = writer.take("call ptr @PyEval_SaveThread()")
    parts = writer.results(function.symbol, values, function.result, function.raises)
    writer.line(f"call void @PyEval_RestoreThread(ptr {thread})")
    if function.raises:
        failure, success = writer.label(), writer.label()
        writer.branch(writer.take(f"icmp ne i32 {parts[0]}, 0"), failure, success)
        writer.begin(failure)
        _fail(writer, writer.take(f"zext i32 {parts[0]} to i64"))
        writer.begin(success)
    form, arguments = _built(writer, function.result, parts[function.raises :])
    result = writer.take(f"call ptr (ptr, ...) @Py_BuildValue(ptr @form{arguments})")
    writer.line(f"ret ptr {result}")
    head = f'define ptr @"{symbol}"(ptr %self, ptr %arguments, i64 %count) {{'
    text = f'@form = internal constant [{len(form) + 1} x i8] c"{form}\\00"\n'
    return f"{_PYTHON}{text}{head}\n{writer.text(NONE, raises=False)}\n}}\n"


def _number(writer: Writer, index: int, kind: Kind) -> Value:
    """An argument as int64 or float64; NULL is returned, and Python raises, if it is no number."""
    address = writer.take(f"getelementptr ptr, ptr %arguments, i64 {index}")
    argument = writer.take(f"load ptr, ptr {address}")
    if kind == FLOAT:
        number = writer.take(f"call double @PyFloat_AsDouble(ptr {argument})")
        suspect = writer.take(f"fcmp oeq double {number}, -1.0")
    else:
        number = writer.take(f"call i64 @PyLong_AsLongLong(ptr {argument})")
        suspect = writer.take(f"icmp eq i64 {number}, -1")
    check, failure, success = (writer.label() for _ in range(3))
    writer.branch(suspect, check, success)
    writer.begin(check)
    error = writer.take("call ptr @PyErr_Occurred()")
    writer.branch(writer.take(f"icmp ne ptr {error}, null"), failure, success)
    writer.begin(failure)
    writer.line("ret ptr null")
    writer.begin(success)
    return Value(kind, number)


def _built(writer: Writer, kind: Kind, parts: list[str]) -> tuple[str, str]:
    """What Py_BuildValue makes an object of a result from: its format, and further arguments."""
    kinds = kind if isinstance(kind, tuple) else () if kind == NONE else (kind,)
    if any(each not in TYPES for each in kinds):
        raise Untranslatable(f"a compiled function gives {kind}, which is no number")
    letters, arguments = "", ""
    for each, part in zip(kinds, parts, strict=True):
        letters += "d" if each == FLOAT else "L"
        wide = part if each in (FLOAT, INT) else writer.take(f"zext i1 {part} to i64")
        arguments += f", double {wide}" if each == FLOAT else f", i64 {wide}"
    return (f"({letters})" if isinstance(kind, tuple) else letters), arguments


def _fail(writer: Writer, status: str) -> None:
    number = writer.take(f"call ptr @PyLong_FromLongLong(i64 {status})")
    raised = "call ptr (ptr, ...) @PyObject_CallFunctionObjArgs"
    result = writer.take(f"{raised}(ptr %self, ptr {number}, ptr null)")
    writer.line(f"ret ptr {result}")
