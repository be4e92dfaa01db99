"""Writes the test vectors and the schema of verdicts: `python -m tests.make_vectors`.

Everything follows from the fixed seeds below, so a second run writes the same bytes; a test proves that the files in
the repository are current. docs/wire-format.md explains them to whoever writes a peer in another language.
"""

import json
from collections.abc import Iterator
from hashlib import sha256, sha512
from pathlib import Path
from typing import Any

import nacl.bindings
from kafka.partitioner.default import murmur2

from state import merkle, wire_pb2
from state.bloom import Parameters, indices
from state.clockcode import encode_clock
from state.entity import Entity
from state.head import NO_PREVIOUS, Head
from state.holding import Holding
from state.limits import OP_BYTES_MAX, OPS_MAX, RECORD_BYTES_MAX
from state.segment import Ref, Segment, build, decode_refs, encode_op, encode_refs, rolling_hash, seal
from state.signing import SigningKey
from state.update import Update, decode_update, encode_update, event_id
from state.verdict import json_schema
from state.version import Version

ROOT = Path(__file__).parent.parent
SWARM = sha256(b"a swarm for test vectors").digest()
NAMES = ("alice", "bob", "carol", "dave")
SEEDS = {name: bytes([number]) * 32 for number, name in enumerate((*NAMES, "stranger"), start=1)}
KEYS = {name: SigningKey(seed) for name, seed in SEEDS.items()}
START_MS = 1_767_225_600_000
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of Ed25519's base point: S and S + this order satisfy the same equation."""

FIELD_PRIME = 2**255 - 19
NEUTRAL = b"\x01" + bytes(31)
ORDER_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
UNFIT_KEYS = {
    "the neutral point, of order 1": NEUTRAL.hex(),
    "a point of order 2": "ec" + 30 * "ff" + "7f",
    "a point of order 4": 32 * "00",
    "the other point of order 4": 31 * "00" + "80",
    "a point of order 8": ORDER_8.hex(),
    "another point of order 8": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "the neutral point, not reduced": (FIELD_PRIME + 1).to_bytes(32, "little").hex(),
    "zero, not reduced": FIELD_PRIME.to_bytes(32, "little").hex(),
    "the key of alice plus a point of order 2": "63771c228bf60e6a02ad24d2c345a28d3598f640e26bede40c8b77fe4bf090a3",
    "no point of the curve": "02" + 31 * "00",
    "a byte too few": 31 * "11",
    "a byte too many": 33 * "11",
}
CT_LEAVES = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
"""The leaves that the reference implementation of certificate transparency tests with."""


def files() -> dict[str, str]:
    """Every file that is made here, by its path in the repository, with its text."""
    story = Story()
    made = {
        "tests/vectors/keys.json": keys(),
        "tests/vectors/ops.json": ops(),
        "tests/vectors/heads.json": heads(),
        "tests/vectors/refs.json": refs(),
        "tests/vectors/merkle.json": trees(),
        "tests/vectors/segments.json": story.vectors(),
        "tests/vectors/records.json": records(),
        "tests/vectors/updates.json": updates(),
        "docs/verdicts.schema.json": json_schema(),
    }
    return {path: json.dumps(content, indent=1, ensure_ascii=False) + "\n" for path, content in made.items()}


def keys() -> dict[str, Any]:
    return {
        "about": "Ed25519 keys; `partitions` tells where Kafka's default partitioner puts records with that key",
        "fit": [
            {
                "name": name,
                "seed": SEEDS[name].hex(),
                "public": key.public.hex(),
                "partitions": {str(count): (murmur2(key.public) & 0x7FFFFFFF) % count for count in (3, 4, 16)},
            }
            for name, key in KEYS.items()
        ],
        "unfit": [{"how": how, "public": public} for how, public in UNFIT_KEYS.items()],
    }


