"""A checkpoint that is damaged, or whose disk is full: one sentence, no wrong verdict, and what it says helps."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from state.connection import Connection
from streaming.broker import Broker
from tests.commandlab import quorumscope, sentence
from tests.faults.faultlab import Input, Stopwatch, Trials, story
from tests.joblab import Deployment
from tests.topiclab import DEADLINE_S, differences

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROOM_KIB, MORE_KIB = 700, 100_000


class Half(Deployment):
    """Topics of which a job has judged a half, in several batches."""

    given: Input

    def again(self, folder: Path) -> "Half":
        """The same topics, with another directory for a checkpoint."""
        other = object.__new__(Half)
        other.__dict__ |= self.__dict__ | {"checkpoint": folder}
        return other


@pytest.fixture(scope="module")
def half(trials: Trials, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Half:
    given = story(31)
    folder = tmp_path_factory.mktemp("half")
    found = Half(Connection(bootstrap=broker.bootstrap), "half", given.config, folder)
    found.given = given
    middle = len(given.records) // 2
    found.publish(given.records[:middle])
    done = quorumscope(*found.arguments("--available-now", "--offsets-max", "60"), timeout_s=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    found.publish(given.records[middle:])
    return found


def newest(folder: Path, pattern: str) -> Path:
    found = [path for path in folder.glob(pattern) if path.name[0] != "."]
    return max(found, key=lambda path: int(path.name.partition(".")[0]))


def cut_changelog(checkpoint: Path) -> None:
    path = newest(checkpoint, "segments/state/0/0/*.changelog")
    os.truncate(path, path.stat().st_size // 2)


def flip_changelog(checkpoint: Path) -> None:
    """One bit, and no checksum of the file system that would show it."""
    path = newest(checkpoint, "segments/state/0/0/*.changelog")
    (path.parent / f".{path.name}.crc").unlink()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def lose_changelog(checkpoint: Path) -> None:
    newest(checkpoint, "segments/state/0/0/*.changelog").unlink()


def cut_offsets(checkpoint: Path) -> None:
    os.truncate(newest(checkpoint, "segments/offsets/*"), 20)


def empty_commit(checkpoint: Path) -> None:
    os.truncate(newest(checkpoint, "segments/commits/*"), 0)


def damage_label(checkpoint: Path) -> None:
    (checkpoint / "quorumscope.json").write_text('{"format": 2')


@pytest.mark.parametrize(
    "damage", [cut_changelog, flip_changelog, lose_changelog, cut_offsets, empty_commit, damage_label]
)
def test_a_damaged_file_is_told_and_changes_no_verdict(
    half: Half, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    place = half.again(tmp_path / "damaged")
    shutil.copytree(half.checkpoint, place.checkpoint)
    damage(place.checkpoint)
    before = place.verdicts()
    told = sentence(quorumscope(*place.arguments("--available-now"), timeout_s=DEADLINE_S), 2)
    assert "damaged or missing" in told or "cannot be read" in told
    assert "start with a new checkpoint directory" in told
    assert differences(place.verdicts(), before) == {}


def test_and_a_new_directory_gives_the_verdicts_of_an_undisturbed_run(
    trials: Trials, half: Half, tmp_path: Path
) -> None:
    place = half.again(tmp_path / "new")
    watch = Stopwatch()
    done = quorumscope(*place.arguments("--available-now"), timeout_s=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    trials.settle(place, half.given, "damaged checkpoints; the topic is read again", 6, [watch.seconds])


def test_a_full_disk_is_told_and_with_more_room_the_job_goes_on(trials: Trials, broker: Broker, tmp_path: Path) -> None:
    given = story(32)
    with disk(tmp_path / "disk", ROOM_KIB) as resize:
        place = Deployment(Connection(bootstrap=broker.bootstrap), "full", given.config, tmp_path / "disk")
        place.swarms = shutil.move(place.swarms, tmp_path / "swarms.yaml")
        place.publish(given.records)
        small = ("--available-now", "--offsets-max", "40")
        told = sentence(quorumscope(*place.arguments(*small), timeout_s=DEADLINE_S), 2)
        assert "no room left" in told or "No space left on device" in told
        assert place.newest("offsets") >= 0, "some of it must have had room"
        resize(MORE_KIB)
        watch = Stopwatch()
        done = quorumscope(*place.arguments(*small), timeout_s=DEADLINE_S)
        assert done.returncode == 0, done.stderr
        trials.settle(place, given, "a full disk; the job goes on with more room", 1, [watch.seconds])


@contextmanager
def disk(folder: Path, kib: int) -> Iterator[Callable[[int], None]]:
    """A small disk of its own, in memory; what it gives makes it larger."""
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder))
    try:
        yield lambda more: mount("-o", f"remount,size={more}k", str(folder))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
