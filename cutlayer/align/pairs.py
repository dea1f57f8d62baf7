"""Shares that cancel: for an id that every feature party holds, their shares XOR to zero.

Each pair of feature parties agrees on a seed (X25519, HKDF-SHA256, bound to the salt, both names and both keys). A
party's share of an id is the XOR, over its peers, of a keyed hash of the id (BLAKE2b under the pair's seed). In the
XOR over *all* feature parties every pair's hash comes up twice and cancels. The shares of all but one of them are
independent and uniform to whoever holds no seed, so an id that one party lacks tells nothing about the others.

Needs: an authenticated channel for the public keys; one who could replace them would hold every seed.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto.needs import load
from cutlayer.errors import ProtocolError

Words = NDArray[np.uint64]

VALUE = 16  # bytes
KEY = 32
X25519 = "cryptography.hazmat.primitives.asymmetric.x25519"
HASHES = "cryptography.hazmat.primitives.hashes"
HKDF = "cryptography.hazmat.primitives.kdf.hkdf"


class Pairs:
    """One feature party's half of the agreement: send `public`, then `meet` the others."""

    def __init__(self, name: str, salt: bytes) -> None:
        self.name, self._salt = name, salt
        self._private = load(X25519, "net").X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def meet(self, publics: Mapping[str, bytes]) -> list[bytes]:
        """One seed per peer."""
        if len({*publics.values(), self.public}) != len(publics) + 1:
            raise ProtocolError("Expected a different public key from every feature party, got one twice.")
        return [self._seed(peer, key) for peer, key in sorted(publics.items())]

    def _seed(self, peer: str, key: bytes) -> bytes:
        try:
            secret = self._private.exchange(load(X25519, "net").X25519PublicKey.from_public_bytes(key))
        except ValueError as error:  # a point of small order: everybody would know the secret
            raise ProtocolError(f"Expected a proper public key from {peer}, got one that gives no secret.") from error
        pair = sorted([(self.name.encode(), self.public), (peer.encode(), key)])
        fields = [b"cutlayer align", self._salt, *(part for member in pair for part in member)]
        info = b"".join(len(part).to_bytes(4, "big") + part for part in fields)
        kdf = load(HKDF, "net").HKDF(algorithm=load(HASHES, "net").SHA256(), length=KEY, salt=None, info=info)
        seed: bytes = kdf.derive(secret)
        return seed

    def __reduce__(self) -> NoReturn:
        raise TypeError("A private key is never copied or written down.")

    def __repr__(self) -> str:
        return f"Pairs({self.name})"


def shares(ids: Sequence[bytes], seeds: Iterable[bytes]) -> Words:
    """A share of every id, 128 bits each."""
    total = np.zeros((len(ids), 2), np.uint64)
    for seed in seeds:
        hashed = b"".join([blake2b(name, key=seed, digest_size=VALUE).digest() for name in ids])
        total ^= np.frombuffer(hashed, "<u8").reshape(-1, 2)
    return total
