"""The columns fold: the entanglement matrix by columns. Who has what, what is known and accepted, who believed which.

Key: a swarm and a block of its columns; a column belongs to the block that its author's key hashes to. Every block
sees every noop of the swarm, derives all logs from `previous`, and keeps the cells of its own columns.

A block takes noops in when the clock has passed their record times, in the order of (time, name). So what it says is a
function of the set of noops, and a tick shows the noops up to it and no others. A noop that comes behind the clock
(brokers' clocks differ by some milliseconds) is taken in at once. `state.pasts` has the rules of the matrix,
`state.observers` those of known and accepted, `state.beliefs` and `state.ticks` the rest.
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from state.beliefs import Beliefs
from state.blockstore import ChunkStore, PastsState, load_pasts, pack_pasts
from state.config import Config, Swarm
from state.elders import Elders
from state.fold import Archive, Arrival, Arrivals, Message, Outcome, Tally, Topic
from state.matrix import NEVER
from state.noops import Noop, decode_noops, encode_arrivals, encode_noops
from state.observers import Observers
from state.oldnoops import OldNoops
from state.pasts import LIMITS, Pasts
from state.report import encode_report, report_key
from state.ticks import Reporter, tick_from
from state.verdict import Limit, Verdict, encode_verdict, key_of
from state.waiting import Codec, Waiting

OLD_AT_ONCE = 32
"""Noops an author, on average, that leave the matrix at once: one write of the archive serves them all."""
AFTERLIFE = 1.5
"""Horizons that a noop stays in the matrix after its life. It tells who observed others, which is not kept otherwise;
only what lives for longer than this has its observers kept beside it. Beyond one horizon, so that noops of peers that
publish more often than every half horizon never need that."""
PAYLOAD_NOOPS = 4096
"""Noops that travel together in one row."""


class BlockState(msgspec.Struct, array_like=True):
    """The blob of a block."""

    clock_ms: int = 0
    first_ms: int = 0
    """The time of the first noop."""
    newest_ms: int = 0
    """The newest time of a noop that was taken in."""
    next_tick_ms: int = 0
    """0: the first one after the next noop."""
    before_tick_ms: int = 0
    waiting_pieces: int = 0
    beliefs: dict[int, int] = {}
    """Serials of the columns that are branches, and the time before which nothing is known of each."""
    elders: list[bytes] = []
    over: list[tuple[bytes, str]] = []
    pasts: PastsState = msgspec.field(default_factory=PastsState)


_decoder = msgspec.msgpack.Decoder(BlockState)
_encoder = msgspec.msgpack.Encoder()
_NOOPS = Codec(encode_noops, decode_noops)


class ColumnsFold:
    """Routes every noop of a swarm to each of its blocks."""

    name = "columns"
    version = 1
    tallies = ("noops", "noops_late", "noops_early", "ticks_reported")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._swarms = {swarm.key: swarm for swarm in config.swarms}
        self._blocks = {swarm.key: [_key(swarm, n) for n in range(swarm.blocks_count)] for swarm in config.swarms}

    def all_keys(self) -> Iterable[bytes]:
        return [key for keys in self._blocks.values() for key in keys]

    def route(self, arrivals: Arrivals) -> Iterator[tuple[bytes, bytes]]:
        by_swarm: dict[bytes, list[Arrival]] = {}
        for arrival in arrivals.verified:
            by_swarm.setdefault(arrival.segment.head.swarm, []).append(arrival)
        for swarm, found in by_swarm.items():
            for at in range(0, len(found), PAYLOAD_NOOPS):
                payload = encode_arrivals(found[at : at + PAYLOAD_NOOPS])
                for key in self._blocks[swarm]:
                    yield key, payload

    def open(self, key: bytes, blob: bytes | None, archive: Archive) -> "Block":
        state = BlockState() if blob is None else _decoder.decode(blob)
        return Block(self._swarms[key[:32]], int.from_bytes(key[32:]), self._config.digest, state, archive)


def block_of(swarm: Swarm, author: bytes) -> int:
    """The block that keeps an author's column. Keys are as good as random."""
    return int.from_bytes(author[-8:]) % swarm.blocks_count


def _key(swarm: Swarm, block: int) -> bytes:
    return swarm.key + block.to_bytes(2)


