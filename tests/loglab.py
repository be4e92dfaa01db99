"""Random small logs, and the slow, obviously right answer to what must be found in them."""

from collections import defaultdict
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

import msgspec
from hypothesis import strategies as st

from state.config import Config, parse_config
from state.fold import Arrival, Arrivals
from state.head import NO_PREVIOUS, VERSION, Head, head_id
from state.limits import CLOCK_SKEW_MS_MAX, REFERRERS_MAX
from state.logs import LogsFold
from state.segment import Ref, Segment, decode_refs, encode_refs
from state.signing import SigningKey
from state.verdict import (
    BadIndex,
    ClockSkew,
    Equivocation,
    Fork,
    Missing,
    Named,
    Signed,
    Verdict,
    encode_verdict,
    key_of,
)

SWARM = sha256(b"swarm").digest()
AUTHORS = [SigningKey(bytes([n]) * 32).public for n in range(1, 4)]
GRACE_MS = 1000
START_MS = 1_700_000_000_000


def since_config(config: Config, since_ms: int) -> Config:
    """The same, but what was published before a time is gone."""
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    return Config(tuple(msgspec.structs.replace(swarm, since=since) for swarm in config.swarms))


def lab_config(authors: list[bytes] = AUTHORS) -> Config:
    roster = "".join(f"          peer-{n}: '{author.hex()}'\n" for n, author in enumerate(authors))
    return parse_config(
        f"swarms:\n  - id: '{SWARM.hex()}'\n    name: lab\n    grace: {GRACE_MS}ms\n    epochs:\n"
        f"      - start: 2020-01-01T00:00:00Z\n        roster:\n{roster}"
    )


def noop(
    author: bytes, index: int, previous: bytes, salt: int = 0, *, refs: list[Ref] | None = None, time_ms: int = START_MS
) -> Segment:
    """A segment with a made-up signature: the fold trusts ingest, so it never looks."""
    if refs is None:
        refs = []
    head = Head(VERSION, 0, SWARM, author, index, previous, time_ms, salt, bytes(32), bytes(32), bytes(32))
    encoded = head.encode()
    return Segment(head_id(encoded), head, encoded, sha256(encoded).digest() * 2, (), encode_refs(refs))


def resigned(segment: Segment, salt: int) -> Segment:
    """The same head, signed in another way: an author can do that."""
    return segment._replace(signature=sha256(segment.signature + bytes([salt])).digest() * 2)


class Copy(NamedTuple):
    segment: Segment
    time_ms: int


@st.composite
def histories(draw: st.DrawFn, size: int = 14) -> list[Copy]:
    """Copies of segments of a few authors: nested forks, gaps, wrong indexes, late parents, refs to all and nothing."""
    made: list[Segment] = []
    copies: list[Copy] = []
    for step in range(draw(st.integers(1, size))):
        author = draw(st.sampled_from(AUTHORS))
        own = [segment for segment in made if segment.head.author == author]
        parent = draw(st.sampled_from([None, *own[-3:], *own])) if own else None
        index, previous = (parent.head.index + 1, parent.id) if parent else (1, NO_PREVIOUS)
        if parent and draw(st.integers(0, 7)) == 0:
            index = draw(st.sampled_from([index + 1, max(2, index - 1), index + 70]))
        refs = {s.ref for s in draw(st.lists(st.sampled_from(made), max_size=3))} if made else set()
        refs = {ref for ref in refs if ref.author != author}
        if draw(st.integers(0, 5)) == 0:
            other = draw(st.sampled_from([a for a in AUTHORS if a != author]))
            refs.add(Ref(other, draw(st.integers(1, 5)), sha256(b"nothing%d" % draw(st.integers(0, 3))).digest()))
        skew_ms = draw(st.sampled_from([0, 0, 0, 0, 3_600_000, -3_600_000]))
        time_ms = START_MS + draw(st.integers(0, 4 * GRACE_MS))
        segment = noop(author, index, previous, step % 3, refs=sorted(refs), time_ms=time_ms + skew_ms)
        if segment.id in {s.id for s in made}:
            continue
        made.append(segment)
        for copy in range(draw(st.sampled_from([0, 1, 1, 1, 1, 1, 1, 2, 3]))):
            signed = resigned(segment, copy) if copy == 2 else segment
            copies.append(Copy(signed, time_ms + draw(st.integers(0, GRACE_MS))))
    return copies


def batches_of(draw: st.DrawFn, copies: list[Copy]) -> list[list[Copy]]:
    """The same copies in any order, some of them several times, cut anywhere."""
    again = draw(st.lists(st.sampled_from(copies), max_size=4)) if copies else []
    shuffled = draw(st.permutations(copies + again))
    batches: list[list[Copy]] = [[]]
    for copy in shuffled:
        if draw(st.booleans()):
            batches.append([])
        batches[-1].append(copy)
    return batches


def run_logs(
    config: Config, batches: list[list[Copy]], *, clocks: list[int] | None = None, check: bool = True
) -> dict[bytes, bytes]:
    """The compacted verdicts of the logs fold over these batches; each shard is packed and opened again each time.

    The clock of a batch is any time that has passed; after the last it is the newest record time.
    """
    fold = LogsFold(config)
    blobs: dict[bytes, bytes] = {}
    archives: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    compacted: dict[bytes, bytes] = {}
    end_ms = max((copy.time_ms for batch in batches for copy in batch), default=0)
    for at, batch in enumerate([*batches, []]):
        clock_ms = end_ms if at == len(batches) else (clocks[at % len(clocks)] if clocks else 0)
        routed = defaultdict(list)
        for key, payload in fold.route(Arrivals([Arrival(*copy) for copy in batch], [])):
            routed[key].append(payload)
        for key in fold.all_keys():
            shard = fold.open(key, blobs.get(key), archives[key])
            outcome = shard.absorb(routed[key], min(clock_ms, end_ms))
            blobs[key] = shard.pack()
            if check:
                again = fold.open(key, blobs[key], archives[key])
                assert list(again.audit(archives[key])) == []
            for message in outcome.messages:
                if message.value is None:
                    compacted.pop(message.key, None)
                else:
                    compacted[message.key] = message.value
    return compacted


