"""Compiled functions -> LLVM's text: a small part of Python, translated as it stands.

    names, numbers, tuples      variables have one kind, that of what they are given first
    = += if while for           `for` over range, and over the parts of a tuple, turn by turn
    calls                       of other compiled functions, and of intrinsics

A function is translated once for each combination of kinds that it is called with, so that a key of
two words and one of three become straight code, and tests of what is known then (len of a tuple,
constants) are decided: the other branch is not even looked at. Annotations of int, float and bool
bring arguments and results to these kinds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from viewlet.garbage import no_collection
from viewlet.native.compiled import NativeFunction
from viewlet.native.expressions import Expressions
from viewlet.native.fingerprint import PLAIN
from viewlet.native.function_text import assigned_names
from viewlet.native.instructions import (
    ANNOTATED,
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

Kinds = tuple[Kind, ...]


class Signature(NamedTuple):
    """The kinds that a function's annotations mean, None for what only people read."""

    arguments: tuple[Kind | None, ...]
    result: Kind | None


@dataclass(frozen=True, eq=False)
class Function:
    """A function for arguments of some kinds; one that lies in other code has no text."""

    symbol: str
    arguments: Kinds
    result: Kind
    raises: bool
    text: str = ""
    declared: tuple[tuple[str, str], ...] = ()
    calls: tuple[Function, ...] = ()
    is_outside: bool = False

    @property
    def declaration(self) -> str:
        """The function as code that only calls it has it."""
        kinds = ", ".join(TYPES[kind] for kind in flat_kinds(self.arguments))
        returned_type = result_type(self.result, self.raises)
        return f'declare {returned_type} @"{self.symbol}"({kinds})'


def in_order(function: Function) -> list[Function]:
    """All that a function calls, and itself behind it."""
    reached: dict[Function, None] = {}

    def visit(each: Function) -> None:
        if each not in reached:
            for other in each.calls:
                visit(other)
            reached[each] = None

    visit(function)
    return list(reached)


def unit(function: Function) -> str:
    """All that a function calls, and itself, as one module."""
    functions = in_order(function)
    declared = {name: text for each in functions for name, text in each.declared}
    declared |= {each.symbol: each.declaration for each in functions if each.is_outside}
    return "\n".join([*declared.values(), *(each.text for each in functions), METADATA])


def translate_entry(function: NativeFunction) -> Function:
    """A function as Python calls it: what is not annotated as a float is an integer."""
    with no_collection():
        # Each after those that it calls: a chain of many is then not as many calls deep here.
        for part in function.parts():
            kinds = signature_of(part).arguments
            if None not in kinds:
                translate(part, kinds)
        node = None if function.translations else function.definition
        arguments = signature_of(function, node).arguments
        kinds = tuple(FLOAT if kind == FLOAT else INT for kind in arguments)
        return translate(function, kinds, node)


def translate(
    function: NativeFunction, arguments: Kinds, node: ast.FunctionDef | None = None
) -> Function:
    """A function for some kinds of arguments, once; `node` is its definition if that is at hand."""
    translations = function.translations
    if arguments not in translations:
        translations[arguments] = None
        try:
            translations[arguments] = _Body(
                function, arguments, node or function.definition
            ).function()
        except BaseException:
            del translations[arguments]
            raise
    translated = translations[arguments]
    if translated is None:
        raise Untranslatable(f"{function.__name__} calls itself")
    return translated


def outside(function: NativeFunction) -> Function:
    """An outlined function as others see it: it may raise, and its kinds are annotated."""
    arguments, result = signature_of(function)
    if None in arguments or result is None:
        raise Untranslatable(f"{function.__name__}, which is outlined and not annotated")
    return Function(function.body, arguments, result, raises=True, is_outside=True)


def signature_of(function: NativeFunction, node: ast.FunctionDef | None = None) -> Signature:
    """The kinds that its annotations mean."""
    if function.signature is None:
        node = node or function.definition
        arguments = tuple(_annotation(each.annotation) for each in node.args.args)
        function.signature = Signature(arguments, _annotation(node.returns))
    return function.signature


