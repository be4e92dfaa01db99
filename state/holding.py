"""What one peer holds of its swarm, and so what its next noop says: `previous`, refs and root.

Rules, for the peer P:
- A segment of another peer is *held* once its `previous` and all its refs are held, with the authors and indexes
  that it names them by; until then it waits. One that names them wrongly is never held, nor what builds on it.
- Held noops are *fresh* until a noop of P covers them. The refs of P's next noop are the fresh noops that no other
  fresh noop follows directly: what stands below them comes along, because a past is complete.
- P endorses, of each other author, the newest noop of the log that it covers; once it covers two continuations,
  the fork point, the lowest one if there are several; nothing of a log that forked at its first index.
  The root is the Merkle root over these lines, sorted by author.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from state import merkle
from state.head import NO_PREVIOUS
from state.limits import WAITING_MAX
from state.segment import Ref, Segment, build, decode_refs
from state.signing import SigningKey


class _Fresh(NamedTuple):
    """A held noop that no noop of ours covers yet, with the ids that its signature names."""

    ref: Ref
    previous: bytes
    parents: tuple[bytes, ...]


class _Endorsed(NamedTuple):
    """The newest noop of an author that we endorse; `index` is 0 when that is nothing."""

    index: int  # type: ignore[assignment]  # tuple.index is not needed
    id: bytes
    forked: bool


class Holding:
    """The segments that a peer holds, reduced to what its next noop needs: the name of each, and what is fresh."""

    def __init__(self, swarm: bytes, author: bytes, refs_max: int) -> None:
        self.swarm = swarm
        self.author = author
        self.refs_max = refs_max
        self.index = 0
        self.newest = NO_PREVIOUS
        self._held: dict[bytes, Ref] = {}
        self._fresh: dict[bytes, _Fresh] = {}
        self._endorsed: dict[bytes, _Endorsed] = {}
        self._waiting: dict[bytes, Segment] = {}
        self._waited_for: dict[bytes, list[bytes]] = {}

    def __contains__(self, segment_id: bytes) -> bool:
        return segment_id in self._held

    @property
    def waiting(self) -> int:
        """How many segments were received and wait for a part of their past."""
        return len(self._waiting)

    @property
    def fresh(self) -> int:
        """How many held noops the next noop can entangle."""
        return len(self._fresh)

    def receive(self, segment: Segment) -> list[Segment]:
        """Take a judged segment of another peer; gives the segments that are held now and were not before."""
        if segment.head.author == self.author or segment.id in self._held or segment.id in self._waiting:
            return []
        missing = [parent.id for parent in _parents(segment) if parent.id not in self._held]
        if not missing:
            return self._hold(segment)
        if sum(other.head.author == segment.head.author for other in self._waiting.values()) < WAITING_MAX:
            self._waiting[segment.id] = segment
            for parent_id in missing:
                self._waited_for.setdefault(parent_id, []).append(segment.id)
        return []

    def close(self, key: SigningKey, time_ms: int, ops: Sequence[bytes]) -> Segment:
        """Sign the next segment of the home log: it entangles what is fresh, at most `refs_max` noops of it."""
        refs = self._next_refs()
        covered = self._covered_by(refs)
        endorsed = self._endorsed_after(covered)
        segment = build(
            key,
            swarm=self.swarm,
            index=self.index + 1,
            previous=self.newest,
            time_ms=time_ms,
            ops=ops,
            refs=refs,
            root=_root(endorsed),
        )
        self.advance(segment)
        return segment

    def advance(self, segment: Segment) -> None:
        """Go on from a segment of our own, just signed or read back from disk. Requires that it follows the newest."""
        if (segment.head.index, segment.head.previous) != (self.index + 1, self.newest):
            raise ValueError(f"own segments: want index {self.index + 1} after {self.newest.hex()}, got {segment.ref}")
        covered = self._covered_by(decode_refs(segment.refs))
        self._endorsed = self._endorsed_after(covered)
        for noop_id in covered:
            del self._fresh[noop_id]
        self.index, self.newest = segment.head.index, segment.id
        self._held[segment.id] = segment.ref

    def endorses(self, author: bytes) -> Ref | None:
        """The newest noop of `author` that our newest noop endorses."""
        line = self._endorsed.get(author)
        return Ref(author, line.index, line.id) if line and line.index else None

    def _hold(self, segment: Segment) -> list[Segment]:
        """Hold a segment, and all that waited for nothing but it."""
        held, ready = [], [segment]
        while ready:
            now = ready.pop()
            self._waiting.pop(now.id, None)
            parents = list(_parents(now))
            if any(self._held[parent.id] != parent for parent in parents):
                continue
            self._held[now.id] = now.ref
            self._fresh[now.id] = _Fresh(now.ref, now.head.previous, tuple(parent.id for parent in parents))
            held.append(now)
            ready.extend(self._released_by(now.id))
        return held

    def _released_by(self, parent: bytes) -> Iterator[Segment]:
        for waiting_id in self._waited_for.pop(parent, ()):
            segment = self._waiting.get(waiting_id)
            if segment and all(parent.id in self._held for parent in _parents(segment)):
                yield segment

    def _next_refs(self) -> list[Ref]:
        followed = {parent for fresh in self._fresh.values() for parent in fresh.parents}
        tops = [fresh.ref for noop_id, fresh in self._fresh.items() if noop_id not in followed]
        return tops[: self.refs_max]

    def _covered_by(self, refs: Sequence[Ref]) -> dict[bytes, _Fresh]:
        """The fresh noops in the past of `refs`, in the order in which they were held: a noop after its past."""
        covered, stack = set(), [ref.id for ref in refs]
        while stack:
            noop_id = stack.pop()
            if noop_id in self._fresh and noop_id not in covered:
                covered.add(noop_id)
                stack.extend(self._fresh[noop_id].parents)
        return {noop_id: fresh for noop_id, fresh in self._fresh.items() if noop_id in covered}

    def _endorsed_after(self, covered: dict[bytes, _Fresh]) -> dict[bytes, _Endorsed]:
        endorsed = dict(self._endorsed)
        for noop_id, fresh in covered.items():
            author, index = fresh.ref.author, fresh.ref.index
            line = endorsed.get(author, _Endorsed(0, NO_PREVIOUS, forked=False))
            if not line.forked and fresh.previous == line.id:
                endorsed[author] = _Endorsed(index, noop_id, forked=False)
            elif index - 1 < line.index:
                endorsed[author] = _Endorsed(index - 1, fresh.previous, forked=True)
        return endorsed


def _parents(segment: Segment) -> Iterator[Ref]:
    """The noops that a segment builds on, as it names them."""
    if segment.head.previous != NO_PREVIOUS:
        yield Ref(segment.head.author, segment.head.index - 1, segment.head.previous)
    yield from decode_refs(segment.refs)


def _root(endorsed: dict[bytes, _Endorsed]) -> bytes:
    lines = (Ref(author, line.index, line.id).encode() for author, line in endorsed.items() if line.index)
    return merkle.root(sorted(lines))
