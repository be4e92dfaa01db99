"""An archive with its writes held back: a batch that fails leaves nothing behind, and one that succeeds writes once."""

from collections.abc import Iterator, MutableMapping
from hashlib import blake2b
from typing import Protocol


class Store(Protocol):
    """Where an archive stands: Spark's map state, or a dictionary in tests."""

    def get(self, name: bytes) -> bytes | None: ...

    def put(self, name: bytes, value: bytes) -> None: ...


class BufferedArchive(MutableMapping[bytes, bytes]):
    """A mapping over a store. Reads see the writes that are held back. It cannot be listed, nor can entries go."""

    def __init__(self) -> None:
        self.writes: dict[bytes, bytes] = {}
        self._store: Store | None = None

    def bind(self, store: Store) -> None:
        """Use this store from now on: Spark gives a new one for each batch."""
        self._store = store

    def flush(self) -> None:
        """Write what was held back."""
        assert self._store is not None
        for name, value in self.writes.items():
            self._store.put(name, value)
        self.writes.clear()

    def digest(self) -> bytes:
        """Names the writes that are held back."""
        state = blake2b(digest_size=16)
        for name, value in sorted(self.writes.items()):
            state.update(name + len(value).to_bytes(8) + value)
        return state.digest()

    def __getitem__(self, name: bytes) -> bytes:
        value = self.writes.get(name)
        if value is None:
            assert self._store is not None
            value = self._store.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __setitem__(self, name: bytes, value: bytes) -> None:
        self.writes[name] = value

    def __delitem__(self, name: bytes) -> None:
        raise TypeError("an archive only grows")

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("an archive is not listed: that would read all of it")

    def __len__(self) -> int:
        raise TypeError("an archive is not counted: that would read all of it")
