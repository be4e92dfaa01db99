"""The audit of a checkpoint: a sound one passes, each kind of damage is found, and no right verdict is doubted."""

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from producers.scenarios import SCENARIOS
from producers.simulation import Record
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.fold import Arrivals, Fold
from state.folds import make_folds
from streaming.broker import Broker
from streaming.checkpoint import open_label
from streaming.fsck import audit_key
from streaming.host import Stored
from streaming.plain import PlainHost
from streaming.queries import QUERIES
from tests.commandlab import quorumscope, sentence
from tests.storylab import watched
from tests.topiclab import DEADLINE_S, Lab

LONG = Settings(duration_ms=90_000, horizon="6s")
"""Long enough for noops to leave the matrix."""


class Kept(NamedTuple):
    """What is kept for one key, as a checkpoint has it."""

    fold: Fold
    key: bytes
    stored: Stored
    archive: dict[bytes, bytes]

    def problems(self, **changes: Any) -> list[str]:
        """What an audit finds, where the stored row is changed."""
        return audit_key(self.fold, self.key, self.stored._replace(**changes), self.archive).problems

    def with_archive(self, archive: dict[bytes, bytes]) -> "Kept":
        """With another archive, as if it had been counted so."""
        size = sum(map(len, archive.values()))
        stored = self.stored._replace(archive_entries=len(archive), archive_bytes=size)
        return self._replace(archive=archive, stored=stored)


@cache
def kept_of(name: str) -> list[Kept]:
    """The states of all keys near the end of a scenario: something waits for the clock, and a tick for another one."""
    run = watched(name, LONG)
    config = run.simulation.config
    reports = [report for moment in run.moments for report in moment.reports]
    found = []
    for query in QUERIES.values():
        host, folds = PlainHost(query, config), make_folds(query.folds, config)
        for at in range(0, len(run.arrivals), 50):
            part = run.arrivals[at : at + 50]
            list(
                host.absorb(
                    Arrivals(part, []) if query.name == "segments" else Arrivals([], []), part[-1].time_ms - 12_000
                )
            )
        if query.name == "matrix":
            list(host.absorb(Arrivals([], [], [*reports[:-2], reports[-1]]), 0))
        for (fold, key), machine in host.machines.items():
            stored = Stored(folds[fold].version, b"", machine.pack(), "", 0, 0)
            kept = Kept(folds[fold], key, stored, {}).with_archive(host.archives[fold, key])
            if kept.archive or machine.check_invariants() == []:
                found.append(kept)
    return found


STORIES = ["whole-story", "withheld-story", "diverging-replicas", "gone-for-good"]


@pytest.mark.parametrize("name", STORIES)
def test_what_the_folds_keep_is_sound(name: str) -> None:
    assert [kept.problems() for kept in kept_of(name) if kept.problems()] == []


def test_the_states_that_are_looked_at_have_entries_of_every_kind() -> None:
    kinds = {(kept.fold.name, entry[:1]) for name in STORIES for kept in kept_of(name) for entry in kept.archive}
    letters = {
        name: b"".join(sorted(letter for fold, letter in kinds if fold == name)) for name in ("columns", "clocks")
    }
    assert letters == {"columns": b"BELOW", "clocks": b"CEW"}
    assert {"logs", "splits"} <= {fold for fold, _ in kinds}


