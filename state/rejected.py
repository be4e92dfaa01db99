"""The rejected fold: passes bad records on to the dead letters, whole, and counts them by reason.

Key: the partition of `.segments` they came from. It goes through the same grouping as every other fold, because a
second way out of ingest would verify everything twice.
"""

from collections.abc import Iterable, Iterator

import msgspec

from state.fold import Archive, Arrivals, Message, Outcome, Place, Refusal, Tally, Topic
from state.segment import Reason

PAYLOAD_BYTES_MAX = 4 << 20
"""Refused records that travel together in one row; one row must not grow with the batch."""


class Counts(msgspec.Struct, array_like=True):
    by_reason: dict[str, int] = {}


_Event = tuple[str, str, int, int, int, bytes | None, bytes | None]
_events = msgspec.msgpack.Decoder(list[_Event])
_counts = msgspec.msgpack.Decoder(Counts)


def tally_name(reason: str) -> str:
    return f"rejected_{reason}"


class RejectedFold:
    """Routes refused records by their partition."""

    name = "rejected"
    version = 1
    tallies = tuple(tally_name(reason) for reason in Reason)

    def __init__(self, config: object) -> None:
        del config  # every fold is made from the configuration; this one needs none of it

    def all_keys(self) -> Iterable[bytes]:
        return ()

    def route(self, arrivals: Arrivals) -> Iterator[tuple[bytes, bytes]]:
        waiting: dict[int, list[Refusal]] = {}
        sizes: dict[int, int] = {}
        for refusal in arrivals.refused:
            partition = refusal.place.partition
            waiting.setdefault(partition, []).append(refusal)
            sizes[partition] = sizes.get(partition, 0) + len(refusal.value or b"")
            if sizes[partition] > PAYLOAD_BYTES_MAX:
                yield _pack(partition, waiting.pop(partition))
                del sizes[partition]
        for partition, refusals in waiting.items():
            yield _pack(partition, refusals)

    def open(self, key: bytes, blob: bytes | None, archive: Archive) -> "RejectedPartition":
        del key, archive  # the counts are all there is
        return RejectedPartition(Counts() if blob is None else _counts.decode(blob))


class RejectedPartition:
    """The refused records of one partition."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts

    def absorb(self, payloads: Iterable[bytes], clock_ms: int) -> Outcome:
        del clock_ms
        messages, tallies = [], []
        for payload in payloads:
            for reason, topic, partition, offset, time_ms, key, value in _events.decode(payload):
                counts = self.counts.by_reason
                counts[reason] = counts.get(reason, 0) + 1
                tallies.append(Tally(tally_name(reason), 1))
                messages.append(dead_letter(reason, Place(topic, partition, offset, time_ms), key, value))
        return Outcome(messages, tallies)

    def pack(self) -> bytes:
        return msgspec.msgpack.encode(self.counts)

    def check_invariants(self) -> list[str]:
        unknown = self.counts.by_reason.keys() - set(Reason)
        return [f"unknown reasons: {sorted(unknown)}"] if unknown else []

    def audit(self, names: Iterable[bytes]) -> Iterator[str]:
        del names  # the counts are all there is
        yield from self.check_invariants()


def dead_letter(reason: str, place: Place, key: bytes | None, value: bytes | None) -> Message:
    """The original value as it was; what is known about it stands in the headers, and its place is the key."""
    headers = {
        "reason": reason,
        "topic": place.topic,
        "partition": str(place.partition),
        "offset": str(place.offset),
        "time_ms": str(place.time_ms),
    }
    encoded = [(name, text.encode()) for name, text in headers.items()]
    if key is not None:
        encoded.append(("key", key))
    where = f"{place.topic}/{place.partition}/{place.offset}"
    return Message(Topic.REJECTED, where.encode(), value, tuple(encoded))


def _pack(partition: int, refusals: list[Refusal]) -> tuple[bytes, bytes]:
    events: list[_Event] = [(str(r.reason), *r.place, r.key, r.value) for r in refusals]
    return partition.to_bytes(4), msgspec.msgpack.encode(events)
