"""The simulator: the same seed gives the same bytes, and the ground truth tells what is on the topic."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from producers.forgery import RandomizedKey
from producers.link import Quality
from producers.scenarios import SCENARIOS
from producers.sinks import SinkError, read_file, swarms_path, truth_path, write_file
from producers.swarm import START_MS, Settings, SimulatedSwarm
from producers.swarmfile import config_yaml
from producers.truth import named
from state.config import ConfigError, parse_config
from state.limits import RECORD_BYTES_MAX
from state.segment import Reason, Segment, decode_refs, judge
from state.signing import SigningKey, is_signed
from tests.simlab import SHAPES, Topic, shapes, simulated

SHAPED = [(name, settings) for name in SCENARIOS for settings in shapes(name)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    again = SCENARIOS[name].run(Settings())
    assert again.records == simulated(name).records
    assert again.truth == simulated(name).truth
    assert again.config.digest == simulated(name).config.digest


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_seed_gives_other_bytes(name: str) -> None:
    one, other = simulated(name), simulated(name, Settings(seed=2))
    ids = [Topic(simulation).segments.keys() for simulation in (one, other)]
    assert ids[0].isdisjoint(ids[1])
    assert one.config.digest != other.config.digest


@pytest.mark.parametrize(("name", "settings"), SHAPED)
def test_exactly_the_listed_records_are_rejected_for_exactly_the_listed_reasons(name: str, settings: Settings) -> None:
    simulation = simulated(name, settings)
    judged = [judge(record.value, simulation.config.authors) for record in simulation.records]
    rejected = {position: verdict for position, verdict in enumerate(judged) if isinstance(verdict, Reason)}
    assert rejected == {bad.position: bad.reason for bad in simulation.truth.rejected}
    ids = Counter(verdict.id for verdict in judged if isinstance(verdict, Segment))
    assert simulation.truth.verified == len(ids)
    assert simulation.truth.duplicates == ids.total() - len(ids)


@pytest.mark.parametrize(("name", "settings"), SHAPED)
def test_the_configuration_of_a_run_is_one_that_can_be_read(name: str, settings: Settings) -> None:
    config = simulated(name, settings).config
    assert parse_config(config_yaml(config)) == config


@pytest.mark.parametrize("name", ["whole-story", "silent-listener"])
def test_too_few_peers_for_a_story_are_one_sentence(name: str) -> None:
    scenario = SCENARIOS[name]
    too_few = Settings(peers=scenario.peers_min - 1)
    with pytest.raises(
        ConfigError, match=f"^peers: want {scenario.peers_min} or more for {name}, got {too_few.peers}$"
    ):
        scenario.run(too_few)


@pytest.mark.parametrize("name", SCENARIOS)
def test_records_come_in_the_order_of_their_times_and_honest_keys_are_authors(name: str) -> None:
    simulation = simulated(name)
    times = [record.time_ms for record in simulation.records]
    assert times == sorted(times)
    assert [line.time_ms for line in simulation.truth.story] == sorted(line.time_ms for line in simulation.truth.story)
    if name != "hostile-input":
        segments = [judge(record.value, simulation.config.authors) for record in simulation.records]
        assert [record.key for record in simulation.records] == [
            segment.head.author for segment in segments if isinstance(segment, Segment)
        ]


@pytest.mark.parametrize("settings", SHAPES)
@pytest.mark.parametrize("name", ["withheld-story", "ref-to-nothing"])
def test_every_author_is_heard_a_grace_after_the_last_ref_to_anything_missing(name: str, settings: Settings) -> None:
    simulation = simulated(name, settings)
    topic = Topic(simulation)
    referrers = {noop.id for missing in simulation.truth.missing for noop in missing.referrers}
    last_ms = max(topic.times_ms[bytes.fromhex(referrer)] for referrer in referrers)
    for author in simulation.config.swarms[0].authors:
        assert topic.times_ms[topic.last[author].id] > last_ms + simulation.config.swarms[0].grace_ms


def test_some_ops_are_of_clients() -> None:
    topic = Topic(simulated("honest"))
    ops = [op for segment in topic.segments.values() for op in segment.ops]
    origins = {op[2:34] for op in ops if op[0] == 0x0A}
    assert len(origins) == 3 * 8
    assert any(op[0] == 0x12 for op in ops)
    assert not topic.simulation.config.swarms[0].authors.keys() & origins


@pytest.mark.parametrize("loss", [0.0, 0.5])
def test_what_a_peer_relays_is_closed_under_past_so_that_nothing_ever_waits(loss: float) -> None:
    swarm = SimulatedSwarm(Settings(quality=Quality(loss=loss, jitter_ms=500)))
    swarm.connect_all(swarm.peers)
    swarm.work(swarm.peers)
    swarm.silence(swarm.peers[2], swarm.settings.part_ms(0.1), swarm.settings.part_ms(0.3))
    for now_ms in range(START_MS, swarm.settings.part_ms(0.5), 20):
        swarm.time.run(now_ms)
        assert [peer.holding.waiting for peer in swarm.peers] == [0] * 8
    for peer in swarm.peers:
        seen: set[bytes] = set()
        for segment in peer.log:
            assert {name.id for name in named(segment)} <= seen
            seen.add(segment.id)


def test_refs_to_nothing_are_missing_each_in_its_own_way() -> None:
    simulation = simulated("ref-to-nothing")
    truth, topic = simulation.truth, Topic(simulation)
    keys = {name: key.hex() for key, name in simulation.config.swarms[0].authors.items()}
    disputed, beyond = sorted((one for one in truth.missing if one.author == keys["peer-1"]), key=lambda one: one.index)
    (lost,) = [one for one in truth.missing if one.author == keys["peer-2"]]
    assert len(truth.missing) == 3
    assert [disputed.disputed, beyond.disputed, lost.disputed] == [True, False, False]
    assert beyond.index > topic.last[bytes.fromhex(keys["peer-1"])].head.index
    assert {noop.author for noop in disputed.referrers + beyond.referrers} == {keys["peer-8"]}
    assert {(noop.author, noop.index) for noop in lost.referrers} > {(keys["peer-2"], lost.index + 1)}
    refs = [ref for segment in topic.segments.values() for ref in decode_refs(segment.refs)]
    assert [ref.index for ref in refs if ref.author not in simulation.config.swarms[0].authors] == [1]


def test_a_restored_backup_is_a_fork_that_all_others_hold() -> None:
    simulation = simulated("restored-backup")
    topic, truth = Topic(simulation), simulation.truth
    (fork,), (equivocation,) = truth.forks, truth.equivocations
    restored = simulation.config.swarms[0].author("peer-2")
    assert restored is not None
    assert fork.author == restored.hex()
    assert topic.segments[bytes.fromhex(fork.previous)].head.index == equivocation.index - 1
    assert not truth.missing
    for author in topic.last.keys() - {restored}:
        assert {bytes.fromhex(branch) for branch in fork.branches} <= topic.last_of(author.hex())


def test_hostile_input_has_every_reason_in_several_ways_and_valid_oddities() -> None:
    simulation = simulated("hostile-input")
    truth, records = simulation.truth, simulation.records
    values = defaultdict(set)
    for bad in truth.rejected:
        values[bad.reason].add(records[bad.position].value)
    assert {reason: len(values[reason]) >= 3 for reason in Reason} == dict.fromkeys(Reason, True)
    assert {None, b""} < values[Reason.MALFORMED]
    sizes = [len(record.value or b"") for record in records]
    assert RECORD_BYTES_MAX + 1 in sizes
    assert max(sizes) <= 1.5 * RECORD_BYTES_MAX
    assert truth.duplicates > 10
    names = {skewed.author: skewed.skew_ms for skewed in truth.skewed}
    assert sorted(names.values()) == [-3_600_000, 3_600_000]
    (bad_index,), (fork,) = truth.bad_index, truth.forks
    assert bad_index.index - 1 > bad_index.previous_index
    assert bad_index.id in fork.branches


def test_hostile_input_holds_one_head_with_two_valid_signatures() -> None:
    simulation = simulated("hostile-input")
    signatures = defaultdict(set)
    for record in simulation.records:
        segment = judge(record.value, simulation.config.authors)
        if isinstance(segment, Segment):
            signatures[segment.id.hex()].add(segment.signature)
    assert [segment_id for segment_id, found in signatures.items() if len(found) > 1] == [
        simulation.truth.bad_index[0].id
    ]


def test_clocks_that_are_an_hour_off_show_in_heads_and_nowhere_else() -> None:
    topic = Topic(simulated("hostile-input"))
    skews = {skewed.author: skewed.skew_ms for skewed in topic.simulation.truth.skewed}
    for segment in topic.segments.values():
        off_ms = segment.head.time_ms - topic.times_ms[segment.id]
        assert abs(off_ms - skews.get(segment.head.author.hex(), 0)) < 1_000


def test_a_key_that_chooses_its_nonce_signs_validly_and_differently() -> None:
    plain, randomized = SigningKey(bytes(32)), RandomizedKey(bytes(32), b"nonce")
    assert plain.public == randomized.public
    assert plain.sign(b"message") != randomized.sign(b"message")
    assert is_signed(b"message", randomized.sign(b"message"), plain.public)


def test_the_seed_example_gives_the_matrix_of_the_seed() -> None:
    simulation = simulated("seed-example")
    topic, names = Topic(simulation), simulation.config.swarms[0].authors
    seconds = {at: (time_ms - START_MS) // 1000 for at, time_ms in topic.times_ms.items()}
    matrix: dict[str, dict[str, int]] = {name: {} for name in "ABC"}
    for observer, last in topic.last.items():
        for at in topic.past(last.id):
            row, column = names[observer], names[topic.segments[at].head.author]
            matrix[row][column] = max(matrix[row].get(column, 0), seconds[at])
    assert matrix == {
        "A": {"A": 4, "B": 3, "C": 1},
        "B": {"A": 2, "B": 5, "C": 4},
        "C": {"A": 2, "B": 3, "C": 5},
    }
    assert Counter((names[record.key], record.time_ms - START_MS) for record in simulation.records) == Counter(
        (name, 1000 * second)
        for name, when in (("A", (1, 2, 4)), ("B", (2, 3, 5)), ("C", (1, 4, 5)))
        for second in when
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"peers": 2}, "peers: want 3"),
        ({"duration_ms": 10_000}, "duration: want"),
        ({"interval_ms": 10_000}, "duration: want"),
        ({"ops": 0}, "ops a segment"),
        ({"start_ms": 0}, "start: want"),
        ({"quality": Quality(loss=0.9)}, "loss: want"),
        ({"grace": "soon"}, "grace: expected a duration such as .*, got 'soon'"),
        ({"split_after": "5"}, "split_after: expected a duration such as .*, got '5'"),
        ({"horizon": ""}, "horizon: expected a duration such as .*, got ''"),
        ({"split_after": "49ms"}, "split_after: want 50ms to the horizon of 5m, got 49ms"),
        ({"split_after": "6m"}, "split_after: want 50ms to the horizon of 5m, got 6m"),
        ({"horizon": "21d"}, "horizon: want at most 20d, got 21d"),
        ({"rules": ("most",)}, "rules: want majority, everyone or a number of peers from 1 to 8, got"),
        ({"rules": (9,)}, "rules: want majority, everyone or a number of peers from 1 to 8, got"),
        ({"rules": (3, 3)}, "rules: want each once"),
        ({"blocks": 65}, "blocks: want 0 to 64, got 65"),
    ],
)
def test_settings_that_no_story_fits_are_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        Settings(**changes)


def test_what_the_settings_say_stands_in_the_configuration() -> None:
    chosen = Settings(grace="4s", split_after="700ms", horizon="1h", rules=(2, "everyone", 8), blocks=3)
    swarm = SCENARIOS["honest"].run(chosen).config.swarms[0]
    (epoch,) = swarm.epochs
    assert (swarm.grace, swarm.horizon, swarm.blocks) == ("4s", "1h", 3)
    assert (epoch.split_after, epoch.rules) == ("700ms", (2, "everyone", 8))
    for epoch in SCENARIOS["epochs"].run(chosen).config.swarms[0].epochs:
        assert epoch.rules == (2, "everyone")


@pytest.mark.parametrize("name", ["hostile-input", "withheld-story", "whole-story", "epochs"])
def test_a_file_gives_back_what_was_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_file(simulated(name), path)
    again = read_file(path)
    assert again.config == simulated(name).config
    assert again.config.digest == simulated(name).config.digest
    assert again.truth == simulated(name).truth
    assert again.records == simulated(name).records


def test_the_files_are_json_and_yaml_with_hex_digits(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    simulation = simulated("lying-peer")
    write_file(simulation, path)
    truth = msgspec.json.decode(truth_path(path).read_bytes())
    assert truth["forks"][0]["branches"] == simulation.truth.forks[0].branches
    assert parse_config(swarms_path(path).read_text()) == simulation.config
    assert msgspec.json.decode(path.read_bytes().splitlines()[0]).keys() == {"time_ms", "key", "value"}


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"nowhere.jsonl cannot be read"):
        read_file(tmp_path / "nowhere.jsonl")
