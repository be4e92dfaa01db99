"""Why a query ended, in one sentence and as the right kind of error; Spark's own text is pages long."""

from pathlib import Path

import pytest

from state.config import Config
from state.connection import Connection
from streaming.checkpoint import CheckpointError
from streaming.job import JobError, Settings, explain_failure
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
        ("\n\nsomething else\nat org.apache.spark", JobError, "a query has ended: something else"),
    ],
)
def test_why_a_query_ended_is_one_sentence_of_the_right_kind(text: str, kind: type[Exception], told: str) -> None:
    explained = explain_failure(RuntimeError(text), SETTINGS)
    assert type(explained) is kind
    assert told in str(explained)
    assert "\n" not in str(explained)
