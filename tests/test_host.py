"""The fold host: a fold's bug stops one key and nothing else, and what is kept in memory never shows."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.scenarios import SCENARIOS
from producers.swarm import Settings
from state.config import Config
from state.fold import Archive, Arrival, Arrivals, Fold, Machine, Message, Outcome, Tally, Topic
from state.folds import FOLDS, make_folds
from state.logs import LogsFold
from state.report import Report, decode_report
from state.segment import Segment, judge
from state.verdict import AnyVerdict, Quarantine, decode_verdict
from streaming import host
from streaming.archive import StoreError
from streaming.broker import Broker
from streaming.host import INVARIANT_TALLY, LEVELS, QUARANTINE_TALLY, BlobVersionError, KeyHost, Stored, Visit
from streaming.queries import Query
from tests.loglab import GRACE_MS, START_MS, Copy, histories, lab_config
from tests.simlab import simulated
from tests.topiclab import Lab, tallied

BAD = b"bad"
FORGET = b"-"
"""Before a payload: what was counted of it leaves the archive."""
KEY = b"\1\2"


class Note(msgspec.Struct, array_like=True):
    count: int = 0
    clock_ms: int = -1


class NotebookFold:
    """Counts payloads: in all in its blob, each by itself in the archive, until it is told to forget one.

    Says what it counted.
    """

    name = "notebook"
    tallies = ("noted",)

    def __init__(self, version: int = 1) -> None:
        self.version = version

    def all_keys(self) -> Iterable[bytes]:
        return ()

    def route(self, arrivals: Arrivals) -> Iterator[tuple[bytes, bytes]]:
        for segment, _ in arrivals.verified:
            yield segment.head.author[:1], BAD if segment.head.index == 5 else segment.id
            if segment.head.index == 2:
                yield segment.head.author[:1], FORGET + segment.id
                yield segment.head.author[:1], FORGET + b"what never was"

    def open(self, key: bytes, blob: bytes | None, archive: Archive) -> Machine:
        del key  # all keys are alike
        return Notebook(Note() if blob is None else msgspec.msgpack.decode(blob, type=Note), archive)


class Notebook:
    def __init__(self, note: Note, archive: Archive) -> None:
        self.note = note
        self.archive = archive

    def absorb(self, payloads: Iterable[bytes], clock_ms: int) -> Outcome:
        messages = []
        self.note.clock_ms = max(self.note.clock_ms, clock_ms)
        for payload in payloads:
            self.note.count += 1
            times = int(self.archive.get(payload, b"0")) + 1
            if payload.startswith(FORGET):
                self.archive.pop(payload.removeprefix(FORGET), None)
            else:
                self.archive[payload] = b"%d" % times
            if payload == BAD:  # after both have been changed, so that a half-done job would show
                raise ZeroDivisionError("a bug of the fold")
            messages.append(Message(Topic.VERDICTS, payload, b"%d of %d" % (times, self.note.count)))
        return Outcome(messages, [Tally("noted", len(messages))])

    def pack(self) -> bytes:
        return msgspec.msgpack.encode(self.note)

    def check_invariants(self) -> list[str]:
        return ["thirteen brings bad luck"] if self.note.count == 13 else []


class Disk:
    """What Spark keeps of one key: the stored state and the archive. An attempt works on a copy."""

    def __init__(self) -> None:
        self.stored: Stored | None = None
        self.archive: dict[bytes, bytes] = {}

    def get(self, name: bytes) -> bytes | None:
        return self.archive.get(name)

    def put(self, name: bytes, value: bytes) -> None:
        self.archive[name] = value

    def remove(self, name: bytes) -> None:
        """As Spark's map state: what is written and deleted in one batch never was there."""
        self.archive.pop(name, None)

    def attempt(self, fold: Fold, payloads: list[bytes], clock_ms: int, key: bytes = KEY) -> tuple[Visit, "Disk"]:
        """Visit the key; gives what it says, and the disk as it would be if this attempt counts."""
        after = Disk()
        after.stored, after.archive = self.stored, dict(self.archive)
        visit = KeyHost(fold, key, "digest").visit(self.stored, after, payloads, clock_ms)
        after.stored = visit.stored or self.stored
        return visit, after

    def visit(self, fold: Fold, payloads: list[bytes], clock_ms: int = 0, key: bytes = KEY) -> Visit:
        visit, after = self.attempt(fold, payloads, clock_ms, key)
        self.stored, self.archive = after.stored, after.archive
        return visit


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    host._cache.clear()


