"""A peer: appends ops to its home log, receives what others signed, and closes segments with a signed noop.

    with Peer.open("peer-a", swarm, roster) as peer:
        peer.append(b"set x = 1")
        segment = peer.close()

What it promises:
- It never signs two versions of a segment by accident: a segment is on the disk before `close` returns, one process at
  a time has the log open, and a proof that the log is older than its key's signatures stops the peer for good.
- Opening a log again gives the state it had: the next noop is the one that it would have been without the stop. Ops
  that no noop has signed yet are not kept, nor are segments that wait for a part of their past: others send them again.
- It builds nothing that ingest would reject: what does not fit is refused when it is appended.
- A fault of another peer is a value (`Reason`); a fault of the caller, or of this machine, is an exception. If a write
  fails the peer stops, because it cannot know what is on the disk; opening it again finds out.

It is not made for use by several threads.
"""

import contextlib
import logging
import time
from array import array
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Self

from producers.homelog import Acknowledged, HomeLog, LogDamagedError
from state import wire_pb2
from state.head import HEAD_BYTES, decode_head, head_id
from state.holding import Holding
from state.limits import OP_BYTES_MAX, OPS_MAX, RECORD_BYTES_MAX, ROSTER_MAX
from state.segment import REF_BYTES, Reason, Segment, encode_op, judge
from state.signing import SIGNATURE_BYTES, is_fit_key
from state.update import Update, encode_update

SWARM_BYTES = 32

_log = logging.getLogger(__name__)


class SegmentFullError(ValueError):
    """The op fits a segment, but not this one any more: close it, and append the op to the next."""


class LogBehindError(Exception):
    """The key of this log has signed segments that the log does not have."""


