"""`quorumscope replay` as an operator runs it, with a real broker and real Spark: the past gives the same answer."""

import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from producers.scenarios import SCENARIOS
from producers.simulation import Record, Simulation
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from streaming.bounds import time_text
from streaming.broker import Broker
from tests.commandlab import command, quorumscope, run_here, sentence
from tests.loglab import since_config
from tests.topiclab import DEADLINE_S, Lab, Written, compacted, differences, fold_alone, read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

OF_TICKS = {b"split", b"silent", b"one_way", b"undecidable"}
"""The kinds of verdicts that the second query gives."""


class Past:
    """A topic with a simulated run on it, some of it twice, some of it garbage, that a live job has judged."""

    def __init__(self, lab: Lab, folder: Path, simulation: Simulation) -> None:
        self.lab = lab
        self.folder = folder
        self.swarms = folder / "swarms.yaml"
        self.swarms.write_text(config_yaml(simulation.config))
        self.records = _with_copies_and_garbage(simulation.records)
        lab.publish(self.records)

    def arguments(self, name: str, *more: str | Path) -> list[str | Path]:
        """Of a replay into a prefix and a checkpoint of this name. Of options given twice the last one counts."""
        options: dict[str, str | Path] = {
            "--swarms": self.swarms,
            "--bootstrap": self.lab.connection.bootstrap,
            "--prefix": self.lab.prefix,
            "--into": self.into(name),
            "--checkpoint": self.folder / name,
            "--master": "local[2]",
        }
        return ["replay", *(part for option in options.items() for part in option), *more]

    def into(self, name: str) -> str:
        return f"{self.lab.prefix}-{name}"

    def verdicts(self, name: str) -> dict[bytes, bytes]:
        return compacted(read_topic(self.lab.connection, f"{self.into(name)}.verdicts"))


def _with_copies_and_garbage(records: Any) -> list[Record]:
    found: list[Record] = []
    for number, record in enumerate(records):
        found.append(record)
        if number % 20 == 0:
            found.append(record)
        if number % 50 == 0:
            found.append(record._replace(value=b"garbage"))
    return found


