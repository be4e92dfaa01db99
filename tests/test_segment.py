"""Segments: what is built is accepted, every limit holds at its edge, and no bytes whatever get through or raise."""

import struct
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state import wire_pb2
from state.head import HEAD_BYTES, NO_PREVIOUS, Head, decode_head, is_head_signed
from state.limits import OP_BYTES_MAX, OPS_MAX, RECORD_BYTES_MAX, ROSTER_MAX
from state.segment import (
    REF_BYTES,
    Reason,
    Ref,
    Segment,
    build,
    decode_refs,
    encode_op,
    encode_refs,
    judge,
    rolling_hash,
    seal,
)
from state.signing import SIGNATURE_BYTES, SigningKey, is_fit_key, is_signed

SWARM = sha256(b"swarm").digest()
KEYS = [SigningKey(bytes([number]) * 32) for number in range(1, 6)]
OWN, OTHER = KEYS[:2]
AUTHORS = {SWARM: frozenset(key.public for key in KEYS)}
ROOT = sha256(b"root").digest()
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493

hashes = st.binary(min_size=32, max_size=32)
u64 = st.integers(0, 2**64 - 1)


def make(**changes: Any) -> Segment:
    parts: dict[str, Any] = {
        "swarm": SWARM,
        "index": 2,
        "previous": sha256(b"previous").digest(),
        "time_ms": 1_767_225_600_000,
        "ops": [encode_op(b"one"), encode_op(b"two", b"client"), encode_op(b"three")],
        "refs": [Ref(key.public, 7, sha256(key.public).digest()) for key in KEYS[1:3]],
        "root": ROOT,
    }
    return build(OWN, **{**parts, **changes})


def sealed(ops: list[bytes] | None = None, refs: bytes | None = None, **changes: Any) -> bytes:
    """A record whose head is rightly signed, whatever it says."""
    valid = make()
    ops, refs = list(valid.ops) if ops is None else ops, valid.refs if refs is None else refs
    hashed = {
        "ops_count": len(ops),
        "ops_hash": rolling_hash(valid.head.previous, ops),
        "refs_hash": sha256(refs).digest(),
    }
    return seal(OWN, valid.head._replace(**{**hashed, **changes}), ops, refs).encode()


def message(**changes: Any) -> bytes:
    """The valid record with parts changed and nothing signed anew."""
    valid = make()
    parts = {"head": valid.head_bytes, "signature": valid.signature, "ops": valid.ops, "refs": valid.refs}
    return wire_pb2.Segment(**{**parts, **changes}).SerializeToString()


def padded(record: bytes, size: int) -> bytes:
    """The record with a field that nobody knows, so that it has `size` bytes. Requires 16,388 bytes of room."""
    length = size - len(record) - 4
    return record + b"\x7a" + bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + bytes(length)


def many_refs(count: int) -> list[Ref]:
    return [Ref(OTHER.public, number, bytes(32)) for number in range(1, count + 1)]


# Round trips


@given(
    index=u64.filter(lambda index: index > 1),
    previous=hashes.filter(any),
    time_ms=u64,
    ops=st.lists(st.binary(max_size=300), max_size=20),
    refs=st.sets(st.builds(Ref, st.sampled_from([key.public for key in KEYS[1:]]), st.integers(1, 2**64 - 1), hashes)),
    root=hashes,
)
def test_what_is_built_is_accepted_and_says_the_same(refs: set[Ref], **parts: Any) -> None:
    segment = build(OWN, swarm=SWARM, refs=refs, **parts)
    judged = judge(segment.encode(), AUTHORS, refs_max=ROSTER_MAX)
    assert judged == segment
    assert decode_refs(segment.refs) == sorted(refs)
    assert segment.head == decode_head(segment.head_bytes)
    assert list(segment.ops) == parts["ops"]
    assert segment.ref == Ref(OWN.public, parts["index"], segment.id)
    for name in ("index", "previous", "time_ms", "root"):
        assert getattr(segment.head, name) == parts[name]


