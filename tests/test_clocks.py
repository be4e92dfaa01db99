"""The clocks fold: it says what plain search says, in any order, however cut; and what a hostile peer can do to it."""

import gc
import tracemalloc
from hashlib import sha256
from itertools import count
from random import Random

import msgspec
import pytest

from producers.replica import Replica as PeerReplica
from state.bloom import Clock, Parameters, indices
from state.clockcode import encode_clock
from state.clocks import SHARDS, ClocksFold
from state.entitylog import EntityLog
from state.entitystore import CHUNK_EVENTS, EntityStore
from state.fold import Arrival, Arrivals
from state.told import Told, decode_told, tell
from state.update import Update, encode_update, event_id
from state.verdict import BadUpdate, Limit, Replica, Verdict, decode_verdict
from tests.clockslab import PARAMETERS, Oracle, batches_of, clocks_config, history, run_clocks
from tests.loglab import AUTHORS, START_MS, SWARM, Copy, noop
from tests.searches import parts
from tests.topiclab import differences

HISTORIES = 480
PARTS = 16
ALICE, BOB, CAROL = AUTHORS
NAME = b"board"


def told(author: bytes, index: int, *updates: Update, time_ms: int = START_MS) -> Copy:
    """A segment with these updates."""
    segment = noop(author, index, sha256(b"%d" % index).digest(), time_ms=time_ms)
    return Copy(segment._replace(ops=tuple(map(encode_update, updates))), time_ms)


def replica_of(author: bytes) -> PeerReplica:
    return PeerReplica(SWARM, author, NAME, PARAMETERS)


def chain(author: bytes, length: int) -> list[Update]:
    """So many changes of one author, each on the one before, that claim nothing."""
    updates: list[Update] = []
    parents: tuple[bytes, ...] = ()
    for number in range(length):
        updates.append(Update(NAME, parents, b"%d" % number))
        parents = (event_id(SWARM, author, updates[-1]),)
    return updates


def found(batches: list[list[Copy]], **options: object) -> list[Verdict]:
    return [decode_verdict(value) for _, value in sorted(run_clocks(batches, **options).verdicts.items())]  # type: ignore[arg-type]


def state_of(verdicts: list[Verdict], author: bytes) -> Replica:
    (verdict,) = [one for one in verdicts if isinstance(one, Replica) and one.author == author.hex()]
    return verdict


# The oracle


