"""What a replay says otherwise than the live job did, in words.

Of a whole topic every verdict must be the same, byte for byte. Of a part of it only those are compared that the part
decides alone, each cut down to what the part can show:
- *known* and *accepted* of a noop that was published in it, if the k-th peer had it before the end;
- a *fork*, with those of its branches that were published in it; *equivocation* and *bad index* if both heads were.
What else there is depends on segments outside of it too, or on how long was waited for them, and is counted only.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from state.config import Config
from state.verdict import (
    AnyVerdict,
    BadIndex,
    Equivocation,
    Fork,
    Signed,
    Spread,
    decode_verdict,
    encode_verdict,
    versions_of,
)
from state.words import describe

Verdicts = Mapping[str, bytes]
"""Compacted verdicts, as they stand on a topic, by key."""


class Window(NamedTuple):
    """The record times that a range shows whole: from `since_ms` up to, but not including, `until_ms`."""

    since_ms: int = -(1 << 62)
    until_ms: int = 1 << 62
    whole: bool = True
    """Whether the range is all that the topic holds, and that there was before."""

    def holds(self, *times_ms: int) -> bool:
        return all(self.since_ms <= time_ms < self.until_ms for time_ms in times_ms)


class Comparison(NamedTuple):
    """What was compared, and what was found: a line for each difference."""

    compared: int
    left_out: int
    differences: list[str]


def compare(live: Verdicts, replayed: Verdicts, window: Window, config: Config, by: str = "replay") -> Comparison:
    """Hold the verdicts of a replay against those of the live job; `by` is what differences call the replay."""
    differences, compared = [], 0
    for key in sorted(live.keys() | replayed.keys()):
        pair = live.get(key), replayed.get(key)
        if not window.whole:
            pair = _shown(pair[0], window), _shown(pair[1], window)
            if pair == (None, None) or _began_before(live.get(key), window):
                continue
        compared += 1
        if pair[0] != pair[1]:
            differences.append(_difference(key, *pair, config, by))
    return Comparison(compared, len(live.keys() | replayed.keys()) - compared, differences)


def _shown(encoded: bytes | None, window: Window) -> bytes | None:
    """The part of a verdict that the window decides alone, without the digest of the configuration."""
    verdict = None if encoded is None else _read(encoded)
    shown = None if verdict is None else _part(verdict, window)
    return None if shown is None else encode_verdict(msgspec.structs.replace(shown, config=""))


def _part(verdict: AnyVerdict, window: Window) -> AnyVerdict | None:
    match verdict:
        case Spread():
            return verdict if window.holds(verdict.published_ms, verdict.done_ms) else None
        case Fork():
            branches = tuple(branch for branch in verdict.branches if window.holds(branch.seen_ms))
            return msgspec.structs.replace(verdict, branches=branches) if len(branches) > 1 else None
        case Equivocation():
            return verdict if window.holds(*_seen(verdict.evidence)) else None
        case BadIndex():
            return verdict if window.holds(*_seen((verdict.segment, verdict.previous))) else None
    return None


def _began_before(encoded: bytes | None, window: Window) -> bool:
    """Whether the live job knew it from before the window, where the replay cannot look."""
    verdict = None if encoded is None else _read(encoded)
    match verdict:
        case Spread():
            return verdict.published_ms < window.since_ms
        case Equivocation():
            return any(seen_ms < window.since_ms for seen_ms in _seen(versions_of(verdict)))
    return False


def _seen(heads: tuple[Signed, ...]) -> Iterator[int]:
    return (head.seen_ms for head in heads)


def _read(encoded: bytes) -> AnyVerdict | None:
    try:
        return decode_verdict(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _difference(key: str, live: bytes | None, replayed: bytes | None, config: Config, by: str) -> str:
    if live is None or replayed is None:
        only = by if live is None else "live job"
        return f"only the {only} says: {_words(live or replayed or b'', config)} ({key})"
    one, other = _words(live, config), _words(replayed, config)
    if one == other:
        return f"both say: {one}; but not with the same facts ({key}): {_fields(live, replayed)}"
    return f"the live job says: {one}; the {by} says: {other} ({key})"


def _words(encoded: bytes, config: Config) -> str:
    verdict = _read(encoded)
    return "something that is no verdict" if verdict is None else describe(verdict, config)


def _fields(live: bytes, replayed: bytes) -> str:
    """The facts that are not the same."""
    one, other = msgspec.json.decode(live), msgspec.json.decode(replayed)
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return ", ".join(f"{name} {_short(one.get(name))} and {_short(other.get(name))}" for name in names)


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 100 else f"{text[:100]}…"
