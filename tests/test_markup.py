"""Markup, times and durations: whatever the text or the number, what comes out is plain and safe."""

import pytest
from hypothesis import given

from dashboards.board import NUMBER_MAX
from dashboards.web.markup import TEXT_LENGTH_MAX, element, plain
from dashboards.web.timewords import ago, lasting, utc
from tests.pagelab import Shown
from tests.verdictlab import HOSTILE


@given(HOSTILE)
def test_what_is_shown_is_printable_and_not_endless(text: str) -> None:
    assert "".join(Shown(element("b", text).source.encode()).texts) == plain(text)
    assert plain(text).replace("\xa0", " ").isprintable()
    assert len(plain(text[:100])) >= min(len(text), 100)
    assert len(plain("<" * 10_000)) == TEXT_LENGTH_MAX + 1


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("script", {}),
        ("style", {}),
        ("iframe", {}),
        ("p onclick", {}),
        ("p", {"style": "x"}),
        ("p", {"onclick": "x"}),
        ("a", {"href": "javascript:alert(1)"}),
        ("a", {"href": "//evil"}),
        ("a", {"href": "/\\evil"}),
        ("a", {"href": "http://evil"}),
        ("a", {"href": '/"x'}),
    ],
)
def test_markup_that_runs_something_or_leads_away_cannot_be_written(name: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="expected an"):
        element(name, **attributes)


def test_times_are_in_utc_and_durations_in_their_two_largest_units() -> None:
    assert utc(1_767_225_609_052) == "2026-01-01 00:00:09 UTC"
    assert utc(-62_135_596_800_000) == "0001-01-01 00:00:00 UTC"
    assert utc(NUMBER_MAX) == "9,007,199,254,740,992 ms since 1970"
    assert [lasting(ms) for ms in (-5, 999, 1000, 61_000, 3_600_000, 90_061_000)] == [
        "less than a second",
        "less than a second",
        "1 second",
        "1 minute 1 second",
        "1 hour",
        "1 day 1 hour",
    ]
    assert ago(10_000, 4_000) == "6 seconds ahead of this clock"
