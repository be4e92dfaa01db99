"""The whole story, by search over what was published: honest, a lie that comes out, a split, and healing."""

import pytest

from producers.simulation import Split
from producers.swarm import PUBLISH_MS, Settings
from tests.simlab import Topic, shapes, simulated

every_shape = pytest.mark.parametrize("settings", shapes("whole-story"))


def told(settings: Settings) -> tuple[Topic, Split, int]:
    """What was published, the split and its end."""
    topic = Topic(simulated("whole-story", settings))
    (split,) = topic.simulation.truth.splits
    assert split.until_ms is not None
    return topic, split, split.until_ms


@every_shape
def test_two_peers_lie_and_the_others_stand_on_the_sides(settings: Settings) -> None:
    topic, split, _ = told(settings)
    truth = topic.simulation.truth
    assert [len(fork.branches) for fork in truth.forks] == [2, 2]
    assert [fork.author for fork in truth.forks] == [one.author for one in truth.equivocations]
    liars = {fork.author for fork in truth.forks}
    on_sides = [author for side in split.sides for author in side]
    assert sorted([*on_sides, *liars]) == sorted(author.hex() for author in topic.last)
    assert len(split.suspects) == 1
    assert set(split.suspects) < liars
    assert [truth.missing, truth.bad_index, truth.rejected, truth.skewed, truth.duplicates] == [[], [], [], [], 0]


@every_shape
def test_before_the_split_everyone_holds_both_stories_of_the_first_liar_who_has_left(settings: Settings) -> None:
    topic, split, _ = told(settings)
    (first,) = [fork for fork in topic.simulation.truth.forks if fork.author not in split.suspects]
    branches = {bytes.fromhex(branch) for branch in first.branches}
    for author in [*split.sides[0], *split.sides[1], *split.suspects]:
        before = topic.published([author], 0, split.since_ms)
        assert branches <= topic.past(max(before, key=topic.times_ms.__getitem__))
    assert topic.times_ms[topic.last[bytes.fromhex(first.author)].id] < split.since_ms


@every_shape
def test_during_the_split_nothing_is_heard_across_it_and_after_it_everything_is(settings: Settings) -> None:
    topic, split, until_ms = told(settings)
    for side, other in (split.sides, split.sides[::-1]):
        theirs = topic.published(other, split.since_ms + PUBLISH_MS[1], until_ms)
        assert {topic.segments[at].head.author.hex() for at in theirs} == set(other)
        for at in topic.published(side, split.since_ms, until_ms):
            assert theirs.isdisjoint(topic.past(at))
        for author in side:
            assert theirs <= topic.last_of(author)


@every_shape
def test_each_side_believes_one_story_of_the_bridge_until_healing_brings_both_to_all(settings: Settings) -> None:
    topic, split, until_ms = told(settings)
    (fork,) = [fork for fork in topic.simulation.truth.forks if fork.author in split.suspects]
    branches = {bytes.fromhex(branch) for branch in fork.branches}
    believed = []
    for side in split.sides:
        pasts = [topic.past(at) for at in topic.published(side, split.since_ms, until_ms)]
        believed.append(set().union(*pasts) & branches)
        for author in side:
            assert branches <= topic.last_of(author)
    assert [len(beliefs) for beliefs in believed] == [1, 1]
    assert believed[0] != believed[1]


def test_in_a_run_as_it_comes_the_split_and_what_follows_last_three_times_split_after() -> None:
    simulation = simulated("whole-story")
    (split,) = simulation.truth.splits
    assert split.until_ms is not None
    split_after_ms = simulation.config.swarms[0].epochs[0].split_after_ms
    assert split.until_ms - split.since_ms >= 3 * split_after_ms
    assert simulation.records[-1].time_ms - split.until_ms >= 3 * split_after_ms
    assert len(simulation.config.swarms[0].authors) == 8


def test_the_story_is_told_in_words() -> None:
    lines = [line.text for line in simulated("whole-story").truth.story]
    assert lines == [
        "all peers work, and everyone hears of everything",
        "peer-2 tells two stories after index 9",
        "everyone holds both stories of peer-2, and it leaves",
        "the links between peer-1, peer-3, peer-4 and peer-6, peer-7, peer-8 are cut: only peer-5 is left between them",
        "peer-5 tells two stories after index 24",
        "the links between peer-1, peer-3, peer-4 and peer-6, peer-7, peer-8 are back",
        "everyone holds both stories of peer-5, and it leaves",
    ]