def oracle(config: Config, copies: list[Copy]) -> dict[bytes, bytes]:
    """What must be found: plain loops over sets, straight from the rules."""
    clock_ms = max((copy.time_ms for copy in copies), default=0)
    seen: dict[bytes, int] = {}
    signature: dict[bytes, bytes] = {}
    held: dict[bytes, Segment] = {}
    for segment, time_ms in copies:
        held[segment.id] = segment
        seen[segment.id] = min(seen.get(segment.id, time_ms), time_ms)
        signature[segment.id] = min(signature.get(segment.id, segment.signature), segment.signature)
    about = {"swarm": SWARM.hex(), "config": config.digest}
    verdicts: list[Verdict] = []

    def signed(segment: Segment) -> Signed:
        return Signed(segment.id.hex(), segment.head_bytes.hex(), signature[segment.id].hex(), seen[segment.id])

    def is_before(author: bytes, index: int) -> bool:
        since_ms = config.swarms[0].since_ms
        if since_ms is None:
            return False
        written = (s.head.index for s, time_ms in copies if s.head.author == author and time_ms >= since_ms)
        begins = min(written, default=None)
        return begins is None or index < begins

    def has_parent(segment: Segment) -> bool:
        head = segment.head
        return head.index == 1 or (head.previous in held and held[head.previous].head.index == head.index - 1)

    def is_regular(segment: Segment) -> bool:
        return has_parent(segment) or is_before(segment.head.author, segment.head.index - 1)

    def is_due(segment: Segment) -> bool:
        return seen[segment.id] + GRACE_MS <= clock_ms

    missing: dict[Ref, list[Segment]] = defaultdict(list)
    for segment in held.values():
        for ref in decode_refs(segment.refs):
            is_held = ref.id in held and held[ref.id].head.index == ref.index
            if not is_held and not is_before(ref.author, ref.index):
                missing[ref].append(segment)
    chained: dict[Ref, list[Segment]] = defaultdict(list)
    for author in AUTHORS:
        log = [segment for segment in held.values() if segment.head.author == author]
        name = author.hex()
        for previous in {segment.head.previous for segment in log}:
            claimants = [segment for segment in log if segment.head.previous == previous]
            branches = {s.id for s in claimants if sum(o.head.index == s.head.index for o in claimants) > 1}
            judged = {s.id for s in claimants if not is_regular(s) and is_due(s)}
            if judged:
                branches |= judged | {s.id for s in claimants if has_parent(s)}
            if len(branches) > 1:
                key = key_of(Fork, SWARM.hex(), name, previous.hex())
                ordered = tuple(signed(held[i]) for i in sorted(branches))
                verdicts.append(Fork(key=key, author=name, previous=previous.hex(), branches=ordered, **about))
        pairs = [
            (one.head.index, one.id, other.id)
            for one in log
            for other in log
            if one.head.index == other.head.index and one.id < other.id
        ]
        if pairs:
            index, one, other = min(pairs)
            key = key_of(Equivocation, SWARM.hex(), name)
            evidence = (signed(held[one]), signed(held[other]))
            verdicts.append(Equivocation(key=key, author=name, index=index, evidence=evidence, **about))
        for segment in log:
            if is_regular(segment) or not is_due(segment):
                continue
            previous = segment.head.previous
            if previous in held:
                key = key_of(BadIndex, SWARM.hex(), name, segment.id.hex())
                parent = held[previous]
                verdicts.append(
                    BadIndex(
                        key=key,
                        author=name,
                        segment=signed(segment),
                        previous=signed(parent),
                        index=segment.head.index,
                        previous_index=parent.head.index,
                        **about,
                    )
                )
            else:
                chained[Ref(author, segment.head.index - 1, previous)].append(segment)
        skews = [segment.head.time_ms - seen[segment.id] for segment in log]
        if skews and (max(skews) > CLOCK_SKEW_MS_MAX or -max(skews) > CLOCK_SKEW_MS_MAX):
            key = key_of(ClockSkew, SWARM.hex(), name)
            ahead, behind = (skew if skew > CLOCK_SKEW_MS_MAX else 0 for skew in (max(skews), -max(skews)))
            verdicts.append(ClockSkew(key=key, author=name, ahead_ms=ahead, behind_ms=behind, **about))
    for ref in {*missing, *chained}:
        referrers = chained[ref] + (missing[ref] if any(map(is_due, missing[ref])) else [])
        if referrers:
            key = key_of(Missing, SWARM.hex(), ref.author.hex(), ref.index, ref.id.hex())
            names = sorted({Named(s.head.author.hex(), s.head.index, s.id.hex()) for s in referrers})
            at_index = [s for s in held.values() if (s.head.author, s.head.index) == (ref.author, ref.index)]
            verdicts.append(
                Missing(
                    key=key,
                    author=ref.author.hex(),
                    index=ref.index,
                    id=ref.id.hex(),
                    since_ms=min(seen[s.id] for s in referrers),
                    disputed=bool(at_index),
                    referrers=tuple(names[:REFERRERS_MAX]),
                    more=len(names) > REFERRERS_MAX,
                    **about,
                )
            )
    return {verdict.key.encode(): encode_verdict(verdict) for verdict in verdicts}
