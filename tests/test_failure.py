"""Why a query ended, in one sentence and as the right kind of error; Spark's own text is pages long."""

import errno
import os
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from state.config import Config
from state.connection import Connection
from streaming.checkpoint import CheckpointError
from streaming.failure import JobError, explain_failure, explained
from streaming.job import Settings
from streaming.parts import MissingPartError

SETTINGS = Settings(Config(()), Connection(bootstrap="kafka:9092"), Path("/state"), prefix="lab")
KAFKA = "org.apache.kafka.common.errors"


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        (f"{KAFKA}.SaslAuthenticationException: Authentication failed", MissingPartError, "refuses the job"),
        (f"{KAFKA}.SslAuthenticationException: SSL handshake failed", MissingPartError, "refuses the job"),
        (f"{KAFKA}.TopicAuthorizationException: Not authorized: [lab.verdicts]", MissingPartError, "quorumscope acls"),
        (f"{KAFKA}.TimeoutException: Timeout of 60000ms expired", MissingPartError, "start again when it is back"),
        ("Some data may have been lost because", JobError, "lab.segments expired before they were read"),
        ("x BlobVersionError: the checkpoint holds version 1\nat …", CheckpointError, "the checkpoint holds version 1"),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred",
            CheckpointError,
            "is damaged or missing: start with",
        ),
        ("Failed to read log file file:/state/commits/4. Incomplete", CheckpointError, "new checkpoint directory"),
        ("java.io.IOException: No space left on device", CheckpointError, "make room and start again, nothing is lost"),
        ("An error occurred while calling o1.x.\n: java.lang.Error: why", JobError, "has ended: java.lang.Error: why"),
        (
            "Cannot call methods on a stopped SparkContext.",
            JobError,
            "executors fail again and again",
        ),
        ("heap space\n\tat org.apache.spark.StateSchemaChecker.read(x.scala:1)", JobError, "has ended: heap space"),
        ("\n\nsomething else\nat org.apache.spark", JobError, "a query has ended: something else"),
    ],
)
def test_why_a_query_ended_is_one_sentence_of_the_right_kind(text: str, kind: type[Exception], told: str) -> None:
    explained = explain_failure(RuntimeError(text), SETTINGS)
    assert type(explained) is kind
    assert told in str(explained)
    assert "\n" not in str(explained)


def test_what_went_wrong_first_counts_when_the_end_goes_wrong_too() -> None:
    def work_and_end() -> None:
        try:
            raise Py4JError("No space left on device")
        finally:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    with pytest.raises(CheckpointError, match="there is no room left"), explained(SETTINGS):
        work_and_end()


def test_an_error_that_would_ask_a_jvm_that_has_gone_for_its_text_is_told_without() -> None:
    class AskingError(Py4JError):  # type: ignore[misc]  # the library brings no types
        def __str__(self) -> str:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    with pytest.raises(JobError, match="a query has ended: AskingError; details are in"), explained(SETTINGS):
        raise AskingError


def test_a_line_to_spark_that_is_cut_is_the_end_of_its_process() -> None:
    with pytest.raises(JobError, match="Spark's process has ended by itself: start again"), explained(SETTINGS):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_checkpoint_that_cannot_be_written_is_one_sentence(number: int) -> None:
    with (
        pytest.raises(CheckpointError, match=f"^/state cannot be written: {os.strerror(number)}$"),
        explained(SETTINGS),
    ):
        raise OSError(number, os.strerror(number), "/state/starts.tmp")


def test_another_error_of_the_system_is_a_bug_and_stays_what_it_is() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"), explained(SETTINGS):
        raise OSError(errno.EBADF, "Bad file descriptor")
