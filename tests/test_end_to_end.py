"""Every scenario on real Kafka and real Spark: what is found is the ground truth, and nothing else."""

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from producers.scenarios import SCENARIOS
from producers.simulation import Record, Simulation
from producers.swarm import EPOCH_START, START_MS, Settings
from state.config import Config, Epoch, Swarm
from state.head import NO_PREVIOUS, head_id, is_head_signed
from state.limits import REFERRERS_MAX
from state.segment import Ref, Segment, build, judge
from state.signing import SigningKey
from state.verdict import (
    Accepted,
    AnyVerdict,
    BadIndex,
    BadUpdate,
    Belief,
    ClockSkew,
    Equivocation,
    Fork,
    Known,
    Missing,
    OneWay,
    Replica,
    Signed,
    Silent,
    Split,
    Undecidable,
    decode_verdict,
)
from state.wire_pb2 import Op
from streaming.broker import Broker
from streaming.host import LEVELS
from streaming.queries import QUERIES, TALLIES
from tests import truthlab
from tests.topiclab import (
    ONE_BATCH,
    DeadLetter,
    KeptState,
    Lab,
    Send,
    Spot,
    Written,
    differences,
    fold_alone,
    spots_of,
    tallied,
)
from tests.truthlab import Found, Search

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

LATER_MS = 60_000
SMALL = 100
"""Records of a small batch, where a run has some hundreds; of reports, which are fewer, a tenth."""


class Run(NamedTuple):
    """A scenario that went through Kafka and Spark, and all that can be read back."""

    simulation: Simulation
    written: list[Written]
    spots: list[Spot]
    batches: Counter[str]
    tallies: dict[str, int]
    verdicts: dict[bytes, bytes]
    reports: dict[bytes, bytes]
    dead_letters: dict[Spot, DeadLetter]
    states: dict[str, KeptState]
    levels: dict[str, dict[str, int]]
    """By query, what the last batch said about how much is kept."""

    @property
    def state(self) -> KeptState:
        return self.states["segments"]

    @property
    def judged(self) -> Found:
        return Found(self.simulation, self.verdicts)

    def found(self, kind: type[AnyVerdict]) -> list[Any]:
        return self.judged.of(kind)


Runs = Callable[..., Run]


