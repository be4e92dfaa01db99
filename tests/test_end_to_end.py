"""Every scenario on real Kafka and real Spark: what is found is the ground truth, and nothing else."""

from collections import Counter
from collections.abc import Callable
from functools import cache
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
from state.segment import Ref, build
from state.signing import SigningKey
from state.verdict import (
    AnyVerdict,
    BadIndex,
    ClockSkew,
    Equivocation,
    Fork,
    Missing,
    Signed,
    decode_verdict,
)
from streaming.broker import Broker
from tests.topiclab import ONE_BATCH, DeadLetter, KeptState, Lab, Send, Spot, Written, fold_alone, spots_of, tallied

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

LATER_MS = 60_000


class Run(NamedTuple):
    """A scenario that went through Kafka and Spark, and all that can be read back."""

    simulation: Simulation
    written: list[Written]
    spots: list[Spot]
    batches: int
    tallies: dict[str, int]
    verdicts: dict[bytes, bytes]
    dead_letters: dict[Spot, DeadLetter]
    state: KeptState

    def found(self, kind: type[AnyVerdict]) -> list[Any]:
        decoded = [decode_verdict(value) for _, value in sorted(self.verdicts.items())]
        return [verdict for verdict in decoded if type(verdict) is kind]


Runs = Callable[..., Run]


@pytest.fixture(scope="module")
def runs(broker: Broker, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs a scenario, or gives the run that was."""
    folder: Path = tmp_path_factory.mktemp("checkpoints")

    @cache
    def run(name: str, *, partitions: int = 1, twice: bool = False, offsets_max: int = ONE_BATCH) -> Run:
        simulation = SCENARIOS[name].run(Settings())
        records = list(simulation.records)
        if twice:
            records += [Record(r.time_ms + LATER_MS, r.key, r.value) for r in records]
        lab = Lab(broker, spark, folder, simulation.config, partitions)
        lab.publish(records)
        written = lab.segments()
        progress = lab.run(offsets_max)
        return Run(
            simulation,
            written,
            spots_of(records, written),
            len(progress),
            tallied(progress),
            lab.verdicts(),
            lab.dead_letters(),
            lab.state(),
        )

    return run


every_scenario = pytest.mark.parametrize("name", SCENARIOS)
telling_scenarios = pytest.mark.parametrize("name", ["lying-peer", "withheld-story", "ref-to-nothing", "hostile-input"])


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
def test_nothing_else_is_found(runs: Runs, name: str) -> None:
    run = runs(name)
    kinds = {type(decode_verdict(value)) for value in run.verdicts.values()}
    assert kinds <= {Fork, Equivocation, Missing, BadIndex, ClockSkew}
    assert (run.tallies["invariant_violations"], run.tallies["quarantined"]) == (0, 0)
    assert run.state.errors == {}


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
def test_spark_finds_byte_for_byte_what_the_pure_fold_finds_alone(runs: Runs, name: str) -> None:
    run = runs(name)
    assert run.verdicts == fold_alone(run.simulation.config, run.written)


@telling_scenarios
def test_many_small_batches_of_several_partitions_find_the_same_bytes(runs: Runs, name: str) -> None:
    whole, cut = runs(name), runs(name, partitions=4, offsets_max=100)
    assert whole.batches == 1
    assert cut.batches > 4
    assert cut.verdicts == whole.verdicts
    letters = [sorted(map(repr, run.dead_letters.values())) for run in (whole, cut)]
    assert letters[0] == letters[1]
    assert len(cut.written) == cut.state.verified + cut.state.duplicates + len(cut.dead_letters)


@telling_scenarios
def test_a_topic_written_twice_finds_the_same_bytes_and_counts_the_duplicates(runs: Runs, name: str) -> None:
    once, twice = runs(name), runs(name, partitions=2, twice=True, offsets_max=400)
    truth = once.simulation.truth
    assert twice.verdicts == once.verdicts
    assert twice.state.verified == truth.verified
    assert twice.state.duplicates == truth.verified + 2 * truth.duplicates
    assert len(twice.dead_letters) == 2 * len(truth.rejected)
    assert twice.verdicts == fold_alone(twice.simulation.config, twice.written)


@pytest.mark.parametrize("offsets_max", [ONE_BATCH, 20])
def test_a_partition_that_ends_early_still_counts_for_the_clock_at_the_end(
    broker: Broker, spark: Any, tmp_path: Path, offsets_max: int
) -> None:
    config, sends = early_end()
    lab = Lab(broker, spark, tmp_path, config, partitions=2)
    lab.send(sends)
    progress = lab.run(offsets_max)
    assert (len(progress) > 2) == (offsets_max == 20)
    found = lab.verdicts()
    assert [key.split(b"/")[0] for key in found] == [b"missing"]
    assert found == fold_alone(config, lab.segments())


def early_end() -> tuple[Config, list[Send]]:
    """Partition 0 has one record, the newest of all; partition 1 has many, one of which names a noop that never was.

    That is due after all of partition 1, and before the record of partition 0.
    """
    busy, late = (SigningKey(sha256(name).digest()) for name in (b"busy", b"late"))
    swarm = sha256(b"swarm").digest()
    roster = {"busy": busy.public.hex(), "late": late.public.hex()}
    config = Config((Swarm(swarm.hex(), "lab", (Epoch(start=EPOCH_START, roster=roster),), "30s"),))
    common = {"swarm": swarm, "ops": [], "root": bytes(32)}
    first = build(late, index=1, previous=NO_PREVIOUS, time_ms=START_MS, **common)
    sends = [Send(0, START_MS + 100_000, late.public, first.encode())]
    previous = NO_PREVIOUS
    for index in range(1, 62):
        time_ms = START_MS + 1000 * index
        refs = [Ref(late.public, 7, sha256(b"never").digest())] if index == 60 else []
        segment = build(busy, index=index, previous=previous, time_ms=time_ms, refs=refs, **common)
        previous = segment.id
        sends.append(Send(1, time_ms, busy.public, segment.encode()))
    return config, sends


def is_proved(head: Signed, author: str) -> bool:
    """Whether the head has this id and its author's signature, judged by the head alone."""
    encoded = bytes.fromhex(head.head)
    return head_id(encoded).hex() == head.id and is_head_signed(
        encoded, bytes.fromhex(head.signature), bytes.fromhex(author)
    )
