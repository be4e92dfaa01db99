"""The evidence against a peer as a file to download: the same bytes that `quorumscope evidence` writes.

It is checked before it is given: what a verdict says is not proved by a verdict.
"""

from http import HTTPStatus

from dashboards.board import Board
from dashboards.site import Response, text_response
from state.config import Config, Swarm
from state.evidence import check_evidence, find_evidence
from state.signedfile import ProofError
from state.verdict import Equivocation, Fork

CHECKED_MAX = 16
"""Verdicts about a peer that are tried: each costs two checks of signatures, and the first one does unless someone
else than the monitor writes verdicts."""


def evidence_path(swarm: Swarm, author: str) -> str | None:
    """Where the evidence against a key is served; None for keys that were never in the roster."""
    peer = _peer_name(swarm, author)
    return None if peer is None else f"/evidence/{swarm.name}/{peer}"


def evidence_name(swarm: Swarm, author: str) -> str:
    """The name of the file. Names of swarms and peers are plain words, so it needs no quoting anywhere."""
    return f"evidence-{swarm.name}-{_peer_name(swarm, author)}.json"


def evidence_response(board: Board, swarm_name: str, peer_name: str) -> Response:
    """The file, or a sentence that says why there is none."""
    swarm = next((swarm for swarm in board.config.swarms if swarm.name == swarm_name), None)
    author = swarm.author(peer_name) if swarm else None
    if swarm is None or author is None:
        return text_response(HTTPStatus.NOT_FOUND, "There is no such peer in the configuration.")
    watch = board.watches[swarm.id]
    with board.lock:
        lies: list[Equivocation | Fork] = [one.verdict for one in watch.findings.of(Equivocation, author.hex())]
        lies += [one.verdict for one in watch.findings.of(Fork, author.hex())]
    for lie in lies[:CHECKED_MAX]:
        encoded = find_evidence([lie], author.hex())
        if encoded is not None and _proves(encoded, board.config, author):
            disposition = f'attachment; filename="{evidence_name(swarm, author.hex())}"'
            return Response(HTTPStatus.OK, encoded, "application/json", (("Content-Disposition", disposition),))
    reason = "what its verdicts hold proves nothing" if lies else "no fork of its log has been found"
    return text_response(HTTPStatus.NOT_FOUND, f"There is no evidence against {peer_name}: {reason}.")


def _proves(encoded: bytes, config: Config, author: bytes) -> bool:
    try:
        return check_evidence(encoded, config).author == author
    except ProofError:
        return False


def _peer_name(swarm: Swarm, author: str) -> str | None:
    """What a key is called in an address: by its name, or by its digits if a newer key has the name."""
    name = next((name for key, name in swarm.authors.items() if key.hex() == author), None)
    key = swarm.author(name) if name else None
    return name if key is not None and key.hex() == author else name and author
