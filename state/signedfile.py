"""Files that prove something: JSON with one spelling, and how to read the heads and bytes in them.

Bytes are lower-case hex digits. What is written here is what is read: another spelling of the same is refused, so that
one flipped bit anywhere is.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from state.head import HEAD_BYTES, Head, decode_head, head_id, is_head_signed, is_sound
from state.segment import Ref
from state.signing import SIGNATURE_BYTES

_F = TypeVar("_F")


class ProofError(ValueError):
    """The file cannot be made, or proves nothing; the message says where and why, in one sentence."""


class SignedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    head: str
    signature: str


class ReadHead(NamedTuple):
    """A head out of a file, with its id computed anew."""

    head: Head
    id: bytes

    @property
    def ref(self) -> Ref:
        return Ref(self.head.author, self.head.index, self.id)


def encode_file(content: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def decode_file(encoded: bytes, decoder: msgspec.json.Decoder[_F], bytes_max: int, what: str) -> _F:
    """Read a file; ProofError if it is not `what` it should be, or spelled in another way than `encode_file` does."""
    if len(encoded) > bytes_max:
        raise ProofError(f"the file: expected at most {bytes_max} bytes, got more")
    try:
        content = decoder.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProofError(f"the file: expected {what}, got something else ({error})") from None
    canonical = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    if canonical != encoded:
        at = next((i for i, (a, b) in enumerate(zip(canonical, encoded, strict=False)) if a != b), len(canonical))
        raise ProofError(f"byte {at} of the file: expected the one spelling of this, got another")
    return content


def read_head(text: str, where: str) -> ReadHead:
    encoded = read_hex(text, where, HEAD_BYTES)
    head = decode_head(encoded)
    if not is_sound(head):
        raise ProofError(f"{where}: expected a head of version 1 with a sound index, got another")
    return ReadHead(head, head_id(encoded))


def read_signed_head(signed: SignedHead, where: str) -> ReadHead:
    read = read_head(signed.head, f"{where}.head")
    signature = read_hex(signed.signature, f"{where}.signature", SIGNATURE_BYTES)
    if not is_head_signed(read.head.encode(), signature, read.head.author):
        raise ProofError(f"{where}.signature: expected a signature by {read.head.author.hex()} over the head, got none")
    return read


def read_hex(text: str, where: str, size: int | None = None) -> bytes:
    """Lower-case hex digits only: an upper-case one is another bit in the file."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = None
    if value is None or value.hex() != text or size not in (None, len(value)):
        digits = "lower-case hex digits" if size is None else f"{2 * size} lower-case hex digits"
        raise ProofError(f"{where}: expected {digits}, got {len(text)} other characters")
    return value


def read_hexes(texts: Sequence[str], where: str) -> list[bytes]:
    return [read_hex(text, f"{where}[{at}]") for at, text in enumerate(texts)]
