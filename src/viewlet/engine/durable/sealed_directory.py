"""A directory that is whole or known not to be: MANIFEST has length and checksum of every file.

seal_directory    files that somebody wrote -> synced, listed, the list sealed and synced
check_directory   DamagedFile names the first file that is missing, altered, or too many
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from viewlet.engine.durable.disk import Disk
from viewlet.engine.durable.sealed import DamagedFile, seal, unseal

MANIFEST = "MANIFEST"
_CHUNK = 1 << 20


def seal_directory(disk: Disk, directory: Path) -> int:
    """Make every file below durable and write the MANIFEST; how many bytes there are."""
    listed: dict[str, Any] = {}
    folders = [directory]
    for path in sorted(directory.rglob("*")):
        if path.is_dir():
            folders.append(path)
            continue
        disk.sync(path)
        listed[path.relative_to(directory).as_posix()] = [path.stat().st_size, _digest(path)]
    manifest = directory / MANIFEST
    disk.write(manifest, seal(json.dumps(listed).encode()))
    disk.sync(manifest)
    for folder in reversed(folders):
        disk.sync_directory(folder)
    disk.sync_directory(directory.parent)
    return sum(size for size, _ in listed.values())


def check_directory(directory: Path) -> None:
    """DamagedFile unless every listed file is there as it was written, and no other is."""
    try:
        data = (directory / MANIFEST).read_bytes()
    except OSError as problem:
        raise DamagedFile(f"{directory / MANIFEST}: {problem.strerror}") from problem
    listed = _listed(directory / MANIFEST, data)
    present = {
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    }
    for name in sorted(present - listed.keys() - {MANIFEST}):
        raise DamagedFile(f"{directory / name}: the file does not belong here")
    for name, (size, digest) in listed.items():
        path = directory / name
        try:
            if path.stat().st_size != size:
                raise DamagedFile(f"{path}: {path.stat().st_size} bytes instead of {size}")
            if _digest(path) != digest:
                raise DamagedFile(f"{path}: the checksum does not fit the contents")
        except OSError as problem:
            raise DamagedFile(f"{path}: {problem.strerror}") from problem


def _listed(manifest: Path, data: bytes) -> dict[str, tuple[int, str]]:
    """Length and checksum of every file; another sealed file in this place is no list of any."""
    try:
        listed = json.loads(unseal(str(manifest), data))
        return {name: (int(size), str(digest)) for name, (size, digest) in listed.items()}
    except (ValueError, TypeError, AttributeError):
        raise DamagedFile(f"{manifest}: it is not the list of these files") from None


def _digest(path: Path) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest()
