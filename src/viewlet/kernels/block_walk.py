"""Blocks of nodes from outside: what is inside a node, and which maps a block touches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from viewlet.kernels.loop_nodes import Block, ClearBuffer, ClearColumn, Node, Update

_BODIES = ("body", "otherwise")
"""The fields of nodes that are blocks."""


def bodies(node: Node) -> Iterator[Block]:
    """The blocks inside a node."""
    for name in _BODIES:
        block = getattr(node, name, None)
        if block is not None:
            yield block


def with_bodies(node: Node, rewrite: Callable[[Block], Block]) -> Node:
    """A copy of a node with the blocks inside it rewritten."""
    blocks = {name: rewrite(getattr(node, name)) for name in _BODIES if hasattr(node, name)}
    return replace(node, **blocks)  # type: ignore[arg-type]


Changing = Update | ClearBuffer | ClearColumn


def changed_maps(block: Block) -> frozenset[str]:
    """The maps that a block changes."""
    return frozenset(node.map for node in _nodes(block) if isinstance(node, Changing))


def read_maps(block: Block) -> frozenset[str]:
    """The maps that a block looks into: those of all nodes that name one and do not change it."""
    nodes = (node for node in _nodes(block) if not isinstance(node, Changing))
    return frozenset(map for node in nodes if (map := getattr(node, "map", None)) is not None)


def _nodes(block: Block) -> Iterator[Node]:
    """The nodes of a block and of all blocks inside."""
    for node in block:
        yield node
        for body in bodies(node):
            yield from _nodes(body)