def test_the_first_segment_of_a_log_has_no_previous() -> None:
    first = make(index=1, previous=NO_PREVIOUS, ops=[], refs=[])
    assert first.head.ops_hash == NO_PREVIOUS
    assert first.head.refs_hash == sha256(b"").digest()
    assert judge(first.encode(), AUTHORS) == first


@given(st.builds(Head, *[st.integers(0, 2**32 - 1)] * 2, hashes, hashes, u64, hashes, u64, st.integers(0, 2**32 - 1),
                 hashes, hashes, hashes))  # fmt: skip
def test_a_head_has_one_encoding(head: Head) -> None:
    assert len(head.encode()) == HEAD_BYTES == 220
    assert decode_head(head.encode()) == head


def test_equal_segments_have_equal_bytes_and_ids() -> None:
    assert make() == make()
    assert make().encode() == make().encode()
    assert make(time_ms=1).id != make().id


# Limits at their edges


def accepts(record: bytes, refs_max: int | None = None) -> bool:
    return isinstance(judge(record, AUTHORS, refs_max), Segment)


def test_a_record_may_have_exactly_1_mib() -> None:
    record = make().encode()
    assert accepts(padded(record, RECORD_BYTES_MAX))
    assert judge(padded(record, RECORD_BYTES_MAX + 1), AUTHORS) is Reason.TOO_LARGE


def test_a_record_full_of_ops_may_have_exactly_1_mib() -> None:
    whole = [bytes(OP_BYTES_MAX)] * 15
    room = RECORD_BYTES_MAX - len(make(ops=whole).encode()) - len(b"\x1a\x80\x80\x03")
    full = make(ops=[*whole, bytes(room)])
    assert len(full.encode()) == RECORD_BYTES_MAX
    assert accepts(full.encode())
    assert judge(sealed(ops=[*whole, bytes(room + 1)]), AUTHORS) is Reason.TOO_LARGE
    with pytest.raises(ValueError, match="rejected as too_large"):
        make(ops=[*whole, bytes(room + 1)])


def test_an_op_may_have_exactly_64_kib() -> None:
    assert accepts(make(ops=[bytes(OP_BYTES_MAX)]).encode())
    assert judge(sealed(ops=[bytes(OP_BYTES_MAX + 1)]), AUTHORS) is Reason.TOO_LARGE
    assert judge(sealed(ops=[b"", bytes(OP_BYTES_MAX + 1), b""]), AUTHORS) is Reason.TOO_LARGE


def test_a_segment_may_have_exactly_4096_ops() -> None:
    assert accepts(make(ops=[b""] * OPS_MAX).encode())
    assert judge(sealed(ops=[b""] * (OPS_MAX + 1)), AUTHORS) is Reason.TOO_LARGE


def test_a_segment_may_have_as_many_refs_as_its_swarm_has_authors() -> None:
    count = len(KEYS)
    assert accepts(make(refs=many_refs(count)).encode())
    assert judge(make(refs=many_refs(count + 1)).encode(), AUTHORS) is Reason.BAD_REFS


def test_a_caller_may_know_another_limit_of_refs() -> None:
    assert accepts(make(refs=many_refs(ROSTER_MAX)).encode(), refs_max=ROSTER_MAX)
    assert judge(make(refs=many_refs(3)).encode(), AUTHORS, refs_max=2) is Reason.BAD_REFS
    with pytest.raises(ValueError, match="rejected as bad_refs"):
        make(refs=many_refs(ROSTER_MAX + 1))


@pytest.mark.parametrize("index", [2, 2**63, 2**64 - 1])
def test_an_index_may_be_as_large_as_its_field(index: int) -> None:
    assert accepts(make(index=index).encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 0},
        {"version": 2},
        {"version": 2**32 - 1},
        {"flags": 1},
        {"flags": 1 << 31},
        {"index": 0},
        {"index": 0, "previous": NO_PREVIOUS},
        {"index": 1},
        {"previous": NO_PREVIOUS},
    ],
    ids=str,
)
def test_a_head_that_cannot_be_a_link_is_malformed_even_if_rightly_signed(changes: dict[str, Any]) -> None:
    assert judge(sealed(**changes), AUTHORS) is Reason.MALFORMED


