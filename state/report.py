"""What a block of columns reports of a tick: who is there, and who has what, from the noops with a time up to the tick.

One record of `.matrix`, as msgpack. All blocks name the same nodes in the same order; each tells of its own columns.
A node is a peer of the epoch's roster; of a peer that forked, each branch that goes on is a node of its own.
"""

import zlib
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

AGE_MAX = 255
"""Lags and ages are kept in a byte; this stands for as many or more, also for «never»."""


COMPRESSION = 1
"""The least effort: cells of a healthy swarm are nearly all alike, and a large roster has a million of them a block."""


class Node(msgspec.Struct, frozen=True, array_like=True):
    """Someone who says something and hears something: a peer, or one branch of a peer that forked."""

    author: bytes
    branch: bytes
    """The id of the branch's first noop; empty for a peer that has not forked."""
    index: int
    """Of its newest noop."""
    newest_ms: int
    """The newest record time of its noops."""
    since_ms: int
    """Since when it has been there without a pause longer than `split_after`."""

    @property
    def forked(self) -> bool:
        return bool(self.branch)


class Report(msgspec.Struct, frozen=True, array_like=True):
    """The columns of one block at one tick. Matrices, compressed, have a row for each of `columns` and a column for
    each node.
    """

    swarm: bytes
    block: int
    blocks: int
    tick_ms: int
    before_ms: int
    """The tick that was reported before this one, 0 if none was: between them nobody was active."""
    nodes: list[Node]
    """Sorted by author and branch."""
    columns: list[int]
    """The nodes whose noops this block keeps track of, as positions in `nodes`, ascending."""
    fresh: bytes
    """Bits, row by row: node X is fresh on the column's node Y, so knowledge flows from Y to X."""
    lags: bytes
    """How many noops of Y X does not cover, up to 255."""
    ages: bytes
    """How old the oldest noop of Y is that X does not cover, in whole ticks, up to 255; 0 if it covers all."""
    contacts: bytes
    """How old the newest noop of Y is that X covers, in whole ticks, up to 255."""
    intervals_ms: list[int]
    """The median time between the last noops of Y within the horizon, 0 if there are fewer than two."""
    withheld: list[tuple[bytes, list[int]]]
    """Authors of this block's columns with noops that nobody published, and the nodes whose pasts name such noops."""


class Cells(NamedTuple):
    """The matrices of a report, each of shape (columns, nodes)."""

    fresh: NDArray[np.bool_]
    lags: NDArray[np.uint8]
    ages: NDArray[np.uint8]
    contacts: NDArray[np.uint8]


_decoder = msgspec.msgpack.Decoder(Report)
_encoder = msgspec.msgpack.Encoder()


def encode_report(report: Report) -> bytes:
    return _encoder.encode(report)


def decode_report(encoded: bytes) -> Report:
    """Read a report; raises msgspec.DecodeError for what is none, also if its parts do not fit each other."""
    report = _decoder.decode(encoded)
    count = len(report.columns)
    fits = (
        0 <= report.block < report.blocks
        and all(one < other for one, other in pairwise([-1, *report.columns, len(report.nodes)]))
        and count == len(report.intervals_ms)
        and all(0 <= at < len(report.nodes) for _, named in report.withheld for at in named)
    )
    if not fits:
        raise msgspec.ValidationError("the parts of the report do not fit each other")
    unpack_cells(report)
    return report


def pack_cells(cells: Cells) -> tuple[bytes, bytes, bytes, bytes]:
    """The fields `fresh`, `lags`, `ages`, `contacts` of a report."""
    parts = (np.packbits(cells.fresh), cells.lags, cells.ages, cells.contacts)
    fresh, lags, ages, contacts = (zlib.compress(part.tobytes(), COMPRESSION) for part in parts)
    return fresh, lags, ages, contacts


def unpack_cells(report: Report) -> Cells:
    """The matrices; raises msgspec.ValidationError if they have not the size that they should."""
    shape = (len(report.columns), len(report.nodes))
    size = shape[0] * shape[1]
    bits = np.unpackbits(_bytes(report.fresh, -(-size // 8)), count=size)
    lags, ages, contacts = (_bytes(part, size).reshape(shape) for part in (report.lags, report.ages, report.contacts))
    return Cells(bits.reshape(shape).astype(bool), lags, ages, contacts)


def _bytes(packed: bytes, size: int) -> NDArray[np.uint8]:
    """So many bytes, which were compressed. No more are unpacked, whatever there is."""
    try:
        reader = zlib.decompressobj()
        content = reader.decompress(packed, size + 1)
    except zlib.error:
        content = b""
    if len(content) != size or not (reader.eof or size == 0):
        raise msgspec.ValidationError(f"expected {size} compressed bytes, got others")
    return np.frombuffer(content, np.uint8)


def report_key(swarm: bytes, block: int, tick_ms: int) -> bytes:
    return f"{swarm.hex()}/{block}/{tick_ms}".encode()
