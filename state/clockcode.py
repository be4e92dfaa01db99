"""The encoding of Bloom clocks: small, because most counters are near the least one, and read without trust.

    version u8 (1) · N - 1 u16 · shape u8 · base varint · codes u8[blocks] · counts u8[patched blocks] · bits
    shape: bits 0 to 3 k - 1 · bits 4 and 5 the block size (16, 64, 256 or 1,024 counters) · bit 6 a chain · bit 7 zero

- The parameters are in the first four bytes, and every value that they can have is a valid one.
- The base is the least counter, seven bits a byte, the lowest first, no longer than needed. What is left of the
  counters is cut into blocks (the last may be shorter), and each block has the format that is the smallest for it:

      code 0          every counter is at the base
      code 1 to 32    packed: each counter has so many bits
      code 33 to 63   patched: each has code - 32 bits; the counters that need more are raised as often as it takes.
                      How many raises there are (1 to 255) is in `counts`
      code 64 to 255  sparse: only raises, code - 63 of them

- `bits` holds the packed counters of all blocks in order, then the raises of all blocks: each is a place in its block,
  4, 6, 8 or 10 bits as the block size has it. Highest bit first, the last byte filled with zeros.
- A chain's events are not written: they are the sum of the counters by k. If k does not divide it, it is no chain.
- The writer takes the block size with which the encoding is the smallest, of equal ones the smaller blocks; and for
  each block the format of the fewest bits, of equal ones the one with fewer bits a counter.
- The reader takes any encoding that is well-formed: clocks are compared, not their encodings. 70 bytes can stand for
  256 KiB of counters. So one who expects certain parameters looks at `read_parameters` first.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state.bloom import COUNTER_MAX, Clock, Parameters

VERSION = 1
_HEADER_BYTES = 4
_PLACE_BITS = np.array([4, 6, 8, 10])
_BLOCK_SIZES = 1 << _PLACE_BITS
"""16 for a clock with some high places, 64 for a sparse or an even one, 1,024 for one that is nearly empty."""
_CHAIN = 0x40
_PATCHED, _SPARSE = 32, 63
"""Codes above these are of patched and of sparse blocks."""
_PATCHED_RAISES_MAX, _SPARSE_RAISES_MAX = 255, 192
_VARINT_BYTES_MAX = 5

Ints = NDArray[np.int64]


class ClockDecodeError(ValueError):
    """The bytes are no encoded clock."""


class _Blocks(NamedTuple):
    """How the blocks of an encoding are written: the bits of a counter of each, and how many raises each has."""

    level: int
    widths: Ints
    raises: Ints


class _Levels(NamedTuple):
    """The blocks of each size that a clock can be cut into, all in one row: the finest first."""

    sizes: Ints
    """How many counters each block has."""
    places: Ints
    """The bits of a place in it."""
    starts: Ints
    """Where each size begins in the row."""
    blocks: Ints
    """How many blocks of each size there are."""


@lru_cache(16)
def _levels(counters: int) -> _Levels:
    padded = -(-counters // _BLOCK_SIZES[-1]) * _BLOCK_SIZES[-1]
    blocks = padded // _BLOCK_SIZES
    ends = np.concatenate([np.arange(1, count + 1) * size for count, size in zip(blocks, _BLOCK_SIZES, strict=True)])
    full = np.repeat(_BLOCK_SIZES, blocks)
    sizes = np.clip(counters - (ends - full), 0, full)
    starts = np.concatenate([[0], np.cumsum(blocks)[:-1]])
    return _Levels(sizes, np.repeat(_PLACE_BITS, blocks), starts, -(-counters // _BLOCK_SIZES))


def encode_clock(clock: Clock) -> bytes:
    """The smallest encoding of a clock."""
    parameters, counters = clock.parameters, clock.counters
    base = int(counters.min())
    left = (counters - np.uint32(base)).astype(np.int64)
    blocks = _choose(left)
    level, widths, raises = blocks
    shape = parameters.hashes - 1 | level << 4 | (0 if clock.chain_events is None else _CHAIN)
    codes = np.where(raises == 0, widths, np.where(widths == 0, raises + _SPARSE, widths + _PATCHED))
    patched = raises[(raises > 0) & (widths > 0)]
    header = bytes((VERSION, *(parameters.counters - 1).to_bytes(2), shape)) + _varint(base)
    return header + codes.astype(np.uint8).tobytes() + patched.astype(np.uint8).tobytes() + _bits(left, blocks)


def _choose(left: Ints) -> _Blocks:
    """The blocks of the smallest encoding."""
    levels = _levels(len(left))
    caps = (1 << np.arange(int(left.max()).bit_length() + 1)) - 1
    over = np.zeros((len(caps), int(levels.starts[1]) * 16))
    np.maximum(left - caps[:, None], 0, out=over[:, : len(left)])
    rows = [over.reshape(len(caps), -1, 16) @ np.ones(16)]
    while len(rows) < len(_BLOCK_SIZES):
        rows.append(rows[-1].reshape(len(caps), -1, 4) @ np.ones(4))
    raises = np.concatenate(rows, axis=1)
    bits = np.arange(len(caps))[:, None] * levels.sizes + raises * levels.places
    bits[1:] += 8 * (raises[1:] > 0)
    bits[0, raises[0] > _SPARSE_RAISES_MAX] = np.inf
    bits[1:][raises[1:] > _PATCHED_RAISES_MAX] = np.inf
    widths = bits.argmin(axis=0)
    every = np.arange(len(widths))
    sums = np.add.reduceat(bits[widths, every], levels.starts) + 8 * levels.blocks
    level = int(np.argmin(-(-sums // 8)))
    chosen = slice(levels.starts[level], levels.starts[level] + levels.blocks[level])
    return _Blocks(level, widths[chosen], raises[widths, every][chosen].astype(np.int64))


def _bits(left: Ints, blocks: _Blocks) -> bytes:
    """The packed counters, then the raises."""
    level = blocks.level
    each = np.repeat(blocks.widths, _BLOCK_SIZES[level])[: len(left)]
    packed = np.minimum(left, (1 << each) - 1)
    places = np.repeat(np.arange(len(left)), left - packed) & (_BLOCK_SIZES[level] - 1)
    values = np.concatenate([packed, places]).astype(np.uint64)
    sizes = np.concatenate([each, np.full(len(places), _PLACE_BITS[level])])
    ends = np.cumsum(sizes)
    starts = ends - sizes
    words, spread = starts >> 5, values << (64 - (starts & 31) - sizes).astype(np.uint64)
    # every bit is set by one value only, so sums do what "or" would; below 2⁵³ they are exact
    whole = np.bincount(words, spread >> np.uint64(32), minlength=words[-1] + 2)
    whole[1:] += np.bincount(words, spread & np.uint64(COUNTER_MAX), minlength=words[-1] + 1)
    return whole.astype(">u4").tobytes()[: -(-int(ends[-1]) // 8)]


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))


def read_parameters(encoded: bytes) -> Parameters:
    """The parameters of an encoded clock, from its first bytes alone."""
    if len(encoded) < _HEADER_BYTES:
        raise ClockDecodeError(f"expected at least {_HEADER_BYTES} bytes, got {len(encoded)}")
    if encoded[0] != VERSION:
        raise ClockDecodeError(f"expected version {VERSION}, got {encoded[0]}")
    return Parameters((encoded[1] << 8 | encoded[2]) + 1, (encoded[3] & 0x0F) + 1)


def decode_clock(encoded: bytes) -> Clock:
    """The clock. Raises ClockDecodeError for bytes that are none, and nothing else."""
    parameters = read_parameters(encoded)
    shape = encoded[3]
    if shape & 0x80:
        raise ClockDecodeError("expected bit 7 of the shape to be zero")
    base, at = _read_varint(encoded)
    blocks, at = _read_blocks(encoded, at, parameters.counters, shape >> 4 & 3)
    counters = _read_bits(encoded[at:], parameters.counters, blocks) + base
    if counters.max() > COUNTER_MAX:
        raise ClockDecodeError(f"expected counters up to {COUNTER_MAX}, got {counters.max()}")
    chain_events, rest = divmod(int(counters.sum()), parameters.hashes)
    if not shape & _CHAIN:
        return Clock(parameters, counters.astype(np.uint32))
    if rest:
        raise ClockDecodeError(f"expected {parameters.hashes} raises for each event of a chain, got {rest} too many")
    return Clock(parameters, counters.astype(np.uint32), chain_events)


def _read_varint(encoded: bytes) -> tuple[int, int]:
    """The base, and where it ends."""
    number = 0
    for at, byte in enumerate(encoded[_HEADER_BYTES : _HEADER_BYTES + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            if (at and not byte) or number > COUNTER_MAX:
                raise ClockDecodeError("expected a base in as few bytes as it needs, at most 2³² - 1")
            return number, _HEADER_BYTES + at + 1
    raise ClockDecodeError("expected a base that ends")


def _read_blocks(encoded: bytes, at: int, counters: int, level: int) -> tuple[_Blocks, int]:
    """How the blocks are written, and where the bits begin."""
    blocks = -(-counters // int(_BLOCK_SIZES[level]))
    if len(encoded) < at + blocks:
        raise ClockDecodeError(f"expected {blocks} blocks, got {len(encoded) - at} bytes")
    codes = np.frombuffer(encoded, np.uint8, blocks, at).astype(np.int64)
    at += blocks
    raises = np.maximum(codes - _SPARSE, 0)
    is_patched = (codes > _PATCHED) & (codes <= _SPARSE)
    widths = np.where(is_patched, codes - _PATCHED, np.where(raises, 0, codes))
    patched = int(np.count_nonzero(is_patched))
    if patched:
        counts = np.frombuffer(encoded[at : at + patched], np.uint8)
        if len(counts) < patched or not counts.all():
            raise ClockDecodeError(f"expected the raises of {patched} patched blocks, none of them zero")
        raises[is_patched] = counts
    return _Blocks(level, widths, raises), at + patched


def _read_bits(encoded: bytes, counters: int, blocks: _Blocks) -> Ints:
    """The counters above the base. How many bytes there must be is checked before anything is made for the raises."""
    size, place_bits = int(_BLOCK_SIZES[blocks.level]), int(_PLACE_BITS[blocks.level])
    each = np.repeat(blocks.widths, size)[:counters]
    raised = int(blocks.raises.sum())
    bits = int(each.sum()) + raised * place_bits
    if len(encoded) != -(-bits // 8):
        raise ClockDecodeError(f"expected {-(-bits // 8)} bytes after the blocks, got {len(encoded)}")
    if bits % 8 and encoded[-1] & (0xFF >> bits % 8):
        raise ClockDecodeError("expected the last byte to be filled with zeros")
    values = _unpack(encoded, np.concatenate([each, np.full(raised, place_bits)]))
    places = np.repeat(np.arange(len(blocks.raises)) * size, blocks.raises) + values[counters:]
    if raised and places.max() >= counters:
        raise ClockDecodeError(f"expected places below {counters}, got {places.max()}")
    return values[:counters] + np.bincount(places, minlength=counters)


def _unpack(encoded: bytes, sizes: Ints) -> Ints:
    """The numbers that lie one after another, so many bits each."""
    ends = np.cumsum(sizes)
    starts = ends - sizes
    # at each byte, the eight bytes from there: any value lies within the 39 bits after the start of its first byte
    windows = np.ndarray(len(encoded) + 1, ">u8", encoded + bytes(8), strides=(1,))
    shifts = (64 - (starts & 7) - sizes).astype(np.uint64)
    values: Ints = (windows[starts >> 3] >> shifts).astype(np.int64)
    return values & ((1 << sizes) - 1)
