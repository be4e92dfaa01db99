"""An attack at rate, while an honest swarm is at work: nothing is lost, nothing lies, and the honest wait no longer.

A fifth of the records that come is bad, in each of the ways of the limits table in turn. Beside that, one partition
gets garbage alone, and one peer's name is flooded with segments whose signatures are wrong.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from producers.forgery import Forger
from producers.simulation import Record
from producers.sinks import publish_live
from producers.swarm import Settings, connected_swarm
from producers.truth import finish
from state.config import Config
from state.connection import Connection
from state.segment import Reason, Segment, decode_refs, judge
from state.signing import SIGNATURE_BYTES, SigningKey
from state.verdict import Accepted, decode_verdict
from streaming.broker import Broker
from tests.faults.faultlab import Input, Trials
from tests.joblab import Deployment
from tests.topiclab import Written, read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PEERS, PARTITIONS = 6, 8
WARM_S, CALM_S, FLOOD_S = 12, 14, 18
SETTLE_S = 2
"""At the beginning of a part of the run, what was published in the part before is still being accepted."""
GOOD_A_FORGERY = 4
FLOOD_A_SECOND = 500
"""Records of garbage, and as many in a peer's name."""
RATIO_MAX = 2.0
RECORD_BYTES = 2 << 20


class Part(NamedTuple):
    """A stretch of the run, in the broker's time."""

    begin_ms: float
    end_ms: float


def test_the_honest_are_accepted_as_soon_while_attackers_flood_the_topic(
    trials: Trials, broker: Broker, tmp_path: Path
) -> None:
    seconds = WARM_S + CALM_S + FLOOD_S
    now_ms = time.time_ns() // 1_000_000
    swarm = connected_swarm(Settings(peers=PEERS, interval_ms=250, duration_ms=1000 * seconds, start_ms=now_ms))
    run = finish(swarm, "at work")
    place = Deployment(Connection(bootstrap=broker.bootstrap), "flood", run.config, tmp_path, PARTITIONS, live=True)
    job = place.start()
    job.wait_for(lambda: job.jvm is not None)
    calmly, flooded = split_at(run.records, 1000 * (WARM_S + CALM_S))
    kafka, topic = place.connection.librdkafka(), place.topic("segments")
    publish_live(calmly, kafka, topic)
    begun_ms = 1000 * time.time()
    attackers = Attackers(place, swarm.peers[-1].key, run.config)
    with attackers.flooding():
        publish_live(flooded, kafka, topic, on_record=attackers.forge_in_turn)
    calm = Part(begun_ms - 1000 * (CALM_S - SETTLE_S), begun_ms)
    flood = Part(begun_ms + 1000 * SETTLE_S, 1000 * time.time())
    job.stop()
    trials.finish(place)

    written = read_topic(place.connection, place.topic("segments"))
    reasons = Counter(
        outcome for message in written if isinstance(outcome := judge(message.value, run.config.authors), Reason)
    )
    assert reasons.keys() == set(Reason)
    assert min(reasons[Reason.MALFORMED], reasons[Reason.BAD_SIGNATURE]) > FLOOD_A_SECOND * FLOOD_S / 2
    assert attackers.forged == len(flooded) // GOOD_A_FORGERY
    before_ms, during_ms = (median(waits_ms(place, part)) for part in (calm, flood))
    ratio = during_ms / before_ms
    told = f"{sum(reasons.values()) / FLOOD_S:.0f} bad records a second; the honest wait {ratio:.2f} times as long"
    given = Input(run.config, [Record(message.time_ms, message.key or b"", message.value) for message in written])
    outcome = trials.settle(place, given, f"a flood: {told} ({before_ms:.0f} → {during_ms:.0f} ms)", 1)
    assert outcome.rejected == sum(reasons.values())
    assert ratio < RATIO_MAX


def split_at(records: Sequence[Record], after_ms: float) -> tuple[Sequence[Record], Sequence[Record]]:
    """The records of the first so many milliseconds, and those after them."""
    end_ms = records[0].time_ms + after_ms
    count = sum(record.time_ms < end_ms for record in records)
    return records[:count], records[count:]


def waits_ms(place: Deployment, part: Part) -> list[float]:
    """How long it took from what made noops accepted to the verdict, of those accepted in a part of the run."""
    first: dict[bytes, Written] = {}
    for message in read_topic(place.connection, place.topic("verdicts")):
        if message.key is not None and message.value is not None:
            first.setdefault(message.key, message)
    verdicts = ((decode_verdict(message.value or b""), message.time_ms) for message in first.values())
    found = [
        time_ms - verdict.accepted_ms
        for verdict, time_ms in verdicts
        if isinstance(verdict, Accepted) and part.begin_ms <= verdict.accepted_ms <= part.end_ms
    ]
    assert len(found) > 50
    return found


class Attackers:
    """Somebody with the key of the last peer of the roster, a key of nobody, and all that stands on the topic."""

    forged = 0

    def __init__(self, place: Deployment, rogue: SigningKey, config: Config) -> None:
        self._topic = place.topic("segments")
        self._chance = Random(6)
        self._producer = Producer({**place.connection.librdkafka(), "message.max.bytes": RECORD_BYTES, "linger.ms": 5})
        written = read_topic(place.connection, self._topic)
        self._garbage_partition = min(set(range(PARTITIONS)) - {message.spot.partition for message in written})
        outcomes = [judge(message.value, config.authors) for message in written]
        segments = [outcome for outcome in outcomes if isinstance(outcome, Segment)]
        mine = [one for one in segments if one.head.author == rogue.public]
        theirs = [one for one in segments if one not in mine and len(one.ops) > 1 and decode_refs(one.refs)]
        self._victim = theirs[-1]
        authors = list(config.swarms[0].authors)
        forger = Forger(self._chance, rogue, SigningKey(bytes(32)), mine[-1], self._victim, authors)
        self._forgeries = cycle(list(forger.forgeries()))
        self._good = 0

    def forge_in_turn(self, _record: Record) -> None:
        """One forgery for so many good records."""
        self._good += 1
        if self._good % GOOD_A_FORGERY == 0:
            forgery = next(self._forgeries)
            self._producer.produce(self._topic, forgery.value, forgery.key)
            self.forged += 1

    @contextmanager
    def flooding(self) -> Iterator[None]:
        """Garbage into one partition, and segments in a peer's name into its own, until the end of the block."""
        halt = threading.Event()
        thread = threading.Thread(target=self._flood, args=(halt,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            halt.set()
            thread.join()
            assert self._producer.flush(30) == 0

    def _flood(self, halt: threading.Event) -> None:
        begun, sent = time.monotonic(), 0
        while not halt.wait(0.02):
            due = (time.monotonic() - begun) * FLOOD_A_SECOND
            while sent < due:
                garbage = self._chance.randbytes(self._chance.randint(1, 2_000))
                self._producer.produce(self._topic, garbage, b"garbage", self._garbage_partition)
                self._producer.produce(self._topic, self._in_the_victims_name(), self._victim.head.author)
                sent += 1
            self._producer.poll(0)

    def _in_the_victims_name(self) -> bytes:
        """A segment that looks like the next one of the victim, but for its signature."""
        head = self._victim.head._replace(index=self._victim.head.index + 1, previous=self._chance.randbytes(32))
        signature = self._chance.randbytes(SIGNATURE_BYTES - 1) + b"\0"
        return self._victim._replace(head=head, head_bytes=head.encode(), signature=signature).encode()
