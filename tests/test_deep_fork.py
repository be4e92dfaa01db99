"""A lie about the very beginning of a long log is found, and what it takes to remember that much is told."""

import time
from pathlib import Path
from typing import Any

import pytest

from producers.load import deep_fork
from state.head import NO_PREVIOUS, decode_head, head_id, is_head_signed
from state.verdict import Equivocation, Fork, decode_verdict
from streaming.broker import Broker
from tests.topiclab import Lab, tallied

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SEGMENTS = 100_000
HEAD_STATE_BYTES_MAX = 200
"""The design says about 170 bytes a head; a packed one takes 182, and its span a little."""


def test_a_fork_at_index_one_is_found_after_a_hundred_thousand_segments(
    broker: Broker, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, records = deep_fork(SEGMENTS)
    lab = Lab(broker, spark, tmp_path, config, partitions=1)
    assert lab.publish(records) == SEGMENTS + 1
    started_s = time.monotonic()
    progress = lab.run(offsets_max=25_000)
    took_s = time.monotonic() - started_s

    verdicts = {type(verdict): verdict for verdict in map(decode_verdict, lab.verdicts().values())}
    assert verdicts.keys() == {Fork, Equivocation}
    fork, equivocation = verdicts[Fork], verdicts[Equivocation]
    assert isinstance(fork, Fork)
    assert isinstance(equivocation, Equivocation)
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

    state = lab.state()
    assert state.verified == SEGMENTS + 1
    assert tallied(progress)["invariant_violations"] == 0
    assert len(progress) == 5
    total = state.blob_bytes + state.archive_bytes
    assert total / SEGMENTS < HEAD_STATE_BYTES_MAX
    with capsys.disabled():
        print(
            f"\ndeep fork: {SEGMENTS + 1:,} segments of one author in {len(progress)} batches and {took_s:.1f} s; "
            f"state: {state.blob_bytes:,} bytes of blobs, {state.archive_bytes:,} bytes in "
            f"{state.archive_entries:,} archive entries, {total / SEGMENTS:.1f} bytes a segment"
        )
