"""The samples of a scrape, from the board: what is so now. What matters most comes first, because of the budget.

Peers of the roster have a value also where there is nothing to tell (0), so that an alert can see a change.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dashboards.board import Board
from dashboards.findings import Lie, versions_ms
from dashboards.metrics import METRICS
from dashboards.pairs import worst_pairs
from dashboards.replicasamples import replica_samples
from dashboards.watch import OTHER, SwarmWatch
from dashboards.web.evidencefile import evidence_path
from state.authorlog import LIMITS as LOG_LIMITS
from state.clocks import LIMITS as ENTITY_LIMITS
from state.folds import FOLDS
from state.grid import Grid, branch_letter
from state.metric import Distribution, Kind, Sample
from state.pasts import LIMITS as MATRIX_LIMITS
from state.verdict import (
    BadIndex,
    Belief,
    ClockSkew,
    Equivocation,
    Fork,
    Limit,
    Missing,
    OneWay,
    Silent,
    Split,
    Undecidable,
)

EPISODE_KINDS = ("split", "silent", "one_way", "undecidable")
DIRECTIONS = ("hears", "heard")
WHYS = frozenset({"forked", "withheld", "silent", "one_way"})
LIMIT_NAMES = frozenset({*LOG_LIMITS, *MATRIX_LIMITS, *ENTITY_LIMITS})


class Scope(NamedTuple):
    """How much is told of single peers and pairs."""

    pair_peers_max: int = 32
    """Rosters up to this size have a series for each pair: a thousand of each kind."""
    worst_pairs: int = 100
    """Beyond that, only so many pairs that miss something, the worst ones."""


class Sampler:
    """Makes the samples of a board. What follows from a grid alone is made once for each tick: it is the most."""

    def __init__(self, url: str, scope: Scope) -> None:
        self._url = url
        self._scope = scope
        self._drawn: dict[str, _Drawn] = {}
        """By swarm."""

    def samples(self, board: Board) -> Iterator[Sample]:
        """All samples of the swarms, those of whole swarms before those of peers, and pairs last."""
        watches = list(board.watches.values())
        for watch in watches:
            yield from _swarm(watch, board.config.digest)
            yield from _spread(watch)
        quarantined = Counter(_one_of(one.fold, FOLDS) for one in board.quarantines.values())
        yield from (Sample("quarantined_keys", (fold,), count) for fold, count in sorted(quarantined.items()))
        for watch in watches:
            yield from _by_name(_lies(watch, self._url))
        for watch in watches:
            yield from _by_name(_faults(watch))
            yield from _episodes(watch)
        for watch in watches:
            yield from replica_samples(watch)
        drawn = [self._draw(watch, watch.grid) for watch in watches if watch.grid is not None]
        for one in drawn:
            yield from one.peers
        for watch in watches:
            yield from _accepted_indexes(watch)
        for one in drawn:
            yield from one.pairs

    def _draw(self, watch: SwarmWatch, grid: Grid) -> "_Drawn":
        drawn = self._drawn.get(watch.swarm.id)
        if drawn is None or drawn.grid is not grid:
            drawn = _Drawn(grid, list(_peers(watch, grid)), list(_pairs(watch, grid, self._scope)))
            self._drawn[watch.swarm.id] = drawn
        return drawn


class _Drawn(NamedTuple):
    """What follows from a grid."""

    grid: Grid
    peers: list[Sample]
    pairs: list[Sample]


def _swarm(watch: SwarmWatch, config: str) -> Iterator[Sample]:
    swarm, epoch, grid = watch.swarm, watch.epoch, watch.grid
    name = swarm.name
    yield Sample("swarm_info", (name, swarm.id, config), 1)
    yield Sample("peers", (name,), len(epoch.roster))
    for rule in epoch.thresholds:
        yield Sample("rule_threshold_peers", (name, rule.name), rule.k)
        yield Sample("rule_tolerated_liars", (name, rule.name), rule.tolerates)
    if grid is not None:
        yield Sample("matrix_tick_timestamp_seconds", (name,), grid.tick_ms / 1000)
        active = {node.author for node, is_active in zip(grid.nodes, grid.active(swarm), strict=True) if is_active}
        yield Sample("peers_active", (name,), len(active))
    splits = watch.episodes.open(Split)
    yield Sample("split_sides", (name,), max((len(split.sides) for split in splits), default=1))
    if splits:
        yield Sample("split_opened_timestamp_seconds", (name,), splits[0].opened_ms / 1000)
    yield Sample("undecidable", (name,), bool(watch.episodes.open(Undecidable)))
    for kind in EPISODE_KINDS:
        yield Sample("episodes_total", (name, kind), watch.episodes.opened[kind])


def _spread(watch: SwarmWatch) -> Iterator[Sample]:
    name, spread = watch.swarm.name, watch.spread
    for tally in spread.known():
        yield Sample("known_segments_total", (name, tally.rule), tally.segments)
        yield Sample("known_latency_seconds", (name, tally.rule), tally.latency)
    for tally in spread.accepted():
        yield Sample("accepted_segments_total", (name, tally.rule), tally.segments)
        yield Sample("acceptance_latency_seconds", (name, tally.rule), tally.latency)
        yield Sample("last_accepted_timestamp_seconds", (name, tally.rule), tally.newest_ms / 1000)
    if spread.delay_ms is not None:
        yield Sample("verdict_delay_seconds", (name,), spread.delay_ms / 1000)


def _lies(watch: SwarmWatch, url: str) -> Iterator[Sample]:
    findings = watch.findings
    for author, name in _named(watch, Fork, Equivocation):
        labels = (watch.swarm.name, name)
        forks, doubles = findings.of(Fork, author), findings.of(Equivocation, author)
        lies: list[Lie] = [*forks, *doubles]
        # Two versions of one index are a fork also where its point is not known, because what is before it is missing.
        yield Sample("forks_total", labels, max(len(forks), len(doubles)))
        if not lies:
            continue
        yield Sample("last_fork_timestamp_seconds", labels, max(versions_ms(lie)[-1] for lie in lies) / 1000)
        yield Sample("fork_branches", labels, 1 + sum(len(one.verdict.branches) - 1 for one in forks) + (not forks))
        index = str(doubles[0].verdict.index) if doubles else ""
        path = evidence_path(watch.swarm, author)
        yield Sample("fork_info", (*labels, index, f"{url}{path}" if path else ""), 1)
        newest = max(lies, key=lambda lie: versions_ms(lie)[1])
        yield Sample("lie_undetected_seconds", labels, max(newest.first_ms - versions_ms(newest)[1], 0) / 1000)
        beliefs = sorted((one.verdict for one in findings.of(Belief, author)), key=lambda belief: belief.branch)
        for at, belief in enumerate(beliefs):
            yield Sample("branch_believers", (*labels, branch_letter(at)), len(belief.believers))


def _faults(watch: SwarmWatch) -> Iterator[Sample]:
    findings, swarm = watch.findings, watch.swarm.name
    for author, name in _named(watch, Missing):
        missing = [one.verdict for one in findings.of(Missing, author)]
        yield Sample("missing_segments", (swarm, name), len(missing))
        yield Sample("missing_disputed_segments", (swarm, name), sum(one.disputed for one in missing))
        if missing:
            since_ms = min(one.since_ms for one in missing)
            yield Sample("missing_oldest_timestamp_seconds", (swarm, name), since_ms / 1000)
    for author, name in _named(watch, BadIndex):
        yield Sample("bad_index_segments_total", (swarm, name), len(findings.of(BadIndex, author)))
    for author, name in _found_only(watch, ClockSkew):
        for skew, _, changed_ms in findings.of(ClockSkew, author)[-1:]:
            yield Sample("clock_ahead_seconds", (swarm, name), max(skew.ahead_ms, 0) / 1000)
            yield Sample("clock_behind_seconds", (swarm, name), max(skew.behind_ms, 0) / 1000)
            yield Sample("clock_skew_changed_timestamp_seconds", (swarm, name), changed_ms / 1000)
    for author, name in _found_only(watch, Limit):
        for limit in sorted({_one_of(one.verdict.limit, LIMIT_NAMES) for one in findings.of(Limit, author)}):
            yield Sample("limits_exceeded", (swarm, name, limit), 1)


def _episodes(watch: SwarmWatch) -> Iterator[Sample]:
    swarm = watch.swarm.name
    silent = {episode.author: episode for episode in watch.episodes.open(Silent)}
    one_way = {(episode.author, episode.direction) for episode in watch.episodes.open(OneWay)}
    splits = watch.episodes.open(Split)
    side_of = {author: at + 1 for split in splits[:1] for at, side in enumerate(split.sides) for author in side}
    for author, name in watch.peers.items():
        yield Sample("peer_silent", (swarm, name), author in silent)
        if author in silent:
            since_ms = silent[author].since_ms
            yield Sample("peer_silent_since_timestamp_seconds", (swarm, name), since_ms / 1000)
        for direction in DIRECTIONS:
            yield Sample("peer_one_way", (swarm, name, direction), (author, direction) in one_way)
        yield Sample("split_side", (swarm, name), side_of.get(author, 0) if splits else author not in silent)
    suspects = {(watch.name(one.author), _one_of(one.why, WHYS)) for split in splits for one in split.suspects}
    yield from (Sample("split_suspect", (swarm, *suspect), 1) for suspect in sorted(suspects))


def _peers(watch: SwarmWatch, grid: Grid) -> Iterator[Sample]:
    """What each peer of the newest tick has and misses; of a forked peer the best of its branches as an observer."""
    swarm = watch.swarm.name
    active = grid.active(watch.swarm)
    lags_max = np.where(active[None, :], grid.lags, 0).max(axis=1, initial=0).tolist()
    stale = ~grid.fresh & active[None, :] & active[:, None]
    by_author: dict[bytes, list[int]] = {}
    for at, node in enumerate(grid.nodes):
        by_author.setdefault(node.author, []).append(at)
    stale_authors, stale_observers = stale.sum(axis=1).tolist(), stale.sum(axis=0).tolist()
    for author, places in by_author.items():
        labels = (swarm, watch.names[author.hex()])
        nodes = [grid.nodes[at] for at in places]
        yield Sample("peer_index", labels, max(node.index for node in nodes))
        yield Sample("peer_last_segment_timestamp_seconds", labels, max(node.newest_ms for node in nodes) / 1000)
        yield Sample("peer_lag_segments_max", labels, min(lags_max[at] for at in places))
        yield Sample("peer_stale_authors", labels, min(stale_authors[at] for at in places))
        yield Sample("peer_stale_observers", labels, max(stale_observers[at] for at in places))


def _accepted_indexes(watch: SwarmWatch) -> Iterator[Sample]:
    for author, name in watch.peers.items():
        for rule, index in watch.spread.accepted_indexes(author):
            yield Sample("peer_accepted_index", (watch.swarm.name, name, rule), index)


def _pairs(watch: SwarmWatch, grid: Grid, scope: Scope) -> Iterator[Sample]:
    tick_s = watch.epoch.tick_ms / 1000
    if len(watch.epoch.roster) <= scope.pair_peers_max:
        pairs = worst_pairs(grid, watch.names, None)
    else:
        pairs = worst_pairs(grid.among_active(watch.swarm), watch.names, scope.worst_pairs)
    for pair in pairs:
        labels = (watch.swarm.name, pair.observer, pair.author)
        yield Sample("pair_lag_segments", labels, pair.lag)
        yield Sample("pair_unseen_seconds", labels, pair.age_ticks * tick_s)


def _named(watch: SwarmWatch, *kinds: type) -> Iterator[tuple[str, str]]:
    """The authors of the roster, and others about whom something of these kinds was found, with their names."""
    return _with_names(watch, [*watch.peers, *(author for kind in kinds for author in watch.findings.authors(kind))])


def _found_only(watch: SwarmWatch, kind: type) -> Iterator[tuple[str, str]]:
    return _with_names(watch, watch.findings.authors(kind))


def _one_of(text: str, known: Container[str]) -> str:
    return text if text in known else OTHER


def _by_name(samples: Iterable[Sample]) -> Iterator[Sample]:
    """A peer that has had several keys, one after another, is one: counts add up, else the greatest value tells."""
    merged: dict[tuple[str, tuple[str, ...]], float] = {}
    for metric, labels, value in samples:
        assert not isinstance(value, Distribution)
        held = merged.get((metric, labels), value)
        is_count = METRICS[metric].kind == Kind.COUNTER and (metric, labels) in merged
        merged[metric, labels] = held + value if is_count else max(held, value)
    return (Sample(metric, labels, value) for (metric, labels), value in merged.items())


def _with_names(watch: SwarmWatch, authors: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((author, watch.name(author)) for author in dict.fromkeys(authors))
