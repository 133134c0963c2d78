"""Compiled functions -> LLVM's text: a small part of Python, translated as it stands.

    names, numbers, tuples      variables have one kind, that of what they are given first
    = += if while for           `for` over range, and over the parts of a tuple, turn by turn
    calls                       of other compiled functions, and of what storage.lowerings lists

A function is translated once for each combination of kinds that it is called with, so that a key of
two words and one of three become straight code, and tests of what is known then (len of a tuple,
constants) are decided: the other branch is not even looked at. Annotations of int, float and bool
bring arguments and results to these kinds.

Numba translates much more of Python and takes most of its time for finding out what it has before
it (five sixths of 22 s for the kernels of TPC-H Q2); nothing here has to be found out.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from viewlet.storage.compiled import OUTLINED, Compiled
from viewlet.storage.expressions import Expressions
from viewlet.storage.instructions import (
    BOOL,
    FLOAT,
    INT,
    METADATA,
    NONE,
    NOTHING,
    TYPES,
    Kind,
    Untranslatable,
    Value,
    constant,
    flat_kinds,
    rebuilt,
    result_type,
)

_ANNOTATED = {"int": INT, "float": FLOAT, "bool": BOOL, "None": NONE}


@dataclass(frozen=True, eq=False)
class Function:
    """A function for arguments of some kinds. `text` is empty where it lies in other code."""

    symbol: str
    arguments: tuple[Kind, ...]
    result: Kind
    raises: bool
    text: str = ""
    declared: tuple[tuple[str, str], ...] = ()
    calls: tuple[Function, ...] = ()

    @property
    def declaration(self) -> str:
        kinds = ", ".join(TYPES[kind] for kind in flat_kinds(self.arguments))
        given = result_type(self.result, self.raises)
        return f'declare {given} @"{self.symbol}"({kinds})'


def unit(function: Function) -> str:
    """All that a function calls, and itself, as one module."""
    found: dict[Function, None] = {}

    def visit(each: Function) -> None:
        if each not in found:
            for other in each.calls:
                visit(other)
            found[each] = None

    visit(function)
    declared = {name: text for each in found for name, text in each.declared}
    declared |= {each.symbol: each.declaration for each in found if not each.text}
    return "\n".join([*declared.values(), *(each.text for each in found), METADATA])


def translate(function: Compiled, arguments: tuple[Kind, ...]) -> Function:
    """A function for some kinds of arguments."""
    return _Body(function, arguments).function()


def _callee(function: Compiled, arguments: tuple[Kind, ...]) -> Function:
    """The same for a function that others call, which is translated once."""
    key = (function, arguments)
    if key not in _CALLEES:
        _CALLEES[key] = None
        try:
            _CALLEES[key] = translate(function, arguments)
        except BaseException:
            del _CALLEES[key]
            raise
    found = _CALLEES[key]
    if found is None:
        raise Untranslatable(f"{function.__name__} calls itself")
    return found


_CALLEES: dict[tuple[Compiled, tuple[Kind, ...]], Function | None] = {}


def outside(function: Compiled) -> Function:
    """An outlined function as others see it: it may raise, and its kinds are annotated."""
    node = _definition(function)
    arguments = tuple(_ANNOTATED[_text(each.annotation)] for each in node.args.args)
    return Function(function.body, arguments, _ANNOTATED[_text(node.returns)], raises=True)


def entry_kinds(function: Compiled) -> tuple[Kind, ...]:
    """The kinds of a function that Python calls; what is not annotated is an address."""
    found = (_annotation(each.annotation) for each in _definition(function).args.args)
    return tuple(FLOAT if kind == FLOAT else INT for kind in found)


def _text(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


def _annotation(node: ast.expr | None) -> Kind | None:
    """The kind that an annotation means, None for one that only people read."""
    if isinstance(node, ast.Subscript) and _text(node.value) == "tuple":
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        kinds = tuple(_annotation(each) for each in inside)
        return None if None in kinds else kinds
    return _ANNOTATED.get(_text(node))


def _definition(function: Compiled) -> ast.FunctionDef:
    code = function.py_func.__code__
    return _definitions(code.co_filename)[code.co_name, code.co_firstlineno]


@lru_cache(32)  # what kernels call lies in some ten files; those of kernels are read once
def _definitions(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions of a file, by name and first line."""
    return {
        (node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])): node
        for node in ast.walk(ast.parse(Path(file).read_text()))
        if isinstance(node, ast.FunctionDef)
    }