def _annotation(node: ast.expr | None) -> Kind | None:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        if node.value.id != "tuple":
            return None
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        kinds = tuple(_annotation(each) for each in inside)
        return None if None in kinds else kinds
    if isinstance(node, ast.Constant) and node.value is None:
        return NONE
    return ANNOTATED.get(node.id) if isinstance(node, ast.Name) else None


class _Body(Expressions):
    """Translates one function."""

    def __init__(self, function: NativeFunction, arguments: Kinds, node: ast.FunctionDef) -> None:
        super().__init__()
        self.native = function
        self.node = node
        self.arguments = arguments
        self.result = signature_of(function, node).result
        self.calls: list[Function] = []
        self.loops: list[tuple[str, str]] = []
        """Where `continue` and `break` go to."""
        self._variables = assigned_names(self.node)

    def outside(self, name: str) -> Any:
        if name in self._variables:
            raise Untranslatable(f"{name} where it has no value")
        return self.native.outside(name)

    def function(self) -> Function:
        """The function's lines, from its first statement to its last."""
        names = [each.arg for each in self.node.args.args]
        for number, (name, kind) in enumerate(zip(names, self.arguments, strict=True)):
            count = len(flat_kinds(kind))
            argument = rebuilt(kind, [f"%a{number}.{part}" for part in range(count)])
            self.names[name] = self.variable(kind)
            self.stored(self.names[name], argument)
        try:
            self.block(self.node.body)
        except Untranslatable as error:
            line = getattr(error.node, "lineno", self.node.lineno)
            raise Untranslatable(f"{error.message} ({self.native.position(line)})") from error
        if self.reached:
            self._leave(NOTHING)
        return self._finished(NONE if self.result is None else self.result)

    def _finished(self, result: Kind) -> Function:
        kinds = ", ".join(self._parameters())
        is_outlined = self.native.is_outlined
        raises = self.raises or is_outlined
        own = f"{self.native.module}.{self.native.__name__}{self.arguments}"
        symbol = self.native.body if is_outlined else own.replace("'", "")
        linkage = "" if is_outlined else "internal "
        head = f'define {linkage}{result_type(result, raises)} @"{symbol}"({kinds}) nounwind {{'
        text = f"{head}\n{self.text(result, raises)}\n}}\n"
        declared = tuple(self.declared.items())
        calls = tuple(dict.fromkeys(self.calls))
        return Function(symbol, self.arguments, result, raises, text, declared, calls)

    def _parameters(self) -> Iterator[str]:
        for number, kind in enumerate(self.arguments):
            for index, part in enumerate(flat_kinds(kind)):
                yield f"{TYPES[part]} %a{number}.{index}"

    # Statements.

    def block(self, statements: list[ast.stmt]) -> None:
        """Statements, up to one that nothing gets past."""
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
        """target = value."""
        if isinstance(target, ast.Tuple) and isinstance(value.data, tuple):
            for each, part in zip(target.elts, value.data, strict=True):
                self.bind(each, part)
        elif isinstance(target, ast.Name):
            if target.id not in self.names:
                self.names[target.id] = self.variable(value.kind)
            if self.names[target.id].is_constant:
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
        if test.is_constant:
            self.block(node.body if test.data else node.orelse)
            return
        then, end = self.label(), self.label()
        other = self.label() if node.orelse else end
        self.branch(test.data, then, other)
        self.begin(then)
        self.block(node.body)
        self.jump(end)
        if node.orelse:
            self.begin(other)
            self.block(node.orelse)
            self.jump(end)
        self.begin(end)

    def _while(self, node: ast.While) -> None:
        _without_else(node)
        again, body, end = self.label(), self.label(), self.label()
        self.jump(again)
        self.begin(again)
        test = self.truth(self.value(node.test))
        if test.is_constant and test.data:
            self.jump(body)
        elif test.is_constant:
            self.jump(end)
        else:
            self.branch(test.data, body, end)
        self.begin(body)
        self._inside(node.body, again, end)
        self.jump(again)
        self.begin(end)

    def _inside(self, body: list[ast.stmt], again: str, end: str) -> None:
        self.loops.append((again, end))
        self.block(body)
        self.loops.pop()

    def _for(self, node: ast.For) -> None:
        _without_else(node)
        call = node.iter
        if isinstance(call, ast.Call) and self.called(call.func) is range:
            unrolled = self._constant_range(call)
            if unrolled is None:
                self._counted(node, [self.value(each) for each in call.args])
            else:
                self._unrolled(node, unrolled)
        else:
            self._unrolled(node, self._parts(self.value(call)))

    def _constant_range(self, call: ast.Call) -> list[Value] | None:
        """range(len(key)) -> its numbers; each becomes a turn of its own."""
        (only,) = call.args if len(call.args) == 1 else (None,)
        if not isinstance(only, ast.Call) or self.called(only.func) is not len:
            return None
        return [constant(number) for number in range(self.value(only).data)]

    def _parts(self, value: Value) -> list[Value]:
        if not isinstance(value.data, tuple):
            raise Untranslatable(f"a loop over {value.kind}")
        return [*value.data]

    def _unrolled(self, node: ast.For, values: list[Value]) -> None:
        """One turn after the other. The variable ends with the loop: it may be another in each."""
        if not isinstance(node.target, ast.Name) or node.target.id in self.names:
            raise Untranslatable(f"a loop that gives {ast.unparse(node.target)} anew", node)
        name, end = node.target.id, self.label()
        for value in values:
            again = self.label()
            if value.is_constant:
                self.names[name] = value
            else:
                self.bind(node.target, value)
            self._inside(node.body, again, end)
            self.jump(again)
            self.begin(again)
            self.names.pop(name, None)
        self.jump(end)
        self.begin(end)

    def _counted(self, node: ast.For, bounds: list[Value]) -> None:
        if len(bounds) == 1:
            bounds = [constant(0), *bounds]
        start, stop, step = (self.converted(each, INT) for each in [*bounds, constant(1)][:3])
        if not step.is_constant or not step.data:
            raise Untranslatable("a range whose step is not known", node)
        counter = self.slot(INT)
        self.stored(Value(INT, counter), start)
        head, body, again, end = (self.label() for _ in range(4))
        self.jump(head)
        self.begin(head)
        now = self.take(f"load i64, ptr {counter}")
        order = ast.Lt() if step.data > 0 else ast.Gt()
        self.branch(self._compared(order, Value(INT, now), stop).data, body, end)
        self.begin(body)
        self.bind(node.target, Value(INT, now))
        self._inside(node.body, again, end)
        self.jump(again)
        self.begin(again)
        later = self.take(f"load i64, ptr {counter}")
        later = self.take(f"add nsw i64 {later}, {step.data}")
        self.line(f"store i64 {later}, ptr {counter}")
        self.jump(head)
        self.begin(end)

    def _continue(self, node: ast.Continue) -> None:
        self.jump(self.loops[-1][0])

    def _break(self, node: ast.Break) -> None:
        self.jump(self.loops[-1][1])

    def _pass(self, node: ast.Pass) -> None:
        """Nothing."""

    # Calls of compiled functions.

    def call(self, function: Any, arguments: list[Value]) -> Value:
        function = PLAIN.get(function, function)
        if not isinstance(function, NativeFunction):
            raise Untranslatable(f"a call of {getattr(function, '__name__', function)!r}")
        expected = signature_of(function).arguments
        if len(expected) != len(arguments):
            raise Untranslatable(f"{len(arguments)} arguments for {function.__name__}")
        converted = [
            value if kind is None else self.converted(value, kind)
            for value, kind in zip(arguments, expected, strict=True)
        ]
        callee = (
            outside(function)
            if function.is_outlined
            else translate(function, tuple(value.kind for value in converted))
        )
        self.calls.append(callee)
        parts = self.results(callee.symbol, converted, callee.result, callee.raises)
        if callee.raises:
            self.leave_if(self.take(f"icmp ne i32 {parts[0]}, 0"), parts[0])
        return rebuilt(callee.result, parts[callee.raises :])


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
