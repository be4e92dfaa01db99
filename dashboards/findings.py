"""What was found about the peers of one swarm and still holds: verdicts by kind and author, joined by the core's join.

Facts stay. A verdict without value withdraws one. Of each kind and author at most 256 are kept, those that came first;
of updates that cannot be right, 256 for each reason. A peer that makes more of them than anyone can read does not fill
the memory, and its count stands at 256.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar, cast

from state.verdict import AnyVerdict, BadUpdate, Equivocation, Fork, Verdict, join, versions_of

KEPT_MAX = 256

WHYS = ("malformed", "parameters", "stamp", "digest")
"""Why an update cannot be right. Each reason is counted by itself, so each has its own places."""

_SHARES: dict[type[Verdict], tuple[str, ...]] = {BadUpdate: (*WHYS, "")}
"""The parts into which what is kept of a kind is divided; other kinds are one part."""
_WHOLE = ("",)

_V = TypeVar("_V", bound=Verdict)


class Found(NamedTuple, Generic[_V]):
    """A verdict, and when it was written first and last, as record times of what stood on the topic."""

    verdict: _V
    first_ms: int
    last_ms: int


Lie = Found[Fork] | Found[Equivocation]


def versions_ms(lie: Lie) -> list[int]:
    """The times of the versions that a verdict holds, ascending; the first one contradicts nothing yet."""
    return sorted(version.seen_ms for version in versions_of(lie.verdict))


class Findings:
    """Verdicts about the authors of one swarm. Requires known authors, or one name for all others."""

    def __init__(self) -> None:
        self._kept: dict[tuple[type[Verdict], str, str], dict[str, Found[AnyVerdict]]] = defaultdict(dict)
        """By kind, author and part."""

    def add(self, author: str, verdict: AnyVerdict, written_ms: int) -> bool:
        """Take in a verdict about an author; whether it is kept."""
        kept = self._kept[type(verdict), author, _share(verdict)]
        held = kept.get(verdict.key)
        if held is not None:
            kept[verdict.key] = Found(join(held.verdict, verdict), held.first_ms, written_ms)
        elif len(kept) < KEPT_MAX:
            kept[verdict.key] = Found(verdict, written_ms, written_ms)
        else:
            return False
        return True

    def withdraw(self, kind: type[Verdict], author: str, key: str) -> None:
        for share in _SHARES.get(kind, _WHOLE):
            self._kept[kind, author, share].pop(key, None)

    def of(self, kind: type[_V], author: str) -> list[Found[_V]]:
        """What is kept of a kind about an author, in the order in which it came, part by part."""
        parts = (self._kept.get((kind, author, share), {}) for share in _SHARES.get(kind, _WHOLE))
        return cast("list[Found[_V]]", [found for part in parts for found in part.values()])

    def authors(self, kind: type[Verdict]) -> Iterator[str]:
        """The authors about whom something of a kind is kept."""
        found = (author for (of_kind, author, _), kept in self._kept.items() if of_kind is kind and kept)
        return iter(dict.fromkeys(found))


def _share(verdict: Verdict) -> str:
    return verdict.why if isinstance(verdict, BadUpdate) and verdict.why in WHYS else ""