def forget_machines() -> None:
    """As if the worker had been started again."""
    host._cache.clear()


def said(visit: Visit) -> list[tuple[bytes, bytes | None]]:
    return [(message.key, message.value) for message in visit.outcome.messages]


def note_of(disk: Disk) -> Note:
    assert disk.stored is not None
    return msgspec.msgpack.decode(disk.stored.blob, type=Note)


def verdict_of(message: Message) -> AnyVerdict:
    assert message.value is not None
    return decode_verdict(message.value)


def test_a_key_is_absorbed_and_its_state_is_stored() -> None:
    disk = Disk()
    assert said(disk.visit(NotebookFold(), [b"a", b"b"])) == [(b"a", b"1 of 1"), (b"b", b"1 of 2")]
    assert said(disk.visit(NotebookFold(), [b"a"])) == [(b"a", b"2 of 3")]
    assert disk.archive == {b"a": b"2", b"b": b"1"}
    assert disk.stored is not None
    assert (disk.stored.version, disk.stored.error) == (1, "")
    assert note_of(disk).count == 3


@pytest.mark.parametrize("is_cached", [True, False])
def test_what_a_fold_deletes_from_its_archive_is_gone_from_the_store(is_cached: bool) -> None:
    disk = Disk()
    disk.visit(NotebookFold(), [b"a", b"a", b"b"])
    if not is_cached:
        forget_machines()
    disk.visit(NotebookFold(), [FORGET + b"a"])
    assert disk.archive == {b"b": b"1"}
    if not is_cached:
        forget_machines()
    assert said(disk.visit(NotebookFold(), [b"a"])) == [(b"a", b"1 of 5")]


def test_what_a_fold_deletes_before_it_fails_stays() -> None:
    disk = Disk()
    disk.visit(NotebookFold(), [b"a"])
    disk.visit(NotebookFold(), [FORGET + b"a", BAD])
    assert disk.archive == {b"a": b"1"}


def test_a_fold_that_raises_is_quarantined_with_a_verdict_and_its_input_in_the_dead_letters() -> None:
    disk = Disk()
    disk.visit(NotebookFold(), [b"a"])
    visit = disk.visit(NotebookFold(), [b"b", BAD, b"c"])
    *letters, verdict = visit.outcome.messages
    assert [(letter.topic, letter.value) for letter in letters] == [(Topic.REJECTED, p) for p in (b"b", BAD, b"c")]
    assert len({letter.key for letter in letters}) == 3
    headers = {"reason": b"quarantined", "fold": b"notebook", "fold_key": KEY.hex().encode()}
    assert all(dict(letter.headers) == headers for letter in letters)
    assert verdict.topic == Topic.VERDICTS
    assert verdict_of(verdict) == Quarantine(
        key=f"quarantine/notebook/{KEY.hex()}",
        swarm="",
        config="digest",
        fold="notebook",
        fold_key=KEY.hex(),
        error="ZeroDivisionError: a bug of the fold",
    )
    assert verdict.key.decode() == verdict_of(verdict).key
    assert visit.outcome.tallies == [Tally(QUARANTINE_TALLY, 1)]


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_quarantined_key_keeps_its_state_and_archive_as_they_were(is_cached: bool) -> None:
    disk = Disk()
    disk.visit(NotebookFold(), [b"a"])
    before, archive = disk.stored, dict(disk.archive)
    if not is_cached:
        forget_machines()
    disk.visit(NotebookFold(), [b"b", BAD, b"c"])
    assert before is not None
    assert disk.stored == before._replace(error="ZeroDivisionError: a bug of the fold")
    assert disk.archive == archive


@pytest.mark.parametrize("is_cached", [True, False])
def test_what_comes_later_for_a_quarantined_key_goes_to_the_dead_letters(is_cached: bool) -> None:
    disk = Disk()
    disk.visit(NotebookFold(), [BAD])
    if not is_cached:
        forget_machines()
    before, archive = disk.stored, dict(disk.archive)
    visit = disk.visit(NotebookFold(), [b"later", b"still later"])
    assert [(m.topic, m.value) for m in visit.outcome.messages] == [
        (Topic.REJECTED, b"later"),
        (Topic.REJECTED, b"still later"),
    ]
    assert visit.stored is None
    assert visit.outcome.tallies == []
    assert (disk.stored, disk.archive) == (before, archive)
    assert disk.visit(NotebookFold(), [], clock_ms=99).outcome.messages == []


