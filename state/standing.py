"""How a replica stands to all published events of its entity, by what its author told last.

- It named its version, and every event of that is held: then it is told exactly. It is *in step* if it has them all.
  It has *diverged* if it stands on a branch's tip and lacks another branch, or if its digest is not that of the version
  that it named; else it is *behind*.
- Else by its stamp, if it gave one: equal, before, after or concurrent make it in step, behind, ahead or diverged. Only
  the last is certain. If the stamps are equal and the digests are not, it has diverged: that settles a coincidence.
- Else it named events that nobody published, and these are all that can be told of it: it is *ahead*.
"""

from typing import NamedTuple

import numpy as np

from state.bloom import Clock, Relation, events_between
from state.clockcode import decode_clock
from state.entity import Entity
from state.told import Told

IN_STEP, BEHIND, AHEAD, DIVERGED = "in_step", "behind", "ahead", "diverged"
BY_BRANCH, BY_CLOCK, BY_DIGEST = "branch", "clock", "digest"


class Standing(NamedTuple):
    """What a `replica` verdict says; the fields are those of `state.verdict.Replica`."""

    state: str
    why: str = ""
    lacks: int = 0
    extra: int = 0
    by_clock: bool = False


def stand_exactly(entity: Entity, told: Told, size: int, *, has_digest: bool) -> Standing:
    """How a version of held events stands, which has `size` of them, and its digest or another one."""
    lacks = len(entity) - size
    if not has_digest:
        return Standing(DIVERGED, BY_DIGEST, lacks)
    if not lacks:
        return Standing(IN_STEP)
    is_on_branch = any(map(entity.is_tip, told.tips))
    return Standing(DIVERGED, BY_BRANCH, lacks) if is_on_branch else Standing(BEHIND, lacks=lacks)


def stand_by_clock(entity: Entity, told: Told) -> Standing:
    """How a version stands that is told by its stamp. Requires one of the swarm's parameters."""
    claimed, published = _as_told(decode_clock(told.stamp)), _as_counted(entity)
    match claimed.relation(published):
        case Relation.EQUAL if told.digest in {b"", entity.version.digest}:
            return Standing(IN_STEP, by_clock=True)
        case Relation.EQUAL:
            return Standing(DIVERGED, BY_DIGEST, by_clock=True)
        case Relation.BEFORE:
            return Standing(BEHIND, lacks=_between(claimed, published), by_clock=True)
        case Relation.AFTER:
            return Standing(AHEAD, extra=_between(published, claimed), by_clock=True)
        case _:
            lacks, extra = _between(claimed, published), _between(published, claimed)
            return Standing(DIVERGED, BY_CLOCK, lacks, extra, by_clock=True)


def stand_by_names(entity: Entity, told: Told) -> Standing:
    """How a version stands that names events which are not held, and has no stamp."""
    return Standing(AHEAD, extra=sum(event not in entity for event in told.tips))


def _as_told(claimed: Clock) -> Clock:
    """Whether it is the clock of a chain is its author's word, and nothing is built on that."""
    return Clock(claimed.parameters, claimed.counters)


def _as_counted(entity: Entity) -> Clock:
    """The stamp of all events: as exact as that of a chain, if no merge has hidden a raise."""
    stamp = entity.version.stamp
    raises = int(stamp.counters.sum(dtype=np.uint64))
    is_exact = raises == len(entity) * stamp.parameters.hashes
    return Clock(stamp.parameters, stamp.counters, len(entity) if is_exact else None)


def _between(earlier: Clock, later: Clock) -> int:
    return events_between(earlier, later).estimate
