"""The clock: what is read decides, in no order, and a partition with more to read holds it back."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from streaming.clock import NO_TIME, Reading, clock_of, newest_of

times = st.integers(0, 1000)
readings = st.lists(st.builds(Reading, st.integers(0, 7), times, st.just(NO_TIME) | times), max_size=8)


def clocks(*batches: list[Reading]) -> list[int]:
    """The clock of each batch, as a key tells it."""
    newest_ms, told = NO_TIME, []
    for batch in batches:
        newest_ms = newest_of(batch, newest_ms)
        told.append(clock_of(batch, newest_ms))
    return told


def test_at_the_end_of_all_partitions_the_clock_is_the_newest_time_of_all() -> None:
    assert clocks([Reading(0, 100, NO_TIME), Reading(1, 300, NO_TIME), Reading(2, 200, NO_TIME)]) == [300]


def test_a_partition_with_more_to_read_holds_the_clock_back_to_just_before_its_next_record() -> None:
    assert clocks([Reading(0, 100, 150), Reading(1, 300, NO_TIME)]) == [149]


def test_the_next_record_may_be_as_old_as_the_one_just_read_so_the_clock_stays_before_both() -> None:
    assert clocks([Reading(0, 100, 100)]) == [99]


def test_of_two_partitions_with_more_to_read_the_one_behind_decides() -> None:
    assert clocks([Reading(0, 100, 200), Reading(1, 90, 120)]) == [100]
    assert clocks([Reading(0, 100, 200), Reading(1, 90, 95)]) == [94]


def test_the_clock_is_never_beyond_what_was_read_however_late_the_next_record_is() -> None:
    assert clocks([Reading(0, 100, 900)]) == [100]


def test_a_partition_at_its_end_does_not_hold_the_clock_back() -> None:
    assert clocks([Reading(0, 100, NO_TIME), Reading(1, 300, 301)]) == [300]


def test_nothing_read_says_nothing() -> None:
    assert clocks([]) == [NO_TIME]


def test_a_partition_that_ended_early_counts_when_the_others_are_at_their_end_too() -> None:
    first = [Reading(0, 100, NO_TIME), Reading(1, 40, 50)]
    assert clocks(first, [Reading(1, 50, NO_TIME)]) == [49, 100]


@given(st.lists(readings, max_size=5))
def test_the_clock_is_before_all_that_a_partition_has_still_to_read(batches: list[list[Reading]]) -> None:
    for batch, clock_ms in zip(batches, clocks(*batches), strict=True):
        assert all(clock_ms < reading.unread_ms for reading in batch if reading.unread_ms != NO_TIME)


@given(st.dictionaries(st.integers(0, 3), st.lists(times, min_size=1, max_size=5), min_size=1), st.data())
def test_however_partitions_are_cut_the_clock_never_passes_a_record_goes_back_or_misses_the_newest(
    partitions: dict[int, list[int]], data: st.DataObject
) -> None:
    """Record times of a partition grow, as on a topic whose times are the broker's."""
    left = {number: sorted(records) for number, records in partitions.items()}
    batches: list[list[Reading]] = []
    unread: list[list[int]] = []
    while left:
        batches.append([])
        for number, records in list(left.items()):
            taken = [records.pop(0) for _ in range(data.draw(st.integers(1, len(records))))]
            batches[-1].append(Reading(number, max(taken), records[0] if records else NO_TIME))
            if not records:
                del left[number]
        unread.append([time_ms for records in left.values() for time_ms in records])
    told = clocks(*batches)
    assert told[-1] == max(time_ms for records in partitions.values() for time_ms in records)
    assert all(earlier <= later for earlier, later in pairwise(told))
    for clock_ms, waiting in zip(told, unread, strict=True):
        assert all(clock_ms < time_ms for time_ms in waiting)


@given(readings, st.randoms(use_true_random=False))
def test_the_order_of_the_readings_does_not_matter(read: list[Reading], chance: Random) -> None:
    shuffled = list(read)
    chance.shuffle(shuffled)
    assert clocks(shuffled) == clocks(read)