def test_other_keys_of_a_fold_go_on_when_one_is_quarantined() -> None:
    disks: dict[bytes, Disk] = defaultdict(Disk)
    for key, payload in ((b"1", b"a"), (b"2", BAD), (b"1", b"a"), (b"2", b"a"), (b"3", b"a")):
        disks[key].visit(NotebookFold(), [payload], key=key)
    assert {key: disk.archive for key, disk in disks.items()} == {b"1": {b"a": b"2"}, b"2": {}, b"3": {b"a": b"1"}}
    assert {key for key, disk in disks.items() if disk.stored and disk.stored.error} == {b"2"}


def test_a_blob_that_cannot_be_opened_is_quarantined_too() -> None:
    disk = Disk()
    disk.stored = Stored(1, b"lineage", b"no note", "", 0, 0)
    verdict = disk.visit(NotebookFold(), [b"a"]).outcome.messages[-1]
    assert isinstance(verdict_of(verdict), Quarantine)
    assert disk.stored.blob == b"no note"


@pytest.mark.parametrize("broken", ["get", "put", "remove"])
def test_a_store_that_fails_is_not_the_folds_fault_and_the_batch_can_be_tried_again(broken: str) -> None:
    def fail(*_: bytes) -> None:
        raise OSError("the state server has gone")

    disk = Disk()
    disk.visit(NotebookFold(), [b"a"])
    failing = Disk()
    failing.archive = dict(disk.archive)
    setattr(failing, broken, fail)
    with pytest.raises(StoreError, match="the state server has gone"):
        KeyHost(NotebookFold(), KEY, "digest").visit(disk.stored, failing, [b"a", b"b", FORGET + b"a"], 0)
    assert said(disk.visit(NotebookFold(), [b"a"])) == [(b"a", b"2 of 2")]


@pytest.mark.parametrize("version", [0, 2])
def test_a_blob_of_another_version_is_refused_in_words_and_nothing_is_changed(version: int) -> None:
    disk = Disk()
    disk.visit(NotebookFold(version), [b"a"])
    before, archive = disk.stored, dict(disk.archive)
    words = f"holds version {version} of the fold 'notebook', this program reads version 1: start with a new checkpoint"
    with pytest.raises(BlobVersionError, match=words):
        disk.visit(NotebookFold(), [b"a"])
    assert (disk.stored, disk.archive) == (before, archive)


def test_a_visit_that_brings_only_the_clock_stores_nothing() -> None:
    disk = Disk()
    disk.visit(NotebookFold(), [b"a"])
    before, archive = disk.stored, dict(disk.archive)
    assert disk.visit(NotebookFold(), [], clock_ms=5).stored is None
    forget_machines()
    assert disk.visit(NotebookFold(), [], clock_ms=6).stored is None
    assert (disk.stored, disk.archive) == (before, archive)


def test_broken_invariants_are_counted_and_stop_nothing() -> None:
    disk = Disk()
    disk.visit(NotebookFold(), [b"a"] * 12)
    visit = disk.visit(NotebookFold(), [b"a"])
    assert Tally(INVARIANT_TALLY, 1) in visit.outcome.tallies
    assert said(disk.visit(NotebookFold(), [b"a"])) == [(b"a", b"14 of 14")]


def test_a_machine_is_not_used_for_another_configuration() -> None:
    opened = []

    class Watched(NotebookFold):
        def open(self, key: bytes, blob: bytes | None, archive: Archive) -> Machine:
            opened.append(key)
            return super().open(key, blob, archive)

    disk = Disk()
    for config, opens in (("one", 1), ("one", 1), ("other", 2)):
        visit = KeyHost(Watched(), KEY, config).visit(disk.stored, disk, [b"a"], 0)
        disk.stored = visit.stored
        assert len(opened) == opens


def test_the_cache_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_CACHED_MAX", 4)
    disks: dict[int, Disk] = defaultdict(Disk)
    for _ in range(2):
        for number in range(11):
            disks[number].visit(NotebookFold(), [b"a"], key=bytes([number]))
            assert len(host._cache) <= 4
    assert {disk.archive[b"a"] for disk in disks.values()} == {b"2"}