@pytest.mark.parametrize(("field", "size"), [("head", HEAD_BYTES), ("signature", SIGNATURE_BYTES)])
def test_fields_of_fixed_size_have_exactly_that_size(field: str, size: int) -> None:
    content = getattr(wire_pb2.Segment.FromString(make().encode()), field)
    assert len(content) == size
    for wrong in (b"", content[:-1], content + b"\0", content * 2):
        assert judge(message(**{field: wrong}), AUTHORS) is Reason.MALFORMED


# Which reason, when several things are wrong


STEPS: list[tuple[Reason, dict[str, Any], dict[str, Any]]] = [
    # reason, what of the head is wrong, which parts are not the ones that were signed
    (Reason.MALFORMED, {"flags": 1}, {}),
    (Reason.TOO_LARGE, {}, {"ops": [b""] * (OPS_MAX + 1)}),
    (Reason.UNKNOWN_SWARM, {"swarm": bytes(32)}, {}),
    (Reason.UNKNOWN_AUTHOR, {"author": bytes(32)}, {}),
    (Reason.BAD_SIGNATURE, {}, {"signature": bytes(64)}),
    (Reason.BAD_OPS_HASH, {}, {"ops": []}),
    (Reason.BAD_REFS, {}, {"refs": b""}),
]


@pytest.mark.parametrize("first", range(len(STEPS)))
def test_the_first_thing_wrong_in_the_order_of_judgement_is_the_reason(first: int) -> None:
    valid = make()
    head, parts = valid.head, {"signature": None, "ops": valid.ops, "refs": valid.refs}
    for _, head_changes, part_changes in reversed(STEPS[first:]):
        head = head._replace(**head_changes)
        parts |= part_changes
    signed = seal(OWN, head, parts["ops"], parts["refs"])
    if parts["signature"] is not None:
        signed = signed._replace(signature=parts["signature"])
    assert judge(signed.encode(), AUTHORS) is STEPS[first][0]


def test_a_record_over_1_mib_is_too_large_whatever_it_is() -> None:
    assert judge(bytes(RECORD_BYTES_MAX + 1), AUTHORS) is Reason.TOO_LARGE
    assert judge(bytes(RECORD_BYTES_MAX), AUTHORS) is Reason.MALFORMED


@pytest.mark.parametrize("record", [None, b"", b"\x00", b"\x0a", b"text", b"\x0b" * 10_000, b"\xff" * 1000])
def test_garbage_is_malformed(record: bytes | None) -> None:
    assert judge(record, AUTHORS) is Reason.MALFORMED


def test_a_segment_of_another_configuration_is_unknown() -> None:
    record = make().encode()
    assert judge(record, {}) is Reason.UNKNOWN_SWARM
    assert judge(record, {SWARM: frozenset()}) is Reason.UNKNOWN_AUTHOR


# Signatures and keys


def test_the_second_form_of_a_signature_is_refused() -> None:
    """S and S + L satisfy the same equation: without this check anybody could make a second signature of a head."""
    valid = make()
    scalar = int.from_bytes(valid.signature[32:], "little")
    for times in range(1, 16):
        other = scalar + times * GROUP_ORDER
        if other < 2**256:
            signature = valid.signature[:32] + other.to_bytes(32, "little")
            assert judge(message(signature=signature), AUTHORS) is Reason.BAD_SIGNATURE


def test_a_key_of_small_order_is_unfit_and_signs_nothing() -> None:
    """Under the neutral point R = S·B verifies for every message, if nobody looks at the key."""
    neutral = b"\x01" + bytes(31)
    for signature in (neutral + bytes(32), bytes(64)):
        assert not is_signed(b"anything", signature, neutral)
        valid = make()
        head = valid.head._replace(author=neutral)
        record = valid._replace(head_bytes=head.encode(), signature=signature).encode()
        assert judge(record, {SWARM: frozenset([neutral])}) is Reason.BAD_SIGNATURE
    assert not is_fit_key(neutral)
    assert all(is_fit_key(key.public) for key in KEYS)


@given(st.binary(max_size=40))
def test_fitness_of_a_key_is_a_plain_answer_for_any_bytes(public: bytes) -> None:
    assert is_fit_key(public) in (True, False)
    assert len(public) == 32 or not is_fit_key(public)


