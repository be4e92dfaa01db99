"""Updates as events of the clocks fold: what was told, at which place of whose log, and when.

The change itself is left out: the id of the event stands for it.
"""

from collections.abc import Iterable, Iterator

import msgspec

from state.fold import Arrival
from state.head import HASH_BYTES
from state.update import Malformed, Update, decode_update, event_id


class Told(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """An update, judged by itself alone; sorts by time, then place.

    `event` is the id of the event that it makes, empty if it makes none. `problem` says what is wrong with one that is
    malformed; nothing else of such a one is told.
    """

    time_ms: int
    segment: bytes
    position: int
    author: bytes
    index: int
    entity: bytes
    event: bytes = b""
    parents: bytes = b""
    stamp: bytes = b""
    digest: bytes = b""
    problem: str = ""

    @property
    def name(self) -> tuple[bytes, int]:
        """The op that it is."""
        return self.segment, self.position

    @property
    def place(self) -> tuple[int, int, bytes]:
        """Of two updates of one author the greater place is the newer one."""
        return self.index, self.position, self.segment

    @property
    def builds_on(self) -> list[bytes]:
        parents = self.parents
        if len(parents) == HASH_BYTES:
            # as of most updates: this is asked for several times for each
            return [parents]
        return [parents[at : at + HASH_BYTES] for at in range(0, len(parents), HASH_BYTES)]

    @property
    def tips(self) -> list[bytes]:
        """The events that its version is the past of."""
        return [self.event] if self.event else self.builds_on

    @property
    def names_version(self) -> bool:
        """Whether its version is that of named events, or the empty one, and not just that of a stamp."""
        return bool(self.event or self.parents or not self.stamp)


def tell(arrival: Arrival) -> Iterator[Told]:
    """The updates of a segment."""
    segment, time_ms = arrival
    for position, op in enumerate(segment.ops):
        update = decode_update(op)
        if update is None:
            continue
        head = segment.head
        about = (time_ms, segment.id, position, head.author, head.index, update.entity)
        if isinstance(update, Malformed):
            yield Told(*about, problem=update.problem)
        else:
            yield Told(*about, _event(head.swarm, head.author, update), b"".join(update.parents), *update[3:])


def _event(swarm: bytes, author: bytes, update: Update) -> bytes:
    return b"" if update.change is None else event_id(swarm, author, update)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Told])


def encode_told(told: Iterable[Told]) -> bytes:
    return _encoder.encode(list(told))


def decode_told(encoded: bytes) -> list[Told]:
    return _decoder.decode(encoded)
