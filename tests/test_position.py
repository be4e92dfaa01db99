"""How far a query has come, told from the files of its checkpoint."""

from pathlib import Path

import pytest

from streaming.checkpoint import CheckpointError
from streaming.position import position


def write(checkpoint: Path, batch: int, *, offsets: str | None = None, committed: bool = True) -> None:
    for kind in ("offsets", "commits"):
        (checkpoint / "segments" / kind).mkdir(parents=True, exist_ok=True)
    text = offsets or f'v1\n{{"batchWatermarkMs":0}}\n{{"t":{{"0":{batch * 10},"1":{batch}}}}}'
    (checkpoint / "segments" / "offsets" / str(batch)).write_text(text)
    if committed:
        (checkpoint / "segments" / "commits" / str(batch)).write_text("v1\n{}")


def test_it_is_where_the_newest_batch_ended_of_which_all_is_done(tmp_path: Path) -> None:
    assert position(tmp_path, "segments", "t") == {}
    for batch in range(12):
        write(tmp_path, batch, committed=batch < 11)
    (tmp_path / "segments" / "commits" / ".11.tmp.crc").write_text("")
    assert position(tmp_path, "segments", "t") == {0: 100, 1: 10}


@pytest.mark.parametrize("offsets", ["", "v1\n{}", "v1\n{}\nnonsense", 'v1\n{}\n{"other": {"0": 1}}', "v1\n{}\n[1]"])
def test_files_that_cannot_be_read_are_told_with_what_to_do(tmp_path: Path, offsets: str) -> None:
    write(tmp_path, 0, offsets=offsets or "v1")
    with pytest.raises(CheckpointError, match="start with a new checkpoint directory"):
        position(tmp_path, "segments", "t")
