"""The simulator: the same seed gives the same bytes, and the ground truth tells what is on the topic."""

import dataclasses
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import msgspec
import pytest

from producers import load as loads
from producers.forgery import RandomizedKey
from producers.link import Quality
from producers.scenarios import SCENARIOS
from producers.simulation import Simulation
from producers.sinks import SinkError, read_file, swarms_path, truth_path, write_file
from producers.swarm import START_MS, Settings, SimulatedSwarm
from producers.swarmfile import config_yaml, swarm_config
from producers.truth import named
from state.config import ConfigError, parse_config
from state.limits import RECORD_BYTES_MAX
from state.segment import Reason, Ref, Segment, decode_refs, judge
from state.signing import SigningKey, is_signed

SMALL = Settings(peers=3, duration_ms=20_000)
SHAPES = [
    Settings(),
    SMALL,
    Settings(seed=7, peers=13, duration_ms=20_000, interval_ms=700, ops=1),
    Settings(seed=8, peers=6, duration_ms=40_000, quality=Quality(loss=0.3)),
]


@cache
def simulated(name: str, seed: int = 1) -> Simulation:
    return SCENARIOS[name].run(Settings(seed=seed))


@dataclasses.dataclass
class Topic:
    """The valid segments of a simulation, with the record time of the earliest copy, and their pasts by search."""

    simulation: Simulation

    def __post_init__(self) -> None:
        self.segments: dict[bytes, Segment] = {}
        self.times_ms: dict[bytes, int] = {}
        self.last: dict[bytes, Segment] = {}
        for record in self.simulation.records:
            segment = judge(record.value, self.simulation.config.authors)
            if isinstance(segment, Segment) and segment.id not in self.segments:
                self.segments[segment.id] = segment
                self.times_ms[segment.id] = record.time_ms
                self.last[segment.head.author] = segment

    def past(self, segment_id: bytes) -> set[bytes]:
        """The ids that a noop covers, itself included, published or not."""
        covered, stack = set(), [segment_id]
        while stack:
            at = stack.pop()
            if at not in covered:
                covered.add(at)
                stack.extend(name.id for name in self.names(at))
        return covered

    def names(self, segment_id: bytes) -> list[Ref]:
        return list(named(self.segments[segment_id])) if segment_id in self.segments else []

    def last_of(self, author: str) -> set[bytes]:
        """What the last noop of an author covers."""
        return self.past(self.last[bytes.fromhex(author)].id)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    again = SCENARIOS[name].run(Settings())
    assert again.records == simulated(name).records
    assert again.truth == simulated(name).truth
    assert again.config.digest == simulated(name).config.digest


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_seed_gives_other_bytes(name: str) -> None:
    one, other = simulated(name, 1), simulated(name, 2)
    ids = [Topic(simulation).segments.keys() for simulation in (one, other)]
    assert ids[0].isdisjoint(ids[1])
    assert one.config.digest != other.config.digest


