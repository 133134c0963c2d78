"""The text of Python functions, parsed; read only where code is made."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

from viewlet.errors import StateError
from viewlet.native.fingerprint import shape_of

_Line = tuple[str, int]
"""A function's name and first line."""


def definition_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """The function's definition in its file, which must be the text that was imported."""
    code = function.__code__
    definitions, shapes = _file(code.co_filename)
    line = code.co_name, code.co_firstlineno
    # Code is kept under a digest of what was imported: another text would be kept under its name.
    if shapes.get(line) != shape_of(code):
        raise StateError(
            f"{code.co_filename} has changed since it was imported", hint="start Python again"
        )
    return definitions[line]


@lru_cache(32)  # what kernels call lies in some ten files
def _file(file: str) -> tuple[dict[_Line, ast.FunctionDef], dict[_Line, bytes]]:
    """The functions of a file, and the digests of their bytecode."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    definitions = {
        (node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])): node
        for node in _functions(tree.body)
    }
    shapes = {
        (code.co_name, code.co_firstlineno): shape_of(code)
        for code in _inside(compile(tree, file, "exec", dont_inherit=True))
    }
    return definitions, shapes


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Those among some statements and inside of them; expressions have none."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        for part in ("body", "orelse", "handlers", "finalbody"):
            yield from _functions(getattr(statement, part, []))


def _inside(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _inside(each)


def assigned_names(node: ast.FunctionDef) -> frozenset[str]:
    """The variables of a function: what it is given, and what it assigns to anywhere."""
    names = {each.arg for each in node.args.args}
    for statement in _statements(node.body):
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AugAssign | ast.AnnAssign | ast.For):
            targets = [statement.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                names.add(target.id)
            else:
                names |= {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
    return frozenset(names)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.While | ast.For):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)
