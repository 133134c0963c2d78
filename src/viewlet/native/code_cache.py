"""Machine code on disk, which is run without a further look: so nothing is taken that is not ours.

    DIRECTORY/secret            32 random bytes, by which this directory's files are signed
    DIRECTORY/SYMBOL.o          code:  magic | version | signature | lengths | symbol, needs, code
    DIRECTORY/quick.SYMBOL.o    the same, not optimized yet
    DIRECTORY/translated        symbols of functions that were translated and perhaps never compiled

A file is used if it belongs to this user, nobody else may write to it, and the signature, a keyed
BLAKE2b over all that follows it, is right for the symbol that was asked for. A file that is cut
off, changed, renamed, empty, or comes from another directory is as good as none: the code is made
again and the file replaced. The secret keeps out files that were only laid there (an unpacked
archive, a shared volume, a directory that was open once); it cannot keep out a process of this
user, who can change this program as well.

The directory is made for this user alone. If it belongs to somebody else, is a link that somebody
else made, or others may write to it, a private one takes its place until the process ends, and the
log says so once. Files appear in one move, so that several processes can share a directory; where
nothing can be written, code lives in memory.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import stat
import struct
import tempfile
from functools import cache, cached_property
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

from viewlet.ownership import OTHERS_WRITE, objection_to

logger = logging.getLogger("viewlet")

_MAGIC = b"VIEWLET\x00"
_VERSION = 1
_PREFIX = struct.Struct("<8sI32s")
_LENGTHS = struct.Struct("<IIQ")
_SECRET_BYTES = 32
_MOST_NOTED = 1 << 20  # bytes; then it begins anew
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class ObjectCode(NamedTuple):
    """`needs` names the outlined functions that must be linked before."""

    needs: tuple[str, ...]
    binary: bytes


class CodeCache:
    """The code in one directory. Reads and writes never raise: the worst is to compile again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._secret = _secret(directory)

    def path(self, symbol: str) -> Path:
        """Where the code of a function is."""
        return self.directory / f"{symbol}.o"

    def read(self, symbol: str) -> ObjectCode | None:
        """The code of a function if it is there and ours."""
        content = _own_content(self.path(symbol), OTHERS_WRITE)
        if content is None or self._secret is None:
            return None
        return _unpacked(content, symbol, self._secret)

    def write(self, symbol: str, code: ObjectCode) -> None:
        """Keep the code of a function, if that is possible."""
        if self._secret is not None:
            with contextlib.suppress(OSError):
                _write(self.path(symbol), _packed(code, symbol, self._secret))

    def remove(self, symbol: str) -> None:
        """Forget the code of a function."""
        with contextlib.suppress(OSError):
            self.path(symbol).unlink(missing_ok=True)

    def is_translated(self, symbol: str) -> bool:
        """Whether a function is known to be of the language, because it was translated once."""
        return symbol in self._translated or self.path(symbol).exists()

    def note_translated(self, symbol: str) -> None:
        """Remember that for the next process: most programs between two views never see a row."""
        self._translated.add(symbol)
        path = self.directory / "translated"
        with contextlib.suppress(OSError):
            fresh = os.O_TRUNC if path.exists() and path.stat().st_size > _MOST_NOTED else 0
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NOT_FOLLOWED | fresh
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                file.write(f"{symbol}\n".encode())

    @cached_property
    def _translated(self) -> set[str]:
        content = _own_content(self.directory / "translated", OTHERS_WRITE) or b""
        return set(content.decode(errors="replace").splitlines())


def code_cache() -> CodeCache:
    """VIEWLET_CACHE, or viewlet/kernels in the user's cache; a private one where that is unsafe."""
    chosen = os.environ.get("VIEWLET_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return _cache_at(chosen or str(Path(base) / "viewlet" / "kernels"))


@cache
def _cache_at(path: str) -> CodeCache:
    directory = Path(path)
    with contextlib.suppress(OSError):  # what cannot be made is not there, which is said below
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    objection = objection_to(directory)
    if objection is None:
        return CodeCache(directory)
    logger.warning(
        "the code cache %s %s: compiled code is not kept after this process; "
        "make it a directory of your own (chmod 700) or name another one in VIEWLET_CACHE",
        directory,
        objection,
    )
    return CodeCache(_private_directory())


@cache
def _private_directory() -> Path:
    """A new directory that only this user can enter; it goes when the process that made it ends."""
    folder = tempfile.mkdtemp(prefix="viewlet-kernels-")
    atexit.register(_remove_own, folder, os.getpid())
    return Path(folder)


def _remove_own(directory: str, process: int) -> None:
    if os.getpid() == process:  # a fork has the same duties at its end
        rmtree(directory, ignore_errors=True)


# Files.


def _packed(code: ObjectCode, symbol: str, secret: bytes) -> bytes:
    name, needs = symbol.encode(), "\n".join(code.needs).encode()
    signed = _LENGTHS.pack(len(name), len(needs), len(code.binary)) + name + needs + code.binary
    return _PREFIX.pack(_MAGIC, _VERSION, _signature(signed, secret)) + signed


def _unpacked(content: bytes, symbol: str, secret: bytes) -> ObjectCode | None:
    """The code in a file, None if anything about it is wrong."""
    body = _PREFIX.size + _LENGTHS.size
    if len(content) < body:
        return None
    magic, version, signature = _PREFIX.unpack_from(content)
    signed = memoryview(content)[_PREFIX.size :]
    if magic != _MAGIC or version != _VERSION:
        return None
    if not hmac.compare_digest(signature, _signature(signed, secret)):
        return None
    name_size, needs_size, size = _LENGTHS.unpack_from(signed)
    needs_at, code_at = body + name_size, body + name_size + needs_size
    if len(content) != code_at + size or content[body:needs_at] != symbol.encode():
        return None
    needs = content[needs_at:code_at].decode()
    return ObjectCode(tuple(needs.splitlines()), content[code_at:])


def _signature(signed: bytes | memoryview, secret: bytes) -> bytes:
    return hashlib.blake2b(signed, key=secret, digest_size=32, person=b"viewlet code").digest()


def _secret(directory: Path) -> bytes | None:
    """The directory's secret, made now if there is none; None where it cannot be kept."""
    path = directory / "secret"
    secret = _own_content(path, _OTHERS)
    if secret is not None and len(secret) == _SECRET_BYTES:
        return secret
    new = secrets.token_bytes(_SECRET_BYTES)
    try:
        _write(path, new, replace=path.exists() or path.is_symlink())
    except OSError:
        return None
    # Another process may have been first.
    secret = _own_content(path, _OTHERS)
    return secret if secret is not None and len(secret) == _SECRET_BYTES else None


def _own_content(path: Path, forbidden: int) -> bytes | None:
    """A regular file of this user without the forbidden permissions; None for all others."""
    flags = os.O_RDONLY | _NOT_FOLLOWED | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if not is_own or status.st_mode & forbidden:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_linked(temporary: str, path: Path) -> bool:
    """Give a file its name, unless another process was first; False where links cannot be made."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def _write(path: Path, content: bytes, *, replace: bool = True) -> None:
    """In one move, so that no process reads half a file; without `replace` the first one stays."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")  # for this user alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if replace or not _is_linked(temporary, path):
            Path(temporary).replace(path)
    finally:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
