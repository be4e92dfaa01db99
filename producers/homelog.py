"""The home log on disk: a peer's key, its own segments and those it holds of others, in the order they were held.

A directory with four files, for one process at a time:
- `secret.key`         the seed of the peer's key, 64 hexadecimal digits, readable by its owner alone;
- `home.log`           a header (magic, swarm, author), then entries, only ever appended;
- `lock`               locked for as long as the log is open;
- `acknowledged.json`  up to which own segment Kafka has confirmed. Losing it is harmless: it is found out again.

An entry is one write: length u32 · CRC-32 of the payload u32 · CRC-32 of these 8 bytes u32 · payload, and the payload
is one or more records, each length u32 · bytes (big-endian). It is on the disk when `append` returns, so before
anything of it is published. What follows for opening a log:
- The last entry is incomplete: the machine or the process stopped in mid write. It was never published; it is cut off.
- Any other entry is damaged: refused. Cutting there would let the peer sign other versions of what it has published.
"""

import contextlib
import fcntl
import logging
import os
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

import msgspec

from state.signing import KEY_BYTES, SEED_BYTES, SigningKey

ENTRY_BYTES_MAX = 4 << 20
"""Records that are held together stand in one entry up to this size, so that a thousand cost few fsyncs, and opening
a log never needs more memory than a few entries. One record is at most 1 MiB."""

_MAGIC = b"quorumscope home log 1\n"
_KEY_FILE, _LOG_FILE, _LOCK_FILE, _ACKNOWLEDGED_FILE = "secret.key", "home.log", "lock", "acknowledged.json"
_HEADER_BYTES = len(_MAGIC) + 32 + KEY_BYTES
_FRAME = struct.Struct(">II")
_FRAME_BYTES = _FRAME.size + 4
_LENGTH_BYTES = 4
_ZERO_CHUNK_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class LogInUseError(Exception):
    """Another process, or another part of this one, has the log open."""


class LogDamagedError(Exception):
    """The files cannot be what this peer wrote last; the message says where, and what to do."""


class Entry(NamedTuple):
    """What one append wrote, and the byte at which it starts."""

    offset: int
    records: list[bytes]


class Acknowledged(msgspec.Struct, frozen=True):
    """Kafka has confirmed the own segments 1 to `index` at `destination`, the last one at the broker's `time_ms`."""

    destination: str
    index: int
    time_ms: int


