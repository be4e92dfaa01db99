"""The commands about proofs: `evidence` reads the verdicts, `prove` and `explain` the segments, `verify` only files."""

import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from state.config import Config, ConfigError, Swarm
from state.connection import Connection
from state.evidence import FORMAT as EVIDENCE_FORMAT
from state.evidence import check_evidence, find_evidence
from state.explain import explain as explain_noop
from state.fold import Topic
from state.history import History
from state.proof import check_proof
from state.prooffile import PROOF_BYTES_MAX
from state.prove import make_accepted, make_known
from state.segment import Segment
from state.signedfile import ProofError
from streaming.bar import reading_progress
from streaming.options import Bootstrap, KafkaFile, Prefix, Swarms, config_of, connection_of
from streaming.segments import read_segments
from streaming.topics import PREFIX_DEFAULT
from streaming.verdicts import VerdictReader

_PLACE = re.compile(r"(?P<peer>[^:/@]+):(?P<index>[0-9]{1,19})(@(?P<id>[0-9a-f]{1,64}))?(/(?P<op>[0-9]{1,9}))?")

SwarmName = Annotated[str, typer.Argument(metavar="SWARM", help="Name or id of the swarm.")]
EvidenceFiles = Annotated[
    list[Path] | None, typer.Option("--evidence", help="Evidence against a peer, which then does not count.")
]


class Place(NamedTuple):
    """What an operator means by PEER:INDEX, with the beginning of an id if the peer forked, and an op's number."""

    peer: str
    index: int  # type: ignore[assignment]  # tuple.index is not needed
    id_prefix: str
    op: int | None


def evidence(
    swarm: SwarmName,
    peer: Annotated[str, typer.Argument(help="Name or key of the peer.")],
    *,
    swarms: Swarms,
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
    out: Annotated[Path | None, typer.Option(help="Write to this file; else to standard output.")] = None,
) -> None:
    """Write the evidence that a peer signed two versions of its log, from the verdicts."""
    found = _swarm_of(config_of(swarms), swarm, swarms)
    author = found.author(peer)
    if author is None:
        raise ConfigError(f"the swarm {found.name} has no peer {peer!r}")
    with closing(VerdictReader(connection_of(bootstrap, kafka), prefix)) as reader:
        verdicts = [verdict for verdict in reader.read_to_end().values() if verdict.swarm == found.id]
    encoded = find_evidence(verdicts, author.hex())
    if encoded is None:
        raise ProofError(f"no verdict on {prefix}.{Topic.VERDICTS} accuses {peer}: there is no evidence to write")
    if out is None:
        sys.stdout.buffer.write(encoded)
    else:
        out.write_bytes(encoded)
        typer.echo(f"evidence against {peer} in {out}: check it with `quorumscope verify {out} --swarms {swarms}`")


def prove(
    swarm: SwarmName,
    place: Annotated[str, typer.Argument(metavar="PEER:INDEX[@ID][/OP]", help="The segment, or one op of it.")],
    *,
    swarms: Swarms,
    out: Annotated[Path, typer.Option(help="The file to write.")],
    rule: Annotated[str, typer.Option(help="A rule of the segment's epoch.")] = "majority",
    known: Annotated[bool, typer.Option("--known", help="Prove that it is known, not that it is accepted.")] = False,
    light: Annotated[bool, typer.Option("--light", help="For a client: leave out the ops before this one.")] = False,
    evidence: EvidenceFiles = None,
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
) -> None:
    """Write a proof that a segment, or one of its ops, is accepted by the peers of its swarm, or known to them."""
    config, wanted = config_of(swarms), parse_place(place)
    if light and wanted.op is None:
        raise ConfigError("--light leaves out the ops before one op: name the op, as in PEER:INDEX/OP")
    found = _swarm_of(config, swarm, swarms)
    forkers = _forkers(evidence, config)
    history = _read_history(connection_of(bootstrap, kafka), prefix, found)
    segment = find(history, found, wanted)
    make = make_known if known else make_accepted
    encoded = make(history, found, rule, segment.id, wanted.op, light=light, forkers=forkers)
    try:
        out.write_bytes(encoded)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error.strerror}") from None
    typer.echo(f"proof in {out}: check it with `quorumscope verify {out} --swarms {swarms}`")


