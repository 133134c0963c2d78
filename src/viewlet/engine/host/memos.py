"""Memos: values of string functions that kernels ask for while they run (kernels.scalar_source)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from viewlet.engine.values.strings import Dictionary
from viewlet.functions import evaluate
from viewlet.kernels.emit import Module
from viewlet.kernels.scalar_source import Memo
from viewlet.schema import Physical, Scalar
from viewlet.storage.absorb import upsert_row
from viewlet.storage.columns import Array, Arrays, Layout
from viewlet.storage.memory import store, store_float
from viewlet.storage.pool import Pool


class MemoPool(Pool):
    """The records of one memo. To make room here is to compute the value that a kernel lacks.

    `words` is where the kernel leaves the arguments; `strings_came` is called when a value is a
    string that the dictionary did not have.
    """

    def __init__(
        self,
        memo: Memo,
        layout: Layout,
        arrays: Arrays,
        descriptor: Array,
        words: Array,
        dictionary: Dictionary,
        strings_came: Callable[[], None],
    ) -> None:
        super().__init__(layout, arrays, descriptor, buffer=True)
        self._memo = memo
        self._words = words
        self._dictionary = dictionary
        self._strings_came = strings_came

    def make_room(self) -> None:
        words = self._words[: self.layout.key_width].tolist()
        value = evaluate(self._memo.scalar, self._arguments(words))
        known = len(self._dictionary), len(self._dictionary.arrivals)
        if self._memo.physical is Physical.STR and value is not None:
            value = self._dictionary.code(str(value))
        key = self._words.ctypes.data
        at = upsert_row(self.address, key)
        while at == 0:
            super().make_room()
            at = upsert_row(self.address, key)
        word = self.layout.value_words[1]
        if self._memo.physical is Physical.FLOAT:
            store_float(at, word, float(value or 0.0))
        else:
            store(at, word, int(value or 0))
        store(at, self.layout.value_words[0], Memo.GAP if value is None else Memo.PRESENT)
        if (len(self._dictionary), len(self._dictionary.arrivals)) != known:
            self._strings_came()

    def _arguments(self, words: list[int]) -> dict[str, Scalar]:
        arguments: dict[str, Scalar] = {}
        for (name, slot), word in zip(self._memo.arguments, self.layout.key_words, strict=True):
            value: Scalar = words[word]
            if slot.nullable and words[word + 1]:
                value = None
            elif slot.physical is Physical.STR:
                value = self._dictionary.strings[words[word]]
            elif slot.physical is Physical.BOOL:
                value = bool(value)
            elif slot.physical is Physical.FLOAT:
                value = struct.unpack("<d", struct.pack("<q", words[word]))[0]
            arguments[name] = value
        return arguments


def make_pools(
    module: Module,
    arrays_of: Callable[[str], Arrays],
    state: Array,
    dictionary: Dictionary,
    strings_came: Callable[[], None],
) -> dict[str, Pool]:
    """The pools of a program's maps and memos over its state array."""
    frame = module.frame
    memos = {memo.name: memo for memo in module.texts.memos}
    pools: dict[str, Pool] = {}
    for name, layout in frame.layouts.items():
        offset = frame.offsets[name]
        descriptor = state[offset : offset + layout.descriptor_words]
        if name in memos:
            words = state[frame.missing : frame.missing + layout.key_width]
            pools[name] = MemoPool(
                memos[name], layout, arrays_of(name), descriptor, words, dictionary, strings_came
            )
        else:
            buffer = module.loops.maps[name].buffer
            pools[name] = Pool(layout, arrays_of(name), descriptor, buffer)
    return pools