def test_a_signature_counts_for_one_domain_only() -> None:
    head = make().head_bytes
    assert not is_head_signed(head, OWN.sign(head), OWN.public)
    assert not is_head_signed(head, OWN.sign(b"quorumscope.head.v1\0" + head), OWN.public)
    assert is_head_signed(head, OWN.sign(b"quorumscope.sign.v1\0" + head), OWN.public)


def test_a_secret_does_not_show() -> None:
    assert repr(OWN) == f"SigningKey(public={OWN.public.hex()})"
    with pytest.raises(ValueError, match="made from 32 bytes, got 31"):
        SigningKey(bytes(31))


# Refs


@pytest.mark.parametrize(
    ("how", "refs"),
    [
        ("not sorted", many_refs(2)[1].encode() + many_refs(1)[0].encode()),
        ("repeated", many_refs(1)[0].encode() * 2),
        ("to its own author", Ref(OWN.public, 1, bytes(32)).encode()),
        ("to index 0", Ref(OTHER.public, 0, bytes(32)).encode()),
    ],
)
def test_refs_are_judged_even_if_rightly_signed(how: str, refs: bytes) -> None:
    assert judge(sealed(refs=refs), AUTHORS) is Reason.BAD_REFS, how


def test_two_refs_to_one_author_are_fine_because_it_may_have_forked() -> None:
    both = [Ref(OTHER.public, 7, bytes([number]) * 32) for number in (1, 2)]
    assert accepts(make(refs=both).encode())


@given(st.binary(min_size=1, max_size=200).filter(lambda refs: len(refs) % REF_BYTES))
def test_refs_that_end_within_a_ref_are_malformed(refs: bytes) -> None:
    assert judge(sealed(refs=refs), AUTHORS) is Reason.MALFORMED


# Producers build nothing that ingest rejects


@pytest.mark.parametrize(
    ("how", "changes"),
    [
        ("too_large", {"ops": [bytes(OP_BYTES_MAX + 1)]}),
        ("too_large", {"ops": [b""] * (OPS_MAX + 1)}),
        ("too_large", {"ops": [bytes(OP_BYTES_MAX)] * 17}),
        ("malformed", {"index": 0}),
        ("malformed", {"index": 1}),
        ("malformed", {"previous": NO_PREVIOUS}),
        ("bad_refs", {"refs": [Ref(OWN.public, 1, bytes(32))]}),
        ("bad_refs", {"refs": many_refs(1) * 2}),
        ("bad_refs", {"refs": [Ref(OTHER.public, 0, bytes(32))]}),
        ("malformed", {"refs": [Ref(OTHER.public, 1, bytes(31))]}),
        ("swarm: want 32 bytes, got 31", {"swarm": bytes(31)}),
        ("previous: want 32 bytes, got 33", {"previous": bytes(33)}),
        ("root: want 32 bytes, got 0", {"root": b""}),
        ("index: want 0 ≤ index < 2⁶⁴, got -1", {"index": -1}),
        ("index: want 0 ≤ index < 2⁶⁴, got 18446744073709551616", {"index": 2**64}),
        ("time_ms: want 0 ≤ time_ms < 2⁶⁴, got -1", {"time_ms": -1}),
    ],
)
def test_build_refuses_what_ingest_rejects(how: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=how):
        make(**changes)


# Fuzz


@settings(max_examples=500)
@given(st.binary(max_size=600))
@example(b"\x0a" + b"\xff" * 9 + b"\x01")
@example(b"\x0a\xff\xff\xff\xff\x0f")
def test_random_bytes_never_raise_and_are_never_a_segment(record: bytes) -> None:
    assert isinstance(judge(record, AUTHORS), Reason)


VALID = [make(), make(index=3, ops=[encode_op(b"other")], refs=[]), make(index=1, previous=NO_PREVIOUS, ops=[])]
"""Records that stand on the topic, from whose parts an attacker can build."""


def is_original(judged: Segment) -> bool:
    """All that counts is as it was signed: the other encodings of protobuf change nothing."""
    return any(judged == valid for valid in VALID)


