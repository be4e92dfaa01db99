"""The scenario of replicas that part: what its text says is what comes true, in each shape of the swarm."""

import pytest

from producers.replica import Replica
from producers.replicastory import BOARD, CATALOGUE, DRAFT, ENTITIES, GAUGE, LEDGER, MENU, VAULT
from producers.simulated_peer import SimulatedPeer
from producers.simulation import BadUpdate, GroundTruth
from producers.swarm import START_MS, Settings, SimulatedSwarm, connected_swarm
from producers.truth import updates
from state.bloom import DEFAULT_PARAMETERS
from state.clockcode import read_parameters
from state.entity import Entity
from state.update import Malformed, Update, encode_update
from tests.simlab import Topic, shapes, simulated

NAME = "diverging-replicas"
SHAPED = shapes(NAME)


def peers_of(settings: Settings) -> list[str]:
    """The keys of the peers, in the order of their numbers."""
    return [peer.key.public.hex() for peer in connected_swarm(settings).peers]


def standing(truth: GroundTruth, entity: bytes) -> dict[str, tuple[str, str]]:
    return {one.author: (one.state, one.why) for one in truth.replicas if one.entity == entity.hex()}


@pytest.mark.parametrize("settings", SHAPED)
def test_every_peer_tells_its_replica_of_every_entity(settings: Settings) -> None:
    truth, peers = simulated(NAME, settings).truth, peers_of(settings)
    assert sorted((one.author, one.entity) for one in truth.replicas) == sorted(
        (peer, entity.hex()) for peer in peers for entity in ENTITIES
    )


@pytest.mark.parametrize(
    ("entity", "others"),
    [
        (BOARD, {}),
        (CATALOGUE, {2: ("behind", "")}),
        (DRAFT, {}),
        (MENU, {2: ("diverged", "branch"), 3: ("diverged", "branch")}),
        (LEDGER, {2: ("diverged", "digest")}),
        (GAUGE, {3: ("behind", ""), 4: ("diverged", "digest")}),
        (VAULT, {2: ("ahead", ""), 3: ("ahead", ""), 4: ("diverged", "clock")}),
    ],
    ids=[entity.decode() for entity in ENTITIES],
)
@pytest.mark.parametrize("settings", SHAPED)
def test_all_are_in_step_but_those_that_the_story_names(
    settings: Settings, entity: bytes, others: dict[int, tuple[str, str]]
) -> None:
    want = {peer: others.get(number, ("in_step", "")) for number, peer in enumerate(peers_of(settings), 1)}
    assert standing(simulated(NAME, settings).truth, entity) == want


@pytest.mark.parametrize("settings", SHAPED)
def test_what_a_replica_lacks_is_told_if_its_version_names_published_events(settings: Settings) -> None:
    truth, peers = simulated(NAME, settings).truth, peers_of(settings)
    for one in truth.replicas:
        number, entity = peers.index(one.author) + 1, bytes.fromhex(one.entity)
        if (one.state, one.why) == ("diverged", "branch"):
            # The two events of the other's branch.
            assert one.lacks == 2
        elif one.state == "behind" and entity == CATALOGUE:
            assert one.lacks is not None
            assert 0 < one.lacks < 12
        elif one.state == "in_step" and (number, entity) != (2, GAUGE):
            assert one.lacks == 0
        else:
            assert one.lacks is None


@pytest.mark.parametrize("settings", SHAPED)
def test_the_ledger_has_all_the_updates_that_cannot_be_right_and_nothing_else_has_one(settings: Settings) -> None:
    second, third, fourth = peers_of(settings)[1:4]
    wrong = [(fourth, "stamp"), (second, "digest"), (third, "malformed"), (third, "parameters")]
    assert simulated(NAME, settings).truth.bad_updates == sorted(
        BadUpdate(author, LEDGER.hex(), why) for author, why in wrong
    )


