"""A lie about the very beginning of a long log is found, and what it takes to remember that much is told."""

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from producers.load import deep_fork
from state.head import NO_PREVIOUS, decode_head, head_id, is_head_signed
from state.limits import LIVE_MAX
from state.verdict import Accepted, AnyVerdict, Equivocation, Fork, Known, Limit, decode_verdict
from streaming.broker import Broker
from tests.topiclab import Lab, tallied

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SEGMENTS = 100_000
HEAD_STATE_BYTES_MAX = 200
"""The design says about 170 bytes a head; a packed one takes 182, and its span a little."""
NOOP_STATE_BYTES_MAX = 100
"""What the columns keep of a noop that is looked at, where one peer is all there is."""


def test_a_fork_at_index_one_is_found_after_a_hundred_thousand_segments(
    broker: Broker, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, records = deep_fork(SEGMENTS)
    lab = Lab(broker, spark, tmp_path, config, partitions=1)
    assert lab.publish(records) == SEGMENTS + 1
    started_s = time.monotonic()
    progress = lab.run(offsets_max=25_000)
    took_s = time.monotonic() - started_s

    found: dict[type[AnyVerdict], list[Any]] = defaultdict(list)
    for verdict in map(decode_verdict, lab.verdicts().values()):
        found[type(verdict)].append(verdict)
    assert found.keys() == {Fork, Equivocation, Known, Accepted, Limit}
    (fork,), (equivocation,), (limit,) = found[Fork], found[Equivocation], found[Limit]
    assert fork.previous == NO_PREVIOUS.hex()
    assert equivocation.index == 1
    assert fork.branches == equivocation.evidence
    author = bytes.fromhex(equivocation.author)
    one, other = equivocation.evidence
    assert one.id != other.id
    for evidence in (one, other):
        head = bytes.fromhex(evidence.head)
        assert head_id(head).hex() == evidence.id
        assert is_head_signed(head, bytes.fromhex(evidence.signature), author)
        assert (decode_head(head).author, decode_head(head).index) == (author, 1)

    # So many noops of one peer within a horizon are a flood: the matrix leaves out what comes beyond its limit.
    assert (limit.author, limit.maximum) == (equivocation.author, LIVE_MAX)
    assert [len(found[kind]) for kind in (Known, Accepted)] == [LIVE_MAX, LIVE_MAX]

    state, counted = lab.state(), tallied(progress)
    assert state.verified == SEGMENTS + 1
    assert (counted["invariant_violations"], counted["quarantined"]) == (0, 0)
    assert len(progress) == 5
    logs, columns = (sum(state.sizes[fold][::2]) for fold in ("logs", "columns"))
    assert logs / SEGMENTS < HEAD_STATE_BYTES_MAX
    assert columns / LIVE_MAX < NOOP_STATE_BYTES_MAX
    with capsys.disabled():
        print(
            f"\ndeep fork: {SEGMENTS + 1:,} segments of one author in {len(progress)} batches and {took_s:.1f} s; "
            f"state: {logs / SEGMENTS:.1f} bytes a segment in logs, {columns / LIVE_MAX:.1f} bytes a noop in columns"
        )
        for fold, size in state.sizes.items():
            print(
                f"  {fold}: {size.blob_bytes:,} bytes of blobs, {size.archive_bytes:,} bytes in "
                f"{size.archive_entries:,} archive entries"
            )
