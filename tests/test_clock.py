"""The clock: what is read decides, in no order, and a partition with more to read holds it back."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from streaming.clock import NO_TIME, Reading, clock_of, newest_of

times = st.integers(0, 1000)
readings = st.lists(st.builds(Reading, st.integers(0, 7), times, st.booleans()), max_size=8)


def clocks(*batches: list[Reading]) -> list[int]:
    """The clock of each batch, as a key tells it."""
    newest_ms, told = NO_TIME, []
    for batch in batches:
        newest_ms = newest_of(batch, newest_ms)
        told.append(clock_of(batch, newest_ms))
    return told


def test_at_the_end_of_all_partitions_the_clock_is_the_newest_time_of_all() -> None:
    assert clocks([Reading(0, 100, at_end=True), Reading(1, 300, at_end=True), Reading(2, 200, at_end=True)]) == [300]


def test_a_partition_with_more_to_read_holds_the_clock_back() -> None:
    assert clocks([Reading(0, 100, at_end=False), Reading(1, 300, at_end=True)]) == [100]


def test_of_two_partitions_with_more_to_read_the_one_behind_decides() -> None:
    assert clocks([Reading(0, 200, at_end=False), Reading(1, 100, at_end=False)]) == [100]


def test_a_partition_at_its_end_does_not_hold_the_clock_back() -> None:
    assert clocks([Reading(0, 100, at_end=True), Reading(1, 300, at_end=False)]) == [300]


def test_nothing_read_says_nothing() -> None:
    assert clocks([]) == [NO_TIME]


def test_a_partition_that_ended_early_counts_when_the_others_are_at_their_end_too() -> None:
    first = [Reading(0, 100, at_end=True), Reading(1, 40, at_end=False)]
    assert clocks(first, [Reading(1, 50, at_end=True)]) == [40, 100]


@given(st.lists(readings, max_size=5))
def test_the_clock_never_passes_what_a_partition_has_still_to_read(batches: list[list[Reading]]) -> None:
    for batch, clock_ms in zip(batches, clocks(*batches), strict=True):
        assert all(clock_ms <= reading.newest_ms for reading in batch if not reading.at_end)


@given(st.dictionaries(st.integers(0, 3), st.lists(times, min_size=1, max_size=5), min_size=1), st.data())
def test_when_all_is_read_the_clock_is_the_newest_time_however_it_was_cut(
    partitions: dict[int, list[int]], data: st.DataObject
) -> None:
    left = {number: list(records) for number, records in partitions.items()}
    batches = []
    while left:
        batches.append([])
        for number, records in list(left.items()):
            taken = [records.pop(0) for _ in range(data.draw(st.integers(1, len(records))))]
            batches[-1].append(Reading(number, max(taken), at_end=not records))
            if not records:
                del left[number]
    assert clocks(*batches)[-1] == max(time_ms for records in partitions.values() for time_ms in records)


@given(readings, st.randoms(use_true_random=False))
def test_the_order_of_the_readings_does_not_matter(read: list[Reading], chance: Random) -> None:
    shuffled = list(read)
    chance.shuffle(shuffled)
    assert clocks(shuffled) == clocks(read)