def ops() -> dict[str, Any]:
    contents = [
        (b"", b""),
        (b"set x = 1", b""),
        (b"set y = 2", b"client-7"),
        (bytes(range(256)), KEYS["bob"].public),
        (bytes(200), b""),
    ]
    encoded = [encode_op(data, origin) for data, origin in contents]
    previous = sha256(b"previous").digest()
    return {
        "about": "ops and their encoding (protobuf Op); the rolling hash after each op, from `previous`",
        "ops": [
            {"data": data.hex(), "origin": origin.hex(), "encoded": op.hex()}
            for (data, origin), op in zip(contents, encoded, strict=True)
        ],
        "chains": [
            {
                "previous": first.hex(),
                "ops": [op.hex() for op in chain],
                "hashes": [rolling_hash(first, chain[: count + 1]).hex() for count in range(len(chain))],
                "ops_hash": rolling_hash(first, chain).hex(),
            }
            for first in (NO_PREVIOUS, previous)
            for chain in ([], encoded[:1], encoded, [b"", b"\xff", b"no protobuf at all"])
        ],
    }


def heads() -> dict[str, Any]:
    digest = [sha256(bytes([number])).digest() for number in range(5)]
    largest = {"index": 2**64 - 1, "time_ms": 2**64 - 1, "ops_count": 2**32 - 1}
    shapes: list[tuple[str, dict[str, Any]]] = [
        ("alice", {"index": 1, "previous": NO_PREVIOUS, "time_ms": START_MS, "ops_count": 0}),
        ("bob", {"index": 2, "previous": digest[0], "time_ms": START_MS + 1, "ops_count": 3}),
        ("carol", {"previous": digest[1], **largest}),
        ("dave", {"index": 258, "previous": digest[2], "time_ms": 0, "ops_count": 4096}),
    ]
    return {
        "about": "heads: the fields, the 220 bytes, the id, and the signature by the author's key",
        "heads": [_head_vector(name, digest[3], digest[4], fields) for name, fields in shapes],
    }


def _head_vector(name: str, ops_hash: bytes, root: bytes, fields: dict[str, Any]) -> dict[str, Any]:
    hashes = {"ops_hash": ops_hash, "refs_hash": sha256(b"").digest(), "root": root}
    head = Head(version=1, flags=0, swarm=SWARM, author=KEYS[name].public, **fields, **hashes)
    sealed = seal(KEYS[name], head, [], b"")
    return {
        "seed": SEEDS[name].hex(),
        "fields": {
            field: value.hex() if isinstance(value, bytes) else value for field, value in head._asdict().items()
        },
        "head": sealed.head_bytes.hex(),
        "id": sealed.id.hex(),
        "signature": sealed.signature.hex(),
    }


def refs() -> dict[str, Any]:
    some = [
        Ref(KEYS["bob"].public, 7, sha256(b"bob 7").digest()),
        Ref(KEYS["alice"].public, 300, sha256(b"alice 300").digest()),
        Ref(KEYS["carol"].public, 2, sha256(b"carol 2").digest()),
        Ref(KEYS["carol"].public, 2, sha256(b"carol 2, the other version").digest()),
        Ref(KEYS["carol"].public, 1 << 40, sha256(b"carol").digest()),
    ]
    return {
        "about": "refs in any order, their encoding (sorted), and refs_hash",
        "refs": [
            {
                "refs": [_named(ref) for ref in chosen],
                "encoded": encode_refs(chosen).hex(),
                "refs_hash": sha256(encode_refs(chosen)).hexdigest(),
            }
            for chosen in ([], some[:1], some[:2], some)
        ],
    }


def trees() -> dict[str, Any]:
    leaves = [bytes.fromhex(leaf) for leaf in CT_LEAVES]
    return {
        "about": "RFC 6962 over the first `size` of the leaves: the root, and the audit path of every leaf",
        "leaves": list(CT_LEAVES),
        "trees": [
            {
                "size": size,
                "root": merkle.root(leaves[:size]).hex(),
                "paths": [[node.hex() for node in merkle.path(leaves[:size], at)] for at in range(size)],
            }
            for size in range(len(leaves) + 1)
        ],
    }


