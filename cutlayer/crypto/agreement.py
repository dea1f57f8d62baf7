"""Masks that cancel: each pair of parties agrees on a seed, and from it derives one pseudo-random matrix per step.

One of the pair adds the matrix and the other subtracts it, so the masks of all parties sum to zero modulo t
while any one party's message looks uniform to anyone without its seeds. Nothing crosses after the keys.

Guarantee: 128 bits (X25519, HKDF-SHA256, AES-256-CTR), against anybody who does not hold a seed of the pair.
Does not hide: the sum itself; nor anything from all other parties together.
Needs: an authenticated channel for the public keys (mutual TLS); a party in the middle would hold every seed.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NoReturn

from cutlayer.crypto.key_pair import KeyPair, derive_key
from cutlayer.crypto.needs import load
from cutlayer.crypto.ring import Residues, Ring
from cutlayer.errors import ConfigError, ProtocolError

CIPHERS = "cryptography.hazmat.primitives.ciphers"


class ZeroSum:
    """One party's seeds, one per peer. Each step gives one mask, once."""

    def __init__(self, name: str, seeds: Mapping[str, bytes], ring: Ring) -> None:
        self.name, self.ring = name, ring
        self._seeds = dict(seeds)
        self._keys: dict[tuple[str, str], bytes] = {}
        self._used: set[tuple[str, int]] = set()

    def zero_sum_mask(self, step: int, shape: Sequence[int], purpose: str = "forward") -> Residues:
        """This party's mask; those of all parties for the same step, shape and purpose sum to zero modulo t.

        The same mask twice would show the difference of what it hid, so a step of a purpose can be used once.
        """
        if not 0 <= step < 1 << 63:
            raise ConfigError(f"Expected step={step} to be a number from 0 to 2^63 - 1.")
        if (purpose, step) in self._used:
            raise ProtocolError(f"Expected a new step for a {purpose} mask, got step {step} again.")
        self._used.add((purpose, step))
        streams = {peer: self.ring.from_stream(self._stream(peer, step, shape, purpose), shape) for peer in self._seeds}
        return self.ring.sum(stream if self.name < peer else -stream for peer, stream in streams.items())

    def _stream(self, peer: str, step: int, shape: Sequence[int], purpose: str) -> bytes:
        ciphers = load(CIPHERS)
        if (peer, purpose) not in self._keys:
            self._keys[peer, purpose] = derive_key(self._seeds[peer], b"mask", purpose.encode())
        nonce = step.to_bytes(8, "big") + bytes(8)  # the second half counts blocks
        cipher = ciphers.Cipher(ciphers.algorithms.AES(self._keys[peer, purpose]), ciphers.modes.CTR(nonce))
        stream: bytes = cipher.encryptor().update(bytes(prod(shape) * self.ring.bytes_each))
        return stream

    def __reduce__(self) -> NoReturn:
        raise TypeError("Seeds are never copied or written down.")

    def __repr__(self) -> str:
        return f"ZeroSum({self.name} with {', '.join(sorted(self._seeds))})"


class Agreement:
    """One party's half of the key agreement for one run: send `public`, then `meet` the others."""

    def __init__(self, name: str, run: str, ring: Ring) -> None:
        self.name, self.run, self.ring = name, run, ring
        self._keys = KeyPair(name)
        self.public = self._keys.public

    def meet(self, publics: Mapping[str, bytes]) -> ZeroSum:
        """Derive one seed per peer, bound to both names, both keys and the run; then forget the private key."""
        if not publics or self.name in publics:
            raise ConfigError(f"Expected the public keys of the peers of {self.name}, without its own.")
        context = (b"cutlayer zero-sum", self.run.encode(), str(self.ring.bits).encode())
        return ZeroSum(self.name, self._keys.agree(publics, *context), self.ring)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A private key is never copied or written down.")

    def __repr__(self) -> str:
        return f"Agreement({self.name}, run {self.run})"
