"""The bounds of a replay: what is asked for, what it comes to, and what is refused in one sentence."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.config import ConfigError
from streaming.bounds import Bound, Held, Range, Request, request_of, require_held, resolve, time_text

HELD = {0: Held(0, 200, None), 1: Held(0, 100, None)}
EXPIRED = {0: Held(50, 200, 1_500), 1: Held(20, 100, 1_200), 2: Held(7, 7, None)}
NOON_MS = 1_767_225_600_000


def no_times(_: int) -> dict[int, int | None]:
    raise AssertionError("no time was given")


def ranges() -> st.SearchStrategy[Range]:
    stretches = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (pair[0], sum(pair)))
    return st.dictionaries(st.integers(0, 5), stretches, min_size=1).map(
        lambda found: Range("t", {p: a for p, (a, _) in found.items()}, {p: b for p, (_, b) in found.items()})
    )


def test_without_bounds_it_is_all_that_is_held() -> None:
    assert request_of(None, None, None, None) == Request()
    assert resolve(Request(), "t", EXPIRED, no_times) == Range("t", {0: 50, 1: 20, 2: 7}, {0: 200, 1: 100, 2: 7})


def test_offsets_are_taken_as_they_are() -> None:
    asked = request_of(None, None, "0:120,1:98", "1:99,0:120")
    found = resolve(asked, "t", HELD, no_times)
    assert found == Range("t", {0: 120, 1: 98}, {0: 120, 1: 99})
    assert found.size == 1
    assert asked.words() == "from 0:120,1:98 to 0:120,1:99"


def test_times_come_to_the_first_record_at_or_after_them_or_to_the_end() -> None:
    asked = request_of("2026-01-01T00:00:00Z", "2026-01-01T01:00:00.250+01:00", None, None)
    assert asked == Request(Bound(NOON_MS), Bound(NOON_MS + 250))
    assert asked.words() == "from 2026-01-01T00:00:00Z to 2026-01-01T00:00:00.250Z"
    at = {NOON_MS: {0: 30, 1: None}, NOON_MS + 250: {0: 40, 1: None}}
    assert resolve(asked, "t", HELD, at.__getitem__) == Range("t", {0: 30, 1: 100}, {0: 40, 1: 100})


def test_a_time_and_offsets_can_stand_at_the_two_ends() -> None:
    asked = request_of("2026-01-01T00:00:00Z", None, None, "0:90,1:70")
    assert resolve(asked, "t", HELD, lambda _: {0: 30, 1: 40}) == Range("t", {0: 30, 1: 40}, {0: 90, 1: 70})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("2026-01-01", None, None, None),
            "--from: expected a time with its zone, .*, got '2026-01-01' without",
        ),
        ((None, "yesterday", None, None), "--to: expected a time with its zone, .*, got 'yesterday'"),
        ((None, None, "120", None), "--from-offsets: expected PARTITION:OFFSET,…, .*, got '120'"),
        ((None, None, None, "0:1,"), "--to-offsets: expected PARTITION:OFFSET"),
        ((None, None, "0:1,0:2", None), "--from-offsets: expected each partition once"),
        (("2026-01-01T00:00:00Z", None, "0:1", None), "give --from or --from-offsets, not both"),
    ],
)
def test_what_is_no_bound_is_told_by_its_option(options: tuple[str | None, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=f"^{words}"):
        request_of(*options)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("0:120", None), "--from-offsets: expected an offset for each partition (0, 1), got 0:120"),
        (("0:120,1:98", "0:120,1:97"), "the range ends before it begins: in partition 1 from 98 to 97"),
        ((None, "0:201,1:1"), "--to-offsets: partition 0 of t ends at 200, got 201"),
        (("0:9,1:9", "0:9,1:9"), "the range is empty: t has no record from 0:9,1:9 to 0:9,1:9"),
    ],
)
def test_offsets_that_are_no_range_are_refused(asked: tuple[str | None, str | None], words: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(words)}"):
        resolve(request_of(None, None, *asked), "t", HELD, no_times)


def test_a_time_after_the_last_record_is_an_empty_range() -> None:
    asked = Request(Bound(NOON_MS))
    with pytest.raises(ConfigError, match="the range is empty: t has no record from 2026-01-01T00:00:00Z to the end"):
        resolve(asked, "t", HELD, lambda _: {0: None, 1: None})


def test_a_range_that_has_expired_is_refused_with_the_oldest_time_that_is_held_whole() -> None:
    def at(_: int) -> dict[int, int | None]:
        return {0: 50, 1: 20, 2: None}

    for asked in (Request(Bound(1_499)), Request(Bound(offsets={0: 49, 1: 20, 2: 7}))):
        with pytest.raises(ConfigError, match=r"no longer holds .* whole is 1970-01-01T00:00:01.500Z; .* --from"):
            resolve(asked, "t", EXPIRED, at)
    assert resolve(Request(Bound(1_500)), "t", EXPIRED, at).starts == {0: 50, 1: 20, 2: 7}


def test_what_expires_while_a_replay_is_interrupted_is_told_when_it_goes_on() -> None:
    found = Range("t", {0: 10, 1: 10}, {0: 60, 1: 30})
    require_held(found, {0: 50, 1: 30}, EXPIRED)
    with pytest.raises(ConfigError, match=r"partition 0 the records before 1970-01-01T00:00:01.500Z expired"):
        require_held(found, {0: 49, 1: 30}, EXPIRED)
    with pytest.raises(ConfigError, match="partition 0"):
        require_held(found, {}, EXPIRED)


@given(ranges(), st.dictionaries(st.integers(0, 5), st.integers(0, 120)))
def test_what_is_done_of_a_range_counts_only_what_is_in_it(found: Range, read: dict[int, int]) -> None:
    in_it = {(p, offset) for p, start in found.starts.items() for offset in range(start, found.ends[p])}
    assert found.size == len(in_it)
    assert found.done(read) == sum(offset < read.get(p, 0) for p, offset in in_it)
    assert found.is_read(read) == all(offset < read.get(p, 0) for p, offset in in_it)
    assert found.is_read(found.ends)


@given(st.integers(0, 4_102_444_800_000))
def test_a_time_in_words_can_be_given_again(time_ms: int) -> None:
    assert request_of(time_text(time_ms), None, None, None).start == Bound(time_ms)


@given(ranges())
def test_a_range_is_kept_as_json(found: Range) -> None:
    assert msgspec.json.decode(msgspec.json.encode(found), type=Range) == found
