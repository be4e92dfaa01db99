"""Positions against a plain set."""

from hypothesis import given
from hypothesis import strategies as st

from dashboards import positions
from dashboards.positions import Positions


@given(st.lists(st.integers(1, 40)))
def test_a_position_is_new_once_in_whatever_order_they_come(numbers: list[int]) -> None:
    kept, seen = Positions(), set[int]()
    for number in numbers:
        assert kept.add(number) == (number not in seen)
        seen.add(number)
        assert kept.newest == max(seen)
        assert kept.stretches == sum(one - 1 not in seen for one in seen)


def test_a_log_without_holes_is_one_stretch_however_long() -> None:
    kept = Positions()
    assert all(kept.add(number) for number in range(1, 100_001))
    assert kept.stretches == 1


def test_a_log_full_of_holes_does_not_grow_without_bound() -> None:
    kept = Positions()
    for number in range(1, 3 * positions.STRETCHES_MAX, 2):
        assert kept.add(number)
    assert kept.stretches == positions.STRETCHES_MAX
    assert not kept.add(2), "the lowest holes are closed"
    assert kept.add(3 * positions.STRETCHES_MAX + 5)
