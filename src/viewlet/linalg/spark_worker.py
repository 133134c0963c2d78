"""What a Spark partition does with its blocks of large matrices (thesis 6.5, data partitioning).

A partition holds a block of rows of every large matrix, and in the layout "both" a block of its
columns as well, stored transposed. With both, A U and A^T V need nothing but the local blocks and
the low-rank factor that is sent; with rows alone the second is a sum of partial results, which
halves the memory and costs one n x r matrix per partition on the way back.

Only low-rank factors travel: in a step they come as the broadcast, in a read as the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.engine.partitions.packing import pack, unpack
from viewlet.linalg import arrays
from viewlet.linalg.arrays import Array
from viewlet.linalg.chain import Shape
from viewlet.linalg.threads import limit_threads

if TYPE_CHECKING:
    from viewlet.engine.partitions.partition_state import PartitionState


def bounds(n: int, partition: int, partitions: int) -> tuple[int, int]:
    """The rows or columns of an n-sized dimension that a partition holds."""
    return n * partition // partitions, n * (partition + 1) // partitions


def encode(message: dict[str, Any]) -> bytes:
    """A message for a partition."""
    return pack(message)


def decode(data: bytes) -> dict[str, Any]:
    """What `encode` made."""
    message: dict[str, Any] = unpack(data)
    return message


class MatrixBlocks:
    """The partition program: load blocks, apply factored updates, multiply by thin matrices."""

    stages = 1

    def __init__(self, shapes: dict[str, Shape], layout: str) -> None:
        self.shapes = shapes
        self.layout = layout
        described = ",".join(f"{name}:{r}x{c}" for name, (r, c) in sorted(shapes.items()))
        self.fingerprint = f"linalg-blocks-1/{layout}/{described}"

    def create(self, state: PartitionState) -> None:
        """The arrays of a partition: its rows of every matrix, and its columns in layout both."""
        for name, (rows, columns) in self.shapes.items():
            top, bottom = bounds(rows, state.partition, state.partitions)
            state.create(f"rows/{name}", (bottom - top, columns), np.float64)
            if self.layout == "both":
                left, right = bounds(columns, state.partition, state.partitions)
                state.create(f"columns/{name}", (right - left, rows), np.float64)

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        """Load the blocks that were sent, then do what was broadcast to all."""
        limit_threads(1)
        for data in inputs:
            self._load(state, decode(data))
        if broadcast:
            for name, (u, v) in decode(broadcast)["updates"].items():
                self._update(state, name, u, v)
        return {}

    def _load(self, state: PartitionState, piece: dict[str, Any]) -> None:
        """A piece of a matrix: rows of the block of rows, or columns of the block of columns."""
        target = state.array(f"{piece['side']}/{piece['name']}")
        if piece["side"] == "rows":
            target[:] = piece["block"]
        else:
            first = piece["first"]
            target[:, first : first + piece["block"].shape[0]] = piece["block"].T

    def _update(self, state: PartitionState, name: str, u: Array, v: Array) -> None:
        rows, columns = self.shapes[name]
        top, bottom = bounds(rows, state.partition, state.partitions)
        arrays.rank_update(state.array(f"rows/{name}"), u[top:bottom], v)
        if self.layout == "both":
            left, right = bounds(columns, state.partition, state.partitions)
            arrays.rank_update(state.array(f"columns/{name}"), v[left:right], u)

    def read(self, state: PartitionState, request: bytes) -> bytes:
        """A product, some rows or columns, a norm or the blocks of this partition."""
        limit_threads(1)
        question = decode(request)
        match question["what"]:
            case "products":
                products = [self._product(state, *p) for p in question["products"]]
                return pack(products)
            case "rows":
                return pack(self._rows(state, question["name"], question["indices"]))
            case "columns":
                block = state.array(f"rows/{question['name']}")
                return pack(block[:, question["indices"]])
            case "norm":
                total = float(np.sum(np.square(state.array(f"rows/{question['name']}"))))
                return pack(total)
            case _:
                return pack(state.array(f"rows/{question['name']}"))

    def _product(self, state: PartitionState, name: str, transposed: bool, y: Array) -> Array:
        """This partition's rows of op(M) y, or its summand of them."""
        block = state.array(f"rows/{name}")
        if not transposed:
            return arrays.multiply(block, False, y, False)
        if self.layout == "both":
            return arrays.multiply(state.array(f"columns/{name}"), False, y, False)
        top, bottom = bounds(self.shapes[name][0], state.partition, state.partitions)
        return arrays.multiply(block, True, np.asfortranarray(y[top:bottom]), False)

    def _rows(self, state: PartitionState, name: str, indices: Any) -> list[tuple[int, Array]]:
        top, bottom = bounds(self.shapes[name][0], state.partition, state.partitions)
        block = state.array(f"rows/{name}")
        return [(at, np.array(block[i - top])) for at, i in enumerate(indices) if top <= i < bottom]

    def rollback(self, state: PartitionState) -> bool:
        """A torn update is not undone in place: subtracting factors would not restore the bits.

        The service rebuilds from its snapshot and the logged factors, which does.
        """
        return False
