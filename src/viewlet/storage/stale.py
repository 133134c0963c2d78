"""Machine code on disk that no longer fits its source.

Numba keeps a function's code beside its module and makes it anew when that module changes. It does
not see that a constant or a function of another module went into the code: after a change of the
record layout, code of the old one would write to wrong places. So the whole package's code is kept
or dropped together, by a hash over its sources.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

_STAMP = "sources.sha256"


def drop_stale_code(package: Path = Path(__file__).parent) -> bool:
    """Remove the package's kept machine code if any of its sources has changed since."""
    digest = hashlib.sha256()
    for source in sorted(package.glob("*.py")):
        digest.update(source.read_bytes())
    kept = package / "__pycache__"
    stamp = kept / _STAMP
    with contextlib.suppress(OSError):
        if stamp.exists() and stamp.read_text(encoding="ascii") == digest.hexdigest():
            return False
    # A package that cannot be written has its code elsewhere, made for that installation alone.
    with contextlib.suppress(OSError):
        for code in [*kept.glob("*.nbi"), *kept.glob("*.nbc")]:
            code.unlink(missing_ok=True)
        kept.mkdir(exist_ok=True)
        stamp.write_text(digest.hexdigest(), encoding="ascii")
    return True
