"""Proof files: that all that is accepted or known can be proved, and that nothing but the real thing is believed."""

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from state import merkle
from state.config import Config, Rule
from state.head import NO_PREVIOUS, head_id
from state.history import Standing, quorum
from state.proof import check_proof
from state.prooffile import PROOF_BYTES_MAX, config_digest, decode_proof, encode_proof
from state.prove import make_accepted, make_known
from state.segment import Ref, Segment, build, seal
from state.signedfile import ProofError
from tests.prooflab import (
    KEYS,
    NAMES,
    SCENARIO_NAMES,
    START,
    START_MS,
    SWARM_ID,
    Lab,
    Peers,
    config_of,
    rival,
    simulated_lab,
    small_lab,
)

MAKERS = {"accepted": make_accepted, "known": make_known}


def refusal(encoded: bytes, config: Config | None = None, forkers: frozenset[bytes] = frozenset()) -> str:
    with pytest.raises(ProofError) as caught:
        check_proof(encoded, config or config_of(), forkers)
    told = str(caught.value)
    assert "\n" not in told
    return told


def cannot_make(make: Callable[..., bytes], lab: Lab, noop: Segment, rule: str = "majority", **more: Any) -> str:
    with pytest.raises(ProofError) as caught:
        make(lab.history, lab.swarm, rule, noop.id, **more)
    return str(caught.value)


@functools.cache
def proof_of(form: str, rule: str = "majority") -> bytes:
    """One file of each form, about alice's first segment: a chain of one head, a path, ways of several hops."""
    lab = small_lab()
    claim, _, part = form.partition(" ")
    op = {"": None, "full": 2, "light": 3}[part]
    return MAKERS[claim](lab.history, lab.swarm, rule, lab.at("alice", 1).id, op, light=part == "light")


def changed(form: str, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """A proof with a change to its JSON, spelled in the one way."""
    tree = msgspec.json.decode(proof_of(form))
    change(tree)
    return msgspec.json.format(msgspec.json.encode(tree), indent=2) + b"\n"


def flip(text: str, at: int = -1) -> str:
    """The same hex digits but one."""
    at %= len(text)
    return text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :]


@pytest.mark.parametrize("claim", MAKERS)
@pytest.mark.parametrize("name", SCENARIO_NAMES)
def test_whatever_is_accepted_or_known_can_be_proved_and_nothing_else(name: str, claim: str) -> None:
    lab = simulated_lab(name)
    (epoch,) = lab.swarm.epochs
    proved = 0
    for noop, segment in lab.history.segments.items():
        standing, author = Standing(lab.history, noop), segment.head.author
        firsts = standing.endorsed_by if claim == "accepted" else standing.covered_by
        for rule in epoch.thresholds:
            counted = quorum(firsts, author, epoch.members, rule)
            if counted is None:
                cannot_make(MAKERS[claim], lab, segment, rule.name)
                continue
            op, light = (1, proved % 2 == 0) if segment.ops and proved % 3 else (None, False)
            encoded = MAKERS[claim](lab.history, lab.swarm, rule.name, noop, op, light=light)
            found = check_proof(encoded, lab.config)
            assert (found.segment, found.rule, found.accepted) == (segment.ref, rule, claim == "accepted")
            assert set(found.observers) == set(counted)
            assert (found.op is not None and found.op.op == segment.ops[0]) if op else found.op is None
            proved += 1
    assert proved >= 15


@pytest.mark.parametrize("form", ["accepted full", "accepted light", "known light"])
def test_every_single_flipped_bit_is_refused_and_its_place_is_named(form: str) -> None:
    encoded, config = proof_of(form, "2"), config_of()
    check_proof(encoded, config)
    for at in range(len(encoded)):
        for bit in range(8):
            flipped = encoded[:at] + bytes([encoded[at] ^ 1 << bit]) + encoded[at + 1 :]
            assert refusal(flipped, config).partition(":")[0], (at, bit)


@pytest.mark.parametrize("form", ["accepted", "known", "known full"])
def test_flips_anywhere_in_the_other_forms_are_refused_too(form: str) -> None:
    encoded, config = proof_of(form), config_of()
    check_proof(encoded, config)
    for at in range(0, len(encoded), 7):
        refusal(encoded[:at] + bytes([encoded[at] ^ 1]) + encoded[at + 1 :], config)