class Story:
    """Four peers, of whom Carol and Dave sign two versions: what each noop entangles and endorses."""

    def __init__(self) -> None:
        self.holdings = {name: Holding(SWARM, KEYS[name].public, refs_max=len(NAMES)) for name in NAMES}
        self.told: list[dict[str, Any]] = []
        self.segments: dict[str, Segment] = {}
        self.close("alice 1", [encode_op(b"set x = 1"), encode_op(b"set y = 2", b"client-7")])
        self.close("bob 1", [encode_op(b"set z = 3")], given=["alice 1"])
        self.close("carol 1", [])
        self.close("carol 2", [encode_op(b"one story")])
        self.lie("carol 2, again", [encode_op(b"another story")], "carol 2")
        self.close("alice 2", [], given=["bob 1", "carol 1", "carol 2"])
        self.close("bob 2", [], given=["carol 1", "carol 2", "carol 2, again", "alice 2"])
        self.close("dave 1", [encode_op(b"hello")])
        self.lie("dave 1, again", [encode_op(b"good bye")], "dave 1")
        self.close("alice 3", [], given=["carol 2, again", "bob 2", "dave 1"])
        self.close("alice 4", [], given=["dave 1, again"])

    def close(self, title: str, ops: list[bytes], given: list[str] | None = None) -> None:
        """The next noop of the peer that the title names, after it was given others' segments."""
        name = title.split(maxsplit=1)[0]
        holding = self.holdings[name]
        for other in given or []:
            holding.receive(self.segments[other])
        segment = holding.close(KEYS[name], START_MS + 1000 * len(self.told), ops)
        endorsed = [holding.endorses(KEYS[other].public) for other in NAMES if other != name]
        self._tell(title, segment, given or [], [ref for ref in endorsed if ref is not None])

    def lie(self, title: str, ops: list[bytes], twin: str) -> None:
        """A second version of a segment, which an honest peer never signs."""
        head = self.segments[twin].head
        segment = build(
            KEYS[title.split(maxsplit=1)[0]],
            swarm=SWARM,
            index=head.index,
            previous=head.previous,
            time_ms=START_MS + 1000 * len(self.told),
            ops=ops,
            root=head.root,
        )
        self._tell(title, segment, [], [])

    def vectors(self) -> dict[str, Any]:
        return {
            "about": (
                "a small swarm: who was given what, and the segment that was closed then; `lines` are those of the "
                "root in their order, with the audit path of each; a title with «again» is a second version, a lie"
            ),
            "swarm": SWARM.hex(),
            "roster": {name: KEYS[name].public.hex() for name in NAMES},
            "segments": self.told,
        }

    def _tell(self, title: str, segment: Segment, given: list[str], endorsed: list[Ref]) -> None:
        lines = sorted(ref.encode() for ref in endorsed)
        self.segments[title] = segment
        self.told.append(
            {
                "title": title,
                "given": given,
                "index": segment.head.index,
                "previous": segment.head.previous.hex(),
                "time_ms": segment.head.time_ms,
                "ops": [op.hex() for op in segment.ops],
                "refs": [_named(ref) for ref in decode_refs(segment.refs)],
                "lines": [
                    {"line": line.hex(), "path": [node.hex() for node in merkle.path(lines, at)]}
                    for at, line in enumerate(lines)
                ],
                "root": segment.head.root.hex(),
                "head": segment.head_bytes.hex(),
                "id": segment.id.hex(),
                "signature": segment.signature.hex(),
                "record": segment.encode().hex(),
            }
        )


def records() -> dict[str, Any]:
    mutations = Mutations()
    roster = {name: KEYS[name].public.hex() for name in NAMES}
    return {
        "about": (
            "one valid record, and records with one mutation each: `reason` is what each must be rejected for, null "
            "if it must be accepted. A long record is given in pieces, to be joined: [hex, how many times]"
        ),
        "swarm": SWARM.hex(),
        "roster": roster,
        "refs_max": len(roster),
        "valid": mutations.valid.encode().hex(),
        "records": [
            {"how": how, "reason": reason, **_record(value)}
            for reason, cases in mutations.all()
            for how, value in cases
        ],
    }


