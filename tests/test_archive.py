"""The buffered archive: reads see what was written, and the store sees it only when it is told to."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming import archive as archive_module
from streaming.archive import BufferedArchive, Size, StoreError

names = st.binary(max_size=3)
values = st.binary(max_size=5)
entries = st.dictionaries(names, values)
writes = st.dictionaries(names, values | st.none())
"""None: the entry is deleted."""


class Shelf:
    """A store in memory that counts."""

    def __init__(self, entries: dict[bytes, bytes] | None = None) -> None:
        self.entries = dict(entries or {})
        self.gets: list[bytes] = []
        self.puts: list[bytes] = []
        self.removals: list[bytes] = []

    def get(self, name: bytes) -> bytes | None:
        self.gets.append(name)
        return self.entries.get(name)

    def put(self, name: bytes, value: bytes) -> None:
        self.puts.append(name)
        self.entries[name] = value

    def remove(self, name: bytes) -> None:
        """As Spark's map state: what is not there can be removed too."""
        self.removals.append(name)
        self.entries.pop(name, None)


def bound(shelf: Shelf) -> BufferedArchive:
    archive = BufferedArchive()
    archive.bind(shelf)
    return archive


def write(archive: BufferedArchive, name: bytes, value: bytes | None) -> None:
    if value is None:
        del archive[name]
    else:
        archive[name] = value


def test_writes_are_held_back_until_they_are_flushed() -> None:
    shelf = Shelf({b"a": b"old"})
    archive = bound(shelf)
    archive[b"a"] = b"new"
    archive[b"b"] = b"more"
    assert (archive[b"a"], archive[b"b"]) == (b"new", b"more")
    assert shelf.entries == {b"a": b"old"}
    archive.flush()
    assert shelf.entries == {b"a": b"new", b"b": b"more"}


def test_what_was_written_often_is_put_once_and_flushed_once() -> None:
    shelf = Shelf()
    archive = bound(shelf)
    for number in range(5):
        archive[b"a"] = b"%d" % number
    archive.flush()
    archive.flush()
    assert shelf.puts == [b"a"]
    assert shelf.entries == {b"a": b"4"}


def test_what_is_not_there_is_a_key_error_and_get_gives_none() -> None:
    archive = bound(Shelf())
    with pytest.raises(KeyError):
        archive[b"a"]
    assert archive.get(b"a") is None


def test_an_empty_value_is_a_value() -> None:
    archive = bound(Shelf({b"a": b""}))
    archive[b"b"] = b""
    assert (archive[b"a"], archive[b"b"]) == (b"", b"")


def test_a_held_back_write_is_read_without_asking_the_store() -> None:
    shelf = Shelf()
    archive = bound(shelf)
    archive[b"a"] = b"1"
    assert archive[b"a"] == b"1"
    assert shelf.gets == []


def test_after_a_flush_reads_go_to_the_store_that_is_bound_now() -> None:
    archive = bound(Shelf())
    archive[b"a"] = b"1"
    archive.flush()
    archive.bind(Shelf({b"a": b"2"}))
    assert archive[b"a"] == b"2"


def test_a_deleted_entry_is_gone_at_once_and_leaves_the_store_when_it_is_flushed() -> None:
    shelf = Shelf({b"a": b"1", b"b": b"2"})
    archive = bound(shelf)
    del archive[b"a"]
    assert (b"a" in archive, archive.get(b"a"), archive[b"b"]) == (False, None, b"2")
    with pytest.raises(KeyError):
        archive[b"a"]
    assert shelf.entries == {b"a": b"1", b"b": b"2"}
    archive.flush()
    assert shelf.entries == {b"b": b"2"}
    assert b"a" not in archive


def test_a_deleted_entry_is_looked_up_without_asking_the_store() -> None:
    shelf = Shelf({b"a": b"1"})
    archive = bound(shelf)
    del archive[b"a"]
    assert archive.get(b"a") is None
    assert shelf.gets == []


def test_what_is_written_and_deleted_is_removed_once_and_what_is_deleted_and_written_is_put_once() -> None:
    shelf = Shelf({b"b": b"old"})
    archive = bound(shelf)
    archive[b"a"] = b"1"
    del archive[b"a"]
    del archive[b"b"]
    archive[b"b"] = b"new"
    archive.flush()
    archive.flush()
    assert (shelf.puts, shelf.removals) == ([b"b"], [b"a"])
    assert shelf.entries == {b"b": b"new"}


