"""State that is kept away from the checkpoint directory: where Spark reaches it by a URI, as in an object store.

The directory keeps what this program itself writes: lock, label and log. Both ends hold the same label, so that neither
a lost directory nor another one is joined to a state that it does not fit.
"""

from pathlib import Path
from typing import Any

import msgspec

from streaming.checkpoint import AGAIN, LABEL, CheckpointError, is_of


def agree(session: Any, uri: str, directory: Path) -> None:
    """Leave the directory's label with the state if that is new; CheckpointError unless they are of each other."""
    jvm = session.sparkContext._jvm  # noqa: SLF001
    ours = (directory / LABEL).read_bytes()
    try:
        folder = jvm.org.apache.hadoop.fs.Path(uri)
        path = jvm.org.apache.hadoop.fs.Path(folder, LABEL)
        files = folder.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001
        theirs = _read(jvm, files, path)
        if theirs is None and files.exists(folder) and files.listStatus(folder):
            raise CheckpointError(f"{uri} is not empty and no state of quorumscope: give another URI")
        if theirs is None or (theirs != ours and _is_of(theirs, ours)):
            files.mkdirs(folder)
            _write(files, path, ours)
            theirs = ours
    except _java_errors() as error:
        raise CheckpointError(f"the state at {uri} cannot be used: {_reason(error)}") from None
    if theirs != ours:
        raise CheckpointError(
            f"the state at {uri} is not that of {directory}: give the directory that it was made with, or, if that is "
            f"lost and no job works with it, put the file {LABEL} from there into an empty directory; else {AGAIN}"
        )


def _read(jvm: Any, files: Any, path: Any) -> bytes | None:
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def _write(files: Any, path: Any, content: bytes) -> None:
    stream = files.create(path)
    try:
        stream.write(bytearray(content))
    finally:
        stream.close()


def _is_of(theirs: bytes, ours: bytes) -> bool:
    try:
        return is_of(theirs, ours)
    except msgspec.DecodeError:
        return False


def _java_errors() -> tuple[type[Exception], ...]:
    """Those of Java; some of them PySpark makes its own."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return (Py4JJavaError, PySparkException)


def _reason(error: Any) -> str:
    """What Java says, without its stack."""
    thrown = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    return str(error if thrown is None else thrown.toString()).splitlines()[0]