@pytest.mark.parametrize(
    ("form", "path", "where"),
    [
        ("accepted", ("segment", "head"), "segment.signature"),
        ("accepted", ("segment", "signature"), "segment.signature"),
        ("accepted", ("config",), "config"),
        ("accepted", ("observers", 0, "noop", "head"), "observers[0].noop.signature"),
        ("accepted", ("observers", 1, "noop", "signature"), "observers[1].noop.signature"),
        ("accepted", ("observers", 0, "path", 0, "digest"), "observers[0].path"),
        ("accepted", ("observers", 0, "chain", 0), "observers[0].path"),
        ("accepted full", ("op", "before", 0), "op"),
        ("accepted full", ("op", "op"), "op"),
        ("accepted full", ("op", "after", 1), "op"),
        ("accepted light", ("op", "before"), "op"),
        ("known", ("observers", 0, "refs"), "observers[0].refs"),
        ("known", ("observers", 0, "way", 0, "head"), "observers[0].refs"),
        ("known", ("observers", 1, "way", 0, "head"), "observers[1].refs"),
    ],
)
def test_a_flipped_digit_is_blamed_on_the_place_where_it_shows(
    form: str, path: tuple[str | int, ...], where: str
) -> None:
    def change(tree: Any) -> None:
        *above, last = path
        for step in above:
            tree = tree[step]
        tree[last] = flip(tree[last])

    assert refusal(changed(form, change)).startswith(f"{where}:")


def test_the_sentence_of_an_accepted_op_says_who_by_which_rule_and_what_it_tolerates() -> None:
    lab = small_lab()
    proved = check_proof(proof_of("accepted full"), lab.config)
    assert proved.op is not None
    assert (proved.op.number, proved.op.ops_count, proved.op.op) == (2, 4, lab.at("alice", 1).ops[1])
    told = proved.sentence()
    for words in (
        "op 2 of 4",
        "segment 1 of alice",
        "swarm lab",
        "by the rule majority: 3 of 4 peers",
        "(alice, bob, carol)",
        "unless at least 2 of the 4 lie, alice included: the rule tolerates 1",
        "2026-01-01T00:00:00",
        "not signed by anybody",
    ):
        assert words in told


def test_the_sentence_of_known_promises_less() -> None:
    told = check_proof(proof_of("known"), config_of()).sentence()
    assert "segment 1 of alice" in told
    assert "signed noops whose pasts hold it" in told
    assert "unless all 3 lie" in told
    assert "another version" in told


def test_the_light_form_leaves_out_the_ops_before_the_one_it_is_about() -> None:
    ops = small_lab().at("alice", 1).ops
    light, full = (decode_proof(proof_of(f"accepted {part}")).op for part in ("light", "full"))
    assert light is not None
    assert full is not None
    assert isinstance(light.before, str)
    assert (light.op, *light.after) == (ops[2].hex(), ops[3].hex())
    assert (*full.before, full.op, *full.after) == tuple(op.hex() for op in ops)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("light", [False, True])
def test_each_op_of_a_segment_can_be_proved_with_its_number(number: int, light: bool) -> None:
    lab = small_lab()
    segment = lab.at("alice", 2)
    proved = check_proof(make_accepted(lab.history, lab.swarm, "1", segment.id, number, light=light), lab.config)
    assert proved.op == (number, 4, segment.ops[number - 1])


@pytest.mark.parametrize("number", [0, 5])
def test_an_op_that_the_segment_does_not_have_is_told(number: int) -> None:
    lab = small_lab()
    assert "1 to 4" in cannot_make(make_accepted, lab, lab.at("alice", 1), "1", op=number)


def test_an_op_cannot_pass_for_another_number() -> None:
    def move(tree: Any) -> None:
        tree["op"]["before"].append(tree["op"]["op"])
        tree["op"]["op"] = tree["op"]["after"].pop(0)

    # This is the honest proof of the next op; with one op dropped or doubled it is none.
    proved = check_proof(changed("accepted full", move), config_of())
    assert proved.op is not None
    assert proved.op.number == 3
    assert "as many ops" in refusal(changed("accepted full", lambda tree: tree["op"]["before"].clear()))
    assert "as many ops" in refusal(changed("accepted full", lambda tree: tree["op"]["after"].append("00")))
    assert "lead to the hash" in refusal(changed("accepted light", lambda tree: tree["op"]["after"].clear()))
    assert "as many ops" in refusal(changed("accepted light", lambda tree: tree["op"]["after"].extend(["00"] * 4)))


def test_a_segment_without_ops_is_proved_and_has_no_op() -> None:
    peers = Peers()
    empty = peers.close("alice", ops=0)
    lab = peers.lab()
    assert check_proof(make_accepted(lab.history, lab.swarm, "1", empty.id), lab.config).op is None
    assert "1 to 0" in cannot_make(make_accepted, lab, empty, "1", op=1)


