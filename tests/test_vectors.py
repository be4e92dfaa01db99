"""The test vectors, read by code that shares nothing with ours: what a peer in another language would compute.

The first half of this module is that other implementation, from docs/wire-format.md, with a decoder of protobuf of its
own. The order and the digest of a version are in tests/entitylab.py, which shares nothing with ours either. Every
vector is computed by it, and by `state`, and both must give what the file says.
"""

import json
import re
import struct
from hashlib import sha256, shake_128
from pathlib import Path
from typing import Any

import pytest
from grpc_tools import protoc
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey as NaclSigningKey
from nacl.signing import VerifyKey

from state import merkle
from state.bloom import Parameters
from state.clockcode import decode_clock
from state.entity import Entity
from state.head import Head, decode_head, head_id, is_head_signed, sign_head
from state.segment import Reason, Ref, Segment, decode_refs, encode_op, encode_refs, judge, rolling_hash
from state.signing import SigningKey, is_fit_key
from state.update import Malformed, Update, decode_update, encode_update, event_id
from tests import make_vectors
from tests.entitylab import digest, sequence

ROOT = Path(__file__).parent.parent
LAYOUT = ">II32s32sQ32sQI32s32s32s"
FIELDS = ("version", "flags", "swarm", "author", "index", "previous", "time_ms", "ops_count")
FIELDS += ("ops_hash", "refs_hash", "root")


def load(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "tests" / "vectors" / f"{name}.json").read_text(encoding="utf-8"))


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


# The other implementation


class NotProtobufError(Exception):
    pass


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise NotProtobufError
        value |= (content[at] & 127) << shift
        shift += 7
        at += 1
        if content[at - 1] < 128:
            return value, at


