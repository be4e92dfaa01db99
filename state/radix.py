"""A Merkle tree over numbered leaves whose shape follows from the numbers alone, not from how it came about.

A binary radix tree: a branch stands where the keys below it first differ, keys with a 0 there to the left. So equal
contents give one tree and one root; putting a leaf in, or cutting the tree in two, makes anew only the nodes on one
path; and two trees are compared from the root down, through those nodes only whose hashes differ. Dense keys, such as
positions, and random ones, such as ids, give paths of about log₂ n nodes; none is longer than a key has bits.

Nodes are never changed: trees share what they have in common. A leaf brings its own hash, which must cover its key; a
branch hashes as SHA-256(0x01 ‖ left ‖ right), when it is asked for. A leaf has a size and a nesting too, which are not
hashed: a tree has the sum of the sizes of its leaves, and the greatest of their nestings.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias


class Leaf:
    """What stands at a key, and its hash."""

    __slots__ = ("digest", "key", "nesting", "size", "value")
    shift = 0

    def __init__(self, key: int, value: Any, digest: bytes, size: int = 1, nesting: int = 0) -> None:
        self.key = key
        self.value = value
        self.digest = digest
        self.size = size
        self.nesting = nesting


class Branch:
    """Two trees whose keys agree above the lowest `shift` bits and differ in the highest of these."""

    __slots__ = ("_digest", "key", "left", "nesting", "right", "shift", "size")

    def __init__(self, shift: int, left: "Tree", right: "Tree") -> None:
        self.key: int = left.key
        self.shift = shift
        self.left = left
        self.right = right
        self.size: int = left.size + right.size
        self.nesting: int = max(left.nesting, right.nesting)
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        if self._digest is None:
            self._digest = sha256(b"\x01" + self.left.digest + self.right.digest).digest()
        return self._digest


Tree: TypeAlias = Leaf | Branch


class Differing(NamedTuple):
    """Something in which two trees differ: two leaves at one key, or a part of one where the other has nothing."""

    one: Tree | None
    other: Tree | None


def get(tree: Tree, key: int) -> Leaf | None:
    while type(tree) is Branch:
        tree = tree.right if key >> (tree.shift - 1) & 1 else tree.left
    assert type(tree) is Leaf
    return tree if tree.key == key else None


def put(tree: Tree, leaf: Leaf) -> Tree:
    """The tree with this leaf at its key, in the place of what stood there."""
    differing = (leaf.key ^ tree.key) >> tree.shift
    if differing:
        shift = tree.shift + differing.bit_length()
        return Branch(shift, tree, leaf) if leaf.key > tree.key else Branch(shift, leaf, tree)
    if type(tree) is not Branch:
        return leaf
    if leaf.key >> (tree.shift - 1) & 1:
        return Branch(tree.shift, tree.left, put(tree.right, leaf))
    return Branch(tree.shift, put(tree.left, leaf), tree.right)


def cut(tree: Tree, key: int) -> tuple[Tree | None, Tree | None]:
    """The parts of a tree with the keys below `key`, and with those from it on."""
    first = tree.key >> tree.shift << tree.shift
    if key <= first:
        return None, tree
    if key >= first + (1 << tree.shift):
        return tree, None
    assert type(tree) is Branch
    if key >> (tree.shift - 1) & 1:
        below, rest = cut(tree.right, key)
        return (tree.left if below is None else Branch(tree.shift, tree.left, below)), rest
    below, rest = cut(tree.left, key)
    return below, (tree.right if rest is None else Branch(tree.shift, rest, tree.right))


def leaves(tree: Tree | None) -> Iterator[Leaf]:
    """All leaves, in the order of their keys."""
    stack = [] if tree is None else [tree]
    while stack:
        node = stack.pop()
        if type(node) is Branch:
            stack += (node.right, node.left)
        else:
            assert type(node) is Leaf
            yield node


class Comparing:
    """Finds where trees differ, and counts the hashes that two who each have one of them would send each other."""

    def __init__(self) -> None:
        self.hashes = 0

    def differing(self, one: Tree | None, other: Tree | None) -> Iterator[Differing]:
        """What two trees differ in, in the order of the keys."""
        stack: list[tuple[Tree | None, Tree | None]] = [(one, other)]
        while stack:
            one, other = stack.pop()
            if one is None or other is None:
                yield Differing(one, other)
                continue
            self.hashes += 1
            if one is other or one.digest == other.digest:
                continue
            if type(one) is Leaf and type(other) is Leaf and one.key == other.key:
                yield Differing(one, other)
            else:
                stack += reversed(_halves(one, other))


def _halves(one: Tree, other: Tree) -> list[tuple[Tree | None, Tree | None]]:
    """Two trees taken apart at the highest bit at which anything in them differs: the lower keys, then the higher."""
    shift = max(one.shift, other.shift)
    shift += ((one.key ^ other.key) >> shift).bit_length()
    lower_one, higher_one = _parts(one, shift)
    lower_other, higher_other = _parts(other, shift)
    return [(lower_one, lower_other), (higher_one, higher_other)]


def _parts(tree: Tree, shift: int) -> tuple[Tree | None, Tree | None]:
    if type(tree) is Branch and tree.shift == shift:
        return tree.left, tree.right
    return (None, tree) if tree.key >> (shift - 1) & 1 else (tree, None)
