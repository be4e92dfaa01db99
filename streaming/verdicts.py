"""Reads `.verdicts` as anyone may: from its beginning, by key, the last value counts and no value withdraws."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from state.connection import Connection
from state.fold import Topic
from state.verdict import AnyVerdict, decode_verdict
from streaming.follow import Follower


class Update(NamedTuple):
    """A record of the topic: a verdict, or None where one is withdrawn."""

    key: str
    verdict: AnyVerdict | None


class VerdictReader:
    """Follows the verdicts of one deployment. `unreadable` counts records that are no verdicts; they are skipped."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self.unreadable = 0
        self.verdicts: dict[str, AnyVerdict] = {}
        self._follower = Follower(connection, f"{prefix}.{Topic.VERDICTS}")

    def poll(self, seconds: float) -> Iterator[Update]:
        """What has come; waits at most `seconds` for the first."""
        for message in self._follower.poll(seconds):
            update = self._read(message)
            if update is not None:
                yield update

    def read_to_end(self) -> dict[str, AnyVerdict]:
        """All that stands on the topic now, by key."""
        for message in self._follower.read_to_end():
            self._read(message)
        return self.verdicts

    def close(self) -> None:
        self._follower.close()

    def _read(self, message: Any) -> Update | None:
        key = (message.key() or b"").decode(errors="replace")
        if message.value() is None:
            self.verdicts.pop(key, None)
            return Update(key, None)
        try:
            verdict = decode_verdict(message.value())
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.unreadable += 1
            return None
        self.verdicts[key] = verdict
        return Update(key, verdict)
