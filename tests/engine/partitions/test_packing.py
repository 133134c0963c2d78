"""Messages come back as they were, and nothing that comes back was run."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewlet.engine.partitions.packing import pack, unpack
from viewlet.errors import StateError

SOURCE = Path(__file__).parents[3] / "src" / "viewlet"


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        if left.flags.f_contiguous != right.flags.f_contiguous or not right.flags.writeable:
            return False
        return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fM"))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        return len(left) == len(right) and all(same(a, b) for a, b in pairs)
    return bool(left == right or (left != left and right != right))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [True, False, 1, -(2**80), 1.5, float("inf"), float("nan"), -0.0, "ä\ud800\0", b"\0\xff"],
        [],
        (),
        {},
        {1: "one", (1, "a"): [b""], None: {"d": 1}, "t": (1, [2, (3,)])},
        {"a": [1], "o": [2], "s": {"b": 3}},
        np.arange(6),
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12).reshape(3, 4)[:, ::2],
        np.zeros((0, 3), np.int8),
        np.array(["x", None, "ä"], object),
        np.array(["x", "yz"]),
        np.array(["2020-01-01", "NaT"], "M8[ns]"),
        np.array([(1, 2.5)], [("a", "<i8"), ("b", "<f4", (2,))]),
        np.int32(5),
        np.float64(2.5),
        [("r", (2, 3), b"12", {0: ["x", None]}), (np.arange(3), "<i8", 3)],
    ],
)
def test_messages_come_back(value: Any) -> None:
    assert same(value, unpack(pack(value)))


def test_only_data_is_sent() -> None:
    for value in (object(), {1, 2}, print, Path(), [lambda: 1], np.array([object()])):
        with pytest.raises(TypeError):
            pack(value)


class Trap:
    """What a pickle of it would do."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("trap"),)


def test_what_is_no_message_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    packed = pack([np.arange(10), "text", (1, b"2")])
    damaged = [pickle.dumps(Trap()), b"", b"\0" * 40, packed + b"1", packed[:-1], packed[5:]]
    damaged += [packed.replace(b'"a"', b'"x"'), packed.replace(b"[10]", b"[11]")]
    damaged += [packed.replace(b"<i8", b"|O8"), packed.replace(b"<i8", b"zzz")]
    for data in damaged:
        with pytest.raises(StateError):
            unpack(data)
    assert not (tmp_path / "trap").exists()


PICKLES = {
    "engine/partitions/cluster.py": "a program, which Spark sends with its tasks",
    "engine/partitions/partition_program.py": "the same, in a task",
    "engine/spark/sql_program.py": "the parts of a program, in that pickle",
}
"""Where a pickle may be made or read: inside of what Spark itself pickles, never in a file."""


def test_nothing_else_is_pickled_or_evaluated() -> None:
    users: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = [node.func.id]
            bad = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "eval", "exec"}
            for name in bad & set(names):
                users.setdefault(path.relative_to(SOURCE).as_posix(), set()).add(name)
    # Generated kernels are compiled from what viewlet has written itself (docs/threats.md).
    assert users.pop("native/generated.py") == {"exec"}
    assert users.keys() == PICKLES.keys()


def test_arrays_are_read_without_objects() -> None:
    """`np.load` refuses pickles unless it is told otherwise."""
    for path in SOURCE.rglob("*.py"):
        assert "allow_pickle=True" not in path.read_text(), path
