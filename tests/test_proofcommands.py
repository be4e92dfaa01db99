"""The commands about proofs, as a user runs them: against a broker that librdkafka plays in memory, and offline."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from producers.scenarios import SCENARIOS
from producers.simulation import Simulation
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.config import ConfigError
from state.connection import Connection
from state.evidence import make_evidence
from state.history import History
from state.segment import Segment
from state.verdict import Signed
from streaming.cli import app, exit_codes
from streaming.parts import MissingPartError
from streaming.proofcommands import Place, parse_place
from streaming.segments import read_segments
from tests.commandlab import sentence

SETTINGS = Settings(peers=5, duration_ms=20_000)


class Command:
    """Runs the command line within this process: a process of its own would take a second each time."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended, exit_codes():
            app(list(map(str, arguments)))
        out, err = self._capsys.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code or 0, out, err)


@pytest.fixture
def quorumscope(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


class Published(NamedTuple):
    """What was simulated, on a broker, and what was read back from it."""

    simulation: Simulation
    history: History
    bootstrap: str
    options: list[str | Path]
    """The options that every command takes."""

    @property
    def liar(self) -> str:
        return self.simulation.config.swarms[0].authors[self.versions[0].head.author]

    @property
    def versions(self) -> list[Segment]:
        """The two segments of the liar with one index."""
        (found,) = self.simulation.truth.equivocations
        return self.history.at(bytes.fromhex(found.author), found.index)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """A topic with some records twice, and some bytes that are no segments."""
    simulation = SCENARIOS["lying-peer"].run(SETTINGS)
    (swarm,) = simulation.config.swarms
    producer = Producer({"bootstrap.servers": "nowhere:1", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    bootstrap = f"{broker.host}:{broker.port}"
    for at, record in enumerate(simulation.records):
        for copy in range(1 + (at % 5 == 0)):
            producer.produce("quorumscope.segments", record.value, record.key, timestamp=record.time_ms + copy)
    producer.produce("quorumscope.segments", b"noise", timestamp=SETTINGS.start_ms)
    producer.produce("empty.segments", b"noise", timestamp=SETTINGS.start_ms)
    assert producer.flush(10) == 0
    swarms = tmp_path_factory.mktemp("proofs") / "swarms.yaml"
    swarms.write_text(config_yaml(simulation.config))
    reading = read_segments(Connection(bootstrap=bootstrap), "quorumscope", swarm, lambda _read, _total: None)
    history = History(swarm.key, reading.copies, from_start=reading.from_start)
    yield Published(simulation, history, bootstrap, ["--swarms", swarms, "--bootstrap", bootstrap])
    del producer


def test_the_reader_gives_every_segment_with_the_time_of_its_earliest_copy(published: Published) -> None:
    simulation, history, bootstrap, _ = published
    assert history.from_start
    assert len(history.segments) == simulation.truth.verified
    assert sorted(history.times_ms.values()) == sorted(record.time_ms for record in simulation.records)
    told: list[tuple[int, int]] = []
    reading = read_segments(
        Connection(bootstrap=bootstrap), "quorumscope", simulation.config.swarms[0], lambda *now: told.append(now)
    )
    total = len(simulation.records) + (len(simulation.records) + 4) // 5 + 1
    assert told[-1] == (total, total)
    assert len(reading.copies) == total - 1


def test_a_topic_that_does_not_exist_is_told(published: Published) -> None:
    (swarm,) = published.simulation.config.swarms
    with pytest.raises(MissingPartError, match=r"no-such.segments does not exist"):
        read_segments(Connection(bootstrap=published.bootstrap), "no-such", swarm, lambda *_: None)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("alice:7", Place("alice", 7, "", None)),
        ("alice:7/2", Place("alice", 7, "", 2)),
        ("peer-1.x:12@0af3/1", Place("peer-1.x", 12, "0af3", 1)),
    ],
)
def test_a_place_is_a_peer_an_index_and_if_need_be_an_id_and_an_op(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", "alice", "alice:", ":7", "alice:x", "alice:7/", "alice:7@", "alice:7@XY", "a:-1"])
def test_what_is_no_place_is_told_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="alice:7/2"):
        parse_place(text)


def test_what_is_proved_verifies_and_a_proven_forker_takes_it_back(
    quorumscope: Command, published: Published, tmp_path: Path
) -> None:
    liar, swarms = published.liar, published.options[:2]
    proof, known, evidence = (tmp_path / name for name in ("proof.json", "known.json", "evidence.json"))
    made = quorumscope("prove", "simulated", f"{liar}:2/1", "--light", "--out", proof, *published.options)
    assert (made.returncode, made.stderr) == (0, "")
    done = quorumscope("verify", proof, *swarms)
    assert done.returncode == 0
    assert "proved: op 1 of" in done.stdout
    assert f"segment 2 of {liar}" in done.stdout

    signed = (Signed(s.id.hex(), s.head_bytes.hex(), s.signature.hex(), 0) for s in published.versions)
    evidence.write_bytes(make_evidence(*signed))
    assert f"proved: {liar}" in quorumscope("verify", evidence, *swarms).stdout
    against = quorumscope("verify", proof, *swarms, "--evidence", evidence)
    assert f"{liar} signed two versions of a log and cannot be counted" in sentence(against, 1)

    options = ["--known", "--evidence", evidence, "--out", known]
    assert quorumscope("prove", "simulated", f"{liar}:2", *options, *published.options).returncode == 0
    assert "Proven forkers do not count" in quorumscope("verify", known, *swarms, "--evidence", evidence).stdout


def test_what_was_changed_is_refused(quorumscope: Command, published: Published, tmp_path: Path) -> None:
    swarms, proof = published.options[:2], tmp_path / "proof.json"
    quorumscope("prove", "simulated", "peer-1:2", "--out", proof, *published.options)
    proof.write_bytes(proof.read_bytes().replace(b"5", b"6", 1))
    assert "refused: " in sentence(quorumscope("verify", proof, *swarms), 1)
    assert "evidence" in sentence(quorumscope("verify", proof, *swarms, "--evidence", proof), 1)
    assert "cannot be read" in sentence(quorumscope("verify", proof, *swarms, "--evidence", tmp_path / "none"), 2)


def test_a_forked_segment_must_be_named_by_its_id_and_is_explained(
    quorumscope: Command, published: Published, tmp_path: Path
) -> None:
    one, other = published.versions
    place = f"{published.liar}:{one.head.index}"
    told = sentence(quorumscope("explain", "simulated", place, *published.options), 2)
    assert all(f"{place}@{version.id.hex()[:12]}" in told for version in (one, other))
    named = f"{place}@{other.id.hex()[:12]}"
    explained = quorumscope("explain", "simulated", named, *published.options)
    assert explained.returncode == 0
    assert other.id.hex() in explained.stdout
    assert f"{published.liar} forked its log" in explained.stdout
    assert one.id.hex()[:12] in explained.stdout
    refused = quorumscope(
        "prove", "simulated", named, "--rule", "everyone", "--out", tmp_path / "p", *published.options
    )
    assert "cannot be proved" in sentence(refused, 1)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["explain", "simulated", "peer-1:1/1"], 2, "stand and fall"),
        (["explain", "nobody", "peer-1:1"], 2, "has no swarm 'nobody'"),
        (["explain", "simulated", "nobody:1"], 2, "has no peer 'nobody'"),
        (["explain", "simulated", "peer-1:999"], 1, "is not on the topic: its segments there are 1 to"),
        (["explain", "simulated", "peer-1:1", "--prefix", "empty"], 1, "it has none there"),
        (["explain", "simulated", "peer-1:1@ffffffffffff"], 2, "no version whose id begins with"),
        (["prove", "simulated", "peer-1:1", "--light", "--out", "x"], 2, "name the op"),
        (["prove", "simulated", "peer-1:1", "--rule", "most", "--out", "x"], 1, "has no rule 'most'"),
        (["prove", "simulated", "peer-1:1", "--out", "/no/such/place"], 2, "cannot be written"),
    ],
)
def test_mistakes_are_one_sentence_and_the_right_exit_code(
    quorumscope: Command, published: Published, arguments: list[str], code: int, words: str
) -> None:
    assert words in sentence(quorumscope(*arguments, *published.options), code)