@pytest.mark.parametrize("name", STORIES)
def test_every_entry_that_is_lost_is_missed(name: str) -> None:
    for kept in kept_of(name):
        for entry in sorted(kept.archive)[:: max(1, len(kept.archive) // 10)]:
            rest = {other: value for other, value in kept.archive.items() if other != entry}
            assert kept.with_archive(rest).problems(), (kept.fold.name, entry)


@pytest.mark.parametrize("name", STORIES)
def test_every_entry_that_nothing_refers_to_is_found(name: str) -> None:
    for kept in kept_of(name):
        for orphan in (b"orphan", *[entry + b"x" for entry in sorted(kept.archive)[:3]]):
            found = kept.with_archive({**kept.archive, orphan: b"left behind"}).problems()
            assert found, (kept.fold.name, orphan)


def test_what_is_stored_is_held_against_what_is_there() -> None:
    kept = next(one for one in kept_of("whole-story") if one.fold.name == "columns")
    assert kept.problems(version=99) == [f"it is of version 99, and this program reads version {kept.fold.version}"]
    assert kept.problems(error="ValueError: a bug") == ["it is in quarantine: ValueError: a bug"]
    counted = kept.problems(archive_bytes=kept.stored.archive_bytes + 1)
    assert [re.sub(r"[0-9]+", "N", problem) for problem in counted] == [
        "the archive should hold N entries of N bytes, and holds N of N"
    ]


@pytest.mark.parametrize("damage", [b"", b"\xc1", b"garbage"], ids=repr)
def test_a_damaged_blob_is_a_problem_in_words_and_stops_nothing(damage: bytes) -> None:
    for kept in kept_of("whole-story"):
        (problem,) = kept.problems(blob=damage)[-1:]
        assert problem.startswith("it cannot be read: "), (kept.fold.name, problem)


class Judged:
    """A topic with a run on it, some of it twice and some garbage, that a live job has judged."""

    def __init__(self, broker: Broker, spark: Any, folder: Path) -> None:
        simulation = SCENARIOS["whole-story"].run(Settings(seed=4))
        self.lab = Lab(broker, spark, folder, simulation.config)
        (folder / "swarms.yaml").write_text(config_yaml(simulation.config))
        self.checkpoint = folder / self.lab.prefix
        records = list(simulation.records)
        records += [record._replace(time_ms=record.time_ms + 60_000) for record in records[::9]]
        records += [Record(records[-1].time_ms, b"key", b"garbage")] * 7
        self.lab.publish(records)
        self.checkpoint.mkdir()
        open_label(self.checkpoint, None, 2, simulation.config)
        self.lab.run_all(100)
        self.swarms = folder / "swarms.yaml"
        self.records = len(records)

    def fsck(self, *more: str) -> Any:
        options: dict[str, str | Path] = {
            "--swarms": self.swarms,
            "--checkpoint": self.checkpoint,
            "--bootstrap": self.lab.connection.bootstrap,
            "--prefix": self.lab.prefix,
            "--master": "local[2]",
        }
        return quorumscope("fsck", *(part for option in options.items() for part in option), *more)

    def write_verdict(self, key: bytes, value: bytes | None) -> None:
        producer = Producer(self.lab.connection.librdkafka())
        producer.produce(self.lab.topic("verdicts"), value, key)
        assert producer.flush(DEADLINE_S) == 0


@pytest.fixture(scope="module")
def judged(broker: Broker, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return Judged(broker, spark, tmp_path_factory.mktemp("fsck"))


@pytest.mark.spark
@pytest.mark.kafka
def test_of_a_sound_checkpoint_everything_is_found_to_be_right(judged: Judged) -> None:
    done = judged.fsck()
    assert done.returncode == 0, (done.stdout, done.stderr)
    verdicts = judged.lab.verdicts()
    assert f"verdicts: {len(verdicts):,} compared, 0 differ\n" in done.stdout
    assert f"judging {judged.records:,} records of" in done.stdout
    assert re.search(r"segments: state after batch \d+: [1-9]\d* keys, [1-9]\d* entries", done.stdout)
    assert re.search(r"matrix: state after batch \d+: 1 keys", done.stdout)
    assert "no problem was found" in done.stdout


@pytest.mark.spark
@pytest.mark.kafka
def test_a_verdict_that_is_lost_and_one_that_is_false_are_told_in_words(judged: Judged) -> None:
    verdicts = judged.lab.verdicts()
    lost = next(key for key in verdicts if key.startswith(b"equivocation/"))
    false = next(key for key in verdicts if key.startswith(b"accepted/"))
    judged.write_verdict(lost, None)
    judged.write_verdict(false, verdicts[false].replace(b'"tolerates":', b'"tolerates":9'))
    try:
        done = judged.fsck()
    finally:
        judged.write_verdict(lost, verdicts[lost])
        judged.write_verdict(false, verdicts[false])
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "only the audit says: " in done.stdout
    assert f"({lost.decode()})" in done.stdout
    assert f"but not with the same facts ({false.decode()}): tolerates" in done.stdout
    assert "problems: 2" in done.stdout


@pytest.mark.spark
@pytest.mark.kafka
def test_a_range_is_judged_alone_and_states_that_are_none_are_refused(judged: Judged, tmp_path: Path) -> None:
    done = judged.fsck("--from", "2026-01-01T00:00:10Z", "--to", "2026-01-01T00:00:40Z")
    assert done.returncode == 0, (done.stdout, done.stderr)
    match = re.search(r"verdicts: ([0-9,]+) compared, 0 differ; [0-9,]+ that depend on more", done.stdout)
    assert match
    assert int(match[1]) > 100
    assert "is no checkpoint of quorumscope" in sentence(judged.fsck("--checkpoint", str(tmp_path / "none")), 2)
