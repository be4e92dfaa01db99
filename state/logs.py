"""The logs fold: finds the author that signed two versions of its log, at any depth, and the segments that are missing.

Key: a swarm and a shard of its authors. Events: heads, each to the shard of its author; refs, each to the shard of the
author it names, so that one place knows all about a log. `state.authorlog` has the rules, `state.findings` the words.
"""

import struct
from collections.abc import Iterable, Iterator

import msgspec

from state.authorlog import AuthorLog, LogState
from state.config import Config, Swarm
from state.findings import Findings
from state.fold import Archive, Arrivals, Message, Outcome, Tally, Topic
from state.head import HEAD_BYTES
from state.limits import BLOB_BYTES_TARGET
from state.segment import REF_BYTES
from state.span import Kept
from state.verdict import encode_verdict

SHARDS = 16
"""Shards a swarm: a key visited costs 0.6 ms in each batch, a blob 30 to 80 ms a MB; sixteen keep both small."""

_HEADS, _REFS = b"H", b"R"
_HEAD_EVENT = struct.Struct(f">{HEAD_BYTES}s64s32sQ")
_REF_EVENT = struct.Struct(f">32sQ32s{REF_BYTES}sQ")
_INDEX_AT, _OPS_COUNT_AT = 72, 120


class ShardState(msgspec.Struct, array_like=True):
    """The blob of a shard."""

    logs: dict[bytes, LogState] = {}
    claims_of: dict[bytes, int] = {}
    clock_ms: int = 0
    verified: int = 0
    duplicates: int = 0
    ops: int = 0


_decoder = msgspec.msgpack.Decoder(ShardState)
_encoder = msgspec.msgpack.Encoder()


class LogsFold:
    """Routes heads and refs to shards of authors."""

    name = "logs"
    version = 1
    tallies = ("verified", "duplicate", "ops")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._swarms = {swarm.key: swarm for swarm in config.swarms}
        self._shard_of = {
            (swarm.key, author): swarm.key + bytes([author[0] % SHARDS])
            for swarm in config.swarms
            for author in swarm.authors
        }

    def all_keys(self) -> Iterable[bytes]:
        return sorted(set(self._shard_of.values()))

    def route(self, arrivals: Arrivals) -> Iterator[tuple[bytes, bytes]]:
        heads: dict[bytes, list[bytes]] = {}
        refs: dict[bytes, list[bytes]] = {}
        for segment, time_ms in arrivals.verified:
            head = segment.head
            event = _HEAD_EVENT.pack(segment.head_bytes, segment.signature, segment.id, time_ms)
            heads.setdefault(self._shard_of[head.swarm, head.author], []).append(event)
            if segment.refs:
                referrer = segment.ref.encode() + time_ms.to_bytes(8)
                for at in range(0, len(segment.refs), REF_BYTES):
                    ref = segment.refs[at : at + REF_BYTES]
                    shard = self._shard_of.get((head.swarm, ref[:32]))
                    if shard is not None:
                        refs.setdefault(shard, []).append(ref + referrer)
        for kind, events in ((_HEADS, heads), (_REFS, refs)):
            for key, parts in events.items():
                yield key, kind + b"".join(parts)

    def open(self, key: bytes, blob: bytes | None, archive: Archive) -> "LogsShard":
        state = ShardState() if blob is None else _decoder.decode(blob)
        return LogsShard(self._swarms[key[:32]], self._config.digest, state, archive)


