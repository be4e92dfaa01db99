"""The buffered archive: reads see what was written, and the store sees it only when it is told to."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.archive import BufferedArchive

names = st.binary(max_size=3)
values = st.binary(max_size=5)


class Shelf:
    """A store in memory that counts."""

    def __init__(self, entries: dict[bytes, bytes] | None = None) -> None:
        self.entries = dict(entries or {})
        self.gets: list[bytes] = []
        self.puts: list[bytes] = []

    def get(self, name: bytes) -> bytes | None:
        self.gets.append(name)
        return self.entries.get(name)

    def put(self, name: bytes, value: bytes) -> None:
        self.puts.append(name)
        self.entries[name] = value


def bound(shelf: Shelf) -> BufferedArchive:
    archive = BufferedArchive()
    archive.bind(shelf)
    return archive


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


def test_an_archive_only_grows_and_is_never_listed() -> None:
    archive = bound(Shelf({b"a": b"1"}))
    with pytest.raises(TypeError):
        del archive[b"a"]
    with pytest.raises(TypeError):
        list(archive)
    with pytest.raises(TypeError):
        len(archive)


@given(st.dictionaries(names, values), st.randoms(use_true_random=False))
def test_the_digest_names_the_writes_and_not_their_order(writes: dict[bytes, bytes], chance: Random) -> None:
    one, other = bound(Shelf()), bound(Shelf())
    shuffled = list(writes.items())
    chance.shuffle(shuffled)
    for name, value in writes.items():
        one[name] = value
    for name, value in shuffled:
        other[name] = value
    assert one.digest() == other.digest()


@given(st.dictionaries(names, values), st.dictionaries(names, values))
def test_different_writes_have_different_digests(some: dict[bytes, bytes], others: dict[bytes, bytes]) -> None:
    one, other = bound(Shelf()), bound(Shelf())
    one.update(some)
    other.update(others)
    assert (one.digest() == other.digest()) == (some == others)


@given(
    st.dictionaries(names, values),
    st.lists(st.one_of(st.tuples(names, values), st.just("flush"))),
)
def test_it_reads_like_a_dictionary_whenever_it_is_flushed(
    held: dict[bytes, bytes], steps: list[tuple[bytes, bytes] | str]
) -> None:
    shelf = Shelf(held)
    archive, model = bound(shelf), dict(held)
    for step in steps:
        if isinstance(step, str):
            archive.flush()
            assert shelf.entries == model
        else:
            archive[step[0]] = step[1]
            model[step[0]] = step[1]
        assert {name: archive[name] for name in model} == model