def check(record: bytes) -> None:
    judged = judge(record, AUTHORS)
    assert isinstance(judged, Reason) or is_original(judged._replace(ops=list(judged.ops)))


@settings(max_examples=500)
@given(st.sampled_from(VALID), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=3))
def test_flipped_bits_never_make_another_segment(valid: Segment, bits: list[int]) -> None:
    record = bytearray(valid.encode())
    for bit in bits:
        at = bit % (8 * len(record))
        record[at // 8] ^= 1 << at % 8
    check(bytes(record))


def test_every_flipped_bit_of_what_is_signed_is_refused() -> None:
    valid = make(ops=[encode_op(b"x")], refs=many_refs(1))
    record = valid.encode()
    for bit in range(8 * len(record)):
        changed = bytearray(record)
        changed[bit // 8] ^= 1 << bit % 8
        assert isinstance(judge(bytes(changed), AUTHORS), Reason), bit


@given(st.sampled_from(VALID), st.integers(0, 2000), st.binary(max_size=5))
def test_cut_and_continued_records_never_make_another_segment(valid: Segment, size: int, rest: bytes) -> None:
    check(valid.encode()[:size] + rest)


def fields_of(segment: Segment) -> list[bytes]:
    parts = [wire_pb2.Segment(head=segment.head_bytes), wire_pb2.Segment(signature=segment.signature)]
    parts += [wire_pb2.Segment(ops=[op]) for op in segment.ops]
    parts += [wire_pb2.Segment(refs=segment.refs)] * bool(segment.refs)
    return [part.SerializeToString() for part in parts]


FIELDS = [field for valid in VALID for field in fields_of(valid)]
UNKNOWN = [b"\x7a\x03new", b"\x78\x01", b"\x7d\0\0\0\0", b"\x79" + bytes(8), b"\x7b\x7c", b"\x08\x05", b"\x1a\x00"]


@settings(max_examples=500)
@given(st.lists(st.sampled_from(FIELDS + UNKNOWN), max_size=12))
def test_fields_of_several_records_mixed_never_make_another_segment(fields: list[bytes]) -> None:
    check(b"".join(fields))


@given(st.sampled_from(VALID), st.lists(st.sampled_from(UNKNOWN[:-1]), max_size=4), st.data())
def test_unknown_fields_change_nothing(valid: Segment, unknown: list[bytes], data: st.DataObject) -> None:
    fields = fields_of(valid)
    for field in unknown:
        fields.insert(data.draw(st.integers(0, len(fields))), field)
    assert judge(b"".join(fields), AUTHORS) == valid


@given(st.sampled_from(VALID), st.randoms(use_true_random=False))
def test_the_order_of_fields_of_different_numbers_changes_nothing(valid: Segment, chance: Any) -> None:
    head, signature, *others = fields_of(valid)
    groups = [[head], [signature], others]
    chance.shuffle(groups)
    assert judge(b"".join(field for group in groups for field in group), AUTHORS) == valid


@given(st.builds(Head, *[st.integers(0, 3)] * 2, st.sampled_from([SWARM, bytes(32)]), st.sampled_from([OWN.public]),
                 st.integers(0, 3), st.sampled_from([NO_PREVIOUS, b"\1" * 32]), u64, st.integers(0, 2), hashes, hashes,
                 hashes), st.lists(st.binary(max_size=3), max_size=2), st.binary(max_size=80))  # fmt: skip
def test_any_head_that_its_author_signed_is_judged_without_raising(head: Head, ops: list[bytes], refs: bytes) -> None:
    judged = judge(seal(OWN, head, ops, refs).encode(), AUTHORS)
    if isinstance(judged, Segment):
        assert rolling_hash(head.previous, ops) == head.ops_hash
        assert (head.version, head.flags, head.swarm) == (1, 0, SWARM)


def test_the_field_sizes_of_the_design_are_those_of_the_layout() -> None:
    assert struct.calcsize(">II32s32sQ32sQI32s32s32s") == HEAD_BYTES
    assert len(Ref(bytes(32), 1, bytes(32)).encode()) == REF_BYTES == 72
    assert encode_refs([]) == b""