class Block:
    """The columns of the authors of one block."""

    old_at_once = OLD_AT_ONCE

    def __init__(self, swarm: Swarm, block: int, config: str, state: BlockState, archive: Archive) -> None:
        self._swarm = swarm
        self._config = config
        self._archive = archive
        self._state = state
        # Authors keep their ranks when a later epoch brings new ones.
        authors = state.pasts.authors + sorted(swarm.authors.keys() - set(state.pasts.authors))
        own = frozenset(author for author in authors if block_of(swarm, author) == block)
        self.pasts = Pasts(authors, own, swarm.horizon_ms, OldNoops(archive, state.pasts.old), swarm.since_ms)
        self._chunks = ChunkStore(self.pasts, archive)
        self._observers = Observers(self.pasts, swarm, config)
        self._beliefs = Beliefs(self.pasts, self._observers, swarm.id, config)
        self._reporter = Reporter(self.pasts, swarm, block)
        # A noop that observed another one lived when that one came. So it is still there for as long after that.
        self._afterlife_ms = int(AFTERLIFE * swarm.horizon_ms)
        self._waiting = Waiting(archive, state.waiting_pieces, _NOOPS)
        self._elders = Elders(self.pasts, self._observers, archive)
        self._tally = dict.fromkeys(ColumnsFold.tallies, 0)
        self._load()

    def absorb(self, payloads: Iterable[bytes], clock_ms: int) -> Outcome:
        """Take in what the clock has passed, report the ticks on the way, and say what follows."""
        self._tally = dict.fromkeys(ColumnsFold.tallies, 0)
        self._waiting.add(payloads)
        self._state.clock_ms = max(self._state.clock_ms, clock_ms)
        due, self._tally["noops_early"] = self._waiting.take(self._state.clock_ms)
        messages = list(self._advance(due))
        self._observe()
        verdicts: list[Verdict] = [*self._observers.verdicts(), *self._beliefs.verdicts(), *self._limits()]
        messages += [Message(Topic.VERDICTS, v.key.encode(), encode_verdict(v)) for v in verdicts]
        self._expire()
        self._flush()
        return Outcome(messages, [Tally(name, amount) for name, amount in self._tally.items()])

    def pack(self) -> bytes:
        """The blob; what stands in the archive was written when the batch was absorbed."""
        self._state.pasts = pack_pasts(self.pasts, self._chunks)
        self._state.beliefs = self._beliefs.floor_ms
        self._state.elders = self._elders.names()
        self._state.waiting_pieces = self._waiting.pieces
        return _encoder.encode(self._state)

    def check_invariants(self) -> list[str]:
        problems = [f"author {tree.author}: {p}" for tree in self.pasts.trees for p in tree.problems()]
        if len(self._observers.watch_of) > len(self.pasts.slot_of):
            problems.append("more noops are watched than held")
        return problems

    def audit(self, names: Iterable[bytes]) -> Iterator[str]:
        yield from self.check_invariants()
        yield from self.pasts.problems()
        yield from self.pasts.old.problems(names)

    # Noops come in

    def _advance(self, due: list[Noop]) -> Iterator[Message]:
        state = self._state
        for noop in due:
            if 0 < state.next_tick_ms < noop.time_ms:
                yield from self._ticks_before(noop.time_ms)
            if self.pasts.holds(noop) or self.pasts.precedes(noop):
                continue
            self._tally["noops_late"] += noop.time_ms <= state.before_tick_ms
            self._tally["noops"] += 1
            state.first_ms = state.first_ms or noop.time_ms
            state.newest_ms = max(state.newest_ms, noop.time_ms)
            if not state.next_tick_ms:
                state.next_tick_ms = tick_from(self._swarm, max(noop.time_ms, state.before_tick_ms + 1))
            self._add(noop)
        yield from self._ticks_before(state.clock_ms)

    def _add(self, noop: Noop) -> None:
        pasts = self.pasts
        if pasts.gap_of and pasts.changes_again(noop):
            self._observe()
        slot = pasts.add(noop, self._pause_ms(noop.time_ms))
        if slot is None:
            return
        if pasts.column[slot].number >= 0:
            self._observers.watch(slot)
        if pasts.reshaped:
            self._note_reshaped()
            author = int(pasts.author[slot])
            if pasts.trees[author].forked:
                self._observe()
                self._beliefs.open_branches(author, noop.time_ms)

    def _pause_ms(self, time_ms: int) -> int:
        """How long a peer may publish nothing at this time without having paused."""
        if len(self._swarm.epochs) == 1:
            return self._swarm.epochs[0].split_after_ms
        return (self._swarm.epoch_at(time_ms) or self._swarm.epochs[0]).split_after_ms

    def _note_reshaped(self) -> None:
        self._observers.reshaped()
        self._chunks.touch_all()
        self.pasts.reshaped = False

    def _ticks_before(self, time_ms: int) -> Iterator[Message]:
        """Report the ticks before a time at which anybody is there."""
        state = self._state
        while 0 < state.next_tick_ms < time_ms:
            tick_ms = state.next_tick_ms
            epoch = self._swarm.epoch_at(tick_ms)
            assert epoch is not None
            if state.newest_ms <= tick_ms - epoch.split_after_ms:
                state.next_tick_ms = 0
                return
            report = self._reporter.report(tick_ms, state.before_tick_ms, state.first_ms)
            yield Message(Topic.MATRIX, report_key(report.swarm, report.block, tick_ms), encode_report(report))
            self._tally["ticks_reported"] += 1
            state.before_tick_ms = tick_ms
            state.next_tick_ms = tick_from(self._swarm, tick_ms + 1)

    # What follows

    def _observe(self) -> None:
        changed, self.pasts.changed = self.pasts.changed, {}
        if changed:
            self._chunks.touch(changed)
            for step in self._observers.steps(changed):
                self._observers.observe(step)
                self._beliefs.note(step)

    def _limits(self) -> Iterator[Limit]:
        """Only the block of an author's column speaks of it: all of them see the same."""
        said = set(self._state.over)
        for author, limit in sorted(self.pasts.over - said):
            self._state.over.append((author, limit))
            if author in self.pasts.own:
                key = key_of(Limit, self._swarm.id, author.hex(), "columns", limit)
                about = {"swarm": self._swarm.id, "config": self._config}
                yield Limit(key=key, author=author.hex(), limit=limit, maximum=LIMITS[limit], **about)

    # What is kept

    def _expire(self) -> None:
        """Let noops go whose life ended long ago; many at once, because each author's old noops are written apart."""
        pasts = self.pasts
        slots = np.fromiter(pasts.live_slots(), np.int64, len(pasts.slot_of))
        gone = slots[pasts.life[slots] + self._afterlife_ms < self._state.clock_ms]
        if len(gone) < self.old_at_once * len(pasts.authors):
            return
        leaving = gone.tolist()
        self._observers.forget(leaving)
        self._chunks.forget(leaving)
        pasts.forget(leaving)
        pasts.mend()
        if pasts.reshaped:
            self._note_reshaped()

    def _flush(self) -> None:
        self._chunks.flush()
        self._elders.flush(self._state.clock_ms, self._afterlife_ms)
        for serial in self._beliefs.changed:
            self._archive[b"B" + serial.to_bytes(4)] = self._beliefs.since_ms[serial].tobytes()
        self._beliefs.changed.clear()
        self.pasts.old.forget_read()
        self._waiting.flush()

    def _load(self) -> None:
        state, pasts = self._state, self.pasts
        load_pasts(pasts, state.pasts, self._chunks)
        pasts.reshaped = False
        pasts.over = set(state.over)
        for slot in pasts.live_slots():
            if pasts.column[slot].number >= 0:
                self._observers.watch(slot)
        for step in self._observers.steps({slot: int(pasts.time[slot]) for slot in pasts.live_slots()}):
            self._observers.observe(step)
        self._elders.load(state.elders)
        self._observers.touch_all()
        self._observers.note_said()
        self._observers.seen[:] = False
        self._beliefs.floor_ms = state.beliefs
        for serial in state.beliefs:
            since_ms = np.frombuffer(self._archive[b"B" + serial.to_bytes(4)], np.int64)
            more = len(pasts.authors) - len(since_ms)
            self._beliefs.since_ms[serial] = np.pad(since_ms, (0, more), constant_values=NEVER)