Cases = Iterator[tuple[str, bytes | None]]


class Mutations:
    """Changes to one valid record, of Bob's. Bob's key is at hand: what he could sign himself is rightly signed."""

    def __init__(self) -> None:
        self.key = KEYS["bob"]
        self.valid = build(
            self.key,
            swarm=SWARM,
            index=2,
            previous=sha256(b"bob 1").digest(),
            time_ms=START_MS,
            ops=[encode_op(b"first"), encode_op(b"second", b"client-7"), encode_op(b"third")],
            refs=[Ref(KEYS[name].public, 3, sha256(name.encode()).digest()) for name in ("alice", "carol")],
            root=sha256(b"a root that nobody can judge alone").digest(),
        )

    def all(self) -> Iterator[tuple[str | None, Cases]]:
        yield None, self.accepted()
        yield "too_large", self.too_large()
        yield "malformed", self.malformed()
        yield "unknown_swarm", self.unknown_swarm()
        yield "unknown_author", self.unknown_author()
        yield "bad_signature", self.bad_signature()
        yield "bad_ops_hash", self.bad_ops_hash()
        yield "bad_refs", self.bad_refs()

    def accepted(self) -> Cases:
        record, valid = self.valid.encode(), self.valid
        parts = [wire_pb2.Segment(refs=valid.refs), wire_pb2.Segment(ops=valid.ops)]
        parts += [wire_pb2.Segment(signature=valid.signature), wire_pb2.Segment(head=valid.head_bytes)]
        other = [Ref(KEYS[name].public, 1, sha256(name.encode()).digest()) for name in ("alice", "carol")]
        yield "nothing is changed", record
        yield "a field that nobody knows", record + b"\x7a\x03new"
        yield "the fields in another order", b"".join(part.SerializeToString() for part in parts)
        yield "a head given twice, of which the last counts", b"\x0a\x03abc" + record
        yield "a record of exactly 1 MiB", record + _unknown_field(RECORD_BYTES_MAX - len(record))
        yield "an op of exactly 64 KiB", self.signed_ops([bytes(OP_BYTES_MAX)])
        yield "exactly 4,096 ops", self.signed_ops([b"\x12\x00"] * OPS_MAX)
        yield "no ops", self.signed_ops([])
        yield "ops that are empty or no protobuf", self.signed_ops([b"", b"\xff\xff"])
        yield "no refs", self.signed_refs(b"")
        yield "as many refs as peers, two of one author", self.signed_refs(encode_refs([*self.two_refs(), *other]))
        yield "a ref to an author that is not in the roster", self.signed_refs(Ref(b"\x77" * 32, 1, bytes(32)).encode())
        yield "a clock that says 0", self.signed(time_ms=0)
        yield "a clock far ahead", self.signed(time_ms=2**64 - 1)
        yield "the largest index", self.signed(index=2**64 - 1)
        yield "a root of zeros", self.signed(root=bytes(32))
        yield "a first segment", self.first()

    def too_large(self) -> Cases:
        record = self.valid.encode()
        yield "a record one byte over 1 MiB", record + _unknown_field(RECORD_BYTES_MAX + 1 - len(record))
        yield "zeros, one byte over 1 MiB: the size is judged before the form", bytes(RECORD_BYTES_MAX + 1)
        yield "an op one byte over 64 KiB", self.signed_ops([bytes(OP_BYTES_MAX + 1)])
        yield "4,097 ops", self.signed_ops([b"\x12\x00"] * (OPS_MAX + 1))
        yield (
            "4,097 ops, of an unknown swarm: the size is judged first",
            self.signed_ops([b"\x12\x00"] * (OPS_MAX + 1), swarm=bytes(32)),
        )

    def malformed(self) -> Cases:
        head, signature, refs = self.valid.head_bytes, self.valid.signature, self.valid.refs
        record = self.valid.encode()
        yield "no value at all", None
        yield "no bytes", b""
        yield "text", b'{"not": "a segment"}'
        yield "the last byte cut off", record[:-1]
        yield "a byte of 0 in front", b"\x00" + record
        yield "a tag without its value", record + b"\x0a"
        yield "no head", self.message(head=b"")
        yield "a head of 219 bytes", self.message(head=head[:-1])
        yield "a head of 221 bytes", self.message(head=head + b"\x00")
        yield "no signature", self.message(signature=b"")
        yield "a signature of 63 bytes", self.message(signature=signature[:-1])
        yield "a signature of 65 bytes", self.message(signature=signature + b"\x00")
        yield "refs a byte short", self.message(refs=refs[:-1])
        yield "refs a byte long", self.message(refs=refs + b"\x00")
        yield "version 0, rightly signed", self.signed(version=0)
        yield "version 2, rightly signed", self.signed(version=2)
        yield "a flag, rightly signed", self.signed(flags=1)
        yield "index 0, rightly signed", self.signed(index=0)
        yield "index 1 with a previous, rightly signed", self.signed(index=1)
        yield "index 2 without a previous, rightly signed", self.signed(previous=NO_PREVIOUS)
        yield "version 2, of an unknown swarm: the form is judged first", self.signed(version=2, swarm=bytes(32))

    def unknown_swarm(self) -> Cases:
        yield "another swarm, rightly signed", self.signed(swarm=sha256(b"another").digest())
        yield "a swarm of zeros, rightly signed", self.signed(swarm=bytes(32))
        yield "a bit of the swarm flipped, not signed anew", self.message(head=self.head(swarm=_flipped(SWARM)))
        yield (
            "another swarm and a stranger: the swarm is judged first",
            self.signed(key=KEYS["stranger"], swarm=sha256(b"another").digest()),
        )

    def unknown_author(self) -> Cases:
        yield "a stranger, rightly signed", self.signed(key=KEYS["stranger"])
        yield "a key of small order", self.message(head=self.head(author=b"\x01" + bytes(31)))
        yield "an author of zeros", self.message(head=self.head(author=bytes(32)))
        yield (
            "a stranger, not signed: the author is judged first",
            self.message(head=self.head(author=KEYS["stranger"].public), signature=bytes(64)),
        )

    def bad_signature(self) -> Cases:
        signature, head = self.valid.signature, self.valid.head_bytes
        scalar = int.from_bytes(signature[32:], "little")
        yield "a bit of R flipped", self.message(signature=_flipped(signature))
        yield "a bit of S flipped", self.message(signature=signature[:32] + _flipped(signature[32:]))
        yield (
            "S plus the order of the group",
            self.message(signature=signature[:32] + (scalar + GROUP_ORDER).to_bytes(32, "little")),
        )
        yield "R of small order, S to match", self.message(signature=self.odd_signature(0, NEUTRAL))
        yield "R with a part of small order, S to match", self.message(signature=self.odd_signature(7, ORDER_8))
        yield "zeros", self.message(signature=bytes(64))
        yield "signed by another peer", self.message(signature=seal(KEYS["alice"], self.valid.head, [], b"").signature)
        yield "the head signed without its domain", self.message(signature=self.key.sign(head))
        yield (
            "the head signed with the domain of ids",
            self.message(signature=self.key.sign(b"quorumscope.head.v1\0" + head)),
        )
        yield (
            "the id signed in place of the head",
            self.message(signature=self.key.sign(b"quorumscope.sign.v1\0" + self.valid.id)),
        )
        yield "another peer as the author", self.message(head=self.head(author=KEYS["alice"].public))
        yield "another index", self.message(head=self.head(index=3))
        yield "another previous", self.message(head=self.head(previous=_flipped(self.valid.head.previous)))
        yield "another time", self.message(head=self.head(time_ms=START_MS + 1))
        yield "another count of ops", self.message(head=self.head(ops_count=2))
        yield "another root", self.message(head=self.head(root=bytes(32)))
        yield "no ops either: the signature is judged first", self.message(signature=bytes(64), ops=[], refs=b"")

    def bad_ops_hash(self) -> Cases:
        ops = list(self.valid.ops)
        yield "an op changed", self.message(ops=[_flipped(ops[0]), *ops[1:]])
        yield "an op left out", self.message(ops=ops[:-1])
        yield "all ops left out", self.message(ops=[])
        yield "an op put in", self.message(ops=[*ops, encode_op(b"fourth")])
        yield "an empty op put in", self.message(ops=[*ops, b""])
        yield "ops in another order", self.message(ops=ops[::-1])
        yield "two ops joined to one", self.message(ops=[ops[0] + ops[1], ops[2]])
        yield "a count too high, rightly signed", self.signed(ops_count=4)
        yield "a count of 0, rightly signed", self.signed(ops_count=0)
        yield "ops linked from zeros, rightly signed", self.signed(ops_hash=rolling_hash(NO_PREVIOUS, ops))
        yield "no refs either: the ops are judged first", self.message(ops=ops[:-1], refs=b"")

    def bad_refs(self) -> Cases:
        one, other = (ref.encode() for ref in sorted(self.two_refs()))
        more = [Ref(KEYS["alice"].public, at, bytes(32)) for at in range(1, len(NAMES) + 2)]
        yield "a ref left out", self.message(refs=one)
        yield "all refs left out", self.message(refs=b"")
        yield "a ref put in", self.message(refs=self.valid.refs + Ref(b"\xff" * 32, 1, bytes(32)).encode())
        yield "a bit of a ref flipped", self.message(refs=_flipped(self.valid.refs))
        yield "a wrong hash, rightly signed", self.signed(refs_hash=bytes(32))
        yield "no refs and a hash of zeros, rightly signed", self.signed(refs_hash=bytes(32), refs=b"")
        yield "not sorted, rightly signed", self.signed_refs(other + one)
        yield "repeated, rightly signed", self.signed_refs(one + one)
        yield "to its own author, rightly signed", self.signed_refs(Ref(self.key.public, 1, bytes(32)).encode())
        yield "to index 0, rightly signed", self.signed_refs(Ref(KEYS["alice"].public, 0, bytes(32)).encode())
        yield "one more than peers, rightly signed", self.signed_refs(encode_refs(more))

    def two_refs(self) -> list[Ref]:
        return decode_refs(self.valid.refs)

    def head(self, **changes: Any) -> bytes:
        return self.valid.head._replace(**changes).encode()

    def message(self, **changes: Any) -> bytes:
        """The valid record with parts of it changed and nothing signed anew."""
        valid = self.valid
        parts = {"head": valid.head_bytes, "signature": valid.signature, "ops": valid.ops, "refs": valid.refs}
        return wire_pb2.Segment(**{**parts, **changes}).SerializeToString()

    def signed(self, key: SigningKey | None = None, **changes: Any) -> bytes:
        """The valid record with parts of it and of its head changed, and signed as it stands then."""
        key = key or self.key
        parts = {name: changes.pop(name) for name in ("ops", "refs") if name in changes}
        head = self.valid.head._replace(**{"author": key.public, **changes})
        return seal(key, head, self.valid.ops, self.valid.refs)._replace(**parts).encode()

    def signed_ops(self, ops: list[bytes], **changes: Any) -> bytes:
        ops_hash = rolling_hash(self.valid.head.previous, ops)
        return self.signed(ops=ops, ops_count=len(ops), ops_hash=ops_hash, **changes)

    def signed_refs(self, refs: bytes) -> bytes:
        return self.signed(refs=refs, refs_hash=sha256(refs).digest())

    def odd_signature(self, nonce: int, small: bytes) -> bytes:
        """Of the valid head, with R = nonce·B + `small`: right only for those who multiply by the cofactor."""
        digest = sha512(SEEDS["bob"]).digest()
        scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | 1 << 254
        point = nacl.bindings.crypto_scalarmult_ed25519_base_noclamp(nonce.to_bytes(32, "little")) if nonce else NEUTRAL
        point = nacl.bindings.crypto_core_ed25519_add(point, small)
        signed = point + self.key.public + b"quorumscope.sign.v1\0" + self.valid.head_bytes
        challenge = int.from_bytes(sha512(signed).digest(), "little")
        return bytes(point + ((nonce + challenge * scalar) % GROUP_ORDER).to_bytes(32, "little"))

    def first(self) -> bytes:
        ops_hash = rolling_hash(NO_PREVIOUS, self.valid.ops)
        return self.signed(index=1, previous=NO_PREVIOUS, ops_hash=ops_hash)


