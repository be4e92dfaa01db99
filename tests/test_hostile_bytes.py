"""Random and mutated bytes through real Kafka, beside a swarm at work: nothing stops, nothing is lost, nothing lies."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from producers.scenarios import SCENARIOS
from producers.simulation import Record
from producers.swarm import Settings
from state import wire_pb2
from state.head import HEAD_BYTES
from state.segment import Reason, Segment, judge
from state.signing import SIGNATURE_BYTES
from streaming.broker import Broker
from tests.topiclab import DeadLetter, Lab, Send, Spot, Written, differences, fold_alone, tallied

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PARTITIONS = 3
YEAR_9999_MS = 253_370_764_800_000
NOW = -1
"""Stands for the time of the broker when a record is written."""


def random_values(chance: Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield chance.randbytes(chance.choice([1, 2, 7, 64, HEAD_BYTES, 300, 2_000]))


def mutants(chance: Random, values: list[bytes], count: int) -> Iterator[bytes]:
    """Good records with bytes flipped, cut out, put in, doubled, or joined to a part of another."""
    for _ in range(count):
        value = bytearray(chance.choice(values))
        at, size = chance.randrange(len(value)), chance.randint(1, 40)
        match chance.randrange(6):
            case 0:
                value[at] ^= 1 << chance.randrange(8)
            case 1:
                value[at : at + size] = chance.randbytes(size)
            case 2:
                del value[at : at + size]
            case 3:
                value[at:at] = chance.randbytes(size)
            case 4:
                value[at:at] = value[at : at + size]
            case _:
                value[at:] = chance.choice(values)[chance.randrange(200) :]
        yield bytes(value)


def half_built(chance: Random, segments: list[Segment], count: int) -> Iterator[bytes]:
    """Messages whose fields have the right sizes, and with more and more of their content right too."""
    for _ in range(count):
        real = chance.choice(segments)
        known = chance.choice([0, 8, 40, 72])
        head = real.head_bytes[:known] + chance.randbytes(HEAD_BYTES - known)
        ops = [chance.randbytes(chance.randrange(50)) for _ in range(chance.randrange(4))]
        refs = chance.randbytes(72 * chance.randrange(3))
        yield wire_pb2.Segment(
            head=chance.choice([head, real.head_bytes]),
            signature=chance.randbytes(SIGNATURE_BYTES),
            ops=ops,
            refs=refs,
        ).SerializeToString()


def spread(chance: Random, records: list[Record]) -> list[Send]:
    """Send each key to one partition, as a producer does."""
    partition_of: dict[bytes, int] = defaultdict(lambda: chance.randrange(PARTITIONS))
    return [Send(partition_of[record.key], *record) for record in records]


def mixed(chance: Random, good: list[Send], bad: list[Send]) -> list[Send]:
    """A place for each bad record among the good ones, which keep their order. Those of NOW get the time of that place.

    This topic has the times that are written to it. One from the future would let time pass for all that comes after
    it, so there is none before the end.
    """
    places = sorted(
        [*((chance.random(), send) for send in bad), *((at / len(good), good[at]) for at in range(len(good)))],
        key=lambda one: one[0],
    )
    sends, now_ms = [], good[0].time_ms
    for _, send in places:
        sends.append(send if send.time_ms != NOW else send._replace(time_ms=now_ms))
        now_ms = max(now_ms, sends[-1].time_ms)
    return sends


def test_thousands_of_bad_records_change_no_verdict_and_are_all_kept(
    broker: Broker, spark: Any, tmp_path: Path
) -> None:
    chance = Random(4)
    simulation = SCENARIOS["lying-peer"].run(Settings())
    authors = simulation.config.authors
    good = spread(chance, list(simulation.records))
    values = [send.value for send in good if send.value]
    segments = [judged for value in values if isinstance(judged := judge(value, authors), Segment)]
    hostile = [*random_values(chance, 2_000), *mutants(chance, values, 3_000), *half_built(chance, segments, 1_000)]
    keys = [None, b"", b"\0", *{send.key for send in good}]
    bad = [Send(chance.randrange(PARTITIONS), NOW, chance.choice(keys), value) for value in hostile]
    odd = [
        Send(chance.randrange(PARTITIONS), time_ms, key, value)
        for time_ms in (0, 1, NOW, YEAR_9999_MS)
        for key in (None, b"", b"key")
        for value in (None, b"", b"\0")
        if time_ms or key is not None or value is not None
    ]
    bad += [send for send in odd if send.time_ms < YEAR_9999_MS]
    sends = mixed(chance, good, bad) + [send for send in odd if send.time_ms == YEAR_9999_MS]

    lab = Lab(broker, spark, tmp_path, simulation.config, PARTITIONS)
    sent = lab.send(sends)
    progress = lab.run_all(offsets_max=3_000)

    written = lab.segments()
    assert {w.spot: (w.time_ms, w.key, w.value) for w in written} == {
        spot: (send.time_ms, send.key, send.value) for spot, send in sent.items()
    }
    outcomes = {spot: judge(send.value, authors) for spot, send in sent.items()}
    ids = {segment.id for segment in segments}
    # Nobody can make another segment without a key: what passes is one that was there before.
    passed = [outcome for outcome in outcomes.values() if isinstance(outcome, Segment)]
    assert {segment.id for segment in passed} == ids
    letters = lab.dead_letters()
    assert letters == {
        spot: DeadLetter(outcome, sent[spot].key, sent[spot].value)
        for spot, outcome in outcomes.items()
        if isinstance(outcome, Reason)
    }
    assert len(letters) > 5_500
    found = lab.verdicts()
    assert differences(found, fold_alone(simulation.config, written)) == {}
    assert differences(found, fold_alone(simulation.config, [Written(Spot(0, 0), *s[1:], {}) for s in good])) == {}
    kinds = Counter(key.split(b"/")[0] for key in found)
    assert (kinds.pop(b"fork"), kinds.pop(b"equivocation"), kinds.pop(b"belief")) == (1, 1, 2)
    assert kinds.keys() == {b"known", b"accepted"}
    state, counted = lab.state(), tallied(batch for batches in progress.values() for batch in batches)
    assert state.rejected == Counter(letter.reason for letter in letters.values())
    assert (state.verified, state.duplicates) == (len(ids), len(passed) - len(ids))
    assert len(written) == state.verified + state.duplicates + len(letters)
    assert (counted["invariant_violations"], counted["quarantined"], counted["noops_late"]) == (0, 0, 0)


def test_segments_with_a_record_time_of_zero_are_judged_like_any_others(
    broker: Broker, spark: Any, tmp_path: Path
) -> None:
    simulation = SCENARIOS["seed-example"].run(Settings())
    lab = Lab(broker, spark, tmp_path, simulation.config, PARTITIONS)
    lab.send(spread(Random(5), [record._replace(time_ms=0) for record in simulation.records]))
    assert {written.time_ms for written in lab.segments()} == {0}
    lab.run_all()
    assert lab.state().verified == simulation.truth.verified
    found = lab.verdicts()
    assert differences(found, fold_alone(simulation.config, lab.segments())) == {}
    kinds = Counter(key.split(b"/")[0] for key in found)
    # Whoever is before the first epoch has no roster to be known or accepted by.
    assert kinds == {b"clock_skew": 3}
