"""An archive with its writes held back: a batch that fails leaves nothing behind, and one that succeeds writes once.

It counts what it holds without reading all of it. A fold that changes an entry has read or written it before, so an
entry of which neither is known is new.
"""

from collections.abc import Iterator, MutableMapping
from hashlib import blake2b
from typing import NamedTuple, Protocol

SIZES_MAX = 65_536
"""Entries whose sizes are remembered: more than a fold works on at a time. The ones seen longest ago are forgotten."""


class StoreError(Exception):
    """The store could not be read or written: no fault of a fold, and the batch has to be tried again."""


class Store(Protocol):
    """Where an archive stands: Spark's map state, or a dictionary in tests."""

    def get(self, name: bytes) -> bytes | None: ...

    def put(self, name: bytes, value: bytes) -> None: ...

    def remove(self, name: bytes) -> None: ...


class Size(NamedTuple):
    """How much there is, or how much more than before."""

    entries: int
    bytes: int


class BufferedArchive(MutableMapping[bytes, bytes]):
    """A mapping over a store. Reads see the writes that are held back. It cannot be listed."""

    def __init__(self) -> None:
        self.writes: dict[bytes, bytes | None] = {}
        """None: the entry is to go."""
        self._store: Store | None = None
        self._sizes: dict[bytes, int] = {}
        """Of entries in the store that were read or written lately."""

    def bind(self, store: Store) -> None:
        """Use this store from now on: Spark gives a new one for each batch."""
        self._store = store

    def growth(self) -> Size:
        """How much more there will be when what is held back is written."""
        entries = grown = 0
        for name, value in self.writes.items():
            before = self._sizes.get(name)
            entries += (value is not None) - (before is not None)
            grown += len(value or b"") - (before or 0)
        return Size(entries, grown)

    def flush(self) -> None:
        """Write what was held back."""
        assert self._store is not None
        try:
            for name, value in self.writes.items():
                if value is None:
                    self._store.remove(name)
                else:
                    self._store.put(name, value)
                self._note(name, value)
        except Exception as error:
            raise StoreError(f"an archive could not be written: {error}") from error
        self.writes.clear()

    def digest(self) -> bytes:
        """Names the writes that are held back."""
        state = blake2b(digest_size=16)
        for name, value in sorted(self.writes.items()):
            size = -1 if value is None else len(value)
            state.update(len(name).to_bytes(8) + name + size.to_bytes(8, signed=True) + (value or b""))
        return state.digest()

    def __getitem__(self, name: bytes) -> bytes:
        value = self.writes[name] if name in self.writes else self._read(name)
        if value is None:
            raise KeyError(name)
        return value

    def _read(self, name: bytes) -> bytes | None:
        assert self._store is not None
        try:
            value = self._store.get(name)
        except Exception as error:
            raise StoreError(f"an archive could not be read: {error}") from error
        self._note(name, value)
        return value

    def _note(self, name: bytes, value: bytes | None) -> None:
        self._sizes.pop(name, None)
        if value is not None:
            self._sizes[name] = len(value)
            if len(self._sizes) > SIZES_MAX:
                del self._sizes[next(iter(self._sizes))]

    def __setitem__(self, name: bytes, value: bytes) -> None:
        self.writes[name] = value

    def __delitem__(self, name: bytes) -> None:
        self.writes[name] = None

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("an archive is not listed: that would read all of it")

    def __len__(self) -> int:
        raise TypeError("an archive is not counted: that would read all of it")
