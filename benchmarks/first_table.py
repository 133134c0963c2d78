"""From `git clone` to the demo's first live table, by the README's first command alone.

    python benchmarks/first_table.py                   with the machine's Java, if it has one
    python benchmarks/first_table.py --without-java    programs of the machine except Java
    python benchmarks/first_table.py --demo "--engine local --seconds 10"

Clones this repository's HEAD into a new directory, runs `make demo` there on a terminal of its own,
prints the seconds to the first table and to the end, and removes the directory.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST_TABLE = b"refreshed in"


def without_java(folder: Path) -> dict[str, str]:
    """An environment with links to all programs that are not Java's, and no JAVA_HOME."""
    folder.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in directory.iterdir() if directory.is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    inherited = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    return {**inherited, "PATH": str(folder), "TERM": "xterm"}


def watch(command: list[str], where: Path, environment: dict[str, str], limit: float) -> bool:
    """Run on a terminal of 130 columns; whether the first table came and the command ended well."""
    start = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(where)
        os.execvpe(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 130, 0, 0))
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.alarm(int(limit))
    shown, seen = b"", False
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the other side has closed it
            break
        if not seen and FIRST_TABLE in shown:
            seen = True
            print(f"first table after {time.monotonic() - start:.1f} s", flush=True)
    _, status = os.waitpid(child, 0)
    print(f"ended with {status} after {time.monotonic() - start:.1f} s")
    if status or not seen:
        print(shown[-3000:].decode(errors="replace"))
    return seen and status == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--without-java", action="store_true")
    parser.add_argument("--demo", default="--seconds 10", help="arguments of the demo")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds until it is ended")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        clone = Path(made) / "clone"
        environment = without_java(Path(made) / "bin") if given.without_java else dict(os.environ)
        environment["VIEWLET_CACHE"] = str(Path(made) / "kernels")  # a first start compiles
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        command = ["make", "demo", f"DEMO={given.demo}"]
        if not watch(command, clone, environment, given.limit):
            sys.exit(1)


if __name__ == "__main__":
    main()
