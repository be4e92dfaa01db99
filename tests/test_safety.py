"""Safety: what fewer than 2k − n forked peers cannot do, whatever they sign, withhold and tell to whom.

In every run of `tests.attacklab` these laws must hold:
- Who endorses two noops that conflict has signed a fork. So if a rule accepts both, 2k − n peers have signed forks, and
  k + l − n if two rules do, or those of two epochs with n peers in all.
- An honest peer counts as one that endorses a noop only from the time of a noop of its own whose signed root does.
- It counts as one that covers a noop only from the time of a noop of its own that was built on it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from random import Random
from typing import NamedTuple

import pytest

from state.config import Config
from state.holding import Holding
from state.segment import Segment
from state.verdict import Accepted, Known, decode_verdict
from tests.attacklab import KEYS, World, config_of
from tests.loglab import START_MS, SWARM, Copy
from tests.matrixlab import Found, batches_of, run_columns
from tests.searches import parts

RUNS, RUNS_SLOW = 150, 2_000
HORIZONS = ["400ms", "1s", "3s", "60s"]


class Seen(NamedTuple):
    """A peer that counts for a noop, from a time on."""

    observer: bytes
    time_ms: int


Spreads = dict[bytes, list[Seen]]
"""By noop, the peers in the order in which they count: the first k of them are those of the rule k."""


def spreads_of(found: Found, config: Config, kind: type[Accepted | Known]) -> Spreads:
    """What verdicts say. The rule k + 1 counts one peer more than the rule k does, and the sum of times its time."""
    verdicts = [v for value in found.verdicts.values() if isinstance(v := decode_verdict(value), kind)]
    members = {epoch.start_ms: epoch.members for epoch in config.swarms[0].epochs}
    spreads: Spreads = defaultdict(list)
    for verdict in sorted(verdicts, key=lambda verdict: verdict.k):
        noop = bytes.fromhex(verdict.id)
        bits = f"{int(verdict.observers, 16):0{verdict.n}b}"
        counted = {key for key, bit in zip(members[verdict.epoch_ms], bits, strict=True) if bit == "1"}
        seen = spreads[noop]
        assert len(counted) == verdict.k == len(seen) + 1
        (more,) = counted.difference(one.observer for one in seen)
        seen.append(Seen(more, verdict.times_ms - sum(one.time_ms for one in seen)))
    return spreads


def check_conflicts(world: World, accepted: Spreads) -> Counter[str]:
    """Who endorses both of two conflicting noops has forked, so k + l − n peers have if k and l endorse them."""
    counts: Counter[str] = Counter()
    forkers, n = world.forkers, len(world.keys)
    for one, other in combinations(accepted, 2):
        if world.conflict(one, other):
            both = {seen.observer for seen in accepted[one]} & {seen.observer for seen in accepted[other]}
            assert both <= forkers
            bound = len(accepted[one]) + len(accepted[other]) - n
            assert len(forkers) >= bound
            counts["conflicts"] += bound > 0
            counts["conflicts at the bound"] += 0 < bound == len(forkers)
    return counts


def check_honest(world: World, spreads: Spreads, claims: Mapping[bytes, set[bytes]]) -> int:
    """Every honest peer that counts for a noop has signed, at just that time, one that claims it; gives how many."""
    times: dict[bytes, int] = {}
    for segment, time_ms in world.copies:
        times[segment.id] = min(times.get(segment.id, time_ms), time_ms)
    claimed = {(world.signed[r].head.author, times[r], x) for r in claims if r in times for x in claims[r]}
    honest = {key.public for key in world.honest}
    counted = [(*seen, noop) for noop, all_seen in spreads.items() for seen in all_seen if seen.observer in honest]
    assert claimed.issuperset(counted)
    return len(counted)


def random_case(seed: int) -> tuple[World, Config]:
    chance = Random(seed)
    peers = chance.randint(3, 6)
    world = World(chance, peers, chance.randint(0, peers - 1))
    for _ in range(chance.randint(15, 45)):
        world.step()
    return world, config_of(peers, chance.choice(HORIZONS), second_epoch=chance.random() < 0.2)


def check_case(seed: int) -> Counter[str]:
    """Hold one random run against the laws; gives how often there was anything to hold."""
    world, config = random_case(seed)
    batches = batches_of(world.chance, world.copies)
    found = run_columns(config, batches, reopen=world.chance.random() < 0.3, deep=False)
    accepted, known = spreads_of(found, config, Accepted), spreads_of(found, config, Known)
    counts = check_conflicts(world, accepted)
    counts["endorsed"] = check_honest(world, accepted, world.endorsed)
    counts["covered"] = check_honest(world, known, {noop: world.past(noop) for noop in world.endorsed})
    counts["withheld"] = len(world.signed) > len({copy.segment.id for copy in world.copies})
    return counts


def check_cases(seeds: Iterable[int]) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        try:
            counts += check_case(seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
    assert min(counts["endorsed"], counts["covered"], counts["withheld"]) > 0
    assert counts["conflicts"] > counts["conflicts at the bound"] > 0


def test_random_attackers_fewer_than_the_bound_never_get_two_conflicting_noops_accepted() -> None:
    check_cases(range(RUNS))


@pytest.mark.parametrize("part", parts(16)[1:])
def test_many_more_random_attackers_do_not_either(part: int) -> None:
    check_cases(range(RUNS + part, RUNS_SLOW, 15))


# The bound is exact


class Stories(NamedTuple):
    """Two noops that conflict, and who endorses each."""

    near: list[Seen]
    far: list[Seen]


def two_stories(peers: int, forkers: int, near: int) -> Stories:
    """The first `forkers` peers tell a story of the first one to `near` honest peers, and another one to the rest."""
    forked, honest = KEYS[:forkers], KEYS[forkers:peers]
    stories: list[Segment] = []
    copies: list[Copy] = []
    for side, listeners in ((b"near", honest[:near]), (b"far", honest[near:])):
        for at, key in enumerate([*forked, *listeners]):
            holding = Holding(SWARM, key.public, refs_max=peers)
            if at:
                holding.receive(stories[-1])
            segment = holding.close(key, START_MS, [side])
            copies.append(Copy(segment, START_MS + len(copies)))
            if not at:
                stories.append(segment)
    config = config_of(peers)
    accepted = spreads_of(run_columns(config, [copies]), config, Accepted)
    return Stories(*(accepted[story.id] for story in stories))


@pytest.mark.parametrize(("n", "k"), [(3, 2), (3, 3), (4, 3), (4, 4), (5, 3), (5, 4), (7, 4), (7, 5), (7, 6), (10, 7)])
def test_two_k_minus_n_forked_peers_get_two_conflicting_noops_accepted_and_one_fewer_does_not(n: int, k: int) -> None:
    bound = 2 * k - n
    (rule,) = (rule for rule in config_of(n).swarms[0].epochs[0].thresholds if rule.k == k)
    assert rule.tolerates == bound - 1
    assert [len(seen) for seen in two_stories(n, bound, near=n - k)] == [k, k]
    for fewer in range(1, bound):
        for near in range(n - fewer + 1):
            assert min(map(len, two_stories(n, fewer, near))) < k


@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 2), (6, 3)])
def test_by_a_rule_of_half_the_peers_or_fewer_one_liar_is_enough(n: int, k: int) -> None:
    assert min(map(len, two_stories(n, 1, near=n // 2))) >= k
    assert all(rule.tolerates == 0 for rule in config_of(n).swarms[0].epochs[0].thresholds if rule.k == k)


# What a withheld noop cannot do


@pytest.mark.parametrize("shown", [False, True])
def test_a_withheld_story_is_not_forgotten_with_the_noops_that_named_it(shown: bool) -> None:
    """The listener was told both stories of the liar, one of them by an old noop whose life is over when it says so."""
    liar, teller, listener = KEYS[:3]
    story, withheld = (Holding(SWARM, liar.public, 3).close(liar, START_MS, [op]) for op in (b"one", b"two"))
    holding = Holding(SWARM, teller.public, 3)
    holding.receive(withheld)
    old, newer = (holding.close(teller, START_MS, []) for _ in range(2))
    holding = Holding(SWARM, listener.public, 3)
    for segment in (story, withheld, old):
        holding.receive(segment)
    late = holding.close(listener, START_MS, [])
    assert holding.endorses(liar.public) is None
    after_ms = [(story, 0), (old, 10), (newer, 20), (late, 1_500)] + [(withheld, 1_200)] * shown
    copies = [Copy(segment, START_MS + ms) for segment, ms in after_ms]
    config = config_of(3, "1s")
    found = run_columns(config, [copies])
    assert Seen(listener.public, START_MS + 1_500) in spreads_of(found, config, Known)[story.id]
    assert listener.public not in {seen.observer for seen in spreads_of(found, config, Accepted)[story.id]}