def test_a_key_that_was_never_stored_starts_anew_in_another_run() -> None:
    """One worker serves several runs, and what is not stored must not pass from one to the next: its clock, here."""
    Disk().visit(NotebookFold(), [], clock_ms=1000)
    other = Disk()
    other.visit(NotebookFold(), [b"a"], clock_ms=5)
    assert note_of(other).clock_ms == 5


class Step(NamedTuple):
    """A batch of one key: attempts with it, and with other input, that were lost, and then one that counts."""

    payloads: list[bytes]
    lost: list[list[bytes]]
    clock_by_ms: int
    is_restarted: bool


payload_lists = st.lists(st.sampled_from([b"a", b"b", b"c", FORGET + b"a", FORGET + b"b"]), max_size=4)
failing_lists = st.lists(st.sampled_from([b"a", b"b", FORGET + b"a", BAD]), max_size=4)
steps = st.lists(
    st.builds(
        Step,
        payload_lists,
        st.lists(st.one_of(payload_lists, failing_lists), max_size=2),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=10,
)


def without_reopening(visit: Visit) -> Visit:
    """What a visit gives but for the count of machines that were unpacked again, which tells of nothing else."""
    tallies = [tally for tally in visit.outcome.tallies if tally.name != host.REOPENED_TALLY]
    return visit._replace(outcome=visit.outcome._replace(tallies=tallies))


@settings(max_examples=500, deadline=None)
@given(steps)
def test_attempts_that_were_lost_and_workers_that_were_restarted_do_not_show(batches: list[Step]) -> None:
    forget_machines()
    fold, disk, plain = NotebookFold(), Disk(), Disk()
    clock_ms = 0
    for step in batches:
        clock_ms += step.clock_by_ms
        for payloads in [*step.lost, step.payloads] if step.lost else []:
            disk.attempt(fold, payloads, clock_ms)
        if step.is_restarted:
            forget_machines()
        got = disk.visit(fold, step.payloads, clock_ms)
        kept = dict(host._cache)
        forget_machines()
        want = plain.visit(fold, step.payloads, clock_ms)
        host._cache.clear()
        host._cache.update(kept)
        assert without_reopening(got) == without_reopening(want)
        assert (disk.stored, disk.archive) == (plain.stored, plain.archive)


@settings(max_examples=200, deadline=None)
@given(histories(), st.data())
def test_the_logs_fold_says_the_same_with_and_without_the_cache(copies: list[Copy], data: st.DataObject) -> None:
    forget_machines()
    fold = LogsFold(lab_config())
    cached: dict[bytes, Disk] = defaultdict(Disk)
    plain: dict[bytes, Disk] = defaultdict(Disk)
    clock_ms = 0
    while copies:
        size = data.draw(st.integers(1, len(copies)))
        batch, copies = copies[:size], copies[size:]
        clock_ms = max(clock_ms, data.draw(st.integers(START_MS, START_MS + 6 * GRACE_MS)))
        is_lost = data.draw(st.booleans())
        payloads = defaultdict(list)
        for key, payload in fold.route(Arrivals([Arrival(*copy) for copy in batch], [])):
            payloads[key].append(payload)
        for key in fold.all_keys():
            if is_lost:
                cached[key].attempt(fold, payloads[key], clock_ms, key)
            got = cached[key].visit(fold, payloads[key], clock_ms, key)
            kept = dict(host._cache)
            forget_machines()
            want = plain[key].visit(fold, payloads[key], clock_ms, key)
            host._cache.clear()
            host._cache.update(kept)
            assert said(got) == said(want)
            assert cached[key].archive == plain[key].archive


def kept(disk: Disk) -> list[Tally]:
    """How much is kept for a key, by counting all of it."""
    assert disk.stored is not None
    sizes = [len(disk.stored.blob), *map(len, disk.archive.values())]
    return [Tally(name, level) for name, level in zip(LEVELS, (len(sizes), sum(sizes), sizes[0]), strict=True)]


LONG = Settings(peers=8, duration_ms=100_000, ops=1)
"""Long enough for spans to close and noops to leave the matrix, so that entries come and go."""


@pytest.mark.parametrize(
    "name",
    ["withheld-story", *(pytest.param(name, marks=pytest.mark.slow) for name in ("whole-story", "lying-peer"))],
)
def test_what_the_host_counts_is_what_stands_in_the_store(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when workers start again, segments come twice and late, and reports of a tick come in different batches."""
    monkeypatch.setattr("state.logs.BLOB_BYTES_TARGET", 20_000)
    chance, simulation = Random(1), simulated(name, LONG)
    config = Config(tuple(msgspec.structs.replace(swarm, blocks=2) for swarm in simulation.config.swarms))
    coming = [
        Arrival(segment, record.time_ms)
        for record in simulation.records
        if isinstance(segment := judge(record.value, config.authors), Segment)
    ]
    coming += chance.sample(coming, len(coming) // 4)
    folds = make_folds(("logs", "columns", "clocks", "splits"), config)
    disks: dict[tuple[str, bytes], Disk] = defaultdict(Disk)
    entries_max: Counter[str] = Counter()
    reports: list[Report] = []
    clock_ms = 0
    while coming or reports:
        size, cut = chance.randint(1, 60), chance.randint(0, len(reports)) if coming else len(reports)
        arrivals = Arrivals(coming[:size], [], reports[:cut])
        coming, reports = coming[size:], reports[cut:]
        clock_ms = max([clock_ms, *(arrival.time_ms for arrival in arrivals.verified)])
        for fold in folds.values():
            payloads = defaultdict(list)
            for key, payload in fold.route(arrivals):
                payloads[key].append(payload)
            for key in fold.all_keys():
                if chance.random() < 0.3:
                    forget_machines()
                disk = disks[fold.name, key]
                visit = disk.visit(fold, payloads[key], clock_ms, key)
                reports += [decode_report(m.value or b"") for m in visit.outcome.messages if m.topic == Topic.MATRIX]
                if disk.stored is not None:
                    assert disk.stored.error == ""
                    assert disk.stored.levels() == kept(disk), fold.name
                    entries_max[fold.name] = max(entries_max[fold.name], len(disk.archive))
    at_work = [name for name in folds if name != "clocks" or simulation.truth.replicas]
    assert min(entries_max[name] for name in at_work) > 1


def test_what_a_quarantined_key_keeps_is_still_counted() -> None:
    disk = Disk()
    disk.visit(NotebookFold(), [b"a", b"b"])
    before = disk.stored
    disk.visit(NotebookFold(), [b"c", FORGET + b"a", BAD])
    assert before is not None
    assert disk.stored is not None
    assert disk.stored.levels() == before.levels() == kept(disk)


# On Spark. The workers are other processes: they get the test's fold with the name that they look it up by.


def registered(name: str) -> str:
    from state.folds import FOLDS

    FOLDS[name] = lambda _config: NotebookFold()
    return name


class Registered(str):
    """The name of a fold, which brings the fold along to wherever it is unpickled."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return registered, (str(self),)


@pytest.mark.spark
@pytest.mark.kafka
def test_on_spark_a_faulty_fold_stops_its_own_keys_and_no_other_fold(
    broker: Broker, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import cloudpickle

    monkeypatch.setitem(FOLDS, "notebook", lambda _config: NotebookFold())
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    simulation = SCENARIOS["lying-peer"].run(Settings())
    query = Query("faulty", Topic.SEGMENTS, ("rejected", "logs", Registered("notebook")))
    lab = Lab(broker, spark, tmp_path, simulation.config)
    try:
        lab.publish(simulation.records)
        progress = lab.run(offsets_max=200, query=query)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert len(progress) > 1
    found = [decode_verdict(value) for key, value in lab.verdicts().items() if b"/" in key]
    keys = {record.key[:1] for record in simulation.records}
    assert {v.fold_key for v in found if isinstance(v, Quarantine)} == {key.hex() for key in keys}
    assert {type(v).__name__ for v in found} == {"Quarantine", "Fork", "Equivocation"}
    letters = {letter.key: letter for letter in lab.rejected()}.values()
    assert {letter.headers["reason"] for letter in letters} == {b"quarantined"}
    assert {letter.headers["fold"] for letter in letters} == {b"notebook"}
    assert BAD in {letter.value for letter in letters}
    state = lab.state(query)
    assert state.errors.keys() == {("notebook", key) for key in keys}
    assert state.verified == simulation.truth.verified
    assert tallied(progress)[QUARANTINE_TALLY] == len(keys)
