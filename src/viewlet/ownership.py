"""Whom a directory belongs to: what others can write to holds nothing that is run or trusted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def objection_to(directory: Path) -> str | None:
    """Why a directory cannot be trusted, None if it can."""
    try:
        itself, target = directory.lstat(), directory.stat()
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    if not stat.S_ISDIR(target.st_mode):
        return "is no directory"
    if itself.st_uid != os.geteuid() or target.st_uid != os.geteuid():
        return "belongs to another user"
    if target.st_mode & OTHERS_WRITE:
        return "can be written to by others"
    return None
