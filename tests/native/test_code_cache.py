"""Code on disk is run only if it is ours and whole; everything else is made again."""

from __future__ import annotations

import logging
import os
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from viewlet.native import code_cache as module
from viewlet.native.code_cache import CodeCache, ObjectCode, code_cache
from viewlet.native.compiled import Compiled, compiled

pytestmark = pytest.mark.skipif(
    not isinstance(compiled(abs), Compiled), reason="native code is off"
)

CODE = ObjectCode(("some.body", "other.body"), bytes(range(256)) * 8)


@pytest.fixture
def cache(tmp_path: Path) -> CodeCache:
    directory = tmp_path / "own"
    directory.mkdir(mode=0o700)
    return CodeCache(directory)


# One file.


def test_what_is_written_is_read(cache: CodeCache) -> None:
    cache.write("f-1", CODE)
    assert cache.read("f-1") == CODE
    assert cache.read("f-2") is None
    assert {path.name for path in cache.directory.iterdir()} == {"f-1.o", "secret"}
    assert stat.S_IMODE(cache.path("f-1").stat().st_mode) == 0o600


def test_no_changed_bit_is_taken(cache: CodeCache) -> None:
    cache.write("f-1", CODE)
    path = cache.path("f-1")
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        assert module._unpacked(bytes(changed), "f-1", cache._secret or b"") is None, bit
    path.write_bytes(changed)
    assert cache.read("f-1") is None
    path.write_bytes(content)
    assert cache.read("f-1") == CODE


def test_no_part_is_taken_and_nothing_behind_it(cache: CodeCache) -> None:
    cache.write("f-1", CODE)
    path = cache.path("f-1")
    content = path.read_bytes()
    for length in range(len(content)):
        assert module._unpacked(content[:length], "f-1", cache._secret or b"") is None, length
    for changed in (b"", content[:-1], content + b"\0"):
        path.write_bytes(changed)
        assert cache.read("f-1") is None


def test_a_file_under_another_name_is_not_taken(cache: CodeCache) -> None:
    cache.write("f-1", CODE)
    cache.path("f-1").rename(cache.path("g-1"))
    assert cache.read("g-1") is None


def test_a_file_of_another_directory_is_not_taken(cache: CodeCache, tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    foreign = CodeCache(tmp_path / "foreign")
    foreign.write("f-1", CODE)
    shutil.copy(foreign.path("f-1"), cache.path("f-1"))
    assert cache.read("f-1") is None and foreign.read("f-1") == CODE


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_not_taken(cache: CodeCache, mode: int) -> None:
    cache.write("f-1", CODE)
    cache.path("f-1").chmod(mode)
    assert cache.read("f-1") is None


def test_a_file_of_another_user_is_not_taken(
    cache: CodeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write("f-1", CODE)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert cache.read("f-1") is None


@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_only_plain_files_are_read(cache: CodeCache, kind: str, tmp_path: Path) -> None:
    cache.write("f-1", CODE)
    path = cache.path("f-1")
    other = path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(other)
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert cache.read("f-1") is None
    cache.write("f-1", CODE)  # what is there gives way, or stays; nothing is raised
    assert cache.read("f-1") == (None if kind == "directory" else CODE)


# The secret.


@pytest.mark.parametrize("damage", ["short", "empty", "readable", "link"])
def test_a_secret_that_cannot_be_trusted_is_made_anew(
    cache: CodeCache, damage: str, tmp_path: Path
) -> None:
    cache.write("f-1", CODE)
    path = cache.directory / "secret"
    if damage == "readable":
        path.chmod(0o644)
    elif damage == "link":
        path.symlink_to(path.rename(tmp_path / "elsewhere"))
    else:
        path.write_bytes(b"x" * 31 if damage == "short" else b"")
    again = CodeCache(cache.directory)
    assert again.read("f-1") is None
    again.write("f-1", CODE)
    assert again.read("f-1") == CODE
    assert path.is_file() and not path.is_symlink() and len(path.read_bytes()) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# The directory.


def test_the_directory_is_made_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "a" / "b"))
    assert code_cache().directory == tmp_path / "a" / "b"
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def refused(directory: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture) -> str:
    """The one warning that a directory is not used, and that another one is."""
    monkeypatch.setenv("VIEWLET_CACHE", str(directory))
    module._private_directory.cache_clear()
    with log.at_level(logging.WARNING, "viewlet"):
        private = code_cache().directory
        assert code_cache().directory == private
    assert private != directory
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    shutil.rmtree(private)
    module._private_directory.cache_clear()
    (record,) = log.records
    assert str(directory) in record.getMessage() and "VIEWLET_CACHE" in record.getMessage()
    return record.getMessage()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_may_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    directory = tmp_path / "open"
    directory.mkdir()
    directory.chmod(mode)
    assert "can be written to by others" in refused(directory, monkeypatch, caplog)
    link = tmp_path / "link"
    link.symlink_to(directory)
    caplog.clear()
    assert "can be written to by others" in refused(link, monkeypatch, caplog)
    assert not list(directory.iterdir())


def test_a_directory_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir(mode=0o700)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert "belongs to another user" in refused(directory, monkeypatch, caplog)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_links_to_and_by_other_users_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    for directory in (theirs, mine):
        directory.mkdir(mode=0o700)
    os.chown(theirs, 12345, 12345)
    to_theirs, by_them = tmp_path / "to_theirs", tmp_path / "by_them"
    to_theirs.symlink_to(theirs)
    by_them.symlink_to(mine)
    os.lchown(by_them, 12345, 12345)
    for link in (to_theirs, by_them):
        caplog.clear()
        assert "belongs to another user" in refused(link, monkeypatch, caplog)


