"""The columns fold: it says what sets and graph search say, in any order, however cut, in any number of blocks."""

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest

from producers.scenarios import SCENARIOS
from producers.simulation import Simulation
from producers.swarm import Settings, SimulatedSwarm, connected_swarm
from state.columns import ColumnsFold
from state.config import Config
from state.fold import Arrival, Arrivals, Topic
from state.head import NO_PREVIOUS
from state.limits import BRANCHES_MAX, GAPS_MAX
from state.report import Report, decode_report, unpack_cells
from state.segment import Ref, Segment, judge
from state.verdict import Accepted, Belief, Known, Limit, Verdict, decode_verdict, kind_of
from tests.loglab import START_MS, Copy, noop, since_config
from tests.matrixlab import PEERS, Found, Graph, batches_of, history, matrix_config, run_columns
from tests.searches import parts

HISTORIES = 2_000
PARTS = 16
HORIZONS = ["1s", "3s", "60s"]


def random_case(seed: int) -> tuple[Config, list[Copy], Random]:
    chance = Random(seed)
    config = matrix_config(4, horizon=chance.choice(HORIZONS), late_epoch=chance.random() < 0.3)
    return config, history(chance), chance


def with_blocks(config: Config, blocks: int) -> Config:
    import msgspec

    (swarm,) = config.swarms
    return Config((msgspec.structs.replace(swarm, blocks=blocks),))


# The oracle


