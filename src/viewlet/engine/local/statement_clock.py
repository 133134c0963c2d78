"""How the time of a trigger is shared among its statements, measured in some of its batches.

    on_r(all steps)  ->  on_r(step 0), on_r(step 1), ...    in the first batches, then one of 16

The steps of a trigger can be run one by one (kernels.frame), which is what happens anyway when a
map is full: the batch is the same, and each call of machine code is timed. The code knows nothing
of it, so that who never asks pays nothing. Steps of several statements count for each of them in
equal parts: these share a loop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from viewlet.engine.host.kernel_host import KernelHost
from viewlet.kernels.frame import ROW, STEP, control_words
from viewlet.kernels.jit import Kernel
from viewlet.kernels.loop_nodes import Step

FIRST = 8
EVERY = 16


class TimedTrigger:
    """The machine code of a trigger in its batch shape, which takes the time of its steps."""

    def __init__(self, code: Kernel, host: KernelHost, steps: Sequence[Step]) -> None:
        self._code = code
        self._host = host
        self._steps = [control_words(at, at + 1) for at in range(len(steps))]
        self._statements = [step.statements for step in steps]
        self._seconds = [0.0] * len(steps)
        self._calls = 0

    def is_due(self) -> bool:
        """Whether the next batch is timed."""
        return self._calls < FIRST or not self._calls % EVERY

    def __call__(self, state: int, control: int) -> int:
        """As the code itself; control words other than the state's own are those of a lane."""
        is_due = self.is_due()
        self._calls += 1
        host = self._host
        words = host.state
        if not is_due or control != host.state_address or words[STEP] or words[ROW] >= 0:
            return self._code(state, control)
        for at, step in enumerate(self._steps):
            words[: len(step)] = step
            began = time.perf_counter()
            while self._code(state, control):
                host.make_room(words)
            self._seconds[at] += time.perf_counter() - began
        return 0

    def seconds(self) -> list[float]:
        """Of the batches that were timed, by the positions of the trigger's statements."""
        last = max((max(numbers, default=-1) for numbers in self._statements), default=-1)
        shares = [0.0] * (last + 1)
        for numbers, seconds in zip(self._statements, self._seconds, strict=True):
            for number in numbers:
                shares[number] += seconds / len(numbers)
        return shares
