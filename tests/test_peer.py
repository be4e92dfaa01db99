"""A peer's promises: it signs each index once, goes on where it stopped, and refuses what ingest would reject."""

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers import homelog
from producers.homelog import Acknowledged, LogDamagedError, LogInUseError, public_key
from producers.peer import LogBehindError, Peer, SegmentFullError
from state import wire_pb2
from state.head import NO_PREVIOUS
from state.holding import Holding
from state.limits import OP_BYTES_MAX, OPS_MAX, RECORD_BYTES_MAX, ROSTER_MAX
from state.segment import Reason, Segment, build, decode_refs, judge
from state.signing import SigningKey
from state.update import Update, decode_update

SWARM = bytes(range(32))
OTHERS = [SigningKey(bytes([i]) * 32) for i in range(1, 4)]
SEED = bytes([9]) * 32
OWN = SigningKey(SEED)
ROSTER = [OWN.public, *(key.public for key in OTHERS)]


def make_home(directory: Path) -> Path:
    """A directory with a known key."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "secret.key").write_text(SEED.hex())
    return directory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "peer")


def open_peer(directory: Path) -> Peer:
    return Peer.open(directory, SWARM, ROSTER)


def first_of(key: SigningKey, time_ms: int = 0) -> Segment:
    return Holding(SWARM, key.public, 10).close(key, time_ms, [])


def test_a_segment_carries_the_ops_and_origins_that_were_appended(home: Path) -> None:
    with open_peer(home) as peer:
        peer.append(b"mine")
        peer.append(b"theirs", origin=b"client 7")
        segment = peer.close()
        assert [wire_pb2.Op.FromString(op) for op in segment.ops] == [
            wire_pb2.Op(data=b"mine"),
            wire_pb2.Op(data=b"theirs", origin=b"client 7"),
        ]
        assert peer.close().ops == []
        assert peer.public == OWN.public


def test_updates_and_data_stand_in_a_segment_in_the_order_in_which_they_were_appended(home: Path) -> None:
    update = Update(b"menu", (b"\1" * 32,), b"add soup", b"a stamp", b"\2" * 32)
    with open_peer(home) as peer:
        peer.append(b"before")
        peer.append_update(update, origin=b"client 7")
        peer.append_update(Update(b"menu"))
        segment = peer.close()
    assert [decode_update(op) for op in segment.ops] == [None, update, Update(b"menu")]
    assert [wire_pb2.Op.FromString(op).origin for op in segment.ops] == [b"", b"client 7", b""]


def test_an_update_that_is_malformed_or_too_large_is_refused_and_nothing_is_queued(home: Path) -> None:
    with open_peer(home) as peer:
        with pytest.raises(ValueError, match=r"^entity: want 1 to 64 bytes, got 0$"):
            peer.append_update(Update(b"", change=b"x"))
        with pytest.raises(ValueError, match=f"^an op has at most {OP_BYTES_MAX} bytes with its origin and framing"):
            peer.append_update(Update(b"menu", change=bytes(OP_BYTES_MAX)))
        assert not peer.close().ops


def test_segments_form_one_chain_and_are_read_back_from_any_index(home: Path) -> None:
    with open_peer(home) as peer:
        closed = [peer.close() for _ in range(5)]
        assert list(peer.segments()) == closed
        assert list(peer.segments(4)) == closed[3:]
        assert list(peer.segments(6)) == []
        assert [segment.head.index for segment in closed] == [1, 2, 3, 4, 5]
        assert [segment.head.previous for segment in closed] == [NO_PREVIOUS, *(each.id for each in closed[:-1])]


def test_everything_a_peer_closes_is_accepted_by_ingest(home: Path) -> None:
    with open_peer(home) as peer:
        for key in OTHERS:
            peer.receive(first_of(key).encode())
        peer.append(b"op")
        segment = peer.close()
    assert judge(segment.encode(), {SWARM: frozenset(ROSTER)}) == segment
    assert len(decode_refs(segment.refs)) == len(OTHERS)


def test_a_segment_is_on_disk_before_close_returns_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    with open_peer(home) as peer:
        monkeypatch.setattr(os, "fsync", lambda _: synced.append((home / "home.log").read_bytes()))
        segment = peer.close()
    assert segment.encode() in synced[-1]


def test_what_is_received_is_held_once_its_past_is_and_is_held_after_opening_again(home: Path) -> None:
    author = Holding(SWARM, OTHERS[0].public, 10)
    first, second = (author.close(OTHERS[0], 0, []) for _ in range(2))
    with open_peer(home) as peer:
        assert peer.receive(second.encode()) == []
        assert (peer.waiting, second.id in peer) == (1, False)
        assert peer.receive(first.encode()) == [first, second]
        assert peer.receive(first.encode()) == []
    with open_peer(home) as peer:
        assert first.id in peer
        assert [ref.id for ref in decode_refs(peer.close().refs)] == [second.id]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"garbage", Reason.MALFORMED),
        (bytes(RECORD_BYTES_MAX + 1), Reason.TOO_LARGE),
        (first_of(SigningKey(bytes(32))).encode(), Reason.UNKNOWN_AUTHOR),
        (first_of(OTHERS[0])._replace(signature=bytes(64)).encode(), Reason.BAD_SIGNATURE),
        (first_of(OTHERS[0])._replace(ops=[b"slipped in"]).encode(), Reason.BAD_OPS_HASH),
    ],
)
def test_a_bad_record_gives_its_reason_and_changes_nothing(home: Path, record: bytes, reason: Reason) -> None:
    with open_peer(home) as peer:
        size = (home / "home.log").stat().st_size
        assert peer.receive(record) == reason
        assert (home / "home.log").stat().st_size == size
        assert decode_refs(peer.close().refs) == []


def test_an_op_over_the_limit_is_refused_at_once(home: Path) -> None:
    framing = len(wire_pb2.Op(data=bytes(OP_BYTES_MAX)).SerializeToString()) - OP_BYTES_MAX
    with open_peer(home) as peer:
        with pytest.raises(ValueError, match="at most 65536 bytes"):
            peer.append(bytes(OP_BYTES_MAX - framing + 1))
        with pytest.raises(ValueError, match="at most 65536 bytes"):
            peer.append(b"", origin=bytes(OP_BYTES_MAX))
        peer.append(bytes(OP_BYTES_MAX - framing))
        assert len(peer.close().ops) == 1


def test_a_segment_takes_4096_ops_and_then_says_that_it_is_full(home: Path) -> None:
    with open_peer(home) as peer:
        for _ in range(OPS_MAX):
            peer.append(b"x")
        with pytest.raises(SegmentFullError, match=r"full with 4096 ops .*close it, then append"):
            peer.append(b"x")
        assert len(peer.close().ops) == OPS_MAX
        peer.append(b"x")
        assert len(peer.close().ops) == 1


def fill(peer: Peer, sizes: Iterator[int]) -> Iterator[bool]:
    """Append ops of these sizes; says for each whether it was taken."""
    for size in sizes:
        try:
            peer.append(bytes(size))
        except SegmentFullError:
            yield False
        else:
            yield True


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, OP_BYTES_MAX - 8), min_size=1), more=st.integers(1, OP_BYTES_MAX - 8))
def test_whatever_append_takes_fits_a_record_even_if_every_ref_comes_later(sizes: list[int], more: int) -> None:
    """Filled to the brim with ops of `sizes`, then of `more`; then another noop of each other peer is received."""
    with temporary_home() as home, open_peer(home) as peer:
        taken = sum(1 for _ in itertools.takewhile(bool, fill(peer, itertools.chain(sizes, itertools.repeat(more)))))
        for key in OTHERS:
            peer.receive(first_of(key).encode())
        segment = peer.close()
        assert len(segment.ops) == taken
        assert len(segment.encode()) <= RECORD_BYTES_MAX
        assert isinstance(judge(segment.encode(), {SWARM: frozenset(ROSTER)}), Segment)


def test_a_record_may_be_filled_to_the_last_byte(home: Path) -> None:
    """The count of bytes is exact: with every place for a ref taken, a full record is exactly as large as it may be."""
    forks = [first_of(OTHERS[0], time_ms) for time_ms in range(len(ROSTER))]
    with open_peer(home) as peer:
        for segment in forks:
            peer.receive(segment.encode())
        free_bytes = RECORD_BYTES_MAX - empty_record_bytes(len(ROSTER))
        while free_bytes > 60_000:
            peer.append(bytes(50_000))
            free_bytes -= op_field_bytes(50_000)
        last = next(n for n in range(free_bytes, 0, -1) if op_field_bytes(n) <= free_bytes)
        with pytest.raises(SegmentFullError):
            peer.append(bytes(last + 1))
        peer.append(bytes(last))
        assert len(peer.close().encode()) == RECORD_BYTES_MAX


def empty_record_bytes(refs: int) -> int:
    return wire_pb2.Segment(head=bytes(220), signature=bytes(64), refs=bytes(72 * refs)).ByteSize()


def op_field_bytes(data_bytes: int) -> int:
    return wire_pb2.Segment(ops=[wire_pb2.Op(data=bytes(data_bytes)).SerializeToString()]).ByteSize()


@contextlib.contextmanager
def temporary_home() -> Iterator[Path]:
    """A home for one example of hypothesis, which runs many within one test."""
    with tempfile.TemporaryDirectory() as folder:
        yield make_home(Path(folder) / "peer")


def pool() -> list[Segment]:
    """What three others sign: they entangle each other, and the last forks its log."""
    holdings = [Holding(SWARM, key.public, 10) for key in OTHERS]
    made: list[Segment] = []
    for turn in range(12):
        author = turn % 3
        segment = holdings[author].close(OTHERS[author], turn, [])
        made.append(segment)
        for other in holdings[:author] if turn % 2 else holdings[author + 1 :]:
            other.receive(segment)
    liar = OTHERS[2]
    base = [segment for segment in made if segment.head.author == liar.public][1]
    index, previous = base.head.index + 1, base.id
    forks = (
        build(liar, swarm=SWARM, index=index, previous=previous, time_ms=time_ms, ops=[], root=bytes(32))
        for time_ms in (100, 101)
    )
    return [*made, *forks]


POOL = pool()
steps = st.one_of(
    st.binary(min_size=1, max_size=3), st.integers(0, len(POOL) - 1), st.integers(0, len(POOL) - 1), st.none()
)
"""Bytes: append them. A number: receive that segment of the pool. None: close."""


class Run:
    """A peer driven by a script; `stop_and_open` is a restart after which callers and other peers try again."""

    def __init__(self, home: Path, times_ms: list[int]) -> None:
        self.home = home
        self.times_ms = itertools.cycle(times_ms)
        self.peer = self._open()
        self.closed: list[Segment] = []
        self.appended: list[bytes] = []
        self.received: list[Segment] = []

    def _open(self) -> Peer:
        return Peer.open(self.home, SWARM, ROSTER, clock_ms=lambda: next(self.times_ms))

    def do(self, step: bytes | int | None) -> None:
        if step is None:
            self.closed.append(self.peer.close())
            self.appended = []
        elif isinstance(step, bytes):
            self.peer.append(step)
            self.appended.append(step)
        else:
            self.peer.receive(POOL[step].encode())
            self.received.append(POOL[step])

    def stop_and_open(self) -> None:
        self.peer.stop()
        self.peer = self._open()
        for data in self.appended:
            self.peer.append(data)
        for segment in self.received:
            self.peer.receive(segment.encode())


@settings(max_examples=300, deadline=None)
@given(
    script=st.lists(steps, max_size=40),
    stops=st.sets(st.integers(0, 40), max_size=8),
    times_ms=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5),
)
def test_stopping_anywhere_gives_byte_identical_segments_to_never_stopping(
    script: list[bytes | int | None], stops: set[int], times_ms: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch, temporary_home() as home, temporary_home() as other_home:
        patch.setattr(homelog, "_sync", lambda _: None)  # nothing is cut off here, and fsync is slow
        steady, stopped = Run(home, times_ms), Run(other_home, times_ms)
        for at, step in enumerate([*script, None]):
            if at in stops:
                stopped.stop_and_open()
            steady.do(step)
            stopped.do(step)
        assert [each.encode() for each in stopped.closed] == [each.encode() for each in steady.closed]
        stopped.stop_and_open()
        assert list(stopped.peer.segments()) == steady.closed
        steady.peer.stop()
        stopped.peer.stop()


def test_what_was_received_in_order_needs_not_be_sent_again_after_a_stop(home: Path, tmp_path: Path) -> None:
    with open_peer(make_home(tmp_path / "steady")) as peer:
        for segment in POOL:
            peer.receive(segment.encode())
        expected = decode_refs(peer.close().refs)
    for segment in POOL:
        with open_peer(home) as peer:
            peer.receive(segment.encode())
    with open_peer(home) as peer:
        assert decode_refs(peer.close().refs) == expected


def test_a_clock_that_goes_back_is_shown_and_stops_nothing(home: Path) -> None:
    times_ms = iter([5000, 3000, 0])
    with Peer.open(home, SWARM, ROSTER, clock_ms=lambda: next(times_ms)) as peer:
        assert [peer.close().head.time_ms for _ in range(3)] == [5000, 3000, 0]


@pytest.mark.parametrize("time_ms", [-1, 1 << 64])
def test_a_time_that_no_head_can_carry_is_refused_and_the_peer_goes_on(home: Path, time_ms: int) -> None:
    times_ms = iter([time_ms, 7])
    with Peer.open(home, SWARM, ROSTER, clock_ms=lambda: next(times_ms)) as peer:
        peer.append(b"kept")
        with pytest.raises(ValueError, match="clock_ms"):
            peer.close()
        assert len(peer.close().ops) == 1


def test_ops_that_no_noop_has_signed_are_lost_at_a_stop_with_a_warning(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_peer(home) as peer:
        peer.append(b"unsigned")
    assert "1 ops that it has not signed" in caplog.text
    with open_peer(home) as peer:
        assert peer.close().ops == []


def test_after_a_failed_write_the_peer_signs_nothing_more_until_it_is_opened_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    peer = open_peer(home)
    first = peer.close()
    with monkeypatch.context() as patch:
        patch.setattr(homelog, "_sync", failing)
        with pytest.raises(OSError, match="Input/output"):
            peer.close()
    with pytest.raises(ValueError, match="closed: open it again"):
        peer.close()
    with open_peer(home) as peer:
        chain = [*peer.segments(), peer.close()]
    assert chain[0] == first
    assert [segment.head.index for segment in chain] == list(range(1, len(chain) + 1))
    assert [segment.head.previous for segment in chain[1:]] == [segment.id for segment in chain[:-1]]


def test_a_failed_write_of_what_was_received_stops_the_peer_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with open_peer(home) as peer:
        with monkeypatch.context() as patch:
            patch.setattr(homelog, "_write_all", failing)
            with pytest.raises(OSError, match="No space"):
                peer.receive(first_of(OTHERS[0]).encode())
        with pytest.raises(ValueError, match="closed: open it again"):
            peer.close()
    with open_peer(home) as peer:
        assert decode_refs(peer.close().refs) == []


@pytest.mark.parametrize("act", [Peer.close, lambda peer: peer.receive(first_of(OTHERS[0]).encode())])
def test_an_interrupt_between_memory_and_disk_stops_the_peer(
    home: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Peer], object]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with open_peer(home) as peer:
        with monkeypatch.context() as patch:
            patch.setattr(homelog.HomeLog, "append", interrupted)
            with pytest.raises(KeyboardInterrupt):
                act(peer)
        with pytest.raises(ValueError, match="closed: open it again"):
            peer.close()
    with open_peer(home) as peer:
        assert peer.close().head.index == 1


def test_a_peer_that_is_open_cannot_be_opened_again(home: Path) -> None:
    with open_peer(home), pytest.raises(LogInUseError):
        open_peer(home)


def test_a_key_that_is_not_on_the_roster_is_refused_with_the_key_to_add(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the roster lacks this peer's public key") as caught:
        open_peer(tmp_path)
    public = public_key(tmp_path)
    assert public.hex() in str(caught.value)
    with Peer.open(tmp_path, SWARM, [*ROSTER, public]) as peer:
        assert peer.public == public


@pytest.mark.parametrize(
    ("swarm", "roster"),
    [(b"short", ROSTER), (SWARM, [*ROSTER, bytes(32)]), (SWARM, [OWN.public] * (ROSTER_MAX + 1))],
    ids=["swarm of a wrong size", "key of small order", "too many keys"],
)
def test_a_swarm_or_roster_that_cannot_be_is_refused(home: Path, swarm: bytes, roster: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"swarm's id|roster has at most"):
        Peer.open(home, swarm, roster)
    open_peer(home).stop()


def test_a_peer_that_is_shown_its_own_newer_segment_never_signs_again(home: Path, tmp_path: Path) -> None:
    open_peer(home).stop()
    backup = shutil.copytree(home, tmp_path / "backup")
    with open_peer(home) as peer:
        lost = peer.close()
        assert peer.receive(lost.encode()) == []
    with open_peer(backup) as peer:
        with pytest.raises(LogBehindError, match=r"older than what its key has already signed.*proven a fork.*new key"):
            peer.receive(lost.encode())
        with pytest.raises(LogBehindError):
            peer.close()
        assert list(peer.segments()) == []


def test_a_log_shorter_than_what_kafka_confirmed_is_refused_at_once(home: Path) -> None:
    with open_peer(home) as peer:
        peer.close()
        peer.acknowledge(Acknowledged("topic id", 2, 0))
    with pytest.raises(LogBehindError, match="confirmed its segments up to 2"):
        open_peer(home)


def test_entries_that_do_not_follow_from_those_before_are_refused(home: Path) -> None:
    with open_peer(home) as peer:
        first, second = peer.close(), peer.close()
    (home / "home.log").unlink()
    with homelog.HomeLog(home, SWARM) as log:
        log.append([second.encode()])
        log.append([first.encode()])
    with pytest.raises(LogDamagedError, match="does not follow"):
        open_peer(home)
    with homelog.HomeLog(home, SWARM):
        pass
