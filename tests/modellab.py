"""A swarm and its monitor, moved by single steps: what anyone can do to them, in any order, and what must be true then.

Peers sign, hear of each other, tell two stories, change entities and lie about them. Segments reach the topic late,
twice or never. The monitor reads the partitions as it likes, crashes before it has stored a batch, and is replayed.
"""

from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

from producers.replica import Replica
from state.fold import Arrival, Arrivals, Message, Topic
from state.folds import make_folds
from state.holding import Holding
from state.report import Report, decode_report
from state.segment import Segment, encode_op
from state.signing import SigningKey
from state.update import Update, decode_update, encode_update
from state.verdict import Equivocation, Fork, decode_verdict
from streaming.queries import QUERIES
from tests.clockslab import ENTITIES, PARAMETERS, Oracle, clocks_config
from tests.loglab import AUTHORS, START_MS, SWARM, Copy, oracle
from tests.matrixlab import Graph
from tests.topiclab import differences

KEYS = {key.public: key for key in (SigningKey(bytes([n]) * 32) for n in range(1, 4))}
PARTITIONS = 2
ENTITY = ENTITIES[0]


class Face:
    """One story of a peer: what it holds, and its replica. A peer that lies has several."""

    def __init__(self, author: bytes) -> None:
        self.author = author
        self.holding = Holding(SWARM, author, refs_max=len(AUTHORS))
        self.replica = Replica(SWARM, author, ENTITY, PARAMETERS)

    def sign(self, time_ms: int, ops: list[bytes]) -> Segment:
        return self.holding.close(KEYS[self.author], time_ms, ops)

    def hear(self, segment: Segment) -> None:
        for held in self.holding.receive(segment):
            for update in map(decode_update, held.ops):
                if isinstance(update, Update) and update.entity == ENTITY:
                    self.replica.receive(held.head.author, update)

    def say(self, how: str) -> bytes:
        """An op of this kind."""
        if how == "data":
            return encode_op(b"data")
        update = self.replica.change(b"%d" % len(self.replica.entity)) if how == "change" else self.replica.state()
        if how == "by clock":
            update = self.replica.state_by_clock()
        if how == "lie":
            update = update._replace(digest=bytes(32))
        return encode_update(update)


class Stored(NamedTuple):
    """What a checkpoint holds: blobs and archives by fold and key, and how far each partition is read."""

    blobs: dict[tuple[str, bytes], bytes]
    archives: dict[tuple[str, bytes], dict[bytes, bytes]]
    read: list[int]
    reports_read: int


class Monitor:
    """Both queries over a topic of segments, batch by batch, as the host and Spark run them."""

    def __init__(self, topic: list[list[Copy]]) -> None:
        self.config = clocks_config()
        self.topic = topic
        self.verdicts: dict[bytes, bytes] = {}
        self.reports: dict[bytes, Report] = {}
        """In the order in which they were first written."""
        self.tallies: dict[str, int] = defaultdict(int)
        self._stored = Stored({}, defaultdict(dict), [0] * PARTITIONS, 0)
        self._planned: list[int] | None = None
        """Up to where a batch reads that was begun and not stored: Spark writes that down first, and keeps to it."""

    def batch(self, sizes: list[int], *, stores: bool = True) -> None:
        """Read so many records of each partition, and report. A crash comes before what it did is stored, not before
        what it said; then the same batch comes again.
        """
        stored = deepcopy(self._stored)
        ends = [min(at + size, len(part)) for at, size, part in zip(stored.read, sizes, self.topic, strict=True)]
        read = self._planned or ends
        self._planned = None if stores else read
        copies = [copy for at, end, part in zip(stored.read, read, self.topic, strict=True) for copy in part[at:end]]
        arrivals = Arrivals([Arrival(*copy) for copy in copies], [])
        tallies = self._absorb("segments", arrivals, self._clock_ms(read), stored)
        reports = list(self.reports.values())
        self._absorb("matrix", Arrivals([], [], reports[stored.reports_read :]), 0, stored)
        if stores:
            self._stored = stored._replace(read=read, reports_read=len(reports))
            for name, amount in tallies.items():
                self.tallies[name] += amount

    def finish(self) -> None:
        for _ in range(2):
            self.batch([len(part) for part in self.topic])
        self.batch([0] * PARTITIONS)

    def _clock_ms(self, read: list[int]) -> int:
        """What has passed: the newest time read, or what comes before the next record of any partition."""
        newest = [part[end - 1].time_ms for part, end in zip(self.topic, read, strict=True) if end]
        unread = [part[end].time_ms - 1 for part, end in zip(self.topic, read, strict=True) if end < len(part)]
        return max(0, min([max(newest, default=0), *unread]))

    def _absorb(self, query: str, arrivals: Arrivals, clock_ms: int, stored: Stored) -> dict[str, int]:
        tallies: dict[str, int] = defaultdict(int)
        for name, fold in make_folds(QUERIES[query].folds, self.config).items():
            routed = defaultdict(list)
            for key, payload in fold.route(arrivals):
                routed[key].append(payload)
            for key in fold.all_keys():
                place = name, key
                machine = fold.open(key, stored.blobs.get(place), stored.archives[place])
                outcome = machine.absorb(routed[key], clock_ms)
                assert machine.check_invariants() == []
                stored.blobs[place] = machine.pack()
                self._write(outcome.messages)
                for tally in outcome.tallies:
                    tallies[tally.name] += tally.amount
        return tallies

    def _write(self, messages: list[Message]) -> None:
        for message in messages:
            if message.topic == Topic.MATRIX:
                report = decode_report(message.value or b"")
                assert self.reports.setdefault(message.key, report) == report, "a tick is reported in one way"
            elif message.value is None:
                self.verdicts.pop(message.key, None)
            else:
                self.verdicts[message.key] = message.value