def test_an_entry_is_popped_like_that_of_a_dictionary() -> None:
    archive = bound(Shelf({b"a": b"1"}))
    assert archive.pop(b"a", None) == b"1"
    assert archive.pop(b"a", None) is None
    with pytest.raises(KeyError):
        archive.pop(b"a")


def test_a_store_that_cannot_remove_an_entry_is_a_store_that_fails() -> None:
    class Stuck(Shelf):
        def remove(self, name: bytes) -> None:
            raise OSError(f"the state server has gone with {name!r}")

    archive = bound(Stuck({b"a": b"1"}))
    del archive[b"a"]
    with pytest.raises(StoreError, match="could not be written: the state server has gone with b'a'"):
        archive.flush()


def test_an_archive_is_never_listed() -> None:
    archive = bound(Shelf({b"a": b"1"}))
    with pytest.raises(TypeError):
        list(archive)
    with pytest.raises(TypeError):
        len(archive)


@given(writes, st.randoms(use_true_random=False))
def test_the_digest_names_the_writes_and_not_their_order(held_back: dict[bytes, bytes | None], chance: Random) -> None:
    one, other = bound(Shelf()), bound(Shelf())
    shuffled = list(held_back.items())
    chance.shuffle(shuffled)
    for name, value in held_back.items():
        write(one, name, value)
    for name, value in shuffled:
        write(other, name, value)
    assert one.digest() == other.digest()


@given(writes, writes)
def test_different_writes_have_different_digests(
    some: dict[bytes, bytes | None], others: dict[bytes, bytes | None]
) -> None:
    one, other = bound(Shelf()), bound(Shelf())
    for archive, held_back in ((one, some), (other, others)):
        for name, value in held_back.items():
            write(archive, name, value)
    assert (one.digest() == other.digest()) == (some == others)


def test_a_deletion_and_an_empty_value_have_different_digests() -> None:
    digests = set()
    for value in (None, b"", b"gone"):
        archive = bound(Shelf())
        write(archive, b"a", value)
        digests.add(archive.digest())
    assert len(digests) == 3


@given(entries, st.lists(st.one_of(st.tuples(names, values | st.none()), st.just("flush"))))
def test_it_reads_like_a_dictionary_whenever_it_is_flushed(
    held: dict[bytes, bytes], steps: list[tuple[bytes, bytes | None] | str]
) -> None:
    shelf = Shelf(held)
    archive, model = bound(shelf), dict(held)
    for step in steps:
        if isinstance(step, str):
            archive.flush()
            assert shelf.entries == model
            continue
        name, value = step
        write(archive, name, value)
        if value is None:
            model.pop(name, None)
        else:
            model[name] = value
        assert archive.get(name) == model.get(name)
        assert {name: archive[name] for name in model} == model


# How much there is.

few = st.sampled_from([b"a", b"b", b"c", b"d"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("read"), few, st.none()),
        st.tuples(st.just("change"), few, values | st.none()),
        st.tuples(st.sampled_from(["write", "lose", "reopen"]), st.none(), st.none()),
    )
)


def size_of(entries: dict[bytes, bytes]) -> Size:
    return Size(len(entries), sum(map(len, entries.values())))


@given(entries, steps)
def test_what_is_counted_is_what_is_kept(
    held: dict[bytes, bytes], story: list[tuple[str, bytes | None, bytes | None]]
) -> None:
    """As long as whoever changes an entry that is there has read or written it since the archive was opened."""
    shelf = Shelf(held)
    archive, counted, known = bound(shelf), size_of(held), set[bytes]()
    for action, name, value in story:
        if name is not None:
            if action == "read" or (name in shelf.entries and name not in known):
                archive.get(name)
            known.add(name)
            if action == "change":
                write(archive, name, value)
            continue
        if action == "write":
            growth = archive.growth()
            archive.flush()
            counted = Size(counted.entries + growth.entries, counted.bytes + growth.bytes)
            assert counted == size_of(shelf.entries)
            assert archive.growth() == Size(0, 0)
        else:
            # A batch that failed is forgotten with its archive, as it is when a worker starts again.
            archive, known = bound(shelf), set()


def test_sizes_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "SIZES_MAX", 3)
    shelf = Shelf({b"%d" % number: b"value" for number in range(9)})
    archive = bound(shelf)
    for name in [*shelf.entries, b"0", b"8", b"not there"]:
        archive.get(name)
        assert len(archive._sizes) <= 3
    archive[b"0"] = b"longer than before"
    archive[b"8"] = b""
    assert archive.growth() == Size(0, len(b"longer than before") - 2 * len(b"value"))
