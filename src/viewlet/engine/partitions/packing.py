"""Messages as bytes, and back: data alone, for what is sent is also logged and kept.

    pack      None, bool, int, float, str, bytes, NumPy arrays and scalars, in lists, tuples and
              dicts
    unpack    the same values; StateError for what is no message. Nothing in a message is run: this
              is why it is no pickle

A message is a length, a text in JSON, and the bytes of its arrays, to which the text refers:

    [n]              list            {"a": [i, dtype, shape, order]}   array, bytes in part i
    {"t": [...]}     tuple           {"o": [[...], shape]}             array of objects
    {"d": [[k, v]]}  dict            {"s": [i, dtype]}                 NumPy scalar
    {"b": i}         bytes, part i
"""

from __future__ import annotations

import json
import struct
from types import NoneType
from typing import Any, Literal

import numpy as np

from viewlet.engine.partitions.head import dtype_descr, dtype_of
from viewlet.errors import StateError

_LENGTH = struct.Struct("<q")
_PLAIN = {NoneType, bool, int, float, str}


def pack(value: Any) -> bytes:
    """A message of plain values and arrays; TypeError for any other."""
    parts: list[bytes] = []
    text = _described(value, parts)
    head = json.dumps([text, [len(part) for part in parts]], separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(head)), head, *parts))


def unpack(data: bytes) -> Any:
    """What `pack` was given; arrays are the caller's own."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + length
        text, sizes = json.loads(data[_LENGTH.size : start])
        parts = []
        for size in sizes:
            parts.append(data[start : start + size])
            start += size
        if start != len(data):
            raise ValueError(f"{len(data)} bytes instead of {start}")
        return _value(text, parts)
    except (ValueError, TypeError, KeyError, IndexError, struct.error) as problem:
        raise StateError(f"a message cannot be read: {problem}") from None


def _described(value: Any, parts: list[bytes]) -> Any:
    """The value as JSON has it, its bytes put with the parts."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        if set(map(type, value)) <= _PLAIN:
            return value
        return [_described(item, parts) for item in value]
    if kind is tuple:
        return {"t": [_described(item, parts) for item in value]}
    if kind is dict:
        pairs = value.items()
        return {"d": [[_described(k, parts), _described(v, parts)] for k, v in pairs]}
    if kind is bytes:
        parts.append(value)
        return {"b": len(parts) - 1}
    if isinstance(value, np.ndarray):
        return _described_array(value, parts)
    if isinstance(value, np.generic):
        parts.append(value.tobytes())
        return {"s": [len(parts) - 1, dtype_descr(value.dtype)]}
    raise TypeError(f"a {kind.__name__} is no part of a message")


def _described_array(array: np.ndarray[Any, Any], parts: list[bytes]) -> Any:
    if array.dtype.hasobject:
        return {"o": [[_described(item, parts) for item in array.ravel()], list(array.shape)]}
    by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    order: Literal["C", "F"] = "F" if by_columns else "C"
    parts.append(array.tobytes(order))
    return {"a": [len(parts) - 1, dtype_descr(array.dtype), list(array.shape), order]}


def _value(text: Any, parts: list[bytes]) -> Any:
    if isinstance(text, list):
        if set(map(type, text)) <= _PLAIN:
            return text
        return [_value(item, parts) for item in text]
    if not isinstance(text, dict):
        return text
    ((mark, content),) = text.items()
    if mark == "t":
        return tuple(_value(item, parts) for item in content)
    if mark == "d":
        return {_value(key, parts): _value(item, parts) for key, item in content}
    if mark == "b":
        return parts[content]
    if mark == "s":
        return np.frombuffer(parts[content[0]], dtype_of(content[1]))[0]
    if mark == "o":
        items, shape = content
        objects = np.empty(len(items), object)
        objects[:] = [_value(item, parts) for item in items]
        return objects.reshape(shape)
    if mark == "a":
        part, dtype, shape, order = content
        flat = np.frombuffer(parts[part], dtype_of(dtype)).copy()
        return flat.reshape(shape, order=order)
    raise ValueError(f"unknown mark {mark}")