class HomeLog:
    """An open home log. It is not made for use by several threads."""

    def __init__(self, directory: Path, swarm: bytes) -> None:
        """Open the log in `directory`, or create one; the entries that are there have been checked."""
        _make_directory(directory)
        self._path = directory / _LOG_FILE
        self._acknowledged_path = directory / _ACKNOWLEDGED_FILE
        self._open_files = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.enter_context(_locked(directory))
            self.key = _read_or_make_key(directory)
            self._file = _open_file(self._path, swarm, self.key.public)
            undo.callback(os.close, self._file)
            self._end = self._find_end()
            self._open_files = undo.pop_all()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the files and the lock. Closing twice is fine."""
        self._closed = True
        self._open_files.close()

    def append(self, records: Iterable[bytes]) -> int:
        """Write records so that they survive a crash; gives the offset of the first entry. They may become several.

        If this fails nobody knows what is on the disk, so the log is closed: opening it again finds out.
        """
        self._require_open()
        start = self._end
        try:
            for payload in _payloads(records):
                _write_all(self._file, _frame(payload))
                _sync(self._file)
                self._end += _FRAME_BYTES + len(payload)
        except BaseException:
            self.close()
            raise
        return start

    def entries(self, start: int = _HEADER_BYTES) -> Iterator[Entry]:
        """The entries from the one at offset `start` on, in the order in which they were written."""
        at = start
        while at < self._end:
            self._require_open()
            payload = self._payload_at(at, self._end)
            if payload is None:
                raise _damaged(self._path, at, "it can no longer be read whole")
            yield Entry(at, _split(payload))
            at += _FRAME_BYTES + len(payload)

    @property
    def acknowledged(self) -> Acknowledged | None:
        """What was last acknowledged, as far as it is known."""
        try:
            return msgspec.json.decode(self._acknowledged_path.read_bytes(), type=Acknowledged)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            _log.warning("%s cannot be read and is ignored: %s", self._acknowledged_path, error)
            return None

    def acknowledge(self, acknowledged: Acknowledged) -> None:
        """Note what Kafka has confirmed. Not synced to the disk, and not written at all once the log is closed, because
        the lock may be another's then: publishing again is harmless.
        """
        if not self._closed:
            _write_atomically(self._acknowledged_path, msgspec.json.encode(acknowledged), sync=False)

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self._path} is closed: open it again")

    def _find_end(self) -> int:
        """Check every entry, and cut off an incomplete last one."""
        size, at = os.fstat(self._file).st_size, _HEADER_BYTES
        while at < size:
            payload = self._payload_at(at, size)
            if payload is None:
                _log.warning("%s: cut off an incomplete last entry, %d bytes at byte %d", self._path, size - at, at)
                os.ftruncate(self._file, at)
                break
            at += _FRAME_BYTES + len(payload)
        # An entry may be whole in the file and not yet on the disk, if its writer was killed before its fsync.
        _sync(self._file)
        return at

    def _payload_at(self, at: int, size: int) -> bytes | None:
        """The payload of the entry at `at` in a file of `size` bytes; None if its write did not come to its end."""
        header = os.pread(self._file, _FRAME_BYTES, at)
        if len(header) < _FRAME_BYTES:
            return None
        length, checksum = _FRAME.unpack_from(header)
        if _frame_header(length, checksum) != header:
            # After a power cut some file systems show a tail of zeros: the file has grown, the data never came.
            if self._is_zero(at, size):
                return None
            raise _damaged(self._path, at, "its first 12 bytes do not fit together")
        payload = os.pread(self._file, length, at + _FRAME_BYTES)
        if len(payload) < length:
            return None
        if crc32(payload) != checksum:
            # The pages of one write reach the disk in any order: a last entry of the right length may lack some.
            if at + _FRAME_BYTES + length == size:
                return None
            raise _damaged(self._path, at, "its checksum is wrong")
        return payload

    def _is_zero(self, at: int, size: int) -> bool:
        starts = range(at, size, _ZERO_CHUNK_BYTES)
        return not any(any(os.pread(self._file, _ZERO_CHUNK_BYTES, start)) for start in starts)


def public_key(directory: Path) -> bytes:
    """The public key of the peer whose log is, or will be, in `directory`; makes the secret key if there is none.

    So a peer's key can be put on a roster before its log is first opened.
    """
    if not (directory / _KEY_FILE).exists():
        _make_directory(directory)
        with _locked(directory):
            return _read_or_make_key(directory).public
    return _read_key(directory / _KEY_FILE).public


def _make_directory(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync_directory(directory.parent)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    file = os.open(directory / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(file, 20, 0).decode(errors="replace").strip() or "unknown"
            raise LogInUseError(
                f"the home log in {directory} is already open (process {owner}): stop it first"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


def _read_or_make_key(directory: Path) -> SigningKey:
    path = directory / _KEY_FILE
    if path.exists():
        return _read_key(path)
    if (directory / _LOG_FILE).exists():
        raise LogDamagedError(f"{path} is missing, and without it the log beside it cannot go on: bring it back")
    seed = secrets.token_bytes(SEED_BYTES)
    _write_atomically(path, seed.hex().encode() + b"\n", sync=True)
    return SigningKey(seed)


def _read_key(path: Path) -> SigningKey:
    try:
        return SigningKey(bytes.fromhex(path.read_text("ascii").strip()))
    except ValueError:
        # The error itself is left out: it could show a part of the secret.
        raise LogDamagedError(
            f"{path} is not {2 * SEED_BYTES} hexadecimal digits: bring it back from a backup"
        ) from None


def _open_file(path: Path, swarm: bytes, author: bytes) -> int:
    header = _MAGIC + swarm + author
    if not path.exists():
        _write_atomically(path, header, sync=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND)
    found = os.pread(file, _HEADER_BYTES, 0)
    if found != header:
        os.close(file)
        raise _not_ours(path, found, swarm, author)
    return file


def _not_ours(path: Path, found: bytes, swarm: bytes, author: bytes) -> LogDamagedError:
    at = len(_MAGIC)
    if len(found) < _HEADER_BYTES or not found.startswith(_MAGIC):
        return LogDamagedError(f"{path} is not a home log of a version known here: bring it back from a backup")
    if found[at : at + 32] != swarm:
        return LogDamagedError(f"{path} belongs to swarm {found[at : at + 32].hex()}, wanted {swarm.hex()}")
    return LogDamagedError(f"{path} was written by {found[at + 32 :].hex()}, the key beside it is {author.hex()}")


def _damaged(path: Path, at: int, why: str) -> LogDamagedError:
    return LogDamagedError(
        f"{path}: the entry at byte {at} is damaged: {why}. Bring back the newest copy of the directory, or start a "
        "new one with a new key; do not cut the file there, or this key may sign again what it has already published."
    )


def _payloads(records: Iterable[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for record in records:
        if waiting and size + len(record) > ENTRY_BYTES_MAX:
            yield _join(waiting)
            waiting, size = [], 0
        waiting.append(record)
        size += _LENGTH_BYTES + len(record)
    if waiting:
        yield _join(waiting)


def _join(records: Sequence[bytes]) -> bytes:
    return b"".join(len(record).to_bytes(_LENGTH_BYTES) + record for record in records)


def _split(payload: bytes) -> list[bytes]:
    records, at = [], 0
    while at < len(payload):
        start = at + _LENGTH_BYTES
        at = start + int.from_bytes(payload[at:start])
        records.append(payload[start:at])
    return records


def _frame(payload: bytes) -> bytes:
    return _frame_header(len(payload), crc32(payload)) + payload


def _frame_header(length: int, checksum: int) -> bytes:
    fields = _FRAME.pack(length, checksum)
    return fields + crc32(fields).to_bytes(4)


def _write_all(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _write_atomically(path: Path, content: bytes, *, sync: bool) -> None:
    """Put a file in its place at once or not at all. The lock makes sure that nobody else writes the same one."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write_all(file, content)
        if sync:
            _sync(file)
    finally:
        os.close(file)
    new.replace(path)
    if sync:
        _sync_directory(path.parent)


def _sync(file: int) -> None:
    os.fsync(file)
    # On macOS fsync stops at the drive's cache; this goes on to the platter.
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)


def _sync_directory(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