class Model:
    """The swarm, its topic, and the monitor that watches it."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.faces = [Face(author) for author in AUTHORS]
        self.made: list[Segment] = []
        self.topic: list[list[Copy]] = [[] for _ in range(PARTITIONS)]
        self.monitor = Monitor(self.topic)

    def sign(self, face: Face, kinds: list[str]) -> None:
        """A peer closes a segment; ops that it tells change what it holds, so they are made first."""
        self.now_ms += 1
        self.made.append(face.sign(self.now_ms, [face.say(kind) for kind in kinds]))

    def publish(self, segment: Segment, partition: int) -> None:
        self.now_ms += 1
        self.topic[partition].append(Copy(segment, self.now_ms))

    def work(self, kinds: list[str], step_ms: int) -> None:
        """Each story goes on by a segment, and hears of all that was published before; a peer keeps to a partition."""
        self.now_ms += step_ms
        published = {copy.segment.id: copy.segment for part in self.topic for copy in part}
        for face in self.faces:
            for segment in published.values():
                face.hear(segment)
            self.sign(face, kinds)
            self.publish(self.made[-1], AUTHORS.index(face.author) % PARTITIONS)

    def split(self, face: Face) -> None:
        """A peer begins to tell a second story."""
        self.faces.append(deepcopy(face))

    def problems(self) -> Iterator[str]:
        """What is wrong once all is read: the monitor, a replay, and a search must say the same."""
        self.monitor.finish()
        replay = Monitor(self.topic)
        replay.finish()
        copies = [copy for part in self.topic for copy in part]
        yield from _differing("live and replay", self.monitor.verdicts, replay.verdicts)
        if self.monitor.reports.keys() != replay.reports.keys():
            yield "other ticks were reported"
        said: dict[str, dict[bytes, bytes]] = defaultdict(dict)
        for key, value in replay.verdicts.items():
            said[_fold_of(key)][key] = value
        yield from _differing("logs", said["logs"], oracle(replay.config, copies))
        yield from _differing("columns", said["columns"], Graph(replay.config, copies).verdicts())
        yield from _differing("clocks", said["clocks"], Oracle(copies, replay.config).verdicts())
        yield from self._accusations(replay)
        counted = self.monitor.tallies["verified"] + self.monitor.tallies["duplicate"]
        if counted != len(copies):
            yield f"{counted} of {len(copies)} records are counted"

    def _accusations(self, replay: Monitor) -> Iterator[str]:
        """Nobody who told one story is accused of two."""
        stories = [face.author.hex() for face in self.faces]
        for value in replay.verdicts.values():
            verdict = decode_verdict(value)
            if isinstance(verdict, Fork | Equivocation) and stories.count(verdict.author) == 1:
                yield f"{verdict.author} told one story and is accused of two"


_FOLD_OF = {
    **dict.fromkeys(("known", "accepted", "belief"), "columns"),
    **dict.fromkeys(("replica", "bad_update"), "clocks"),
    **dict.fromkeys(("split", "silent", "one_way", "undecidable"), "splits"),
}


def _fold_of(key: bytes) -> str:
    return _FOLD_OF.get(key.decode().partition("/")[0], "logs")


def _differing(what: str, got: dict[bytes, bytes], want: dict[bytes, bytes]) -> Iterator[str]:
    for key, values in differences(got, want).items():
        yield f"{what}: {key!r}: got, want {values}"
