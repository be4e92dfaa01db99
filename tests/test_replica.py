"""Replicas: what comes twice or in any order changes nothing, changes join what is held, and claims are true."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers import replica as replicas
from producers.replica import Outcome, Replica
from state import entity as entities
from state.clockcode import decode_clock
from state.entity import EntityLimitError
from state.limits import PARENTS_MAX
from state.update import Update, decode_update, encode_update, event_id
from tests.entitylab import SMALL, laws

SWARM = b"\7" * 32
ALICE, BOB, CAROL = (bytes([number]) * 32 for number in (1, 2, 3))
Said = list[tuple[bytes, Update]]


def new_replica(author: bytes = ALICE) -> Replica:
    return Replica(SWARM, author, b"menu", SMALL)


def said_at_random(chance: Random, count: int = 25) -> tuple[Said, dict[bytes, Replica]]:
    """What three authors say who hear of each other late, and their replicas when all have heard of everything."""
    said: Said = []
    held = {author: new_replica(author) for author in (ALICE, BOB, CAROL)}
    heard = dict.fromkeys(held, 0)
    for number in range(count):
        author = chance.choice(list(held))
        if chance.random() < 0.5:
            heard[author] = hear(held[author], said, heard[author], chance.randint(heard[author], len(said)))
        said.append((author, held[author].change(b"%d" % number)))
    for author, replica in held.items():
        hear(replica, said, heard[author], len(said))
    return said, held


def hear(replica: Replica, said: Said, begin: int, end: int) -> int:
    for author, update in said[begin:end]:
        replica.receive(author, update)
    return end


@laws
@given(st.randoms())
def test_what_comes_twice_and_in_any_order_gives_one_version(chance: Random) -> None:
    said, held = said_at_random(chance)
    replica, told = new_replica(CAROL), []
    for author, update in chance.sample(said * 2, 2 * len(said)):
        told += [event.id for event in replica.receive(author, update).events]
    assert replica.waiting == 0
    assert len({one.entity.version.digest for one in (replica, *held.values())}) == 1
    assert len({tuple(one.entity.sequence()) for one in (replica, *held.values())}) == 1
    assert len(told) == len(set(told)) == len(said)
    for event in told:
        parents = [parent.id for parent in replica.entity.event(event).parents]
        assert all(told.index(parent) < told.index(event) for parent in parents)
    before = replica.entity.version
    assert {replica.receive(author, update).outcome for author, update in said} == {Outcome.HELD}
    assert replica.entity.version is before


@laws
@given(st.randoms())
def test_every_claim_is_that_of_the_version_it_speaks_of(chance: Random) -> None:
    said, held = said_at_random(chance)
    for author, update in said:
        version = held[ALICE].entity.version_of([event_id(SWARM, author, update)])
        assert (decode_clock(update.stamp), update.digest) == (version.stamp, version.digest)
        assert decode_update(encode_update(update)) == update


def test_a_change_builds_on_all_branches_that_are_held_and_joins_them() -> None:
    alice, bob = new_replica(ALICE), new_replica(BOB)
    said = [(ALICE, alice.change(b"soup")), (BOB, bob.change(b"salad"))]
    hear(alice, said, 0, 2)
    assert len(alice.entity.tips) == 2
    joined = alice.change(b"both")
    assert joined.parents == tuple(sorted(event_id(SWARM, *one) for one in said))
    assert alice.entity.tips == (event_id(SWARM, ALICE, joined),)
    assert bob.receive(ALICE, joined).outcome is Outcome.WAITING
    assert [event.update for event in bob.receive(ALICE, said[0][1]).events] == [said[0][1], joined]
    assert bob.entity.version.digest == alice.entity.version.digest == joined.digest


def test_more_tips_than_an_update_can_name_are_joined_in_steps() -> None:
    replica = new_replica()
    for number in range(PARENTS_MAX + 40):
        author = number.to_bytes(32)
        replica.receive(author, Update(b"menu", (), b"first"))
    stated = replica.state()
    assert stated.parents == replica.entity.tips[:PARENTS_MAX]
    assert stated.digest == replica.entity.version_of(stated.parents).digest != replica.entity.version.digest
    first, second = replica.change(b"join"), replica.change(b"join")
    assert (len(first.parents), len(second.parents)) == (PARENTS_MAX, 41)
    assert len(replica.entity.tips) == 1
    assert second.digest == replica.entity.version.digest
    assert decode_update(encode_update(first)) == first


def test_a_statement_names_the_tips_and_makes_no_event() -> None:
    alice, bob = new_replica(ALICE), new_replica(BOB)
    made = alice.change(b"soup")
    stated = alice.state()
    assert stated == Update(b"menu", (event_id(SWARM, ALICE, made),), None, made.stamp, made.digest)
    assert bob.receive(ALICE, stated).outcome is Outcome.STATEMENT
    assert len(bob.entity) == 0
    assert bob.waiting == 0


def test_a_statement_without_events_speaks_of_the_empty_version() -> None:
    replica = new_replica()
    stated = replica.state()
    assert stated == Update(b"menu", digest=replica.entity.version.digest)
    assert stated.names_version


def test_a_statement_by_clock_names_no_events() -> None:
    replica = new_replica()
    made = replica.change(b"soup")
    stated = replica.state_by_clock()
    assert stated == Update(b"menu", (), None, made.stamp, made.digest)
    assert not stated.names_version
    assert not new_replica().state_by_clock().names_version


def test_false_claims_change_nothing() -> None:
    alice, bob = new_replica(ALICE), new_replica(BOB)
    made = alice.change(b"soup")
    bob.receive(ALICE, made._replace(stamp=b"nonsense", digest=b"\0" * 32))
    assert bob.entity.version.digest == alice.entity.version.digest
    assert bob.receive(ALICE, made).outcome is Outcome.HELD


def test_an_update_of_another_entity_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="want an update of b'menu', got one of b'board'"):
        new_replica().receive(BOB, Update(b"board", (), b""))


def test_of_each_author_only_so_many_wait_and_one_more_is_refused_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicas, "PENDING_MAX", 2)
    bob, replica = new_replica(BOB), new_replica()
    said = [bob.change(b"%d" % number) for number in range(4)]
    assert [replica.receive(BOB, update).outcome for update in said[1:]] == ["waiting", "waiting", "refused"]
    assert replica.receive(BOB, said[1]).outcome is Outcome.HELD
    assert replica.receive(CAROL, Update(b"menu", (bytes(32),), b"")).outcome is Outcome.WAITING
    assert replica.waiting == 3
    assert [event.update for event in replica.receive(BOB, said[0]).events] == said[:3]
    assert replica.waiting == 1
    assert replica.receive(BOB, Update(b"menu", (bytes(32),), b"")).outcome is Outcome.WAITING
    assert replica.receive(BOB, said[3]).outcome is Outcome.ADDED


def test_an_event_over_a_limit_of_the_entity_is_refused_and_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bob, replica = new_replica(BOB), new_replica()
    said = [bob.change(b"%d" % number) for number in range(3)]
    monkeypatch.setattr(entities, "EVENTS_MAX", 1)
    assert replica.receive(BOB, said[1]).outcome is Outcome.WAITING
    # What waited for it has no room either: it is dropped.
    received = replica.receive(BOB, said[0])
    assert (received.outcome, [event.update for event in received.events]) == (Outcome.ADDED, said[:1])
    assert replica.waiting == 0
    assert replica.receive(BOB, said[1]).outcome is Outcome.REFUSED
    with pytest.raises(EntityLimitError, match="events"):
        replica.change(b"mine")
    monkeypatch.undo()
    assert [replica.receive(BOB, update).outcome for update in said] == ["held", "added", "added"]
    assert replica.entity.version.digest == bob.entity.version.digest


def test_one_change_by_two_authors_is_two_events_and_by_one_on_two_branches_of_a_log_is_one() -> None:
    replica, change = new_replica(), Update(b"menu", (), b"soup")
    assert [replica.receive(author, change).outcome for author in (BOB, CAROL, BOB)] == ["added", "added", "held"]
    assert len(replica.entity) == 2
