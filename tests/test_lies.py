"""Swarms with a liar: who is parted from whom, and who comes to hold the proof, by search over what was published."""

import pytest

from producers.swarm import PUBLISH_MS, Settings
from tests.simlab import SHAPES, Topic, shapes, simulated


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
    simulation = simulated("lying-peer", settings)
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


@pytest.mark.parametrize("settings", shapes("silent-listener"))
def test_a_silent_listener_hears_both_sides_and_is_in_nobodys_past(settings: Settings) -> None:
    simulation = simulated("silent-listener", settings)
    topic, (split,), (fork,) = Topic(simulation), simulation.truth.splits, simulation.truth.forks
    listener = simulation.config.swarms[0].author(f"peer-{settings.peers}")
    assert listener is not None
    on_sides = [author for side in split.sides for author in side]
    assert sorted([*on_sides, fork.author, listener.hex()]) == sorted(author.hex() for author in topic.last)
    assert split.suspects == [fork.author]
    last_ms = max(topic.times_ms.values()) - 4_000
    heard = topic.last_of(listener.hex())
    assert {bytes.fromhex(branch) for branch in fork.branches} <= heard
    for side, other in (split.sides, split.sides[::-1]):
        since = topic.published(side, split.since_ms + PUBLISH_MS[1], last_ms)
        assert since
        assert since <= heard
        assert not any(since & topic.last_of(author) for author in other)
    own = {at for at, segment in topic.segments.items() if segment.head.author == listener}
    for at in topic.segments.keys() - own:
        assert own.isdisjoint(name.id for name in topic.names(at))


@pytest.mark.parametrize("settings", SHAPES)
def test_an_orphan_branch_stands_on_the_topic_and_in_no_peers_past(settings: Settings) -> None:
    simulation = simulated("orphan-branch", settings)
    topic, (fork,) = Topic(simulation), simulation.truth.forks
    assert len(fork.branches) == 2
    assert simulation.truth.equivocations[0].ids == fork.branches
    assert not simulation.truth.splits
    branches = [
        {at for at in topic.segments if bytes.fromhex(branch) in topic.past(at)} - topic.past(bytes.fromhex(branch))
        for branch in fork.branches
    ]
    orphan, told = sorted(branches, key=len)
    assert len(orphan) > 5
    assert {topic.segments[at].head.author.hex() for at in orphan} == {fork.author}
    assert {topic.segments[at].head.author for at in told} == topic.last.keys()
