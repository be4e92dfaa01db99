"""Times and durations as people read them: times in UTC, durations in the two largest units that fit.

Any whole number of milliseconds has words, also one that is in no calendar: verdicts may say anything.
"""

from datetime import UTC, datetime, timedelta

from dashboards.web.markup import Html, element

_START = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_S = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def utc(time_ms: int) -> str:
    """A time to the second, in UTC."""
    time = _datetime(time_ms)
    if time is None:
        return f"{time_ms:,} ms since 1970"
    return time.isoformat(" ", timespec="seconds").replace("+00:00", " UTC")


def moment(time_ms: int) -> Html:
    """A time that people and programs can read."""
    time = _datetime(time_ms)
    machine = None if time is None else time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return element("time", utc(time_ms), datetime=machine)


def lasting(duration_ms: int) -> str:
    """A duration in words; one that is negative lasted no time."""
    rest_s = max(duration_ms, 0) // 1000
    if not rest_s:
        return "less than a second"
    counts = []
    for unit, unit_s in _UNITS_S:
        count, rest_s = divmod(rest_s, unit_s)
        counts.append((count, unit))
    first = next(at for at, (count, _) in enumerate(counts) if count)
    return " ".join(counted(count, unit) for count, unit in counts[first : first + 2] if count)


def ago(time_ms: int, now_ms: int) -> str:
    """How long before now a time is. A time ahead of this clock is told as such: one of the two clocks is off."""
    age_ms = now_ms - time_ms
    return f"{lasting(age_ms)} ago" if age_ms > -1000 else f"{lasting(-age_ms)} ahead of this clock"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts: 1 peer, 2 peers."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _datetime(time_ms: int) -> datetime | None:
    try:
        return _START + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None