CLOCK = Parameters(16, 2)
"""Of the vectors, so small that a stamp can be read."""
ENTITY = b"menu"
STORY = (
    ("a", "alice", "", b"soup"),
    ("b", "bob", "a", b"bread"),
    ("c", "carol", "b", b"no soup"),
    ("e", "dave", "b", b""),
    ("d", "carol", "c", b"salad"),
    ("f", "alice", "d e", b"salad, and soup"),
    ("g", "bob", "f", b"wine"),
    ("h", "dave", "a", b"butter"),
    ("i", "bob", "", b"another menu"),
    ("j", "alice", "b h", b"bread and butter"),
)
"""Events: a label, the author, the parents and the change. From b on there is a fork that f joins."""
VERSIONS = ("", "a", "b", "d", "e", "d e", "f", "g", "h", "g h", "g h i", "j", "g i j")


def updates() -> dict[str, Any]:
    made, ids = Entity(CLOCK), dict[str, bytes]()
    events = []
    for label, name, parents, change in STORY:
        update = Update(ENTITY, _sorted_ids(ids, parents), change)
        ids[label] = event_id(SWARM, KEYS[name].public, update)
        made.add(ids[label], update.parents)
        version = made.version_of([ids[label]])
        update = update._replace(stamp=encode_clock(version.stamp), digest=version.digest)
        events.append(
            {
                "event": label,
                "author": KEYS[name].public.hex(),
                "parents": [parent.hex() for parent in update.parents],
                "change": change.hex(),
                "id": ids[label].hex(),
                "indices": list(indices(ids[label], CLOCK)),
                "op": encode_update(update).hex(),
            }
        )
    return {
        "about": "ops with updates; the events of one entity; versions of it, with their order, counters and digest",
        "swarm": SWARM.hex(),
        "entity": ENTITY.hex(),
        "clock": CLOCK._asdict(),
        "ops": [{"how": how, "op": op.hex(), **_what_it_carries(op)} for how, op in _update_ops()],
        "events": events,
        "versions": [_version(made.version_of(_sorted_ids(ids, tips)), tips) for tips in VERSIONS],
        "worked": {"of": "d e", "nodes": [{"node": name, "hash": node.hex()} for name, node in _worked(ids).items()]},
    }