@pytest.mark.parametrize("form", ["accepted", "known"])
def test_an_observer_does_not_count_twice(form: str) -> None:
    def double(tree: Any) -> None:
        tree["observers"][1] = tree["observers"][0]

    assert "a second time" in refusal(changed(form, double))
    assert "sorted by key" in refusal(changed(form, lambda tree: tree["observers"].reverse()))
    assert "got 2" in refusal(changed(form, lambda tree: tree["observers"].pop()))


@pytest.mark.parametrize("form", ["accepted", "known"])
def test_the_author_does_not_count_twice(form: str) -> None:
    second = small_lab().at("alice", 2)

    def add_author(tree: Any) -> None:
        tree["observers"][0]["noop"] = {"head": second.head_bytes.hex(), "signature": second.signature.hex()}

    assert "counts already" in refusal(changed(form, add_author))


def test_a_roster_that_the_prover_did_not_mean_is_refused() -> None:
    assert refusal(proof_of("accepted"), config_of(("alice", "bob", "dave"))).startswith("config:")
    assert refusal(proof_of("accepted"), config_of((*NAMES, "mallory"))).startswith("config:")


def forged_for(config: Config, form: str = "accepted") -> bytes:
    """A proof with the digest that this configuration asks for."""
    (swarm,) = config.swarms
    rule = swarm.epochs[0].rule("majority")
    assert rule is not None
    return changed(form, lambda tree: tree.update(config=config_digest(swarm, swarm.epochs[0], rule)))


@pytest.mark.parametrize("form", ["accepted", "known"])
def test_peers_outside_the_verifiers_roster_do_not_count_whatever_the_file_says(form: str) -> None:
    without_carol = config_of(("alice", "bob", "dave"))
    assert "a peer of that epoch's roster" in refusal(forged_for(without_carol, form), without_carol)
    without_alice = config_of(("bob", "carol", "dave"))
    assert "an author of that epoch's roster" in refusal(forged_for(without_alice, form), without_alice)


def test_an_epoch_or_a_rule_that_the_verifier_does_not_have_is_refused() -> None:
    later = config_of(start=START + timedelta(days=1))
    assert refusal(proof_of("accepted"), later).startswith("epoch_ms:")
    assert refusal(proof_of("accepted"), config_of(rules=("everyone",))).startswith("rule:")
    everyone = changed("accepted", lambda tree: tree.update(rule="everyone"))
    assert refusal(everyone).startswith("config:")


def test_a_name_of_a_rule_that_means_another_number_is_refused() -> None:
    lab = small_lab()
    encoded = make_accepted(lab.history, lab.swarm, "1", lab.at("alice", 1).id)
    two = encoded.replace(b'"rule": "1"', b'"rule": "2"')
    assert refusal(two).startswith("config:")


def test_a_swarm_that_the_verifier_does_not_know_is_refused() -> None:
    (swarm,) = config_of().swarms
    other = Config((msgspec.structs.replace(swarm, id="11" * 32),))
    assert "a swarm of your file" in refusal(proof_of("accepted"), other)


@pytest.mark.parametrize("form", ["accepted", "known"])
def test_an_observers_head_of_another_swarm_is_refused(form: str) -> None:
    elsewhere = build(
        KEYS["bob"], swarm=bytes(32), index=1, previous=NO_PREVIOUS, time_ms=START_MS, ops=[], root=bytes(32)
    )
    at = [observer.noop.head[80:144] for observer in decode_proof(proof_of(form)).observers].index(
        KEYS["bob"].public.hex()
    )

    def move(tree: Any) -> None:
        tree["observers"][at]["noop"] = {"head": elsewhere.head_bytes.hex(), "signature": elsewhere.signature.hex()}

    assert "of the same swarm" in refusal(changed(form, move))


def test_proven_forkers_are_taken_out_of_the_count() -> None:
    carol, dave = KEYS["carol"].public, KEYS["dave"].public
    told = refusal(proof_of("accepted"), forkers=frozenset([carol]))
    assert "got 2: carol signed two versions" in told
    assert "got 2: alice signed two versions" in refusal(proof_of("known"), forkers=frozenset([KEYS["alice"].public]))
    assert len(check_proof(proof_of("accepted"), config_of(), frozenset([dave])).observers) == 3


