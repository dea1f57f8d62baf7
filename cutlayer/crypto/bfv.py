"""BFV on Microsoft SEAL: the fast backend. One multiplication serves a whole chunk of rows (packing.py).

Circuit privacy: from a bare product the key owner reads the evaluator's rows off by linear algebra, both
from `c1 = sum_i a_i p_i`, as it knows every a_i, and from the noise `sum_i e_i p_i`. So each result gets
a fresh public-key encryption of zero (c1 becomes an RLWE sample), a flood on c0 (flood.py), a uniform
mask modulo t on every coefficient, and modulus switches, which also make it smaller.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlayer.blocks import cores
from cutlayer.crypto import bodies, layout
from cutlayer.crypto.context import N, context_of
from cutlayer.crypto.envelope import NO_SOURCE, CipherForm, Envelope, MatrixSource, identify, key_named, unwrap
from cutlayer.crypto.flood import flood
from cutlayer.crypto.noisy import Noisy
from cutlayer.crypto.packing import Packing
from cutlayer.crypto.parameters import BFV_FRESH_NOISE, BFV_SETS
from cutlayer.crypto.ring import Residues, Ring
from cutlayer.crypto.rows import PlainRows
from cutlayer.crypto.scheme import Encrypted, PublicKey, Scheme, SecretKey
from cutlayer.crypto.spectrum import factors
from cutlayer.errors import ConfigError, DataError, ProtocolError

Words = NDArray[np.uint64]

OPERANDS_ALONE = 400  # ciphertexts of a matrix, 3 ms each: fewer take longer on two cores, as processes must start


class BfvPublicKey(PublicKey):
    """Multiply blind."""

    def __init__(self, ring: Ring, words: Words) -> None:
        self.ring, self._context = ring, context_of(ring.bits)
        ctx = self._context
        self._body = bodies.write_polynomials(words, ctx.primes[CipherForm.KEY])
        self.parameters, self.key_id = ctx.parameters, identify(ctx.parameters, self._body)
        self._key = ctx.context.from_public_str(ctx.prefix[CipherForm.KEY] + words.tobytes())
        self._encryptor = ctx.seal.Encryptor(ctx.context, self._key)

    def to_bytes(self) -> bytes:
        """The bytes that cross: 0.46 MB."""
        return Envelope(CipherForm.KEY, self.parameters, self.key_id, (1, 1), NO_SOURCE, len(self._body)).wrap(
            self._body
        )

    def multiply(self, rows: PlainRows, encrypted: Encrypted, mask: Residues, sanitise: bool) -> Sequence[object]:
        """Multiply chunk by chunk of rows, and sanitise each result."""
        ctx, results = self._context, []
        packing = ctx.packing(encrypted.source)
        pieces = list(rows.chunks(packing.capacity))
        for number, (lines, span, places) in enumerate(packing.chunks(rows.shape[0])):
            block, piece = divmod(number, len(pieces))
            operands: tuple[Any, ...] = encrypted.parts[block * packing.groups : (block + 1) * packing.groups]
            cover = self.ring.uniform((N,))
            cover[places] = mask[lines, span]
            product = self._product(pieces[piece], packing, operands)
            ctx.evaluator.add_plain_inplace(product, ctx.plain(cover.view(np.uint64)))
            if sanitise:
                self._sanitise(product, pieces[piece].absolute_sum())
                ctx.evaluator.mod_switch_to_inplace(product, ctx.last)
            results.append(product)
        return results

    def _product(self, chunk: PlainRows, packing: Packing, operands: tuple[Any, ...]) -> Any:
        """The bare sum of products; of all-zero rows a fresh zero, as SEAL has no ciphertext without randomness."""
        ctx, total = self._context, None
        for groups, table in packing.multipliers(chunk):
            for group, factor in zip(groups, factors(ctx, self.ring.bits, table), strict=True):
                term = ctx.evaluator.multiply_plain(operands[group], factor)
                if total is None:
                    total = term
                else:
                    ctx.evaluator.add_inplace(total, term)
        if total is None:
            return self._encryptor.encrypt_zero()
        ctx.evaluator.transform_from_ntt_inplace(total)
        return total

    def _sanitise(self, product: Any, amplified: int) -> None:
        """Add a fresh zero and the flood; refuse rows so large that their noise would show through it."""
        ctx = self._context
        noise = BFV_FRESH_NOISE * (amplified + 1)
        if N * noise << ctx.statistical_bits > 2 << ctx.flood_bits:
            raise DataError(
                f"Expected rows whose noise a flood of {ctx.flood_bits} bits can drown, but they sum to "
                f"{amplified.bit_length()} bits; use fewer rows at once or a smaller fraction."
            )
        ctx.evaluator.add_inplace(product, self._encryptor.encrypt_zero())
        drown = np.zeros((2, len(ctx.primes[CipherForm.OPERAND]), N), np.uint64)
        drown[0] = flood(ctx.flood_bits, ctx.primes[CipherForm.OPERAND], N)
        ctx.evaluator.add_inplace(product, ctx.cipher(ctx.first_prefix, drown))

    def body_bytes(self, form: CipherForm, shape: tuple[int, int], source: MatrixSource) -> int:
        """The exact size of a body, known before it is read."""
        if form is CipherForm.OPERAND:
            return bodies.operand_bytes(self._context, source)
        return bodies.result_bytes(self._context, shape[0], source)

    def pack(self, encrypted: Encrypted) -> bytes:
        """The body of an encrypted matrix: its polynomials as bytes."""
        parts: tuple[Any, ...] = encrypted.parts
        if encrypted.form is CipherForm.OPERAND:
            return bodies.write_operand(self._context, encrypted.seed, parts)
        return bodies.write_result(self._context, encrypted.shape[0], encrypted.source, parts)

    def unpack(
        self, body: memoryview, form: CipherForm, shape: tuple[int, int], source: MatrixSource
    ) -> tuple[Sequence[object], bytes]:
        """The ciphertexts and the seed of a body."""
        if form is CipherForm.OPERAND:
            return bodies.read_operand(self._context, body)
        return bodies.read_result(self._context, body, shape[0], source), b""


class BfvSecretKey(SecretKey):
    """Encrypt and decrypt."""

    def __init__(self, ring: Ring) -> None:
        self._context = ctx = context_of(ring.bits)
        generator = ctx.seal.KeyGenerator(ctx.context)
        secret, public = generator.secret_key(), generator.create_public_key()
        words = layout.residues(public.to_string(), len(ctx.primes[CipherForm.KEY]), N)
        self.public: BfvPublicKey = BfvPublicKey(ring, words)
        self._noisy = Noisy(ring.bits)
        self._decryptor = ctx.seal.Decryptor(ctx.context, secret)
        self._factor = ctx.seal.Plaintext()  # the secret as a factor in NTT form, for `_hide`
        count = len(ctx.primes[CipherForm.OPERAND]) * N
        inside = secret.to_string()[layout.PLAIN_BYTES :][: 8 * count]
        self._factor.load_bytes(ctx.context, layout.plain_prefix(count, ctx.first) + inside)

    def encrypt(self, matrix: Residues, for_rows: int = 0) -> Encrypted:
        """Encrypt with the secret key: half of every ciphertext grows from a seed."""
        ctx, (rows, columns) = self._context, self.public.ring.check(matrix).shape
        self.public.check_shape(rows, columns, for_rows + 1)
        source, seed = MatrixSource(rows, columns, for_rows), os.urandom(bodies.SEED_BYTES)
        packing = ctx.packing(source)
        parts: Sequence[Any]
        if cores.count() > 1 and packing.operands >= OPERANDS_ALONE:
            parts = cores.spread(  # as processes: SEAL holds Python's lock
                "cutlayer.crypto.noisy",
                self.public.ring.bits.to_bytes(1, "little"),
                packing.operands,
                lambda number: packing.polynomial(matrix, number).tobytes(),
                lambda number, noisy: self._hide(np.frombuffer(noisy, np.uint64), seed, number),
                processes=cores.count(),
                doing="encrypts",
                instead="memory may be short, and on one core (taskset -c 0) there is none",
            )
        else:
            polynomials = enumerate(packing.operand(matrix))
            parts = [self._hide(self._noisy.words(polynomial), seed, i) for i, polynomial in polynomials]
        return Encrypted(self.public, CipherForm.OPERAND, (rows, columns), source, tuple(parts), seed)

    def noise_budget(self, encrypted: Encrypted) -> int:
        """Bits of room left in the noisiest ciphertext; for the owner's own diagnosis only, never told to a peer."""
        return min(int(self._decryptor.invariant_noise_budget(part)) for part in encrypted.parts)

    def _hide(self, noisy: Words, seed: bytes, index: int) -> Any:
        """From m + e to (m + e - b s, b), where b grows from the seed. Here alone is the secret used."""
        ctx, primes = self._context, np.array(self._context.primes[CipherForm.OPERAND], np.uint64)[:, None]
        second = ctx.second_half(seed, index)
        moved = ctx.cipher(ctx.prefix[CipherForm.OPERAND], np.stack([second, second]))
        ctx.evaluator.multiply_plain_inplace(moved, self._factor)
        product = layout.residues(moved.to_string(), len(primes), N)[0]
        first = (noisy.reshape(product.shape) + primes - product) % primes
        return ctx.cipher(ctx.prefix[CipherForm.OPERAND], np.stack([first, second]))

    def open(self, encrypted: Encrypted) -> Residues:
        """Decrypt every ciphertext and take the coefficients that hold numbers."""
        packing = self._context.packing(encrypted.source)
        parts = [self._coefficients(part) for part in encrypted.parts]
        if encrypted.form is CipherForm.OPERAND:
            return packing.read_operand(parts)
        out = np.empty(encrypted.shape, np.int64)
        for coefficients, (lines, span, places) in zip(parts, packing.chunks(encrypted.shape[0]), strict=True):
            out[lines, span] = coefficients[places]
        return out

    def _coefficients(self, cipher: Any) -> Residues:
        if cipher.is_ntt_form():
            cipher = self._context.evaluator.transform_from_ntt(cipher)
        return layout.coefficients(self._decryptor.decrypt(cipher).to_bytes(), N).view(np.int64)


class Bfv(Scheme):
    """BFV for a ring of 40, 48 or 56 bits."""

    def __init__(self, ring: Ring) -> None:
        if ring.bits not in BFV_SETS:
            raise ConfigError(
                f"Expected a ring of one of {', '.join(map(str, BFV_SETS))} bits for BFV, got {ring.bits}."
            )
        self.ring = ring

    def generate(self) -> BfvSecretKey:
        """Make a fresh key pair."""
        return BfvSecretKey(self.ring)

    def read_key(self, data: bytes | memoryview) -> BfvPublicKey:
        """Read a public key that a peer sent."""
        ctx, named = context_of(self.ring.bits), key_named(data)
        primes = ctx.primes[CipherForm.KEY]
        size = 2 * bodies.polynomial_bytes(primes)
        body = unwrap(data, Envelope(CipherForm.KEY, ctx.parameters, named, (1, 1), NO_SOURCE, size))
        key = BfvPublicKey(self.ring, bodies.read_polynomials(body, primes))
        if key.key_id != named:
            raise ProtocolError("Expected a public key whose name matches its bytes, got a damaged one.")
        return key