def read_fields(content: bytes) -> list[tuple[int, bytes]]:
    """The length-delimited fields of a message, in their order; others are skipped."""
    at, fields = 0, []
    while at < len(content):
        tag, at = read_varint(content, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise NotProtobufError
        if kind == 2:
            size, at = read_varint(content, at)
            fields.append((number, content[at : at + size]))
        elif kind == 0:
            _, at = read_varint(content, at)
            size = 0
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise NotProtobufError
        at += size
        if at > len(content):
            raise NotProtobufError
    return fields


def write_field(number: int, content: bytes) -> bytes:
    size, encoded = len(content), bytes([number << 3 | 2])
    while size > 127:
        encoded += bytes([size & 127 | 128])
        size >>= 7
    return encoded + bytes([size]) + content


def write_record(head: bytes, signature: bytes, ops: list[bytes], refs: bytes) -> bytes:
    fields = [(1, head), (2, signature), *((3, op) for op in ops)] + ([(4, refs)] if refs else [])
    return b"".join(write_field(number, content) for number, content in fields)


def write_op(data: bytes, origin: bytes) -> bytes:
    return (write_field(1, origin) if origin else b"") + write_field(2, data)


def read_update(op: bytes) -> Any:
    """The fields of the update in an op; "malformed", or None if there is none."""
    body = None
    try:
        for number, content in read_fields(op):
            if number in (2, 3):
                # Of several bodies the last counts, but updates in a row are read like one message.
                body = None if number == 2 else (body or b"") + content
        fields = None if body is None else read_fields(body)
    except NotProtobufError:
        return None
    if fields is None:
        return None
    last = dict(fields)
    entity, change, stamp, claimed = last.get(1, b""), last.get(3), last.get(4, b""), last.get(5, b"")
    parents = tuple(content for number, content in fields if number == 2)
    is_fit = 1 <= len(entity) <= 64 and len(parents) <= 256 and {len(parent) for parent in parents} <= {32}
    is_fit = is_fit and list(parents) == sorted(set(parents)) and len(claimed) in (0, 32)
    return (entity, parents, change, stamp, claimed) if is_fit else "malformed"


def name_event(swarm: bytes, author: bytes, entity: bytes, parents: tuple[bytes, ...], change: bytes) -> bytes:
    counts = struct.pack(">B", len(entity)) + entity + struct.pack(">H", len(parents))
    return sha256(b"quorumscope.event.v1\0" + swarm + author + counts + b"".join(parents) + change).digest()


def clock_indices(event: bytes) -> list[int]:
    counters, hashes = UPDATES["clock"]["counters"], UPDATES["clock"]["hashes"]
    prefix = b"quorumscope.bloom.v1\0" + struct.pack(">IB", counters, hashes)
    words = struct.unpack(f">{hashes}Q", shake_128(prefix + event).digest(8 * hashes))
    return [word % counters for word in words]


def raised(events: list[str]) -> list[int]:
    """The stamp of the version with these events: of each counter the most that one way to them raises it."""

    def stamp(event: str) -> list[int]:
        below = raised(EVENTS[event]["parents"])
        return [count + clock_indices(unhex(event)).count(at) for at, count in enumerate(below)]

    empty = [0] * UPDATES["clock"]["counters"]
    return [max(counts) for counts in zip(empty, *map(stamp, events), strict=True)]


def graph_below(tips: list[str]) -> dict[bytes, list[bytes]]:
    """These events and all that they build on, with the parents of each, in an order in which these come first."""
    graph: dict[bytes, list[bytes]] = {}
    for tip in tips:
        graph |= graph_below(EVENTS[tip]["parents"])
        graph[unhex(tip)] = [unhex(parent) for parent in EVENTS[tip]["parents"]]
    return graph


def link(previous: bytes, ops: list[bytes]) -> list[bytes]:
    links = [previous]
    for op in ops:
        links.append(sha256(links[-1] + op).digest())
    return links


def write_refs(refs: list[dict[str, Any]]) -> bytes:
    rows = [unhex(ref["author"]) + struct.pack(">Q", ref["index"]) + unhex(ref["id"]) for ref in refs]
    return b"".join(sorted(rows))


def id_of(head: bytes) -> bytes:
    return sha256(b"quorumscope.head.v1\x00" + head).digest()


def tree_hash(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word by word."""
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while 2 * split < len(leaves):
        split *= 2
    return sha256(b"\x01" + tree_hash(leaves[:split]) + tree_hash(leaves[split:])).digest()


def audit_path(leaves: list[bytes], at: int) -> list[bytes]:
    """RFC 6962, section 2.1.1, word by word."""
    if len(leaves) == 1:
        return []
    split = 1
    while 2 * split < len(leaves):
        split *= 2
    if at < split:
        return [*audit_path(leaves[:split], at), tree_hash(leaves[split:])]
    return [*audit_path(leaves[split:], at - split), tree_hash(leaves[:split])]


def verifies(signature: bytes, head: bytes, author: bytes) -> bool:
    try:
        VerifyKey(author).verify(b"quorumscope.sign.v1\x00" + head, signature)
    except BadSignatureError:
        return False
    return True


def reason_for(record: bytes | None, swarm: bytes, roster: set[bytes], refs_max: int) -> str | None:
    """The reasons for rejection, in the order of docs/wire-format.md."""
    if record is not None and len(record) > 1_048_576:
        return "too_large"
    try:
        fields = read_fields(record or b"")
    except NotProtobufError:
        return "malformed"
    last = dict(fields)
    head, signature, refs = (last.get(number, b"") for number in (1, 2, 4))
    ops = [content for number, content in fields if number == 3]
    if len(head) != 220 or len(signature) != 64 or len(refs) % 72:
        return "malformed"
    said = dict(zip(FIELDS, struct.unpack(LAYOUT, head), strict=True))
    if said["version"] != 1 or said["flags"] != 0 or said["index"] == 0:
        return "malformed"
    if (said["index"] == 1) != (said["previous"] == bytes(32)):
        return "malformed"
    if len(ops) > 4096 or any(len(op) > 65_536 for op in ops):
        return "too_large"
    if said["swarm"] != swarm:
        return "unknown_swarm"
    if said["author"] not in roster:
        return "unknown_author"
    if not verifies(signature, head, said["author"]):
        return "bad_signature"
    if said["ops_count"] != len(ops) or said["ops_hash"] != link(said["previous"], ops)[-1]:
        return "bad_ops_hash"
    rows = [refs[at : at + 72] for at in range(0, len(refs), 72)]
    right = rows == sorted(set(rows)) and len(rows) <= refs_max and sha256(refs).digest() == said["refs_hash"]
    if not right or any(row[:32] == said["author"] or row[32:40] == bytes(8) for row in rows):
        return "bad_refs"
    return None


# The vectors


def test_the_files_are_current() -> None:
    stale = [path for path, text in make_vectors.files().items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert stale == [], "run python -m tests.make_vectors; a change to a vector is a change of the wire format"


def test_the_generated_code_is_that_of_the_schema(tmp_path: Path) -> None:
    source, made = ROOT / "state", str(tmp_path)
    assert protoc.main(["protoc", f"-I{source}", f"--python_out={made}", f"--pyi_out={made}", "wire.proto"]) == 0
    for name in ("wire_pb2.py", "wire_pb2.pyi"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (source / name).read_text(encoding="utf-8"), name


def murmur2(key: bytes) -> int:
    """The hash of Kafka's default partitioner, after its Java source."""
    mixer, mask = 0x5BD1E995, 0xFFFFFFFF
    state = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        mixed = word * mixer & mask
        state = (state * mixer & mask) ^ ((mixed ^ mixed >> 24) * mixer & mask)
    if whole < len(key):
        state = (state ^ int.from_bytes(key[whole:], "little")) * mixer & mask
    state = (state ^ state >> 13) * mixer & mask
    return state ^ state >> 15


@pytest.mark.parametrize("key", load("keys")["fit"], ids=lambda key: key["name"])
def test_a_seed_gives_its_public_key_and_its_partition(key: dict[str, Any]) -> None:
    seed, public = unhex(key["seed"]), unhex(key["public"])
    assert bytes(NaclSigningKey(seed).verify_key) == public
    assert SigningKey(seed).public == public
    assert is_fit_key(public)
    for count, partition in key["partitions"].items():
        assert (murmur2(public) & 0x7FFFFFFF) % int(count) == partition


@pytest.mark.parametrize("key", load("keys")["unfit"], ids=lambda key: key["how"])
def test_a_key_that_is_not_one_persons_alone_is_unfit(key: dict[str, Any]) -> None:
    assert not is_fit_key(unhex(key["public"]))


@pytest.mark.parametrize("op", load("ops")["ops"], ids=lambda op: op["data"][:16] or "empty")
def test_an_op_has_its_encoding(op: dict[str, Any]) -> None:
    data, origin, encoded = unhex(op["data"]), unhex(op["origin"]), unhex(op["encoded"])
    assert write_op(data, origin) == encoded
    assert encode_op(data, origin) == encoded
    assert dict(read_fields(encoded)) == ({1: origin} if origin else {}) | {2: data}


@pytest.mark.parametrize("chain", load("ops")["chains"])
def test_the_rolling_hash_links_each_op_to_all_before_it(chain: dict[str, Any]) -> None:
    previous, ops = unhex(chain["previous"]), [unhex(op) for op in chain["ops"]]
    links = link(previous, ops)
    assert [step.hex() for step in links[1:]] == chain["hashes"]
    assert links[-1].hex() == chain["ops_hash"]
    assert rolling_hash(previous, ops) == links[-1]


@pytest.mark.parametrize("vector", load("heads")["heads"], ids=lambda vector: str(vector["fields"]["index"]))
def test_a_head_has_its_bytes_its_id_and_its_signature(vector: dict[str, Any]) -> None:
    values = [value if isinstance(value, int) else unhex(value) for value in vector["fields"].values()]
    head, signature, seed = unhex(vector["head"]), unhex(vector["signature"]), unhex(vector["seed"])
    assert tuple(vector["fields"]) == FIELDS
    assert struct.pack(LAYOUT, *values) == head
    assert len(head) == 220
    assert id_of(head).hex() == vector["id"]
    assert NaclSigningKey(seed).sign(b"quorumscope.sign.v1\x00" + head).signature == signature
    assert verifies(signature, head, values[3])
    assert Head(*values).encode() == head
    assert decode_head(head) == Head(*values)
    assert head_id(head).hex() == vector["id"]
    assert sign_head(head, SigningKey(seed)) == signature
    assert is_head_signed(head, signature, values[3])


@pytest.mark.parametrize("vector", load("refs")["refs"], ids=lambda vector: str(len(vector["refs"])))
def test_refs_have_their_encoding_and_their_hash(vector: dict[str, Any]) -> None:
    encoded = write_refs(vector["refs"])
    refs = [Ref(unhex(ref["author"]), ref["index"], unhex(ref["id"])) for ref in vector["refs"]]
    assert encoded.hex() == vector["encoded"]
    assert sha256(encoded).hexdigest() == vector["refs_hash"]
    assert encode_refs(refs) == encoded
    assert decode_refs(encoded) == sorted(refs)


@pytest.mark.parametrize("tree", load("merkle")["trees"], ids=lambda tree: str(tree["size"]))
def test_a_tree_has_its_root_and_its_paths(tree: dict[str, Any]) -> None:
    leaves = [unhex(leaf) for leaf in load("merkle")["leaves"]][: tree["size"]]
    assert tree_hash(leaves).hex() == tree["root"]
    assert merkle.root(leaves).hex() == tree["root"]
    for at, path in enumerate(tree["paths"]):
        assert [node.hex() for node in audit_path(leaves, at)] == path
        assert [node.hex() for node in merkle.path(leaves, at)] == path


SEGMENTS = load("segments")


@pytest.mark.parametrize("told", SEGMENTS["segments"], ids=lambda told: told["title"])
def test_a_segment_is_made_of_its_parts(told: dict[str, Any]) -> None:
    author = unhex(SEGMENTS["roster"][told["title"].split(maxsplit=1)[0]])
    previous, ops, refs = unhex(told["previous"]), [unhex(op) for op in told["ops"]], write_refs(told["refs"])
    lines = [unhex(line["line"]) for line in told["lines"]]
    before = (1, 0, unhex(SEGMENTS["swarm"]), author, told["index"], previous, told["time_ms"], len(ops))
    head = struct.pack(LAYOUT, *before, link(previous, ops)[-1], sha256(refs).digest(), unhex(told["root"]))
    signature = unhex(told["signature"])
    assert head.hex() == told["head"]
    assert id_of(head).hex() == told["id"]
    assert verifies(signature, head, author)
    assert write_record(head, signature, ops, refs).hex() == told["record"]
    assert lines == sorted(lines)
    assert tree_hash(lines).hex() == told["root"]
    assert [[node.hex() for node in audit_path(lines, at)] for at in range(len(lines))] == [
        line["path"] for line in told["lines"]
    ]
    segment = judge(
        unhex(told["record"]), {unhex(SEGMENTS["swarm"]): frozenset(map(unhex, SEGMENTS["roster"].values()))}
    )
    assert isinstance(segment, Segment)
    assert segment.id.hex() == told["id"]
    assert segment.encode().hex() == told["record"]


class Noop:
    """A noop of the story by what it says, for the plain definitions below."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.id, self.index, self.previous = told["id"], told["index"], told["previous"]
        self.author = told["head"][80:144]
        self.parents = [ref["id"] for ref in told["refs"]] + [self.previous] * (self.index > 1)
        self.lines = {line["line"] for line in told["lines"]}
        self.lies = "again" in told["title"]


def test_the_lines_of_a_root_are_what_its_noop_endorses() -> None:
    """A noop endorses x if it covers x and nothing that it covers conflicts with x: by search over the whole story."""
    noops = {told["id"]: Noop(told) for told in SEGMENTS["segments"]}

    def reached(start: str, parents: Any) -> set[str]:
        seen, stack = set(), [start]
        while stack:
            now = stack.pop()
            if now in noops and now not in seen:
                seen.add(now)
                stack += parents(noops[now])
        return seen

    def log_of(noop_id: str) -> set[str]:
        return reached(noop_id, lambda noop: [noop.previous])

    for noop in noops.values():
        if noop.lies:
            continue
        past = reached(noop.id, lambda other: other.parents)
        lines = set()
        for author in {other.author for other in noops.values()} - {noop.author}:
            held = [other for other in past if noops[other].author == author]
            endorsed = [one for one in held if all(one in log_of(other) or other in log_of(one) for other in held)]
            if endorsed:
                newest = max(endorsed, key=lambda one: noops[one].index)
                lines.add(author + struct.pack(">Q", noops[newest].index).hex() + newest)
        assert noop.lines == lines


RECORDS = load("records")


def record_of(vector: dict[str, Any]) -> bytes | None:
    if "pieces" in vector:
        return b"".join(unhex(piece) * times for piece, times in vector["pieces"])
    return None if vector["record"] is None else unhex(vector["record"])


@pytest.mark.parametrize("vector", RECORDS["records"], ids=lambda v: f"{v['reason']}: {v['how']}")
def test_a_record_is_rejected_for_its_reason(vector: dict[str, Any]) -> None:
    swarm, roster = unhex(RECORDS["swarm"]), {unhex(key) for key in RECORDS["roster"].values()}
    record = record_of(vector)
    assert reason_for(record, swarm, roster, RECORDS["refs_max"]) == vector["reason"]
    judged = judge(record, {swarm: frozenset(roster)})
    assert (None if isinstance(judged, Segment) else str(judged)) == vector["reason"]


def test_every_reason_is_there_in_several_ways_and_each_record_once() -> None:
    count = {reason: sum(v["reason"] == reason for v in RECORDS["records"]) for reason in [None, *Reason]}
    assert all(number >= 4 for number in count.values()), count
    values = [record_of(vector) for vector in RECORDS["records"]]
    assert len(set(values)) == len(values)
    assert record_of(RECORDS["records"][0]) == unhex(RECORDS["valid"])


UPDATES = load("updates")
EVENTS = {event["id"]: event for event in UPDATES["events"]}
LABELS = {event["event"]: event["id"] for event in UPDATES["events"]}


@pytest.mark.parametrize("vector", UPDATES["ops"], ids=lambda v: f"{v['carries']}: {v['how']}")
def test_an_op_carries_an_update_or_none_or_one_that_is_malformed(vector: dict[str, Any]) -> None:
    want: Any = None
    if vector["carries"] == "malformed":
        want = "malformed"
    elif vector["carries"] == "update":
        change = None if vector["change"] is None else unhex(vector["change"])
        parents = tuple(unhex(parent) for parent in vector["parents"])
        want = (unhex(vector["entity"]), parents, change, unhex(vector["stamp"]), unhex(vector["digest"]))
    assert read_update(unhex(vector["op"])) == want
    decoded = decode_update(unhex(vector["op"]))
    assert ("malformed" if isinstance(decoded, Malformed) else decoded) == want


@pytest.mark.parametrize("vector", UPDATES["events"], ids=lambda v: v["event"])
def test_the_id_the_indices_and_the_claims_of_an_event_are_computed(vector: dict[str, Any]) -> None:
    swarm, author, op = unhex(UPDATES["swarm"]), unhex(vector["author"]), unhex(vector["op"])
    entity, parents, change, stamp, claimed = read_update(op)
    assert (entity, change) == (unhex(UPDATES["entity"]), unhex(vector["change"]))
    assert [parent.hex() for parent in parents] == vector["parents"]
    event = unhex(vector["id"])
    assert name_event(swarm, author, entity, parents, change) == event
    assert event_id(swarm, author, Update(entity, parents, change)) == event
    assert clock_indices(event) == vector["indices"]
    assert claimed == digest(graph_below([vector["id"]]))
    assert decode_clock(stamp).counters.tolist() == raised([vector["id"]])
    assert encode_update(Update(entity, parents, change, stamp, claimed)) == op


@pytest.mark.parametrize("vector", UPDATES["versions"], ids=lambda v: v["of"] or "empty")
def test_the_order_the_stamp_and_the_digest_of_a_version_are_computed(vector: dict[str, Any]) -> None:
    tips = [LABELS[label] for label in vector["of"].split()]
    graph = graph_below(tips)
    assert [event.hex() for event in sequence(graph)] == vector["sequence"]
    assert raised(tips) == vector["counters"]
    assert digest(graph).hex() == vector["digest"]
    made = Entity(Parameters(**UPDATES["clock"]))
    for event, parents in graph.items():
        made.add(event, parents)
    assert [event.hex() for event in made.sequence()] == vector["sequence"]
    assert made.version.digest.hex() == vector["digest"]
    assert made.version.stamp.counters.tolist() == vector["counters"]


def test_the_worked_example_of_a_digest_leads_to_the_digest_of_its_version() -> None:
    (version,) = (version for version in UPDATES["versions"] if version["of"] == UPDATES["worked"]["of"])
    hashes = [node["hash"] for node in UPDATES["worked"]["nodes"]]
    assert len(set(hashes)) == len(hashes) == 13
    assert sha256(b"quorumscope.version.v1\0" + unhex(hashes[-1])).hexdigest() == version["digest"]


def test_every_long_value_in_the_document_stands_in_the_vectors() -> None:
    """Values of a worked example that were not computed would teach a wrong format."""
    text = (ROOT / "docs" / "wire-format.md").read_text(encoding="utf-8")
    vectors = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "vectors").glob("*.json")))
    values = re.findall(r"\b[0-9a-f]{64,}\b", text)
    assert len(values) > 10
    assert [value for value in values if value not in vectors] == []
    for domain in (b"quorumscope.%s.v1\0" % name for name in (b"head", b"sign", b"event", b"version")):
        assert f"`{domain.hex()}`" in text