def system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Peer:
    """One peer of a swarm, with its home log open. Made by `Peer.open`."""

    def __init__(self, log: HomeLog, swarm: bytes, roster: frozenset[bytes], clock_ms: Callable[[], int]) -> None:
        self.swarm = swarm
        self.public = log.key.public
        self._log = log
        self._authors = {swarm: roster}
        self._clock_ms = clock_ms
        self._holding = Holding(swarm, self.public, refs_max=len(roster))
        self._offsets = array("Q")  # where own segment i + 1 stands in the log
        self._behind: LogBehindError | None = None
        self._ops: list[bytes] = []
        self._record_bytes_empty = _record_bytes_empty(refs_max=len(roster))
        self._record_bytes = self._record_bytes_empty
        self._replay()

    @classmethod
    def open(
        cls,
        directory: Path | str,
        swarm: bytes,
        roster: Collection[bytes],
        clock_ms: Callable[[], int] = system_clock_ms,
    ) -> Self:
        """Open the home log in `directory`, or create one with a new key. The roster has the keys of all the peers.

        A key that is not on the roster is refused, with the key in the message: ingest would reject all it signs.
        """
        if len(swarm) != SWARM_BYTES:
            raise ValueError(f"a swarm's id has {SWARM_BYTES} bytes, got {len(swarm)}")
        if len(roster) > ROSTER_MAX or not all(map(is_fit_key, roster)):
            raise ValueError(f"a roster has at most {ROSTER_MAX} keys, each a canonical Ed25519 point")
        with contextlib.ExitStack() as undo:
            log = undo.enter_context(HomeLog(Path(directory), swarm))
            if log.key.public not in roster:
                raise ValueError(
                    f"the roster lacks this peer's public key {log.key.public.hex()}: add it, then open again"
                )
            peer = cls(log, swarm, frozenset(roster), clock_ms)
            undo.pop_all()
        return peer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Release the home log. Ops that no segment has closed over are lost, as in a crash."""
        if self._ops:
            _log.warning("peer %s stops with %d ops that it has not signed", self.public.hex(), len(self._ops))
            self._ops = []
        self._log.close()

    @property
    def index(self) -> int:
        """The index of the newest own segment; 0 if there is none."""
        return self._holding.index

    @property
    def waiting(self) -> int:
        """How many received segments wait for a part of their past."""
        return self._holding.waiting

    def __contains__(self, segment_id: bytes) -> bool:
        """Whether the segment with this id is held: an own one, or one of another peer with its whole past."""
        return segment_id in self._holding

    def append(self, data: bytes, origin: bytes = b"") -> None:
        """Queue an op for the segment that is open; `origin` names the client it is written for.

        Refused at once: an op that fits no segment (ValueError), and one that no longer fits this one
        (SegmentFullError). Nothing is closed by itself, because every noop is a statement that the caller makes.
        """
        self._queue(encode_op(data, origin))

    def append_update(self, update: Update, origin: bytes = b"") -> None:
        """Queue an update of an entity, as `append` does with data; one that is malformed is refused (ValueError)."""
        self._queue(encode_update(update, origin))

    def receive(self, record: bytes) -> list[Segment] | Reason:
        """Judge a record from another peer; gives the segments that are held now and were not before, now on disk.

        A bad record gives the reason. A segment that this peer's own key signed and its log does not have is a
        LogBehindError: see `compare_own`.
        """
        segment = judge(record, self._authors)
        if isinstance(segment, Reason):
            return segment
        if segment.head.author == self.public:
            self.compare_own(segment)
            return []
        with self._stopping_on_failure():
            held = self._holding.receive(segment)
            if held:
                self._log.append(each.encode() for each in held)
        return held

    def close(self) -> Segment:
        """Sign the next segment: the ops that are queued, and a noop that entangles what is held. It is on disk."""
        if self._behind:
            raise self._behind
        time_ms = self._clock_ms()
        if not 0 <= time_ms < 1 << 64:
            raise ValueError(f"clock_ms: want 0 ≤ time < 2⁶⁴ ms since 1970, got {time_ms}")
        with self._stopping_on_failure():
            segment = self._holding.close(self._log.key, time_ms, self._ops)
            self._offsets.append(self._log.append([segment.encode()]))
            self._ops, self._record_bytes = [], self._record_bytes_empty
        return segment

    def segments(self, start: int = 1) -> Iterator[Segment]:
        """The own segments from index `start` on, read from disk. Requires start ≥ 1."""
        if start < 1:
            raise ValueError(f"the index of a segment: want ≥ 1, got {start}")
        for offset in self._offsets[start - 1 :]:
            entry = next(self._log.entries(offset))
            yield _decode(entry.records[0])

    def compare_own(self, segment: Segment) -> None:
        """Compare a segment that this peer's key has signed, wherever it was found, with the log.

        If the log does not have it, this raises LogBehindError, and `close` will do so ever after: signing on would
        make a second version of a segment that others may have seen, and so prove a fork.
        """
        if segment.id not in self._holding:
            self._behind = _behind(
                f"segment {segment.head.index} ({segment.id.hex()}) carries its signature", self.index
            )
            raise self._behind

    @property
    def acknowledged(self) -> Acknowledged | None:
        return self._log.acknowledged

    def acknowledge(self, acknowledged: Acknowledged) -> None:
        """Note which own segments Kafka has confirmed, for the next start."""
        self._log.acknowledge(acknowledged)

    def _queue(self, op: bytes) -> None:
        if len(op) > OP_BYTES_MAX:
            raise ValueError(f"an op has at most {OP_BYTES_MAX} bytes with its origin and framing, got {len(op)}")
        record_bytes = self._record_bytes + _field_bytes(len(op))
        if len(self._ops) == OPS_MAX or record_bytes > RECORD_BYTES_MAX:
            raise SegmentFullError(
                f"the open segment is full with {len(self._ops)} ops and {self._record_bytes} bytes "
                f"(at most {OPS_MAX} and {RECORD_BYTES_MAX}): close it, then append this op again"
            )
        self._ops.append(op)
        self._record_bytes = record_bytes

    def _replay(self) -> None:
        """Go once more through what was held and closed, in its order."""
        for entry in self._log.entries():
            for segment in map(_decode, entry.records):
                if segment.head.author != self.public:
                    followed = self._holding.receive(segment) == [segment]
                else:
                    followed = (segment.head.index, segment.head.previous) == (self.index + 1, self._holding.newest)
                    if followed:
                        self._holding.advance(segment)
                        self._offsets.append(entry.offset)
                if not followed:
                    raise LogDamagedError(f"the entry at byte {entry.offset} does not follow from those before it")
        acknowledged = self.acknowledged
        if acknowledged and acknowledged.index > self.index:
            raise _behind(f"Kafka has confirmed its segments up to {acknowledged.index}", self.index)

    @contextlib.contextmanager
    def _stopping_on_failure(self) -> Iterator[None]:
        """If anything at all goes wrong inside, memory and disk may differ: nothing more must be signed from here."""
        try:
            yield
        except BaseException:
            self._log.close()
            raise


def _behind(proof: str, index: int) -> LogBehindError:
    return LogBehindError(
        f"the log on disk is older than what its key has already signed: {proof}, and the log, which ends at segment "
        f"{index}, does not have it. Either a backup was restored, or the key is used in two places. Going on would "
        "sign a second version, and be proven a fork. Bring back the newest log, or make a new key for the roster."
    )


def _decode(record: bytes) -> Segment:
    """A segment that was judged before it was written. Not judged again: the roster may have changed since."""
    message = wire_pb2.Segment.FromString(record)
    head = decode_head(message.head)
    return Segment(head_id(message.head), head, message.head, message.signature, list(message.ops), message.refs)


def _record_bytes_empty(refs_max: int) -> int:
    """A record without ops but with as many refs as there can be: what is received later must not overfill it."""
    return _field_bytes(HEAD_BYTES) + _field_bytes(SIGNATURE_BYTES) + _field_bytes(refs_max * REF_BYTES)


def _field_bytes(length: int) -> int:
    """A protobuf field of `length` bytes: one byte of tag, the length as a varint of 7 bits a byte, the content."""
    return 1 + max(1, -(-length.bit_length() // 7)) + length
