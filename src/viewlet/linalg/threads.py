"""How many threads the BLAS of SciPy may use in this process.

Several Python workers on one machine must not each start a thread per core: OpenBLAS threads wait
by spinning, and on shared cores they wait for each other. Spark tells workers nothing of the kind
in local mode, so the partition program sets the limit itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import scipy

_NAMES = (
    "scipy_openblas_set_num_threads",
    "scipy_openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


@lru_cache(maxsize=1)
def _setter() -> Callable[[int], object] | None:
    """OpenBLAS's own function, from the library that SciPy's wheel brought and loaded."""
    package = Path(scipy.__file__).parent
    for folder in (package.parent / "scipy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for name in _NAMES:
                function = getattr(library, name, None)
                if function is not None:
                    function.argtypes, function.restype = [ctypes.c_int], None
                    set_threads: Callable[[int], object] = function
                    return set_threads
    return None


@lru_cache(maxsize=1)
def limit_threads(count: int) -> bool:
    """Let SciPy's BLAS use `count` threads from now on; False where it cannot be told."""
    setter = _setter()
    if setter is None:
        return False
    setter(count)
    return True