class LogsShard:
    """The logs of the authors of one shard."""

    def __init__(self, swarm: Swarm, config: str, state: ShardState, archive: Archive) -> None:
        self._swarm = swarm
        self._config = config
        self._archive = archive
        self.state = state
        self.logs: dict[bytes, AuthorLog] = {}
        for author, log_state in state.logs.items():
            self._open_log(author, log_state)

    def absorb(self, payloads: Iterable[bytes], clock_ms: int) -> Outcome:
        """Heads go before refs: what is named in the batch that brings it is not worth a claim."""
        heads: list[memoryview] = []
        refs: list[memoryview] = []
        for payload in payloads:
            (heads if payload[:1] == _HEADS else refs).append(memoryview(payload)[1:])
        state = self.state
        before = (state.verified, state.duplicates, state.ops)
        touched = {author for events in heads for author in self._absorb_heads(events)}
        touched |= {author for events in refs for author in self._absorb_refs(events)}
        state.clock_ms = max(state.clock_ms, clock_ms)
        messages = list(self._findings(touched))
        self._flush(touched)
        after = (state.verified, state.duplicates, state.ops)
        counted = zip(LogsFold.tallies, before, after, strict=True)
        return Outcome(messages, [Tally(name, now - then) for name, then, now in counted])

    def pack(self) -> bytes:
        """The blob. If it is too large, open spans are spilled to the archive, the largest first."""
        sizes = {author: len(log.spans.open_bytes) for author, log in self.state.logs.items()}
        excess = sum(sizes.values()) - BLOB_BYTES_TARGET
        if excess > 0:
            excess += BLOB_BYTES_TARGET // 2
            for author in sorted(sizes, key=lambda author: (-sizes[author], author)):
                if excess <= 0:
                    break
                self.logs[author].spill()
                excess -= sizes[author]
        return _encoder.encode(self.state)

    def check_invariants(self) -> list[str]:
        problems = [f"{author.hex()[:8]}: {p}" for author, log in self.logs.items() for p in log.problems()]
        if sum(log.heads for log in self.state.logs.values()) > self.state.verified:
            problems.append(f"more heads are held than the {self.state.verified} that were verified")
        return problems

    def audit(self, names: Iterable[bytes]) -> Iterator[str]:
        del names  # the blob names all spans
        yield from self.check_invariants()
        claims: dict[bytes, int] = {}
        for author, log in self.logs.items():
            yield from (f"{author.hex()[:8]}: {problem}" for problem in log.problems_in_spans(claims))
        if claims != self.state.claims_of:
            yield f"claims counted: want {claims}, got {self.state.claims_of}"

    def _absorb_heads(self, events: memoryview) -> set[bytes]:
        touched = set()
        duplicates = ops = 0
        since_ms = self._swarm.since_ms
        for head, signature, head_id, time_ms in _HEAD_EVENT.iter_unpack(events):
            author = head[40:72]
            log = self.logs.get(author) or self._new_log(author)
            kept = Kept(head, head_id, int.from_bytes(head[_INDEX_AT : _INDEX_AT + 8]), signature, time_ms)
            if since_ms is not None and time_ms >= since_ms:
                log.begin_at(kept.index)
            if log.add_head(kept):
                ops += int.from_bytes(head[_OPS_COUNT_AT : _OPS_COUNT_AT + 4])
            else:
                duplicates += 1
            touched.add(author)
        self.state.ops += ops
        self.state.duplicates += duplicates
        self.state.verified += len(events) // _HEAD_EVENT.size - duplicates
        return touched

    def _absorb_refs(self, events: memoryview) -> set[bytes]:
        touched = set()
        for author, index, noop_id, referrer, time_ms in _REF_EVENT.iter_unpack(events):
            log = self.logs.get(author) or self._new_log(author)
            log.add_ref(index, noop_id, referrer, time_ms)
            touched.add(author)
        return touched

    def _findings(self, touched: set[bytes]) -> Iterator[Message]:
        passed_ms = self.state.clock_ms - self._swarm.grace_ms
        for author, log in self.logs.items():
            if log.judge(passed_ms):
                touched.add(author)
        for author in sorted(touched):
            for key, verdict in Findings(self.logs[author], self._config, passed_ms).all():
                value = None if verdict is None else encode_verdict(verdict)
                yield Message(Topic.VERDICTS, key.encode(), value)

    def _flush(self, touched: set[bytes]) -> None:
        for author in touched:
            self.logs[author].flush()

    def _new_log(self, author: bytes) -> AuthorLog:
        return self._open_log(author, self.state.logs.setdefault(author, LogState()))

    def _open_log(self, author: bytes, state: LogState) -> AuthorLog:
        since = self._swarm.since_ms is not None
        log = AuthorLog(self._swarm.key, author, state, self._archive, self.state.claims_of, since=since)
        self.logs[author] = log
        return log
