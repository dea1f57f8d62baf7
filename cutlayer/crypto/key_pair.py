"""Key pair: one party's half of an agreement on secrets, one with each peer (X25519, then HKDF-SHA256).

A secret is bound to a context, to both names and to both public keys, so no secret of one pair or purpose is one of
another.

Needs: an authenticated channel for the public keys (mutual TLS); a party in the middle would hold every secret.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from cutlayer.crypto.needs import load
from cutlayer.errors import ProtocolError

KEY_BYTES = 32
X25519 = "cryptography.hazmat.primitives.asymmetric.x25519"
HASHES = "cryptography.hazmat.primitives.hashes"
HKDF = "cryptography.hazmat.primitives.kdf.hkdf"


class KeyPair:
    """Send `public` to every peer, then `agree` once. `extra` names the extra that brings cryptography."""

    def __init__(self, name: str, extra: str = "secure") -> None:
        self.name, self._extra = name, extra
        self._private: Any = load(X25519, extra).X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def agree(self, publics: Mapping[str, bytes], *context: bytes) -> dict[str, bytes]:
        """One secret per peer, bound to this context; then forget the private key."""
        if self._private is None:
            raise ProtocolError("Expected one meeting per agreement; make a new one for a new run.")
        if len({*publics.values(), self.public}) != len(publics) + 1:
            raise ProtocolError("Expected a different public key from every party, got one twice.")
        secrets = {peer: self._secret(peer, public, context) for peer, public in publics.items()}
        self._private = None
        return secrets

    def _secret(self, peer: str, public: bytes, context: tuple[bytes, ...]) -> bytes:
        if len(public) != KEY_BYTES:
            raise ProtocolError(f"Expected a public key of {KEY_BYTES} bytes from {peer}, got {len(public)}.")
        try:
            shared = self._private.exchange(load(X25519, self._extra).X25519PublicKey.from_public_bytes(public))
        except ValueError as error:  # a point of small order: everybody would know the secret
            raise ProtocolError(f"Expected a proper public key from {peer}, got one that gives no secret.") from error
        pair = sorted([(self.name.encode(), self.public), (peer.encode(), public)])
        return derive_key(shared, *context, *(part for half in pair for part in half), extra=self._extra)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A private key is never copied or written down.")

    def __repr__(self) -> str:
        return f"KeyPair({self.name})"


def derive_key(secret: bytes, *context: bytes, extra: str = "secure") -> bytes:
    """A key for one context. Its fields are joined so that no two different lists give the same bytes."""
    info = b"".join(len(part).to_bytes(4, "big") + part for part in context)
    kdf = load(HKDF, extra).HKDF(algorithm=load(HASHES, extra).SHA256(), length=KEY_BYTES, salt=None, info=info)
    key: bytes = kdf.derive(secret)
    return key
