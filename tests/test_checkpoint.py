"""The checkpoint directory: labelled once, refused when it is something else."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from state.config import Config
from streaming.checkpoint import CheckpointError, Label, count_start, open_label
from streaming.queries import QUERIES
from tests.loglab import lab_config, since_config

CONFIG = lab_config()
LAB = CONFIG.swarms[0]


def with_blocks(blocks: int) -> Config:
    return Config((msgspec.structs.replace(LAB, blocks=blocks),))


def rewrite(directory: Path, **changes: Any) -> None:
    """Change the label, as another version of this program would have written it."""
    path = directory / "quorumscope.json"
    label = msgspec.json.decode(path.read_bytes(), type=Label)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(label, **changes)))


def test_a_new_checkpoint_is_labelled_and_keeps_its_partitions(tmp_path: Path) -> None:
    made = open_label(tmp_path, None, 3, CONFIG)
    assert made.shuffle_partitions == 3
    assert open_label(tmp_path, None, 8, CONFIG) == made
    with pytest.raises(CheckpointError, match="3 shuffle partitions"):
        open_label(tmp_path, 8, 8, CONFIG)


def test_what_a_job_left_before_it_had_a_label_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("lock", "spark.log", "quorumscope.tmp"):
        (tmp_path / name).write_text("")
    assert open_label(tmp_path, None, 1, CONFIG).shuffle_partitions == 1


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("")
    with pytest.raises(CheckpointError, match="no checkpoint of quorumscope"):
        open_label(tmp_path, None, 1, CONFIG)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 99, "shuffle_partitions": 1, "folds": {}}'])
def test_a_label_that_cannot_be_read_is_told_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "quorumscope.json").write_bytes(content)
    with pytest.raises(CheckpointError, match="new checkpoint directory"):
        open_label(tmp_path, None, 1, CONFIG)


def test_the_time_before_which_all_is_gone_stays_what_it_was(tmp_path: Path) -> None:
    for name, made, other in (("with", since_config(CONFIG, 9), CONFIG), ("without", CONFIG, since_config(CONFIG, 9))):
        (tmp_path / name).mkdir()
        label = open_label(tmp_path / name, None, 1, made)
        assert open_label(tmp_path / name, None, 1, made) == label
        with pytest.raises(CheckpointError, match="judges lab with another `since`"):
            open_label(tmp_path / name, None, 1, other)


def test_a_fold_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    label = open_label(tmp_path, None, 1, CONFIG)
    rewrite(tmp_path, folds=label.folds | {"logs": 99})
    with pytest.raises(CheckpointError, match=r"version 99 of the fold 'logs', .* version \d+: start with a new"):
        open_label(tmp_path, None, 1, CONFIG)


@pytest.mark.parametrize("fold", [fold for query in QUERIES.values() for fold in query.folds])
def test_a_checkpoint_without_a_fold_is_refused_because_what_the_fold_needs_was_read_before(
    tmp_path: Path, fold: str
) -> None:
    label = open_label(tmp_path, None, 1, CONFIG)
    rewrite(tmp_path, folds={name: version for name, version in label.folds.items() if name != fold})
    with pytest.raises(CheckpointError, match=f"holds nothing of the fold '{fold}', .*new checkpoint directory"):
        open_label(tmp_path, None, 1, CONFIG)


def test_the_label_names_every_fold_of_every_query(tmp_path: Path) -> None:
    label = open_label(tmp_path, None, 1, CONFIG)
    assert label.folds.keys() == {fold for query in QUERIES.values() for fold in query.folds}


@pytest.mark.parametrize(("made", "wanted"), [(2, 3), (0, 2), (3, 0)])
def test_a_checkpoint_made_with_other_blocks_is_refused_with_the_line_that_keeps_them(
    tmp_path: Path, made: int, wanted: int
) -> None:
    """0 lets the size of the roster decide: one block for a small one."""
    open_label(tmp_path, None, 1, with_blocks(made))
    told = f"columns of lab in {made or 1} blocks, the configuration says {wanted or 1}: set `blocks: {made or 1}`"
    with pytest.raises(CheckpointError, match=f"{told} for this swarm, or start with a new checkpoint directory"):
        open_label(tmp_path, None, 1, with_blocks(wanted))
    assert open_label(tmp_path, None, 1, with_blocks(made or 1)).blocks == {LAB.id: made or 1}


def test_a_swarm_that_joins_later_has_its_blocks_kept_too_and_one_that_leaves_keeps_its_own(tmp_path: Path) -> None:
    later = msgspec.structs.replace(LAB, id="ab" * 32, name="later", blocks=4)
    open_label(tmp_path, None, 1, CONFIG)
    both = open_label(tmp_path, None, 1, Config((LAB, later)))
    assert both.blocks == {LAB.id: 1, later.id: 4}
    assert open_label(tmp_path, None, 1, CONFIG) == both
    with pytest.raises(CheckpointError, match="columns of later in 4 blocks, the configuration says 5"):
        open_label(tmp_path, None, 1, Config((LAB, msgspec.structs.replace(later, blocks=5))))


def test_blocks_that_a_label_does_not_tell_are_those_of_the_configuration_from_then_on(tmp_path: Path) -> None:
    open_label(tmp_path, None, 1, with_blocks(2))
    rewrite(tmp_path, blocks={})
    assert open_label(tmp_path, None, 1, with_blocks(3)).blocks == {LAB.id: 3}
    with pytest.raises(CheckpointError, match="in 3 blocks"):
        open_label(tmp_path, None, 1, with_blocks(2))


def test_starts_are_counted_and_a_checkpoint_of_before_begins_with_one(tmp_path: Path) -> None:
    open_label(tmp_path, None, 1, CONFIG)
    assert [count_start(tmp_path) for _ in range(3)] == [1, 2, 3]
    open_label(tmp_path, None, 1, CONFIG)


@pytest.mark.parametrize("content", [b"", b"many", b"\xff\xfe", b"1.5"])
def test_a_count_of_starts_that_cannot_be_read_begins_anew_and_stops_no_job(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "starts").write_bytes(content)
    assert [count_start(tmp_path) for _ in range(2)] == [1, 2]


def test_whoever_is_killed_while_a_start_is_counted_leaves_the_count_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_killed(path: Path, content: bytes) -> None:
        with path.open("wb"):
            raise KeyboardInterrupt(content)

    assert [count_start(tmp_path) for _ in range(5)] == [1, 2, 3, 4, 5]
    for name in ("write_text", "write_bytes"):
        monkeypatch.setattr(Path, name, be_killed)
    with pytest.raises(KeyboardInterrupt):
        count_start(tmp_path)
    monkeypatch.undo()
    assert count_start(tmp_path) == 6
