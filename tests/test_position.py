"""How far a query has come, told from the files of its checkpoint."""

from pathlib import Path

import pytest

from streaming.checkpoint import CheckpointError
from streaming.position import Position, begun_from, position_of


def write(checkpoint: Path, batch: int, *, offsets: str | None = None, committed: bool = True) -> None:
    for kind in ("offsets", "commits"):
        (checkpoint / "segments" / kind).mkdir(parents=True, exist_ok=True)
    text = offsets or f'v1\n{{"batchWatermarkMs":0}}\n{{"t":{{"0":{batch * 10},"1":{batch}}}}}'
    (checkpoint / "segments" / "offsets" / str(batch)).write_text(text)
    if committed:
        (checkpoint / "segments" / "commits" / str(batch)).write_text("v1\n{}")


def test_it_is_where_the_newest_batch_ended_of_which_all_is_done(tmp_path: Path) -> None:
    assert position_of(tmp_path, "segments", "t") == Position()
    for batch in range(12):
        write(tmp_path, batch, committed=batch < 11)
    (tmp_path / "segments" / "commits" / ".11.tmp.crc").write_text("")
    at = position_of(tmp_path, "segments", "t")
    assert (at.done, at.begun, at.read) == (10, 11, {0: 100, 1: 10})
    assert at.done_s == (tmp_path / "segments" / "commits" / "10").stat().st_mtime


def test_a_batch_that_was_begun_and_no_other_is_told_too(tmp_path: Path) -> None:
    write(tmp_path, 0, committed=False)
    assert position_of(tmp_path, "segments", "t") == Position(begun=0)
    write(tmp_path, 0)
    assert position_of(tmp_path, "segments", "t").begun is None


@pytest.mark.parametrize("offsets", ["", "v1\n{}", "v1\n{}\nnonsense", 'v1\n{}\n{"other": {"0": 1}}', "v1\n{}\n[1]"])
def test_files_that_cannot_be_read_are_told_with_what_to_do(tmp_path: Path, offsets: str) -> None:
    write(tmp_path, 0, offsets=offsets or "v1")
    with pytest.raises(CheckpointError, match="start with a new checkpoint directory"):
        position_of(tmp_path, "segments", "t")


def test_where_it_began_is_told_by_a_file_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="start with a new checkpoint directory"):
        begun_from(tmp_path, "segments", "t")
    folder = tmp_path / "segments" / "sources" / "0"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(b'\0v1\n{"t":{"0":7,"3":0}}')
    assert begun_from(tmp_path, "segments", "t") == {0: 7, 3: 0}
    with pytest.raises(CheckpointError, match="start with a new checkpoint directory"):
        begun_from(tmp_path, "segments", "other")
