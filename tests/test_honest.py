"""Swarms in which every peer is honest: whatever fails, nobody is to be accused, and knowledge flows again."""

from itertools import pairwise
from statistics import median

import pytest

from producers.swarm import PUBLISH_MS, START_MS, Settings
from producers.swarmfile import config_yaml
from state.config import parse_config
from tests.simlab import SHAPES, Topic, findings, simulated


@pytest.mark.parametrize("settings", SHAPES)
@pytest.mark.parametrize("name", ["honest", "partition-and-heal", "pause"])
def test_an_honest_swarm_converges_so_that_last_noops_cover_all_but_the_newest(name: str, settings: Settings) -> None:
    topic = Topic(simulated(name, settings))
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


@pytest.mark.parametrize("settings", SHAPES)
@pytest.mark.parametrize("name", ["honest", "pause", "gone-for-good", "rare-noops", "epochs"])
def test_nothing_is_to_be_found(name: str, settings: Settings) -> None:
    truth = simulated(name, settings).truth
    assert findings(truth) == []
    assert truth.duplicates == 0


@pytest.mark.parametrize("settings", SHAPES)
def test_in_a_pause_nobody_publishes_and_then_all_do(settings: Settings) -> None:
    topic = Topic(simulated("pause", settings))
    authors = [author.hex() for author in topic.last]
    since_ms, until_ms = (line.time_ms for line in topic.simulation.truth.story)
    assert until_ms - since_ms >= 0.2 * settings.duration_ms
    assert not topic.published(authors, since_ms + PUBLISH_MS[1], until_ms)
    for author in authors:
        assert topic.published([author], START_MS, since_ms)
        assert topic.published([author], until_ms, until_ms + 2 * settings.interval_ms)


def test_the_pause_of_a_run_as_it_comes_is_three_times_split_after() -> None:
    simulation = simulated("pause")
    since_ms, until_ms = (line.time_ms for line in simulation.truth.story)
    assert until_ms - since_ms == 3 * simulation.config.swarms[0].epochs[0].split_after_ms


@pytest.mark.parametrize("settings", SHAPES)
def test_a_peer_that_is_gone_for_good_publishes_no_more_and_the_others_go_on(settings: Settings) -> None:
    topic = Topic(simulated("gone-for-good", settings))
    gone = topic.simulation.config.swarms[0].author(f"peer-{settings.peers}")
    assert gone is not None
    (line,) = topic.simulation.truth.story
    end_ms = max(topic.times_ms.values())
    assert topic.times_ms[topic.last[gone].id] <= line.time_ms + PUBLISH_MS[1]
    others = [author.hex() for author in topic.last if author != gone]
    theirs = topic.published(others, line.time_ms, end_ms - 4_000)
    for author in others:
        assert theirs <= topic.last_of(author)


@pytest.mark.parametrize("settings", [*SHAPES, Settings(split_after="20s"), Settings(interval_ms=3_000)])
def test_rare_noops_come_less_than_three_times_in_a_split_after(settings: Settings) -> None:
    topic = Topic(simulated("rare-noops", settings))
    times: dict[bytes, list[int]] = {}
    for at, segment in topic.segments.items():
        times.setdefault(segment.head.author, []).append(topic.times_ms[at])
    for own in times.values():
        # The last one is closed when the run ends, whenever that is.
        gaps = [later - earlier for earlier, later in pairwise(own[:-1])]
        assert 3 * median(gaps) > settings.split_after_ms


@pytest.mark.parametrize("settings", SHAPES)
def test_in_each_epoch_only_its_own_roster_publishes_all_of_it(settings: Settings) -> None:
    simulation = simulated("epochs", settings)
    swarm, topic = simulation.config.swarms[0], Topic(simulation)
    first, second = swarm.epochs
    published: dict[int, set[str]] = {first.start_ms: set(), second.start_ms: set()}
    for at, segment in topic.segments.items():
        epoch = swarm.epoch_at(topic.times_ms[at])
        assert epoch is not None
        published[epoch.start_ms].add(segment.head.author.hex())
    assert published == {epoch.start_ms: set(epoch.roster.values()) for epoch in (first, second)}
    assert first.roster.keys() - second.roster.keys() == {"peer-1"}
    assert second.roster.keys() - first.roster.keys() == {f"peer-{settings.peers}"}


@pytest.mark.parametrize("settings", SHAPES)
def test_a_newcomer_comes_to_hold_what_was_before_it_and_is_heard(settings: Settings) -> None:
    simulation = simulated("epochs", settings)
    first, second = simulation.config.swarms[0].epochs
    topic = Topic(simulation)
    newcomer = second.roster[f"peer-{settings.peers}"]
    stay = first.roster.keys() & second.roster.keys()
    before = topic.published([first.roster[name] for name in stay], first.start_ms, second.start_ms)
    assert before <= topic.last_of(newcomer)
    early = topic.published([newcomer], second.start_ms, second.start_ms + 3 * settings.interval_ms)
    assert early
    for name in stay:
        assert early <= topic.last_of(second.roster[name])


def test_the_second_epoch_starts_at_a_moment_of_the_run_whenever_that_is() -> None:
    settings = Settings(start_ms=START_MS + 86_400_123)
    config = simulated("epochs", settings).config
    assert [epoch.start_ms for epoch in config.swarms[0].epochs] == [START_MS, settings.part_ms(0.5)]
    assert parse_config(config_yaml(config)) == config