@pytest.mark.parametrize("part", parts(PARTS))
def test_verdicts_are_those_of_graph_search_however_the_noops_come(part: int) -> None:
    for seed in range(part * HISTORIES // PARTS, (part + 1) * HISTORIES // PARTS):
        config, copies, chance = random_case(seed)
        found = run_columns(with_blocks(config, chance.choice([1, 4])), batches_of(chance, copies))
        assert found.verdicts == Graph(config, copies).verdicts(), f"seed {seed}"


@pytest.mark.parametrize("part", parts(8))
def test_where_the_beginning_is_gone_verdicts_are_those_of_graph_search(part: int) -> None:
    """What was published before is there, or is not there, or only some of it is."""
    for seed in range(20_000 + part * 100, 20_100 + part * 100):
        config, copies, chance = random_case(seed)
        since_ms = chance.choice(copies).time_ms if copies else START_MS
        kept = chance.choice([0.0, 0.0, 0.5, 1.0])
        copies = [copy for copy in copies if copy.time_ms >= since_ms or chance.random() < kept]
        config = since_config(config, since_ms)
        found = run_columns(with_blocks(config, chance.choice([1, 4])), batches_of(chance, copies))
        assert found.verdicts == Graph(config, copies).verdicts(), f"seed {seed}"


def test_the_author_counts_from_its_earliest_noop_that_endorses_also_when_that_is_known_late() -> None:
    """A's second noop comes before its first one, which B named before, and is complete only when C's has come."""
    config = matrix_config(3, rules="[2]")
    a, b, c = PEERS[:3]
    first, lone = noop(a, 1, NO_PREVIOUS), noop(c, 1, NO_PREVIOUS)
    reader = noop(b, 1, NO_PREVIOUS, refs=[first.ref])
    second = noop(a, 2, first.id, refs=[lone.ref])
    copies = [Copy(s, START_MS + at) for s, at in ((reader, 100), (second, 300), (first, 400), (lone, 500))]
    want = Graph(config, copies).verdicts()
    assert run_columns(config, [copies]).verdicts == run_columns(config, [copies[:3], copies[3:]]).verdicts == want


@pytest.mark.parametrize("part", parts(10)[1:])
@pytest.mark.parametrize("blocks", [1, 4, 16])
def test_any_order_split_duplication_and_number_of_blocks_gives_the_same_bytes(blocks: int, part: int) -> None:
    for seed in range(part, 100, 9):
        config, copies, chance = random_case(10_000 + seed)
        once = run_columns(config, [copies], deep=False)
        batches = batches_of(chance, copies)
        cut = run_columns(with_blocks(config, blocks), batches, deep=False)
        assert cut.verdicts == once.verdicts, f"seed {seed}"
        assert pictures(cut) == pictures(once), f"seed {seed}"
        kept_open = run_columns(with_blocks(config, blocks), batches, reopen=False, deep=False, old_at_once=32)
        assert kept_open == cut, f"seed {seed}"


def pictures(found: Found) -> dict[int, dict[Any, Any]]:
    """What the reports of all blocks say together, by tick: for each pair of nodes, fresh, lag, age and contact."""
    told: dict[int, dict[Any, Any]] = defaultdict(dict)
    for value in found.reports.values():
        report = decode_report(value)
        cells = unpack_cells(report)
        told[report.tick_ms]["nodes"] = report.nodes
        told[report.tick_ms]["before"] = report.before_ms
        told[report.tick_ms].setdefault("withheld", []).extend(report.withheld)
        told[report.tick_ms]["withheld"].sort()
        for row, column in enumerate(report.columns):
            told[report.tick_ms][column, "interval"] = report.intervals_ms[row]
            for node in range(len(report.nodes)):
                told[report.tick_ms][column, node] = tuple(int(part[row, node]) for part in cells)
    return dict(told)


def test_reports_are_those_of_graph_search() -> None:
    compared = 0
    for seed in range(120):
        config, copies, _ = random_case(20_000 + seed)
        for value in run_columns(config, [copies], deep=False).reports.values():
            compared += check_report(Graph(config, copies, decode_report(value).tick_ms), decode_report(value))
    assert compared > 1_000


def leaps(graph: Graph, noop_id: bytes) -> bool:
    """Whether a noop stands, at any depth, on one whose `previous` is held at another index."""
    *_, root = graph.chain(noop_id)
    head = graph.held[root].head
    before = graph.held.get(head.previous)
    if before is None or before.head.author != head.author or head.index == 1:
        return False
    return graph.time[before.id] > graph.time[root] or graph.life(before.id) >= graph.time[root]


def check_report(graph: Graph, report: Report) -> int:
    """Compare each cell with sets of noops; gives how many there were."""
    cells, epoch = unpack_cells(report), graph.swarm.epoch_at(report.tick_ms)
    assert epoch is not None
    logs, covered = {}, {}
    for number, node in enumerate(report.nodes):
        own = [i for i, s in graph.held.items() if s.head.author == node.author]
        tips = [i for i in own if not graph.children.get(i)]
        tips = [tip for tip in tips if not leaps(graph, tip)] or tips
        if node.forked:
            tips = [i for i in tips if graph.branch_of(i) == node.branch]
        own = list({i for tip in tips for i in graph.chain(tip)})
        assert node.index == max((graph.held[i].head.index for i in own), default=0)
        logs[number] = own
        covered[number] = frozenset().union(*(graph.past(i).covered for i in tips))
    forked = {node.author for node in report.nodes if node.forked}
    for author in {s.head.author for s in graph.held.values()}:
        indexes = [s.head.index for s in graph.held.values() if s.head.author == author]
        assert (author in forked) == (len(set(indexes)) < len(indexes)) or author not in epoch.members
    beyond_ms = report.tick_ms - graph.swarm.horizon_ms
    for row, column in enumerate(report.columns):
        for number in range(len(report.nodes)):
            held = [graph.held[i].head.index for i in logs[column] if i in covered[number]]
            missing = [i for i in logs[column] if graph.held[i].head.index > max(held, default=0)]
            times = [graph.time[i] if graph.time[i] >= beyond_ms else 0 for i in missing]
            fresh = all(report.tick_ms - time_ms <= epoch.split_after_ms for time_ms in times)
            assert bool(cells.fresh[row, number]) == fresh
            assert cells.lags[row, number] == len(missing)
            age = max((-(-(report.tick_ms - time_ms) // epoch.tick_ms) for time_ms in times), default=0)
            assert cells.ages[row, number] == min(age, 255)
    return len(report.columns) * len(report.nodes)


def test_who_has_a_noop_that_outlives_its_observers_is_kept_before_anything_can_be_said_of_it() -> None:
    """With `everyone` alone nothing is said until all have it, however long ago the first of them did."""
    for seed in range(400):
        chance = Random(50_000 + seed)
        config = matrix_config(4, horizon=chance.choice(["1s", "3s"]), rules="[everyone]")
        copies = history(chance)
        found = run_columns(config, batches_of(chance, copies), deep=False)
        assert found.verdicts == Graph(config, copies).verdicts(), f"seed {seed}"


# Stories


def arrivals_of(simulation: Simulation) -> list[Copy]:
    copies = []
    for record in simulation.records:
        segment = judge(record.value, simulation.config.authors)
        if isinstance(segment, Segment):
            copies.append(Copy(segment, record.time_ms))
    return copies


def told(found: Found, kind: type[Verdict]) -> list[Any]:
    decoded = [decode_verdict(value) for _, value in sorted(found.verdicts.items())]
    return [verdict for verdict in decoded if type(verdict) is kind]


def test_the_seeds_example_gives_the_seeds_matrix_and_its_two_answers() -> None:
    simulation = SCENARIOS["seed-example"].run(Settings(peers=3))
    copies = [copy for copy in arrivals_of(simulation) if copy.time_ms <= Settings().start_ms + 5_000]
    config = simulation.config
    (swarm,) = config.swarms
    names = {key.hex(): name for key, name in swarm.authors.items()}
    seconds = {copy.segment.id.hex(): (copy.time_ms - Settings().start_ms) // 1000 for copy in copies}
    found = run_columns(config, [copies])
    newest: dict[tuple[str, str], int] = {}
    for verdict in told(found, Known):
        place = (verdict.rule, names[verdict.author])
        newest[place] = max(newest.get(place, 0), seconds[verdict.id])
    assert {name: second for (rule, name), second in newest.items() if rule == "everyone"} == {"A": 2, "B": 3, "C": 1}
    assert {name: second for (rule, name), second in newest.items() if rule == "majority"} == {"A": 2, "B": 3, "C": 4}
    fold = ColumnsFold(config)
    (key,) = fold.all_keys()
    block = fold.open(key, None, {})
    block.absorb(list(dict(fold.route(Arrivals([Arrival(*copy) for copy in copies], []))).values()), 1 << 50)
    pasts, matrix = block.pasts, {}
    for observer in pasts.trees:
        for author in pasts.trees:
            tip = observer.leaves[0].live[observer.leaves[0].end]
            (column,) = author.columns
            slot = column.live[int(pasts.rows[tip, column.number])]
            cell = names[pasts.authors[observer.author].hex()] + names[pasts.authors[author.author].hex()]
            matrix[cell] = (int(pasts.time[slot]) - Settings().start_ms) // 1000
    rows = {observer: [matrix[observer + author] for author in "ABC"] for observer in "ABC"}
    assert rows == {"A": [4, 3, 1], "B": [2, 5, 4], "C": [2, 3, 5]}


def test_of_a_lie_that_comes_out_no_two_conflicting_noops_are_both_accepted_and_everyone_comes_to_know_both() -> None:
    simulation = SCENARIOS["lying-peer"].run(Settings())
    found = run_columns(simulation.config, [arrivals_of(simulation)])
    (fork,) = simulation.truth.forks
    beliefs = {belief.branch: {b.author for b in belief.believers} for belief in told(found, Belief)}
    honest = {key.hex() for key in simulation.config.swarms[0].authors} - {fork.author}
    assert set(beliefs) == set(fork.branches)
    assert all(believers >= honest for believers in beliefs.values())
    accepted = {verdict.id for verdict in told(found, Accepted) if verdict.rule == "majority"}
    assert len(accepted & set(fork.branches)) < 2
    assert len(accepted) > simulation.truth.verified // 2


def test_a_peer_whose_clock_is_an_hour_off_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def swarm_with_a_clock_ahead(settings: Settings) -> SimulatedSwarm:
        swarm = connected_swarm(settings)
        swarm.peers[2].skew_ms = 3_600_000
        return swarm

    settings = Settings(peers=5, duration_ms=30_000)
    right = SCENARIOS["honest"].run(settings)
    monkeypatch.setattr("producers.honest.connected_swarm", swarm_with_a_clock_ahead)
    wrong = SCENARIOS["honest"].run(settings)
    assert [one.skew_ms for one in wrong.truth.skewed] == [3_600_000]
    assert arrivals_of(wrong)[-1].segment.id != arrivals_of(right)[-1].segment.id
    told_right, told_wrong = (facts_but_ids(run_columns(each.config, [arrivals_of(each)])) for each in (right, wrong))
    assert told_right == told_wrong
    assert {kind for kind, *_ in told_right} == {"known", "accepted"}


def facts_but_ids(found: Found) -> dict[tuple[str, str, int, str], dict[str, Any]]:
    """What the verdicts say of each noop and rule, without the ids, which hold the time of the author's own clock."""
    verdicts = [*told(found, Known), *told(found, Accepted)]
    assert len(verdicts) == len(found.verdicts)
    facts = {
        (kind_of(v), v.author, v.index, v.rule): {
            name: getattr(v, name) for name in v.__struct_fields__ if name not in ("key", "id")
        }
        for v in verdicts
    }
    assert len(facts) == len(verdicts)
    return facts


# Limits


def chain(author: bytes, count: int, time_ms: int = START_MS) -> list[Copy]:
    copies: list[Copy] = []
    previous = NO_PREVIOUS
    for index in range(1, count + 1):
        segment = noop(author, index, previous, time_ms=time_ms)
        previous = segment.id
        copies.append(Copy(segment, time_ms + index))
    return copies


def test_branches_beyond_the_limit_are_left_out_and_a_verdict_says_so() -> None:
    copies = chain(PEERS[0], 2)
    copies += [Copy(noop(PEERS[0], 3, copies[1].segment.id, salt), START_MS + 10 + salt) for salt in range(80)]
    found = run_columns(matrix_config(3), [copies])
    (limit,) = told(found, Limit)
    assert (limit.author, limit.limit, limit.maximum) == (PEERS[0].hex(), "branches", BRANCHES_MAX)
    assert len(told(found, Belief)) == BRANCHES_MAX


def test_a_peer_that_invents_noops_fills_its_own_places_only_and_a_verdict_says_so() -> None:
    copies = chain(PEERS[0], 1)
    previous = NO_PREVIOUS
    for index in range(1, GAPS_MAX + 20):
        refs = [Ref(PEERS[0], 1000 + index, bytes([index % 256, index // 256]) * 16)]
        segment = noop(PEERS[1], index, previous, refs=refs)
        previous = segment.id
        copies.append(Copy(segment, START_MS + 10 * index))
    fold = ColumnsFold(matrix_config(3))
    (key,) = fold.all_keys()
    archive: dict[bytes, bytes] = {}
    block = fold.open(key, None, archive)
    payloads = [payload for _, payload in fold.route(Arrivals([Arrival(*copy) for copy in copies], []))]
    outcome = block.absorb(payloads, 1 << 50)
    said = [decode_verdict(m.value) for m in outcome.messages if m.value and m.topic == Topic.VERDICTS]
    assert [(v.author, v.limit) for v in said if isinstance(v, Limit)] == [(PEERS[1].hex(), "gaps")]
    assert len(block.pasts.open_gaps) == GAPS_MAX
    assert list(block.audit(archive)) == []


def test_old_noops_leave_the_matrix_and_a_tip_stays() -> None:
    copies = [copy for peer in PEERS[:3] for copy in chain(peer, 200)]
    copies += [Copy(noop(PEERS[0], 201, copies[199].segment.id), START_MS + 60_000)]
    fold = ColumnsFold(matrix_config(3, horizon="1s"))
    (key,) = fold.all_keys()
    archive: dict[bytes, bytes] = {}
    block = fold.open(key, None, archive)
    payloads = [payload for _, payload in fold.route(Arrivals([Arrival(*copy) for copy in copies], []))]
    block.absorb(payloads, START_MS + 60_000)
    assert len(block.pasts.slot_of) == 4
    again = fold.open(key, block.pack(), archive)
    assert again.pasts.slot_of.keys() == block.pasts.slot_of.keys()
    assert again.absorb(payloads, START_MS + 60_000).messages == []
    assert np.array_equal(again.pasts.rows[list(again.pasts.live_slots())].max(axis=0)[:3], [201, 200, 200])
