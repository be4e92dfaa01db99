"""Verdicts: joining them is a semilattice for every kind, they survive JSON, and the logs fold never takes one back."""

import json
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.fold import Arrival, Arrivals, Message
from state.head import NO_PREVIOUS
from state.limits import BRANCHES_MAX, REFERRERS_MAX
from state.logs import LogsFold
from state.segment import Ref
from state.verdict import (
    KINDS,
    Accepted,
    BadIndex,
    BadUpdate,
    Belief,
    Believer,
    ClockSkew,
    Equivocation,
    Fork,
    Known,
    Limit,
    Missing,
    Named,
    OneWay,
    Quarantine,
    Replica,
    Signed,
    Silent,
    Split,
    Suspect,
    Undecidable,
    Verdict,
    decode_verdict,
    encode_verdict,
    join,
    json_schema,
    key_of,
    kind_of,
)
from state.words import describe
from tests.loglab import AUTHORS, GRACE_MS, START_MS, Copy, batches_of, histories, lab_config, noop

SWARM, AUTHOR = "aa" * 32, "bb" * 32
CONFIG = lab_config()
times = st.integers(0, 2**53 - 1)
configs = st.sampled_from(["01" * 32, "02" * 32])


def hex_id(number: int) -> str:
    return sha256(b"%d" % number).hexdigest()


@st.composite
def signed(draw: st.DrawFn, number: int | None = None) -> Signed:
    """A head among a few: the id fixes the head, but a head can be signed in several ways and seen at several times."""
    number = draw(st.integers(0, BRANCHES_MAX + 5)) if number is None else number
    return Signed(hex_id(number), f"{number:0440x}", draw(st.sampled_from(["0a", "0b", "0c"])) * 64, draw(times))


@st.composite
def heads(draw: st.DrawFn, least: int, most: int) -> tuple[Signed, ...]:
    """Different heads, sorted by id, as they stand in a verdict."""
    numbers = draw(st.lists(st.integers(0, BRANCHES_MAX + 5), min_size=least, max_size=most, unique=True))
    return tuple(sorted((draw(signed(number)) for number in numbers), key=lambda head: head.id))


named = st.builds(Named, st.just(AUTHOR), st.integers(1, 40), st.just(hex_id(0)))
referrers = st.lists(named, min_size=1, max_size=REFERRERS_MAX, unique=True).map(lambda names: tuple(sorted(names)))


def about(kind: type[Verdict], **facts: Any) -> st.SearchStrategy[Any]:
    """Verdicts of one key: what the key says is fixed, the facts are drawn."""
    return st.builds(kind, key=st.just(key_of(kind, SWARM, "x")), swarm=st.just(SWARM), config=configs, **facts)


def spread(kind: type[Verdict], when: str, **facts: Any) -> st.SearchStrategy[Any]:
    """How far one noop has come: who the observers are and the sum of their times fix the time of the last of them."""
    verdicts = about(
        kind,
        author=AUTHOR_ONLY,
        index=st.just(4),
        id=st.just(hex_id(4)),
        published_ms=few_times,
        epoch_ms=st.just(0),
        rule=st.just("majority"),
        k=st.just(2),
        n=st.just(3),
        observers=st.sampled_from(["3", "5", "6"]),
        times_ms=few_times,
        **{when: st.just(0)},
        **facts,
    )
    return verdicts.map(lambda v: msgspec.structs.replace(v, **{when: 2 * v.times_ms + int(v.observers, 16)}))


def episode(kind: type[Verdict], **facts: Any) -> st.SearchStrategy[Any]:
    return about(kind, opened_ms=st.just(1), ended_ms=st.none() | few_times, updated_ms=few_times, **facts)


