"""Merkle trees: the published vectors of certificate transparency, and the definition of RFC 6962 itself."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import merkle

LEAVES = [
    bytes.fromhex(leaf)
    for leaf in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""By the number of leaves, from the reference implementation."""

PATHS = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
"""By leaf and number of leaves, from the reference implementation's tests of audit paths."""

sizes = st.integers(1, 70)


def split_of(size: int) -> int:
    """The largest power of two below `size`. Requires size > 1."""
    return 1 << (size - 1).bit_length() - 1


def mth(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1: the Merkle tree hash, by its recursive definition."""
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    split = split_of(len(leaves))
    return sha256(b"\x01" + mth(leaves[:split]) + mth(leaves[split:])).digest()


def audit_path(leaves: list[bytes], at: int) -> list[bytes]:
    """RFC 6962, section 2.1.1: the audit path, by its recursive definition."""
    if len(leaves) == 1:
        return []
    split = split_of(len(leaves))
    if at < split:
        return [*audit_path(leaves[:split], at), mth(leaves[split:])]
    return [*audit_path(leaves[split:], at - split), mth(leaves[:split])]


def turns(at: int, size: int) -> str:
    """On which sides the siblings of a leaf stand, from the leaf upwards."""
    if size == 1:
        return ""
    split = split_of(size)
    return turns(at, split) + "r" if at < split else turns(at - split, size - split) + "l"


def distinct(size: int) -> list[bytes]:
    return [b"leaf %d" % number for number in range(size)]


@pytest.mark.parametrize("size", range(9))
def test_roots_are_the_published_ones(size: int) -> None:
    assert merkle.root(LEAVES[:size]).hex() == ROOTS[size]
    assert mth(LEAVES[:size]).hex() == ROOTS[size]


@pytest.mark.parametrize(("at", "size"), PATHS)
def test_audit_paths_are_the_published_ones(at: int, size: int) -> None:
    assert [node.hex() for node in merkle.path(LEAVES[:size], at)] == PATHS[at, size]
    assert [node.hex() for node in audit_path(LEAVES[:size], at)] == PATHS[at, size]
    assert merkle.root_from_path(LEAVES[at], at, size, merkle.path(LEAVES[:size], at)) == bytes.fromhex(ROOTS[size])


@given(st.lists(st.binary(max_size=40), max_size=70))
def test_the_root_is_that_of_the_recursive_definition(leaves: list[bytes]) -> None:
    assert merkle.root(leaves) == mth(leaves)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=70), st.data())
def test_every_path_is_that_of_the_recursive_definition_and_verifies(leaves: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(leaves) - 1))
    path = merkle.path(leaves, at)
    assert path == audit_path(leaves, at)
    assert merkle.root_from_path(leaves[at], at, len(leaves), path) == mth(leaves)


@given(sizes, st.data())
def test_a_flipped_bit_of_the_leaf_is_refused(size: int, data: st.DataObject) -> None:
    leaves, at = distinct(size), data.draw(st.integers(0, size - 1))
    changed = flipped(leaves[at], data)
    assert merkle.root_from_path(changed, at, size, merkle.path(leaves, at)) != merkle.root(leaves)


@given(st.integers(2, 70), st.data())
def test_a_flipped_bit_of_the_path_is_refused(size: int, data: st.DataObject) -> None:
    leaves, at = distinct(size), data.draw(st.integers(0, size - 1))
    path = merkle.path(leaves, at)
    step = data.draw(st.integers(0, len(path) - 1))
    path[step] = flipped(path[step], data)
    assert merkle.root_from_path(leaves[at], at, size, path) != merkle.root(leaves)


@given(sizes, st.data())
def test_a_path_that_is_longer_or_shorter_or_in_another_order_is_refused(size: int, data: st.DataObject) -> None:
    leaves, at = distinct(size), data.draw(st.integers(0, size - 1))
    path, root = merkle.path(leaves, at), merkle.root(leaves)
    assert merkle.root_from_path(leaves[at], at, size, [*path, bytes(32)]) is None
    assert merkle.root_from_path(leaves[at], at, size, [bytes(32), *path]) is None
    if path:
        assert merkle.root_from_path(leaves[at], at, size, path[:-1]) is None
        assert merkle.root_from_path(leaves[at], at, size, path[1:]) is None
    if len(path) > 1:
        assert merkle.root_from_path(leaves[at], at, size, path[::-1]) != root


@given(sizes, st.integers(-3, 130), st.data())
def test_another_index_is_refused(size: int, other: int, data: st.DataObject) -> None:
    leaves, at = distinct(size), data.draw(st.integers(0, size - 1))
    accepted = merkle.root_from_path(leaves[at], other, size, merkle.path(leaves, at)) == merkle.root(leaves)
    assert accepted == (other == at)


@given(sizes, st.integers(-3, 130), st.data())
def test_another_size_is_refused_unless_the_leaf_stands_in_the_same_place_in_both_trees(
    size: int, other: int, data: st.DataObject
) -> None:
    """A root does not say how many leaves it has: leaf 0 has the same place in trees of 3 and of 4."""
    leaves, at = distinct(size), data.draw(st.integers(0, size - 1))
    accepted = merkle.root_from_path(leaves[at], at, other, merkle.path(leaves, at)) == merkle.root(leaves)
    assert accepted == (at < other and turns(at, other) == turns(at, size))


@given(st.integers(2, 70), st.data())
def test_an_inner_node_does_not_pass_for_a_leaf(size: int, data: st.DataObject) -> None:
    leaves, at = distinct(size), data.draw(st.integers(0, size - 1))
    path = merkle.path(leaves, at)
    first = merkle.leaf_hash(leaves[at])
    inner = path[0] + first if turns(at, size)[0] == "l" else first + path[0]
    for index in range(size):
        assert merkle.root_from_path(inner, index, size, path[1:]) != merkle.root(leaves)


@pytest.mark.parametrize(("at", "size"), [(0, 0), (1, 1), (-1, 1), (8, 8)])
def test_a_leaf_that_is_not_there_has_no_path(at: int, size: int) -> None:
    with pytest.raises(IndexError, match="leaf index: want 0 ≤ index <"):
        merkle.path(LEAVES[:size], at)
    assert merkle.root_from_path(b"", at, size, []) is None


def flipped(content: bytes, data: st.DataObject) -> bytes:
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    return (int.from_bytes(content) ^ (1 << bit)).to_bytes(len(content))
