"""Noops that wait for the clock: read ahead of it, taken in when it has passed them, in the order of (time, name)."""

from collections.abc import Iterable

from state.fold import Archive
from state.noops import Noop, decode_noops, encode_noops

WAITING_MAX = 200_000
"""Noops that wait. While a backlog is read, one partition can be ahead of another; beyond this the earliest are taken
in before their time, and the tick that they belong to may miss them."""
_PIECE_BYTES = 64 << 10


class Waiting:
    """Noops by name, each with the earliest time of its copies; kept in pieces in the archive."""

    def __init__(self, archive: Archive, pieces: int) -> None:
        self._archive = archive
        self.pieces = pieces
        """How many pieces there are in the archive."""
        kept = b"".join(archive[_name(number)] for number in range(pieces))
        self._noops = {noop.name: noop for noop in decode_noops(kept)}
        self._changed = False

    def add(self, payloads: Iterable[bytes]) -> None:
        """Take in encoded noops, seen before or not."""
        for payload in payloads:
            for noop in decode_noops(payload):
                known = self._noops.get(noop.name)
                if known is None or noop.time_ms < known.time_ms:
                    self._noops[noop.name] = noop
                    self._changed = True

    def take(self, clock_ms: int) -> tuple[list[Noop], int]:
        """The noops that the clock has passed, in order, then those that there is no room for; how many these are."""
        due = sorted(noop for noop in self._noops.values() if noop.time_ms <= clock_ms)
        excess = max(0, len(self._noops) - len(due) - WAITING_MAX)
        if excess:
            due += sorted(noop for noop in self._noops.values() if noop.time_ms > clock_ms)[:excess]
        for noop in due:
            del self._noops[noop.name]
        self._changed |= bool(due)
        return due, excess

    def flush(self) -> None:
        """Write what still waits, if that has changed."""
        if not self._changed:
            return
        packed = encode_noops(self._noops.values())
        pieces = [packed[at : at + _PIECE_BYTES] for at in range(0, len(packed), _PIECE_BYTES)]
        for number, piece in enumerate(pieces):
            self._archive[_name(number)] = piece
        for number in range(len(pieces), self.pieces):
            del self._archive[_name(number)]
        self.pieces, self._changed = len(pieces), False


def _name(number: int) -> bytes:
    return b"W" + number.to_bytes(4)
