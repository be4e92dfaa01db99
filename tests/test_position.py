"""How far a query has come, told from the files of its checkpoint."""

from pathlib import Path

import pytest

from streaming.checkpoint import CheckpointError
from streaming.position import Position, begun_from, position_of


def write(checkpoint: Path, batch: int, *, is_done: bool = True) -> None:
    for kind in ("offsets", "commits"):
        (checkpoint / "segments" / kind).mkdir(parents=True, exist_ok=True)
    (checkpoint / "segments" / "metadata").write_text('{"id":"1"}')
    text = f'v1\n{{"batchWatermarkMs":0}}\n{{"t":{{"0":{batch * 10},"1":{batch}}}}}'
    (checkpoint / "segments" / "offsets" / str(batch)).write_text(text)
    if is_done:
        (checkpoint / "segments" / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_it_is_where_the_newest_batch_ended_of_which_all_is_done(tmp_path: Path) -> None:
    assert position_of(tmp_path, "segments", "t") == Position()
    for batch in range(12):
        write(tmp_path, batch, is_done=batch < 11)
    (tmp_path / "segments" / "commits" / ".11.tmp.crc").write_text("")
    at = position_of(tmp_path, "segments", "t")
    assert (at.done, at.begun, at.read) == (10, 11, {0: 100, 1: 10})
    assert at.done_s == (tmp_path / "segments" / "commits" / "10").stat().st_mtime


def test_a_batch_that_was_begun_and_no_other_is_told_too(tmp_path: Path) -> None:
    write(tmp_path, 0, is_done=False)
    assert position_of(tmp_path, "segments", "t") == Position(begun=0)
    write(tmp_path, 0)
    assert position_of(tmp_path, "segments", "t").begun is None


DAMAGES = ["", "v", "v1", "v2\n{}\n{}", "v1\nnonsense\n[1]"]
IN_OFFSETS = ["v1\n{}\nnonsense", "v1\n{}\n[1]", "v1\n{}"]


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, damage) for name in ("offsets/0", "offsets/1", "commits/0", "metadata") for damage in DAMAGES]
    + [(name, damage) for name in ("offsets/0", "offsets/1") for damage in IN_OFFSETS],
)
def test_each_file_that_cannot_be_read_is_told_by_its_name_with_what_to_do(
    tmp_path: Path, name: str, damage: str
) -> None:
    write(tmp_path, 0)
    write(tmp_path, 1, is_done=False)
    position_of(tmp_path, "segments", "t")
    (tmp_path / "segments" / name).write_text(damage)
    told = rf"segments/{name} cannot be read \(.*start with a new checkpoint directory"
    with pytest.raises(CheckpointError, match=told):
        position_of(tmp_path, "segments", "t")


@pytest.mark.parametrize("name", ["offsets/0", "metadata"])
def test_a_file_that_is_gone_is_told_too(tmp_path: Path, name: str) -> None:
    write(tmp_path, 0)
    (tmp_path / "segments" / name).unlink()
    with pytest.raises(CheckpointError, match=rf"segments/{name} cannot be read \(No such file"):
        position_of(tmp_path, "segments", "t")


def test_the_checkpoint_of_another_prefix_is_told_as_such(tmp_path: Path) -> None:
    write(tmp_path, 0)
    with pytest.raises(CheckpointError, match="offsets/0 is of t and not of u: give the --prefix of the checkpoint"):
        position_of(tmp_path, "segments", "u")


def test_where_it_began_is_told_by_a_file_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="start with a new checkpoint directory"):
        begun_from(tmp_path, "segments", "t")
    folder = tmp_path / "segments" / "sources" / "0"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(b'\0v1\n{"t":{"0":7,"3":0}}')
    assert begun_from(tmp_path, "segments", "t") == {0: 7, 3: 0}
    with pytest.raises(CheckpointError, match="is of t and not of other"):
        begun_from(tmp_path, "segments", "other")
    (folder / "0").write_bytes(b"")
    with pytest.raises(CheckpointError, match="sources/0/0 cannot be read"):
        begun_from(tmp_path, "segments", "t")