def _sorted_ids(ids: dict[str, bytes], labels: str) -> tuple[bytes, ...]:
    return tuple(sorted(ids[label] for label in labels.split()))


def _version(version: Version, tips: str) -> dict[str, Any]:
    return {
        "of": tips,
        "sequence": [event.id.hex() for event in version.events()],
        "counters": version.stamp.counters.tolist(),
        "digest": version.digest.hex(),
    }


def _worked(ids: dict[str, bytes]) -> dict[str, bytes]:
    """All nodes of the tree of version d e, by hand: the run 0 a b and a group, with the branches e and c d."""

    def node(kind: int, *parts: bytes) -> bytes:
        return sha256(bytes([kind]) + b"".join(parts)).digest()

    def at(position: int) -> bytes:
        return position.to_bytes(8)

    made = {label: node(0, at(position), ids[label]) for label, position in zip("abecd", (1, 2, 3, 3, 4), strict=True)}
    made = {"beginning": node(0, at(0), bytes(32)), **made}
    made["c d"] = node(1, made["c"], made["d"])
    made["branch e"] = node(3, ids["e"], made["e"])
    made["branch c d"] = node(3, ids["c"], made["c d"])
    made["group"] = node(2, at(3), node(1, made["branch e"], made["branch c d"]))
    made["positions 0 and 1"] = node(1, made["beginning"], made["a"])
    made["positions 2 and 3"] = node(1, made["b"], made["group"])
    made["root"] = node(1, made["positions 0 and 1"], made["positions 2 and 3"])
    return made


