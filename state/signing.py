"""Ed25519: keys, signatures, and which public keys are fit for a roster."""

import nacl.bindings
import nacl.exceptions

KEY_BYTES = nacl.bindings.crypto_sign_PUBLICKEYBYTES
SEED_BYTES = nacl.bindings.crypto_sign_SEEDBYTES
SIGNATURE_BYTES = nacl.bindings.crypto_sign_BYTES


class SigningKey:
    """A secret key made from a 32-byte seed. Its text form never shows the secret."""

    __slots__ = ("_secret", "public")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a signing key is made from {SEED_BYTES} bytes, got {len(seed)}")
        self.public, self._secret = nacl.bindings.crypto_sign_seed_keypair(seed)

    def sign(self, message: bytes) -> bytes:
        """The detached signature, 64 bytes; the same message always gives the same signature."""
        return nacl.bindings.crypto_sign(message, self._secret)[:SIGNATURE_BYTES]

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public.hex()})"


def is_signed(message: bytes, signature: bytes, public: bytes) -> bool:
    """Whether `signature` over `message` is valid under `public`; malleable signatures and keys are refused."""
    try:
        nacl.bindings.crypto_sign_open(signature + message, public)
    except (nacl.exceptions.BadSignatureError, ValueError):
        return False
    return True


def is_fit_key(public: bytes) -> bool:
    """Whether these bytes are a key that only one secret belongs to: a canonical point of the main subgroup.

    Under a key of small order anyone can make signatures, so such a key in a roster would sign for everybody.
    """
    return len(public) == KEY_BYTES and bool(nacl.bindings.crypto_core_ed25519_is_valid_point(public))