@pytest.fixture(scope="module")
def past(broker: Broker, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Past:
    simulation = SCENARIOS["whole-story"].run(Settings(seed=3, duration_ms=40_000))
    folder = tmp_path_factory.mktemp("replay")
    found = Past(Lab(broker, spark, folder, simulation.config), folder, simulation)
    found.lab.run_all()
    return found


def test_a_replay_of_the_whole_topic_gives_the_bytes_of_the_live_job(past: Past) -> None:
    """One query after the other: what the first one finds is there before the second one runs."""
    live = past.lab.verdicts()
    of_ticks = {key for key in live if key.split(b"/")[0] in OF_TICKS}
    assert {b"known", b"accepted", b"fork", b"equivocation", b"belief", b"split"} <= {
        key.split(b"/")[0] for key in live
    }
    one = quorumscope(*past.arguments("whole", "--queries", "segments"), timeout_s=DEADLINE_S)
    assert one.returncode == 0, (one.stdout, one.stderr)
    assert differences(past.verdicts("whole"), {key: live[key] for key in live.keys() - of_ticks}) == {}
    read, verified, rejected, duplicate = _counts(one.stdout)
    assert read == len(past.records) == verified + rejected + duplicate
    assert rejected == sum(record.value == b"garbage" for record in past.records) > 0
    assert duplicate == len(past.records) - rejected - len({record.value for record in past.records} - {b"garbage"})

    both = quorumscope(*past.arguments("whole", "--diff"), timeout_s=DEADLINE_S)
    assert both.returncode == 0, (both.stdout, both.stderr)
    assert differences(past.verdicts("whole"), live) == {}
    assert f"identical to the live ones: {len(live):,} verdicts about the whole topic\n" in both.stdout
    assert _counts(both.stdout) == (0, 0, 0, 0), "nothing is read twice"


@pytest.mark.programs
def test_a_replay_writes_the_metrics_of_its_time_and_promtool_makes_blocks_of_them(past: Past, tmp_path: Path) -> None:
    """Of a replay that is done already nothing is read again."""
    arguments = past.arguments("whole", "--metrics", tmp_path / "past.om", "--metrics-step", "1s")
    done = quorumscope(*arguments, timeout_s=DEADLINE_S)
    assert done.returncode == 0, (done.stdout, done.stderr)
    lines = (tmp_path / "past.om").read_text(encoding="utf-8").splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    first, last = (time_text(1000 * seconds) for seconds in _first_and_last_second(past.records))
    told = re.search(
        r"([\d,]+) samples of (\d+) steps, (\S+) to (\S+), to \S+; for Prometheus: (.*) BLOCKS\n", done.stdout
    )
    assert told, done.stdout
    assert int(told[1].replace(",", "")) == len(samples)
    assert first <= told[3] < told[4] <= last
    forks = [float(line.split()[1]) for line in samples if line.startswith("quorumscope_forks_total{")]
    assert (forks[0], max(forks)) == (0, 1)
    made = subprocess.run([*shlex.split(told[5]), tmp_path / "blocks"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert list((tmp_path / "blocks").glob("*/index"))


def test_what_would_compare_a_part_with_all_or_read_what_nothing_wrote_is_refused(past: Past) -> None:
    part = quorumscope(*past.arguments("part", "--queries", "segments", "--diff"))
    assert "--diff: it compares what all queries say: leave out --queries" in sentence(part, 2)
    second = quorumscope(*past.arguments("second", "--queries", "matrix"))
    assert "the query matrix reads what segments writes: replay segments too, or first" in sentence(second, 2)


def test_a_live_verdict_that_a_replay_does_not_give_is_told_in_words(past: Past) -> None:
    """Of a replay that is done already nothing is read again."""
    live = past.lab.verdicts()
    key = next(key for key in sorted(live) if key.startswith(b"equivocation/"))
    _write_verdict(past, key, None)
    try:
        done = quorumscope(*past.arguments("whole", "--diff"), timeout_s=DEADLINE_S)
    finally:
        _write_verdict(past, key, live[key])
    assert done.returncode == 1, (done.stdout, done.stderr)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("only the replay says: ")]
    assert line.endswith(f"({key.decode()})")
    assert " signed two segments with index " in line
    assert f"1 of {len(live):,} verdicts about the whole topic differ" in done.stdout


def test_a_range_in_small_batches_stopped_in_the_middle_and_gone_on_with_is_judged_as_if_it_were_all(
    past: Past, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    written = past.lab.segments()
    ends = _middle(written, 0.8)
    bounds = ("--from-offsets", _words(_middle(written, 0.2)), "--to-offsets", _words(ends))
    cut = past.arguments("cut", *bounds, "--offsets-max", "40")
    process = subprocess.Popen(command(*cut), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    commits = past.folder / "cut" / "segments" / "commits"
    deadline = time.monotonic() + DEADLINE_S
    while not (commits / "1").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, (out, err)
    in_range = [message for message in written if _is_in(message, _middle(written, 0.2), ends)]
    stopped = re.search(r"stopped after (\d+) of (\d+) records: the same command goes on", out)
    assert stopped
    before = int(stopped[1])
    assert 0 < before < int(stopped[2]) == len(in_range)

    other = past.arguments("cut", *bounds[:2], "--to", "2026-01-01T00:00:30Z")
    told = sentence(run_here(monkeypatch, capfd, *other), 2)
    assert "holds a replay of" in told
    assert "say the same to go on with it" in told
    job = ["run", *past.arguments("cut")[1:]]
    del job[job.index("--into") : job.index("--into") + 2]
    assert "is the checkpoint of a replay" in sentence(run_here(monkeypatch, capfd, *job), 2)

    done = quorumscope(*cut, timeout_s=DEADLINE_S)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert f"{len(in_range):,} records of {past.lab.topic('segments')}, of which {before:,} are read" in done.stdout
    read, verified, rejected, duplicate = _counts(done.stdout)
    assert read == len(in_range) - before == verified + rejected + duplicate
    found = past.verdicts("cut")
    assert any(key.startswith(b"missing/") for key in found)
    assert differences(found, fold_alone(past.lab.config, in_range)) == {}


def test_a_range_of_time_is_judged_alone_and_says_what_the_live_job_said_of_it(past: Past) -> None:
    start_ms, end_ms = (past.records[int(part * len(past.records))].time_ms for part in (0.3, 0.8))
    times = ("--from", time_text(start_ms), "--to", time_text(end_ms))
    done = quorumscope(*past.arguments("alone", *times, "--diff"), timeout_s=DEADLINE_S)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "identical to the live ones: " in done.stdout
    found = past.verdicts("alone")
    assert not any(key.startswith(b"missing/") for key in found)
    assert sum(key.startswith(b"accepted/") for key in found) > 50
    in_range = [message for message in past.lab.segments() if start_ms <= message.time_ms < end_ms]
    assert differences(found, fold_alone(since_config(past.lab.config, start_ms), in_range)) == {}


def test_a_target_that_is_live_or_used_is_refused(
    past: Past, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def told(code: int, *more: str | Path) -> str:
        return sentence(run_here(monkeypatch, capfd, *past.arguments("new", "--checkpoint", tmp_path, *more)), code)

    assert "is what is replayed" in told(2, "--into", past.lab.prefix)
    assert "a live job writes its verdicts there" in told(2, "--into", past.lab.prefix, "--prefix", "another")
    assert "does not exist" in told(3, "--prefix", "another")
    assert "has records already" in told(2, "--into", past.into("whole"))
    assert "the range is empty" in told(2, "--from", "2027-01-01T00:00:00Z")
    assert not (tmp_path / "replay.json").exists()
    (tmp_path / "quorumscope.json").write_text("{}")
    assert "is the checkpoint of a job" in told(2)
    assert "is not empty and no checkpoint" in told(2, "--checkpoint", past.folder)
    assert not (past.folder / "replay.json").exists()


def test_a_range_that_has_expired_is_refused_with_the_oldest_time_that_is_held_and_with_it_a_job_finds_its_way(
    broker: Broker, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    simulation = SCENARIOS["honest"].run(Settings(duration_ms=20_000))
    past = Past(Lab(broker, spark, tmp_path, simulation.config), tmp_path, simulation)
    written = past.lab.segments()
    lows = _middle(written, 0.5)
    admin = AdminClient(past.lab.connection.librdkafka())
    places = [TopicPartition(past.lab.topic("segments"), partition, low) for partition, low in lows.items()]
    for future in admin.delete_records(places).values():
        future.result(DEADLINE_S)
    told = sentence(run_here(monkeypatch, capfd, *past.arguments("old", "--from", "2026-01-01T00:00:00Z")), 2)
    oldest_ms = max(message.time_ms for message in written if message.spot.offset == lows[message.spot.partition])
    assert re.search(rf"the oldest time that it holds whole is 2026-01-01T00:00:\d\d\.{oldest_ms % 1000:03}Z", told)
    offsets = past.arguments("old", "--from-offsets", _words(dict.fromkeys(lows, 0)))
    assert "no longer holds" in sentence(run_here(monkeypatch, capfd, *offsets), 2)

    past.lab.config = since_config(simulation.config, oldest_ms)
    past.lab.run_all()
    found = past.lab.verdicts()
    assert not any(key.startswith(b"missing/") for key in found)
    assert any(key.startswith(b"accepted/") for key in found)
    assert differences(found, fold_alone(past.lab.config, past.lab.segments())) == {}


def _counts(out: str) -> tuple[int, ...]:
    match = re.search(r"([\d,]+) records read: ([\d,]+) verified, ([\d,]+) rejected, ([\d,]+) duplicate", out)
    assert match, out
    return tuple(int(text.replace(",", "")) for text in match.groups())


def _first_and_last_second(records: list[Record]) -> tuple[int, int]:
    """The whole seconds around all of them."""
    times_ms = [record.time_ms for record in records]
    return min(times_ms) // 1000, -(-max(times_ms) // 1000)


def _middle(written: list[Written], part: float) -> dict[int, int]:
    """An offset of each partition, at this part of its records."""
    partitions = {message.spot.partition for message in written}
    return {p: int(part * sum(message.spot.partition == p for message in written)) for p in sorted(partitions)}


def _is_in(message: Written, starts: dict[int, int], ends: dict[int, int]) -> bool:
    partition, offset = message.spot
    return starts[partition] <= offset < ends[partition]


def _words(offsets: dict[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in offsets.items())


def _write_verdict(past: Past, key: bytes, value: bytes | None) -> None:
    producer = Producer(past.lab.connection.librdkafka())
    producer.produce(past.lab.topic("verdicts"), value, key)
    assert producer.flush(DEADLINE_S) == 0
