"""Radix trees: what they hold follows from what was put in, and so does their shape."""

from collections.abc import Iterable
from functools import reduce
from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.radix import Branch, Comparing, Leaf, Tree, cut, get, leaves, put
from tests.entitylab import counted_hashes, root

keys = st.integers(0, 40) | st.integers(0, 2**256 - 1)
contents = st.dictionaries(keys, st.binary(max_size=1), min_size=1, max_size=30)


def leaf(key: int, value: bytes) -> Leaf:
    return Leaf(key, value, sha256(b"\x00" + key.to_bytes(32) + value).digest())


def tree_of(pairs: Iterable[tuple[int, bytes]]) -> Tree:
    first, *others = (leaf(key, value) for key, value in pairs)
    return reduce(put, others, first)


def held(tree: Tree | None) -> dict[int, bytes]:
    return {one.key: one.value for one in leaves(tree)}


def compare(one: Tree, other: Tree) -> tuple[dict[int, bytes], dict[int, bytes], int]:
    """What each of two trees has and the other has not so, and the hashes that were exchanged."""
    comparing = Comparing()
    ours, theirs = {}, {}
    for differing in comparing.differing(one, other):
        ours |= held(differing.one)
        theirs |= held(differing.other)
    return ours, theirs, comparing.hashes


def depth(tree: Tree) -> int:
    return 1 + max(depth(tree.left), depth(tree.right)) if isinstance(tree, Branch) else 0


@given(contents, st.randoms())
def test_a_tree_holds_what_was_put_in_whatever_the_order_and_has_one_root(
    wanted: dict[int, bytes], chance: Random
) -> None:
    pairs = list(wanted.items())
    chance.shuffle(pairs)
    tree = tree_of([*pairs, *pairs[:3]])
    assert held(tree) == wanted
    assert [one.key for one in leaves(tree)] == sorted(wanted)
    assert all(get(tree, key) is not None for key in wanted)
    assert tree.size == len(wanted)
    assert tree.digest == root({key: leaf(key, value).digest for key, value in wanted.items()})


@given(contents, keys)
def test_a_key_that_was_not_put_in_is_not_found(wanted: dict[int, bytes], key: int) -> None:
    found = get(tree_of(wanted.items()), key)
    assert (None if found is None else found.value) == wanted.get(key)


@given(contents, keys, st.binary(max_size=1))
def test_a_leaf_takes_the_place_of_the_one_before_and_the_old_tree_stays(
    wanted: dict[int, bytes], key: int, value: bytes
) -> None:
    tree = tree_of(wanted.items())
    before = tree.digest
    after = put(tree, leaf(key, value))
    assert held(after) == wanted | {key: value}
    assert after.digest == tree_of((wanted | {key: value}).items()).digest
    assert (held(tree), tree.digest) == (wanted, before)


@given(contents, keys)
def test_a_cut_gives_the_trees_of_both_sides(wanted: dict[int, bytes], key: int) -> None:
    for part, want in zip(
        cut(tree_of(wanted.items()), key),
        ({k: v for k, v in wanted.items() if k < key}, {k: v for k, v in wanted.items() if k >= key}),
        strict=True,
    ):
        assert held(part) == want
        if part is not None:
            assert part.digest == tree_of(want.items()).digest
            assert part.size == len(want)


@given(contents, contents, st.booleans())
def test_comparing_finds_what_each_side_has_and_the_other_has_not_so(
    one: dict[int, bytes], other: dict[int, bytes], is_near: bool
) -> None:
    if is_near:
        other = one | other
    ours, theirs, _ = compare(tree_of(one.items()), tree_of(other.items()))
    assert ours == {key: value for key, value in one.items() if other.get(key) != value}
    assert theirs == {key: value for key, value in other.items() if one.get(key) != value}


@given(contents)
def test_equal_trees_are_compared_by_one_hash(wanted: dict[int, bytes]) -> None:
    assert compare(tree_of(wanted.items()), tree_of(reversed(wanted.items()))) == ({}, {}, 1)


@pytest.mark.parametrize("dense", [True, False])
def test_one_leaf_among_ten_thousand_makes_anew_one_path(dense: bool) -> None:
    chance = Random(1)
    wanted = range(10_000) if dense else [chance.getrandbits(256) for _ in range(10_000)]
    tree = tree_of((key, b"") for key in wanted)
    tree.digest  # noqa: B018  the hashes are made when they are asked for
    with counted_hashes() as made:
        after = put(tree, leaf(wanted[5_000], b"other"))
        after.digest  # noqa: B018
    assert 1 < made() <= depth(tree) <= 40
    assert compare(tree, after)[2] <= 2 * depth(tree) + 1


def test_the_longest_paths_are_as_long_as_a_key_has_bits_and_break_nothing() -> None:
    wanted = [0, *(1 << bit for bit in range(256))]
    tree = tree_of((key, b"") for key in wanted)
    assert depth(tree) == 256
    assert [one.key for one in leaves(tree)] == wanted
    below, rest = cut(tree, 1)
    assert (held(below), len(held(rest))) == ({0: b""}, 256)
    assert set(compare(tree, put(tree, leaf(0, b"other")))[1]) == {0}


def test_a_tree_knows_the_sum_of_the_sizes_and_the_greatest_nesting() -> None:
    tree = reduce(put, [Leaf(key, None, bytes(32), key, key % 5) for key in range(1, 10)])
    assert (tree.size, tree.nesting) == (45, 4)
    below, rest = cut(tree, 4)
    assert below is not None
    assert rest is not None
    assert (below.size, below.nesting, rest.size, rest.nesting) == (6, 3, 39, 4)
