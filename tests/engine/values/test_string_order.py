"""Labels of strings in the strings' order, whatever order they come in."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from viewlet.engine.values import string_order
from viewlet.engine.values.string_order import StringOrder

COMING: dict[str, Callable[[int, random.Random], str]] = {
    "random": lambda i, choice: f"{choice.random():.12f}",
    "ascending": lambda i, choice: f"{i:08d}",
    "descending": lambda i, choice: f"{10**7 - i:08d}",
    "into one gap": lambda i, choice: "m" * (i % 700) + f"{i:06d}",
    "outside in": lambda i, choice: f"{i:08d}" if i % 2 else f"{10**7 - i:08d}",
    "odd": lambda i, choice: chr(choice.choice([0, 65, 0x10FFFF, 0xE000])) + str(i),
}


def is_in_order(order: StringOrder, codes: dict[str | None, int]) -> bool:
    strings = sorted(text for text in codes if text is not None)
    labels = [int(order.labels[codes[text]]) for text in strings]
    return all(a < b for a, b in zip([0, *labels], [*labels, 1 << 62], strict=True))


@pytest.mark.parametrize("how", COMING)
@pytest.mark.parametrize("room", [None, 1])
def test_labels_are_in_the_order_of_the_strings(
    how: str, room: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if room is not None:  # labels that run out soon
        monkeypatch.setattr(string_order, "_END", 1 << 13)
        monkeypatch.setattr(string_order, "_STEP", 2)
        monkeypatch.setattr(string_order, "_ROOM", 2)
        monkeypatch.setattr(string_order, "_BLOCK", 16)
    choice = random.Random(7)
    codes: dict[str | None, int] = {None: 0}
    order = StringOrder(codes)
    number = 0
    while number < 2500:
        coming = []
        for _ in range(choice.choice([1, 1, 1, 2, 40])):
            text = COMING[how](number, choice)
            number += 1
            if text not in codes:
                codes[text] = len(codes)
                coming.append(text)
        order.add(coming)
        if choice.random() < 0.03:
            assert is_in_order(order, codes)
    assert is_in_order(order, codes)
    assert len(order) == len(codes) - 1
