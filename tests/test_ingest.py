"""Ingest: every record becomes an event or a refusal, and every key is told what was read."""

from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from producers.hostile import hostile_input
from producers.simulation import Simulation
from producers.swarm import Settings
from state.fold import Arrivals, Place, Refusal
from state.folds import make_folds
from state.rejected import RejectedFold
from state.segment import Reason, judge
from streaming.clock import Reading
from streaming.ingest import EVENT_SCHEMA, Ingest, read_records

TOPIC = "any.segments"
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
FOLDS = ("rejected", "logs")
Record = tuple[str, int, int, int, bytes | None, bytes | None]


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


def judged(simulation: Simulation, records: list[Record]) -> Arrivals:
    def origin(at: int) -> tuple[Place, bytes | None]:
        return Place(*records[at][:4]), records[at][4]

    values, times_ms = [record[5] for record in records], [record[3] for record in records]
    return read_records(values, times_ms, origin, simulation.config.authors)


def run(
    simulation: Simulation, records: list[Record], size: int = 100, at_end: Callable[..., bool] = lambda *_: True
) -> list[dict]:
    ingest = Ingest(TOPIC, simulation.config, make_folds(FOLDS, simulation.config), at_end)
    batches = list(ingest.batches(in_batches(records, size)))
    assert all(batch.schema == EVENT_SCHEMA for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def absorbed(simulation: Simulation, rows: list[dict]) -> dict[bytes, bytes | None]:
    """All that the folds say about these rows, by key."""
    folds = make_folds(FOLDS, simulation.config)
    keys = sorted({(row["fold"], row["key"]) for row in rows})
    clock_ms = max(row["newest_ms"] for row in rows)
    messages = []
    for name, key in keys:
        payloads = [row["payload"] for row in rows if (row["fold"], row["key"]) == (name, key) and row["payload"]]
        messages += folds[name].open(key, None, {}).absorb(payloads, clock_ms).messages
    return {message.key: message.value for message in messages}


def readings(rows: list[dict]) -> set[Reading]:
    return {Reading(row["partition"], row["newest_ms"], row["at_end"]) for row in rows if row["payload"] is None}


def test_each_record_is_an_arrival_or_a_refusal_with_its_place_and_bytes(
    simulation: Simulation, records: list[Record]
) -> None:
    arrivals = judged(simulation, records)
    bad = {one.position: one.reason for one in simulation.truth.rejected}
    assert arrivals.refused == [
        Refusal(reason, Place(TOPIC, 5, position, records[position][3]), records[position][4], records[position][5])
        for position, reason in bad.items()
    ]
    assert [(arrival.segment.encode(), arrival.time_ms) for arrival in arrivals.verified] == [
        (judge(record[5], simulation.config.authors).encode(), record[3])
        for position, record in enumerate(records)
        if position not in bad
    ]


def test_a_record_without_a_time_has_the_earliest_time_there_is(simulation: Simulation, records: list[Record]) -> None:
    good = next(record for record in records if not isinstance(judge(record[5], simulation.config.authors), Reason))
    timeless = (*good[:3], -1, *good[4:])
    ((_, time_ms),) = judged(simulation, [timeless]).verified
    assert time_ms == 0


def test_how_the_records_are_cut_into_arrow_batches_does_not_show(
    simulation: Simulation, records: list[Record]
) -> None:
    whole = run(simulation, records, size=len(records))
    want = absorbed(simulation, whole)
    assert Counter(key.split(b"/")[0] for key in want) == {
        b"fork": 1,
        b"bad_index": 1,
        b"clock_skew": 2,
        TOPIC.encode(): len(simulation.truth.rejected),
    }
    for size in (1, 7, 100):
        cut = run(simulation, records, size)
        assert absorbed(simulation, cut) == want
        assert readings(cut) == readings(whole)


def test_many_events_travel_in_few_rows(simulation: Simulation, records: list[Record]) -> None:
    rows = [row for row in run(simulation, records, size=len(records)) if row["payload"]]
    keys = {(row["fold"], row["key"]) for row in rows}
    # Heads and refs of a shard are a row each; the refused records of 1 MB and more need rows of their own.
    assert len(rows) <= 2 * len(keys) + 3


def test_every_key_is_told_once_what_was_read_even_if_it_has_no_events(
    simulation: Simulation, records: list[Record]
) -> None:
    rows = [row for row in run(simulation, records[:3], size=1) if row["payload"] is None]
    logs = make_folds(FOLDS, simulation.config)["logs"]
    assert sorted(row["key"] for row in rows) == list(logs.all_keys())
    assert {row["fold"] for row in rows} == {"logs"}


def test_the_reading_has_the_newest_time_of_all_records_and_asks_about_the_last_offset(
    simulation: Simulation, records: list[Record]
) -> None:
    """Also of one that is rejected: whoever wrote it, the broker says what time it was."""
    first_bad = min(one.position for one in simulation.truth.rejected)
    read = [*records[:first_bad], (*records[first_bad][:3], 1 << 50, *records[first_bad][4:])]
    asked = []

    def at_end(*place: object) -> bool:
        asked.append(place)
        return False

    for size in (1, 7, 1000):
        assert readings(run(simulation, read, size, at_end)) == {Reading(5, 1 << 50, at_end=False)}
    assert asked == [(5, first_bad)] * 3


def test_a_late_record_does_not_take_the_reading_back(simulation: Simulation, records: list[Record]) -> None:
    bad = {one.position for one in simulation.truth.rejected}
    good = [record for position, record in enumerate(records) if position not in bad][:10]
    newest_ms = max(record[3] for record in good)
    for size in (1, 10):
        assert readings(run(simulation, good[::-1], size)) == {Reading(5, newest_ms, at_end=True)}


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
