"""The canary: a swarm whose peers are there to lie, so that a deployment can be tried from the lie to the alert.

- Its secret keys are no secrets: they are made from what stands here. So whoever may write segments can make them lie,
  and its verdicts say one thing only, that the way from a segment to a verdict works.
- A lie is two segments of one peer that both begin its log. A peer can lie so `LIES_MAX` times before it is over the
  limit of branches; which peer has lied least is told by the verdicts.
- Nobody has to acknowledge anything: its epoch has no rules, and `split_after` is the longest there is.
- There are several sets of keys, each a swarm of its own: the next one is for when the lies of one are used up.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from producers.simulation import Record
from state.config import Epoch, Swarm
from state.head import NO_PREVIOUS
from state.limits import BRANCHES_MAX
from state.merkle import EMPTY_ROOT
from state.segment import build, encode_op
from state.signing import SigningKey

NAME = "canary"
SETS = 4
PEERS = 8
LIES_MAX = BRANCHES_MAX // 2
"""Of one peer: each lie is two branches."""

_LONGEST = "20d"
_START = datetime(2026, 1, 1, tzinfo=UTC)


class Lie(NamedTuple):
    """Two segments of one peer that cannot both be true."""

    peer: str
    author: str
    ids: frozenset[str]
    records: tuple[Record, Record]


def canary_swarm(number: int) -> Swarm:
    """The swarm of one set of keys, counted from 1."""
    if not 1 <= number <= SETS:
        raise ValueError(f"expected a set of keys from 1 to {SETS}, got {number}")
    return Swarm(
        id=sha256(b"quorumscope canary swarm %d" % number).hexdigest(),
        name=NAME if number == 1 else f"{NAME}-{number}",
        epochs=(
            Epoch(
                start=_START,
                roster={name: key.public.hex() for name, key in _keys(number).items()},
                rules=(),
                split_after=_LONGEST,
            ),
        ),
        horizon=_LONGEST,
    )


def tell_lie(swarm: Swarm, branches: Mapping[str, int], time_ms: int) -> Lie | None:
    """A lie of the peer that has the fewest branches, by key; None if all have lied as often as they can.

    Another time gives other segments. ValueError if the swarm is no canary's.
    """
    number = next((one for one in range(1, SETS + 1) if canary_swarm(one).id == swarm.id), None)
    if number is None:
        raise ValueError(f"expected a swarm of canaries, got {swarm.name}")
    keys = _keys(number)
    peer, key = min(keys.items(), key=lambda item: branches.get(item[1].public.hex(), 0))
    if branches.get(key.public.hex(), 0) > BRANCHES_MAX - 2:
        return None
    segments = [
        build(
            key,
            swarm=swarm.key,
            index=1,
            previous=NO_PREVIOUS,
            time_ms=time_ms,
            ops=[encode_op(story)],
            root=EMPTY_ROOT,
        )
        for story in (b"one story", b"another story")
    ]
    first, second = (Record(time_ms, key.public, segment.encode()) for segment in segments)
    return Lie(peer, key.public.hex(), frozenset(segment.id.hex() for segment in segments), (first, second))


def _keys(number: int) -> dict[str, SigningKey]:
    return {
        f"{NAME}-{peer}": SigningKey(sha256(b"quorumscope canary key %d of set %d" % (peer, number)).digest())
        for peer in range(1, PEERS + 1)
    }
