"""JSON of any depth: DuckDB's tree of a sum of 800 terms is nested 1,600 deep."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'([\[\]{}])|("(?:[^"\\]|\\.)*")|([^\s\[\]{}:,"]+)')


def loads(text: str) -> Any:
    """json.loads, which is fast and recursive, or else without recursion."""
    try:
        return json.loads(text)
    except RecursionError:
        return _loads(text)


def _loads(text: str) -> Any:
    root: list[Any] = []
    containers: list[Any] = [root]
    keys: list[str | None] = [None]

    def add(value: Any) -> None:
        if isinstance(containers[-1], list):
            containers[-1].append(value)
        else:
            containers[-1][keys[-1]] = value
            keys[-1] = None

    for bracket, string, word in _TOKEN.findall(text):
        if bracket in ("{", "["):
            opened: Any = {} if bracket == "{" else []
            add(opened)
            containers.append(opened)
            keys.append(None)
        elif bracket:
            containers.pop()
            keys.pop()
        elif string and isinstance(containers[-1], dict) and keys[-1] is None:
            keys[-1] = json.loads(string)
        else:
            add(json.loads(string or word))
    return root[0]
