"""Compiled functions: what they take, give and raise, and that they are compiled once."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from viewlet.errors import ProgramError
from viewlet.native.code_cache import code_cache
from viewlet.native.compiled import (
    CODE_TIME,
    OUTLINED,
    Compiled,
    code_of,
    compiled,
    outlined,
)
from viewlet.native.instructions import Untranslatable
from viewlet.native.optimizer import OPTIMIZER
from viewlet.storage.arithmetic import plus, times
from viewlet.storage.memory import load, store
from viewlet.storage.multimap import refuse_null_key

pytestmark = pytest.mark.skipif(
    not isinstance(compiled(plus), Compiled), reason="native code is off"
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These functions are no part of the package: their code must not be found again."""
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))


@compiled
def product(a: int, b: int) -> int:
    return times(a, b)


@compiled
def squares(a: int, b: float) -> tuple[int, float, bool]:
    return product(a, a), b * b, a > b


@compiled
def put(address: int, value: int) -> None:
    store(address, 1, load(address, 0) + value)


@compiled
def divided(a: int, b: int) -> int:
    return a // b


@compiled
def half(value: float) -> float:
    return math.exp(math.log(value)) / 2


@compiled
def keyed(a: int) -> int:
    if a < 0:
        refuse_null_key()
    return a


@compiled
def listed(a: int) -> list[int]:
    return [a]


@compiled
def wait(address: int, place: int) -> int:
    """Until another thread of Python has written there: only without the GIL does that come.

    LLVM must look again in every turn, as the place that is written to might be this one.
    """
    turns = 0
    while load(address, 0) == 0 and turns < 2_000_000_000:
        turns += 1
        store(address, place, turns)
    return turns


def test_numbers_go_in_and_out() -> None:
    assert product(6, -7) == -42
    assert product(np.int64(3), True) == 3
    assert squares(3, 1.5) == (9, 2.25, True)
    assert squares(-1, np.float32(2)) == (1, 4.0, False)
    assert half(9.0) == pytest.approx(4.5)
    assert product(-1, 1) == -1 and half(2) == pytest.approx(1.0)