@pytest.mark.parametrize("part", parts(PARTS))
def test_verdicts_are_those_of_a_search_however_the_updates_come(part: int) -> None:
    """Any order, some of it twice, cut anywhere, after restarts, with room for all entities, for one, or for none."""
    for seed in range(part * HISTORIES // PARTS, (part + 1) * HISTORIES // PARTS):
        copies, chance = history(seed), Random(seed)
        run = run_clocks(
            batches_of(chance, copies),
            clocks=[START_MS + chance.randrange(3_000) for _ in copies],
            reopen=chance.random() < 0.5,
            memory_bytes_max=chance.choice([None, 200_000, 0]),
        )
        assert differences(run.verdicts, Oracle(copies).verdicts()) == {}, f"seed {seed}"


def test_what_is_kept_does_not_depend_on_how_often_the_fold_was_packed() -> None:
    for seed in range(8):
        batches = batches_of(Random(seed), history(1_000 + seed))
        packed, kept_open = (run_clocks(batches, reopen=reopen) for reopen in (True, False))
        assert packed == kept_open


# What a clock suggests, a digest settles


def colliding(first: Update) -> Update:
    """A change with another id that raises the same counters, in any order, as the first of a replica's changes."""
    want = sorted(indices(event_id(SWARM, ALICE, first), PARAMETERS))
    for number in count():
        other = Update(NAME, (), b"forged %d" % number)
        if sorted(indices(event_id(SWARM, BOB, other), PARAMETERS)) == want:
            return other
    raise AssertionError


def secretly(update: Update) -> PeerReplica:
    """Bob's replica, which has this event alone; nobody publishes it."""
    replica = replica_of(BOB)
    replica.receive(BOB, update)
    return replica


def test_a_forced_false_positive_is_found_by_the_digest_and_is_not_in_step() -> None:
    """SPEC: issue 6: a digest settles what the clock only suggests."""
    first = replica_of(ALICE).change(b"first")
    replica = secretly(colliding(first))
    published = told(ALICE, 1, first)
    by_clock = replica.state_by_clock()
    assert by_clock.stamp == first.stamp
    suggested = state_of(found([[published, told(BOB, 1, by_clock._replace(digest=b""))]]), BOB)
    assert (suggested.state, suggested.by_clock) == ("in_step", True)
    settled = state_of(found([[published, told(BOB, 1, by_clock)]]), BOB)
    assert (settled.state, settled.why) == ("diverged", "digest")


def test_a_stamp_and_a_digest_that_both_agree_are_in_step() -> None:
    replica = replica_of(ALICE)
    published = told(ALICE, 1, replica.change(b"first"))
    verdict = state_of(found([[published, told(BOB, 1, replica.state_by_clock())]]), BOB)
    assert (verdict.state, verdict.by_clock) == ("in_step", True)


def test_a_replica_that_names_its_version_and_claims_the_digest_of_another_has_diverged() -> None:
    replica = replica_of(ALICE)
    published = told(ALICE, 1, replica.change(b"first"))
    lie = replica.state()._replace(digest=sha256(b"other").digest())
    verdicts = found([[published, told(BOB, 1, lie)]])
    assert (state_of(verdicts, BOB).state, state_of(verdicts, BOB).why) == ("diverged", "digest")
    assert [(one.author, one.why) for one in verdicts if isinstance(one, BadUpdate)] == [(BOB.hex(), "digest")]


# Order and time


def test_what_is_read_ahead_of_the_clock_waits_so_that_no_replica_looks_ahead() -> None:
    replica = replica_of(ALICE)
    first, second = replica.change(b"first"), replica.state()
    fold = ClocksFold(clocks_config())
    machines = {key: fold.open(key, None, {}) for key in fold.all_keys()}

    def absorb(copy: Copy | None, clock_ms: int) -> list[Verdict]:
        arrivals = Arrivals([Arrival(*copy)] if copy else [], [])
        routed = dict(fold.route(arrivals))
        messages = [
            m for key, one in machines.items() for m in one.absorb([routed.get(key, b"\x90")], clock_ms).messages
        ]
        return [decode_verdict(message.value or b"") for message in messages]

    assert absorb(told(BOB, 1, second, time_ms=START_MS + 10), START_MS) == []
    (alone,) = absorb(told(ALICE, 1, first, time_ms=START_MS + 5), START_MS + 5)
    assert state_of([alone], ALICE).state == "in_step"
    assert state_of(absorb(None, START_MS + 10), BOB).state == "in_step"


def test_an_update_whose_past_comes_later_is_judged_then() -> None:
    updates = chain(ALICE, 3)
    copies = [told(ALICE, index, update) for index, update in enumerate(updates, start=1)]
    early = state_of(found([[copies[2]]]), ALICE)
    assert (early.state, early.extra, early.events) == ("ahead", 1, 0)
    whole = state_of(found([[copies[2]], [copies[1]], [copies[0]]]), ALICE)
    assert (whole.state, whole.events, whole.index) == ("in_step", 3, 3)


def test_an_earlier_copy_of_an_event_moves_the_time_since_when_others_lack_it() -> None:
    first, second = chain(ALICE, 2)
    start, later = told(ALICE, 1, first, time_ms=START_MS + 100), told(ALICE, 2, second, time_ms=START_MS + 900)
    behind = told(BOB, 1, Update(NAME, (event_id(SWARM, ALICE, first),)), time_ms=START_MS + 950)
    verdict = state_of(found([[start, later, behind]]), BOB)
    assert (verdict.state, verdict.lacks, verdict.since_ms) == ("behind", 1, START_MS + 900)
    earlier = later._replace(time_ms=START_MS + 500)
    assert state_of(found([[start, later, behind], [earlier]]), BOB).since_ms == START_MS + 500


def test_a_long_history_is_kept_in_chunks_of_which_a_batch_writes_the_last() -> None:
    updates = chain(ALICE, 3 * CHUNK_EVENTS + 5)
    batches = [[told(ALICE, at, update)] for at, update in enumerate(updates, start=1)]
    run = run_clocks(batches)
    assert run.verdicts == Oracle([copy for batch in batches for copy in batch]).verdicts()
    (archive,) = [archive for archive in run.archives.values() if archive]
    sizes = {name: len(value) for name, value in archive.items()}
    assert [name[:1] for name in sorted(sizes)] == [b"C"] * 4 + [b"E"]


def test_a_batch_writes_the_chunks_that_it_changed_and_no_others() -> None:
    updates = chain(ALICE, 3 * CHUNK_EVENTS)
    copies = [told(ALICE, at, update, time_ms=START_MS + at) for at, update in enumerate(updates, start=1)]
    fold, archive = ClocksFold(clocks_config()), Writes()
    ((key, _), *_) = fold.route(Arrivals([Arrival(*copy) for copy in copies[:-1]], []))
    machine = fold.open(key, None, archive)

    def written(*batch: Copy) -> list[int]:
        archive.names.clear()
        machine.absorb([p for _, p in fold.route(Arrivals([Arrival(*copy) for copy in batch], []))], START_MS + 1_000)
        return sorted(int.from_bytes(name[1:5]) for name in archive.names if name.startswith(b"C"))

    assert written(*copies[:-1]) == [0, 1, 2]
    assert written(copies[-1]) == [2]
    assert written(copies[70]) == []
    assert written(copies[70]._replace(time_ms=START_MS)) == [1]


class Writes(dict[bytes, bytes]):
    """An archive that notes the names of what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[bytes] = set()

    def __setitem__(self, name: bytes, value: bytes) -> None:
        self.names.add(name)
        super().__setitem__(name, value)


# Hostile peers


def test_an_update_that_names_what_nobody_published_is_no_accusation_of_anybody_else() -> None:
    replica = replica_of(ALICE)
    published = told(ALICE, 1, replica.change(b"first"))
    secret = Update(NAME, (sha256(b"never").digest(),), b"builds on nothing")
    verdicts = found([[published, told(BOB, 1, secret)]])
    assert (state_of(verdicts, ALICE).state, state_of(verdicts, BOB).state) == ("in_step", "ahead")
    assert len(verdicts) == 2


def test_a_peer_that_invents_parents_fills_its_own_places_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state.entitylog.PENDING_MAX", 5)
    invented = [Update(NAME, (sha256(b"%d" % at).digest(),), b"x") for at in range(9)]
    replica = replica_of(ALICE)
    honest = [told(ALICE, 1, replica.change(b"first")), told(ALICE, 2, replica.change(b"second"))]
    run = [[told(BOB, 1, *invented)], [honest[1]], [honest[0]]]
    verdicts = found(run)
    (limit,) = [one for one in verdicts if isinstance(one, Limit)]
    assert (limit.author, limit.limit) == (BOB.hex(), "pending_updates")
    assert state_of(verdicts, ALICE).state == "in_step"


@pytest.mark.parametrize("restart", [False, True])
def test_an_entity_that_is_full_takes_no_more_events_and_says_whose_was_left_out(
    monkeypatch: pytest.MonkeyPatch, *, restart: bool
) -> None:
    monkeypatch.setattr("state.entity.EVENTS_MAX", 3)
    copies = [told(ALICE, at, update) for at, update in enumerate(chain(ALICE, 5), start=1)]
    verdicts = found([[copy] for copy in copies], reopen=restart)
    (limit,) = [one for one in verdicts if isinstance(one, Limit)]
    assert (limit.author, limit.limit) == (ALICE.hex(), "events")
    assert state_of(verdicts, ALICE).events == 3


@pytest.mark.parametrize(
    "stamp", [b"", encode_clock(Clock.zero(PARAMETERS)), encode_clock(Clock.zero(PARAMETERS))[:-1]]
)
def test_an_event_beyond_a_limit_with_any_stamp_stops_nobody(monkeypatch: pytest.MonkeyPatch, stamp: bytes) -> None:
    monkeypatch.setattr("state.entity.EVENTS_MAX", 1)
    first, beyond = chain(ALICE, 2)
    verdicts = found(
        [[told(ALICE, 1, first), told(ALICE, 2, beyond._replace(stamp=stamp)), told(BOB, 1, Update(NAME))]]
    )
    assert state_of(verdicts, ALICE).index == 2
    assert state_of(verdicts, BOB).state == "behind"
    assert [one.limit for one in verdicts if isinstance(one, Limit)] == ["events"]


def test_a_malformed_update_is_told_and_nothing_else_of_it_is_used() -> None:
    from state import wire_pb2

    op = wire_pb2.Op(update=wire_pb2.Update(entity=b"")).SerializeToString()
    copy = told(ALICE, 1)
    verdicts = found([[copy._replace(segment=copy.segment._replace(ops=(op,)))]])
    (verdict,) = verdicts
    assert isinstance(verdict, BadUpdate)
    assert (verdict.why, verdict.entity, verdict.claimed) == ("malformed", "", "entity: want 1 to 64 bytes, got 0")


@pytest.mark.parametrize("stamp", [b"\x01", b"\xff" * 40, encode_clock(Clock.zero(PARAMETERS))[:-1]])
def test_a_stamp_that_is_none_is_malformed_also_if_the_parents_never_come(stamp: bytes) -> None:
    parents = (sha256(b"never").digest(),)
    for update in (Update(NAME, (), b"x", stamp), Update(NAME, (), None, stamp), Update(NAME, parents, b"x", stamp)):
        bad = [one for one in found([[told(ALICE, 1, update)]]) if isinstance(one, BadUpdate)]
        assert [one.why for one in bad] == ["malformed"]


def test_many_entities_stand_in_the_archive_and_not_in_the_blob() -> None:
    fold = ClocksFold(clocks_config())
    updates = [Update(b"entity %d" % at, (), b"x") for at in range(800)]
    copies = [told(ALICE, 1 + at // 100, *updates[at : at + 100]) for at in range(0, 800, 100)]
    routed = list(fold.route(Arrivals([Arrival(*copy) for copy in copies], [])))
    assert len(routed) == SHARDS
    for key, payload in routed:
        archive: dict[bytes, bytes] = {}
        machine = fold.open(key, None, archive)
        machine.absorb([payload], START_MS)
        assert len(decode_told(payload)) == machine.state.entities > 50
        assert len(machine.pack()) < 60
        assert len(archive) == 2 * machine.state.entities


SHAPES = {
    "a chain": lambda ids, at: ids[max(0, at - 1) : at],
    "pairs": lambda ids, at: sorted(ids[max(0, at - 2) : at]),
    "joins of many": lambda ids, at: sorted(ids[max(0, at - 16) : at]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("counters", [1_024, 8_192])
def test_an_entity_takes_as_much_memory_as_it_is_said_to_take(shape: str, counters: int) -> None:
    """Events with many parents keep a version each: a peer could fill a machine with them, if they were not counted."""
    ids = [sha256(b"%d" % at).digest() for at in range(800)]
    places = [Told(START_MS, ids[0], 0, ALICE, 1, NAME, event) for event in ids]
    gc.collect()
    tracemalloc.start()
    log = EntityLog(NAME, Parameters(counters, 2), {}, EntityStore({}))
    for at, place in enumerate(places):
        log.take(msgspec.structs.replace(place, parents=b"".join(SHAPES[shape](ids, at))))
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(log) == len(ids)
    assert 0.7 < taken / log.memory_bytes < 1.3, (taken, log.memory_bytes)


def test_a_batch_that_touches_many_entities_has_no_more_of_them_in_memory_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fold = ClocksFold(clocks_config())
    copies = [told(ALICE, at, Update(b"entity %d" % at, (), b"x")) for at in range(1, 200)]
    ((key, payload), *_) = fold.route(Arrivals([Arrival(*copy) for copy in copies], []))
    machine, taken = fold.open(key, None, {}), []
    monkeypatch.setattr(EntityLog, "faults", lambda _log: taken.append(list(machine._open)) or [])
    machine.memory_bytes_max = 3 * EntityLog(NAME, PARAMETERS, {}, EntityStore({})).memory_bytes
    machine.absorb([payload], START_MS)
    assert machine.state.entities == len(taken) > 10
    assert max(map(len, taken)) <= 3
    assert len(machine._open) == 2


def test_the_change_itself_does_not_travel_and_its_event_stands_for_it() -> None:
    update = Update(NAME, (), b"x" * 5_000)
    (one,) = tell(Arrival(*told(ALICE, 1, update)))
    assert one.event == event_id(SWARM, ALICE, update)
    assert (
        b"x" * 10
        not in next(iter(ClocksFold(clocks_config()).route(Arrivals([Arrival(*told(ALICE, 1, update))], []))))[1]
    )
