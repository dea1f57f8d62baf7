"""Arithmetic on the curve in a few lines of our own, to check the kernel against."""

import gmpy2

from cutlayer.align import kernel

P, A, L = kernel.P, kernel.A, kernel.ORDER


def on_curve(u):
    return gmpy2.legendre(u * (u * u + A * u + 1) % P, P) == 1


def ladder(scalar, u):
    """u of scalar * point by the Montgomery ladder, for any scalar, clamped or not; None for the neutral element."""
    x1, x2, z2, x3, z3 = u, 1, 0, u, 1
    for bit in reversed(range(256)):
        swap = scalar >> bit & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a, c * b
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        e = a * a - b * b
        x2, z2 = a * a * b * b % P, e * (a * a + (A - 2) // 4 * e) % P
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return x2 * pow(z2, -1, P) % P if z2 % P else None


def number(data):
    return int.from_bytes(bytes(data), "little")