@pytest.mark.parametrize("settings", SHAPES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_exactly_the_listed_records_are_rejected_for_exactly_the_listed_reasons(name: str, settings: Settings) -> None:
    simulation = SCENARIOS[name].run(settings)
    judged = [judge(record.value, simulation.config.authors) for record in simulation.records]
    rejected = {position: verdict for position, verdict in enumerate(judged) if isinstance(verdict, Reason)}
    assert rejected == {bad.position: bad.reason for bad in simulation.truth.rejected}
    ids = Counter(verdict.id for verdict in judged if isinstance(verdict, Segment))
    assert simulation.truth.verified == len(ids)
    assert simulation.truth.duplicates == ids.total() - len(ids)


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
    simulation = SCENARIOS[name].run(settings)
    topic = Topic(simulation)
    referrers = {noop.id for missing in simulation.truth.missing for noop in missing.referrers}
    last_ms = max(topic.times_ms[bytes.fromhex(referrer)] for referrer in referrers)
    for author in simulation.config.swarms[0].authors:
        assert topic.times_ms[topic.last[author].id] > last_ms + simulation.config.swarms[0].grace_ms


@pytest.mark.parametrize("settings", SHAPES)
@pytest.mark.parametrize("name", ["honest", "partition-and-heal"])
def test_an_honest_swarm_converges_so_that_last_noops_cover_all_but_the_newest(name: str, settings: Settings) -> None:
    topic = Topic(SCENARIOS[name].run(settings))
    end_ms = max(topic.times_ms.values())
    for last in topic.last.values():
        uncovered = topic.segments.keys() - topic.past(last.id)
        assert all(topic.times_ms[segment_id] > end_ms - 4_000 for segment_id in uncovered)


def test_an_honest_swarm_has_nothing_to_be_found_and_a_silent_peer_comes_back() -> None:
    simulation = simulated("honest")
    truth = simulation.truth
    assert [truth.forks, truth.equivocations, truth.missing, truth.bad_index, truth.rejected] == [[]] * 5
    assert [truth.splits, truth.skewed, truth.duplicates] == [[], [], 0]
    quiet = simulation.config.swarms[0].author("peer-8")
    times = [record.time_ms - START_MS for record in simulation.records if record.key == quiet]
    assert not [time for time in times if 18_200 < time < 30_000]
    assert [time for time in times if time > 30_000]


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


def test_a_lying_bridge_forks_once_and_parts_its_two_sides() -> None:
    simulation = simulated("lying-bridge")
    topic, truth = Topic(simulation), simulation.truth
    (fork,), (equivocation,), (split,) = truth.forks, truth.equivocations, truth.splits
    liar = simulation.config.swarms[0].authors[bytes.fromhex(fork.author)]
    assert truth.story[0].text == f"{liar} tells two stories after index {equivocation.index - 1}"
    assert fork.branches == equivocation.ids
    assert split.suspects == [fork.author]
    assert split.until_ms is None
    assert sorted([*split.sides[0], *split.sides[1], fork.author]) == sorted(
        key.hex() for key in simulation.config.swarms[0].authors
    )
    branches = {bytes.fromhex(branch) for branch in fork.branches}
    believed = [{frozenset(topic.last_of(author) & branches) for author in side} for side in split.sides]
    assert [len(beliefs) for beliefs in believed] == [1, 1]
    assert believed[0] != believed[1]
    for side, other in (split.sides, split.sides[::-1]):
        heard = [segment_id for author in side for segment_id in topic.last_of(author)]
        times = [topic.times_ms[at] for at in heard if topic.segments[at].head.author.hex() in other]
        assert split.since_ms - 5_000 < max(times) < split.since_ms + 200


@pytest.mark.parametrize("settings", SHAPES)
def test_a_lying_peer_is_found_out_by_all_peers_when_a_second_link_exists(settings: Settings) -> None:
    simulation = SCENARIOS["lying-peer"].run(settings)
    topic = Topic(simulation)
    (fork,) = simulation.truth.forks
    assert len(fork.branches) == 2
    assert simulation.truth.equivocations[0].ids == fork.branches
    assert not simulation.truth.splits
    for author in topic.last:
        if author.hex() != fork.author:
            assert {bytes.fromhex(branch) for branch in fork.branches} <= topic.last_of(author.hex())


def test_a_withheld_story_is_missing_and_disputed_and_named_by_one_side_only() -> None:
    truth = simulated("withheld-story").truth
    assert not truth.forks
    assert not truth.equivocations
    (split,) = truth.splits
    assert len(truth.missing) > 10
    for missing in truth.missing:
        assert missing.disputed
        assert [missing.author] == split.suspects
        assert {noop.author for noop in missing.referrers} <= set(split.sides[1])


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


def test_in_a_partition_no_knowledge_flows_and_both_sides_keep_working() -> None:
    simulation = simulated("partition-and-heal")
    topic = Topic(simulation)
    (split,) = simulation.truth.splits
    assert split.until_ms is not None
    inside = {
        segment_id: topic.segments[segment_id].head.author.hex()
        for segment_id, time_ms in topic.times_ms.items()
        if split.since_ms + 1_000 < time_ms < split.until_ms
    }
    assert set(inside.values()) == {author for side in split.sides for author in side}
    side_of = {author: number for number, side in enumerate(split.sides) for author in side}
    for segment_id, author in inside.items():
        heard = {inside[past] for past in topic.past(segment_id) if past in inside}
        assert {side_of[other] for other in heard} == {side_of[author]}


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
    ],
)
def test_settings_that_no_story_fits_are_refused(changes: dict[str, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Settings(**changes)


@pytest.mark.parametrize("name", ["hostile-input", "withheld-story"])
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


def test_a_swarm_file_says_the_same_when_it_is_read_back() -> None:
    keys = [SigningKey(bytes([number]) * 32).public.hex() for number in range(5)]
    roster = dict(zip(["1e5", "null", "2026-01-01", "0x1f", "alice"], keys, strict=True))
    start = datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
    config = swarm_config("123", roster, swarm_id="0" * 63 + "1", start=start, grace="7s")
    assert config.swarms[0].epochs[0].roster == roster
    assert config.swarms[0].epochs[0].start == start
    assert parse_config(config_yaml(config)).digest == config.digest


def test_a_swarm_file_with_a_wrong_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected an Ed25519 public key"):
        swarm_config("orders", {"alice": "00" * 32}, swarm_id="ab" * 32, start=datetime(2026, 1, 1, tzinfo=UTC))


def test_load_is_valid_repeatable_and_of_the_asked_shape() -> None:
    made = [loads.load(3, 10, segments=100, ops_per_segment=7, refs_per_segment=4) for _ in range(2)]
    records = list(made[0].records)
    assert records == list(made[1].records)
    segments = [judge(record.value, made[0].config.authors) for record in records]
    newest: dict[bytes, bytes] = {}
    for segment in segments:
        assert isinstance(segment, Segment)
        assert segment.head.previous == newest.get(segment.head.author, bytes(32))
        assert {ref.id for ref in decode_refs(segment.refs)} <= set(newest.values())
        newest[segment.head.author] = segment.id
        assert [len(op) for op in segment.ops] == [120] * 7
    assert len(newest) == 10
    last = segments[-1]
    assert isinstance(last, Segment)
    assert len(decode_refs(last.refs)) == 4


def test_a_deep_fork_is_a_chain_and_a_second_first_segment() -> None:
    config, records = loads.deep_fork(segments=50)
    segments = [judge(record.value, config.authors) for record in records]
    indexes = [segment.head.index for segment in segments if isinstance(segment, Segment)]
    assert indexes == [*range(1, 51), 1]
    assert segments[0] != segments[-1]
