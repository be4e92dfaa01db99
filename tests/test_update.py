"""Updates: their encoding, what is malformed, and what the id of an event covers."""

from hashlib import sha256

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from state import update as updates
from state import wire_pb2
from state.limits import ENTITY_BYTES_MAX, PARENTS_MAX
from state.segment import encode_op
from state.update import Malformed, Update, decode_update, encode_update, event_id

SWARM, AUTHOR = b"\1" * 32, b"\2" * 32
FIRST, SECOND = b"\3" * 32, b"\4" * 32
FULL = Update(b"menu", (FIRST, SECOND), b"add soup", b"a stamp", b"\5" * 32)

ids = st.binary(min_size=32, max_size=32)
changes = st.none() | st.binary(max_size=40)
well_formed = st.builds(
    Update,
    st.binary(min_size=1, max_size=ENTITY_BYTES_MAX),
    st.sets(ids, max_size=4).map(lambda parents: tuple(sorted(parents))),
    changes,
    st.binary(max_size=40),
    st.just(b"") | ids,
)
any_update = st.builds(
    Update,
    st.binary(max_size=70),
    st.lists(ids | st.binary(max_size=3), max_size=3).map(tuple),
    changes,
    st.binary(max_size=9),
    st.binary(max_size=33),
)


def message(update: Update) -> wire_pb2.Update:
    return wire_pb2.Update(**{**update._asdict(), "parents": list(update.parents)})


def op_of(update: Update) -> bytes:
    return wire_pb2.Op(update=message(update)).SerializeToString()


def carries_update(op: bytes) -> bool:
    """By the decoder of protobuf alone."""
    try:
        return bool(wire_pb2.Op.FromString(op).WhichOneof("body") == "update")
    except DecodeError:
        return False


# Ops that look like what most ops are, with bytes off here and there.
lengths = st.integers(0, 5).map(lambda length: bytes([length])) | st.sampled_from(
    [b"\x7f", b"\x80\x01", b"\x80\x00", b"\x83\x80\x00", b"\xff\xff\xff\xff\x0f", b"\x80"]
)
fields = st.builds(bytes.__add__, st.sampled_from([b"\x0a", b"\x12", b"\x1a", b"\x22", b"\x10"]), lengths)
ragged_ops = st.lists(fields | st.binary(max_size=6) | any_update.map(op_of), max_size=5).map(b"".join)
data_ops = st.builds(
    encode_op,
    st.binary(max_size=5) | st.sampled_from([127, 128, 16_383, 16_384, 65_000]).map(bytes),
    st.binary(max_size=3) | st.sampled_from([127, 128]).map(bytes),
)
any_op = st.binary(max_size=40) | ragged_ops | data_ops | any_update.map(op_of)


@given(well_formed, st.binary(max_size=200))
def test_a_well_formed_update_is_decoded_as_it_was_encoded(update: Update, origin: bytes) -> None:
    op = encode_update(update, origin)
    assert decode_update(op) == update
    assert wire_pb2.Op.FromString(op).origin == origin


@given(any_update)
def test_what_cannot_be_encoded_is_found_malformed_and_nothing_else_is(update: Update) -> None:
    decoded = decode_update(op_of(update))
    if isinstance(decoded, Malformed):
        with pytest.raises(ValueError, match="want") as error:
            encode_update(update)
        assert str(error.value) == decoded.problem
        assert decoded.entity == update.entity[:ENTITY_BYTES_MAX]
    else:
        assert decoded == update
        assert encode_update(update) == op_of(update)


@given(any_op, any_op)
@example(b"\x12\x00", op_of(FULL))
@example(b"\x0a\x01a", op_of(FULL))
@example(b"\x0a", b"")
@example(b"\x0a\x01a\x12", b"")
def test_any_bytes_at_all_are_an_update_if_protobuf_says_so(op: bytes, more: bytes) -> None:
    for given_bytes in (op, op + more):
        assert (decode_update(given_bytes) is not None) == carries_update(given_bytes)


def test_an_update_behind_data_with_an_odd_length_is_not_overlooked() -> None:
    """A length of zero in three bytes: the first two of them read as 16,384, which is what follows."""
    data = b"\x12\x80\x80\x00"
    overhead = len(op_of(Update(b"e", change=bytes(16_000)))) - 16_000
    op = data + op_of(Update(b"e", change=bytes(16_384 - 1 - overhead)))
    assert len(op) == 3 + 16_384
    assert isinstance(decode_update(op), Update)


