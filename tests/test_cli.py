"""The command line without a broker: usage, configuration, simulation to a file, checking evidence."""

import re
import socket
from functools import partial
from pathlib import Path

import pytest

from dashboards.site import Address
from producers.simulation import GroundTruth
from state.config import ConfigError, parse_config
from state.signing import SigningKey
from streaming.cli import _address
from streaming.options import query_names
from tests.commandlab import command, quorumscope, run_here, sentence
from tests.test_evidence import EVIDENCE, LIAR, OTHER, SWARM

KEYS = [SigningKey(bytes([n]) * 32).public.hex() for n in (1, 2, 3)]
NOBODY = "127.0.0.1:9"
"""A port on which nothing listens."""


@pytest.fixture
def swarms(tmp_path: Path) -> Path:
    path = tmp_path / "swarms.yaml"
    path.write_text(
        f"swarms:\n  - id: '{SWARM.hex()}'\n    name: lab\n    epochs:\n      - start: 2020-01-01T00:00:00Z\n"
        f"        roster:\n          liar: '{LIAR.public.hex()}'\n          other: '{OTHER.public.hex()}'\n"
    )
    return path


def test_help_names_every_command_and_ends_well() -> None:
    done = quorumscope("--help")
    assert done.returncode == 0
    for name in (
        "demo",
        "run",
        "replay",
        "exporter",
        "simulate",
        "evidence",
        "prove",
        "verify",
        "explain",
        "swarm",
        "topics",
    ):
        assert name in done.stdout


@pytest.mark.parametrize("arguments", [["nonsense"], ["run"], ["verify"], ["simulate"], ["run", "--offsets-max", "x"]])
def test_wrong_usage_ends_with_two_and_no_traceback(arguments: list[str]) -> None:
    done = quorumscope(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("exporter", "swarms bootstrap kafka prefix listen url pair-peers-max worst-pairs series-budget"),
        ("demo", "forever out seed with-prometheus without-prometheus with-grafana without-grafana"),
        ("run", "listen"),
        ("replay", "into checkpoint from to from-offsets to-offsets diff queries master offsets-max"),
    ],
)
def test_help_of_a_command_names_its_options(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str, options: str
) -> None:
    done = run_here(monkeypatch, capfd, name, "--help")
    assert done.returncode == 0
    assert {f"--{option}" for option in options.split()} <= set(re.findall(r"--[a-z-]+", done.stdout))


@pytest.mark.parametrize("listen", ["9464", "localhost:", "127.0.0.1:65536", "127.0.0.1:-1", "[::1]"])
def test_an_address_to_listen_on_needs_a_host_and_a_port(listen: str) -> None:
    with pytest.raises(ConfigError, match=rf"^--listen: expected HOST:PORT, .* got '{re.escape(listen)}'$"):
        _address(listen)


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:9464", Address("127.0.0.1", 9464)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:9464", Address("::1", 9464)),
        ("::1:9464", Address("::1", 9464)),
    ],
)
def test_an_address_of_ip_version_six_may_stand_in_brackets(listen: str, address: Address) -> None:
    assert _address(listen) == address


