"""What a fold is: a pure state machine that absorbs events and gives verdicts, and how a host may treat it.

A fold says which events of a batch it wants and under which key (`route`); all events of one key meet in one machine.
A machine is opened from a blob and an archive, absorbs, and is packed into a blob again.

What a host guarantees: each event is absorbed at least once; a blob and the archive belong to the same moment; the
clock never goes back. What it does not guarantee: order, or that an event comes once. A fold's verdicts must not
depend on either.
"""

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import NamedTuple, Protocol

from state.config import Config
from state.report import Report
from state.segment import Reason, Segment

Archive = MutableMapping[bytes, bytes]
"""Where a machine keeps what is rarely read again. Reading and writing cost time, holding costs none."""


class Topic:
    """Suffixes of the topics that messages go to; the prefix is the operator's."""

    SEGMENTS = "segments"
    VERDICTS = "verdicts"
    MATRIX = "matrix"
    REJECTED = "rejected"


class Arrival(NamedTuple):
    """A verified segment and the record time of this copy of it."""

    segment: Segment
    time_ms: int


class Place(NamedTuple):
    """Where a record stands; no two records share one."""

    topic: str
    partition: int
    offset: int
    time_ms: int


class Refusal(NamedTuple):
    """A record that was rejected, whole, with its reason and place."""

    reason: Reason
    place: Place
    key: bytes | None
    value: bytes | None


class Arrivals(NamedTuple):
    """What ingest read from one stretch of a partition: segments, or reports of blocks of columns."""

    verified: list[Arrival]
    refused: list[Refusal]
    reports: Sequence[Report] = ()


class Message(NamedTuple):
    """One record to be written. A value of None withdraws what stood under the key."""

    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Tally(NamedTuple):
    """Something counted while absorbing; the host adds it up."""

    name: str
    amount: int


class Outcome(NamedTuple):
    messages: list[Message]
    tallies: list[Tally]


class Machine(Protocol):
    """The state of one key of a fold."""

    def absorb(self, payloads: Iterable[bytes], clock_ms: int) -> Outcome:
        """Take in events, in any order, seen before or not; `clock_ms` is the event time that has passed."""

    def pack(self) -> bytes:
        """The blob of the state now; what stands in the archive is written there."""

    def check_invariants(self) -> list[str]:
        """What is wrong with the state, in words; nothing if all is well. Quick enough for each batch."""

    def audit(self, names: Iterable[bytes]) -> Iterator[str]:
        """What is wrong with all that is kept, of which it reads every entry; too slow for each batch.

        Requires a machine that was opened just now; `names` are those of the entries of its archive.
        """


class Fold(Protocol):
    """A kind of finding: which events it wants, under which keys, and the machine that absorbs them."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """The version of its blobs; a blob of another version is refused."""

    @property
    def tallies(self) -> tuple[str, ...]:
        """The names of all that its machines count."""

    def all_keys(self) -> Iterable[bytes]:
        """Every key it can have: the clock is sent to each."""

    def route(self, arrivals: Arrivals) -> Iterator[tuple[bytes, bytes]]:
        """The events it wants, as (key, payload)."""

    def open(self, key: bytes, blob: bytes | None, archive: Archive) -> Machine:
        """The machine of `key`; a blob of None is a key that was never seen."""


class FoldFactory(Protocol):
    def __call__(self, config: Config) -> Fold: ...
