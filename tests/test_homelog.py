"""The home log on disk: what is written survives, what is torn is cut, what is damaged is refused."""

import contextlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers import homelog
from producers.homelog import Acknowledged, HomeLog, LogDamagedError, LogInUseError, public_key

SWARM = bytes(range(32))
BATCHES = [[b"one"], [b"two", b"", b"three" * 100], [b"four" * 50]]


def write(directory: Path, batches: list[list[bytes]] = BATCHES) -> list[int]:
    with HomeLog(directory, SWARM) as log:
        return [log.append(batch) for batch in batches]


def read(directory: Path) -> list[list[bytes]]:
    with HomeLog(directory, SWARM) as log:
        return [entry.records for entry in log.entries()]


@contextlib.contextmanager
def copied(directory: Path) -> Iterator[Path]:
    """A copy for one example of hypothesis, which runs many within one test."""
    with tempfile.TemporaryDirectory() as folder:
        yield shutil.copytree(directory, Path(folder) / "copy")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A log with three entries, and their offsets. Tests work on copies."""
    directory = tmp_path_factory.mktemp("homelog") / "peer"
    return directory, write(directory)


@pytest.fixture
def copy(written: tuple[Path, list[int]], tmp_path: Path) -> Path:
    return shutil.copytree(written[0], tmp_path / "copy")


def test_what_was_appended_is_read_back_in_order_after_opening_again(tmp_path: Path) -> None:
    write(tmp_path, BATCHES[:1])
    write(tmp_path, BATCHES[1:])
    assert read(tmp_path) == BATCHES


def test_entries_can_be_read_from_any_entry_on(written: tuple[Path, list[int]], copy: Path) -> None:
    with HomeLog(copy, SWARM) as log:
        assert [entry.records for entry in log.entries(written[1][1])] == BATCHES[1:]


def test_records_held_together_become_entries_of_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homelog, "ENTRY_BYTES_MAX", 100)
    records = [bytes([i]) * 30 for i in range(10)] + [bytes(200)]
    write(tmp_path, [records])
    batches = read(tmp_path)
    assert [record for batch in batches for record in batch] == records
    assert len(batches) > 3


def test_appending_nothing_writes_nothing(copy: Path) -> None:
    size = (copy / "home.log").stat().st_size
    write(copy, [[]])
    assert (copy / "home.log").stat().st_size == size


def test_everything_appended_is_synced_before_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def recording(file: int) -> None:
        synced.append(os.fstat(file).st_size)
        fsync(file)

    with HomeLog(tmp_path, SWARM) as log:
        monkeypatch.setattr(os, "fsync", recording)
        for batch in BATCHES:
            log.append(batch)
            assert synced[-1] == (tmp_path / "home.log").stat().st_size


def test_opening_syncs_what_a_killed_writer_may_have_left_in_the_cache(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    HomeLog(copy, SWARM).close()
    assert (copy / "home.log").stat().st_ino in synced


def test_the_secret_key_is_readable_by_its_owner_alone_and_stays_the_same(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "peer"
    public = public_key(directory)
    assert stat.S_IMODE((directory / "secret.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    with HomeLog(directory, SWARM) as log:
        assert log.key.public == public == public_key(directory)


def test_a_second_opener_is_told_that_the_log_is_in_use(tmp_path: Path) -> None:
    with HomeLog(tmp_path, SWARM), pytest.raises(LogInUseError, match=f"already open .process {os.getpid()}"):
        HomeLog(tmp_path, SWARM)
    HomeLog(tmp_path, SWARM).close()


def test_a_log_that_could_not_be_opened_is_not_left_locked(copy: Path) -> None:
    for _ in range(2):
        with pytest.raises(LogDamagedError, match="belongs to swarm"):
            HomeLog(copy, bytes(32))


def test_a_last_entry_cut_anywhere_is_cut_off_and_the_rest_kept(
    written: tuple[Path, list[int]], copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start, content = written[1][2], (copy / "home.log").read_bytes()
    for cut in range(start, len(content)):
        caplog.clear()
        (copy / "home.log").write_bytes(content[:cut])
        assert read(copy) == BATCHES[:2]
        assert (copy / "home.log").stat().st_size == start
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * (cut > start)


def test_a_tail_of_zeros_is_an_entry_that_was_never_written(written: tuple[Path, list[int]], copy: Path) -> None:
    os.truncate(copy / "home.log", written[1][2])
    os.truncate(copy / "home.log", written[1][2] + 5000)
    assert read(copy) == BATCHES[:2]


def test_a_last_entry_of_the_right_length_with_pages_missing_is_cut_off(
    written: tuple[Path, list[int]], copy: Path
) -> None:
    with (copy / "home.log").open("r+b") as file:
        file.seek(written[1][2] + 50)
        file.write(bytes(40))
    assert read(copy) == BATCHES[:2]


def test_after_a_torn_tail_the_log_goes_on(written: tuple[Path, list[int]], copy: Path) -> None:
    os.truncate(copy / "home.log", written[1][2] + 7)
    write(copy, [[b"next"]])
    assert read(copy) == [*BATCHES[:2], [b"next"]]


@settings(deadline=None)
@given(data=st.data())
def test_a_flipped_bit_before_the_last_entry_is_refused_with_the_offset_of_its_entry(
    data: st.DataObject, written: tuple[Path, list[int]]
) -> None:
    directory, offsets = written
    at = data.draw(st.integers(offsets[0], offsets[2] - 1))
    bit = data.draw(st.integers(0, 7))
    with copied(directory) as damaged:
        content = bytearray((damaged / "home.log").read_bytes())
        content[at] ^= 1 << bit
        (damaged / "home.log").write_bytes(content)
        entry = max(offset for offset in offsets if offset <= at)
        with pytest.raises(LogDamagedError, match=rf"the entry at byte {entry} is damaged.*Bring back the newest copy"):
            HomeLog(damaged, SWARM)
        assert (damaged / "home.log").read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"something else entirely", b"quorumscope home log 9\n" + bytes(64)])
def test_a_file_that_is_not_a_home_log_is_refused(copy: Path, content: bytes) -> None:
    (copy / "home.log").write_bytes(content)
    with pytest.raises(LogDamagedError, match="not a home log of a version known here"):
        HomeLog(copy, SWARM)


def test_a_log_written_by_another_key_is_refused(copy: Path) -> None:
    (copy / "secret.key").unlink()
    (copy / "secret.key").write_text("11" * 32)
    with pytest.raises(LogDamagedError, match="was written by"):
        HomeLog(copy, SWARM)


def test_a_log_without_its_key_is_refused_and_gets_no_new_one(copy: Path) -> None:
    (copy / "secret.key").unlink()
    with pytest.raises(LogDamagedError, match=r"secret\.key is missing"):
        HomeLog(copy, SWARM)
    assert not (copy / "secret.key").exists()


@pytest.mark.parametrize("text", ["", "zz" * 32, "11" * 31])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(copy: Path, text: str) -> None:
    (copy / "secret.key").write_text(text)
    with pytest.raises(LogDamagedError, match="64 hexadecimal digits") as caught:
        HomeLog(copy, SWARM)
    assert not text or text not in str(caught.value)


def test_a_failed_write_closes_the_log_and_opening_it_again_finds_what_is_there(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Iterator[None]:
        raise OSError(28, "No space left on device")

    with HomeLog(copy, SWARM) as log:
        with monkeypatch.context() as patch:
            patch.setattr(homelog, "_write_all", full)
            with pytest.raises(OSError, match="No space"):
                log.append([b"lost"])
        with pytest.raises(ValueError, match="closed: open it again"):
            log.append([b"refused"])
    assert read(copy) == BATCHES


def test_what_was_acknowledged_is_remembered(tmp_path: Path) -> None:
    known = Acknowledged("topic id", 7, 1_700_000_000_000)
    with HomeLog(tmp_path, SWARM) as log:
        assert log.acknowledged is None
        log.acknowledge(known)
    with HomeLog(tmp_path, SWARM) as log:
        assert log.acknowledged == known


@pytest.mark.parametrize("content", [b"", b"{", b'{"index": "x"}', b"\xff\xfe", b"\0" * 40])
def test_an_unreadable_acknowledgement_counts_as_none(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "acknowledged.json").write_bytes(content)
    with HomeLog(tmp_path, SWARM) as log:
        assert log.acknowledged is None
    assert "is ignored" in caplog.text


def test_a_closed_log_acknowledges_nothing_because_the_lock_may_be_anothers(tmp_path: Path) -> None:
    log = HomeLog(tmp_path, SWARM)
    log.close()
    log.acknowledge(Acknowledged("topic id", 1, 1))
    assert not (tmp_path / "acknowledged.json").exists()
