"""Merkle trees as RFC 6962 defines them: root, audit path, and checking a path.

A leaf hashes as SHA-256(0x00 ‖ leaf), a node as SHA-256(0x01 ‖ left ‖ right), the empty tree as SHA-256 of nothing.
A tree of n > 1 leaves splits at k, the largest power of two below n: [0, k) to the left, [k, n) to the right.
"""

from collections.abc import Sequence
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(leaf: bytes) -> bytes:
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """The tree head of `leaves`, built level by level: an odd last node moves up as it is."""
    level = [leaf_hash(leaf) for leaf in leaves]
    if not level:
        return EMPTY_ROOT
    while len(level) > 1:
        level = _level_above(level)
    return level[0]


def path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The audit path of leaf `index`, from the leaf's sibling upwards. Requires 0 ≤ index < len(leaves)."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf index: want 0 ≤ index < {len(leaves)}, got {index}")
    level = [leaf_hash(leaf) for leaf in leaves]
    hashes = []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            hashes.append(level[sibling])
        level = _level_above(level)
        index >>= 1
    return hashes


def root_from_path(leaf: bytes, index: int, size: int, hashes: Sequence[bytes]) -> bytes | None:
    """The root that `hashes` lead to from `leaf` at `index` of a tree of `size` leaves; None if they cannot fit it."""
    if not 0 <= index < size:
        return None
    node = leaf_hash(leaf)
    last = size - 1
    remaining = iter(hashes)
    while last > 0:
        if index % 2 or index < last:
            sibling = next(remaining, None)
            if sibling is None:
                return None
            node = node_hash(sibling, node) if index % 2 else node_hash(node, sibling)
        index >>= 1
        last >>= 1
    return node if next(remaining, None) is None else None


def _level_above(level: list[bytes]) -> list[bytes]:
    above = [node_hash(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
    if len(level) % 2:
        above.append(level[-1])
    return above