@given(data_ops)
@example(b"")
@example(encode_op(b""))
def test_ops_of_data_of_common_sizes_are_told_without_decoding(op: bytes) -> None:
    assert decode_update(op) is None
    if len(op) < 16_000 and len(wire_pb2.Op.FromString(op).origin) < 128:
        assert updates._is_plain(op)


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        pytest.param(Update(b""), "entity: want 1 to 64 bytes, got 0", id="no entity"),
        pytest.param(Update(bytes(65)), "entity: want 1 to 64 bytes, got 65", id="a long entity"),
        pytest.param(
            Update(b"e", tuple(number.to_bytes(32) for number in range(257))),
            "parents: want at most 256, got 257",
            id="too many parents",
        ),
        pytest.param(Update(b"e", (bytes(31),)), "parents: want ids of 32 bytes", id="a short parent"),
        pytest.param(Update(b"e", (FIRST, b"")), "parents: want ids of 32 bytes", id="an empty parent"),
        pytest.param(Update(b"e", (SECOND, FIRST)), "parents: want them sorted, each once", id="unsorted"),
        pytest.param(Update(b"e", (FIRST, FIRST)), "parents: want them sorted, each once", id="repeated"),
        pytest.param(Update(b"e", digest=bytes(31)), "digest: want 32 bytes, got 31", id="a short digest"),
        pytest.param(Update(b"e", digest=bytes(33)), "digest: want 32 bytes, got 33", id="a long digest"),
    ],
)
def test_a_malformed_update_is_told_with_what_was_expected(update: Update, problem: str) -> None:
    assert decode_update(op_of(update)) == Malformed(update.entity[:64], problem)
    with pytest.raises(ValueError, match=problem):
        encode_update(update)


def test_what_is_exactly_at_a_limit_is_well_formed() -> None:
    update = Update(bytes(64), tuple(number.to_bytes(32) for number in range(PARENTS_MAX)), b"")
    assert decode_update(encode_update(update)) == update


def test_no_change_and_an_empty_one_are_two_things() -> None:
    assert decode_update(encode_update(Update(b"e"))) == Update(b"e", change=None)
    assert decode_update(encode_update(Update(b"e", change=b""))) == Update(b"e", change=b"")


def test_unknown_fields_are_passed_over() -> None:
    inner = message(FULL).SerializeToString() + b"\x9a\x06\x03new"
    op = wire_pb2.Op(update=wire_pb2.Update.FromString(inner)).SerializeToString() + b"\xa2\x06\x03new"
    assert decode_update(op) == FULL


def test_of_several_bodies_the_last_counts_and_updates_in_a_row_are_put_together() -> None:
    data = encode_op(b"data")
    assert decode_update(op_of(FULL) + data) is None
    assert decode_update(data + op_of(FULL)) == FULL
    halves = op_of(Update(b"old", (FIRST,), b"x")) + op_of(Update(b"menu", (SECOND,)))
    assert decode_update(halves) == Update(b"menu", (FIRST, SECOND), b"x")


@pytest.mark.parametrize(
    ("update", "names"),
    [
        (Update(b"e"), True),
        (Update(b"e", stamp=b"s"), False),
        (Update(b"e", (FIRST,), stamp=b"s"), True),
        (Update(b"e", change=b"", stamp=b"s"), True),
        (Update(b"e", digest=bytes(32)), True),
    ],
)
def test_only_a_stamp_alone_names_no_version(update: Update, names: bool) -> None:
    assert update.names_version == names


# The ids of events


def test_the_id_of_an_event_is_the_hash_of_what_the_wire_format_says() -> None:
    parts = (b"quorumscope.event.v1\0", SWARM, AUTHOR, b"\x04menu", b"\x00\x02", FIRST, SECOND, b"add soup")
    assert event_id(SWARM, AUTHOR, FULL) == sha256(b"".join(parts)).digest()
    assert event_id(SWARM, AUTHOR, FULL).hex() == "938f95f44cbaf1b726c21cc582c8a1e7c2b757662f0734a451f2714e835a1859"


@given(st.tuples(ids, ids, well_formed), st.tuples(ids, ids, well_formed), st.integers(0, 31))
def test_the_id_covers_all_but_the_claims(
    one: tuple[bytes, bytes, Update], other: tuple[bytes, bytes, Update], mixed: int
) -> None:
    made, others = ([*each[:2], each[2].entity, each[2].parents, each[2].change or b""] for each in (one, other))
    mixture = [theirs if mixed >> at & 1 else ours for at, (ours, theirs) in enumerate(zip(made, others, strict=True))]

    def identify(parts: list[object], claims: Update) -> bytes:
        swarm, author, entity, parents, change = parts
        assert isinstance(swarm, bytes)
        assert isinstance(author, bytes)
        return event_id(swarm, author, claims._replace(entity=entity, parents=parents, change=change))

    assert (identify(made, one[2]) == identify(mixture, other[2])) == (made == mixture)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(Update(b"ab", (), b"c"), Update(b"a", (), b"bc"), id="entity and change"),
        pytest.param(Update(b"a", (FIRST,), b""), Update(b"a", (), FIRST), id="parents and change"),
        pytest.param(Update(b"a", (FIRST, SECOND), b""), Update(b"a", (FIRST,), SECOND), id="last parent and change"),
    ],
)
def test_no_byte_of_one_part_passes_for_one_of_another(one: Update, other: Update) -> None:
    assert event_id(SWARM, AUTHOR, one) != event_id(SWARM, AUTHOR, other)