def test_a_job_that_cannot_listen_ends_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], swarms: Path, tmp_path: Path
) -> None:
    arguments = ("--swarms", swarms, "--checkpoint", tmp_path / "c", "--bootstrap", NOBODY)
    run = partial(run_here, monkeypatch, capfd, "run", *arguments, "--listen")
    assert "--listen: expected HOST:PORT" in sentence(run("9464"), 2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen on {listen} (" in sentence(run(listen), 3)
    assert not (tmp_path / "c").exists()


def test_grafana_without_prometheus_is_refused_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    demo = ("demo", "--with-grafana", "--without-prometheus", "--out", tmp_path / "out")
    assert "leave --without-prometheus out" in sentence(run_here(monkeypatch, capfd, *demo), 2)
    assert not (tmp_path / "out").exists()


def test_a_new_swarm_is_a_file_that_reads_back(tmp_path: Path) -> None:
    done = quorumscope("swarm", "new", "orders", "--peer", f"alice={KEYS[0]}", "--peer", f"bob={KEYS[1]}")
    assert done.returncode == 0
    config = parse_config(done.stdout)
    assert config.swarms[0].name == "orders"
    assert set(config.swarms[0].epochs[0].roster) == {"alice", "bob"}
    (tmp_path / "swarms.yaml").write_text(done.stdout)
    assert quorumscope("swarm", "check", tmp_path / "swarms.yaml").returncode == 0


@pytest.mark.parametrize(
    ("peers", "words"),
    [
        ([f"alice={KEYS[0]}", f"alice={KEYS[1]}"], "each name once"),
        ([f"alice={KEYS[0]}", f"bob={KEYS[0]}"], "a key of its own"),
        (["alice"], "NAME=KEY"),
        (["alice=00"], "64 lower-case hex digits"),
        ([f"alice={'00' * 32}"], "small order"),
    ],
)
def test_a_mistyped_peer_is_one_sentence_and_exit_code_two(peers: list[str], words: str) -> None:
    arguments = [part for peer in peers for part in ("--peer", peer)]
    assert words in sentence(quorumscope("swarm", "new", "orders", *arguments), 2)


def test_a_wrong_swarms_file_is_named_with_the_path_of_the_wrong_value(swarms: Path, tmp_path: Path) -> None:
    swarms.write_text(swarms.read_text().replace("name: lab", "name: 5"))
    told = sentence(quorumscope("run", "--swarms", swarms, "--checkpoint", tmp_path / "c", "--bootstrap", NOBODY), 2)
    assert "swarms[0].name" in told
    assert str(swarms) in told
    assert "cannot be read" in sentence(quorumscope("swarm", "check", tmp_path / "none.yaml"), 2)


@pytest.mark.kafka  # no broker, but it waits for one: twice ten seconds
def test_an_unreachable_broker_is_one_sentence_and_exit_code_three(swarms: Path, tmp_path: Path) -> None:
    run = quorumscope("run", "--swarms", swarms, "--checkpoint", tmp_path / "c", "--bootstrap", NOBODY)
    assert "no Kafka broker answers" in sentence(run, 3)
    assert not (tmp_path / "c").exists()
    live = quorumscope("simulate", "honest", "--bootstrap", NOBODY, "--out", tmp_path)
    assert "cannot be reached" in sentence(live, 3)


def test_kafkas_address_is_asked_for_once_and_its_secrets_are_read_from_files(swarms: Path, tmp_path: Path) -> None:
    run: list[str | Path] = ["run", "--swarms", swarms, "--checkpoint", tmp_path / "c"]
    assert "--bootstrap" in sentence(quorumscope(*run), 2)
    kafka = tmp_path / "kafka.yaml"
    kafka.write_text("bootstrap: broker:9093\nprotocol: SASL_SSL\n")
    assert "`sasl`" in sentence(quorumscope(*run, "--kafka", kafka), 2)
    kafka.write_text(
        "bootstrap: broker:9093\nprotocol: SASL_SSL\n"
        f"sasl: {{mechanism: PLAIN, username: me, password_file: {tmp_path / 'none'}}}\n"
    )
    assert "password_file" in sentence(quorumscope(*run, "--kafka", kafka), 2)


@pytest.mark.parametrize("names", ["verdicts", "segments,", "", "segments,matrix,splits"])
def test_a_query_that_there_is_not_is_told_with_those_there_are(swarms: Path, tmp_path: Path, names: str) -> None:
    run = quorumscope(
        *("run", "--swarms", swarms, "--checkpoint", tmp_path / "c", "--bootstrap", NOBODY, "--queries", names)
    )
    told = sentence(run, 2)
    wrong = names.rpartition(",")[2]
    assert f"--queries: expected some of segments, matrix, got {wrong!r}" in told
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("text", ["segments,matrix", "matrix, segments", "matrix,segments,matrix"])
def test_queries_run_in_the_order_in_which_one_reads_what_another_writes(text: str) -> None:
    assert query_names(text) == ("segments", "matrix")
    assert query_names("matrix") == ("matrix",)


def test_an_unknown_scenario_is_told_with_those_there_are() -> None:
    assert "lying-peer" in sentence(quorumscope("simulate", "no-such", "--file", "x"), 2)
    assert "duration" in sentence(quorumscope("simulate", "honest", "--file", "x", "--duration", "1s"), 2)


def test_a_simulation_to_a_file_has_its_truth_beside_it(tmp_path: Path) -> None:
    import msgspec

    file = tmp_path / "run.jsonl"
    assert quorumscope("simulate", "lying-peer", "--file", file, "--duration", "30s").returncode == 0
    truth = msgspec.json.decode((tmp_path / "run.jsonl.truth.json").read_bytes(), type=GroundTruth)
    assert len(truth.forks) == 1
    assert len(file.read_text().splitlines()) == truth.verified + truth.duplicates + len(truth.rejected)
    parse_config((tmp_path / "run.jsonl.swarms.yaml").read_text())


def test_verify_accepts_real_evidence_and_refuses_the_rest(swarms: Path, tmp_path: Path) -> None:
    file = tmp_path / "evidence.json"
    file.write_bytes(EVIDENCE)
    done = quorumscope("verify", file, "--swarms", swarms)
    assert done.returncode == 0
    assert "proved: liar" in done.stdout
    file.write_bytes(EVIDENCE.replace(b"5", b"6", 1))
    assert "refused" in sentence(quorumscope("verify", file, "--swarms", swarms), 1)
    assert "cannot be read" in sentence(quorumscope("verify", tmp_path / "none", "--swarms", swarms), 2)


def test_the_command_works_as_a_module_too() -> None:
    assert command("--help")[1:3] == ["-m", "streaming.cli"]
