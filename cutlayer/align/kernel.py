"""Curve25519, many points at a time: ids to points, and points times a scalar. Also a program for one more core.

`curve.py` says what is computed and why. This file imports nothing of cutlayer, so that other processes start
with it in a tenth of a second (cores.py): jobs go in, 32 bytes a point come out. Secrets cross a pipe only.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate, count, pairwise

P = 2**255 - 19
A = 486662  # v^2 = u^3 + A u^2 + u
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the prime group; the curve has 8 times as many points
SMALL = (  # u of every point whose order divides 8, on the curve or on its twist
    0,
    1,
    P - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
DOMAIN = b"cutlayer align: id to point, version 1"
POINT = 32
HEAD = struct.Struct(f"<?{POINT}sII")  # are these ids, scalar, length of salt, how many


def hash_to_points(names: Iterable[bytes], salt: bytes) -> Iterator[bytes]:
    """u-coordinates of points on the curve, never on its twist: for each name the first that a counter leads to."""
    gmpy2 = import_module("gmpy2")
    mpz, legendre, prime = gmpy2.mpz, gmpy2.legendre, gmpy2.mpz(P)
    start = hashlib.sha512(DOMAIN + len(salt).to_bytes(4, "little") + salt)
    for name in names:
        for counter in count():  # each succeeds with probability 1/2
            digest = start.copy()
            digest.update(counter.to_bytes(4, "little") + name)
            u = mpz(int.from_bytes(digest.digest(), "little")) % prime
            if legendre(u * (u * u + A * u + 1) % prime, prime) == 1 and u not in SMALL:
                yield int(u).to_bytes(POINT, "little")
                break


def multiply(points: Iterable[bytes], scalar: bytes) -> bytes:
    """X25519 of every point; ValueError for one of small order."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    exchange, read = X25519PrivateKey.from_private_bytes(scalar).exchange, X25519PublicKey.from_public_bytes
    return b"".join([exchange(read(point)) for point in points])


def cut(points: bytes) -> list[bytes]:
    """Points out of one row of bytes."""
    return [points[start : start + POINT] for start in range(0, len(points), POINT)]


def pack(items: Sequence[bytes], scalar: bytes, salt: bytes | None) -> bytes:
    """A job as bytes; with a salt the items are ids, without one they are points."""
    head = HEAD.pack(salt is not None, scalar, len(salt or b""), len(items)) + (salt or b"")
    if salt is None:
        return head + b"".join(items)
    return head + struct.pack(f"<{len(items)}I", *map(len, items)) + b"".join(items)


def work(job: bytes) -> bytes:
    """Do a packed job."""
    are_ids, scalar, salt_length, items = HEAD.unpack_from(job)
    start = HEAD.size + salt_length
    salt = job[HEAD.size : start]
    if not are_ids:
        return multiply(cut(job[start:]), scalar)
    lengths = struct.unpack_from(f"<{items}I", job, start)
    start += 4 * items
    ends = list(accumulate(lengths, initial=start))
    names = (job[start:end] for start, end in pairwise(ends))
    return multiply(hash_to_points(names, salt), scalar)


def serve(jobs: Iterator[bytes]) -> Iterator[bytes]:
    """In another process: answer packed jobs, with nothing where a point has small order."""
    for job in jobs:
        try:
            yield work(job)
        except ValueError:
            yield b""