def test_a_proof_without_the_forkers_can_be_asked_for() -> None:
    peers = Peers()
    first = peers.close("alice")
    for name in ("bob", "carol", "dave"):
        peers.tell(name, "alice")
        peers.close(name)
    lab, forkers = peers.lab(), frozenset([KEYS["bob"].public])
    proof = make_accepted(lab.history, lab.swarm, "majority", first.id, forkers=forkers)
    assert KEYS["dave"].public in check_proof(proof, lab.config, forkers).observers
    author = frozenset([KEYS["alice"].public])
    without_author = make_accepted(lab.history, lab.swarm, "majority", first.id, forkers=author)
    proved = check_proof(without_author, lab.config, author)
    assert proved.forkers == tuple(author)
    assert "Proven forkers do not count: alice" in proved.sentence()
    assert "3 can be called, the author included" in cannot_make(make_accepted, lab, first, "everyone", forkers=forkers)
    assert "3 can be called, the author left out" in cannot_make(make_accepted, lab, first, "everyone", forkers=author)


def test_other_swarms_later_epochs_and_other_names_beside_do_not_matter() -> None:
    (swarm,) = config_of().swarms
    (epoch,) = swarm.epochs
    roster = {f"{name}-2": key for name, key in reversed(epoch.roster.items())}
    later = msgspec.structs.replace(epoch, start=START + timedelta(days=1), roster=dict(list(roster.items())[:2]))
    renamed = msgspec.structs.replace(epoch, roster=roster, rules=("majority", 2), split_after="3s")
    other = msgspec.structs.replace(swarm, id="22" * 32, name="other")
    config = Config((other, msgspec.structs.replace(swarm, name="mine", epochs=(renamed, later), grace="9s")))
    assert "swarm mine" in check_proof(proof_of("accepted"), config).sentence()


def test_a_segment_is_proved_by_the_rules_of_the_epoch_in_which_it_was_published() -> None:
    lab = small_lab()
    (epoch,) = lab.swarm.epochs
    later = msgspec.structs.replace(epoch, start=START + timedelta(seconds=1), rules=(2,))
    swarm = msgspec.structs.replace(lab.swarm, epochs=(epoch, later))
    second = lab.at("alice", 2).id
    proved = check_proof(make_accepted(lab.history, swarm, "2", second), Config((swarm,)))
    assert (proved.epoch, proved.rule) == (later, Rule("2", 2, 4))
    with pytest.raises(ProofError, match="has no rule 'majority': it has 2"):
        make_accepted(lab.history, swarm, "majority", second)


def test_a_segment_that_no_epoch_or_no_roster_judges_cannot_be_proved() -> None:
    lab = small_lab()
    late = Lab(config_of(start=START + timedelta(days=1)), lab.history)
    assert "before the first epoch" in cannot_make(make_accepted, late, lab.at("alice", 1))
    epoch = lab.swarm.epochs[0]
    roster = {name: key for name, key in epoch.roster.items() if name != "alice"}
    later = msgspec.structs.replace(epoch, start=START + timedelta(seconds=1), roster=roster)
    left = Lab(Config((msgspec.structs.replace(lab.swarm, epochs=(epoch, later)),)), lab.history)
    assert "not in the roster" in cannot_make(make_known, left, lab.at("alice", 2))


def test_a_root_that_does_not_fit_is_passed_over_for_a_later_noop_or_another_peer() -> None:
    peers = Peers()
    first = peers.close("alice")
    for name in ("bob", "carol"):
        peers.tell(name, "alice")
    peers.close("bob", root=bytes(32))
    peers.close("carol")
    lab = peers.lab()
    told = cannot_make(make_accepted, lab, first)
    assert "2 can be called" in told
    assert "1 more signed roots that do not fit what their pasts bear, bob first" in told
    honest_again = peers.close("bob")
    lab = peers.lab()
    encoded = make_accepted(lab.history, lab.swarm, "majority", first.id)
    assert honest_again.head_bytes.hex() in encoded.decode()
    assert KEYS["bob"].public in check_proof(encoded, lab.config).observers


def test_a_lie_in_a_root_proves_nothing_for_the_segment_it_is_not_about() -> None:
    peers = Peers()
    first, other = peers.close("alice"), peers.close("dave")
    peers.tell("bob", "dave")
    peers.close("bob")
    peers.tell("carol", "alice")
    peers.close("carol")
    lab = peers.lab()
    ours = make_accepted(lab.history, lab.swarm, "1", first.id)
    theirs = msgspec.json.decode(
        make_accepted(lab.history, lab.swarm, "1", other.id, forkers=frozenset([KEYS["dave"].public]))
    )
    mixed = msgspec.json.decode(ours)
    mixed["observers"] = theirs["observers"]
    encoded = msgspec.json.format(msgspec.json.encode(mixed), indent=2) + b"\n"
    assert refusal(encoded).startswith("observers[0].path:")


