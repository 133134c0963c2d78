'''Functions that a program writes as text, over names that the head of the text imports:

    """Kernels of one program"""
    from viewlet.storage.memory import load, store

    @compiled
    def on_orders(state, control): ...

Where native code is on, Python never reads the functions: code is found by a digest of a function's
own text and of what it calls, and only where there is none is that text parsed. Nothing of the text
is written to disk.
'''

from __future__ import annotations

import ast
import builtins
import linecache
import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

from viewlet.native import fingerprint
from viewlet.native.code_cache import code_cache
from viewlet.native.compiled import NativeFunction
from viewlet.native.instructions import Untranslatable
from viewlet.native.switch import is_enabled

_MARK = "\n@compiled\n"
_DEFINED = re.compile(r"def (\w+)")
_ANNOTATED = re.compile(r"def \w+\(\w+: \w+(, \w+: \w+)*\)")
_COMMENT = re.compile(r"(?m)^ *#.*\n")
_PUNCTUATION = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}


class Generated:
    """The functions of one text. Each is compiled when it is first called."""

    def __init__(self, text: str) -> None:
        self.text = text
        head, *parts = text.split(_MARK)
        self.environment = _environment(head)
        self.functions: dict[str, GeneratedFunction] = {}
        line = head.count("\n") + 3
        for part in parts:
            defined = _DEFINED.match(part)
            assert defined is not None, part[:80]
            self.functions[defined[1]] = GeneratedFunction(self, defined[1], part, line)
            line += part.count("\n") + 2

    def __getitem__(self, name: str) -> Any:
        """A function by its name, as native code or as Python has it."""
        return (self.functions if is_enabled() else self._in_python)[name]

    @cached_property
    def annotated(self) -> list[GeneratedFunction]:
        """The functions with annotations, in the order of the text."""
        return [function for function in self.functions.values() if function.is_annotated]

    @cached_property
    def _in_python(self) -> dict[str, Any]:
        name = f"<viewlet {self.fingerprint.hex()}>"
        linecache.cache[name] = (len(self.text), None, self.text.splitlines(keepends=True), name)
        names: dict[str, Any] = {}
        exec(compile(self.text, name, "exec"), names)
        return names

    @cached_property
    def fingerprint(self) -> bytes:
        """Of everything that the functions do: the same on every machine, compiled or not."""
        return fingerprint.digest_of(*(each.fingerprint for each in self.functions.values()))

    def translate(self, names: Iterable[str]) -> None:
        """See that some functions can be compiled; Untranslatable if one cannot.

        Of those that were translated before, on this machine, it is known. What is translated now
        is not translated again when it is compiled.
        """
        if not is_enabled():
            return
        cache = code_cache()
        for name in names:
            function = self.functions[name]
            if not cache.is_translated(function.symbol):
                from viewlet.native.translate import translate_entry

                translate_entry(function)
                cache.note_translated(function.symbol)


class GeneratedFunction(NativeFunction):
    """One of the functions; `line` is where it begins in the whole text."""

    def __init__(self, owner: Generated, name: str, text: str, line: int) -> None:
        super().__init__("kernels", name)
        self._owner = owner
        self._text = text
        self._line = line

    @property
    def definition(self) -> ast.FunctionDef:
        try:
            (definition,) = ast.parse(self._text).body
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise Untranslatable(f"{error} ({self.position(1)})") from error
        assert isinstance(definition, ast.FunctionDef)
        return definition

    def outside(self, name: str) -> Any:
        for names in (self._owner.functions, self._owner.environment):
            if name in names:
                return names[name]
        return getattr(builtins, name, None)

    def parts(self) -> list[NativeFunction]:
        """Those that have all their parameters annotated: how they are called is known."""
        reached = self._words
        parts: list[NativeFunction] = []
        for function in reversed(self._owner.annotated):
            if function.__name__ in reached and function is not self:
                parts.append(function)
                reached = reached | function._words
        return parts[::-1]

    @property
    def _words(self) -> frozenset[str]:
        """All names in the text, without its comments."""
        return frozenset(_COMMENT.sub("", self._text).translate(_PUNCTUATION).split())

    @property
    def is_annotated(self) -> bool:
        """Whether its text states the types of its parameters."""
        return _ANNOTATED.match(self._text) is not None

    def position(self, line: int) -> str:
        return f"kernels, line {self._line + line - 1}, {self.__name__}"

    def _fingerprint(self) -> bytes:
        text = _COMMENT.sub("", self._text)
        names_used = self._words & (self._owner.functions.keys() | self._owner.environment.keys())
        return fingerprint.digest_of(text.encode(), fingerprint.of_names(names_used, self.outside))


@lru_cache(16)  # one head for all programs of a version
def _environment(head: str) -> Mapping[str, Any]:
    """What the imports of a text give."""
    names: dict[str, Any] = {}
    exec(head, names)
    del names["__builtins__"]
    return names
