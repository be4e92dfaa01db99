"""Why a job ended, in one sentence and as the right kind of error. Spark's own text is pages long, and in the log."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError

from streaming.checkpoint import AGAIN, CheckpointError
from streaming.job import Settings, plan_of
from streaming.parts import MissingPartError
from streaming.queries import QUERIES

_REFUSED = ("SaslAuthenticationException", "SslAuthenticationException", "AuthorizationException")
_LOST = ("TimeoutException", "UnknownTopicOrPartition", "DisconnectException", "UnknownServerException")
_NO_ROOM = ("No space left on device", "Disk quota exceeded")
_DAMAGED = (
    *("CANNOT_LOAD_STATE_STORE", "MALFORMED_LOG_FILE", "ChecksumException", "CONCURRENT_STREAM_LOG_UPDATE"),
    *("Failed to read log file", "STATE_STORE_PROVIDER", "StateSchema", "FAILED_TO_READ_DELTA_FILE"),
)
_NO_EXECUTORS = ("Max number of executor failures", "Cannot call methods on a stopped SparkContext")
_CALLING = "An error occurred while calling"
"""How Python begins to tell what Java says in the next line."""
_JVM_GONE = (Py4JNetworkError, ConnectionError)
_ROOM_BYTES_MIN = 1 << 20
"""A disk with less room than this is full: a batch of a job writes as much."""

_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO}


class JobError(Exception):
    """A query ended by itself; the message is one sentence."""


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Turn what Spark, or a checkpoint that cannot be written, raises in here into a sentence."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise explain_failure(error, settings) from None
    except OSError as error:
        if error.errno not in _ERRNOS:
            raise
        raise CheckpointError(f"{settings.checkpoint} cannot be written: {error.strerror}") from None


def explain_failure(error: Exception, settings: Settings) -> Exception:
    """A query's exception as one sentence of the right kind."""
    text = "\n".join(map(_text, _story(error)))
    kafka, log = settings.connection.bootstrap, f"details are in {settings.checkpoint / 'spark.log'}"
    if "BlobVersionError: " in text:
        return CheckpointError(text.partition("BlobVersionError: ")[2].partition("\n")[0])
    if "data may have been lost" in text:
        topic = plan_of(settings).source_of(QUERIES["segments"])
        return JobError(
            f"records of {topic} expired before they were read: start with a new checkpoint directory, and `since`, to "
            f"judge what is left, and keep segments longer (retention.ms); {log}"
        )
    if any(name in text for name in _NO_ROOM) or _is_full(settings.checkpoint):
        return CheckpointError(
            f"there is no room left for {settings.checkpoint} or for Spark's temporary files (spark.local.dir): make "
            f"room and start again, nothing is lost; {log}"
        )
    if any(name in text for name in _REFUSED):
        return MissingPartError(
            f"Kafka at {kafka} refuses the job: check its password and certificates, and its rights with "
            f"`quorumscope acls`; {log}"
        )
    if any(name in text for name in _DAMAGED):
        return CheckpointError(f"a file of {settings.checkpoint} is damaged or missing: {AGAIN}; {log}")
    if any(name in text for name in _LOST):
        return MissingPartError(
            f"Kafka at {kafka} stopped answering, or the topic has gone: start again when it is back, nothing is lost; "
            f"{log}"
        )
    if isinstance(error, _JVM_GONE):
        return JobError(f"Spark's process has ended by itself: start again, nothing is lost; {log}")
    if any(name in text for name in _NO_EXECUTORS):
        return JobError(f"Spark has given up, because its executors fail again and again: look at their logs; {log}")
    said = (line.lstrip(": ") for line in text.splitlines() if line.strip() and not line.startswith(_CALLING))
    return JobError(f"a query has ended: {next(said, type(error).__name__)[:300]}; {log}")


def _story(error: BaseException) -> list[BaseException]:
    """What went wrong first, and what went wrong because of it while all was being ended."""
    return [*(_story(error.__context__) if error.__context__ else ()), error]


def _text(error: BaseException) -> str:
    """What Spark says first often leaves out the cause, which stands at the end of its stack, between the calls.

    The calls themselves are left out: what a class is called says nothing of what went wrong in it.
    """
    try:
        lines = f"{error}\n{getattr(error, '_stackTrace', '')}".splitlines()
        return "\n".join(line for line in lines if not line.lstrip().startswith("at "))
    except _JVM_GONE:  # some errors ask the JVM what they are
        return type(error).__name__


def _is_full(folder: Path) -> bool:
    """Whether a folder's disk has no room: what Spark says then need not name it."""
    try:
        return shutil.disk_usage(folder).free < _ROOM_BYTES_MIN
    except OSError:
        return False
