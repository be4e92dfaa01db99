"""What was found about the peers of one swarm and still holds: verdicts by kind and author, joined by the core's join.

Facts stay. A verdict without value withdraws one. Of each kind and author at most 256 are kept, those that came first:
a peer that makes more of them than anyone can read does not fill the memory, and its count stands at 256.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar, cast

from state.verdict import AnyVerdict, Equivocation, Fork, Verdict, join, versions_of

KEPT_MAX = 256

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
        self._kept: dict[tuple[type[Verdict], str], dict[str, Found[AnyVerdict]]] = defaultdict(dict)

    def add(self, author: str, verdict: AnyVerdict, written_ms: int) -> bool:
        """Take in a verdict about an author; whether it is kept."""
        kept = self._kept[type(verdict), author]
        held = kept.get(verdict.key)
        if held is not None:
            kept[verdict.key] = Found(join(held.verdict, verdict), held.first_ms, written_ms)
        elif len(kept) < KEPT_MAX:
            kept[verdict.key] = Found(verdict, written_ms, written_ms)
        else:
            return False
        return True

    def withdraw(self, kind: type[Verdict], author: str, key: str) -> None:
        self._kept[kind, author].pop(key, None)

    def of(self, kind: type[_V], author: str) -> list[Found[_V]]:
        """What is kept of a kind about an author, in the order in which it came."""
        return cast("list[Found[_V]]", list(self._kept.get((kind, author), {}).values()))

    def authors(self, kind: type[Verdict]) -> Iterator[str]:
        """The authors about whom something of a kind is kept."""
        return (author for (of_kind, author), kept in self._kept.items() if of_kind is kind and kept)