def test_memory_is_reached_by_address() -> None:
    words = np.array([40, 0])
    assert put(words.ctypes.data, 2) is None  # type: ignore[func-returns-value]
    assert words.tolist() == [40, 42]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: product(2**62, 2), OverflowError, "64-bit integers"),
        (lambda: squares(2**32, 1.0), OverflowError, "64-bit integers"),
        (lambda: product(2**63, 1), OverflowError, "too (big|large)"),
        (lambda: divided(1, 0), ZeroDivisionError, "zero"),
        (lambda: product("x", 1), TypeError, "integer"),  # type: ignore[arg-type]
        (lambda: half("x"), TypeError, "number"),  # type: ignore[arg-type]
        (lambda: product(1), TypeError, "wrong number of arguments"),  # type: ignore[call-arg]
        (lambda: product(1, 2, 3), TypeError, "wrong number of arguments"),  # type: ignore[call-arg]
        (lambda: keyed(-1), ProgramError, "cannot be NULL"),
        (lambda: listed(1), Untranslatable, "no number"),
    ],
)
def test_what_cannot_be_done_is_raised(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
    assert product(2, 2) == 4 and keyed(3) == 3


@outlined
def far(address: int, by: int) -> None:
    store(address, 0, plus(load(address, 0), by))


@compiled
def near(address: int, by: int) -> int:
    far(address, by)
    far(address, by)
    return load(address, 0)


def test_outlined_functions_are_called_where_they_are(tmp_path: Path) -> None:
    words = np.array([1])
    assert near(words.ctypes.data, 20) == 41
    assert far.body in OUTLINED  # type: ignore[attr-defined]
    OPTIMIZER.wait()
    code = code_cache().read(near.symbol)  # type: ignore[attr-defined]
    assert code is not None and code.needs == (far.body,)  # type: ignore[attr-defined]
    assert far.body.encode() in code.binary  # type: ignore[attr-defined]
    with pytest.raises(OverflowError, match="64-bit integers"):
        near(words.ctypes.data, 2**63 - 50)
    assert words.tolist() == [2**63 - 9]


@outlined
def inner(address: int) -> int:
    return load(address, 0) * 5


@compiled
def outer(address: int) -> int:
    return plus(inner(address), 1)


@compiled
def elsewhere(a: int) -> int:
    return plus(a, 12)


def test_the_time_of_making_code_is_counted_once_and_of_each_thread_apart() -> None:
    """`outer` needs `inner`, which is made inside of its time."""
    words = np.array([2])
    before, began = CODE_TIME.seconds, time.perf_counter()
    assert outer(words.ctypes.data) == 11
    took = time.perf_counter() - began
    assert 0 < CODE_TIME.seconds - before <= took
    before = CODE_TIME.seconds
    thread = threading.Thread(target=elsewhere, args=(1,))
    thread.start()
    thread.join()
    assert elsewhere._entry is not None  # type: ignore[attr-defined]
    assert CODE_TIME.seconds == before


@outlined
def step_of(address: int) -> int:
    return load(address, 0) * 3


@compiled
def stepped(address: int, turns: int) -> int:
    total = 0
    for _ in range(turns):
        total = plus(total, step_of(address))
    return total


def test_better_code_takes_the_place_of_the_first_one() -> None:
    """In the same object of Python: whoever has it runs the new code from the next call on."""
    words = np.array([7])
    address = words.ctypes.data
    call = code_of(stepped)
    assert call(address, 5) == 105
    OPTIMIZER.wait()
    assert not stepped.is_quick and not step_of.is_quick  # type: ignore[attr-defined]
    assert code_of(stepped) is call
    assert call(address, 5) == 105
    with pytest.raises(OverflowError):
        words[0] = 2**61
        call(address, 5)
    assert code_cache().read(stepped.symbol) is not None  # type: ignore[attr-defined]
    assert code_cache().read(f"quick.{stepped.symbol}") is None  # type: ignore[attr-defined]


QUICK = """
from viewlet.native.compiled import compiled
from viewlet.native.optimizer import OPTIMIZER
import os, sys
@compiled
def twice(number: int) -> int:
    return number + number
assert twice(4) == 8 and twice.is_quick == (sys.argv[1] != "at once")
child = os.fork()
if not child:
    OPTIMIZER.wait()
    assert twice(5) == 10
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
OPTIMIZER.wait()
assert twice(4) == 8 and not twice.is_quick
"""


def test_a_process_may_fork_and_end_while_code_is_optimized(tmp_path: Path) -> None:
    program = tmp_path / "quick.py"
    program.write_text(QUICK)
    environment = os.environ | {
        "VIEWLET_CACHE": str(tmp_path / "code"),
        "VIEWLET_NATIVE": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    for how in ("quick", "at once"):
        subprocess.run([sys.executable, program, how], check=True, timeout=60, env=environment)


def test_the_gil_is_free_while_code_runs() -> None:
    words = np.zeros(2, np.int64)
    wait_here = code_of(wait)
    thread = threading.Timer(0.05, lambda: words.fill(1))
    thread.start()
    turns = wait_here(words.ctypes.data, 1)
    thread.join()
    assert 0 < turns < 2_000_000_000


def run_apart(program: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


AGAIN = """
import sys
import numpy as np
from viewlet.native.optimizer import OPTIMIZER
from viewlet.storage.multimap import begin_all
words = np.zeros(1, np.int64)
begin_all(words.ctypes.data, 0, 1)
OPTIMIZER.wait()
print("numba" in sys.modules, "viewlet.native.machine" in sys.modules)
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert run_apart(AGAIN) == "False True"
    names = {path.name.split("-")[0] for path in tmp_path.iterdir()}
    assert names == {"viewlet.storage.multimap.begin_all", "secret"}
    assert run_apart(AGAIN) == "False False"


LAST = """
import gc
import numpy as np
from viewlet.native.compiled import code_of
from viewlet.native.linker import linker
from viewlet.storage import multimap
call = code_of(multimap.begin_all)
linker.cache_clear()
multimap.begin_all._entry = None
gc.collect()
words = np.zeros(1, np.int64)
call(words.ctypes.data, 0, 1)
del call
print("well")
"""


def test_functions_outlive_whatever_the_interpreter_drops_first(tmp_path: Path) -> None:
    assert run_apart(LAST) == "well"
