"""The jars of Spark's Kafka connector and of the embedded broker: fetched once, checked against a lock.

- `jars.xml` says what is wanted; `jars.lock` says which files that is, each with its SHA-256.
- `fetch` lets the Ivy that pyspark ships download them, compares every file with the lock, and only then makes the
  folder visible, by renaming it. A folder that exists is complete and was checked.
- The folder is named by the lock's digest, so two checkouts with different locks never meet.
- Ivy asks the public Maven repository. QUORUMSCOPE_IVY_SETTINGS may name an Ivy settings file, for a mirror;
  proxies are taken from the environment.

`python -m streaming.jars` fetches; with `--lock` it writes the lock anew, for who changes `jars.xml`.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from streaming.java import find_java_home
from streaming.parts import MissingPartError, cache_dir
from streaming.truststore import java_options, write_truststore

IVY_FILE = Path(__file__).with_name("jars.xml")
LOCK_FILE = Path(__file__).with_name("jars.lock")

GROUPS = ("spark", "broker")
"""What Spark needs, and what the embedded broker is made of."""

FETCH_SECONDS_MAX = 1200  # about 50 seconds on a good line; a dead one must not hang the set-up for ever

# How Java says that it does not trust the authority that signed for the other side.
UNTRUSTED = "PKIX path building failed"


def spark_jars() -> list[Path]:
    """The jars that Spark needs to read and write Kafka."""
    return _held("spark")


def broker_jars() -> list[Path]:
    """The class path of the embedded broker."""
    return _held("broker")


def fetch(progress: Callable[[str], None], groups: Collection[str] = GROUPS) -> None:
    """Bring the jars of the lock, those of these groups, into the cache; does nothing if they are there."""
    lock = {name: digest for name, digest in read_lock().items() if name.partition("/")[0] in groups}
    folder = _folder()
    if _complete(folder, lock):
        return
    progress(f"fetching {len(lock)} jars for Spark and Kafka (about a minute) …")
    with _retrieved(groups) as fresh:
        try:
            verify(fresh, lock)
        except MissingPartError:
            shutil.rmtree(_ivy_cache(), ignore_errors=True)  # or Ivy would hand out the same bytes again
            raise
        _publish(fresh, folder, lock)
    shutil.rmtree(_ivy_cache(), ignore_errors=True)


def verify(folder: Path, lock: dict[str, str]) -> None:
    """Refuse a folder that is not, file by file and byte by byte, what the lock says."""
    found = _digests(folder)
    for name in sorted(lock.keys() | found.keys()):
        wanted, got = lock.get(name, "no such file"), found.get(name, "no such file")
        if wanted != got:
            raise MissingPartError(
                f"The jar {name} is not the one of the lock (SHA-256 wanted {wanted}, got {got}): it was not "
                "installed; run `make setup` again, and if it stays so, ask who runs your Maven mirror."
            )


def read_lock() -> dict[str, str]:
    """File name, with its sub folder, to SHA-256 in hex."""
    pairs = (line.split() for line in LOCK_FILE.read_text(encoding="utf-8").splitlines())
    return {name: digest for digest, name in pairs}


def write_lock() -> None:
    """Fetch what `jars.xml` asks for and trust it from now on."""
    with _retrieved() as fresh:
        lines = [f"{digest}  {name}\n" for name, digest in sorted(_digests(fresh).items())]
    LOCK_FILE.write_text("".join(lines), encoding="utf-8")


def _held(group: str) -> list[Path]:
    folder = _folder()
    paths = [folder / name for name in sorted(read_lock()) if name.startswith(f"{group}/")]
    if not all(path.is_file() for path in paths):
        raise MissingPartError("The jars of Spark's Kafka connector and of the broker are missing: run `make setup`.")
    return paths


def _folder() -> Path:
    return cache_dir() / "jars" / sha256(LOCK_FILE.read_bytes()).hexdigest()[:16]


def _ivy_cache() -> Path:
    return cache_dir() / "ivy"


def _complete(folder: Path, lock: dict[str, str]) -> bool:
    return all((folder / name).is_file() for name in lock)


def _digests(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): _digest(path) for path in folder.rglob("*") if path.is_file()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _publish(fresh: Path, folder: Path, lock: dict[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # somebody took files out of it
    try:
        fresh.rename(folder)
    except OSError:
        if not _complete(folder, lock):  # otherwise another set-up was quicker
            raise


@contextmanager
def _retrieved(groups: Collection[str] = GROUPS) -> Iterator[Path]:
    """A folder, for a while, with what Ivy downloaded, one sub folder for each group."""
    parent = cache_dir() / "jars"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".fetch-", ignore_cleanup_errors=True) as scratch:
        fresh = Path(scratch) / "fresh"
        _download(Path(scratch), fresh, groups)
        yield fresh


def _download(scratch: Path, fresh: Path, groups: Collection[str]) -> None:
    status, output = _ivy(fresh, groups, [])
    store = scratch / "truststore"
    if status != 0 and UNTRUSTED in output and write_truststore(store):
        status, output = _ivy(fresh, groups, java_options(store))
    if status != 0:
        raise MissingPartError(
            f"The jars could not be fetched ({_reason(output)}): check the connection to the Maven repository and "
            "run `make setup` again."
        )


def _ivy(fresh: Path, groups: Collection[str], options: list[str]) -> tuple[int, str]:
    """Run Ivy; its exit status and all it said."""
    command = [str(find_java_home() / "bin" / "java"), *_proxy_options(), *options, "-jar", str(_ivy_program())]
    settings = os.environ.get("QUORUMSCOPE_IVY_SETTINGS")
    if settings:
        command += ["-settings", settings]
    command += ["-ivy", str(IVY_FILE), "-cache", str(_ivy_cache()), "-confs", *groups]
    command += ["-retrieve", f"{fresh}/[conf]/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=FETCH_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"Server access error: no end after {FETCH_SECONDS_MAX} seconds"
    return done.returncode, done.stdout


def _ivy_program() -> Path:
    package = importlib.util.find_spec("pyspark")
    folder = Path(package.origin).parent / "jars" if package and package.origin else Path()
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise MissingPartError("pyspark, or the Ivy that it ships, is not installed: run `make setup`.")
    return found[-1]


def _proxy_options() -> list[str]:
    """Java reads no https_proxy from the environment; everything else on the machine does."""
    options = []
    proxies = getproxies()
    for scheme, default_port in (("http", 80), ("https", 443)):
        proxy = urlsplit(proxies.get(scheme, ""))
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or default_port}"]
    return options


def _reason(output: str) -> str:
    """The line of Ivy's output that tells most."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for sign in ("Server access error", "not found", "rror"):
        telling = [line for line in lines if sign in line]
        if telling:
            return telling[0]
    return lines[-1] if lines else "Ivy said nothing"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """The command line of this module; exit code 3 and a sentence if the jars cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m streaming.jars", description="Fetch the jars of the lock.")
    parser.add_argument("--lock", action="store_true", help="write the lock anew from jars.xml (for maintainers)")
    parser.add_argument("--group", choices=GROUPS, help="fetch this group alone")
    arguments = parser.parse_args()
    try:
        if arguments.lock:
            write_lock()
            _say(f"wrote {LOCK_FILE.name}: {len(read_lock())} jars")
        else:
            fetch(_say, (arguments.group,) if arguments.group else GROUPS)
    except MissingPartError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