class _Body(Expressions):
    """Translates one function."""

    def __init__(self, function: Compiled, arguments: tuple[Kind, ...]) -> None:
        python = function.py_func
        around = dict(zip(python.__code__.co_freevars, python.__closure__ or (), strict=True))

        def outside(name: str) -> Any:
            if name in python.__code__.co_varnames:
                raise Untranslatable(f"{name} where it has no value")
            if name in around:
                return around[name].cell_contents
            return python.__globals__.get(name, getattr(builtins, name, None))

        super().__init__(outside)
        self.compiled = function
        self.node = _definition(function)
        self.arguments = arguments
        self.result: Kind | None = _annotation(self.node.returns)
        self.calls: list[Function] = []
        self.loops: list[tuple[str, str]] = []
        """Where `continue` and `break` go to."""

    def function(self) -> Function:
        names = [each.arg for each in self.node.args.args]
        for number, (name, kind) in enumerate(zip(names, self.arguments, strict=True)):
            count = len(flat_kinds(kind))
            given = rebuilt(kind, [f"%a{number}.{part}" for part in range(count)])
            self.names[name] = self.variable(kind)
            self.stored(self.names[name], given)
        try:
            self.block(self.node.body)
        except Untranslatable as error:
            raise self._placed(error) from error
        if self.reached:
            self._leave(NOTHING)
        return self._finished(NONE if self.result is None else self.result)

    def _finished(self, result: Kind) -> Function:
        kinds = ", ".join(
            f"{TYPES[part]} %a{number}.{place}"
            for number, kind in enumerate(self.arguments)
            for place, part in enumerate(flat_kinds(kind))
        )
        outlined = self.compiled in OUTLINED
        raises = self.raises or outlined
        own = f"{self.compiled.py_func.__module__}.{self.compiled.__name__}{self.arguments}"
        symbol = self.compiled.body if outlined else own.replace("'", "")
        linkage = "" if outlined else "internal "
        head = f'define {linkage}{result_type(result, raises)} @"{symbol}"({kinds}) nounwind {{'
        text = f"{head}\n{self.text(result, raises)}\n}}\n"
        declared = tuple(self.declared.items())
        calls = tuple(dict.fromkeys(self.calls))
        return Function(symbol, self.arguments, result, raises, text, declared, calls)

    def _placed(self, error: Untranslatable) -> Untranslatable:
        code = self.compiled.py_func.__code__
        line = getattr(error.node, "lineno", self.node.lineno)
        return Untranslatable(f"{error} ({code.co_filename}, line {line}, {code.co_name})")

    # Statements.

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if not self.reached:
                return
            translate = _STATEMENTS.get(type(statement))
            if translate is None:
                raise Untranslatable(ast.unparse(statement).splitlines()[0], statement)
            try:
                translate(self, statement)
            except Untranslatable as error:
                error.node = error.node or statement
                raise

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))

    def bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value.held, tuple):
            for each, part in zip(target.elts, value.held, strict=True):
                self.bind(each, part)
        elif isinstance(target, ast.Name):
            if target.id not in self.names:
                self.names[target.id] = self.variable(value.kind)
            if self.names[target.id].known:
                raise Untranslatable(f"{target.id} is counted by a loop that is unrolled", target)
            self.stored(self.names[target.id], value)
        else:
            raise Untranslatable(f"{ast.unparse(target)} = ...", target)

    def _augmented(self, node: ast.AugAssign) -> None:
        name = ast.Name(node.target.id) if isinstance(node.target, ast.Name) else node.target
        self.bind(node.target, self.binary(node.op, self.value(name), self.value(node.value)))

    def _return(self, node: ast.Return) -> None:
        self._leave(NOTHING if node.value is None else self.value(node.value))

    def _leave(self, value: Value) -> None:
        if self.result is None:
            self.result = value.kind
        self.leave(self.converted(value, self.result))

    def _if(self, node: ast.If) -> None:
        test = self.truth(self.value(node.test))
        if test.known:
            self.block(node.body if test.held else node.orelse)
            return
        then, end = self.label(), self.label()
        other = self.label() if node.orelse else end
        self.branch(test.held, then, other)
        self.place(then)
        self.block(node.body)
        self.jump(end)
        if node.orelse:
            self.place(other)
            self.block(node.orelse)
            self.jump(end)
        self.place(end)

    def _while(self, node: ast.While) -> None:
        _without_else(node)
        again, body, end = self.label(), self.label(), self.label()
        self.jump(again)
        self.place(again)
        test = self.truth(self.value(node.test))
        if test.known and test.held:
            self.jump(body)
        elif test.known:
            self.jump(end)
        else:
            self.branch(test.held, body, end)
        self.place(body)
        self._inside(node.body, again, end)
        self.jump(again)
        self.place(end)

    def _inside(self, body: list[ast.stmt], again: str, end: str) -> None:
        self.loops.append((again, end))
        self.block(body)
        self.loops.pop()

    def _for(self, node: ast.For) -> None:
        _without_else(node)
        call = node.iter
        if isinstance(call, ast.Call) and self.called(call.func) is range:
            unrolled = self._known_range(call)
            if unrolled is None:
                self._counted(node, [self.value(each) for each in call.args])
            else:
                self._unrolled(node, unrolled)
        else:
            self._unrolled(node, self._parts(self.value(call)))

    def _known_range(self, call: ast.Call) -> list[Value] | None:
        """range(len(key)) -> its numbers; each becomes a turn of its own."""
        (only,) = call.args if len(call.args) == 1 else (None,)
        if not isinstance(only, ast.Call) or self.called(only.func) is not len:
            return None
        return [constant(number) for number in range(self.value(only).held)]

    def _parts(self, value: Value) -> list[Value]:
        if not isinstance(value.held, tuple):
            raise Untranslatable(f"a loop over {value.kind}")
        return [*value.held]

    def _unrolled(self, node: ast.For, values: list[Value]) -> None:
        """One turn after the other. The variable ends with the loop: it may be another in each."""
        if not isinstance(node.target, ast.Name) or node.target.id in self.names:
            raise Untranslatable(f"a loop that gives {ast.unparse(node.target)} anew", node)
        name, end = node.target.id, self.label()
        for value in values:
            again = self.label()
            if value.known:
                self.names[name] = value
            else:
                self.bind(node.target, value)
            self._inside(node.body, again, end)
            self.jump(again)
            self.place(again)
            self.names.pop(name, None)
        self.jump(end)
        self.place(end)

    def _counted(self, node: ast.For, bounds: list[Value]) -> None:
        if len(bounds) == 1:
            bounds = [constant(0), *bounds]
        start, stop, step = (self.converted(each, INT) for each in [*bounds, constant(1)][:3])
        if not step.known or not step.held:
            raise Untranslatable("a range whose step is not known", node)
        counter = self.slot(INT)
        self.stored(Value(INT, counter), start)
        head, body, again, end = (self.label() for _ in range(4))
        self.jump(head)
        self.place(head)
        now = self.take(f"load i64, ptr {counter}")
        order = ast.Lt() if step.held > 0 else ast.Gt()
        self.branch(self._compared(order, Value(INT, now), stop).held, body, end)
        self.place(body)
        self.bind(node.target, Value(INT, now))
        self._inside(node.body, again, end)
        self.jump(again)
        self.place(again)
        later = self.take(f"load i64, ptr {counter}")
        later = self.take(f"add nsw i64 {later}, {step.held}")
        self.line(f"store i64 {later}, ptr {counter}")
        self.jump(head)
        self.place(end)

    def _continue(self, node: ast.Continue) -> None:
        self.jump(self.loops[-1][0])

    def _break(self, node: ast.Break) -> None:
        self.jump(self.loops[-1][1])

    def _pass(self, node: ast.Pass) -> None:
        """Nothing."""

    # Calls of compiled functions.

    def call(self, function: Any, arguments: list[Value]) -> Value:
        if not isinstance(function, Compiled):
            raise Untranslatable(f"a call of {getattr(function, '__name__', function)!r}")
        expected = [_annotation(each.annotation) for each in _definition(function).args.args]
        if len(expected) != len(arguments):
            raise Untranslatable(f"{len(arguments)} arguments for {function.__name__}")
        given = [
            value if kind is None else self.converted(value, kind)
            for value, kind in zip(arguments, expected, strict=True)
        ]
        found = (
            outside(function)
            if function in OUTLINED
            else _callee(function, tuple(value.kind for value in given))
        )
        self.calls.append(found)
        parts = self.results(found.symbol, given, found.result, found.raises)
        if found.raises:
            self.leave_if(self.take(f"icmp ne i32 {parts[0]}, 0"), parts[0])
        return rebuilt(found.result, parts[found.raises :])


def _without_else(node: ast.For | ast.While) -> None:
    if node.orelse:
        raise Untranslatable("else behind a loop", node)


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: _Body._expression,
    ast.Assign: _Body._assign,
    ast.AnnAssign: _Body._annotated,
    ast.AugAssign: _Body._augmented,
    ast.Return: _Body._return,
    ast.If: _Body._if,
    ast.While: _Body._while,
    ast.For: _Body._for,
    ast.Continue: _Body._continue,
    ast.Break: _Body._break,
    ast.Pass: _Body._pass,
}