few_times = st.integers(2, 4)
"""So few that two verdicts often say the same."""
peers = st.sampled_from([hex_id(n) for n in range(4)])
some_sides = st.lists(st.lists(peers, min_size=1, max_size=2).map(tuple), min_size=2, max_size=3).map(tuple)
suspects = st.lists(
    st.builds(Suspect, peers, st.sampled_from(["forked", "withheld", "silent", "one_way"])), max_size=2, unique=True
).map(lambda those: tuple(sorted(those)))
believers = st.dictionaries(peers, times, min_size=1).map(
    lambda since: tuple(Believer(author, ms) for author, ms in sorted(since.items()))
)
AUTHOR_ONLY = st.just(AUTHOR)
STRATEGIES: dict[type[Verdict], st.SearchStrategy[Any]] = {
    Fork: about(
        Fork, author=AUTHOR_ONLY, previous=st.just(hex_id(-1)), branches=heads(2, BRANCHES_MAX), more=st.booleans()
    ),
    Equivocation: about(Equivocation, author=AUTHOR_ONLY, index=st.integers(1, 3), evidence=heads(2, 2)),
    Missing: about(
        Missing,
        author=AUTHOR_ONLY,
        index=st.just(5),
        id=st.just(hex_id(9)),
        since_ms=times,
        disputed=st.booleans(),
        referrers=referrers,
        more=st.booleans(),
    ),
    BadIndex: about(
        BadIndex,
        author=AUTHOR_ONLY,
        segment=signed(1),
        previous=signed(2),
        index=st.just(7),
        previous_index=st.just(3),
    ),
    ClockSkew: about(ClockSkew, author=AUTHOR_ONLY, ahead_ms=times, behind_ms=times),
    Limit: about(Limit, author=AUTHOR_ONLY, limit=st.just("branches"), maximum=st.just(64)),
    Quarantine: about(
        Quarantine,
        fold=st.just("logs"),
        fold_key=st.just("00"),
        error=st.sampled_from(["KeyError: 1", "ValueError: 2"]),
    ),
    Known: spread(Known, "known_ms"),
    Accepted: spread(Accepted, "accepted_ms", tolerates=st.just(0)),
    Belief: about(Belief, author=AUTHOR_ONLY, branch=st.just(hex_id(4)), index=st.just(4), believers=believers),
    Split: episode(Split, sides_opening=some_sides, sides=some_sides, last_contact_ms=few_times, suspects=suspects),
    Silent: episode(Silent, author=AUTHOR_ONLY, since_ms=few_times),
    OneWay: episode(OneWay, author=AUTHOR_ONLY, direction=st.sampled_from(["hears", "heard"])),
    Undecidable: episode(Undecidable, interval_ms=few_times, split_after_ms=few_times),
    Replica: about(
        Replica,
        author=AUTHOR_ONLY,
        entity=st.just(b"menu".hex()),
        state=st.sampled_from(["in_step", "behind", "ahead", "diverged"]),
        why=st.sampled_from(["", "branch", "clock", "digest"]),
        **dict.fromkeys(("events", "index", "position", "stated_ms", "since_ms"), few_times),
        **dict.fromkeys(("lacks", "extra"), st.integers(0, 2)),
        by_clock=st.booleans(),
        segment=st.sampled_from([hex_id(5), hex_id(6)]),
    ),
    BadUpdate: about(
        BadUpdate,
        author=AUTHOR_ONLY,
        entity=st.just(b"menu".hex()),
        why=st.just("digest"),
        segment=st.sampled_from([hex_id(5), hex_id(6)]),
        **dict.fromkeys(("index", "position", "seen_ms"), few_times),
        **dict.fromkeys(("claimed", "expected"), st.sampled_from(["", "0a", "0b"])),
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def test_every_kind_has_a_strategy() -> None:
    assert set(STRATEGIES) == set(KINDS)


@every_kind
@given(st.data())
def test_joining_is_idempotent(kind: type[Verdict], data: st.DataObject) -> None:
    one = data.draw(STRATEGIES[kind])
    assert join(one, one) == one


@every_kind
@given(st.data())
def test_joining_is_commutative(kind: type[Verdict], data: st.DataObject) -> None:
    one, other = data.draw(STRATEGIES[kind]), data.draw(STRATEGIES[kind])
    assert encode_verdict(join(one, other)) == encode_verdict(join(other, one))


@every_kind
@given(st.data())
def test_joining_is_associative(kind: type[Verdict], data: st.DataObject) -> None:
    one, two, three = (data.draw(STRATEGIES[kind]) for _ in range(3))
    assert join(join(one, two), three) == join(one, join(two, three))


@every_kind
@given(st.data())
def test_a_join_holds_what_both_say(kind: type[Verdict], data: st.DataObject) -> None:
    one, other = data.draw(STRATEGIES[kind]), data.draw(STRATEGIES[kind])
    both = join(one, other)
    assert join(both, one) == both
    assert join(both, other) == both


@every_kind
@given(st.data())
def test_a_verdict_survives_json(kind: type[Verdict], data: st.DataObject) -> None:
    verdict = data.draw(STRATEGIES[kind])
    encoded = encode_verdict(verdict)
    assert decode_verdict(encoded) == verdict
    assert encode_verdict(decode_verdict(encoded)) == encoded
    plain = json.loads(encoded)
    assert plain["kind"] == kind_of(verdict) == verdict.key.split("/")[0]
    assert {"key", "swarm", "config"} <= plain.keys()


@every_kind
@given(st.data())
def test_a_verdict_is_one_sentence_in_words(kind: type[Verdict], data: st.DataObject) -> None:
    verdict = data.draw(STRATEGIES[kind])
    sentence = describe(verdict, CONFIG)
    assert sentence
    assert "\n" not in sentence
    author = getattr(verdict, "author", None)
    assert author is None or author[:16] in sentence


def test_words_have_the_names_of_the_configuration() -> None:
    of_lab = {"key": "", "swarm": CONFIG.swarms[0].id, "config": ""}
    lasting = of_lab | {"opened_ms": 1000, "ended_ms": None, "updated_ms": 2000}
    zero, one, two = (author.hex() for author in AUTHORS)
    split = Split(
        **lasting,
        sides_opening=((zero,), (one,)),
        sides=((zero,), (one,)),
        last_contact_ms=0,
        suspects=(Suspect(two, "silent"),),
    )
    assert describe(split, CONFIG) == "the swarm is split: peer-0 | peer-1; peer-2 fell silent between them"
    ended = msgspec.structs.replace(split, ended_ms=6000, suspects=())
    assert describe(ended, CONFIG) == "the swarm was split for 5 s: peer-0 | peer-1"
    silent = Silent(**lasting, author=one, since_ms=500)
    assert describe(silent, CONFIG) == "peer-1 is silent"
    assert describe(msgspec.structs.replace(silent, ended_ms=4500), CONFIG) == "peer-1 was silent for 4 s"
    way = OneWay(**lasting, author=two, direction="hears")
    assert describe(way, CONFIG) == "peer-2 hears the others and is not heard"
    belief = Belief(**of_lab, author=one, branch="ab" * 32, index=3, believers=(Believer(zero, 5), Believer(two, 9)))
    assert describe(belief, CONFIG) == (
        "the branch of peer-1 that begins with abababababab is believed by peer-0, peer-2"
    )


def test_verdicts_of_different_keys_or_kinds_do_not_join() -> None:
    limit = Limit(key="limit/1", swarm=SWARM, config="", author=AUTHOR, limit="span", maximum=1)
    skew = ClockSkew(key="limit/1", swarm=SWARM, config="", author=AUTHOR, ahead_ms=1, behind_ms=0)
    for other in (msgspec.structs.replace(limit, key="limit/2"), skew):
        with pytest.raises(ValueError, match="only verdicts of one key join"):
            join(limit, other)  # type: ignore[type-var]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"kind": "rumour"}', '{"kind": "limit"}', '{"kind": "fork", "key": 5}']
)
def test_what_is_no_verdict_is_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_verdict(text.encode())


def test_the_schema_names_every_kind_and_what_all_have() -> None:
    """That docs/verdicts.schema.json is current is proved with the vectors, in test_vectors.py."""
    schema = json_schema()
    kinds = {definition["properties"]["kind"]["enum"][0]: definition for definition in _verdicts_of(schema)}
    assert set(kinds) == {str(kind.__struct_config__.tag) for kind in KINDS}
    for definition in kinds.values():
        assert {"kind", "key", "swarm", "config"} <= set(definition["required"])


def _verdicts_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (one for one in schema["$defs"].values() if "kind" in one["properties"])


# What the logs fold emits


def emissions(batches: list[list[Copy]], clocks: list[int]) -> Iterator[Message]:
    """All messages of the logs fold in their order; each shard is packed and opened again after each batch."""
    fold = LogsFold(CONFIG)
    blobs: dict[bytes, bytes] = {}
    archives: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    end_ms = max((copy.time_ms for batch in batches for copy in batch), default=0)
    for at, batch in enumerate([*batches, []]):
        clock_ms = end_ms if at == len(batches) else min(end_ms, clocks[at % len(clocks)])
        routed = defaultdict(list)
        for key, payload in fold.route(Arrivals([Arrival(*copy) for copy in batch], [])):
            routed[key].append(payload)
        for key in fold.all_keys():
            shard = fold.open(key, blobs.get(key), archives[key])
            yield from shard.absorb(routed[key], clock_ms).messages
            blobs[key] = shard.pack()


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_each_verdict_holds_all_that_was_said_under_its_key_since_it_was_last_withdrawn(data: st.DataObject) -> None:
    """SPEC: DESIGN, verdicts: each one emitted holds the join of all before it, because compaction keeps the last."""
    copies = data.draw(histories())
    clocks = sorted(data.draw(st.lists(st.integers(START_MS, START_MS + 6 * GRACE_MS), min_size=1, max_size=5)))
    batches = data.draw(st.composite(batches_of)(copies))
    said: dict[bytes, Verdict] = {}
    for message in emissions(batches, clocks):
        if message.value is None:
            assert message.key in said, "what was never said was withdrawn"
            withdrawn = said.pop(message.key)
            assert isinstance(withdrawn, Missing | ClockSkew), "only these can be withdrawn"
            continue
        verdict = decode_verdict(message.value)
        assert verdict.key.encode() == message.key
        before = said.get(message.key, verdict)
        assert join(before, verdict) == verdict
        said[message.key] = verdict


def test_a_missing_verdict_loses_a_referrer_whose_own_index_was_wrong() -> None:
    """The one verdict that can shrink without a tombstone: part of it is withdrawn, when what was missing comes and
    stands at another index. The liar's ref to the wrong index stays, and the bad index has a verdict of its own.
    """
    liar, witness, third = AUTHORS
    first = noop(liar, 1, NO_PREVIOUS)
    second = noop(liar, 2, first.id)
    leap = noop(liar, 9, second.id)
    referrer = noop(witness, 1, NO_PREVIOUS, refs=[Ref(liar, 8, second.id)])
    late_ms = START_MS + 10 * GRACE_MS
    later = noop(third, 1, NO_PREVIOUS, time_ms=late_ms)
    early = [Copy(segment, START_MS) for segment in (first, leap, referrer)]
    batches = [early, [Copy(later, late_ms)], [Copy(second, START_MS)]]
    found = [decode_verdict(message.value or b"") for message in emissions(batches, [START_MS, late_ms, late_ms])]
    named_by = [[name.author for name in verdict.referrers] for verdict in found if isinstance(verdict, Missing)]
    assert named_by == [sorted([liar.hex(), witness.hex()]), [witness.hex()]]
    assert [verdict.segment.id for verdict in found if isinstance(verdict, BadIndex)] == [leap.id.hex()]