@pytest.fixture(scope="module")
def runs(broker: Broker, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs a scenario, or gives the run that was."""
    folder: Path = tmp_path_factory.mktemp("checkpoints")

    @cache
    def run(
        name: str, *, partitions: int = 1, twice: bool = False, offsets_max: int = ONE_BATCH, parts: int = 1
    ) -> Run:
        """`parts`: the topic is written so many times a part, and read to its end after each."""
        simulation = SCENARIOS[name].run(Settings())
        records = list(simulation.records)
        if twice:
            records += [Record(r.time_ms + LATER_MS, r.key, r.value) for r in records]
        lab = Lab(broker, spark, folder, simulation.config, partitions)
        progress: dict[str, list[Any]] = defaultdict(list)
        size = -(-len(records) // parts)
        for at in range(0, len(records), size):
            lab.publish(records[at : at + size])
            for query in QUERIES.values():
                limit = offsets_max if query.name == "segments" else max(1, offsets_max // 10)
                progress[query.name] += lab.run(limit, query)
        written = lab.segments()
        return Run(
            simulation,
            written,
            spots_of(records, written),
            Counter({query: len(batches) for query, batches in progress.items()}),
            tallied(batch for batches in progress.values() for batch in batches),
            lab.verdicts(),
            lab.reports(),
            lab.dead_letters(),
            {query.name: lab.state(query) for query in QUERIES.values()},
            {query: levels_of(batches[-1]) for query, batches in progress.items()},
        )

    return run


def levels_of(progress: Any) -> dict[str, int]:
    observed = progress.observedMetrics[TALLIES].asDict()
    return {name: observed[name] for name in LEVELS}


every_scenario = pytest.mark.parametrize("name", SCENARIOS)
telling_scenarios = pytest.mark.parametrize(
    "name",
    [
        "whole-story",
        "withheld-story",
        "silent-listener",
        "ref-to-nothing",
        "hostile-input",
        "rare-noops",
        "diverging-replicas",
    ],
)
"""Among them they have every kind of verdict."""


@every_scenario
def test_forks_are_those_of_the_ground_truth(runs: Runs, name: str) -> None:
    run = runs(name)
    found = [(fork.author, fork.previous, [branch.id for branch in fork.branches]) for fork in run.found(Fork)]
    assert found == [(fork.author, fork.previous, fork.branches) for fork in run.simulation.truth.forks]
    assert not any(fork.more for fork in run.found(Fork))


@every_scenario
def test_equivocations_are_those_of_the_ground_truth_and_their_evidence_verifies(runs: Runs, name: str) -> None:
    run = runs(name)
    found = [(one.author, one.index, [head.id for head in one.evidence]) for one in run.found(Equivocation)]
    assert found == [(one.author, one.index, one.ids) for one in run.simulation.truth.equivocations]
    assert all(is_proved(head, one.author) for one in run.found(Equivocation) for head in one.evidence)


@every_scenario
def test_missing_segments_are_those_of_the_ground_truth(runs: Runs, name: str) -> None:
    run = runs(name)
    found = {
        (one.author, one.index, one.id): (
            one.disputed,
            [(who.author, who.index, who.id) for who in one.referrers],
            one.more,
        )
        for one in run.found(Missing)
    }
    assert found == {
        (one.author, one.index, one.id): (
            one.disputed,
            [(who.author, who.index, who.id) for who in one.referrers[:REFERRERS_MAX]],
            len(one.referrers) > REFERRERS_MAX,
        )
        for one in run.simulation.truth.missing
    }


@every_scenario
def test_bad_indexes_are_those_of_the_ground_truth(runs: Runs, name: str) -> None:
    run = runs(name)
    found = [(v.author, v.index, v.segment.id, v.previous.id, v.previous_index) for v in run.found(BadIndex)]
    truth = run.simulation.truth.bad_index
    assert sorted(found) == [(b.author, b.index, b.id, b.previous, b.previous_index) for b in truth]


@every_scenario
def test_clocks_that_are_off_are_those_of_the_ground_truth(runs: Runs, name: str) -> None:
    run = runs(name)
    found = {one.author: (one.ahead_ms > 0, one.behind_ms > 0) for one in run.found(ClockSkew)}
    assert found == {one.author: (one.skew_ms > 0, one.skew_ms < 0) for one in run.simulation.truth.skewed}


@every_scenario
def test_replicas_and_bad_updates_are_those_of_the_ground_truth(runs: Runs, name: str) -> None:
    assert list(truthlab.replica_problems(runs(name).judged)) == []


@every_scenario
def test_noops_are_known_when_a_search_finds_so_many_peers_that_cover_them(runs: Runs, name: str) -> None:
    run = runs(name)
    assert run.found(Known)
    assert list(truthlab.known_problems(run.judged, Search(run.simulation))) == []


@every_scenario
def test_nothing_is_accepted_that_is_not_known_and_among_honest_peers_all_that_is(runs: Runs, name: str) -> None:
    run = runs(name)
    assert run.found(Accepted)
    assert list(truthlab.accepted_problems(run.judged)) == []


@every_scenario
def test_who_believed_which_story_is_what_a_search_finds(runs: Runs, name: str) -> None:
    run = runs(name)
    assert list(truthlab.belief_problems(run.judged, Search(run.simulation))) == []


@every_scenario
def test_splits_are_those_of_the_ground_truth_with_their_sides_times_and_suspects(runs: Runs, name: str) -> None:
    assert list(truthlab.split_problems(runs(name).judged)) == []


@every_scenario
def test_the_silent_are_those_who_published_nothing_for_so_long(runs: Runs, name: str) -> None:
    run = runs(name)
    assert list(truthlab.silent_problems(run.judged, Search(run.simulation).topic)) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_way_are_those_that_hear_and_that_nobody_covers(runs: Runs, name: str) -> None:
    run = runs(name)
    assert list(truthlab.one_way_problems(run.judged, Search(run.simulation))) == []


@every_scenario
def test_only_rare_noops_are_undecidable(runs: Runs, name: str) -> None:
    assert list(truthlab.undecidable_problems(runs(name).judged)) == []


def test_what_the_seed_says_is_known_to_everyone_and_to_a_majority_is(runs: Runs) -> None:
    """SPEC: seed, entanglement matrix: everyone knows 2+A, 3+B and 1+C, a majority 2+A, 3+B and 4+C."""
    run = runs("seed-example")
    names = {}
    for message in run.written:
        segment = judge(message.value, run.simulation.config.authors)
        assert isinstance(segment, Segment)
        names[segment.id.hex()] = Op.FromString(segment.ops[0]).data.decode()
    newest: dict[str, dict[str, Known]] = {"everyone": {}, "majority": {}}
    for known in run.found(Known):
        held = newest[known.rule].get(known.author, known)
        newest[known.rule][known.author] = max(held, known, key=lambda one: one.index)
    told = {rule: sorted(names[known.id] for known in by.values()) for rule, by in newest.items()}
    assert told == {"everyone": ["1+C", "2+A", "3+B"], "majority": ["2+A", "3+B", "4+C"]}
    accepted = {verdict.key.removeprefix("accepted/") for verdict in run.found(Accepted)}
    assert accepted == {verdict.key.removeprefix("known/") for verdict in run.found(Known)}


@every_scenario
def test_nothing_else_is_found(runs: Runs, name: str) -> None:
    run = runs(name)
    kinds = {type(decode_verdict(value)) for value in run.verdicts.values()}
    in_logs = {Fork, Equivocation, Missing, BadIndex, ClockSkew}
    in_the_matrix = {Known, Accepted, Belief, Split, Silent, OneWay, Undecidable}
    of_entities = {Replica, BadUpdate}
    assert kinds <= in_logs | in_the_matrix | of_entities
    assert (run.tallies["invariant_violations"], run.tallies["quarantined"]) == (0, 0)
    late = {name: run.tallies[name] for name in ("noops_late", "noops_early", "reports_dropped", "tick_gaps")}
    assert set(late.values()) == {0}, late
    assert run.tallies["ticks_judged"] == run.tallies["ticks_reported"] == len(run.reports)
    assert [state.errors for state in run.states.values()] == [{}, {}]


@every_scenario
def test_exactly_the_bad_records_are_dead_letters_whole_and_with_their_reason(runs: Runs, name: str) -> None:
    run = runs(name)
    records = run.simulation.records
    assert run.dead_letters == {
        run.spots[bad.position]: DeadLetter(bad.reason, records[bad.position].key, records[bad.position].value)
        for bad in run.simulation.truth.rejected
    }


@every_scenario
def test_every_record_is_verified_or_rejected_or_a_duplicate(runs: Runs, name: str) -> None:
    run, truth = runs(name), runs(name).simulation.truth
    assert (run.state.verified, run.state.duplicates) == (truth.verified, truth.duplicates)
    assert run.state.rejected == Counter(bad.reason for bad in truth.rejected)
    assert len(run.written) == run.state.verified + run.state.duplicates + len(run.dead_letters)
    assert (run.tallies["verified"], run.tallies["duplicate"]) == (truth.verified, truth.duplicates)


@every_scenario
def test_spark_finds_byte_for_byte_what_the_pure_folds_find_alone(runs: Runs, name: str) -> None:
    run = runs(name)
    assert differences(run.verdicts, fold_alone(run.simulation.config, run.written)) == {}


@telling_scenarios
def test_many_small_batches_of_several_partitions_written_bit_by_bit_find_the_same_bytes(runs: Runs, name: str) -> None:
    whole, cut = runs(name), runs(name, partitions=4, offsets_max=SMALL, parts=2)
    assert whole.batches == {"segments": 1, "matrix": 1}
    assert cut.batches["segments"] >= len(cut.written) // SMALL
    assert cut.batches["matrix"] > 4
    assert differences(cut.verdicts, whole.verdicts) == {}
    assert differences(cut.reports, whole.reports) == {}
    letters = [sorted(map(repr, run.dead_letters.values())) for run in (whole, cut)]
    assert letters[0] == letters[1]
    assert len(cut.written) == cut.state.verified + cut.state.duplicates + len(cut.dead_letters)


@telling_scenarios
def test_what_the_job_says_it_keeps_is_what_stands_in_its_checkpoint(runs: Runs, name: str) -> None:
    """Also after many batches, several of them the first of a job that was started again."""
    run = runs(name, partitions=4, offsets_max=SMALL, parts=2)
    for query, folds in (("segments", ("logs", "columns", "clocks")), ("matrix", ("splits",))):
        state, levels = run.states[query], run.levels[query]
        sizes = [state.sizes[fold] for fold in folds]
        assert levels["state_rows"] == sum(state.keys[fold] for fold in folds) + sum(s.archive_entries for s in sizes)
        assert levels["state_bytes"] == sum(size.blob_bytes + size.archive_bytes for size in sizes)
        assert 0 < levels["state_blob_bytes_max"] <= sum(size.blob_bytes for size in sizes)


@telling_scenarios
def test_a_topic_written_twice_finds_the_same_bytes_and_counts_the_duplicates(runs: Runs, name: str) -> None:
    once, twice = runs(name), runs(name, partitions=2, twice=True, offsets_max=400)
    truth = once.simulation.truth
    assert differences(twice.verdicts, once.verdicts) == {}
    assert twice.state.verified == truth.verified
    assert twice.state.duplicates == truth.verified + 2 * truth.duplicates
    assert len(twice.dead_letters) == 2 * len(truth.rejected)
    assert differences(twice.verdicts, fold_alone(twice.simulation.config, twice.written)) == {}


@pytest.mark.parametrize("offsets_max", [ONE_BATCH, 20])
def test_a_partition_that_ends_early_still_counts_for_the_clock_at_the_end(
    broker: Broker, spark: Any, tmp_path: Path, offsets_max: int
) -> None:
    config, sends = early_end()
    lab = Lab(broker, spark, tmp_path, config, partitions=2)
    lab.send(sends)
    progress = lab.run_all(offsets_max)
    assert (len(progress["segments"]) > 2) == (offsets_max == 20)
    found = lab.verdicts()
    assert [key.split(b"/")[0] for key in found].count(b"missing") == 1
    assert differences(found, fold_alone(config, lab.segments())) == {}


def early_end() -> tuple[Config, list[Send]]:
    """Partition 0 has one record, the newest of all; partition 1 has many, one of which names a noop that never was.

    That is due after all of partition 1, and before the record of partition 0.
    """
    busy, late = (SigningKey(sha256(name).digest()) for name in (b"busy", b"late"))
    swarm = sha256(b"swarm").digest()
    roster = {"busy": busy.public.hex(), "late": late.public.hex()}
    config = Config((Swarm(swarm.hex(), "lab", (Epoch(start=EPOCH_START, roster=roster),), "30s"),))
    sign = partial(build, swarm=swarm, ops=[], root=bytes(32))
    first = sign(late, index=1, previous=NO_PREVIOUS, time_ms=START_MS)
    sends = [Send(0, START_MS + 100_000, late.public, first.encode())]
    previous = NO_PREVIOUS
    for index in range(1, 62):
        time_ms = START_MS + 1000 * index
        refs = [Ref(late.public, 7, sha256(b"never").digest())] if index == 60 else []
        segment = sign(busy, index=index, previous=previous, time_ms=time_ms, refs=refs)
        previous = segment.id
        sends.append(Send(1, time_ms, busy.public, segment.encode()))
    return config, sends


def is_proved(head: Signed, author: str) -> bool:
    """Whether the head has this id and its author's signature, judged by the head alone."""
    encoded = bytes.fromhex(head.head)
    return head_id(encoded).hex() == head.id and is_head_signed(
        encoded, bytes.fromhex(head.signature), bytes.fromhex(author)
    )
