"""What waits for the clock: read ahead of it, taken in when it has passed, in the order of record times.

A topic is read partition by partition, and one of them can be far ahead while a backlog is read. What is taken in by
the clock sees the topic as it stood at one moment, so that nothing seems to be missing that is only not read yet.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from state.fold import Archive

WAITING_MAX = 200_000
"""What may wait for one key of a fold. Beyond this the earliest are taken in before their time."""
_PIECE_BYTES = 64 << 10


class Timed(Protocol):
    """Something with a record time and a name of its own; sorts by the time, then by the name."""

    @property
    def time_ms(self) -> int: ...

    @property
    def name(self) -> Any: ...

    def __lt__(self, other: Any, /) -> bool: ...


_T = TypeVar("_T", bound=Timed)


class Codec(NamedTuple, Generic[_T]):
    """How what waits is kept."""

    encode: Callable[[Iterable[_T]], bytes]
    decode: Callable[[bytes], Iterable[_T]]


class Waiting(Generic[_T]):
    """What waits, by name, each with the earliest time of its copies; kept in pieces in the archive."""

    def __init__(self, archive: Archive, pieces: int, codec: Codec[_T]) -> None:
        self._archive = archive
        self._codec = codec
        self.pieces = pieces
        """How many pieces there are in the archive."""
        kept = b"".join(archive[_name(number)] for number in range(pieces))
        self._items = {item.name: item for item in codec.decode(kept)} if pieces else {}
        self._changed = False

    def add(self, payloads: Iterable[bytes]) -> None:
        """Take in what is encoded, seen before or not."""
        for payload in payloads:
            for item in self._codec.decode(payload):
                known = self._items.get(item.name)
                if known is None or item.time_ms < known.time_ms:
                    self._items[item.name] = item
                    self._changed = True

    def take(self, clock_ms: int) -> tuple[list[_T], int]:
        """Those that the clock has passed, in order, then those that there is no room for; how many these are."""
        due = sorted(item for item in self._items.values() if item.time_ms <= clock_ms)
        excess = max(0, len(self._items) - len(due) - WAITING_MAX)
        if excess:
            due += sorted(item for item in self._items.values() if item.time_ms > clock_ms)[:excess]
        for item in due:
            del self._items[item.name]
        self._changed |= bool(due)
        return due, excess

    def flush(self) -> None:
        """Write what still waits, if that has changed."""
        if not self._changed:
            return
        packed = self._codec.encode(self._items.values()) if self._items else b""
        pieces = [packed[at : at + _PIECE_BYTES] for at in range(0, len(packed), _PIECE_BYTES)]
        for number, piece in enumerate(pieces):
            self._archive[_name(number)] = piece
        for number in range(len(pieces), self.pieces):
            del self._archive[_name(number)]
        self.pieces, self._changed = len(pieces), False


def _name(number: int) -> bytes:
    return b"W" + number.to_bytes(4)
