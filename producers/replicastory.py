"""The scenario of replicas that part: everyone has a replica of each of seven entities, and these fare differently.

With the peers 1 to 4; all others are honest throughout:
- board: everyone writes it. 3 hears nothing of it for a time, is behind, catches up, and all end in step.
- catalogue: 2 hears no more of it and stays behind. Its log goes on.
- draft: 1 and the last peer hear nothing of each other and write a branch each; then one event joins them.
- menu: 2 and 3 write at the same moment, and neither ever takes the other's branch.
- ledger: 4 claims a stamp that it cannot have, and 2 a digest; 3 sends an update that is none, and a stamp of another
  size.
- gauge: 2, 3 and 4 tell their versions by their clocks alone: 2 is in step, 3 behind, and 4 has other events than the
  clock lets believe.
- vault: 2, 3 and 4 have events that they publish to nobody. 2 tells it by its clock, 3 builds on one, 4 lacks events of
  the others besides.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from producers.replica import Replica
from producers.simulated_peer import SimulatedPeer
from producers.simulation import Simulation
from producers.swarm import Note, Settings, SimulatedSwarm, connected_swarm
from producers.truth import finish
from state import wire_pb2
from state.bloom import HASHES_MAX, Clock
from state.clockcode import encode_clock
from state.update import Update, encode_update

ENTITIES = (b"board", b"catalogue", b"draft", b"menu", b"ledger", b"gauge", b"vault")
BOARD, CATALOGUE, DRAFT, MENU, LEDGER, GAUGE, VAULT = ENTITIES
STATED_AT_ONCE = 2
"""Entities of which a replica is stated in each interval, in turn: so each of the seven within four intervals."""
QUIET_PART = 0.7
"""From here on nothing is written, so that all hear of everything before they state what they hold at the end."""
LAST_PART = 0.9


class Speech(NamedTuple):
    """How a replica speaks of its version, and what is wrong with that."""

    make: Callable[[Replica], Update]
    wrong: str = ""


HONEST = Speech(Replica.state)
BY_CLOCK = Speech(Replica.state_by_clock)
FALSE_DIGEST = Speech(lambda replica: _with_false_digest(replica.state()), "digest")
FALSE_BY_CLOCK = Speech(lambda replica: _with_false_digest(replica.state_by_clock()), "digest")
OTHER_SIZE = Speech(lambda replica: replica.state()._replace(stamp=_stamp_of_other_size(replica)), "parameters")
FALSE_STAMP = Speech(lambda replica: _with_false_stamp(replica, replica.change(b"more than there is")), "stamp")


def diverging_replicas(settings: Settings) -> Simulation:
    swarm = connected_swarm(settings)
    play = _Play(swarm)
    for part in (play.board, play.catalogue, play.draft, play.menu, play.ledger, play.gauge, play.vault):
        part()
    for peer in swarm.peers:
        play.restate(peer, 0)
    swarm.at(settings.part_ms(LAST_PART), play.state_all, "every replica states what it holds for the last time")
    return finish(swarm, "diverging-replicas")


class _Play:
    """The swarm, the replicas of its peers, and how those speak that do not just tell what they hold."""

    def __init__(self, swarm: SimulatedSwarm) -> None:
        self.swarm = swarm
        self.first, self.second, self.third, self.fourth = swarm.peers[:4]
        self._speeches: dict[tuple[SimulatedPeer, bytes], Speech | None] = {}
        (configured,) = swarm.config.swarms
        for peer in swarm.peers:
            for entity in ENTITIES:
                replica = Replica(swarm.swarm, peer.key.public, entity, configured.clock_parameters)
                peer.replicas[entity] = replica

    # What a replica does

    def write(self, peer: SimulatedPeer, entity: bytes) -> None:
        """Have a peer change an entity in its next segment."""
        text = f"{peer.name} at {self.swarm.time.now_ms - self.swarm.settings.start_ms} ms".encode()
        self.say(peer, entity, Speech(lambda replica: replica.change(text)))

    def write_in_turn(self, entity: bytes, writers: Sequence[SimulatedPeer], turns: int, until: float) -> None:
        """Writers that hear of the entity change it, one after another."""

        def write(peer: SimulatedPeer) -> None:
            if peer.hears(entity):
                self.write(peer, entity)

        for turn in range(turns):
            self._at(0.02 + turn * (until - 0.02) / turns, partial(write, writers[turn % len(writers)]))

    def say(self, peer: SimulatedPeer, entity: bytes, speech: Speech) -> None:
        """Have a peer say something of an entity in its next segment, and note what it knows of it."""

        def make_op() -> bytes:
            replica = peer.replicas[entity]
            op = encode_update(speech.make(replica))
            self._note(peer, op, Note(frozenset(replica.entity.sequence()), speech.wrong))
            return op

        peer.plan(make_op)

    def state(self, peer: SimulatedPeer, entity: bytes) -> None:
        speech = self._speeches.get((peer, entity), HONEST)
        if speech is not None:
            self.say(peer, entity, speech)

    def restate(self, peer: SimulatedPeer, turn: int) -> None:
        """State some replicas of a peer now, and the next ones an interval later."""
        settings = self.swarm.settings
        for at in range(turn, turn + STATED_AT_ONCE):
            self.state(peer, ENTITIES[at % len(ENTITIES)])
        if self.swarm.time.now_ms < settings.part_ms(LAST_PART) - settings.interval_ms:
            self.swarm.time.after(settings.interval_ms, partial(self.restate, peer, turn + STATED_AT_ONCE))

    def state_all(self) -> None:
        for peer in self.swarm.peers:
            for entity in ENTITIES:
                self.state(peer, entity)

    # What becomes of the entities

    def board(self) -> None:
        peers, deaf = self.swarm.peers, self.third
        self.write_in_turn(BOARD, peers, max(20, len(peers)), QUIET_PART)
        self._at(0.25, lambda: deaf.stop_hearing(BOARD), f"{deaf.name} hears nothing of the board for a time")
        self._at(0.45, lambda: deaf.hear_again(BOARD), f"{deaf.name} hears of the board again")

    def catalogue(self) -> None:
        deaf = self.second
        self.write_in_turn(CATALOGUE, [self.first], 12, QUIET_PART)
        text = f"{deaf.name} hears no more of the catalogue; its replica stands still"
        self._at(0.3, lambda: deaf.stop_hearing(CATALOGUE), text)

    def draft(self) -> None:
        pair = self.first, self.swarm.peers[-1]
        names = " and ".join(peer.name for peer in pair)

        def part() -> None:
            for peer in pair:
                peer.stop_hearing(DRAFT)

        def meet() -> None:
            for peer in pair:
                peer.hear_again(DRAFT)

        self.write_in_turn(DRAFT, [self.second], 5, 0.25)
        self._at(0.3, part, f"{names} do not hear of each other's draft and go on with it")
        for when in (0.32, 0.36, 0.4):
            for peer in pair:
                self._at(when, partial(self.write, peer, DRAFT))
        self._at(0.5, meet, f"{names} hear of the draft again")
        self._at(0.58, partial(self.write, pair[0], DRAFT), f"{pair[0].name} joins the branches of the draft")
        self._at(QUIET_PART, partial(self.write, pair[1], DRAFT))

    def menu(self) -> None:
        pair = self.second, self.third
        names = " and ".join(peer.name for peer in pair)

        def part() -> None:
            for peer in pair:
                peer.stop_hearing(MENU)
                self.write(peer, MENU)
            for peer in pair:
                self.swarm.close(peer)

        self.write_in_turn(MENU, [self.first], 5, 0.25)
        self._at(0.35, part, f"{names} write the menu at the same moment, and neither takes the other's branch")
        for peer in pair:
            self._at(0.55, partial(self.write, peer, MENU))

    def ledger(self) -> None:
        claimant, liar, odd = self.fourth, self.second, self.third
        self.write_in_turn(LEDGER, [self.first], 10, 0.6)
        for when in (0.4, 0.5):
            text = f"{claimant.name} claims a stamp of the ledger that it cannot have"
            self._at(when, partial(self.say, claimant, LEDGER, FALSE_STAMP), text)
        self._at(
            0.45, partial(self._speak, liar, LEDGER, FALSE_DIGEST), f"{liar.name} claims a false digest of the ledger"
        )
        self._at(0.5, partial(self._send_malformed, odd), f"{odd.name} sends an update of the ledger that is none")
        text = f"{odd.name} claims a stamp of the ledger of another size than the swarm's"
        self._at(0.55, partial(self.say, odd, LEDGER, OTHER_SIZE), text)

    def gauge(self) -> None:
        honest, deaf, liar = self.second, self.third, self.fourth
        for peer in (honest, deaf, liar):
            self._speak(peer, GAUGE, BY_CLOCK)
        names = ", ".join(peer.name for peer in (honest, deaf, liar))
        self.swarm.tell_story(f"{names} tell their versions of the gauge by their clocks alone")
        self.write_in_turn(GAUGE, [self.first], 12, QUIET_PART)
        self._at(0.4, lambda: deaf.stop_hearing(GAUGE), f"{deaf.name} hears no more of the gauge")
        text = f"{liar.name} claims a false digest of the gauge, with the right stamp"
        self._at(0.5, partial(self._speak, liar, GAUGE, FALSE_BY_CLOCK), text)

    def vault(self) -> None:
        keeper, builder, stray = self.second, self.third, self.fourth

        def build() -> None:
            self._keep_secret(builder, 1)
            self.write(builder, VAULT)
            self._speak(builder, VAULT, None)

        def stray_off() -> None:
            stray.stop_hearing(VAULT)
            self._keep_secret(stray, 3)
            self._speak(stray, VAULT, BY_CLOCK)

        def keep() -> None:
            self._keep_secret(keeper, 2)
            self._speak(keeper, VAULT, BY_CLOCK)

        self.write_in_turn(VAULT, [self.first], 10, 0.6)
        text = f"{stray.name} hears no more of the vault and changes it without a word; it tells its clock alone"
        self._at(0.35, stray_off, text)
        self._at(QUIET_PART, build, f"{builder.name} builds on an event of the vault that nobody publishes")
        self._at(QUIET_PART, keep, f"{keeper.name} changes the vault without a word; it tells its clock alone")

    # How it is done

    def _at(self, part: float, action: Callable[[], object], text: str = "") -> None:
        time_ms = self.swarm.settings.part_ms(part)
        if text:
            self.swarm.at(time_ms, action, text)
        else:
            self.swarm.time.at(time_ms, action)

    def _speak(self, peer: SimulatedPeer, entity: bytes, speech: Speech | None) -> None:
        """From now on a peer states its replica of an entity in this way, or not at all."""
        self._speeches[peer, entity] = speech

    @staticmethod
    def _keep_secret(peer: SimulatedPeer, events: int) -> None:
        for number in range(events):
            peer.replicas[VAULT].change(f"secret {number} of {peer.name}".encode())

    def _send_malformed(self, peer: SimulatedPeer) -> None:
        op = wire_pb2.Op(update=wire_pb2.Update(entity=LEDGER, digest=b"short")).SerializeToString()
        self._note(peer, op, Note(frozenset(), "malformed"))
        peer.plan(lambda: op)

    def _note(self, peer: SimulatedPeer, op: bytes, note: Note) -> None:
        self.swarm.notes[peer.key.public, op] = note


def _with_false_digest(update: Update) -> Update:
    return update._replace(digest=bytes(byte ^ 0xFF for byte in update.digest))


def _with_false_stamp(replica: Replica, update: Update) -> Update:
    """As if there were an event besides those that it builds on."""
    return update._replace(stamp=encode_clock(replica.entity.version.stamp.after(b"an event that never was")))


def _stamp_of_other_size(replica: Replica) -> bytes:
    parameters = replica.entity.version.stamp.parameters
    return encode_clock(Clock.zero(parameters._replace(hashes=parameters.hashes % HASHES_MAX + 1)))
