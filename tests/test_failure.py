"""Why a query ended, in one sentence and as the right kind of error; Spark's own text is pages long."""

import errno
import os
from pathlib import Path

import pytest

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
        ("\n\nsomething else\nat org.apache.spark", JobError, "a query has ended: something else"),
    ],
)
def test_why_a_query_ended_is_one_sentence_of_the_right_kind(text: str, kind: type[Exception], told: str) -> None:
    explained = explain_failure(RuntimeError(text), SETTINGS)
    assert type(explained) is kind
    assert told in str(explained)
    assert "\n" not in str(explained)


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
