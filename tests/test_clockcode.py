"""Encoded clocks: read back by a second, slow reader that was written from the documentation; smallest of all ways to
write them; and no bytes that do harm.
"""

import time
import tracemalloc
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state.bloom import COUNTER_MAX, Clock, Parameters
from state.clockcode import VERSION, ClockDecodeError, decode_clock, encode_clock, read_parameters
from tests.bloomgraphs import laws

BLOCKS = ((16, 4), (64, 6), (256, 8), (1024, 10))
"""The sizes of blocks, each with the bits of a place in it."""
SIZES = st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 200, 256, 257, 1000, 1024, 1025, 3000])


def slow_decode(encoded: bytes) -> tuple[Parameters, list[int], bool]:
    """The parameters, the counters, and whether they are a chain's. Of well-formed bytes only."""
    shape, at, base = encoded[3], 4, 0
    while True:
        base += (encoded[at] & 127) << 7 * (at - 4)
        at += 1
        if encoded[at - 1] < 128:
            break
    counters = int.from_bytes(encoded[1:3]) + 1
    size, place_bits = BLOCKS[shape >> 4 & 3]
    codes = encoded[at : (at := at + -(-counters // size))]
    counts = iter(encoded[at : (at := at + sum(33 <= code <= 63 for code in codes))])
    bits = iter("".join(f"{byte:08b}" for byte in encoded[at:]))
    widths, raises = zip(*(_format(code, counts) for code in codes), strict=True)
    found = [base + _number(bits, widths[one // size]) for one in range(counters)]
    for block, count in enumerate(raises):
        for _ in range(count):
            found[block * size + _number(bits, place_bits)] += 1
    rest = "".join(bits)
    assert len(rest) < 8
    assert "1" not in rest
    return Parameters(counters, (shape & 15) + 1), found, bool(shape & 64)


def _format(code: int, counts: Iterator[int]) -> tuple[int, int]:
    """The bits of a counter, and the number of raises."""
    if code <= 32:
        return code, 0
    return (code - 32, next(counts)) if code <= 63 else (0, code - 63)


def _number(bits: Iterator[str], size: int) -> int:
    return int("0" + "".join(next(bits) for _ in range(size)), 2)


def least_bytes(counters: list[int]) -> int:
    """The bytes of the smallest encoding, by trying each block size, and for each block each format."""
    base = min(counters)
    left = [counter - base for counter in counters]
    head = 4 + max(1, -(-base.bit_length() // 7))
    return min(
        head + -(-sum(8 + _least_bits(left[at : at + size], place) for at in range(0, len(left), size)) // 8)
        for size, place in BLOCKS
    )


def _least_bits(block: list[int], place_bits: int) -> int:
    found = []
    for width in range(33):
        raises = sum(max(0, counter - (1 << width) + 1) for counter in block)
        if raises == 0:
            found.append(width * len(block))
        elif width == 0 and raises <= 192:
            found.append(raises * place_bits)
        elif 1 <= width <= 31 and raises <= 255:
            found.append(8 + width * len(block) + raises * place_bits)
    return min(found)


@st.composite
def clocks(draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> Clock:
    """Counters of every kind: equal, near each other, with some high ones, sparse, huge; and mixed within a clock."""
    size = draw(sizes)
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    counters = np.zeros(size, np.int64)
    for _ in range(draw(st.integers(0, 3))):
        touched = chance.random(size) < draw(st.sampled_from([0.003, 0.1, 1.0]))
        counters += touched * chance.integers(0, draw(st.sampled_from([2, 4, 30, 2**16, 2**30])), size)
    counters += draw(st.sampled_from([0, 0, 1, 127, 128, 2**21, COUNTER_MAX - int(counters.max())]))
    parameters = Parameters(size, draw(st.integers(1, 16)))
    chain_events, rest = divmod(int(counters.sum()), parameters.hashes)
    is_chain = not rest and draw(st.booleans())
    return Clock(parameters, counters.astype(np.uint32), chain_events if is_chain else None)


def check_round_trip(clock: Clock) -> None:
    encoded = encode_clock(clock)
    decoded = decode_clock(encoded)
    assert decoded == clock
    assert decoded.chain_events == clock.chain_events
    assert read_parameters(encoded[:4]) == clock.parameters
    assert slow_decode(encoded) == (clock.parameters, clock.counters.tolist(), clock.chain_events is not None)


# What is written.


@laws
@given(clocks())
def test_what_is_written_is_read_back(clock: Clock) -> None:
    check_round_trip(clock)


@pytest.mark.parametrize("fill", [0, 1, COUNTER_MAX])
@pytest.mark.parametrize("size", [1, 1024, 65_536])
def test_even_clocks_take_a_few_bytes_and_are_read_back(size: int, fill: int) -> None:
    clock = Clock(Parameters(size, 16), np.full(size, fill, np.uint32))
    check_round_trip(clock)
    assert len(encode_clock(clock)) <= 9 + -(-size // 1024)


def test_the_largest_clock_of_any_counters_is_read_back() -> None:
    counters = np.random.default_rng(6).integers(0, 2**32, 65_536).astype(np.uint32)
    check_round_trip(Clock(Parameters(65_536, 3), counters))


def test_a_clock_that_grows_by_events_is_read_back_at_each_step() -> None:
    clock = Clock.zero(Parameters(40, 3))
    for number in range(150):
        clock = clock.after(number.to_bytes(4))
        check_round_trip(clock)


@laws
@given(clocks(st.integers(1, 200)))
def test_no_block_size_and_no_formats_of_blocks_give_fewer_bytes(clock: Clock) -> None:
    assert len(encode_clock(clock)) == least_bytes(clock.counters.tolist())


@settings(laws, max_examples=15)
@given(clocks(st.sampled_from([1000, 1024, 1025, 3000])))
def test_no_way_to_write_a_larger_clock_gives_fewer_bytes(clock: Clock) -> None:
    assert len(encode_clock(clock)) == least_bytes(clock.counters.tolist())


@pytest.mark.parametrize("height", [192, 193])
def test_a_single_high_counter_takes_as_many_raises_as_there_is_room_for(height: int) -> None:
    counters = np.zeros(20_000, np.uint32)
    counters[5] = height
    clock = Clock(Parameters(20_000, 2), counters)
    check_round_trip(clock)
    assert len(encode_clock(clock)) == least_bytes(counters.tolist())
    assert (encode_clock(clock)[5] == height + 63) == (height <= 192)


@pytest.mark.parametrize("raises", [255, 256])
def test_a_packed_block_with_a_high_counter_takes_as_many_raises_as_a_byte_can_say(raises: int) -> None:
    counters = np.arange(60_000, dtype=np.uint32) % 2
    counters[5] += raises
    clock = Clock(Parameters(60_000, 2), counters)
    check_round_trip(clock)
    assert (encode_clock(clock)[5] == 32 + 1) == (raises <= 255)


def test_of_equal_encodings_the_one_with_smaller_blocks_and_fewer_bits_a_counter_is_written() -> None:
    counters = np.array([0] * 5 + [1] * 9 + [2] * 2, np.uint32)
    encoded = encode_clock(Clock(Parameters(16, 1), counters))
    # packed: 16 · 2 bits; patched: 16 · 1 bit, one byte that says two raises, 2 · 4 bits
    assert (encoded[3] >> 4, encoded[5:7]) == (0, bytes([32 + 1, 2]))


PINNED = {
    "no events": (Parameters(1024, 2), [], "0103ff710000"),
    "one event": (Parameters(1024, 2), [b"a"], "0103ff7100411b5520"),
    "a small clock": (Parameters(20, 3), [b"a", b"b", b"c", b"d"], "0100135200022000951118"),
}


@pytest.mark.parametrize("name", PINNED)
def test_encodings_never_change_from_one_release_to_the_next(name: str) -> None:
    parameters, events, expected = PINNED[name]
    assert encode_clock(reduce(Clock.after, events, Clock.zero(parameters))).hex() == expected


# What is read.


@laws
@given(st.binary(max_size=300))
@example(b"")
@example(bytes([VERSION]))
def test_any_bytes_are_a_clock_or_refused(encoded: bytes) -> None:
    check_reading(encoded)


@st.composite
def well_formed(draw: st.DrawFn) -> bytes:
    """Blocks of any formats, also of those that no writer would choose, and as many bits as they need."""
    counters, level = draw(st.integers(1, 130)), draw(st.integers(0, 3))
    size, place_bits = BLOCKS[level]
    sizes = [min(size, counters - at) for at in range(0, counters, size)]
    codes = [draw(st.sampled_from([0, 1, 2, 5, 32, 33, 34, 63, 64, 65, 70, 255])) for _ in sizes]
    counts = [draw(st.sampled_from([1, 2, 3, 255])) for code in codes if 33 <= code <= 63]
    formats = [_format(code, left) for left in [iter(counts)] for code in codes]
    bits = sum(width * size + raises * place_bits for size, (width, raises) in zip(sizes, formats, strict=True))
    chance = draw(st.randoms(use_true_random=False))
    # few bits are set, so that places are often within the clock
    filled = "".join(str(int(chance.random() < 0.1)) for _ in range(bits)).ljust(-(-bits // 8) * 8, "0")
    shape = draw(st.integers(0, 15)) | level << 4 | draw(st.sampled_from([0, 0, 64]))
    start = bytes([VERSION, 0, counters - 1, shape, draw(st.integers(0, 127)), *codes, *counts])
    return start + bytes(int(filled[at : at + 8], 2) for at in range(0, len(filled), 8))


@laws
@given(well_formed())
def test_an_encoding_that_no_writer_would_choose_is_read_as_documented_or_refused(encoded: bytes) -> None:
    check_reading(encoded)


@laws
@given(clocks(st.sampled_from([1, 17, 64, 200, 1025])), st.data())
def test_a_clock_with_changed_bytes_is_a_clock_or_refused(clock: Clock, data: st.DataObject) -> None:
    encoded = bytearray(encode_clock(clock))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(1, min(len(encoded) - 1, 30)))] = data.draw(st.integers(0, 255))
    check_reading(bytes(encoded))


@laws
@given(clocks(st.sampled_from([1, 17, 64, 200, 1025])), st.data())
def test_a_clock_that_is_cut_short_or_goes_on_is_refused(clock: Clock, data: st.DataObject) -> None:
    encoded = encode_clock(clock)
    for wrong in (encoded[: data.draw(st.integers(0, len(encoded) - 1))], encoded + b"\0", encoded + encoded):
        with pytest.raises(ClockDecodeError):
            decode_clock(wrong)


def check_reading(encoded: bytes) -> None:
    """What is accepted means what the documentation says, and is written again in no more bytes, but for the base."""
    try:
        clock = decode_clock(encoded)
    except ClockDecodeError:
        return
    assert slow_decode(encoded) == (clock.parameters, clock.counters.tolist(), clock.chain_events is not None)
    assert not clock.parameters.problem()
    assert len(encode_clock(clock)) <= len(encoded) + 4
    check_round_trip(clock)


HEAD = bytes([VERSION, 0, 15, 1])
"""Of a clock with 16 counters, two hashes, blocks of 16."""
WRONG = {
    "expected at least 4 bytes": HEAD[:3],
    "expected version 1, got 2": b"\2" + HEAD[1:] + bytes(2),
    "expected bit 7 of the shape": HEAD[:3] + b"\x81" + bytes(2),
    "expected a base that ends": HEAD + b"\x80\x80\x80\x80\x80\x00" + bytes(2),
    "expected a base in as few bytes": HEAD + b"\x80\x00" + bytes(2),
    "at most 2³² - 1": HEAD + b"\xff\xff\xff\xff\x1f" + bytes(2),
    "expected 1 blocks, got 0 bytes": HEAD + b"\0",
    "raises of 1 patched blocks": HEAD + b"\0" + bytes([33, 0]) + bytes(2),
    "raises of 2 patched blocks": bytes([VERSION, 0, 31, 1]) + b"\0" + bytes([33, 33, 1]),
    "raises of 3 patched blocks": bytes([VERSION, 0, 47, 1]) + b"\0" + bytes([33, 33, 33, 1, 1]),
    "expected 2 bytes after the blocks, got 3": HEAD + b"\0" + bytes([1]) + bytes(3),
    "expected the last byte to be filled": HEAD + b"\0" + bytes([64, 0b0000_1000]),
    "expected places below 15": bytes([VERSION, 0, 14, 1]) + b"\0" + bytes([64, 0xF0]),
    "expected counters up to 4294967295": HEAD + b"\xff\xff\xff\xff\x0f" + bytes([64, 0]),
    "expected 2 raises for each event": HEAD[:3] + b"\x41" + b"\0" + bytes([64, 0]),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_told(message: str) -> None:
    with pytest.raises(ClockDecodeError, match=message):
        decode_clock(WRONG[message])


@laws
@given(st.binary(min_size=3, max_size=3))
def test_every_value_of_the_parameters_is_a_valid_one(three: bytes) -> None:
    assert not read_parameters(bytes([VERSION]) + three).problem()


def largest(code: int) -> bytes:
    """65,536 counters in blocks of 16, all of one code, without the bits, and with raises as many as can be."""
    counts = bytes([255]) * 4096 if 32 < code < 64 else b""
    return bytes([VERSION, 255, 255, 0, 0]) + bytes([code]) * 4096 + counts


@pytest.mark.parametrize("code", [0, 1, 32, 33, 63, 64, 255])
def test_few_bytes_cannot_take_much_memory_or_time(code: int) -> None:
    decode_clock(encode_clock(Clock.zero()))
    tracemalloc.start()
    started = time.process_time()
    try:
        decode_clock(largest(code))
    except ClockDecodeError as error:
        assert "bytes after the blocks" in str(error)  # noqa: PT017
    seconds, peak = time.process_time() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000
    assert seconds < 0.5
