"""Curve25519 for alignment: blind an id, multiply what is blinded, take the blind off; on all cores.

**Why unblinding is exact.** The curve's points form a group of order 8*l, l prime. Every point is P = P0 + T with
P0 of order l and T of an order that divides 8. X25519 multiplies by *clamped* scalars: multiples of 8 from 2^254 up
to 2^255. A multiple of 8 kills T, so X25519(k, u(P)) = u(k P0) whatever T was: the holder of k gets
u(k P0) from H(x) alone. The other side draws a clamped `a`, sends u(a P0), is answered u(k a P0), and multiplies by a
clamped s with s = 1/a modulo l: u(s k a P0) = u(k P0), because l P0 = 0. That u is shared by Q and -Q does
not matter: multiplication respects the sign.

**Which blinds have such an s.** By the Chinese remainder theorem there is one s modulo 8*l with s = 1/a (mod l)
and s = 0 (mod 8); as 8*l > 2^255, at most one lies in the clamped range, and about half of all `a` have one. The
others are drawn again, which costs the blind one bit of its 251.

**Why not the twist.** A random u lies on the curve or on its quadratic twist, with even odds, and stays there under
multiplication. A blinded point would show this one bit of its id, so ids are hashed to the curve only.
"""

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutlayer._validate import at_least
from cutlayer.align import kernel
from cutlayer.blocks import cores
from cutlayer.crypto.needs import load
from cutlayer.errors import ConfigError, ProtocolError

Bytes = NDArray[np.uint8]

ALONE = 5_000  # with fewer points a second process costs more than it brings
MOST_AT_ONCE = 200_000  # points in one job of another process, to bound its memory
SALT_BYTES = (16, 64)


def draw_key() -> bytes:
    """A clamped scalar, uniform."""
    return ((1 << 254) + 8 * secrets.randbits(251)).to_bytes(32, "little")


def inverse(scalar: bytes) -> bytes | None:
    """The clamped scalar that undoes this one on points of prime order, if there is one."""
    target = pow(int.from_bytes(scalar, "little"), -1, kernel.ORDER)
    lift = -target * pow(kernel.ORDER, -1, 8) % 8  # target + lift * ORDER = 0 modulo 8
    scalar_inverse = target + lift * kernel.ORDER
    return scalar_inverse.to_bytes(32, "little") if 1 << 254 <= scalar_inverse < 1 << 255 else None


def draw_blind() -> tuple[bytes, bytes]:
    """A clamped scalar and the one that undoes it."""
    while (undo := inverse(blind := draw_key())) is None:
        pass
    return blind, undo


class Curve:
    """Points of one alignment: the salt keeps ids of one federation from meeting those of another.

    Results do not depend on `processes` (all cores by default).
    """

    def __init__(self, salt: bytes, processes: int | None = None) -> None:
        least, most = SALT_BYTES
        if not least <= len(salt) <= most:
            raise ConfigError(f"Expected a salt of {least} to {most} bytes, got {len(salt)}.")
        at_least("processes", 1 if processes is None else processes, 1)
        for module in ("gmpy2", "cryptography.hazmat.primitives.asymmetric.x25519"):
            load(module, "net")
        self.salt = salt
        self.processes = processes or cores.count()

    def of_ids(self, ids: Sequence[bytes], scalar: bytes) -> Bytes:
        """scalar * H(id) for every id."""
        return self._map(ids, scalar, self.salt)

    def multiply(self, points: Bytes, scalar: bytes, sender: str) -> Bytes:
        """scalar * point for every point that a peer sent."""
        try:
            return self._map(kernel.cut(points.tobytes()), scalar, None)
        except ValueError as error:
            raise ProtocolError(f"Expected proper points from {sender}, got one of small order.") from error

    def _map(self, items: Sequence[bytes], scalar: bytes, salt: bytes | None) -> Bytes:
        count = len(items)
        if self.processes == 1 or count < ALONE:
            result = kernel.work(kernel.pack(items, scalar, salt))
        else:
            size = min(-(-count // self.processes), MOST_AT_ONCE)
            result = b"".join(
                cores.spread(
                    kernel.__name__,
                    None,
                    -(-count // size),
                    lambda job: kernel.pack(items[job * size : (job + 1) * size], scalar, salt),
                    _proper,
                    processes=self.processes,
                    doing="multiplies points",
                    instead="try processes=1",
                )
            )
        return np.frombuffer(result, np.uint8).reshape(count, kernel.POINT)


def _proper(_: int, points: bytes) -> bytes:
    if not points:
        raise ValueError("a point of small order")
    return points
