"""Ingest: every record becomes an event or a refusal, and every key is told what was read."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from producers.hostile import hostile_input
from producers.simulation import Simulation
from producers.swarm import Settings
from state.fold import Arrivals, Message, Place, Refusal, Topic
from state.folds import make_folds
from state.rejected import RejectedFold
from state.report import Report, decode_report, encode_report
from state.segment import Reason, Segment, judge
from streaming.clock import NO_TIME, Reading
from streaming.ingest import EVENT_SCHEMA, Ingest, NextTime, read_records, read_reports
from streaming.queries import QUERIES

TOPIC = "any.segments"
MATRIX_TOPIC = "any.matrix"
RECORD_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
FOLDS = QUERIES["segments"].folds
Record = tuple[str, int, int, int, bytes | None, bytes | None]
EventRow = dict[str, Any]


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return hostile_input(Settings())


@pytest.fixture(scope="module")
def records(simulation: Simulation) -> list[Record]:
    """The whole simulation, as it would stand on partition 5."""
    return [(TOPIC, 5, offset, *record) for offset, record in enumerate(simulation.records)]


def in_batches(records: list[Record], size: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(records), size):
        columns = zip(*records[at : at + size], strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RECORD_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


def judged(simulation: Simulation, records: list[Record], read: Callable[..., Arrivals] = read_records) -> Arrivals:
    def origin(at: int) -> tuple[Place, bytes | None]:
        return Place(*records[at][:4]), records[at][4]

    values, times_ms = [record[5] for record in records], [record[3] for record in records]
    return read(values, times_ms, origin, simulation.config.authors)


def at_the_end(*_: int) -> int:
    return NO_TIME


def run(
    simulation: Simulation,
    records: list[Record],
    size: int = 100,
    *,
    next_time: NextTime = at_the_end,
    topic: str = TOPIC,
    folds: tuple[str, ...] = FOLDS,
) -> list[EventRow]:
    ingest = Ingest(topic, simulation.config, make_folds(folds, simulation.config), next_time)
    batches = list(ingest.batches(in_batches(records, size)))
    assert all(batch.schema == EVENT_SCHEMA for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def absorbed(simulation: Simulation, rows: list[EventRow], folds: tuple[str, ...] = FOLDS) -> list[Message]:
    """All that the folds say about these rows."""
    made = make_folds(folds, simulation.config)
    keys = sorted({(row["fold"], row["key"]) for row in rows})
    clock_ms = max(row["newest_ms"] for row in rows)
    messages = []
    for name, key in keys:
        payloads = [row["payload"] for row in rows if (row["fold"], row["key"]) == (name, key) and row["payload"]]
        messages += made[name].open(key, None, {}).absorb(payloads, clock_ms).messages
    return sorted(messages, key=lambda message: (message.topic, message.key))


def readings(rows: list[EventRow]) -> set[Reading]:
    return {Reading(row["partition"], row["newest_ms"], row["unread_ms"]) for row in rows if row["payload"] is None}


@pytest.fixture(scope="module")
def reports(simulation: Simulation, records: list[Record]) -> list[Record]:
    """What the columns report of the simulation, as it would stand on partition 2 of the topic of reports."""
    said = absorbed(simulation, run(simulation, records))
    written = [message for message in said if message.topic == Topic.MATRIX]
    return [(MATRIX_TOPIC, 2, at, 1000 + at, message.key, message.value) for at, message in enumerate(written)]


def test_an_event_brings_no_reading_and_a_reading_no_event(simulation: Simulation, records: list[Record]) -> None:
    rows = [row for row in run(simulation, records) if row["payload"] is not None]
    assert {(row["partition"], row["newest_ms"], row["unread_ms"]) for row in rows} == {(0, NO_TIME, NO_TIME)}


def test_each_record_is_an_arrival_or_a_refusal_with_its_place_and_bytes(
    simulation: Simulation, records: list[Record]
) -> None:
    arrivals = judged(simulation, records)
    bad = {one.position: one.reason for one in simulation.truth.rejected}
    assert arrivals.refused == [
        Refusal(reason, Place(TOPIC, 5, position, records[position][3]), records[position][4], records[position][5])
        for position, reason in bad.items()
    ]
    good = [(judge(record[5], simulation.config.authors), record) for record in records]
    assert [(arrival.segment.encode(), arrival.time_ms) for arrival in arrivals.verified] == [
        (segment.encode(), record[3]) for segment, record in good if isinstance(segment, Segment)
    ]
    assert len(arrivals.verified) + len(bad) == len(records)


def test_a_record_without_a_time_has_the_earliest_time_there_is(simulation: Simulation, records: list[Record]) -> None:
    good = next(record for record in records if not isinstance(judge(record[5], simulation.config.authors), Reason))
    timeless = (*good[:3], NO_TIME, *good[4:])
    ((_, time_ms),) = judged(simulation, [timeless]).verified
    assert time_ms == 0


def test_how_the_records_are_cut_into_arrow_batches_does_not_show(
    simulation: Simulation, records: list[Record]
) -> None:
    whole = run(simulation, records, size=len(records))
    want = absorbed(simulation, whole)
    assert Counter(message.topic for message in want)[Topic.REJECTED] == len(simulation.truth.rejected)
    kinds = Counter(message.key.split(b"/")[0] for message in want if message.topic == Topic.VERDICTS)
    assert (kinds[b"fork"], kinds[b"bad_index"], kinds[b"clock_skew"]) == (1, 1, 2)
    assert kinds[b"known"] >= kinds[b"accepted"] > 0
    for size in (1, 7, 100):
        cut = run(simulation, records, size)
        assert absorbed(simulation, cut) == want
        assert readings(cut) == readings(whole)


def test_many_events_travel_in_few_rows(simulation: Simulation, records: list[Record]) -> None:
    rows = [row for row in run(simulation, records, size=len(records)) if row["payload"]]
    keys = {(row["fold"], row["key"]) for row in rows}
    # Heads and refs of a shard are a row each, noops of a block one; refused records of 1 MB need rows of their own.
    assert len(rows) <= 2 * len(keys) + 3


def test_every_key_is_told_once_what_was_read_even_if_it_has_no_events(
    simulation: Simulation, records: list[Record]
) -> None:
    rows = [row for row in run(simulation, records[:3], size=1) if row["payload"] is None]
    folds = make_folds(FOLDS, simulation.config)
    told = [(name, key) for name, fold in folds.items() for key in fold.all_keys()]
    assert sorted((row["fold"], row["key"]) for row in rows) == sorted(told)
    assert {name for name, _ in told} == {"logs", "columns", "clocks"}


def test_the_reading_has_the_newest_time_of_all_records_and_the_time_of_the_one_after_the_last(
    simulation: Simulation, records: list[Record]
) -> None:
    """Also of one that is rejected: whoever wrote it, the broker says what time it was."""
    first_bad = min(one.position for one in simulation.truth.rejected)
    read = [*records[:first_bad], (*records[first_bad][:3], 1 << 50, *records[first_bad][4:])]
    asked = []

    def next_time(partition: int, offset: int, time_ms: int) -> int:
        asked.append((partition, offset, time_ms))
        return time_ms + 7

    for size in (1, 7, 1000):
        found = readings(run(simulation, read, size, next_time=next_time))
        assert found == {Reading(5, 1 << 50, (1 << 50) + 7)}
    assert asked == [(5, first_bad, 1 << 50)] * 3


def test_each_partition_of_a_task_has_a_reading_of_its_own(simulation: Simulation, records: list[Record]) -> None:
    other = [(record[0], 6, *record[2:]) for record in records[:4]]
    ends = {5: NO_TIME, 6: 1 << 50}
    found = readings(
        run(simulation, [*records[:9], *other], 5, next_time=lambda partition, _offset, _time_ms: ends[partition])
    )
    newest = (max(record[3] for record in records[:count]) for count in (9, 4))
    assert found == {Reading(at, ms, ends[at]) for at, ms in zip(ends, newest, strict=True)}


def test_a_late_record_does_not_take_the_reading_back(simulation: Simulation, records: list[Record]) -> None:
    bad = {one.position for one in simulation.truth.rejected}
    good = [record for position, record in enumerate(records) if position not in bad][:10]
    newest_ms = max(record[3] for record in good)
    for size in (1, 10):
        assert readings(run(simulation, good[::-1], size)) == {Reading(5, newest_ms, NO_TIME)}


def test_a_task_that_read_nothing_tells_nothing(simulation: Simulation) -> None:
    assert run(simulation, []) == []


def test_refused_records_of_many_bytes_are_split_over_rows() -> None:
    value = bytes(3 << 20)
    refused = [Refusal(Reason.TOO_LARGE, Place(TOPIC, 0, offset, 1), None, value) for offset in range(5)]
    fold = RejectedFold(None)
    rows = list(fold.route(Arrivals([], refused)))
    assert [key for key, _ in rows] == [bytes(4)] * 3
    letters = fold.open(bytes(4), None, {}).absorb([payload for _, payload in rows], 0).messages
    assert [letter.key.decode() for letter in letters] == [f"{TOPIC}/0/{offset}" for offset in range(5)]
    assert all(letter.value == value for letter in letters)


# Reports


def test_reports_are_read_as_they_were_written(simulation: Simulation, reports: list[Record]) -> None:
    arrivals = judged(simulation, reports, read_reports)
    assert (arrivals.verified, arrivals.refused) == ([], [])
    assert len(arrivals.reports) > 50
    assert [encode_report(report) for report in arrivals.reports] == [record[5] for record in reports]


def encoded(**changes: Any) -> bytes:
    empty = Report(bytes(32), 0, 1, 1000, 0, [], [], b"", b"", b"", b"", [], [])
    return encode_report(msgspec.structs.replace(empty, **changes))


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xc1",
        b"not a report",
        msgspec.msgpack.encode({"a": "report"}),
        msgspec.msgpack.encode([1, 2, 3]),
        encoded(tick_ms="soon"),
        encoded()[:-1],
        encoded() + b"more",
    ],
)
def test_what_is_no_report_is_refused_with_its_place_and_bytes_and_the_others_are_read(
    simulation: Simulation, reports: list[Record], value: bytes | None
) -> None:
    bad = (MATRIX_TOPIC, 2, 99, 5, b"key", value)
    arrivals = judged(simulation, [*reports[:2], bad, *reports[2:4]], read_reports)
    assert arrivals.refused == [Refusal(Reason.MALFORMED, Place(MATRIX_TOPIC, 2, 99, 5), b"key", value)]
    assert arrivals.reports == [decode_report(record[5] or b"") for record in reports[:4]]


def test_a_report_of_a_swarm_that_is_not_configured_is_refused(simulation: Simulation, reports: list[Record]) -> None:
    value = encoded(swarm=b"\7" * 32)
    strange = (MATRIX_TOPIC, 2, 99, 5, None, value)
    arrivals = judged(simulation, [strange, *reports[:3]], read_reports)
    assert arrivals.refused == [Refusal(Reason.UNKNOWN_SWARM, Place(MATRIX_TOPIC, 2, 99, 5), None, value)]
    assert len(arrivals.reports) == 3


def test_the_topic_says_how_its_records_are_read(simulation: Simulation, reports: list[Record]) -> None:
    folds = QUERIES["matrix"].folds
    junk = (MATRIX_TOPIC, 2, len(reports), 2000, b"key", b"no report")
    rows = run(simulation, [*reports, junk], topic=MATRIX_TOPIC, folds=folds)
    assert readings(rows) == {Reading(2, 2000, NO_TIME)}
    (letter, *verdicts) = absorbed(simulation, rows, folds)
    assert (letter.topic, letter.key) == (Topic.REJECTED, f"{MATRIX_TOPIC}/2/{len(reports)}".encode())
    assert {message.topic for message in verdicts} <= {Topic.VERDICTS}
    as_segments = [record[1:] for record in reports[:5]]
    refused = judged(simulation, [(TOPIC, *record) for record in as_segments]).refused
    assert [refusal.reason for refusal in refused] == [Reason.MALFORMED] * 5


def test_a_topic_that_is_no_source_has_no_reader(simulation: Simulation) -> None:
    with pytest.raises(KeyError):
        Ingest("any.verdicts", simulation.config, {}, at_the_end)