def explain(
    swarm: SwarmName,
    place: Annotated[str, typer.Argument(metavar="PEER:INDEX[@ID]", help="The segment.")],
    *,
    swarms: Swarms,
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
) -> None:
    """Tell in words which peers have a segment, by which path, who is missing, and what it waits for."""
    config, wanted = config_of(swarms), parse_place(place)
    if wanted.op is not None:
        raise ConfigError(
            f"expected a segment as PEER:INDEX, got {place!r}: all ops of a segment stand and fall with it"
        )
    found = _swarm_of(config, swarm, swarms)
    history = _read_history(connection_of(bootstrap, kafka), prefix, found)
    for line in explain_noop(history, found, find(history, found, wanted).id):
        typer.echo(line)


def verify(
    file: Annotated[Path, typer.Argument(help="The proof, or the evidence.")],
    *,
    swarms: Swarms,
    evidence: EvidenceFiles = None,
) -> None:
    """Check a proof or evidence offline: no network, no trust in the monitor, only in the keys of your own file."""
    config = config_of(swarms)
    encoded = _read(file)
    forkers = _forkers(evidence, config)
    try:
        if _format_of(encoded) == EVIDENCE_FORMAT:
            sentence = check_evidence(encoded, config).sentence()
        else:
            sentence = check_proof(encoded, config, forkers).sentence()
    except ProofError as error:
        raise ProofError(f"refused: {error}") from None
    typer.echo(f"proved: {sentence}")


def parse_place(text: str) -> Place:
    """Read PEER:INDEX[@ID][/OP]; ConfigError for anything else."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise ConfigError(f"expected PEER:INDEX, PEER:INDEX/OP or PEER:INDEX@ID, such as alice:7/2, got {text!r}")
    op = match["op"]
    return Place(match["peer"], int(match["index"]), match["id"] or "", None if op is None else int(op))


def find(history: History, swarm: Swarm, place: Place) -> Segment:
    """The one segment that is meant. ConfigError if several are, and ProofError if none stands on the topic."""
    author = swarm.author(place.peer)
    if author is None:
        raise ConfigError(f"the swarm {swarm.name} has no peer {place.peer!r}")
    there = history.at(author, place.index)
    meant = [segment for segment in there if segment.id.hex().startswith(place.id_prefix)]
    if not there:
        log = history.logs.get(author)
        held = f"its segments there are {log[0].head.index} to {log[-1].head.index}" if log else "it has none there"
        raise ProofError(f"segment {place.index} of {place.peer} is not on the topic: {held}")
    if len(meant) != 1:
        versions = " or ".join(f"{place.peer}:{place.index}@{segment.id.hex()[:12]}" for segment in there)
        problem = "has several versions" if meant else f"has no version whose id begins with {place.id_prefix}"
        raise ConfigError(f"segment {place.index} of {place.peer} {problem}: say {versions}")
    return meant[0]


def _swarm_of(config: Config, name: str, path: Path) -> Swarm:
    swarm = config.swarm(name)
    if swarm is None:
        raise ConfigError(f"{path} has no swarm {name!r}: it has {', '.join(one.name for one in config.swarms)}")
    return swarm


def _read_history(connection: Connection, prefix: str, swarm: Swarm) -> History:
    with reading_progress("reading segments") as on_progress:
        reading = read_segments(connection, prefix, swarm, on_progress)
    return History(swarm.key, reading.copies, from_start=reading.from_start)


def _forkers(files: list[Path] | None, config: Config) -> frozenset[bytes]:
    """The keys that the given evidence proves to have signed two versions of a log."""
    forkers = set()
    for file in files or ():
        try:
            forkers.add(check_evidence(_read(file), config).author)
        except ProofError as error:
            raise ProofError(f"{file} refused: {error}") from None
    return frozenset(forkers)


def _read(file: Path) -> bytes:
    """A file, or as much of it as tells that it is too large."""
    try:
        with file.open("rb") as stream:
            return stream.read(PROOF_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


class _AnyFile(msgspec.Struct):
    format: str = ""


def _format_of(encoded: bytes) -> str:
    try:
        return msgspec.json.decode(encoded, type=_AnyFile).format
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