def _what_it_carries(op: bytes) -> dict[str, Any]:
    update = decode_update(op)
    if not isinstance(update, Update):
        return {"carries": "nothing" if update is None else "malformed"}
    return {
        "carries": "update",
        "entity": update.entity.hex(),
        "parents": [parent.hex() for parent in update.parents],
        "change": None if update.change is None else update.change.hex(),
        "stamp": update.stamp.hex(),
        "digest": update.digest.hex(),
    }


def _update_ops() -> Iterator[tuple[str, bytes]]:
    def op(**fields: Any) -> bytes:
        return wire_pb2.Op(update=wire_pb2.Update(**fields)).SerializeToString()

    first, second = sha256(b"first").digest(), sha256(b"second").digest()
    whole = op(entity=ENTITY, parents=sorted((first, second)), change=b"soup", stamp=b"stamp", digest=first)
    data = encode_op(b"data")
    yield "an event with claims", whole
    yield "an event with an empty change", op(entity=ENTITY, change=b"")
    yield "a statement of the empty version", op(entity=ENTITY)
    yield "a statement of a version by its tips", op(entity=ENTITY, parents=[first])
    yield "a statement of a version by its stamp", op(entity=ENTITY, stamp=b"stamp", digest=second)
    yield "with an origin", wire_pb2.Op(origin=b"client-7").SerializeToString() + whole
    yield "an entity of 64 bytes", op(entity=bytes(64))
    yield "data, then an update", data + whole
    yield (
        "two updates, which protobuf merges",
        op(entity=b"old", parents=[bytes(32)]) + op(entity=b"new", parents=[first]),
    )
    yield "an unknown field", whole + b"\xa2\x06\x03new"
    yield "data", data
    yield "an update, then data", whole + data
    yield "no body", wire_pb2.Op(origin=b"client-7").SerializeToString()
    yield "nothing at all", b""
    yield "no protobuf", whole[:-1]
    yield "no entity", op(change=b"soup")
    yield "an entity of 65 bytes", op(entity=bytes(65))
    yield "a parent of 31 bytes", op(entity=ENTITY, parents=[bytes(31)])
    yield "parents that are not sorted", op(entity=ENTITY, parents=sorted((first, second), reverse=True))
    yield "a parent twice", op(entity=ENTITY, parents=[first, first])
    yield "257 parents", op(entity=ENTITY, parents=[number.to_bytes(32) for number in range(257)])
    yield "a digest of 31 bytes", op(entity=ENTITY, digest=bytes(31))
    yield "a digest of 33 bytes", op(entity=ENTITY, digest=bytes(33))


def _named(ref: Ref) -> dict[str, Any]:
    return {"author": ref.author.hex(), "index": ref.index, "id": ref.id.hex()}


def _flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def _unknown_field(size: int) -> bytes:
    """A protobuf field that nobody knows, of so many bytes in all. Requires 16,388 ≤ size < 2,097,157."""
    length = size - 4
    return b"\x7a" + bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + bytes(length)


def _record(value: bytes | None) -> dict[str, Any]:
    if value is None or len(value) < 2000:
        return {"record": None if value is None else value.hex()}
    for unit in (b"\x00", b"\x1a\x02\x12\x00"):
        at = value.find(unit * 1000)
        if at >= 0:
            times = 1000
            while value.startswith(unit, at + times * len(unit)):
                times += 1
            rest = value[at + times * len(unit) :]
            return {"pieces": [[value[:at].hex(), 1], [unit.hex(), times], [rest.hex(), 1]]}
    raise ValueError(f"a record of {len(value)} bytes has no part that repeats")


def main() -> None:
    for path, text in files().items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(f"{path}: {len(text)} characters")


if __name__ == "__main__":
    main()