@pytest.mark.parametrize("settings", SHAPED)
def test_nobody_forks_and_nothing_else_is_to_be_found(settings: Settings) -> None:
    truth = simulated(NAME, settings).truth
    assert not any((truth.forks, truth.equivocations, truth.missing, truth.rejected, truth.splits))


def test_no_other_scenario_has_replicas() -> None:
    truth = simulated("honest").truth
    assert (truth.replicas, truth.bad_updates) == ([], [])


@pytest.mark.parametrize("settings", SHAPED)
def test_the_draft_forks_and_is_joined_and_the_menu_stays_forked(settings: Settings) -> None:
    entities = published(settings)
    assert any(len(entities[DRAFT].event(event).parents) == 2 for event in entities[DRAFT].sequence())
    assert (len(entities[DRAFT].tips), len(entities[MENU].tips)) == (1, 2)
    assert all(len(entities[MENU].event(event).parents) < 2 for event in entities[MENU].sequence())


@pytest.mark.parametrize("settings", SHAPED)
def test_something_is_told_by_clock_alone_and_something_builds_on_what_nobody_published(settings: Settings) -> None:
    by_clock, unheard = set(), set()
    entities = published(settings)
    for segment in Topic(simulated(NAME, settings)).segments.values():
        for told in updates(segment):
            if isinstance(told.update, Malformed):
                continue
            if not told.update.names_version:
                by_clock.add(told.update.entity)
                assert read_parameters(told.update.stamp) == DEFAULT_PARAMETERS
            elif any(parent not in entities[told.update.entity] for parent in told.update.parents):
                unheard.add(told.update.entity)
    assert (by_clock, unheard) == ({GAUGE, VAULT}, {VAULT})


def published(settings: Settings) -> dict[bytes, Entity]:
    """The entities with all published events whose past is published."""
    entities = {entity: Entity(DEFAULT_PARAMETERS) for entity in ENTITIES}
    left = [
        (told.event, told.update)
        for segment in Topic(simulated(NAME, settings)).segments.values()
        for told in updates(segment)
        if told.event is not None and isinstance(told.update, Update)
    ]
    while ready := [one for one in left if all(parent in entities[one[1].entity] for parent in one[1].parents)]:
        for event, update in ready:
            entities[update.entity].add(event, update.parents)
        left = [one for one in left if one not in ready]
    return entities


def swarm_of_three() -> tuple[SimulatedSwarm, SimulatedPeer, SimulatedPeer]:
    """With two of its peers."""
    swarm = connected_swarm(Settings(peers=3))
    one, other, _ = swarm.peers
    for peer in (one, other):
        peer.replicas[BOARD] = Replica(swarm.swarm, peer.key.public, BOARD, DEFAULT_PARAMETERS)
    return swarm, one, other


def test_a_replica_that_hears_nothing_stands_still_and_catches_up_when_it_hears_again() -> None:
    swarm, one, other = swarm_of_three()
    other.stop_hearing(BOARD)
    one.plan(lambda: encode_update(one.replicas[BOARD].change(b"first")))
    swarm.close(one)
    swarm.time.run(START_MS + 10_000)
    assert one.log[0] in other.log
    assert (len(one.replicas[BOARD].entity), len(other.replicas[BOARD].entity)) == (1, 0)
    other.hear_again(BOARD)
    assert other.replicas[BOARD].entity.version.digest == one.replicas[BOARD].entity.version.digest
    assert other.hears(BOARD)


def test_a_backup_and_a_second_face_have_replicas_of_their_own() -> None:
    swarm, one, _ = swarm_of_three()
    replica = one.replicas[BOARD]
    for number in range(600):
        replica.change(b"%d" % number)
    backup, face = one.back_up(), swarm.second_face(one, [])
    replica.change(b"later")
    assert len(face.replicas[BOARD].entity) == 600
    swarm.restore(one, backup)
    assert len(one.replicas[BOARD].entity) == 600
    one.replicas[BOARD].change(b"again")
    assert len(backup.replicas[BOARD].entity) == 600