def test_an_own_link_to_an_own_directory_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "link"))
    assert code_cache().directory == tmp_path / "link"


def test_a_file_in_the_place_of_the_directory_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert "is no directory" in refused(tmp_path / "file", monkeypatch, caplog)
    caplog.clear()
    assert "cannot be used" in refused(tmp_path / "file" / "below", monkeypatch, caplog)


# Nothing can be written.


@pytest.mark.parametrize("secret", [True, False], ids=["full", "full from the beginning"])
def test_code_that_cannot_be_written_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: bool
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    @compiled
    def unwritten(a: int) -> int:
        return a + 1

    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    if secret:
        code_cache()
    monkeypatch.setattr(module, "_write", full)
    assert unwritten(1) == 2
    assert {path.name for path in tmp_path.iterdir()} == ({"secret"} if secret else set())


def test_only_whole_files_are_left(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", torn)
    cache.write("f-1", CODE)
    assert {path.name for path in cache.directory.iterdir()} == {"secret"}


# A planted file does not run.


def test_a_planted_file_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code under the directory's own signature does: it would be noticed if it ran."""
    from viewlet.native.machine import machine_code

    def one(a: int) -> int:
        return a * 2

    def two(a: int) -> int:
        return a * 2 + 0

    def evil(a: int) -> int:
        return a * 666

    def planted(victim: Compiled, cache: CodeCache) -> None:
        code: Compiled = compiled(evil)  # type: ignore[assignment]
        code._symbol = victim.symbol
        cache.write(victim.symbol, machine_code(code))

    for name in ("target", "elsewhere"):
        (tmp_path / name).mkdir(mode=0o700)
    target, elsewhere = CodeCache(tmp_path / "target"), CodeCache(tmp_path / "elsewhere")
    first, second = Compiled(one), Compiled(two)
    planted(first, elsewhere)
    shutil.copy(elsewhere.path(first.symbol), target.path(first.symbol))
    planted(second, target)
    monkeypatch.setenv("VIEWLET_CACHE", str(target.directory))
    assert (first(7), second(7)) == (14, 7 * 666)


# A query over damaged files.

QUERY = """
import viewlet
with viewlet.connect() as db:
    db.execute("CREATE TABLE r (a INT, b INT)")
    db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS s FROM r GROUP BY a")
    db.insert("r", [(1, 2), (1, 3), (2, 5), (None, 7)])
    db.delete("r", [(1, 3)])
    print(sorted(map(tuple, db.view("v").rows()), key=repr))
from viewlet.native.optimizer import OPTIMIZER
OPTIMIZER.wait()
"""
ANSWER = "[(1, 2), (2, 5), (None, 7)]"


def start(program: str, cache: Path) -> subprocess.Popen[str]:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "VIEWLET_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, what was printed, what was complained of."""
    printed, complained = process.communicate()
    return process.returncode, printed.strip(), complained


def damage(path: Path, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    if chance.random() < 0.5 and content:
        bit = chance.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        return f"{path.name}: bit {bit}"
    length = chance.choice([0, chance.randrange(len(content) + 1)])
    path.write_bytes(content[:length])
    return f"{path.name}: {length} bytes are left"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled") / "cache"
    code, printed, complained = ended(start(QUERY, directory))
    assert (code, printed) == (0, ANSWER), complained
    assert len(list(directory.glob("*.o"))) >= 4
    return directory


def survive(filled: Path, directory: Path, seed: int) -> None:
    chance = random.Random(seed)
    shutil.copytree(filled, directory)
    files = sorted(directory.iterdir())
    what = [damage(path, chance) for path in chance.sample(files, chance.choice([1, 1, 3]))]
    code, printed, complained = ended(start(QUERY, directory))
    assert (code, printed) == (0, ANSWER), (what, complained)
    cache = CodeCache(directory)
    assert all(cache.read(path.stem) is not None for path in directory.glob("*.o")), what


@pytest.mark.parametrize("seed", range(5))
def test_a_query_survives_damage(filled: Path, tmp_path: Path, seed: int) -> None:
    survive(filled, tmp_path / "damaged", seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_a_query_survives_all_damage(filled: Path, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        survive(filled, tmp_path / str(seed), seed)


FUNCTIONS = """
import numpy as np
from viewlet.storage.memory import float_bits, mix, spread
from viewlet.storage.multimap import begin_all
words = np.zeros(1, np.int64)
begin_all(words.ctypes.data, 0, 1)
float_bits(1.0), mix(1, 2), spread(3)
print("well")
"""


def test_processes_share_a_directory(tmp_path: Path) -> None:
    """Four that begin with none at the same time: one secret, and every file is signed with it."""
    directory = tmp_path / "shared"
    running = [start(FUNCTIONS, directory) for _ in range(4)]
    assert [ended(process)[:2] for process in running] == [(0, "well")] * 4
    assert not list(directory.glob("*.tmp"))
    cache = CodeCache(directory)
    files = list(directory.glob("*.o"))
    assert len(files) == 4 and all(cache.read(path.stem) is not None for path in files)


# What was translated.


def test_translated_functions_are_remembered(cache: CodeCache) -> None:
    assert not cache.is_translated("f-1")
    cache.note_translated("f-1")
    cache.note_translated("g-1")
    again = CodeCache(cache.directory)
    assert again.is_translated("f-1") and again.is_translated("g-1")
    assert not again.is_translated("f")
    (cache.directory / "translated").write_bytes(b"\xff\xfe" * 10)
    assert not CodeCache(cache.directory).is_translated("f-1")
