"""Why a job ended, in one sentence and as the right kind of error. Spark's own text is pages long, and in the log."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

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
_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO}


class JobError(Exception):
    """A query ended by itself; the message is one sentence."""


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Turn what Spark, or a checkpoint that cannot be written, raises in here into a sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise explain_failure(error, settings) from None
    except OSError as error:
        if error.errno not in _ERRNOS:
            raise
        raise CheckpointError(f"{settings.checkpoint} cannot be written: {error.strerror}") from None


def explain_failure(error: Exception, settings: Settings) -> Exception:
    """A query's exception as one sentence of the right kind."""
    # What Spark says first often leaves out the cause, which stands at the end of its stack.
    text = f"{error}\n{getattr(error, '_stackTrace', '')}"
    kafka, log = settings.connection.bootstrap, f"details are in {settings.checkpoint / 'spark.log'}"
    if "BlobVersionError: " in text:
        return CheckpointError(text.partition("BlobVersionError: ")[2].partition("\n")[0])
    if "data may have been lost" in text:
        topic = plan_of(settings).source_of(QUERIES["segments"])
        return JobError(
            f"records of {topic} expired before they were read: start with a new checkpoint directory, and `since`, to "
            f"judge what is left, and keep segments longer (retention.ms); {log}"
        )
    if any(name in text for name in _NO_ROOM):
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
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return JobError(f"a query has ended: {first[:300]}; {log}")
