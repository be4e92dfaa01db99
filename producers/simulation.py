"""What a simulation gives: a configuration, the records on the topic, and the ground truth about them.

The truth is what a monitor has to find, no more and no less. It is JSON for people and tests: bytes are hex digits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from state.config import Config
from state.segment import Reason


class Record(NamedTuple):
    """One record of the topic of segments. A value of None is one that Kafka calls a tombstone."""

    time_ms: int
    key: bytes
    value: bytes | None


class Noop(msgspec.Struct, frozen=True, order=True):
    """A noop by its full name; sorts by author, index, id."""

    author: str
    index: int
    id: str


class Fork(msgspec.Struct, frozen=True):
    """All published segments of an author that claim one `previous`, sorted; there are two or more."""

    author: str
    previous: str
    branches: list[str]


class Equivocation(msgspec.Struct, frozen=True):
    """The least index at which an author published two noops, and the two least ids there."""

    author: str
    index: int
    ids: list[str]


class Missing(msgspec.Struct, frozen=True):
    """A noop that published segments name and that nobody published; all who name it, sorted.

    It is disputed if another noop of that author and index is on the topic.
    """

    author: str
    index: int
    id: str
    disputed: bool
    referrers: list[Noop]


class BadIndex(msgspec.Struct, frozen=True):
    """A published segment whose index is not that of its `previous`, which is published too, plus one."""

    author: str
    index: int
    id: str
    previous: str
    previous_index: int


class Rejected(msgspec.Struct, frozen=True):
    """A record that must be rejected: its position in the stream of records, counted from 0, and why."""

    position: int
    reason: Reason


class Skewed(msgspec.Struct, frozen=True):
    """An author whose clock is off by more than is tolerated; ahead of time is positive."""

    author: str
    skew_ms: int


class Split(msgspec.Struct, frozen=True):
    """A time in which no knowledge flowed between the sides; None: it never ended.

    A peer that forked stands on no side, nor does one that hears several and is heard by none.
    """

    since_ms: int
    until_ms: int | None
    sides: list[list[str]]
    suspects: list[str]


class Replica(msgspec.Struct, frozen=True):
    """How an author's replica of an entity stands to all that was published of it, by its newest update.

    `lacks` is how many published events it does not have; None where its author alone can tell.
    """

    author: str
    entity: str
    state: str
    why: str
    lacks: int | None


class BadUpdate(msgspec.Struct, frozen=True, order=True):
    """An author published an update of an entity that cannot be right for this reason."""

    author: str
    entity: str
    why: str


class StoryLine(msgspec.Struct, frozen=True):
    """Something that happened, in words."""

    time_ms: int
    text: str


class GroundTruth(msgspec.Struct, frozen=True, kw_only=True):
    """All that is true about a run. records = verified + rejected + duplicates."""

    scenario: str
    seed: int
    swarm: str
    verified: int
    """Distinct valid segments on the topic."""
    duplicates: int
    """Valid records that repeat the id of an earlier one."""
    rejected: list[Rejected]
    forks: list[Fork]
    equivocations: list[Equivocation]
    missing: list[Missing]
    bad_index: list[BadIndex]
    skewed: list[Skewed]
    splits: list[Split]
    replicas: list[Replica]
    bad_updates: list[BadUpdate]
    story: list[StoryLine]


class Simulation(NamedTuple):
    """A run that is over: what stands on the topic, in the order of publication, and what is true about it."""

    config: Config
    records: Sequence[Record]
    truth: GroundTruth