def test_a_chain_must_be_of_the_authors_heads_one_after_another() -> None:
    bob = small_lab().at("bob", 1).head_bytes.hex()

    def with_chain(chain: list[str]) -> Callable[[dict[str, Any]], None]:
        def change(tree: Any) -> None:
            tree["observers"][0]["chain"] = chain

        return change

    follows = "expected the head that follows noop 1"
    assert follows in refusal(changed("accepted", with_chain([bob])))
    (link,) = decode_proof(proof_of("accepted")).observers[0].chain
    assert "follows noop 2" in refusal(changed("accepted", with_chain([link, link])))
    assert refusal(changed("accepted", with_chain([]))).startswith("observers[0].path:")


def test_a_chain_may_not_skip_an_index_whoever_signed_it() -> None:
    alice = small_lab().at("alice", 2)
    leap = alice.head._replace(index=7).encode()
    line = Ref(alice.head.author, 7, head_id(leap))
    lie = build(
        KEYS["bob"],
        swarm=SWARM_ID,
        index=1,
        previous=NO_PREVIOUS,
        time_ms=START_MS,
        ops=[],
        root=merkle.root([line.encode()]),
    )

    def add(tree: Any) -> None:
        noop = {"head": lie.head_bytes.hex(), "signature": lie.signature.hex()}
        tree["observers"] = [{"noop": noop, "chain": [leap.hex()], "path": []}]

    assert refusal(changed("accepted", add)).startswith("observers[0].chain[0]: expected the head that follows noop 1")


def test_a_head_that_cannot_be_a_link_of_a_chain_is_refused_even_if_it_is_signed() -> None:
    alice = small_lab().at("alice", 1)
    odd = seal(KEYS["alice"], alice.head._replace(version=2), (), b"")
    signed = {"head": odd.head_bytes.hex(), "signature": odd.signature.hex()}
    assert "a head of version 1" in refusal(changed("accepted", lambda tree: tree.update(segment=signed)))


def test_a_way_must_name_each_noop_by_author_index_and_id() -> None:
    def cut(tree: Any) -> None:
        tree["observers"][1]["way"].pop()

    def add_refs(tree: Any) -> None:
        tree["observers"][0]["way"][-1]["refs"] = "00" * 72

    assert refusal(changed("known", cut)).startswith("observers[1].")
    assert "expected none" in refusal(changed("known", add_refs))


def test_what_conflicts_is_not_accepted_and_cannot_be_proved() -> None:
    peers = Peers()
    one, other = peers.close("alice"), rival("alice")
    peers.publish(other, START_MS + 1)
    peers.tell("bob", "alice")
    peers.close("bob")
    for name in ("carol", "dave"):
        peers.holdings[name].receive(other)
    peers.tell("carol", "alice")
    peers.close("carol")
    peers.close("dave")
    lab = peers.lab()
    assert "2 can be called" in cannot_make(make_accepted, lab, one)
    assert "2 can be called" in cannot_make(make_accepted, lab, other)
    check_proof(make_known(lab.history, lab.swarm, "majority", one.id), lab.config)
    check_proof(make_known(lab.history, lab.swarm, "majority", other.id), lab.config)


def test_a_segment_whose_own_past_is_not_complete_is_accepted_by_nobody_not_even_its_author() -> None:
    peers = Peers()
    peers.close("alice")
    peers.tell("bob", "alice")
    segment = peers.close("bob")
    peers.copies.pop(0)
    assert "index 1 of alice is missing from its own past" in cannot_make(make_accepted, peers.lab(), segment, "1")


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b"\xff" * 100, proof_of("accepted")[:-1]])
def test_what_is_no_proof_file_is_refused_in_one_sentence(content: bytes) -> None:
    refusal(content)


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert "at most" in refusal(b" " * (PROOF_BYTES_MAX + 1))


def test_a_proof_that_nobody_would_read_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state.prove.PROOF_BYTES_MAX", 1000)
    lab = small_lab()
    assert "more than the 1000" in cannot_make(make_known, lab, lab.at("alice", 1))


def test_a_second_spelling_is_refused() -> None:
    encoded = proof_of("accepted")
    assert encode_proof(decode_proof(encoded)) == encoded
    assert "one spelling" in refusal(encoded + b"\n")
    assert "one spelling" in refusal(msgspec.json.encode(msgspec.json.decode(encoded)))
    upper = changed("accepted", lambda tree: tree["segment"].update(head=tree["segment"]["head"].upper()))
    assert "lower-case" in refusal(upper)
